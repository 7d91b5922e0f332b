"""Right answers that are set to 0, doubled, negated, permuted, exchanged are wrong on every level.

The bound of an error grows with the numbers at hand: where it were as large as a number, 0 would be
right. Only what is 0 but for rounding errors may be.
"""

from itertools import combinations

import numpy as np
import pytest

from marks import every
from numformer import backend
from numformer.specifications import PROBLEMS
from numformer.teaching.check import instances_of, offered_levels
from numformer.teaching.comparison import ROUNDINGS, wrong_output
from numformer.teaching.rounding import sizes_of_terms


@pytest.fixture(autouse=True)
def in_numpy():
    with backend.using("numpy"):
        yield


def changed(expected):
    """(output, what, outputs) of right outputs in which one or two are changed."""
    for key, x in expected.items():
        x = np.asarray(x)
        for what, y in (("0", 0 * x), ("doubled", 2 * x), ("negated", -x),
                        ("permuted", np.roll(x.ravel(), 1).reshape(x.shape))):
            if not np.array_equal(x, y):
                yield key, what, expected | {key: y}
    for one, other in combinations(expected, 2):
        x, y = expected[one], expected[other]
        if np.shape(x) == np.shape(y) and not np.array_equal(x, y):
            yield one, f"exchanged with {other}", expected | {one: y, other: x}


def is_zero(key, instance, x):
    """Whether a right output is 0 but for rounding errors."""
    y, gradients = sizes_of_terms(instance)
    terms = np.max(y if key == "y" else gradients[key])
    return np.abs(x).max() <= ROUNDINGS * np.finfo(float).eps * terms


def accepted(name, level, backward):
    """(output, what) of the changed answers that are right on all instances of a level."""
    problem, found = PROBLEMS[name], None
    offered = {level: offered_levels(problem, backward)[level]}
    for _, instances in instances_of(problem, offered, seed=5):
        for instance in instances:
            expected = instance.expected(backward)
            here = {(key, what) for key, what, outputs in changed(expected)
                    if wrong_output(name, outputs.values(), expected, instance) is None
                    and not is_zero(key, instance, expected[key])}
            found = here if found is None else found & here
            if not found:
                return set()
    return found


@pytest.mark.parametrize("name", every(20, PROBLEMS))
def test_a_changed_answer_is_wrong(name):
    assert {(level, backward): found for backward in (False, True)
            for level in offered_levels(PROBLEMS[name], backward) if level != "a long axis"
            if (found := accepted(name, level, backward))} == {}
