"""Dropout from a generator, and attention dropout from a hash, which needs no memory for its mask."""

import numpy as np

from numformer.checks import check_array, check_generator, check_number


def dropout(x, rate, rng=None):
    r"""Silence every number with probability `rate`, and scale the others so that the mean stays.

    .. math:: y = x\, m / (1 - \text{rate}), \qquad m \sim \mathrm{Bernoulli}(1 - \text{rate})

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
    >>> dropout(np.ones(6), 0.5, np.random.default_rng(1))[0]
    array([0., 2., 2., 2., 0., 0.])
    """
    check_array("dropout", "x", x, "(...)")
    check_number("dropout", "rate", rate, least=0, below=1)
    check_generator("dropout", rng)
    rate = float(rate)
    if rng is None or rate == 0:
        return x.copy(), (None, 1.0)
    kept = rng.random(x.shape, dtype=np.float32) >= rate
    scale = 1 / (1 - rate)
    y = np.where(kept, x * scale, 0)

    saved = (kept, scale)
    return y, saved


def dropout_backward(dy, saved):
    r"""The gradient of `dropout`: the same mask once more.

    .. math:: \bar{x} = \bar{y}\, m / (1 - \text{rate})

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    kept, scale = saved
    if kept is None:
        return dy.copy()

    # y = where(kept, x * scale, 0)
    return np.where(kept, dy * scale, 0)


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
