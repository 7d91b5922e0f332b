"""In what form arrays reach the kernels, and the Numba types that such arrays have."""

from functools import lru_cache

import numpy as np
from numba import types


def rows_of(x):
    """x (..., C) as a contiguous matrix of all its vectors, (N, C): a view where possible."""
    return np.ascontiguousarray(x).reshape(-1, x.shape[-1] if x.ndim else 1)


def flat(x):
    """All numbers of x as one contiguous vector: a view where possible."""
    return np.ascontiguousarray(x).reshape(-1)


def flat_ids(ids):
    """Integers of any shape and size as one contiguous int64 vector."""
    return np.ascontiguousarray(ids, np.int64).reshape(-1)


def has_rows(x):
    """Whether the rows of x are contiguous and in order, as BLAS requires."""
    size = x.itemsize
    return (x.flags.aligned and x.strides[-1] == size and x.strides[-2] >= x.shape[-1] * size
            and type(x) is np.ndarray)


def with_rows(x):
    """x itself if it `has_rows`; else a copy."""
    return x if has_rows(x) else np.ascontiguousarray(np.asarray(x))


def of_width(x, width):
    """x with zeros behind the last axis, which add nothing to a product; x itself if it is wide."""
    if x.shape[-1] == width:
        return x
    wide = np.zeros((*x.shape[:-1], width), x.dtype)
    wide[..., :x.shape[-1]] = x
    return wide


def rows_or_columns(x):
    """A matrix itself if it or its transpose `has_rows`; else a copy."""
    return x if has_rows(x.T) else with_rows(x)


@lru_cache(maxsize=None)
def absent(real):
    """Empty arrays in place of a mask, slopes and a bias that are not given."""
    return np.zeros((1, 1, 0, 0), bool), np.zeros(0, real), np.zeros((0, 0), real)


def vector(real):
    """The type of a contiguous vector that is only read."""
    return types.Array(real, 1, "C", readonly=True)


def matrix(real):
    """The type of a contiguous matrix that is only read."""
    return types.Array(real, 2, "C", readonly=True)


def out_vector(real):
    """The type of a contiguous vector that is written."""
    return types.Array(real, 1, "C")


def out_matrix(real):
    """The type of a contiguous matrix that is written."""
    return types.Array(real, 2, "C")


def strided_matrix(real):
    """The type of a matrix of any strides that is only read."""
    return types.Array(real, 2, "A", readonly=True)


def out_strided_matrix(real):
    """The type of a matrix of any strides that is written."""
    return types.Array(real, 2, "A")


def any_strides(real):
    """The type of an array (B, H, T, D) of any strides that is only read."""
    return types.Array(real, 4, "A", readonly=True)
