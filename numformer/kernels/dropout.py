"""Dropout, alone or on a residual branch: a hash decides each number, so only its seed is saved."""

import numpy as np
from numba import uint32

from numformer.functional.dropout import check_dropout, check_residual
from numformer.functional.dropout_hash import dropout_seed, dropout_threshold
from numformer.kernels.runtime.compile import Kernel, inlined, unfused
from numformer.kernels.runtime.hashing import mix
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import matrix, out_matrix, rows_of
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.workspace import new_like


@inlined
def row_hash(n, seed_low, seed_high):
    """The part of the hash that all numbers of row n share.

    It is that of `attention_dropout_mask` for the first example and head, for which mix(0) is 0.
    """
    return mix(uint32(mix(uint32(mix(uint32(seed_high ^ mix(uint32(seed_low)))))) ^ uint32(n)))


@inlined
def is_kept(hashed, c, threshold):
    return mix(uint32(hashed + uint32(uint32(c) * uint32(0x9E3779B9)))) >= threshold


@unfused
def drop_row(x, hashed, threshold, scale, y):
    """y = scale x where the hash of row and column keeps it, and 0 elsewhere."""
    zero = x.dtype.type(0)
    for c in range(len(x)):
        y[c] = x[c] * scale if is_kept(hashed, c, threshold) else zero


@unfused
def add_dropped_row(x, branch, hashed, threshold, scale, y):
    """y = x + drop_row(branch)."""
    zero = x.dtype.type(0)
    for c in range(len(x)):
        y[c] = x[c] + (branch[c] * scale if is_kept(hashed, c, threshold) else zero)


def drop(x, seed_low, seed_high, threshold, scale, y):
    """`drop_row` of every row."""
    x, y = unowned(x), unowned(y)
    for n in range(len(x)):
        drop_row(row(x, n), row_hash(n, seed_low, seed_high), threshold, scale, row(y, n))


def add_dropped(x, branch, seed_low, seed_high, threshold, scale, y):
    """`add_dropped_row` of every row."""
    x, branch, y = unowned(x), unowned(branch), unowned(y)
    for n in range(len(x)):
        add_dropped_row(row(x, n), row(branch, n), row_hash(n, seed_low, seed_high), threshold,
                        scale, row(y, n))


DROP = Kernel(drop, lambda real: (matrix(real), *3 * [uint32], real, out_matrix(real)))
ADD_DROPPED = Kernel(add_dropped, lambda real: (
    *2 * [matrix(real)], *3 * [uint32], real, out_matrix(real)))


@compiled_version
def dropout(x, rate, rng=None):
    """The compiled version of `numformer.functional.dropout`: the same mask, to the bit."""
    check_dropout("dropout", x, rate, rng)
    saved = (None, rate) if rng is None or rate == 0 else (dropout_seed(rng), float(rate))
    return dropout_backward(x, saved), saved


def dropout_backward(dy, saved):
    """The compiled version of `numformer.functional.dropout_backward`."""
    seed, rate = saved
    if seed is None:
        return dy.copy()
    rows = rows_of(dy)
    dx = new_like(rows)
    DROP[dy.dtype](rows, *mask_arguments(seed, rate, dy.dtype), dx)
    return dx.reshape(dy.shape)


@compiled_version
def residual_dropout(x, branch, rate, rng=None):
    """The compiled version of `numformer.functional.residual_dropout`."""
    check_residual(x, branch, rate, rng)
    if rng is None or rate == 0:
        return np.add(x, branch, out=new_like(x)), (None, rate)
    saved = dropout_seed(rng), float(rate)
    rows = rows_of(x)
    y = new_like(rows)
    ADD_DROPPED[x.dtype](rows, rows_of(branch), *mask_arguments(*saved, x.dtype), y)
    return y.reshape(x.shape), saved


def residual_dropout_backward(dy, saved):
    """The compiled version of `numformer.functional.residual_dropout_backward`."""
    return dy, dy if saved[0] is None else dropout_backward(dy, saved)


def mask_arguments(seed, rate, dtype):
    """The two halves of the seed, the first hash that is kept, and the scale of kept numbers."""
    return seed & 0xFFFFFFFF, seed >> 32, dropout_threshold(rate), dtype.type(1 / (1 - rate))
