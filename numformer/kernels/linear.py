"""A linear map of a single vector, at the speed at which memory brings the weights; and gradients of weights, added where they belong.

Many vectors are a matrix product, which BLAS does; with one, every weight is used once, and the loop over rows below reads them
half as fast again as BLAS's own.
"""

import numpy as np

from numformer.functional.linear import check_linear
from numformer.kernels.arithmetic import gemm
from numformer.kernels.compiled import Kernel, inlined, summing
from numformer.kernels.memory import borrow, row
from numformer.kernels.room import new_array, new_like
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


@summing
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
    """The twin of `numformer.functional.linear`."""
    check_linear(x, weight, bias)
    vectors = rows_of(x)                                              # (N, C)
    if len(vectors) == 1 and (weight.flags.c_contiguous or weight.flags.f_contiguous):
        y = np.zeros((1, weight.shape[1]), x.dtype) if bias is None else bias[None].copy()
        if weight.flags.c_contiguous:
            ADD_ROWS[x.dtype](vectors[0], weight, y[0])
        else:
            ADD_DOTS[x.dtype](vectors[0], weight.T, y[0])
    else:
        y = np.matmul(vectors, weight, out=new_array((len(vectors), weight.shape[1]), x.dtype))
        if bias is not None:
            y += bias

    saved = (vectors, weight, bias is not None)
    return y.reshape(*x.shape[:-1], weight.shape[1]), saved


def linear_backward(dy, saved, dweight=None):
    """The twin of `numformer.functional.linear_backward`: a gradient that is added goes there without a copy of its own."""
    vectors, weight, biased = saved
    dvectors = rows_of(dy)                                            # (N, F)
    dbias = dvectors.sum(axis=0) if biased else None
    dx = np.matmul(dvectors, weight.T, out=new_like(vectors))
    fits = dweight is not None and dweight.dtype == dy.dtype
    if fits and dweight.flags.c_contiguous:
        ADD_GRADIENT[dy.dtype](vectors, dvectors, dweight)
    elif fits and dweight.flags.f_contiguous:
        ADD_GRADIENT[dy.dtype](dvectors, vectors, dweight.T)
    elif dweight is not None:
        dweight += vectors.T @ dvectors
    else:
        dweight = vectors.T @ dvectors
    return dx.reshape(*dy.shape[:-1], len(weight)), dweight, dbias
