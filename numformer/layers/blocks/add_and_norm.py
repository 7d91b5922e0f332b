"""Add & Norm: a residual sum and the norm that follows it, as one function where there is one."""

from numformer.backend import (
    add, residual_dropout, residual_dropout_backward, residual_layer_norm,
    residual_layer_norm_backward_accumulate, residual_rms_norm,
    residual_rms_norm_backward_accumulate)
from numformer.layers.normalization import LayerNorm, RMSNorm

FUNCTIONS = {LayerNorm: (residual_layer_norm, residual_layer_norm_backward_accumulate),
             RMSNorm: (residual_rms_norm, residual_rms_norm_backward_accumulate)}


def runs_with_the_sum(norm):
    """Whether there is one function for the sum and this norm; not while its forward is recorded.
    """
    return type(norm) in FUNCTIONS and norm.epsilon_inside and "forward" not in vars(norm)


def add_and_norm(norm, x, branch, rate, rng=None):
    """The sum x + dropout(branch), and what a norm makes of it.

    Parameters
    ----------
    norm : Layer
        A `LayerNorm` or `RMSNorm` with epsilon inside the root runs in one function with the sum;
        any other layer runs on its own.
    x, branch : ndarray, shape (..., C)
    rate : float in [0, 1)
        Of dropout.
    rng : numpy.random.Generator, optional

    Returns
    -------
    (total, normed) : pair of ndarray, shape (..., C)
    saved : tuple

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, 2.0, 3.0]])
    >>> (total, normed), _ = add_and_norm(LayerNorm(3, dtype=np.float64), x, x, 0.0)
    >>> total, normed.round(3)
    (array([[2., 4., 6.]]), array([[-1.225,  0.   ,  1.225]]))
    """
    if runs_with_the_sum(norm):
        forward, backward = FUNCTIONS[type(norm)]
        both, saved = forward(x, branch, *norm.arrays, norm.epsilon, rate, rng)
        return both, (backward, saved)
    total, saved_sum = residual_dropout(x, branch, rate, rng)         # (..., C)
    normed, saved_norm = norm.forward(total)

    saved = (None, (saved_sum, saved_norm))
    return (total, normed), saved


def add_and_norm_backward(norm, dtotal, dnormed, saved):
    """Gradients of `x` and `branch`; `dtotal` is None where nothing but the norm reads the sum."""
    backward, saved = saved
    if backward is not None:
        return backward((dtotal, dnormed), saved, *norm.gradients)
    saved_sum, saved_norm = saved

    # normed = norm(total)
    through_norm = norm.backward(dnormed, saved_norm)
    dtotal = through_norm if dtotal is None else add(dtotal, through_norm)

    # total = x + dropout(branch)
    return residual_dropout_backward(dtotal, saved_sum)
