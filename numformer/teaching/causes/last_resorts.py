"""What the numbers show where no mistake explains them: digits, places, factors by entry."""

import numpy as np

from numformer.teaching.causes.evidence import SAME, same

DIGITS = (1e-11, 1e-5)                                # relative errors of lost precision
MOSTLY = 0.8                                          # of the numbers at a position
MOST = 64                                             # entries along an axis


def last_resort(evidence):
    """What holds of the first wrong output on all problems on which it is wrong; "" if nothing."""
    name = evidence.wrong
    pairs = [(case.found[evidence.place], np.asarray(case.expected[name]))
             for case in evidence.cases if not case.passed]
    if any(found.shape != right.shape or not np.isfinite(found).all() or not right.any()
           for found, right in pairs):
        return ""
    for find in (_digits, _factors_along_an_axis, _only_at, _other_places):
        cause = find(name, pairs)
        if cause:
            return cause
    return ""


def _digits(name, pairs):
    """Few digits are lost: precision, an approximation, or a constant with few digits."""
    errors = [np.abs(found - right).max() / np.abs(right).max() for found, right in pairs]
    if not all(DIGITS[0] < error < DIGITS[1] for error in errors):
        return ""
    digits = int(-np.log10(max(errors)))
    if all(np.array_equal(found, found.astype(np.float32)) for found, _ in pairs):
        return (f"{name} is right to {digits} digits and has no more than float32 holds: it was "
                "computed in float32, or stored in it")
    return (f"{name} is right to {digits} digits: something inside is of float32, or a constant is "
            "rounded, or a formula is an approximation")


def _only_at(name, pairs):
    """All that is wrong is at one end of an axis, or in one half of it."""
    for axis in range(pairs[0][0].ndim):
        places = [_wrong_along(found, right, axis) for found, right in pairs]
        for words, of_size in PARTS_OF_AN_AXIS.items():
            if all(wrong and wrong == set(of_size(right.shape[axis]))
                   for wrong, (_, right) in zip(places, pairs)):
                return f"{name} is wrong {words} along axis {axis}, and right elsewhere"
    return ""


PARTS_OF_AN_AXIS = {                                   # in words: which positions of n
    "at the first position alone": lambda n: range(1 if n > 1 else 0),
    "at the last position alone": lambda n: range(n - 1 if n > 1 else n, n),
    "everywhere but at the first position": lambda n: range(1, n if n > 2 else 1),
    "everywhere but at the last position": lambda n: range(n - 1 if n > 2 else 0),
    "in the first half": lambda n: range(0 if n % 2 else n // 2),
    "in the second half": lambda n: range(n if n % 2 else n // 2, n)}


def _wrong_along(found, right, axis):
    """The positions along an axis at which numbers are wrong; none if most are right there."""
    wrong = np.abs(found - right) > SAME * np.abs(right).max()
    share = wrong.mean(axis=tuple(k for k in range(right.ndim) if k != axis))
    return set(np.flatnonzero(share)) if (share[share > 0] > MOSTLY).all() else set()


def _factors_along_an_axis(name, pairs):
    """Right times a number of its own for each entry along one axis."""
    for axis in range(pairs[0][0].ndim):
        told = [_factors(found, right, axis) for found, right in pairs
                if right.size >= 3 * right.shape[axis]]               # others fit a factor anyway
        if told and all(told) and any(len(set(factors)) > 1 for factors in told):
            shown = ", ".join(f"{factor:.4g}" for factor in told[0][:6])
            more = ", ..." if len(told[0]) > 6 else ""
            return (f"{name} is right times a number of its own for each entry along axis {axis}: "
                    f"{shown}{more}")
    return ""


def _factors(found, right, axis):
    """The factor of each entry along an axis; () if there is not one for each."""
    size = right.shape[axis]
    if size > MOST:
        return ()
    factors = []
    for one, other in zip(np.moveaxis(found, axis, 0), np.moveaxis(right, axis, 0)):
        if not other.any():
            return ()
        factor = float((one * other).sum() / (other * other).sum())
        close = np.abs(one - factor * other).max() <= SAME * np.abs(other).max()
        if not close:
            return ()
        factors.append(round(factor, 9))
    return tuple(factors)


def _other_places(name, pairs):
    """The right numbers, at other places."""
    if not all(same(np.sort(found, axis=None), np.sort(right, axis=None), found.ravel())
               for found, right in pairs):
        return ""
    for axis in range(pairs[0][1].ndim):
        order = [_order(found, right, axis) for found, right in pairs]
        if all(order):
            shown = ", ".join(map(str, order[0][:8])) + (", ..." if len(order[0]) > 8 else "")
            return (f"the numbers of {name} are right, but along axis {axis} they are in the order "
                    f"{shown}")
    return (f"the numbers of {name} are right, but at other places: look for another order of "
            "axes, of loops or of an index")


def _order(found, right, axis):
    """Which right entry stands where along an axis; () if there is no such order."""
    size = right.shape[axis]
    if not 1 < size <= MOST:
        return ()
    found, right = (np.moveaxis(x, axis, 0).reshape(size, -1) for x in (found, right))
    order = [next((j for j in range(size) if same(found[i], right[j], found[i] + 1)), None)
             for i in range(size)]
    return tuple(order) if sorted(order, key=str) == sorted(range(size), key=str) else ()
