"""A linear map: matrix products that BLAS adds to what is there, and one vector without BLAS.

The bias is in `y` before the product, and the gradients of other examples are in `weight_grad`, so
no result is written to an array of its own first. With one vector every weight is used once, and
the loop over rows below is half as fast again as BLAS.
"""

import numpy as np
from numba import boolean

from numformer.functional.linear import check_linear
from numformer.kernels.runtime.arithmetic import gemm
from numformer.kernels.runtime.compile import Kernel, inlined, reduction
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import (
    has_rows, matrix, out_strided_matrix, out_vector, rows_of, rows_or_columns, strided_matrix,
    vector)
from numformer.kernels.runtime.workspace import new_array, new_like


@inlined
def add_weighted_rows(x, weight, y):
    """y += x W, row by row of W (C, F)."""
    weight = unowned(weight)
    for c in range(len(x)):
        factor, weight_c = x[c], row(weight, c)
        for f in range(len(y)):
            y[f] += factor * weight_c[f]


def add_rows(x, weight, y):
    """`add_weighted_rows`, as a kernel of its own."""
    add_weighted_rows(x, weight, y)


@reduction
def dot(x, y):
    total = x.dtype.type(0)
    for c in range(len(x)):
        total += x[c] * y[c]
    return total


def add_dots(x, transposed, y):
    """y += x W, given the transpose W' (F, C): a dot product for each of its rows."""
    transposed = unowned(transposed)
    for f in range(len(y)):
        y[f] += dot(x, row(transposed, f))


def multiply(a, b, c, add):
    """`gemm`, as a kernel of its own."""
    gemm(a, b, c, add)


MULTIPLY = Kernel(multiply, lambda real: (
    *2 * [strided_matrix(real)], out_strided_matrix(real), boolean))
ADD_ROWS = Kernel(add_rows, lambda real: (vector(real), matrix(real), out_vector(real)))
ADD_DOTS = Kernel(add_dots, lambda real: (vector(real), matrix(real), out_vector(real)))


def linear(x, weight, bias=None):
    """The compiled version of `numformer.functional.linear`."""
    check_linear(x, weight, bias)
    vectors = rows_of(x)                                                        # (N, C)
    if len(vectors) == 1 and (weight.flags.c_contiguous or weight.flags.f_contiguous):
        y = np.zeros((1, weight.shape[1]), x.dtype) if bias is None else bias[None].copy()
        if weight.flags.c_contiguous:
            ADD_ROWS[x.dtype](vectors[0], weight, y[0])
        else:
            ADD_DOTS[x.dtype](vectors[0], weight.T, y[0])
    else:
        y = new_array((len(vectors), weight.shape[1]), x.dtype)
        if bias is not None:
            y[...] = bias
        MULTIPLY[x.dtype](vectors, rows_or_columns(weight), y, bias is not None)

    saved = (vectors, weight, bias is not None)
    return y.reshape(*x.shape[:-1], weight.shape[1]), saved


def linear_backward(dy, saved):
    """The compiled version of `numformer.functional.linear_backward`."""
    vectors, _, has_bias = saved
    dvectors = rows_of(dy)                                                      # (N, F)
    dbias = dvectors.sum(axis=0) if has_bias else None
    dx = _input_gradient(dy, dvectors, saved)
    dweight = np.empty((vectors.shape[1], dvectors.shape[1]), dy.dtype)
    MULTIPLY[dy.dtype](vectors.T, dvectors, dweight, False)
    return dx, dweight, dbias


def linear_backward_accumulate(dy, saved, weight_grad, bias_grad=None):
    """The compiled version of `numformer.functional.linear_backward_accumulate`."""
    vectors, _, _ = saved
    dvectors = rows_of(dy)                                                      # (N, F)
    if bias_grad is not None:
        bias_grad += dvectors.sum(axis=0)
    dx = _input_gradient(dy, dvectors, saved)
    in_place = weight_grad.dtype == dy.dtype and (has_rows(weight_grad) or has_rows(weight_grad.T))
    total = weight_grad if in_place else np.zeros(weight_grad.shape, dy.dtype)
    if has_rows(total):
        MULTIPLY[dy.dtype](vectors.T, dvectors, total, True)
    else:
        MULTIPLY[dy.dtype](dvectors.T, vectors, total.T, True)
    if not in_place:
        weight_grad += total
    return dx


def _input_gradient(dy, dvectors, saved):
    vectors, weight, _ = saved
    dx = new_like(vectors)
    MULTIPLY[dy.dtype](dvectors, rows_or_columns(weight).T, dx, False)
    return dx.reshape(*dy.shape[:-1], len(weight))
