"""The gated feed-forward, a block of rows at a time, as in `feed_forward`.

The products a = f(g) h are not kept: the backward multiplies again, which costs less than memory.
"""

from numba import int64

from numformer.functional.gated_feed_forward import check_gated_feed_forward
from numformer.kernels.activations import KINDS, RELU_SQUARED
from numformer.kernels.feed_forward import activate_rows
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
def multiply_rows(x, y, product):
    """product = x y, elementwise."""
    for n in range(len(x)):
        x_n, y_n, product_n = row(x, n), row(y, n), row(product, n)
        for f in range(len(x_n)):
            product_n[f] = x_n[f] * y_n[f]


def forward(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight, output_bias, kind,
            g, a, h, gate, slope, y):
    """g = x W_1 + b_1, gate = f(g), h = x W_2 + b_2, a = gate h, y = a W_3 + b_3."""
    x, g, a, h, gate = unowned(x), unowned(g), unowned(a), unowned(h), unowned(gate)
    slope, y = unowned(slope), unowned(y)
    for start in range(0, len(x), len(g)):
        stop = min(start + len(g), len(x))
        x_part, g_part, a_part = x[start:stop], g[:stop - start], a[:stop - start]
        h_part, gate_part, y_part = h[start:stop], gate[start:stop], y[start:stop]

        # g = x W_1 + b_1;  h = x W_2 + b_2
        linear_rows(x_part, gate_weight, gate_bias, g_part)
        linear_rows(x_part, hidden_weight, hidden_bias, h_part)

        # a = f(g) h
        activate_rows(kind, g_part, gate_part, slope[start:stop])
        multiply_rows(gate_part, h_part, a_part)

        # y = a W_3 + b_3
        linear_rows(a_part, output_weight, output_bias, y_part)


@inlined
def gate_gradients(kind, da, h, gate, slope, dg):
    """dg = da h f'(g), and da = da f(g), which is dh; dg is 0 where a ReLU is inactive."""
    zero = da.dtype.type(0)
    for n in range(len(da)):
        da_n, h_n, gate_n, slope_n, dg_n = (row(da, n), row(h, n), row(gate, n), row(slope, n),
                                            row(dg, n))
        if kind <= RELU_SQUARED:
            for f in range(len(da_n)):
                dg_n[f] = da_n[f] * h_n[f] * slope_n[f] if slope_n[f] != zero else zero
        else:
            for f in range(len(da_n)):
                dg_n[f] = da_n[f] * h_n[f] * slope_n[f]
        for f in range(len(da_n)):
            da_n[f] = da_n[f] * gate_n[f]


def backward(dy, x, gate_weight, hidden_weight, output_weight, kind, h, gate, slope, a, da, dg, dx,
             dgate_weight, dgate_bias, dhidden_weight, dhidden_bias, doutput_weight, doutput_bias):
    """Add to the gradients of weights and biases, with as many rows at a time as da has."""
    dy, x, h, gate, slope = unowned(dy), unowned(x), unowned(h), unowned(gate), unowned(slope)
    a, da, dg, dx = unowned(a), unowned(da), unowned(dg), unowned(dx)
    for start in range(0, len(x), len(da)):
        stop = min(start + len(da), len(x))
        x_part, dx_part, dy_part = x[start:stop], dx[start:stop], dy[start:stop]
        h_part, gate_part, slope_part = h[start:stop], gate[start:stop], slope[start:stop]
        a_part, da_part, dg_part = a[:stop - start], da[:stop - start], dg[:stop - start]

        # y = a W_3 + b_3
        multiply_rows(gate_part, h_part, a_part)
        linear_rows_backward(dy_part, a_part, output_weight, da_part, False, doutput_weight,
                             doutput_bias)

        # a = f(g) h
        gate_gradients(kind, da_part, h_part, gate_part, slope_part, dg_part)  # da is now dh

        # g = x W_1 + b_1;  h = x W_2 + b_2
        linear_rows_backward(dg_part, x_part, gate_weight, dx_part, False, dgate_weight, dgate_bias)
        linear_rows_backward(da_part, x_part, hidden_weight, dx_part, True, dhidden_weight,
                             dhidden_bias)


def gate_few(kind, g, h, gate, slope, a):
    """gate = f(g) and a = gate h, as a kernel of its own."""
    activate_rows(kind, g, gate, slope)
    multiply_rows(gate, h, a)


GATE = Kernel(gate_few, lambda real: (int64, *5 * [out_matrix(real)]))
FORWARD = Kernel(forward, lambda real: (
    strided_matrix(real), *3 * [strided_matrix(real), vector(real)], int64,
    *6 * [out_matrix(real)]))
BACKWARD = Kernel(backward, lambda real: (
    *5 * [strided_matrix(real)], int64, *3 * [strided_matrix(real)], *4 * [out_matrix(real)],
    *3 * [out_strided_matrix(real), out_vector(real)]))


@compiled_version
def gated_feed_forward(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight,
                       output_bias, activation="silu", each=run_serially):
    """The compiled version of `numformer.functional.gated_feed_forward`.

    `each` is as for `few_vectors`.
    """
    check_gated_feed_forward(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight,
                             output_bias, activation)
    real, vectors = x.dtype, rows_of(x)
    weights = [rows_or_columns(weight) for weight in (gate_weight, hidden_weight, output_weight)]
    biases = [or_empty(bias, real) for bias in (gate_bias, hidden_bias, output_bias)]
    N, (F, E), kind = len(vectors), output_weight.shape, KINDS[activation]
    rows, few = block_of_rows(N, F), are_few(vectors, *weights)
    gate, slope = new_array((N, F), real), new_array((N, F), real)
    a = new_array((N if few else rows, F), real)
    if few:
        g = few_vectors(vectors, weights[0], gate_bias, each)
        h = few_vectors(vectors, weights[1], hidden_bias, each)
        GATE[real](kind, g, h, gate, slope, a)
        y = few_vectors(a, weights[2], output_bias, each)
    else:
        g, h, y = (new_array(shape, real) for shape in ((rows, F), (N, F), (N, E)))
        FORWARD[real](vectors, *(array for pair in zip(weights, biases) for array in pair), kind,
                      g, a, h, gate, slope, y)

    biased = [bias is not None for bias in (gate_bias, hidden_bias, output_bias)]
    saved = (vectors, weights, kind, h, gate, slope, biased)
    return y.reshape(*x.shape[:-1], E), saved


def gated_feed_forward_backward(dy, saved):
    """The compiled version of `numformer.functional.gated_feed_forward_backward`."""
    _, weights, *_, biased = saved
    gradients = new_gradients(weights, biased, dy.dtype)
    return gated_feed_forward_backward_accumulate(dy, saved, *gradients), *gradients


def gated_feed_forward_backward_accumulate(dy, saved, *gradients):
    """`gated_feed_forward_backward` that adds to gradients in place; it returns dx."""
    vectors, weights, kind, h, gate, slope, _ = saved
    dvectors, dx, real = rows_of(dy), new_like(vectors), dy.dtype
    a, da, dg = (new_array((block_of_rows(*h.shape), h.shape[1]), real) for _ in range(3))
    BACKWARD[real](dvectors, vectors, *weights, kind, h, gate, slope, a, da, dg, dx,
                   *(or_empty(gradient, real) for gradient in gradients))
    return dx.reshape(*dy.shape[:-1], vectors.shape[1])
