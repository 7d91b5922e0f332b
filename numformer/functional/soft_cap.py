"""A ceiling that numbers approach and never pass."""

import numpy as np

from numformer.checks import check_array, check_number


def soft_cap(x, cap):
    r"""Squeeze numbers smoothly between -cap and cap; small ones hardly change.

    .. math:: y = c \tanh(x / c)

    Parameters
    ----------
    x : ndarray, any shape
    cap : float above 0
        c, in the unit of `x`.

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `soft_cap_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` is no array of floats, or the cap is not above 0.

    References
    ----------
    Gemma Team (2024), "Gemma 2", section 2, "Logit soft-capping".

    Examples
    --------
    >>> soft_cap(np.array([1.0, 10.0, 1000.0]), 50.0)[0].round(3)
    array([ 1.   ,  9.869, 50.   ])
    """
    check_array("soft_cap", "x", x, "(...)")
    check_number("soft_cap", "cap", cap, above=0)
    cap = float(cap)
    y = cap * np.tanh(x / cap)

    saved = (y, cap)
    return y, saved


def soft_cap_backward(dy, saved):
    r"""The gradient of `soft_cap`.

    .. math:: \bar{x} = \bar{y} \left( 1 - (y / c)^2 \right)

    Returns
    -------
    dx : ndarray, shape of `dy`
    """
    y, cap = saved

    # y = cap * tanh(x / cap)
    t = y / cap
    return dy * (1 - t * t)
