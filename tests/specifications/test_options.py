"""Every option of every function occurs in a random problem, and with every other option."""

from inspect import signature
from itertools import combinations

import numpy as np
import pytest

from numformer.specifications import PROBLEMS
from numformer.specifications.levels import Level, also, in_pairs, one_array

WITH_DEFAULTS = {name: [parameter.name for parameter in signature(
    problem.function).parameters.values() if parameter.default is not parameter.empty]
    for name, problem in PROBLEMS.items()}


def occurring(name):
    """For each level of a function, the options that it gives."""
    for level in PROBLEMS[name].levels.values():
        arguments, options = level(np.random.default_rng(0))
        left_out = set(PROBLEMS[name].wanted) - set(arguments) if level.optional else set()
        yield {*arguments, *options, *level.needs, *left_out}


@pytest.mark.parametrize("name", [name for name, options in WITH_DEFAULTS.items() if options])
def test_every_option_occurs_alone_and_with_each_other(name):
    found = list(occurring(name))
    for option in WITH_DEFAULTS[name]:
        assert any(option in each for each in found), (
            f"no level of {name} gives {option}: add one, as also(make, {option}=...)")
    for both in combinations(WITH_DEFAULTS[name], 2):
        assert any(set(both) <= each for each in found), f"no level of {name} gives both {both}"


def test_pairs_are_made_of_levels():
    levels = {"plain": one_array(), "axis=0": one_array(axis=0), "b=2": one_array(b=2),
              "a mask": also(one_array(), mask=lambda arguments, rng: arguments["x"] > 0),
              "needs b": Level(one_array(), needs=("b",)),
              "beyond": Level(one_array(c=1), required=False)}
    found = in_pairs({name: make if isinstance(make, Level) else Level(make)
                      for name, make in levels.items()})
    assert set(found) == {"axis=0, b=2", "a mask, axis=0", "a mask, b=2", "needs b, axis=0"}
    arguments, options = found["a mask, axis=0"](np.random.default_rng(0))
    assert options["axis"] == 0 and (options["mask"] == (arguments["x"] > 0)).all()
