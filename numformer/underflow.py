"""Underflow to 0 is no error: not even where a program has set `np.seterr(all="raise")`.

The weight of a key 400 nats below the best one is e^-400, which is 0 in float32: so it should be.
NumPy ignores underflow by default. Who turns it into an error, to find a NaN where it begins, still
gets divisions by 0, overflow and invalid operations as errors from the functions of this package.
"""

import numpy as np

# A decorator; what the caller has set for the other kinds stays
underflow_is_zero = np.errstate(under="ignore")


def squarable(x):
    """x in float64; divided by its largest number if that is so small or large that squares of it
    would be 0 or infinite.

    For ratios and directions, which the division does not change.

    Examples
    --------
    >>> squarable(np.array([1e-200, -2e-200])), squarable(np.array([3.0, 4.0]))
    (array([ 0.5, -1. ]), array([3., 4.]))
    """
    x = x.astype(np.float64)
    largest = np.abs(x).max(initial=0.0)
    if 1e-100 < largest < 1e100 or largest == 0 or not np.isfinite(largest):
        return x
    with np.errstate(under="ignore"):
        return x / largest
