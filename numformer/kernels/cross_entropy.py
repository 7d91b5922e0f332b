"""Softmax and cross-entropy in one: two numbers of each row are saved, and the backward recomputes.

Apart from the gradient, nothing as wide as the vocabulary is written.
"""

import math

import numpy as np
from numba import float64, int64

from numformer.functional.losses.cross_entropy import IGNORE_INDEX, check_cross_entropy
from numformer.kernels.norms import mean_of
from numformer.kernels.runtime.arithmetic import exp, larger
from numformer.kernels.runtime.compile import Kernel, inlined, reduction
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import (
    flat_ids, matrix, out_matrix, out_vector, rows_of, vector)
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.workspace import new_like


@reduction
def sum_of_exponentials(z, m):
    total = z.dtype.type(0)
    for v in range(len(z)):
        total += exp(z[v] - m)
    return total


@inlined
def largest_of(z):
    m = z[0]
    for v in range(1, len(z)):
        m = larger(z[v], m)
    return m


def loss_of_rows(logits, targets, ignore, smoothing, zeta, maximum, total):
    """The sum of the losses of all rows that count.

    `maximum` and `total` receive the maximum and the sum of exp(z - maximum) of each row.
    """
    logits, loss = unowned(logits), 0.0
    for n in range(len(logits)):
        if targets[n] == ignore:
            continue
        z = row(logits, n)
        m = largest_of(z)
        t = z.dtype.type(sum_of_exponentials(z, m))
        maximum[n], total[n] = m, t
        log_total = math.log(np.float64(t))
        expected = (1 - smoothing) * (np.float64(z[targets[n]] - m) - log_total)
        if smoothing > 0:
            expected += smoothing * (np.float64(mean_of(z) - m) - log_total)
        log_sum_exp = np.float64(m) + log_total
        loss += zeta * log_sum_exp * log_sum_exp - expected
    return loss


@inlined
def gradient_factor(dloss, zeta, m, total):
    """dloss (1 + 2 zeta lse) / total: what exp(z - m) is multiplied by in dz."""
    log_sum_exp = np.float64(m) + math.log(np.float64(total))
    return dloss * (1 + 2 * zeta * log_sum_exp) / np.float64(total)


def gradient_of_rows(dloss, logits, targets, ignore, smoothing, zeta, maximum, total, dlogits):
    """dlogits = dloss (p (1 + 2 zeta lse) - q), and 0 in the rows that do not count."""
    logits, dlogits, real = unowned(logits), unowned(dlogits), logits.dtype.type
    V = logits.shape[1]
    uniform = real(dloss * smoothing / V)
    for n in range(len(logits)):
        z, dz = row(logits, n), row(dlogits, n)
        if targets[n] == ignore:
            dz[:] = real(0)
            continue
        m, factor = maximum[n], real(gradient_factor(dloss, zeta, maximum[n], total[n]))
        for v in range(V):
            dz[v] = factor * exp(z[v] - m) - uniform
        dz[targets[n]] -= real(dloss * (1 - smoothing))


FORWARD = Kernel(loss_of_rows, lambda real: (
    matrix(real), vector(int64), int64, *2 * [float64], *2 * [out_vector(real)]))
BACKWARD = Kernel(gradient_of_rows, lambda real: (
    float64, matrix(real), vector(int64), int64, *2 * [float64], *2 * [vector(real)],
    out_matrix(real)))


@compiled_version
def cross_entropy(logits, targets, ignore_index=IGNORE_INDEX, label_smoothing=0.0, z_loss=0.0):
    """The compiled version of `numformer.functional.cross_entropy`; the mean is in float64."""
    n = check_cross_entropy(logits, targets, ignore_index, label_smoothing, z_loss)
    rows, ids = rows_of(logits), flat_ids(targets)
    maximum, total = np.empty((2, len(rows)), logits.dtype)
    options = int(ignore_index), float(label_smoothing), float(z_loss)
    loss = FORWARD[logits.dtype](rows, ids, *options, maximum, total) / n

    saved = (rows, ids, options, maximum, total, n, logits.shape)
    return logits.dtype.type(loss), saved


def cross_entropy_backward(dloss, saved):
    """The compiled version of `numformer.functional.cross_entropy_backward`.

    The softmax is recomputed from the logits.
    """
    rows, ids, options, maximum, total, n, shape = saved
    dlogits = new_like(rows)
    BACKWARD[rows.dtype](float(dloss) / n, rows, ids, *options, maximum, total, dlogits)
    return dlogits.reshape(shape)
