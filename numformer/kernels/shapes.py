"""How arrays come to the kernels that take vectors one by one: without gaps, as rows; and the types that such arrays have."""

import numpy as np
from numba import types


def rows_of(x):
    """x (..., C) as a matrix of all its vectors, (N, C), without gaps: a view where that can be."""
    return np.ascontiguousarray(x).reshape(-1, x.shape[-1] if x.ndim else 1)


def line_of(x):
    """All numbers of x in a row, without gaps: a view where that can be."""
    return np.ascontiguousarray(x).reshape(-1)


def line(real):
    """An array of one axis that is only read."""
    return types.Array(real, 1, "C", readonly=True)


def matrix(real):
    return types.Array(real, 2, "C", readonly=True)


def new_line(real):
    """An array of one axis that is written to."""
    return types.Array(real, 1, "C")


def new_matrix(real):
    return types.Array(real, 2, "C")


def whole(ids):
    """Whole numbers of any shape and size as int64 in a row."""
    return np.ascontiguousarray(ids, np.int64).reshape(-1)
