"""The slopes of ALiBi. The penalty itself, slope times distance, is the modifier `alibi`."""

import math

import numpy as np

from numformer.checks import check_whole


def alibi_slopes(n_heads):
    r"""One slope per head, in a geometric sequence: some heads attend nearby, some far away.

    .. math:: m_h = 2^{-8 (h + 1) / H}, \qquad h = 0 \dots H - 1

    for H a power of two. For other H, the slopes are those of the next lower power, followed by
    every second slope of the next higher one, as in the authors' code.

    Parameters
    ----------
    n_heads : int
        H.

    Returns
    -------
    ndarray, shape (H,), float64

    References
    ----------
    Press, Smith, Lewis (2022), "Train Short, Test Long", section 3.

    Examples
    --------
    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    check_whole("alibi_slopes", "n_heads", n_heads)
    power = 2 ** int(math.log2(n_heads))
    slopes = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    rest = np.arange(n_heads - power)                    # every second slope of twice the power
    return np.concatenate([slopes, 2.0 ** (-4 * (1 + 2 * rest) / power)])
