"""LayerNorm and RMSNorm with epsilon outside the root.

The divisor is sigma + epsilon, not sqrt(sigma^2 + epsilon). The Annotated Transformer and the
authors' own code of RMSNorm have this form. It differs from the usual one where a vector hardly
varies, and its gradient has one more factor, called kappa here.
"""

import numpy as np

from numformer.functional.norms.layer_norm import check_norm
from numformer.functional.scaling import rescaled


def layer_norm_outside(x, weight, bias, epsilon=1e-5):
    r"""`layer_norm` with epsilon added to the standard deviation.

    .. math:: y = \gamma \hat{x} + \beta, \qquad \hat{x} = (x - \mu)\, r, \qquad
              r = (\sigma + \epsilon)^{-1}

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight, bias : ndarray, shape (C,)
        gamma and beta.
    epsilon : float

    Returns
    -------
    y : ndarray, shape (..., C)
    saved : tuple
        For `layer_norm_outside_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and of width C, or epsilon is negative.

    References
    ----------
    Rush (2018), "The Annotated Transformer", class LayerNorm.

    Examples
    --------
    >>> layer_norm_outside(np.array([[1.0, -1.0]]), np.ones(2), np.zeros(2), epsilon=0.25)[0]
    array([[ 0.8, -0.8]])
    """
    check_norm("layer_norm_outside", x, weight, epsilon, bias=bias)
    mean = x.mean(axis=-1, keepdims=True)                            # (..., 1)
    centred = x - mean
    centred, scale = rescaled(centred, float(epsilon) ** 2)          # scale is 1, as a rule
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    scaled_rstd, kappa = reciprocal(variance ** 0.5, epsilon, scale)
    y = weight * (centred * scaled_rstd) + bias

    rstd = scaled_rstd / scale                                       # of x - mean itself
    saved = (x, weight, mean, rstd, kappa)
    return y, saved


def layer_norm_outside_backward(dy, saved):
    r"""The gradient of `layer_norm_outside`.

    .. math::

        \bar{x} = r \left( g - \langle g \rangle
                  - \kappa\, \hat{x} \langle g \hat{x} \rangle \right), \qquad
        g = \gamma \bar{y}, \qquad \kappa = (\sigma + \epsilon) / \sigma

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight, dbias : ndarray, shape (C,)
    """
    x, weight, mean, rstd, kappa = saved
    x_hat = (x - mean) * rstd
    vectors = tuple(range(dy.ndim - 1))                              # every axis but the last

    # y = weight * x_hat + bias
    dweight = (dy * x_hat).sum(axis=vectors)
    dbias = dy.sum(axis=vectors)
    dx_hat = dy * weight

    # x_hat = (x - mean(x)) * rstd(x)
    dx = rstd * (dx_hat
                 - dx_hat.mean(axis=-1, keepdims=True)               # through the mean
                 - x_hat * (kappa * (dx_hat * x_hat).mean(axis=-1, keepdims=True)))
    return dx, dweight, dbias


def rms_norm_outside(x, weight, epsilon=1e-5):
    r"""`rms_norm` with epsilon added to the root mean square.

    .. math:: y = \gamma \hat{x}, \qquad \hat{x} = x\, r, \qquad
              r = (\sqrt{\langle x^2 \rangle} + \epsilon)^{-1}

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight : ndarray, shape (C,)
        gamma.
    epsilon : float

    Returns
    -------
    y : ndarray, shape (..., C)
    saved : tuple
        For `rms_norm_outside_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and of width C, or epsilon is negative.

    Examples
    --------
    >>> rms_norm_outside(np.array([[1.0, -1.0]]), np.ones(2), epsilon=0.25)[0]
    array([[ 0.8, -0.8]])
    """
    check_norm("rms_norm_outside", x, weight, epsilon)
    scaled, scale = rescaled(x, float(epsilon) ** 2)                 # scale is 1, as a rule
    square = (scaled * scaled).mean(axis=-1, keepdims=True)          # (..., 1)
    scaled_rrms, kappa = reciprocal(square ** 0.5, epsilon, scale)
    y = weight * (scaled * scaled_rrms)

    rrms = scaled_rrms / scale                                       # of x itself
    saved = (x, weight, rrms, kappa)
    return y, saved


def rms_norm_outside_backward(dy, saved):
    r"""The gradient of `rms_norm_outside`.

    .. math::

        \bar{x} = r \left( g - \kappa\, \hat{x} \langle g \hat{x} \rangle \right), \qquad
        g = \gamma \bar{y}, \qquad
        \kappa = (\rho + \epsilon) / \rho, \;\; \rho = \sqrt{\langle x^2 \rangle}

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight : ndarray, shape (C,)
    """
    x, weight, rrms, kappa = saved
    x_hat = x * rrms

    # y = weight * x_hat
    dweight = (dy * x_hat).sum(axis=tuple(range(dy.ndim - 1)))
    dx_hat = dy * weight

    # x_hat = x * rrms(x)
    dx = rrms * (dx_hat - x_hat * (kappa * (dx_hat * x_hat).mean(axis=-1, keepdims=True)))
    return dx, dweight


def reciprocal(root, epsilon, scale):
    """r = 1 / (root + epsilon / scale) and kappa = (root + epsilon / scale) / root.

    At root = 0 the function has a kink; there x_hat = 0, so the term that kappa scales is taken
    as 0. It is lost in the rounding of dx, too, where kappa would overflow.
    """
    with np.errstate(over="ignore"):
        shifted = root + float(epsilon) / scale
        kappa = shifted / np.where(root == 0, 1, root)
    return 1 / shifted, np.where(np.isinf(kappa), 0, kappa)
