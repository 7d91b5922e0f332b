"""Dropout, alone or on what a branch adds: the hash decides number by number, and nothing is kept but its seed."""

import numpy as np
from numba import uint32

from numformer.functional.dropout import check_dropout, check_residual, dropout_seed, dropout_threshold
from numformer.kernels.compiled import Kernel, inlined
from numformer.kernels.memory import borrow, row
from numformer.kernels.room import new_like
from numformer.kernels.shapes import matrix, new_matrix, rows_of
from numformer.kernels.tiles import mix


@inlined
def row_hash(n, seed_low, seed_high):
    """What all numbers of row n share: `attention_dropout_mask` of the first example and head, for which mix(0) is 0."""
    return mix(uint32(mix(uint32(mix(uint32(seed_high ^ mix(uint32(seed_low)))))) ^ uint32(n)))


@inlined
def is_kept(hashed, c, threshold):
    return mix(uint32(hashed + uint32(uint32(c) * uint32(0x9E3779B9)))) >= threshold


def silence(x, seed_low, seed_high, threshold, scale, y):
    """y = scale x where the hash of row and column keeps it, and else 0."""
    x, y, zero = borrow(x), borrow(y), x.dtype.type(0)
    for n in range(len(x)):
        x_n, y_n, hashed = row(x, n), row(y, n), row_hash(n, seed_low, seed_high)
        for c in range(len(x_n)):
            y_n[c] = x_n[c] * scale if is_kept(hashed, c, threshold) else zero


def add_silenced(x, branch, seed_low, seed_high, threshold, scale, y):
    """y = x + silence(branch)."""
    x, branch, y, zero = borrow(x), borrow(branch), borrow(y), x.dtype.type(0)
    for n in range(len(x)):
        x_n, b_n, y_n, hashed = row(x, n), row(branch, n), row(y, n), row_hash(n, seed_low, seed_high)
        for c in range(len(x_n)):
            y_n[c] = x_n[c] + (b_n[c] * scale if is_kept(hashed, c, threshold) else zero)


SILENCE = Kernel(silence, lambda real: (matrix(real), uint32, uint32, uint32, real, new_matrix(real)))
ADD_SILENCED = Kernel(add_silenced, lambda real: (*2 * [matrix(real)], uint32, uint32, uint32, real, new_matrix(real)))


def dropout(x, rate, rng=None):
    """The twin of `numformer.functional.dropout`: the same mask, to the bit."""
    check_dropout("dropout", x, rate, rng)
    saved = (None, rate) if rng is None or rate == 0 else (dropout_seed(rng), float(rate))
    return dropout_backward(x, saved), saved


def dropout_backward(dy, saved):
    """The twin of `numformer.functional.dropout_backward`."""
    seed, rate = saved
    if seed is None:
        return dy.copy()
    rows = rows_of(dy)
    dx = new_like(rows)
    SILENCE[dy.dtype](rows, *_hash(seed, rate, dy.dtype), dx)
    return dx.reshape(dy.shape)


def residual_dropout(x, branch, rate, rng=None):
    """The twin of `numformer.functional.residual_dropout`."""
    check_residual(x, branch, rate, rng)
    if rng is None or rate == 0:
        return np.add(x, branch, out=new_like(x)), (None, rate)
    saved = dropout_seed(rng), float(rate)
    rows = rows_of(x)
    y = new_like(rows)
    ADD_SILENCED[x.dtype](rows, rows_of(branch), *_hash(*saved, x.dtype), y)
    return y.reshape(x.shape), saved


def residual_dropout_backward(dy, saved):
    """The twin of `numformer.functional.residual_dropout_backward`."""
    return dy, dy if saved[0] is None else dropout_backward(dy, saved)


def _hash(seed, rate, dtype):
    """What the hash of a mask is made of: the two halves of its seed, the first hash that is kept; and the scale of what is kept."""
    return seed & 0xFFFFFFFF, seed >> 32, dropout_threshold(rate), dtype.type(1 / (1 - rate))
