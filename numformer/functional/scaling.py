"""Sums of squares of any size: numbers are divided by a power of two first, where that is needed.

The square of 1e20 overflows in float32, and that of 1e-23 underflows, though the root of the sum is
an ordinary number: a norm, a standard deviation, a distance. Divided by a power of two near the
largest of them, no number is above 2; what underflows then is far below the rounding of the sum.
Such a division changes only the exponent of a number, so it is exact. Numbers of ordinary size are
left as they are.
"""

from functools import lru_cache

import numpy as np


def rescaled(x, epsilon=0.0, axis=-1):
    """x / scale, and scale: powers of two along an axis, such that squares stay in range.

    Parameters
    ----------
    x : ndarray
    epsilon : float
        What is added to the sum or the mean of the squares: it may be the larger of the two.
    axis : int, or None for all axes

    Returns
    -------
    x : ndarray
        The array itself if everything is of ordinary size.
    scale : ndarray with `axis` of size 1; 1.0 if everything is of ordinary size

    Examples
    --------
    >>> x, scale = rescaled(np.array([3e300, 4e300]))
    >>> float(((x * x).sum() ** 0.5 * scale)[0] / 5e300)
    1.0
    >>> rescaled(np.array([3.0, 4.0]))
    (array([3., 4.]), 1.0)
    """
    real = x.real                                    # of a complex step, whose imaginary part is 0
    low, high = _ordinary(real.dtype)
    size = np.maximum(real.max(axis=axis, keepdims=True, initial=0),
                      -real.min(axis=axis, keepdims=True, initial=0))
    size = np.maximum(size, float(epsilon) ** 0.5)
    ordinary = (low <= size) & (size <= high)
    if ordinary.all():
        return x, 1.0
    ordinary |= (size == 0) | ~np.isfinite(size)
    if ordinary.all():
        return x, 1.0
    exponent = np.where(ordinary, 0, np.frexp(size)[1] - 1)
    scale = np.ldexp(real.dtype.type(1), exponent)
    return x / scale, scale


@lru_cache(maxsize=None)
def _ordinary(dtype):
    """The smallest and the largest number of which squares can be added, in a dtype."""
    limits, one = np.finfo(dtype), dtype.type(1)
    low = np.ldexp(one, limits.minexp // 2 + limits.nmant)       # an ulp of it has a normal square
    return low, np.ldexp(one, limits.maxexp // 2 - 16)           # 2^31 such squares may be added


def sums_of_squares(arrays):
    """For each array the sum of the squares of its elements, in float64.

    Examples
    --------
    >>> sums_of_squares([np.array([3, 4], np.float32), np.ones(2)])
    [25.0, 2.0]
    """
    return [float(np.square(x, dtype=np.float64).sum()) for x in arrays]
