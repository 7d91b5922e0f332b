"""Dropout, alone and in the residual sum. Only the seed of its mask is kept, not the mask."""

import numpy as np

from numformer.checks import check_array, check_arrays, check_generator, check_number
from numformer.functional.dropout_hash import dropout_mask, dropout_seed


def dropout(x, rate, rng=None):
    r"""Set every number to 0 with probability `rate`, and scale the others to keep the mean.

    .. math:: y = x\, m / (1 - \text{rate}), \qquad m \sim \mathrm{Bernoulli}(1 - \text{rate})

    The generator gives a seed, and `dropout_mask` computes the mask m from it, in the forward and
    again in the backward.

    Parameters
    ----------
    x : ndarray, any shape
    rate : float in [0, 1)
    rng : numpy.random.Generator or None
        None means no dropout, as at inference.

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `dropout_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` is not an array of floats, or the rate is out of range.

    References
    ----------
    Srivastava et al. (2014), "Dropout", section 4, scaled in training instead of at inference.

    Examples
    --------
    >>> dropout(np.ones(6), 0.5, np.random.default_rng(0))[0]
    array([2., 2., 2., 0., 0., 0.])
    """
    check_dropout("dropout", x, rate, rng)
    if rng is None or rate == 0:
        return x.copy(), (None, rate)
    seed, rate = dropout_seed(rng), float(rate)
    y = drop(x, seed, rate)

    saved = (seed, rate)
    return y, saved


def dropout_backward(dy, saved):
    r"""The gradient of `dropout`: the same mask once more.

    .. math:: \bar{x} = \bar{y}\, m / (1 - \text{rate})

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    seed, rate = saved

    # y = drop(x, seed, rate)
    return dy.copy() if seed is None else drop(dy, seed, rate)


def residual_dropout(x, branch, rate, rng=None):
    r"""Add the output of a branch to the residual stream, with dropout.

    .. math:: y = x + \mathrm{dropout}(b)

    Parameters
    ----------
    x : ndarray, any shape
    branch : ndarray, shape of `x`
        b.
    rate, rng
        As in `dropout`.

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `residual_dropout_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and shape, or the rate is out of range.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 5.4.

    Examples
    --------
    >>> residual_dropout(np.ones(6), np.ones(6), 0.5, np.random.default_rng(0))[0]
    array([3., 3., 3., 1., 1., 1.])
    """
    check_residual(x, branch, rate, rng)
    seed = None if rng is None or rate == 0 else dropout_seed(rng)
    y = x + (branch if seed is None else drop(branch, seed, float(rate)))

    saved = (seed, float(rate))
    return y, saved


def residual_dropout_backward(dy, saved):
    r"""The gradient of `residual_dropout`: a sum passes its gradient to both terms.

    .. math:: \bar{x} = \bar{y}, \qquad \bar{b} = \bar{y}\, m / (1 - \text{rate})

    Returns
    -------
    dx, dbranch : ndarray, shape of `dy`
        `dx` is `dy` itself, and so is `dbranch` without dropout: do not write into them.
    """
    seed, rate = saved

    # y = x + drop(branch, seed, rate)
    return dy, dy if seed is None else drop(dy, seed, rate)


def drop(x, seed, rate):
    """The numbers that are kept, scaled, and 0 for the others."""
    return np.where(dropout_mask(seed, x.shape, rate), x * (1 / (1 - rate)), 0)


def check_dropout(owner, x, rate, rng):
    """Check the arguments of `dropout`."""
    check_array(owner, "x", x, "(...)")
    check_number(owner, "rate", rate, least=0, below=1)
    check_generator(owner, rng)


def check_residual(x, branch, rate, rng):
    """Check the arguments of `residual_dropout`."""
    check_arrays("residual_dropout", ("x", x, "(...)"), ("branch", branch, "(...)"))
    check_number("residual_dropout", "rate", rate, least=0, below=1)
    check_generator("residual_dropout", rng)
    if x.shape != branch.shape:
        raise ValueError(f"residual_dropout: x of shape {x.shape} and branch of shape "
                         f"{branch.shape} must have the same shape to be added.")
