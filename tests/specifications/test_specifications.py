"""Every function pair has its specification, whose fields are all there and fit."""

import inspect

import numpy as np
import pytest

from numformer import functional as F
from numformer.specifications import SPECIFICATIONS

PAIRS = [name for name in F.__all__ if f"{name}_backward" in F.__all__]


@pytest.mark.parametrize("name", PAIRS)
def test_every_function_pair_is_specified(name):
    where = f"specify(F.{name}, ...) on the page of its family in numformer/specifications"
    assert name in SPECIFICATIONS, (
        f"{name} has no specification: write {where}, with the arguments that have a gradient, "
        "levels (random problems, which the audit reads, too), likely mistakes, other versions.")
    found = SPECIFICATIONS[name]
    case = found.cases[0] if found.cases else None
    assert case, f"{name} has no case for the audit: write cases=[Pair(...)] in {where}."
    y, _ = found.function(*case.before, *case.inputs(), *case.after,
                          **case.options() if callable(case.options) else case.options)
    assert found.levels or isinstance(y, tuple), (
        f"{name} has no level, so that check does not know it: write at least a plain one, a "
        f"function of rng that returns its arguments and options, in {where}.")


@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_the_fields_fit_the_function(name):
    found = SPECIFICATIONS[name]
    assert found.function is getattr(F, name) and found.gradient is getattr(F, f"{name}_backward")
    assert set(found.wanted) <= set(inspect.signature(found.function).parameters)
    assert all(case.gradient is found.gradient for case in found.cases)
    for level in found.levels.values():
        arguments, options = level(np.random.default_rng(0))
        assert set(found.wanted) - set(arguments) <= {"bias", "recurrent_bias"}
        inspect.signature(found.function).bind(*arguments.values(), **options)
