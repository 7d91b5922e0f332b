"""Dropout from a generator, and attention dropout from a hash, which needs no memory for its mask."""

import math

import numpy as np

from numformer.checks import check_array, check_generator, check_number


def dropout(x, rate, rng=None):
    r"""Silence every number with probability `rate`, and scale the others so that the mean stays.

    .. math:: y = x\, m / (1 - \text{rate}), \qquad m \sim \mathrm{Bernoulli}(1 - \text{rate})

    The generator gives a seed, and the mask m is that of `dropout_mask`: so nothing but the seed is kept.

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
        If `x` is no array of floats, or the rate lies outside.

    References
    ----------
    Srivastava et al. (2014), "Dropout", section 4, scaled at training instead of at inference.

    Examples
    --------
    >>> dropout(np.ones(6), 0.5, np.random.default_rng(0))[0]
    array([2., 2., 2., 0., 0., 0.])
    """
    check_dropout("dropout", x, rate, rng)
    if rng is None or rate == 0:
        return x.copy(), (None, rate)
    seed, rate = dropout_seed(rng), float(rate)
    y = _silence(x, seed, rate)

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

    # y = silence(x)
    return dy.copy() if seed is None else _silence(dy, seed, rate)


def residual_dropout(x, branch, rate, rng=None):
    r"""Add what a branch found to the residual stream, some of it silenced.

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
        If the arrays are not floats of one precision and shape, or the rate lies outside.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 5.4.

    Examples
    --------
    >>> residual_dropout(np.ones(6), np.ones(6), 0.5, np.random.default_rng(0))[0]
    array([3., 3., 3., 1., 1., 1.])
    """
    check_residual(x, branch, rate, rng)
    b, saved_dropout = dropout(branch, rate, rng)
    y = x + b

    saved = saved_dropout
    return y, saved


def residual_dropout_backward(dy, saved):
    r"""The gradient of `residual_dropout`: a sum hands its gradient to both.

    .. math:: \bar{x} = \bar{y}, \qquad \bar{b} = \bar{y}\, m / (1 - \text{rate})

    Returns
    -------
    dx, dbranch : ndarray, shape of `dy`
        `dx` is `dy` itself, and so is `dbranch` where nothing was silenced: do not write into them.
    """
    # y = x + dropout(branch)
    return dy, dy if saved[0] is None else dropout_backward(dy, saved)


def check_dropout(owner, x, rate, rng):
    check_array(owner, "x", x, "(...)")
    check_number(owner, "rate", rate, least=0, below=1)
    check_generator(owner, rng)


def check_residual(x, branch, rate, rng):
    check_dropout("residual_dropout", x, rate, rng)
    check_array("residual_dropout", "branch", branch, "(...)", x.dtype)
    if x.shape != branch.shape:
        raise ValueError(f"residual_dropout: x of shape {x.shape} and branch of shape {branch.shape} cannot be added; they must be alike.")


def dropout_seed(rng):
    """64 bits from a generator."""
    return int(rng.integers(2**64, dtype=np.uint64))


def dropout_mask(seed, shape, rate):
    """Which numbers of an array stay: `attention_dropout_mask`, where all vectors of the array are the rows of one head.

    Examples
    --------
    >>> dropout_mask(dropout_seed(np.random.default_rng(0)), (6,), 0.5)
    array([ True,  True,  True, False, False, False])
    """
    columns = shape[-1] if shape else 1
    return attention_dropout_mask(seed, (1, 1, math.prod(shape[:-1]), columns), rate).reshape(shape)


def _silence(x, seed, rate):
    return np.where(dropout_mask(seed, x.shape, rate), x * (1 / (1 - rate)), 0)


def attention_dropout_mask(seed, shape, rate):
    """Which attention weights stay: a pure function of the seed and the four indices, the same in any order of work.

    Every row (b, h, i) hashes the seed and its indices to 32 bits; every weight of the row hashes these with j. A weight
    stays when its hash, read as a number in [0, 1), is at least `rate`.

    Parameters
    ----------
    seed : int, 0 .. 2**64 - 1
    shape : tuple (B, H, T, S)
    rate : float in [0, 1)

    Returns
    -------
    ndarray of bool, shape (B, H, T, S)

    Raises
    ------
    ValueError
        If the seed lies outside.

    References
    ----------
    The bit mixer is Wellons (2018), "Prospecting for Hash Functions": shifts 16, 15, 16 (lowbias32).

    Examples
    --------
    >>> attention_dropout_mask(7, (2, 4, 64, 64), 0.25).mean().round(2)
    np.float64(0.75)
    """
    check_seed("attention_dropout_mask", seed)
    seed = int(seed)
    b, h, i, j = np.ogrid[tuple(slice(n) for n in shape)]
    row = _mix(np.uint32(seed >> 32) ^ _mix(np.uint32(seed & 0xFFFFFFFF) ^ _mix(b.astype(np.uint32))))
    row = _mix(_mix(row ^ h.astype(np.uint32)) ^ i.astype(np.uint32))         # (B, H, T, 1)
    bits = _mix(row + j.astype(np.uint32) * np.uint32(0x9E3779B9))            # (B, H, T, S)
    return bits >= np.uint32(dropout_threshold(rate))


def dropout_threshold(rate):
    """The first of the 2**32 hashes that keeps its weight."""
    return min(round(rate * 2**32), 2**32 - 1)


def check_seed(owner, seed):
    """Check that `seed` is a whole number of 64 bits."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ValueError(f"{owner}: seed={seed!r} must be a whole number in 0 .. 2**64 - 1.")


def _mix(x):
    """Scatter 32 bits: a bijection in which every input bit flips every output bit about half the time."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))
