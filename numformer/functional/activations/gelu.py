"""GELU: the exact form, and the approximation by a tanh that GPT-2 uses."""

import math

import numpy as np

from numformer.checks import check_array

ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715 * ROOT
FLAT = 64.0                   # from here on y is 0 or x, to the last bit; squares of x may overflow


def gelu(x):
    r"""Weight every number by the probability that a standard normal variable is below it.

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
        If `x` is not an array of floats.

    References
    ----------
    Hendrycks and Gimpel (2016), "Gaussian Error Linear Units", section 2.

    Examples
    --------
    >>> gelu(np.array([-1.0, 0.0, 1.0]))[0].round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    check_array("gelu", "x", x, "(...)")
    from scipy.special import erfc                  # half a second to import: only where it is used

    below = 0.5 * erfc(x * -math.sqrt(0.5))       # Phi by erfc: 1 + erf would cancel for negative x
    y = np.where(below == 0, -0.0, x) * below        # 0 at -Inf, too

    saved = (x, below)                               # erfc costs more time than memory: keep it
    return y, saved


def gelu_backward(dy, saved):
    r"""The gradient of `gelu`.

    .. math:: \bar{x} = \bar{y} \left( \Phi(x) + x\, \varphi(x) \right), \qquad
              \varphi(x) = e^{-x^2/2} / \sqrt{2\pi}

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    x, below = saved
    x = np.where(abs(x.real) >= FLAT, FLAT, x)       # from there on the density is 0
    density = np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))

    # y = x * below(x), and the derivative of below is the density
    return dy * (below + x * density)


def gelu_tanh(x):
    r"""GELU with its integral approximated by a tanh, as in the published code of GPT-2.

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
        If `x` is not an array of floats.

    References
    ----------
    Hendrycks and Gimpel (2016), "Gaussian Error Linear Units", section 2.

    Examples
    --------
    >>> gelu_tanh(np.array([-1.0, 0.0, 1.0]))[0].round(4)
    array([-0.1588,  0.    ,  0.8412])
    """
    check_array("gelu_tanh", "x", x, "(...)")
    near = np.where(abs(x.real) >= FLAT, np.copysign(FLAT, x.real), x)
    t = np.tanh(near * (ROOT + CUBIC * (near * near)))
    y = 0.5 * np.where(t == -1, -0.0, x) * (1 + t)   # 0 at -Inf, too

    saved = (x, t)                                   # tanh costs more time than memory: keep it
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

    # t = tanh(x * (ROOT + CUBIC * x * x))
    bend = 1 - t * t
    x = np.where(bend == 0, bend, x)                 # where tanh is flat, x * x may overflow
    slope = bend * (ROOT + 3 * CUBIC * (x * x))

    # y = 0.5 * x * (1 + t)
    return dy * (0.5 * (1 + t + x * slope))
