"""The sum of the residual stream and a branch, and the norm that follows it: "Add & Norm"."""

from numformer.functional.dropout import residual_dropout, residual_dropout_backward
from numformer.functional.norms.layer_norm import layer_norm, layer_norm_backward
from numformer.functional.norms.rms_norm import rms_norm, rms_norm_backward


def residual_layer_norm(x, branch, weight, bias, epsilon=1e-5, rate=0.0, rng=None):
    r"""Add a branch to the residual stream, with dropout, and normalize the sum by `layer_norm`.

    .. math:: s = x + \mathrm{dropout}(b), \qquad n = \mathrm{norm}(s)

    With post-norm, n is the stream from here on. With pre-norm, s is, and n is the input of the
    next branch.

    Parameters
    ----------
    x : ndarray, shape (..., C)
        The residual stream.
    branch : ndarray, shape of `x`
        b.
    weight, bias : ndarray, shape (C,)
        Of the norm.
    epsilon : float
        Of the norm.
    rate, rng
        Of the dropout.

    Returns
    -------
    (total, normed) : pair of ndarray, shape of `x`
        s and n.
    saved : tuple
        For `residual_layer_norm_backward`.

    Raises
    ------
    ValueError, TypeError
        As `residual_dropout` and `layer_norm`.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.1 and figure 1.

    Examples
    --------
    >>> import numpy as np
    >>> x, branch = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 2.0])
    >>> (total, normed), _ = residual_layer_norm(x, branch, np.ones(3), np.zeros(3))
    >>> total, normed.round(3)
    (array([2., 2., 5.]), array([-0.707, -0.707,  1.414]))
    """
    total, saved_sum = residual_dropout(x, branch, rate, rng)        # (..., C)
    normed, saved_norm = layer_norm(total, weight, bias, epsilon)

    saved = (saved_sum, saved_norm)
    return (total, normed), saved


def residual_layer_norm_backward(dys, saved):
    r"""The gradient of `residual_layer_norm`: the sum is read through the norm, and as it is.

    .. math::

        \bar{x} = \bar{s} + \left( \frac{\partial n}{\partial s} \right)^{\!\top} \bar{n}, \qquad
        \bar{b} = \bar{x}\, m / (1 - \text{rate})

    Parameters
    ----------
    dys : pair (dtotal, dnormed) of ndarray
        `dtotal` may be None: nothing but the norm reads the sum.
    saved : tuple

    Returns
    -------
    dx, dbranch : ndarray, shape of `dnormed`
        Without dropout they are the same array: do not write into them.
    dweight, dbias : ndarray, shape (C,)
    """
    dtotal, dnormed = dys
    saved_sum, saved_norm = saved

    # normed = layer_norm(total, weight, bias)
    through_norm, dweight, dbias = layer_norm_backward(dnormed, saved_norm)
    dtotal = through_norm if dtotal is None else dtotal + through_norm

    # total = x + dropout(branch)
    dx, dbranch = residual_dropout_backward(dtotal, saved_sum)
    return dx, dbranch, dweight, dbias


def residual_rms_norm(x, branch, weight, epsilon=1e-5, rate=0.0, rng=None):
    r"""Add a branch to the residual stream, with dropout, and normalize the sum by `rms_norm`.

    .. math:: s = x + \mathrm{dropout}(b), \qquad n = \mathrm{norm}(s)

    Parameters
    ----------
    x, branch, weight, epsilon, rate, rng
        As in `residual_layer_norm`.

    Returns
    -------
    (total, normed) : pair of ndarray, shape of `x`
        s and n.
    saved : tuple
        For `residual_rms_norm_backward`.

    Raises
    ------
    ValueError, TypeError
        As `residual_dropout` and `rms_norm`.

    References
    ----------
    Touvron et al. (2023), "LLaMA", section 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> (total, normed), _ = residual_rms_norm(np.array([3.0, 1.0]), np.ones(2), np.ones(2))
    >>> total, normed.round(3)
    (array([4., 2.]), array([1.265, 0.632]))
    """
    total, saved_sum = residual_dropout(x, branch, rate, rng)        # (..., C)
    normed, saved_norm = rms_norm(total, weight, epsilon)

    saved = (saved_sum, saved_norm)
    return (total, normed), saved


def residual_rms_norm_backward(dys, saved):
    """The gradient of `residual_rms_norm`; see `residual_layer_norm_backward`.

    Returns
    -------
    dx, dbranch : ndarray, shape of `dnormed`
    dweight : ndarray, shape (C,)
    """
    dtotal, dnormed = dys
    saved_sum, saved_norm = saved

    # normed = rms_norm(total, weight)
    through_norm, dweight = rms_norm_backward(dnormed, saved_norm)
    dtotal = through_norm if dtotal is None else dtotal + through_norm

    # total = x + dropout(branch)
    dx, dbranch = residual_dropout_backward(dtotal, saved_sum)
    return dx, dbranch, dweight
