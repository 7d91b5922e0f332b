r"""The smooth nonlinearities of the feed-forward: GELU in both forms, and Swish, whose beta = 1 is SiLU."""

import math

import numpy as np

from numformer.checks import check_array
from numformer.functional.relu import relu, relu_backward, relu_squared, relu_squared_backward


def gelu(x):
    r"""Weigh every number by the probability that a standard normal variable lies below it.

    .. math:: y = x\, \Phi(x), \qquad \Phi(x) = \tfrac12 \operatorname{erfc}\left(-x / \sqrt2\right)

    Parameters
    ----------
    x : ndarray, any shape

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `gelu_backward`.

    Raises
    ------
    TypeError
        If `x` is no array of floats.

    References
    ----------
    Hendrycks and Gimpel (2016), "Gaussian Error Linear Units", eq. 1.

    Examples
    --------
    >>> gelu(np.array([-1.0, 0.0, 1.0]))[0].round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    check_array("gelu", "x", x, "(...)")
    from scipy.special import erfc                                    # half a second to import: only where it is used

    below = 0.5 * erfc(x * -math.sqrt(0.5))                           # Phi by erfc: 1 + erf would cancel for negative x
    y = x * below

    saved = (x, below)                                                # erfc costs more than its memory: keep it
    return y, saved


def gelu_backward(dy, saved):
    r"""The gradient of `gelu`.

    .. math:: \bar{x} = \bar{y} \left( \Phi(x) + x\, \varphi(x) \right), \qquad \varphi(x) = e^{-x^2/2} / \sqrt{2\pi}

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    x, below = saved
    density = np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))

    # y = x * below(x), and the derivative of below is the density
    return dy * (below + x * density)


def gelu_tanh(x):
    r"""GELU with the normal distribution's integral replaced by a tanh: what BERT's and GPT-2's published code computes.

    .. math:: y = \tfrac12 x (1 + \tanh u), \qquad u = \sqrt{2/\pi}\, (x + 0.044715\, x^3)

    Parameters
    ----------
    x : ndarray, any shape

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `gelu_tanh_backward`.

    Raises
    ------
    TypeError
        If `x` is no array of floats.

    References
    ----------
    Hendrycks and Gimpel (2016), "Gaussian Error Linear Units", section 2.

    Examples
    --------
    >>> gelu_tanh(np.array([-1.0, 0.0, 1.0]))[0].round(4)
    array([-0.1588,  0.    ,  0.8412])
    """
    check_array("gelu_tanh", "x", x, "(...)")
    t = np.tanh(x * (_ROOT + _CUBIC * (x * x)))
    y = 0.5 * x * (1 + t)

    saved = (x, t)                                                    # tanh costs more than its memory: keep it
    return y, saved


def gelu_tanh_backward(dy, saved):
    r"""The gradient of `gelu_tanh`.

    .. math:: \bar{x} = \tfrac12 \bar{y} \left( 1 + t + x (1 - t^2)\, u' \right), \qquad
              t = \tanh u, \qquad u' = \sqrt{2/\pi}\, (1 + 3 \cdot 0.044715\, x^2)

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    x, t = saved

    # t = tanh(x * (_ROOT + _CUBIC * x * x))
    bend = 1 - t * t
    near = np.where(bend == 0, bend, x)                               # far out, where x * x may overflow, tanh is flat
    slope = bend * (_ROOT + 3 * _CUBIC * (near * near))

    # y = 0.5 * x * (1 + t)
    return dy * (0.5 * (1 + t + x * slope))


_ROOT = math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _ROOT


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
        If `x` is no array of floats.

    Examples
    --------
    >>> sigmoid(np.array([-1e4, 0.0, 1e4]))[0]
    array([0. , 0.5, 1. ])
    """
    check_array("sigmoid", "x", x, "(...)")
    positive = x.real >= 0
    decay = np.exp(np.where(positive, -x, x))                         # at most 1
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


def swish(x, beta=1.0):
    r"""Weigh every number by the logistic function of itself. With beta = 1 this is SiLU.

    .. math:: y = x\, \sigma(\beta x)

    Parameters
    ----------
    x : ndarray, any shape
    beta : float
        How steep the gate is: 0 gives x / 2, and the larger it is the nearer to ReLU.

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `swish_backward`.

    Raises
    ------
    TypeError
        If `x` is no array of floats.

    References
    ----------
    Ramachandran, Zoph, Le (2017), "Searching for Activation Functions", section 4.

    Examples
    --------
    >>> swish(np.array([-1.0, 0.0, 1.0]))[0].round(4)
    array([-0.2689,  0.    ,  0.7311])
    """
    check_array("swish", "x", x, "(...)")
    beta = float(beta)
    gate, saved_gate = sigmoid(x * beta)
    y = x * gate

    saved = (x, gate, saved_gate, beta)
    return y, saved


def swish_backward(dy, saved):
    r"""The gradient of `swish`.

    .. math:: \bar{x} = \bar{y} \left( \sigma + \beta x\, \sigma (1 - \sigma) \right), \qquad \sigma = \sigma(\beta x)

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    x, gate, saved_gate, beta = saved

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


ACTIVATIONS = {
    "relu": (relu, relu_backward),
    "relu_squared": (relu_squared, relu_squared_backward),
    "gelu": (gelu, gelu_backward),
    "gelu_tanh": (gelu_tanh, gelu_tanh_backward),
    "silu": (silu, silu_backward),
}
