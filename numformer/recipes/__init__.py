"""What `numformer train` can train: one page a family of presets, and one table of all presets."""

from numformer.recipes import (
    bart, bert, characters, fine_tuning, language_models, seq2seq, t5, translate, vit)
from numformer.recipes.characters import TextTask, first_prompt
from numformer.recipes.pairs import PairTask
from numformer.recipes.preset import Claim, Preset, all_claims, preset_and_start
from numformer.recipes.recipe import RECIPES, Recipe, recipe_of
from numformer.recipes.task import Task

PRESETS = {
    **characters.PRESETS, **language_models.PRESETS, **seq2seq.PRESETS, **translate.PRESETS,
    **t5.PRESETS, **bart.PRESETS, **bert.PRESETS, **fine_tuning.PRESETS, **vit.PRESETS,
}
TASKS = {task.name: task for task in (                                    # named in checkpoints
    *(preset.task for preset in PRESETS.values()), vit.ImageTask())}

__all__ = [
    "Claim", "PRESETS", "PairTask", "Preset", "RECIPES", "Recipe", "TASKS", "Task", "TextTask",
    "all_claims", "first_prompt", "preset_and_start", "recipe_of",
]
