"""RMSNorm: LayerNorm without the mean and the bias, as in T5 and LLaMA."""

from numformer.functional.norms.layer_norm import check_norm
from numformer.functional.scaling import rescaled


def rms_norm(x, weight, epsilon=1e-5):
    r"""Give every vector a root mean square of one, then scale its coordinates.

    .. math:: y = \gamma \hat{x}, \qquad \hat{x} = x\, r, \qquad
              r = (\langle x^2 \rangle + \epsilon)^{-1/2}

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight : ndarray, shape (C,)
        gamma.
    epsilon : float
        Inside the root, as in LLaMA; see `rms_norm_outside` for root mean square + epsilon.

    Returns
    -------
    y : ndarray, shape (..., C)
    saved : tuple
        For `rms_norm_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and of width C, or epsilon is negative.

    References
    ----------
    Zhang and Sennrich (2019), "Root Mean Square Layer Normalization", eq. 4.

    Examples
    --------
    >>> import numpy as np
    >>> rms_norm(np.array([[1.0, 1.0, 2.0, 3.0]]), np.ones(4))[0].round(3)
    array([[0.516, 0.516, 1.033, 1.549]])
    """
    check_norm("rms_norm", x, weight, epsilon)
    scaled, scale = rescaled(x, epsilon)                             # scale is 1, as a rule
    square = (scaled * scaled).mean(axis=-1, keepdims=True)          # (..., 1)
    scaled_rrms = (square + float(epsilon) / scale / scale) ** -0.5
    y = weight * (scaled * scaled_rrms)

    rrms = scaled_rrms / scale                                       # reciprocal root mean square
    saved = (x, weight, rrms)
    return y, saved


def rms_norm_backward(dy, saved):
    r"""The gradient of `rms_norm`: that of `layer_norm` without the term of the mean.

    .. math:: \bar{x} = r \left( g - \hat{x} \langle g \hat{x} \rangle \right), \qquad
              g = \gamma \bar{y}

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight : ndarray, shape (C,)
    """
    x, weight, rrms = saved
    x_hat = x * rrms

    # y = weight * x_hat
    dweight = (dy * x_hat).sum(axis=tuple(range(dy.ndim - 1)))
    dx_hat = dy * weight

    # x_hat = x * rrms(x)
    dx = rrms * (dx_hat - x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True))
    return dx, dweight
