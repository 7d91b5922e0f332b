"""A linear map: matrix products that BLAS adds to what is there.

The bias is in `y` before the product, and the gradients of other examples are in `weight_grad`, so
no result is written to an array of its own first.
"""

import numpy as np

from numformer.functional.linear import check_linear
from numformer.kernels.few_vectors import MULTIPLY, are_few, few_vectors
from numformer.kernels.runtime.shapes import has_rows, rows_of, rows_or_columns
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.work_queue import run_serially
from numformer.kernels.runtime.workspace import new_array, new_like


@compiled_version
def linear(x, weight, bias=None, each=run_serially):
    """The compiled version of `numformer.functional.linear`; `each` as for `few_vectors`."""
    check_linear(x, weight, bias)
    vectors = rows_of(x)                                                        # (N, C)
    if are_few(vectors, weight) or len(vectors) == 1:
        y = few_vectors(vectors, rows_or_columns(weight), bias, each)
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
    if weight_grad is None:                                                     # frozen
        return dx
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
