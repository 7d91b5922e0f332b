"""Swish; SiLU and quick GELU, which are Swish with beta = 1 and with beta = 1.702."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.activations.sigmoid import sigmoid, sigmoid_backward

QUICK = 1.702


def swish(x, beta=1.0):
    r"""Weight every number by its own logistic function.

    .. math:: y = x\, \sigma(\beta x)

    Parameters
    ----------
    x : ndarray, any shape
    beta : float
        How steep the gate is: 0 gives x / 2, and for large beta Swish approaches ReLU.

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `swish_backward`.

    Raises
    ------
    TypeError
        If `x` is not an array of floats.

    References
    ----------
    Ramachandran, Zoph, Le (2017), "Searching for Activation Functions", section 4.

    Examples
    --------
    >>> import numpy as np
    >>> swish(np.array([-1.0, 0.0, 1.0]))[0].round(4)
    array([-0.2689,  0.    ,  0.7311])
    """
    check_array("swish", "x", x, "(...)")
    beta = float(beta)
    with np.errstate(over="ignore"):                  # the gate of Inf is 1
        gate, saved_gate = sigmoid(x * beta)
    y = np.where(gate == 0, 0, x) * gate             # 0 at -Inf, too

    saved = (x, gate, saved_gate, beta)
    return y, saved


def swish_backward(dy, saved):
    r"""The gradient of `swish`.

    .. math:: \bar{x} = \bar{y} \left( \sigma + \beta x\, \sigma (1 - \sigma) \right), \qquad
              \sigma = \sigma(\beta x)

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    x, gate, saved_gate, beta = saved
    x = np.where((gate == 0) | (gate == 1), 0, x)    # where the gate is flat, dy * x may overflow

    # y = x * gate
    dgate = dy * x

    # gate = sigmoid(x * beta)
    return dy * gate + sigmoid_backward(dgate, saved_gate) * beta


def silu(x):
    """`swish` with beta = 1, the gate of LLaMA's feed-forward. See `swish`."""
    return swish(x)


def silu_backward(dy, saved):
    """The gradient of `silu`. See `swish_backward`."""
    return swish_backward(dy, saved)


def quick_gelu(x):
    r"""GELU approximated by a logistic function, as in CLIP: `swish` with beta = 1.702.

    .. math:: y = x\, \sigma(1.702\, x)

    Parameters
    ----------
    x : ndarray, any shape

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `quick_gelu_backward`.

    Raises
    ------
    TypeError
        If `x` is not an array of floats.

    References
    ----------
    Hendrycks and Gimpel (2016), "Gaussian Error Linear Units", section 2; Radford et al. (2021),
    "CLIP", whose published code has this form.

    Examples
    --------
    >>> import numpy as np
    >>> quick_gelu(np.array([-1.0, 0.0, 1.0]))[0].round(4)
    array([-0.1542,  0.    ,  0.8458])
    """
    check_array("quick_gelu", "x", x, "(...)")
    return swish(x, QUICK)


def quick_gelu_backward(dy, saved):
    """The gradient of `quick_gelu`. See `swish_backward`."""
    return swish_backward(dy, saved)
