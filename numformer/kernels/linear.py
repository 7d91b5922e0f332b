"""A linear map of a single vector, at the speed at which memory brings the weights; and gradients of weights, added where they belong.

Many vectors are a matrix product, which BLAS does; with one, every weight is used once, and the loop over rows below reads them
half as fast again as BLAS's own.
"""

import numba
import numpy as np

from numformer.functional.linear import linear as truth
from numformer.functional.linear import linear_backward as truth_backward
from numformer.kernels.arithmetic import gemm
from numformer.kernels.compiled import STRICT, Kernel, inlined
from numformer.kernels.memory import borrow, row
from numformer.kernels.shapes import line, matrix, new_line, new_matrix, rows_of


@inlined
def add_rows_of(x, weight, y):
    """y += x W, row by row of W (C, F)."""
    weight = borrow(weight)
    for c in range(len(x)):
        factor, weight_c = x[c], row(weight, c)
        for f in range(len(y)):
            y[f] += factor * weight_c[f]


def add_rows(x, weight, y):
    """`add_rows_of`, alone."""
    add_rows_of(x, weight, y)


@numba.njit(fastmath={"contract", "reassoc", "nsz"}, **STRICT)        # the order of the sum is free, so it vectorizes
def dot(x, y):
    total = x.dtype.type(0)
    for c in range(len(x)):
        total += x[c] * y[c]
    return total


def add_dots(x, turned, y):
    """y += x W, where W' (F, C) is at hand: a sum for each of its rows."""
    turned = borrow(turned)
    for f in range(len(y)):
        y[f] += dot(x, row(turned, f))


def add_gradient(x, dy, dweight):
    """dweight += x' dy, in BLAS's own sum."""
    gemm(x.T, dy, dweight, True)


ADD_GRADIENT = Kernel(add_gradient, lambda real: (*2 * [matrix(real)], new_matrix(real)))
ADD_ROWS = Kernel(add_rows, lambda real: (line(real), matrix(real), new_line(real)))
ADD_DOTS = Kernel(add_dots, lambda real: (line(real), matrix(real), new_line(real)))


def linear(x, weight, bias=None):
    """The twin of `numformer.functional.linear`: itself, but for a single vector."""
    fits = x.ndim and x.size == x.shape[-1] == len(weight) and x.flags.c_contiguous and x.dtype == weight.dtype
    if not fits or not (weight.flags.c_contiguous or weight.flags.f_contiguous) or bias is not None and bias.shape != weight.shape[1:]:
        return truth(x, weight, bias)
    y = np.zeros(weight.shape[1], x.dtype) if bias is None else bias.astype(x.dtype)
    if weight.flags.c_contiguous:
        ADD_ROWS[x.dtype](x.reshape(-1), weight, y)
    else:
        ADD_DOTS[x.dtype](x.reshape(-1), weight.T, y)

    saved = (x, weight, bias is not None)
    return y.reshape(*x.shape[:-1], len(y)), saved


def linear_backward(dy, saved, dweight=None):
    """The twin of `numformer.functional.linear_backward`: a gradient that is added goes there without a copy of its own."""
    x, weight, biased = saved
    if dweight is None or not (dweight.flags.c_contiguous or dweight.flags.f_contiguous) or dweight.dtype != x.dtype:
        return truth_backward(dy, saved, dweight)
    vectors, dvectors = rows_of(x), rows_of(dy)
    dbias = dvectors.sum(axis=0) if biased else None
    dx = dvectors @ weight.T
    if dweight.flags.c_contiguous:
        ADD_GRADIENT[x.dtype](vectors, dvectors, dweight)
    else:
        ADD_GRADIENT[x.dtype](dvectors, vectors, dweight.T)
    return dx.reshape(x.shape), dweight, dbias
