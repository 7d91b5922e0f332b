"""Causal convolution: every position sees itself and a few positions before it."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.linear import linear, linear_backward


def causal_convolution(x, weight, bias=None, dilation=1):
    r"""Map a window that ends at each position, with the same weights at every position.

    .. math:: y_t = b + \sum_{k=0}^{K-1} x_{t - (K-1-k)\, d}\, W_k

    where x is 0 before the sequence begins. The last of the K maps is for the position itself, the
    others are for the positions d, 2d, ... before it. With d = 1, 2, 4, ... in successive layers,
    each layer doubles the receptive field.

    Parameters
    ----------
    x : ndarray, shape (B, T, C)
    weight : ndarray, shape (K, C, F)
    bias : ndarray, shape (F,), optional
    dilation : int
        d, the distance between the positions of a window.

    Returns
    -------
    y : ndarray, shape (B, T, F)
    saved : tuple
        For `causal_convolution_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, their widths do not fit, there is no
        position, or the dilation is not a positive integer.

    Notes
    -----
    The windows are copied into one array, (B, T, K C), so that a single product computes all of it;
    this takes K times the memory of `x`.

    References
    ----------
    van den Oord et al. (2016), "WaveNet", section 2.1.

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 4.0, 8.0]).reshape(1, 4, 1)
    >>> earlier_plus_tenth = np.array([1.0, 0.1]).reshape(2, 1, 1)
    >>> causal_convolution(x, earlier_plus_tenth)[0].ravel()
    array([0.1, 1.2, 2.4, 4.8])
    >>> causal_convolution(x, earlier_plus_tenth, dilation=2)[0].ravel()
    array([0.1, 0.2, 1.4, 2.8])
    """
    check_convolution(x, weight, bias, dilation)
    reach = (len(weight) - 1) * dilation             # how far back a window goes
    before = np.zeros((len(x), reach, x.shape[2]), x.dtype)
    y = convolve(np.concatenate([before, x], axis=1), weight, bias, dilation)

    saved = (x, weight, bias is not None, dilation)  # windows are K times as large: recompute them
    return y, saved


def causal_convolution_backward(dy, saved):
    r"""The gradient of `causal_convolution`: a position collects from the later windows it is in.

    .. math::

        \bar{x}_s = \sum_{k=0}^{K-1} \bar{y}_{s + (K-1-k)\, d}\, W_k^\top, \qquad
        \bar{W}_k = \sum_t x_{t - (K-1-k)\, d}^\top\, \bar{y}_t, \qquad \bar{b} = \sum_t \bar{y}_t

    Returns
    -------
    dx : ndarray, shape (B, T, C)
    dweight : ndarray, shape (K, C, F)
    dbias : ndarray, shape (F,), or None where there was no bias
    """
    x, weight, biased, dilation = saved
    K, C, F = weight.shape
    B, T, _ = x.shape
    reach = (K - 1) * dilation
    padded = np.concatenate([np.zeros((B, reach, C), x.dtype), x], axis=1)

    # y = linear(windows(padded), weight, bias)
    saved_linear = (windows(padded, K, dilation), weight.reshape(K * C, F), biased)
    dwindows, dweight, dbias = linear_backward(dy, saved_linear)     # (B, T, K C)

    # windows(padded): position t of window k is padded[t + k * dilation]
    dpadded = np.zeros((B, reach + T, C), dwindows.dtype)
    for k in range(K):
        dpadded[:, k * dilation:k * dilation + T] += dwindows[:, :, k * C:(k + 1) * C]

    # padded = concatenate([zeros, x])
    return dpadded[:, reach:].copy(), dweight.reshape(K, C, F), dbias


def convolve(padded, weight, bias, dilation):
    """The convolution of a padded sequence: (B, reach + T, C) to (B, T, F)."""
    K, C, F = weight.shape
    return linear(windows(padded, K, dilation), weight.reshape(K * C, F), bias)[0]


def windows(padded, K, dilation):
    """The K vectors of each window, earliest first: (B, reach + T, C) to (B, T, K C), a copy."""
    T = padded.shape[1] - (K - 1) * dilation
    return np.concatenate([padded[:, k * dilation:k * dilation + T] for k in range(K)], axis=2)


def check_convolution(x, weight, bias, dilation):
    """Check the arguments of `causal_convolution`."""
    check_whole("causal_convolution", "dilation", dilation)
    sizes = check_array("causal_convolution", "weight", weight, "(K, C, F)")
    check_array("causal_convolution", "x", x, "(B, T, C)", weight.dtype, C=sizes["C"])
    if bias is not None:
        check_array("causal_convolution", "bias", bias, "(F,)", weight.dtype, F=sizes["F"])
    if not len(weight) or not x.size:
        raise ValueError("causal_convolution: x and weight must hold something, but have shapes "
                         f"{x.shape} and {weight.shape}.")
