"""Flags of `train`: one for each field of a config, with the help of its docstring."""

import argparse
import inspect
import json
import re
from dataclasses import fields
from typing import get_args

from numformer.commands import UsageError
from numformer.models import KINDS
from numformer.recipes import RECIPES, TASKS, Recipe
from numformer.training import TrainingConfig


def add_config_flags(parser):
    """Add a flag for each field of all model configs, recipes and the training config."""
    from_the_data = set().union(*(task.from_the_data for task in TASKS.values()))
    flags = set()
    for title, configs in (("model", [config for _, config in KINDS.values()]),
                           ("recipe", RECIPES.values()), ("training", [TrainingConfig])):
        group = parser.add_argument_group(f"{title} options that override the preset")
        for config in configs:
            described = described_parameters(config)
            for field in fields(config):
                if field.name not in from_the_data | flags:
                    _add_flag(group, field, described.get(field.name, ""))
                    flags.add(field.name)


def described_parameters(config):
    """The parameters in the docstrings of a config and its bases: {name: "type: description"}.

    Examples
    --------
    >>> described_parameters(TrainingConfig)["patience"]
    'int: Stop after this many validations in a row without improvement; 0 for never.'
    """
    pages = [inspect.getdoc(kind) for kind in reversed(config.__mro__)
             if hasattr(kind, "__dataclass_fields__")]
    sections = "\n".join(page.split("Parameters\n----------\n")[1].split("\n\n")[0]
                         for page in pages if "Parameters\n---" in page)
    entries = re.findall(r"^(\S.*?) : (.*)\n((?:    .*(?:\n|$))*)", sections, flags=re.MULTILINE)
    return {name: f"{kind}: {' '.join(text.split())}"
            for names, kind, text in entries for name in names.split(", ")}


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


def _add_flag(group, field, described):
    """A flag for one field of a config; None unless given."""
    described, flag, kind = described.replace("%", "%%"), flag_of(field.name), field.type
    if kind in (bool, bool | None):
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None,
                           help=described)
    else:
        kind, *_ = get_args(kind) or (kind,)                          # of `int | None`: int
        kind = _json if kind is dict else kind
        group.add_argument(flag, type=kind, default=None, help=described,
                           metavar={int: "N", float: "X", str: "WORD", _json: "JSON"}[kind])


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
