"""LayerNorm: every vector gets zero mean and unit variance."""

from numformer.checks import check_arrays, check_number
from numformer.functional.scaling import rescaled


def layer_norm(x, weight, bias, epsilon=1e-5):
    r"""Give every vector zero mean and unit variance, then scale and shift its coordinates.

    .. math::

        y = \gamma \hat{x} + \beta, \qquad \hat{x} = (x - \mu)\, r, \qquad
        r = (\sigma^2 + \epsilon)^{-1/2}

    Parameters
    ----------
    x : ndarray, shape (..., C)
        Each vector is normalized on its own: statistics run over the last axis only.
    weight : ndarray, shape (C,)
        gamma.
    bias : ndarray, shape (C,)
        beta. A LayerNorm without bias is one whose beta stays 0.
    epsilon : float
        Keeps the root away from zero. It is added to the variance, inside the root; see
        `layer_norm_outside` for sigma + epsilon.

    Returns
    -------
    y : ndarray, shape (..., C)
    saved : tuple
        For `layer_norm_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and of width C, or epsilon is negative.

    References
    ----------
    Ba, Kiros, Hinton (2016), "Layer Normalization", eq. 4.

    Examples
    --------
    >>> import numpy as np
    >>> layer_norm(np.array([[1.0, 2.0, 3.0]]), np.ones(3), np.zeros(3))[0].round(3)
    array([[-1.225,  0.   ,  1.225]])
    """
    check_norm("layer_norm", x, weight, epsilon, bias=bias)
    mean = x.mean(axis=-1, keepdims=True)                            # (..., 1)
    centred = x - mean
    centred, scale = rescaled(centred, epsilon)                      # scale is 1, as a rule
    variance = (centred * centred).mean(axis=-1, keepdims=True)    # np.var would lose complex steps
    scaled_rstd = (variance + float(epsilon) / scale / scale) ** -0.5
    y = weight * (centred * scaled_rstd) + bias

    rstd = scaled_rstd / scale                                       # reciprocal standard deviation
    saved = (x, weight, mean, rstd)                 # x_hat is one multiplication away: recompute it
    return y, saved


def layer_norm_backward(dy, saved):
    r"""The gradient of `layer_norm`.

    `x` also reaches y through the mean and the variance; these two paths give the two subtracted
    terms. Adding a constant to `x`, or scaling it, changes nothing, so `dx` is orthogonal to the
    vector of ones and (for small epsilon) to :math:`\hat{x}`.

    .. math::

        \bar{x} = r \left( g - \langle g \rangle - \hat{x} \langle g \hat{x} \rangle \right),
        \qquad g = \gamma \bar{y}

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight, dbias : ndarray, shape (C,)
    """
    x, weight, mean, rstd = saved
    x_hat = (x - mean) * rstd
    vectors = tuple(range(dy.ndim - 1))                              # every axis but the last

    # y = weight * x_hat + bias
    dweight = (dy * x_hat).sum(axis=vectors)
    dbias = dy.sum(axis=vectors)
    dx_hat = dy * weight

    # x_hat = (x - mean(x)) * rstd(x)
    dx = rstd * (dx_hat
                 - dx_hat.mean(axis=-1, keepdims=True)               # through the mean
                 - x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True))     # through the variance
    return dx, dweight, dbias


def check_norm(owner, x, weight, epsilon, **bias):
    """Check the arguments of a norm over the last axis; only LayerNorm passes a bias."""
    check_number(owner, "epsilon", epsilon, least=0)
    check_arrays(owner, ("weight", weight, "(C,)"), ("x", x, "(..., C)"),
                 *((name, vector, "(C,)") for name, vector in bias.items()))
    if not len(weight):
        raise ValueError(f"{owner}: x of shape {x.shape} has vectors of no coordinates, which have "
                         "no mean; C must be at least 1.")
