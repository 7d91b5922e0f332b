"""The logistic function: the gate of recurrent cells and of Swish."""

import numpy as np

from numformer.checks import check_array


def sigmoid(x):
    r"""The logistic function, without overflow on either side.

    .. math:: \sigma(x) = 1 / (1 + e^{-x})

    Parameters
    ----------
    x : ndarray, any shape

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `sigmoid_backward`.

    Raises
    ------
    TypeError
        If `x` is not an array of floats.

    Examples
    --------
    >>> sigmoid(np.array([-1e4, 0.0, 1e4]))[0]
    array([0. , 0.5, 1. ])
    """
    check_array("sigmoid", "x", x, "(...)")
    positive = x.real >= 0
    decay = np.exp(np.where(positive, -x, x))        # e^-|x|, at most 1
    y = np.where(positive, 1, decay) / (1 + decay)

    saved = (y,)
    return y, saved


def sigmoid_backward(dy, saved):
    r"""The gradient of `sigmoid`.

    .. math:: \bar{x} = \bar{y}\, y (1 - y)

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    y, = saved

    # y = 1 / (1 + exp(-x))
    return dy * y * (1 - y)
