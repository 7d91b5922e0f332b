"""What `numformer train` can train: a folder for each kind of data, a page for each family of
presets, and one table of all presets."""

from numformer.recipes import (
    alignment, fine_tuned, library, numbers, text, text_to_text, vision, world)
from numformer.recipes.preset import Claim, Preset, all_claims, preset_and_start
from numformer.recipes.recipe import Recipe
from numformer.recipes.recipe_table import RECIPES, recipe_of
from numformer.recipes.task import Task
from numformer.recipes.text.characters import TextTask, first_prompt
from numformer.recipes.text_to_text.pairs import PairTask
from numformer.recipes.vision.vit import ImageTask

FAMILIES = text, text_to_text, library, vision, world, numbers, alignment
PRESETS = {name: preset for family in FAMILIES for name, preset in family.PRESETS.items()}
TASKS = {task.name: task for task in (                                    # named in checkpoints
    *(preset.task for preset in PRESETS.values()), ImageTask(), *fine_tuned.TASKS)}


def kinds_of(task):
    """The kinds of models that a task trains, a set: those of its presets, and its own `kinds`."""
    return {*task.kinds, *(preset.kind for preset in PRESETS.values()
                           if preset.task.name == task.name)}


__all__ = [
    "Claim", "FAMILIES", "PRESETS", "PairTask", "Preset", "RECIPES", "Recipe", "TASKS", "Task",
    "TextTask", "all_claims", "first_prompt", "kinds_of", "preset_and_start", "recipe_of",
]
