"""A few vectors through a matrix: of a large one, each thread reads ranges of its own.

Every weight is used once for each vector, so memory is the limit, and one core does not reach it.
A range is contiguous: rows of W, whose products are parts of a sum, or rows of W', which make
columns of the result. The ranges depend on the matrix alone, so the bits do not depend on the
number of threads. For a single vector the loops below are half as fast again as BLAS.
"""

import numpy as np
from numba import boolean

from numformer.kernels.runtime.arithmetic import gemm
from numformer.kernels.runtime.compile import Kernel, inlined, reduction
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import (
    has_rows, out_strided_matrix, out_vector, strided_matrix, vector)
from numformer.kernels.runtime.work_queue import run_serially

FEW, LARGE = 16, 2**19                  # vectors; numbers of a matrix
RANGES = 8                              # of a large matrix


@inlined
def add_weighted_rows(x, weight, y):
    """y += x W, four rows of W (C, F) at a time: y is then read and written a quarter as often."""
    weight, whole = unowned(weight), len(x) // 4 * 4
    for c in range(0, whole, 4):
        x_0, x_1, x_2, x_3 = x[c], x[c + 1], x[c + 2], x[c + 3]
        w_0, w_1, w_2, w_3 = (row(weight, c), row(weight, c + 1), row(weight, c + 2),
                              row(weight, c + 3))
        for f in range(len(y)):
            y[f] += x_0 * w_0[f] + x_1 * w_1[f] + x_2 * w_2[f] + x_3 * w_3[f]
    for c in range(whole, len(x)):
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
ADD_ROWS = Kernel(add_rows, lambda real: (vector(real), strided_matrix(real), out_vector(real)))
ADD_DOTS = Kernel(add_dots, lambda real: (vector(real), strided_matrix(real), out_vector(real)))


def are_few(vectors, *weights):
    """Whether matrices are large enough, and vectors (N, C) few enough, to read them in ranges."""
    return len(vectors) <= FEW and min(weight.size for weight in weights) >= LARGE


def few_vectors(x, weight, bias, each=run_serially):
    """x W + b for vectors x (N, C) and a matrix W (C, F) with contiguous rows or columns.

    `each` calls a function on all ranges; it may run them on several threads.
    """
    by_rows, (C, F), dtype = has_rows(weight), weight.shape, x.dtype
    length, count = C if by_rows else F, RANGES if are_few(x, weight) else 1
    borders = [length * n // count for n in range(count + 1)]
    ranges = [slice(*pair) for pair in zip(borders, borders[1:])]
    sums = np.zeros((count if by_rows else 1, len(x), F), dtype)
    sums[0] = 0 if bias is None else bias

    def add(n):
        if by_rows:                                                   # sums[n] += x[:, r] W[r]
            multiply_into(sums[n], x[:, ranges[n]], weight[ranges[n]], by_rows)
        else:                                                         # y[:, r] += x W[:, r]
            multiply_into(sums[0][:, ranges[n]], x, weight[:, ranges[n]], by_rows)

    each(add, range(count))
    return sums[0] if len(sums) == 1 else sums.sum(axis=0)


def multiply_into(y, x, weight, by_rows):
    """y += x W."""
    if len(x) > 1:
        MULTIPLY[x.dtype](x, weight, y, True)
    elif by_rows:
        ADD_ROWS[x.dtype](x[0], weight, y[0])
    else:
        ADD_DOTS[x.dtype](x[0], weight.T, y[0])
