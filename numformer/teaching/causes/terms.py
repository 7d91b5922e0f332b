r"""A term of the reference times a number that is found from the student's own numbers.

Where a line of the reference is :math:`y = t + u`, the outputs are often linear in a factor of t:

.. math:: y(\alpha) = y(0) + \alpha\, (y(1) - y(0))

y(1) is right, and y(0) comes from the reference without the term. If the student's numbers are
y(alpha) for one alpha, the mistake is a factor of this term, whatever its number: a size, a half, a
sign, a mean in place of a sum.
"""

import numpy as np

from numformer.teaching.causes.evidence import SAME
from numformer.teaching.causes.relations import size_formulas
from numformer.teaching.mutations import pairs_of
from numformer.teaching.mutations.statements import terms_left_out


def scaled_terms(evidence):
    """(cost, cause, make) of each term whose factor gives the numbers of the first wrong output."""
    case = evidence.cases[0]
    for pair in pairs_of(evidence.name):
        for mutant in pair.made_from(terms_left_out, case.dy, *case.inputs()):
            factors = [_factor(evidence, case, evidence.wrong_output_with(pair, [mutant], case))
                       for case in evidence.cases]
            told = None if None in factors else _told([f for f in factors if f], evidence)
            cause = evidence.told(mutant) if told else ""
            if cause:
                yield (2, cause.replace("times #", f"times {told}"),
                       lambda each, pair=pair, mutant=mutant: _with_factor(
                           evidence, each, evidence.wrong_output_with(pair, [mutant], each)))


def _factor(evidence, case, without):
    """alpha; "" where the term is 0, so that any would do; None where no alpha fits.

    `without` is the first wrong output without the term, None if there is none.
    """
    right, found = np.asarray(case.expected[evidence.wrong]), case.found[evidence.place]
    if (without is None or found.shape != right.shape
            or not np.isfinite(without).all() or not np.isfinite(found).all()):
        return None
    term, rest = right - without, found - without
    largest = np.abs(right).max(initial=0)
    if np.abs(term).max(initial=0) <= SAME * largest:
        return "" if np.abs(rest).max(initial=0) <= SAME * largest else None
    if np.abs(without).max(initial=0) <= SAME * largest:  # all of it: `relations` tells factors
        return None
    alpha = float((term * rest).sum() / (term * term).sum())
    close = np.abs(rest - alpha * term).max() <= SAME * np.abs(rest).max(initial=0)
    return alpha if close and abs(alpha) > SAME else None


def _told(factors, evidence):
    """A factor in words: a number, or a size; "" for one that is neither, or is 1."""
    if not factors or all(abs(factor - 1) < 1e-6 for factor in factors):
        return ""
    if max(factors) - min(factors) < SAME * abs(factors[0]):
        return f"{factors[0]:.6g}" if len(factors) > 1 else ""
    formulas = size_formulas(factors, evidence.cases[:len(factors)])
    return formulas[0] if len(formulas) == 1 else ""


def _with_factor(evidence, case, without):
    """All outputs, the wrong one with the factor that fits best."""
    alpha, right = _factor(evidence, case, without), np.asarray(case.expected[evidence.wrong])
    return evidence.in_wrong_alone(
        case, right if alpha in ("", None) else without + alpha * (right - without))
