"""`numformer.check` on the references themselves: right for every seed, and finite."""

from dataclasses import replace

import numpy as np
import pytest
from many_seeds import refused

from marks import every
from numformer.specifications import PROBLEMS, Instance
from numformer.teaching.rounding import _distance


@pytest.mark.parametrize("name", every(8, PROBLEMS))
def test_a_reference_is_right_and_tested_on_all_levels(name):
    assert not list(refused([11], [name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_reference_is_right_for_many_seeds(name):
    assert not list(refused(range(100, 106), [name]))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_reference_that_is_not_finite_is_found(number, monkeypatch):
    """A NaN in a reference would make any NaN right."""
    problem = PROBLEMS["relu"]

    def broken(dy, saved):
        dx = problem.gradient(dy, saved)
        dx.flat[-1] = number
        return dx

    monkeypatch.setitem(PROBLEMS, "relu", replace(problem, gradient=broken))
    ((called, seed, why),) = refused([5], ["relu"])   # the forward alone is right
    assert called == "relu_backward"
    assert why.startswith("relu, plain, seed 5: dx of the reference is not finite.")
    with pytest.raises(AssertionError, match="is not finite"):
        Instance(PROBLEMS["relu"], "plain", 5).exact


def test_where_a_step_overflows_nothing_more_is_allowed():
    """The error of a number near the largest float may be infinite."""
    assert np.array_equal(_distance(np.array([np.inf, np.nan, 1.0]), np.ones(3)), [0, 0, 0])
