"""A residual sum and the norm that follows it, row by row: a row is normalized while it is in the
cache, and the gradient of the sum is added to that of the norm, one pass in each direction.
"""

import numpy as np
from numba import boolean, uint32

from numformer.functional.dropout import check_residual
from numformer.functional.dropout_hash import dropout_seed
from numformer.functional.norms.layer_norm import check_norm
from numformer.kernels.dropout import add_dropped_row, drop_row, mask_arguments, row_hash
from numformer.kernels.linear_rows import or_empty
from numformer.kernels.norms import normalize_vector, normalize_vector_backward
from numformer.kernels.runtime.compile import Kernel
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import matrix, out_matrix, out_vector, rows_of, vector
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.workspace import new_like


def add_and_normalize(x, branch, dropped, seed_low, seed_high, threshold, scale, weight, bias,
                      epsilon, centred, total, normed, mean, rstd):
    """total = x + dropout(branch), normed = norm(total): all (N, C); mean, rstd (N,)."""
    x, branch, total, normed = unowned(x), unowned(branch), unowned(total), unowned(normed)
    for n in range(len(x)):
        x_n, b_n, total_n = row(x, n), row(branch, n), row(total, n)
        if dropped:
            add_dropped_row(x_n, b_n, row_hash(n, seed_low, seed_high), threshold, scale, total_n)
        else:
            for c in range(len(x_n)):
                total_n[c] = x_n[c] + b_n[c]
        mean[n], rstd[n], _ = normalize_vector(
            total_n, weight, bias, epsilon, True, centred, row(normed, n))


def add_and_normalize_backward(dtotal, dnormed, total, weight, centred, mean, rstd, dropped,
                               seed_low, seed_high, threshold, scale, dx, dbranch, dweight, dbias):
    """dx, and dbranch if `dropped`; adds to dweight and dbias. dtotal may be empty."""
    dtotal, dnormed, total = unowned(dtotal), unowned(dnormed), unowned(total)
    dx, dbranch, dweight, dbias = (unowned(dx), unowned(dbranch), unowned(dweight),
                                   unowned(dbias))
    one = total.dtype.type(1)
    for n in range(len(total)):
        dx_n = row(dx, n)
        normalize_vector_backward(row(dnormed, n), row(total, n), weight, centred, mean[n],
                                  rstd[n], one, dx_n, dweight, dbias)
        if len(dtotal) > 0:
            dtotal_n = row(dtotal, n)
            for c in range(len(dx_n)):
                dx_n[c] += dtotal_n[c]
        if dropped:
            drop_row(dx_n, row_hash(n, seed_low, seed_high), threshold, scale, row(dbranch, n))


FORWARD = Kernel(add_and_normalize, lambda real: (
    *2 * [matrix(real)], boolean, *3 * [uint32], real, *2 * [vector(real)], real, boolean,
    *2 * [out_matrix(real)], *2 * [out_vector(real)]))
BACKWARD = Kernel(add_and_normalize_backward, lambda real: (
    *3 * [matrix(real)], vector(real), boolean, *2 * [vector(real)], boolean, *3 * [uint32], real,
    *2 * [out_matrix(real)], *2 * [out_vector(real)]))


@compiled_version
def residual_layer_norm(x, branch, weight, bias, epsilon=1e-5, rate=0.0, rng=None):
    """The compiled version of `numformer.functional.residual_layer_norm`."""
    check_residual(x, branch, rate, rng)
    check_norm("layer_norm", x, weight, epsilon, bias=bias)
    return _forward(x, branch, weight, np.ascontiguousarray(bias), epsilon, rate, rng)


def residual_layer_norm_backward(dys, saved):
    """The compiled version of `numformer.functional.residual_layer_norm_backward`."""
    _, weight, *_ = saved
    dweight, dbias = np.zeros((2, len(weight)), weight.dtype)
    dx, dbranch = residual_layer_norm_backward_accumulate(dys, saved, dweight, dbias)
    return dx, dbranch, dweight, dbias


def residual_layer_norm_backward_accumulate(dys, saved, weight_grad, bias_grad):
    """`residual_layer_norm_backward` that adds to gradients in place; it returns dx, dbranch."""
    return _backward(dys, saved, weight_grad, or_empty(bias_grad, weight_grad.dtype))


@compiled_version
def residual_rms_norm(x, branch, weight, epsilon=1e-5, rate=0.0, rng=None):
    """The compiled version of `numformer.functional.residual_rms_norm`."""
    check_residual(x, branch, rate, rng)
    check_norm("rms_norm", x, weight, epsilon)
    return _forward(x, branch, weight, None, epsilon, rate, rng)


def residual_rms_norm_backward(dys, saved):
    """The compiled version of `numformer.functional.residual_rms_norm_backward`."""
    _, weight, *_ = saved
    dweight = np.zeros(len(weight), weight.dtype)
    dx, dbranch = residual_rms_norm_backward_accumulate(dys, saved, dweight)
    return dx, dbranch, dweight


def residual_rms_norm_backward_accumulate(dys, saved, weight_grad):
    """`residual_rms_norm_backward` that adds to a gradient in place; it returns dx, dbranch."""
    return _backward(dys, saved, weight_grad, np.empty(0, weight_grad.dtype))


def _forward(x, branch, weight, bias, epsilon, rate, rng):
    """The sum and its norm. With a bias it is LayerNorm, which subtracts the mean."""
    real, rows, weight = x.dtype.type, rows_of(x), np.ascontiguousarray(weight)
    total, normed, (mean, rstd) = new_like(rows), new_like(rows), np.empty((2, len(rows)), real)
    dropped, centred = rng is not None and rate > 0, bias is not None
    mask = dropped, *mask_arguments(dropout_seed(rng) if dropped else 0, float(rate), x.dtype)
    FORWARD[x.dtype](rows, rows_of(branch), *mask, weight, or_empty(bias, x.dtype), real(epsilon),
                     centred, total, normed, mean, rstd)

    saved = (total, weight, centred, mean, rstd, mask)
    return (total.reshape(x.shape), normed.reshape(x.shape)), saved


def _backward(dys, saved, weight_grad, bias_grad):
    dtotal, dnormed = dys
    total, weight, centred, mean, rstd, mask = saved
    absent, dropped = np.empty((0, len(weight)), weight.dtype), mask[0]
    dx, dbranch = new_like(total), new_like(total) if dropped else absent
    BACKWARD[weight.dtype](
        absent if dtotal is None else rows_of(dtotal), rows_of(dnormed), total, weight, centred,
        mean, rstd, *mask, dx, dbranch, weight_grad, bias_grad)
    dx = dx.reshape(dnormed.shape)
    return dx, dbranch.reshape(dx.shape) if dropped else dx
