"""`numformer.check` on the references themselves: right for every seed, and finite.

    python tests/teaching/verdicts/test_references.py 1000         # seeds 0 to 999: 40 minutes
    python tests/teaching/verdicts/test_references.py 1000 5000    # from 5000 on
"""

import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from marks import every
from numformer import backend, check
from numformer.specifications import PROBLEMS, Instance
from numformer.teaching.rounding import _distance


def refused(seeds, names=PROBLEMS):
    """(name, seed, why) of every reference that is not simply right, or is not finite."""
    for seed in seeds:
        for name in names:
            for called, function in ((name, PROBLEMS[name].function),
                                     (f"{name}_backward", PROBLEMS[name].gradient)):
                try:
                    verdict = check(called, function, seed, seconds=None, memory=None,
                                    process=False, cause=False)
                except AssertionError as error:       # of `Instance`
                    yield called, seed, str(error)
                    continue
                if not verdict or verdict.remarks or "Not tested" in verdict.text:
                    yield called, seed, verdict.text


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
    ((called, seed, why),) = list(refused([5], ["relu"]))[1:]
    assert called == "relu_backward"
    assert why.startswith("relu, plain, seed 5: dx of the reference is not finite.")
    with pytest.raises(AssertionError, match="is not finite"):
        Instance(PROBLEMS["relu"], "plain", 5).exact


def test_where_a_step_overflows_nothing_more_is_allowed():
    """The error of a number near the largest float may be infinite."""
    assert np.array_equal(_distance(np.array([np.inf, np.nan, 1.0]), np.ones(3)), [0, 0, 0])


def main(count=10, first=0):
    backend.use("numpy")
    started, found = time.perf_counter(), []
    for called, seed, why in refused(range(first, first + count)):
        found.append(why)
        print(f"{called}, seed {seed}: {why}", flush=True)
    not_finite = sum("is not finite" in why for why in found)
    print(f"{2 * len(PROBLEMS)} references, {count} seeds each: {len(found) - not_finite} refused, "
          f"{not_finite} not finite; {time.perf_counter() - started:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
