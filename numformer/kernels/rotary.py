"""Rotary positions: every pair of coordinates is rotated in one pass."""

import numpy as np
from numba import boolean

from numformer.functional.positions.rotary import check_rotary
from numformer.kernels.runtime.compile import Kernel, unfused
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import any_strides, matrix, with_rows
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.workspace import new_like


@unfused
def rotate_vector(x, cosine, sine, halves, y):
    """y_a = x_a cos - x_b sin and y_b = x_a sin + x_b cos, for the pairs (a, b) of a vector.

    With `halves` the pairs are (i, i + D/2), otherwise (2i, 2i + 1).
    """
    half = len(x) // 2
    if halves:
        a, b, y_a, y_b = x[:half], x[half:], y[:half], y[half:]
        for i in range(half):
            y_a[i] = a[i] * cosine[i] - b[i] * sine[i]
            y_b[i] = a[i] * sine[i] + b[i] * cosine[i]
    else:
        for i in range(half):
            y[2 * i] = x[2 * i] * cosine[i] - x[2 * i + 1] * sine[i]
            y[2 * i + 1] = x[2 * i] * sine[i] + x[2 * i + 1] * cosine[i]


def rotate(x, cosine, sine, halves, y):
    """`rotate_vector` for vectors x, y (A, B, T, D); cosine, sine (T, D/2)."""
    x, y, cosine, sine = unowned(x), unowned(y), unowned(cosine), unowned(sine)
    A, B, T, _ = x.shape
    for first in range(A):
        for second in range(B):
            x_ab, y_ab = x[first, second], y[first, second]
            for t in range(T):
                rotate_vector(row(x_ab, t), row(cosine, t), row(sine, t), halves, row(y_ab, t))


ROTATE = Kernel(rotate, lambda real: (
    any_strides(real), *2 * [matrix(real)], boolean, real[:, :, :, ::1]))


@compiled_version
def rotary(x, cosine, sine, layout="half"):
    """The compiled version of `numformer.functional.rotary`."""
    check_rotary(x, cosine, sine, layout)
    cosine, sine = (np.ascontiguousarray(table, x.dtype) for table in (cosine, sine))
    heads = x if x.ndim == 4 else x.reshape(1, -1, *x.shape[-2:])
    y = new_like(heads)
    ROTATE[x.dtype](with_rows(heads), cosine, sine, layout == "half", y)

    saved = (cosine, sine, layout)
    return y.reshape(x.shape), saved


def rotary_backward(dy, saved):
    """The compiled version of `numformer.functional.rotary_backward`."""
    cosine, sine, layout = saved
    return rotary(dy, cosine, -sine, layout)[0]
