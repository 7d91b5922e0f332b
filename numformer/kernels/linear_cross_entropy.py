"""Logits and their cross-entropy, a slice of the vocabulary at a time.

A small vocabulary is one slice: its logits are kept for the backward, which otherwise computes each
slice again.
"""

import math

import numpy as np
from numba import boolean, float64, int64

from numformer.functional.losses.cross_entropy import IGNORE_INDEX, check_cross_entropy
from numformer.functional.losses.linear_cross_entropy import check_head
from numformer.kernels.cross_entropy import (
    gradient_factor, largest_of, sum_of_exponentials)
from numformer.kernels.runtime.arithmetic import exp, gemm, larger
from numformer.kernels.runtime.compile import Kernel, inlined, reduction
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import (
    flat_ids, out_matrix, out_vector, rows_of, strided_matrix, vector, with_rows)
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.workspace import new_array, new_like

SLICE = 2048                            # classes


@reduction
def sum_of(z):
    total = 0.0
    for v in range(len(z)):
        total += np.float64(z[v])
    return total


def loss_of_slices(x, weight, targets, ignore, smoothing, zeta, logits, maximum, total):
    """The sum of the losses of all rows that count; logits (N, slice) is left with the last slice.

    `maximum` and `total` receive the maximum and the sum of exp(z - maximum) of each row.
    """
    x, weight, logits = unowned(x), unowned(weight), unowned(logits)
    N, V, size, real = len(x), len(weight), logits.shape[1], x.dtype.type
    of_target, sums = np.zeros(N), np.zeros(N)
    maximum[:], total[:] = np.finfo(real).min, real(0)      # finite: -Inf - -Inf would be NaN
    for start in range(0, V, size):
        stop = min(start + size, V)
        part = logits[:, :stop - start]

        # z = x W', for the classes start .. stop - 1
        gemm(x, weight[start:stop].T, part, False)
        for n in range(N):
            if targets[n] == ignore:
                continue
            z = row(part, n)
            if start <= targets[n] < stop:
                of_target[n] = z[targets[n] - start]
            if smoothing > 0:
                sums[n] += sum_of(z)

            # total = sum of exp(z - maximum) so far, as in the online softmax
            m = larger(maximum[n], largest_of(z))
            total[n] *= exp(maximum[n] - m)
            maximum[n] = m
            total[n] += real(sum_of_exponentials(z, m))
    loss = 0.0
    for n in range(N):
        if targets[n] != ignore:
            log_sum_exp = np.float64(maximum[n]) + math.log(np.float64(total[n]))
            expected = (1 - smoothing) * (of_target[n] - log_sum_exp)
            if smoothing > 0:
                expected += smoothing * (sums[n] / V - log_sum_exp)
            loss += zeta * log_sum_exp * log_sum_exp - expected
    return loss


@inlined
def logits_gradient(z, m, factor, uniform):
    """z = factor exp(z - m) - uniform, in place."""
    for v in range(len(z)):
        z[v] = factor * exp(z[v] - m) - uniform


def gradients_of_slices(dloss, x, weight, targets, ignore, smoothing, zeta, maximum, total, kept,
                        logits, dx, dweight):
    """dx, and dweight += the gradient of the weight; logits holds all of them if `kept`."""
    x, weight, logits = unowned(x), unowned(weight), unowned(logits)
    dx, dweight = unowned(dx), unowned(dweight)
    N, V, size, real = len(x), len(weight), logits.shape[1], x.dtype.type
    for start in range(0, V, size):
        stop = min(start + size, V)
        part = logits[:, :stop - start]

        # L = cross_entropy(z):  dz = dloss (p (1 + 2 zeta lse) - q)
        if not kept:
            gemm(x, weight[start:stop].T, part, False)
        for n in range(N):
            dz = row(part, n)
            if targets[n] == ignore:
                dz[:] = real(0)
                continue
            factor = real(gradient_factor(dloss, zeta, maximum[n], total[n]))
            logits_gradient(dz, maximum[n], factor, real(dloss * smoothing / V))
            if start <= targets[n] < stop:
                dz[targets[n] - start] -= real(dloss * (1 - smoothing))

        # z = x W'
        gemm(part, weight[start:stop], dx, start > 0)
        if len(dweight) > 0:                                  # else the weight is frozen
            gemm(part.T, x, dweight[start:stop], True)


FORWARD = Kernel(loss_of_slices, lambda real: (
    *2 * [strided_matrix(real)], vector(int64), int64, *2 * [float64], out_matrix(real),
    *2 * [out_vector(real)]))
BACKWARD = Kernel(gradients_of_slices, lambda real: (
    float64, *2 * [strided_matrix(real)], vector(int64), int64, *2 * [float64],
    *2 * [vector(real)], boolean, *3 * [out_matrix(real)]))


@compiled_version
def linear_cross_entropy(x, weight, targets, ignore_index=IGNORE_INDEX, label_smoothing=0.0,
                         z_loss=0.0):
    """The compiled version of `numformer.functional.linear_cross_entropy`."""
    check_head(x, weight)
    n = check_cross_entropy(np.broadcast_to(x.dtype.type(0), (*x.shape[:-1], len(weight))),
                            targets, ignore_index, label_smoothing, z_loss)
    if n < targets.size:                    # as in the reference: 0 * NaN would be NaN in dweight
        x = np.where((targets != ignore_index)[..., None], x, x.dtype.type(0))
    vectors, weight, ids = rows_of(x), with_rows(weight), flat_ids(targets)
    options = int(ignore_index), float(label_smoothing), float(z_loss)
    logits = new_array((len(vectors), min(SLICE, len(weight))), x.dtype)
    maximum, total = np.empty((2, len(vectors)), x.dtype)
    loss = FORWARD[x.dtype](vectors, weight, ids, *options, logits, maximum, total) / n

    kept = logits if logits.shape[1] == len(weight) else None
    saved = (vectors, weight, ids, options, maximum, total, n, kept, x.shape)
    return x.dtype.type(loss), saved


def linear_cross_entropy_backward(dloss, saved):
    """The compiled version of `numformer.functional.linear_cross_entropy_backward`."""
    _, weight, *_ = saved
    dweight = np.zeros(weight.shape, weight.dtype)
    return linear_cross_entropy_backward_accumulate(dloss, saved, dweight), dweight


def linear_cross_entropy_backward_accumulate(dloss, saved, weight_grad):
    """`linear_cross_entropy_backward` that adds to the weight's gradient in place; returns dx.

    `weight_grad` is None for a frozen weight, whose gradient is not computed.
    """
    vectors, weight, ids, options, maximum, total, n, kept, shape = saved
    real = vectors.dtype
    logits = new_array((len(vectors), min(SLICE, len(weight))), real)
    if kept is not None:
        logits[...] = kept
    dx = new_like(vectors)
    if weight_grad is None:
        weight_grad = np.empty((0, weight.shape[1]), real)
    BACKWARD[real](float(dloss) / n, vectors, weight, ids, *options, maximum, total,
                   kept is not None, logits, dx, weight_grad)
    return dx.reshape(shape)
