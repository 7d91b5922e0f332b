"""A linear map of a block of rows: what kernels are made of that go on with rows just written."""

import numpy as np

from numformer.kernels.runtime.arithmetic import gemm
from numformer.kernels.runtime.compile import inlined
from numformer.kernels.runtime.memory import row

BLOCK = 2**20                           # numbers of a block: 4 MB in float32


@inlined
def linear_rows(x, weight, bias, y):
    """y = x W + b; an empty bias is none."""
    for n in range(len(y) if len(bias) > 0 else 0):
        y_n = row(y, n)
        for c in range(len(bias)):
            y_n[c] = bias[c]
    gemm(x, weight, y, len(bias) > 0)


@inlined
def linear_rows_backward(dy, x, weight, dx, add, dweight, dbias):
    """dx = dy W', or dx += that with `add`; W and b get their gradients added."""
    gemm(dy, weight.T, dx, add)
    gemm(x.T, dy, dweight, True)
    for n in range(len(dy) if len(dbias) > 0 else 0):
        dy_n = row(dy, n)
        for c in range(len(dbias)):
            dbias[c] += dy_n[c]


def new_gradients(weights, biased, real):
    """Zeros for the gradient of each weight and its bias, in turn; None where there is no bias."""
    gradients = []
    for weight, has_bias in zip(weights, biased):
        gradients += [np.zeros(weight.shape, real),
                      np.zeros(weight.shape[1], real) if has_bias else None]
    return gradients


def block_of_rows(N, F):
    """How many of N rows of F numbers are computed at a time."""
    return min(N, max(16, BLOCK // F))


def or_empty(bias, dtype):
    """A bias, or an empty vector where there is none."""
    return np.empty(0, dtype) if bias is None else bias
