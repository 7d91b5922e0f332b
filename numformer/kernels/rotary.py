"""Rotary positions: every pair of coordinates is rotated in one pass."""

import numpy as np
from numba import boolean

from numformer.functional.positions.rotary import check_rotary
from numformer.kernels.runtime.compile import Kernel
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import any_strides, matrix, with_rows
from numformer.kernels.runtime.workspace import new_like


def rotate(x, cosine, sine, halves, y):
    """y_a = x_a cos - x_b sin and y_b = x_a sin + x_b cos, for the pairs (a, b) of a vector.

    x, y (A, B, T, D). With `halves` the pairs are (i, i + D/2), otherwise (2i, 2i + 1).
    """
    x, y, cosine, sine = unowned(x), unowned(y), unowned(cosine), unowned(sine)
    A, B, T, D = x.shape
    half = D // 2
    for first in range(A):
        for second in range(B):
            x_ab, y_ab = x[first, second], y[first, second]
            for t in range(T):
                x_t, y_t, cos, sin = row(x_ab, t), row(y_ab, t), row(cosine, t), row(sine, t)
                if halves:
                    a, b = x_t[:half], x_t[half:]
                    y_a, y_b = y_t[:half], y_t[half:]
                    for i in range(half):
                        y_a[i] = a[i] * cos[i] - b[i] * sin[i]
                        y_b[i] = a[i] * sin[i] + b[i] * cos[i]
                else:
                    for i in range(half):
                        y_t[2 * i] = x_t[2 * i] * cos[i] - x_t[2 * i + 1] * sin[i]
                        y_t[2 * i + 1] = x_t[2 * i] * sin[i] + x_t[2 * i + 1] * cos[i]


ROTATE = Kernel(rotate, lambda real: (
    any_strides(real), *2 * [matrix(real)], boolean, real[:, :, :, ::1]))


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
