"""Flags of `train`: one for each field of a config, and the help of a preset's own."""

import argparse
import json
from dataclasses import MISSING, fields

from numformer.commands import UsageError
from numformer.config import plain_type
from numformer.models import KINDS
from numformer.recipes import PRESETS, RECIPES, TASKS, Recipe
from numformer.terminal import did_you_mean
from numformer.training import TrainingConfig

WORDS = {int: "N", float: "X", dict: "JSON", str: "WORD"}             # of values in help


def add_config_flags(parser):
    """Add a flag for each field of all model configs, recipes and the training config.

    They have no help here, because a field of one name is another option in another model: see
    `options_of`.
    """
    from_the_data = set().union(*(task.from_the_data for task in TASKS.values()))
    flags = set()
    for config in (*(config for _, config in KINDS.values()), *RECIPES.values(), TrainingConfig):
        for field in fields(config):
            if field.name not in from_the_data | flags:
                _add_flag(parser, field)
                flags.add(field.name)


def chosen_preset(name):
    """The preset of this name; UsageError if there is none."""
    if name not in PRESETS:
        raise UsageError(f"--preset {name} is unknown{did_you_mean(name, PRESETS)}; choose from "
                         f"{', '.join(PRESETS)}.")
    return PRESETS[name]


def options_of(preset):
    """The fields that flags can set in a preset: (title, [(field, default there)], n) of each part.

    The first n are those that the preset sets itself, and of these first what has no default.
    """
    chosen = chosen_preset(preset)
    for title, config, given in (
            (f"model: {chosen.kind}", KINDS[chosen.kind][1], chosen.model),
            ("recipe", RECIPES.get(chosen.kind, Recipe), chosen.recipe),
            ("training", TrainingConfig, chosen.training)):
        known = {field.name: field for field in fields(config)
                 if field.name not in (*chosen.task.from_the_data, *chosen.task.unused)}
        own = sorted((name for name in given if name in known),
                     key=lambda name: known[name].default is not MISSING)
        names = [*own, *(name for name in known if name not in given)]
        yield (title, [(known[name], given.get(name, known[name].default)) for name in names],
               len(own))


def overrides(arguments, config):
    """The fields of a config that were given as flags."""
    given = {field.name: getattr(arguments, field.name, None) for field in fields(config)}
    return {name: value for name, value in given.items() if value is not None}


def check_flags(arguments, kind, task, owner):
    """Refuse flags of other models than this kind, and those that the task's trainer ignores."""
    known = {field.name for config in (KINDS[kind][1], RECIPES.get(kind, Recipe))
             for field in fields(config)}
    for config in (*(config for _, config in KINDS.values()), *RECIPES.values()):
        for name in overrides(arguments, config):
            if name not in known:
                raise UsageError(f"{flag_of(name)} is not an option of {kind}, which {owner} "
                                 "trains; leave it out.")
    for name in overrides(arguments, TrainingConfig):
        if name in task.unused:
            raise UsageError(f"{flag_of(name)} has no effect on {owner}, which is trained without "
                             "gradients; leave it out.")


def flag_of(name):
    """The flag of a field: "--n-heads" for "n_heads"."""
    return "--" + name.replace("_", "-")


def flag_and_value(field):
    """The flag of a field as help shows it, such as "--n-heads N" or "--[no-]tied"."""
    kind, _ = plain_type(field.type)
    if kind is bool:
        return flag_of(field.name).replace("--", "--[no-]", 1)
    return f"{flag_of(field.name)} {WORDS[kind]}"


def _add_flag(parser, field):
    """A flag for one field of a config; None unless given."""
    kind, _ = plain_type(field.type)
    options = ({"action": argparse.BooleanOptionalAction} if kind is bool else
               {"type": _json if kind is dict else kind})
    parser.add_argument(flag_of(field.name), default=None, help=argparse.SUPPRESS, **options)


def _json(text):
    """What a flag of several values holds, such as '{"kind": "linear", "factor": 2.0}'."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be an object of JSON, such as '{{\"kind\": \"linear\", ...}}'")
    return found
