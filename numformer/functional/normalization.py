"""LayerNorm and RMSNorm: hold the size of every vector, whatever the layers before made of it.

Where epsilon stands is a switch. The papers' code adds it to the variance, inside the root (the default here); some
texts write sigma + epsilon, outside. The two differ where a vector hardly varies.
"""

import numpy as np

from numformer.checks import check_array, check_number


def layer_norm(x, gain, shift=None, epsilon=1e-5, epsilon_inside=True):
    r"""Give every vector zero mean and unit variance, then scale and shift its coordinates.

    .. math::

        y = \gamma \hat{x} + \beta, \qquad \hat{x} = (x - \mu)\, r, \qquad
        r = (\sigma^2 + \epsilon)^{-1/2} \;\text{ or }\; r = (\sigma + \epsilon)^{-1}

    Parameters
    ----------
    x : ndarray, shape (..., C)
        Each vector is normalized by itself: statistics run over the last axis alone.
    gain : ndarray, shape (C,)
        gamma.
    shift : ndarray, shape (C,), optional
        beta.
    epsilon : float
        Keeps the divisor away from zero.
    epsilon_inside : bool
        True: inside the root. False: sigma + epsilon.

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
    >>> layer_norm(np.array([[1.0, 2.0, 3.0]]), np.ones(3), np.zeros(3))[0].round(3)
    array([[-1.225,  0.   ,  1.225]])
    """
    check_norm("layer_norm", x, gain, shift, epsilon)
    mean = x.mean(axis=-1, keepdims=True)                             # (..., 1)
    centred = x - mean
    variance = (centred * centred).mean(axis=-1, keepdims=True)       # no np.var: it takes |z|^2, blind to a complex step
    rstd, bend = _reciprocal_root(variance, epsilon, epsilon_inside)
    x_hat = centred * rstd
    y = gain * x_hat
    if shift is not None:
        y = y + shift

    saved = (x, gain, shift is not None, mean, rstd, bend)            # x_hat is one multiplication away: recompute it
    return y, saved


def layer_norm_backward(dy, saved):
    r"""The gradient of `layer_norm`.

    Two of the three terms take back what the mean and the variance did: adding a constant to `x`, or scaling it, changes
    nothing, so `dx` is orthogonal to the vector of ones and (for small epsilon) to :math:`\hat{x}`.

    .. math::

        \bar{x} = r \left( g - \langle g \rangle - \kappa\, \hat{x} \langle g \hat{x} \rangle \right), \qquad
        g = \gamma \bar{y}, \qquad \kappa = 1 \;\text{ or }\; (\sigma + \epsilon) / \sigma

    Returns
    -------
    dx : ndarray, shape (..., C)
    dgain : ndarray, shape (C,)
    dshift : ndarray, shape (C,), or None where there was no shift
    """
    x, gain, shifted, mean, rstd, bend = saved
    x_hat = (x - mean) * rstd
    vectors = tuple(range(dy.ndim - 1))                               # every axis but the last

    # y = gain * x_hat;  y = y + shift
    dgain = (dy * x_hat).sum(axis=vectors)
    dshift = dy.sum(axis=vectors) if shifted else None
    dx_hat = dy * gain

    # x_hat = centred * rstd, where centred = x - mean(x) and rstd = rstd(x)
    dx = rstd * (dx_hat
                 - dx_hat.mean(axis=-1, keepdims=True)                # through the mean
                 - x_hat * (bend * (dx_hat * x_hat).mean(axis=-1, keepdims=True)))    # through the variance
    return dx, dgain, dshift


def rms_norm(x, gain, epsilon=1e-5, epsilon_inside=True):
    r"""Give every vector a root mean square of one, then scale its coordinates: `layer_norm` without the mean.

    .. math::

        y = \gamma \hat{x}, \qquad \hat{x} = x\, r, \qquad
        r = (\langle x^2 \rangle + \epsilon)^{-1/2} \;\text{ or }\; r = (\sqrt{\langle x^2 \rangle} + \epsilon)^{-1}

    Parameters
    ----------
    x : ndarray, shape (..., C)
    gain : ndarray, shape (C,)
        gamma.
    epsilon : float
    epsilon_inside : bool
        True: inside the root, as LLaMA has it. False: root mean square + epsilon.

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
    >>> rms_norm(np.array([[1.0, 1.0, 2.0, 3.0]]), np.ones(4))[0].round(3)
    array([[0.516, 0.516, 1.033, 1.549]])
    """
    check_norm("rms_norm", x, gain, None, epsilon)
    square = (x * x).mean(axis=-1, keepdims=True)                     # (..., 1)
    rrms, bend = _reciprocal_root(square, epsilon, epsilon_inside)
    x_hat = x * rrms
    y = gain * x_hat

    saved = (x, gain, rrms, bend)
    return y, saved


def rms_norm_backward(dy, saved):
    r"""The gradient of `rms_norm`: that of `layer_norm` without the term of the mean.

    .. math::

        \bar{x} = r \left( g - \kappa\, \hat{x} \langle g \hat{x} \rangle \right), \qquad g = \gamma \bar{y}, \qquad
        \kappa = 1 \;\text{ or }\; (\rho + \epsilon) / \rho, \;\; \rho = \sqrt{\langle x^2 \rangle}

    Returns
    -------
    dx : ndarray, shape (..., C)
    dgain : ndarray, shape (C,)
    """
    x, gain, rrms, bend = saved
    x_hat = x * rrms

    # y = gain * x_hat
    dgain = (dy * x_hat).sum(axis=tuple(range(dy.ndim - 1)))
    dx_hat = dy * gain

    # x_hat = x * rrms, where rrms = rrms(x)
    dx = rrms * (dx_hat - x_hat * (bend * (dx_hat * x_hat).mean(axis=-1, keepdims=True)))
    return dx, dgain


def check_norm(owner, x, gain, shift, epsilon):
    check_number(owner, "epsilon", epsilon, least=0)
    C = check_array(owner, "gain", gain, "(C,)")["C"]
    check_array(owner, "x", x, "(..., C)", gain.dtype, C=C)
    if shift is not None:
        check_array(owner, "shift", shift, "(C,)", gain.dtype, C=C)


def _reciprocal_root(square, epsilon, inside):
    """r, and the factor kappa by which its derivative differs from -r^3 / 2: -kappa r^3 / 2.

    Outside the root, a vector of zero variance sits on a kink: its derivative through the variance is taken as 0.
    """
    epsilon = float(epsilon)                                          # a NumPy scalar would turn float32 into float64
    if inside:
        return (square + epsilon) ** -0.5, 1.0
    root = square ** 0.5
    return 1 / (root + epsilon), (root + epsilon) / np.where(root == 0, 1, root)      # root = 0 has x_hat = 0, which kappa scales
