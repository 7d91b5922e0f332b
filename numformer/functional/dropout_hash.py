"""Dropout masks from a hash of seed and indices, so that no mask has to be stored.

A mask does not depend on the order in which its elements are computed: the reference, the compiled
kernels and any number of threads get the same one, to the bit.
"""

import math

import numpy as np


def dropout_seed(rng):
    """64 random bits from a generator."""
    return int(rng.integers(2**64, dtype=np.uint64))


def dropout_mask(seed, shape, rate):
    """Which numbers of an array are kept.

    This is `attention_dropout_mask`, with all vectors of the array as the rows of one head.

    Examples
    --------
    >>> dropout_mask(dropout_seed(np.random.default_rng(0)), (6,), 0.5)
    array([ True,  True,  True, False, False, False])
    """
    columns = shape[-1] if shape else 1
    head = (1, 1, math.prod(shape[:-1]), columns)
    return attention_dropout_mask(seed, head, rate).reshape(shape)


def attention_dropout_mask(seed, shape, rate):
    """Which attention weights are kept: a pure function of the seed and the four indices.

    Every row (b, h, i) hashes the seed and its indices to 32 bits; every weight of the row hashes
    these with j. A weight is kept if its hash, as a number in [0, 1), is at least `rate`.

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
        If the seed is out of range.

    References
    ----------
    The bit mixer is lowbias32 of Wellons (2018), "Prospecting for Hash Functions".

    Examples
    --------
    >>> attention_dropout_mask(7, (2, 4, 64, 64), 0.25).mean().round(2)
    np.float64(0.75)
    """
    check_seed("attention_dropout_mask", seed)
    seed = int(seed)
    low, high = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32)
    b, h, i, j = (index.astype(np.uint32) for index in np.ogrid[tuple(slice(n) for n in shape)])
    row = mix(mix(mix(high ^ mix(low ^ mix(b))) ^ h) ^ i)            # (B, H, T, 1)
    bits = mix(row + j * np.uint32(0x9E3779B9))                      # (B, H, T, S)
    return bits >= np.uint32(dropout_threshold(rate))


def dropout_threshold(rate):
    """The smallest of the 2**32 hashes that keeps its weight."""
    return min(round(rate * 2**32), 2**32 - 1)


def mix(x):
    """Scramble 32 bits: a bijection in which every input bit flips about half the output bits."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def check_seed(owner, seed):
    """Check that `seed` is an integer of 64 bits."""
    if (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))
            or not 0 <= seed < 2**64):
        raise ValueError(f"{owner}: seed={seed!r} must be an integer in 0 .. 2**64 - 1.")
