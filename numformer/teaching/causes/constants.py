"""A constant of the reference with another value, which is found from the student's own numbers.

For each number in the code the one value is looked for, by the secant method, with which a weighted
sum of the outputs is that of the student's. If then all outputs are, that is the mistake.
"""

import numpy as np

from numformer.teaching.mutations import pairs_of
from numformer.teaching.mutations.statements import numbers_of

STEPS = 12                                                # of the secant method


def other_constants(evidence):
    """(cost, cause, make) of each number whose other value gives the first wrong output."""
    case = evidence.cases[0]
    weights = np.cos(np.arange(np.size(case.found[evidence.place])))      # no sum of them cancels
    for pair in pairs_of(evidence.name):
        for mutant in pair.made_from(numbers_of, case.dy, *case.inputs()):
            value = _solved(lambda x: _sum(evidence, pair, mutant, case, weights, x),
                            mutant.value)
            if value is not None and abs(value - mutant.value) > 1e-9 * abs(mutant.value):
                changed = mutant.with_number(float(f"{value:.7g}"))
                cause = evidence.told(changed)
                if cause:
                    yield 2, cause, (
                        lambda each, pair=pair, changed=changed: evidence.outputs_with(
                            pair, [changed], each))


def _sum(evidence, pair, mutant, case, weights, value):
    """The weighted sum of the errors of the wrong output with this value; NaN if it fails."""
    made = evidence.wrong_output_with(pair, [mutant.with_number(value)], case)
    found = case.found[evidence.place]
    if made is None or made.shape != np.shape(found):
        return np.nan
    with np.errstate(all="ignore"):
        return float(((made - found) * weights.reshape(made.shape)).sum())


def _solved(error, start):
    """Where the error is 0, near a number; None if that is not found."""
    one, two = start, start * 1.01 or 0.01
    at_one, at_two = error(one), error(two)
    for _ in range(STEPS):
        if not np.isfinite([at_one, at_two]).all() or at_one == at_two:
            return None
        one, two = two, two - at_two * (two - one) / (at_two - at_one)
        if not np.isfinite(two):
            return None
        if abs(two - one) <= 1e-10 * abs(two):
            return two
        at_one, at_two = at_two, error(two)
    return None
