"""The feed-forward, a block of rows at a time: bias and activation meet rows that are in the cache.

The slope f'(h) is saved in place of h, so the backward multiplies by it and computes nothing again.
"""

from numba import int64

from numformer.functional.feed_forward import check_feed_forward
from numformer.kernels.activations import KINDS, RELU_SQUARED, activate
from numformer.kernels.few_vectors import are_few, few_vectors
from numformer.kernels.linear_rows import (
    block_of_rows, linear_rows, linear_rows_backward, new_gradients, or_empty)
from numformer.kernels.runtime.compile import Kernel, inlined
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import (
    out_matrix, out_strided_matrix, out_vector, rows_of, rows_or_columns, strided_matrix, vector)
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.work_queue import run_serially
from numformer.kernels.runtime.workspace import new_array, new_like


@inlined
def multiply_by_slopes(kind, da, slope):
    """da = da f'(h); exactly 0 where a ReLU is inactive, even if da is NaN or Inf there."""
    zero = da.dtype.type(0)
    for n in range(len(da)):
        da_n, slope_n = row(da, n), row(slope, n)
        if kind <= RELU_SQUARED:
            for f in range(len(da_n)):
                da_n[f] = da_n[f] * slope_n[f] if slope_n[f] != zero else zero
        else:
            for f in range(len(da_n)):
                da_n[f] = da_n[f] * slope_n[f]


@inlined
def activate_rows(kind, x, y, slope):
    """y = f(x) and slope = f'(x), row by row."""
    for n in range(len(x)):
        activate(kind, x.dtype.type(1), row(x, n), row(y, n), row(slope, n))


def activate_few(kind, x, y, slope):
    """`activate_rows`, as a kernel of its own."""
    activate_rows(kind, x, y, slope)


def forward(x, hidden_weight, hidden_bias, output_weight, output_bias, kind, h, a, slope, y):
    """y = f(x W_1 + b_1) W_2 + b_2, with as many rows at a time as h has."""
    x, h, a, slope, y = unowned(x), unowned(h), unowned(a), unowned(slope), unowned(y)
    for start in range(0, len(x), len(h)):
        stop = min(start + len(h), len(x))
        h_part, a_part, y_part = h[:stop - start], a[start:stop], y[start:stop]

        # h = x W_1 + b_1
        linear_rows(x[start:stop], hidden_weight, hidden_bias, h_part)

        # a = f(h)
        activate_rows(kind, h_part, a_part, slope[start:stop])

        # y = a W_2 + b_2
        linear_rows(a_part, output_weight, output_bias, y_part)


def backward(dy, x, hidden_weight, output_weight, kind, a, slope, da, dx, dhidden_weight,
             dhidden_bias, doutput_weight, doutput_bias):
    """Add to the gradients of weights and biases, with as many rows at a time as da has."""
    dy, x, a, slope, da, dx = (unowned(dy), unowned(x), unowned(a), unowned(slope), unowned(da),
                               unowned(dx))
    for start in range(0, len(x), len(da)):
        stop = min(start + len(da), len(x))
        da_part, dy_part = da[:stop - start], dy[start:stop]

        # y = a W_2 + b_2
        linear_rows_backward(dy_part, a[start:stop], output_weight, da_part, False, doutput_weight,
                             doutput_bias)

        # a = f(h)
        multiply_by_slopes(kind, da_part, slope[start:stop])          # now dh

        # h = x W_1 + b_1
        linear_rows_backward(da_part, x[start:stop], hidden_weight, dx[start:stop], False,
                             dhidden_weight, dhidden_bias)


ACTIVATE = Kernel(activate_few, lambda real: (int64, *3 * [out_matrix(real)]))
FORWARD = Kernel(forward, lambda real: (
    strided_matrix(real), strided_matrix(real), vector(real), strided_matrix(real), vector(real),
    int64, *4 * [out_matrix(real)]))
BACKWARD = Kernel(backward, lambda real: (
    *4 * [strided_matrix(real)], int64, *2 * [strided_matrix(real)], *2 * [out_matrix(real)],
    out_strided_matrix(real), out_vector(real), out_strided_matrix(real), out_vector(real)))


@compiled_version
def feed_forward(x, hidden_weight, hidden_bias, output_weight, output_bias, activation="gelu",
                 each=run_serially):
    """The compiled version of `numformer.functional.feed_forward`; `each` as for `few_vectors`."""
    check_feed_forward("feed_forward", x, hidden_weight, hidden_bias, output_weight, output_bias,
                       activation)
    vectors, hidden_weight, output_weight = rows_of(x), *map(rows_or_columns,
                                                             (hidden_weight, output_weight))
    N, (F, E), kind = len(vectors), output_weight.shape, KINDS[activation]
    a, slope = new_array((N, F), x.dtype), new_array((N, F), x.dtype)
    if are_few(vectors, hidden_weight, output_weight):
        h = few_vectors(vectors, hidden_weight, hidden_bias, each)
        ACTIVATE[x.dtype](kind, h, a, slope)
        y = few_vectors(a, output_weight, output_bias, each)
    else:
        h, y = new_array((block_of_rows(N, F), F), x.dtype), new_array((N, E), x.dtype)
        FORWARD[x.dtype](vectors, hidden_weight, or_empty(hidden_bias, x.dtype), output_weight,
                         or_empty(output_bias, x.dtype), kind, h, a, slope, y)

    biased = hidden_bias is not None, output_bias is not None
    saved = (vectors, hidden_weight, output_weight, kind, a, slope, biased)
    return y.reshape(*x.shape[:-1], E), saved


def feed_forward_backward(dy, saved):
    """The compiled version of `numformer.functional.feed_forward_backward`."""
    _, hidden_weight, output_weight, *_, biased = saved
    gradients = new_gradients((hidden_weight, output_weight), biased, dy.dtype)
    return feed_forward_backward_accumulate(dy, saved, *gradients), *gradients


def feed_forward_backward_accumulate(dy, saved, hidden_weight_grad, hidden_bias_grad,
                                     output_weight_grad, output_bias_grad):
    """`feed_forward_backward` that adds to gradients in place; it returns dx."""
    vectors, hidden_weight, output_weight, kind, a, slope, _ = saved
    dvectors, dx = rows_of(dy), new_like(vectors)
    da = new_array((block_of_rows(*a.shape), a.shape[1]), dy.dtype)
    BACKWARD[dy.dtype](dvectors, vectors, hidden_weight, output_weight, kind, a, slope, da, dx,
                       hidden_weight_grad, or_empty(hidden_bias_grad, dy.dtype),
                       output_weight_grad, or_empty(output_bias_grad, dy.dtype))
    return dx.reshape(*dy.shape[:-1], len(hidden_weight))
