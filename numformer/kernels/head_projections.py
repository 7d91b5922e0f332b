"""Projection into heads, a block of rows at a time: norm and rotation meet rows in the cache.

q, k and v have the heads of a token next to each other. So have their gradients where the attention
kernel computed them: then nothing is copied.
"""

import numpy as np
from numba import boolean, int64

from numformer.functional.head_projections import check_head_projections, join_heads, split_heads
from numformer.kernels.linear_rows import (
    block_of_rows, linear_rows, linear_rows_backward, new_gradients, or_empty)
from numformer.kernels.norms import normalize_vector, normalize_vector_backward
from numformer.kernels.rotary import rotate_vector
from numformer.kernels.runtime.compile import Kernel, inlined
from numformer.kernels.runtime.memory import matrix_view, row, unowned
from numformer.kernels.runtime.shapes import (
    absent, matrix, out_matrix, out_strided_matrix, out_vector, rows_of, rows_or_columns,
    strided_matrix, vector)
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.workspace import new_array, new_like


@inlined
def heads_of(x, D):
    """The heads of all rows (N, H D) as vectors, (N H, D)."""
    return matrix_view(x, 0, x.size // D, D)


@inlined
def encode(h, start, T, norm, epsilon, cosine, sine, halves, between, rrms, y):
    """y = rotary(rms_norm(h)) for rows from `start` on; `between` (D,) holds a normalized head."""
    D, normed, rotated = len(between), len(norm) > 0, len(cosine) > 0
    H, h_heads, y_heads = h.shape[1] // D, heads_of(h, D), heads_of(y, D)
    for n in range(len(h)):
        t = (start + n) % T
        for i in range(n * H, (n + 1) * H):
            h_i, y_i = row(h_heads, i), row(y_heads, i)
            normal_i = between if rotated else y_i
            if normed:
                _, rrms[start * H + i], _ = normalize_vector(
                    h_i, norm, norm[:0], epsilon, True, False, normal_i)
            if rotated:
                rotate_vector(normal_i if normed else h_i, row(cosine, t), row(sine, t), halves,
                              y_i)


@inlined
def encode_backward(dy, h, start, T, norm, cosine, minus_sine, halves, between, rrms, dh, dnorm):
    """The gradient of `encode`: rotate back, then through the norm."""
    D, normed, rotated = len(between), len(norm) > 0, len(cosine) > 0
    zero, one = dy.dtype.type(0), dy.dtype.type(1)
    H, h_heads = dy.shape[1] // D, heads_of(h, D)
    dy_heads, dh_heads = heads_of(dy, D), heads_of(dh, D)
    for n in range(len(dy)):
        t = (start + n) % T
        for i in range(n * H, (n + 1) * H):
            dy_i, dh_i = row(dy_heads, i), row(dh_heads, i)
            dnormal_i = between if normed else dh_i
            if rotated:
                rotate_vector(dy_i, row(cosine, t), row(minus_sine, t), halves, dnormal_i)
            if normed:
                normalize_vector_backward(
                    dnormal_i if rotated else dy_i, row(h_heads, i), norm, False, zero,
                    rrms[start * H + i], one, dh_i, dnorm, dnorm[:0])


@inlined
def project(x, start, stop, T, weight, bias, norm, epsilon, cosine, sine, halves, between, h, rrms,
            y):
    """y = rotary(rms_norm(x W + b)) for rows start .. stop - 1.

    h holds the rows of x W + b: all of them, or those of a block. With nothing to encode, h is y.
    """
    h_part = h[start:stop] if len(h) == len(x) else h[:stop - start]
    linear_rows(x[start:stop], weight, bias, h_part)
    if len(norm) > 0 or len(cosine) > 0:
        encode(h_part, start, T, norm, epsilon, cosine, sine, halves, between, rrms, y[start:stop])


@inlined
def project_backward(dy, x, start, stop, T, weight, norm, cosine, minus_sine, halves, between, h,
                     rrms, dh, dx, add, dweight, dbias, dnorm):
    """The gradient of `project`; dh holds the rows of a block."""
    dy_part, x_part, dx_part = dy[start:stop], x[start:stop], dx[start:stop]
    if len(norm) > 0 or len(cosine) > 0:
        dh_part = dh[:stop - start]
        encode_backward(dy_part, h[start:stop], start, T, norm, cosine, minus_sine, halves, between,
                        rrms, dh_part, dnorm)
        linear_rows_backward(dh_part, x_part, weight, dx_part, add, dweight, dbias)
    else:
        linear_rows_backward(dy_part, x_part, weight, dx_part, add, dweight, dbias)


def forward(x, query_weight, query_bias, key_weight, key_bias, value_weight, value_bias,
            query_norm, key_norm, T, epsilon, cosine, sine, halves, rows, between, h_q, h_k,
            rrms_q, rrms_k, q, k, v):
    """q, k and v of `rows` rows of x at a time."""
    x, h_q, h_k, cosine, sine, between = (unowned(x), unowned(h_q), unowned(h_k), unowned(cosine),
                                          unowned(sine), unowned(between))
    q, k, v = unowned(q), unowned(k), unowned(v)
    for start in range(0, len(x), rows):
        stop = min(start + rows, len(x))

        # q, k = rotary(rms_norm(x W_Q + b_Q)), rotary(rms_norm(x W_K + b_K))
        project(x, start, stop, T, query_weight, query_bias, query_norm, epsilon, cosine, sine,
                halves, between, h_q, rrms_q, q)
        project(x, start, stop, T, key_weight, key_bias, key_norm, epsilon, cosine, sine,
                halves, between, h_k, rrms_k, k)

        # v = x W_V + b_V
        linear_rows(x[start:stop], value_weight, value_bias, v[start:stop])


def backward(dq, dk, dv, x, query_weight, key_weight, value_weight, query_norm, key_norm, T, cosine,
             minus_sine, halves, rows, between, h_q, h_k, rrms_q, rrms_k, dh_q, dh_k, dx,
             dquery_weight, dquery_bias, dkey_weight, dkey_bias, dvalue_weight, dvalue_bias,
             dquery_norm, dkey_norm):
    """Add to the gradients of weights, biases and norms, with `rows` rows at a time."""
    dq, dk, dv, x, dx = unowned(dq), unowned(dk), unowned(dv), unowned(x), unowned(dx)
    h_q, h_k, dh_q, dh_k = unowned(h_q), unowned(h_k), unowned(dh_q), unowned(dh_k)
    cosine, minus_sine, between = unowned(cosine), unowned(minus_sine), unowned(between)
    for start in range(0, len(x), rows):
        stop = min(start + rows, len(x))

        # q, k = rotary(rms_norm(x W_Q + b_Q)), rotary(rms_norm(x W_K + b_K))
        project_backward(dq, x, start, stop, T, query_weight, query_norm, cosine, minus_sine,
                         halves, between, h_q, rrms_q, dh_q, dx, False, dquery_weight, dquery_bias,
                         dquery_norm)
        project_backward(dk, x, start, stop, T, key_weight, key_norm, cosine, minus_sine,
                         halves, between, h_k, rrms_k, dh_k, dx, True, dkey_weight, dkey_bias,
                         dkey_norm)

        # v = x W_V + b_V
        linear_rows_backward(dv[start:stop], x[start:stop], value_weight, dx[start:stop], True,
                             dvalue_weight, dvalue_bias)


FORWARD = Kernel(forward, lambda real: (
    matrix(real), *3 * [strided_matrix(real), vector(real)], *2 * [vector(real)], int64, real,
    *2 * [matrix(real)], boolean, int64, out_vector(real), *2 * [out_matrix(real)],
    *2 * [out_vector(real)], *3 * [out_matrix(real)]))
BACKWARD = Kernel(backward, lambda real: (
    *4 * [matrix(real)], *3 * [strided_matrix(real)], *2 * [vector(real)], int64,
    *2 * [matrix(real)], boolean, int64, out_vector(real), *2 * [matrix(real)],
    *2 * [vector(real)], *3 * [out_matrix(real)],
    *3 * [out_strided_matrix(real), out_vector(real)], *2 * [out_vector(real)]))


@compiled_version
def head_projections(x, query_weight, query_bias, key_weight, key_bias, value_weight, value_bias,
                     query_norm, key_norm, d_head, rotation=None, epsilon=1e-5):
    """The compiled version of `numformer.functional.head_projections`."""
    check_head_projections(x, query_weight, query_bias, key_weight, key_bias, value_weight,
                           value_bias, query_norm, key_norm, d_head, rotation, epsilon)
    (B, T, C), real, vectors = x.shape, x.dtype, rows_of(x)
    weights = [rows_or_columns(weight) for weight in (query_weight, key_weight, value_weight)]
    biases = [or_empty(bias, real) for bias in (query_bias, key_bias, value_bias)]
    norms = [np.ascontiguousarray(or_empty(norm, real)) for norm in (query_norm, key_norm)]
    *_, table = absent(real)
    cosine, sine, layout = rotation or (table, table, None)
    cosine, sine = np.ascontiguousarray(cosine, real), np.ascontiguousarray(sine, real)
    rows = block_of_rows(B * T, C)
    q, k, v = (new_array((B * T, weight.shape[1]), real) for weight in weights)
    h = [new_like(y) if norm.size else new_array((rows, y.shape[1]), real) if rotation else y
         for y, norm in zip((q, k), norms)]
    rrms = [np.empty(y.size // d_head if norm.size else 0, real) for y, norm in zip((q, k), norms)]
    FORWARD[real](vectors, *(array for pair in zip(weights, biases) for array in pair), *norms, T,
                  real.type(epsilon), cosine, sine, layout == "half", rows, np.empty(d_head, real),
                  *h, *rrms, q, k, v)

    h = [h_y if norm.size else y for h_y, y, norm in zip(h, (q, k), norms)]  # for norms alone
    biased = [bias is not None for bias in (query_bias, key_bias, value_bias)]
    saved = (vectors, weights, norms, T, cosine, sine, layout, d_head, h, rrms, biased)
    return tuple(split_heads(y.reshape(B, T, -1), d_head) for y in (q, k, v)), saved


def head_projections_backward(dheads, saved):
    """The compiled version of `numformer.functional.head_projections_backward`."""
    _, weights, norms, *_, biased = saved
    gradients = new_gradients(weights, biased, dheads[0].dtype)
    gradients += [np.zeros_like(norm) if norm.size else None for norm in norms]
    return head_projections_backward_accumulate(dheads, saved, *gradients), *gradients


def head_projections_backward_accumulate(dheads, saved, *gradients):
    """`head_projections_backward` that adds to gradients in place; it returns dx."""
    vectors, weights, norms, T, cosine, sine, layout, d_head, h, rrms, _ = saved
    real, dx = vectors.dtype, new_like(vectors)
    rows = block_of_rows(*vectors.shape)
    dh = [new_array((rows if layout or norm.size else 0, weight.shape[1]), real)
          for weight, norm in zip(weights, norms)]
    totals = *gradients[1:6:2], *gradients[6:]                        # of biases and norms
    # each a sum of its own, added at the end: that of a key bias is 0, up to rounding
    sums = [np.zeros_like(or_empty(total, real)) for total in totals]
    BACKWARD[real](*(rows_of(join_heads(dy)) for dy in dheads), vectors, *weights, *norms, T,
                   cosine, -sine, layout == "half", rows, np.empty(d_head, real), *h, *rrms, *dh,
                   dx, *(array for pair in zip(gradients[:6:2], sums) for array in pair), *sums[3:])
    for total, gradient in zip(totals, sums, strict=True):
        if total is not None:
            total += gradient
    return dx.reshape(-1, T, vectors.shape[1])
