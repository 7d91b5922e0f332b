"""LayerNorm and RMSNorm, one vector at a time.

NumPy takes ten passes over all vectors; here all of them run while a vector is in the cache.
"""

import math

import numpy as np
from numba import boolean

from numformer.functional.norms.layer_norm import check_norm
from numformer.kernels.runtime.compile import (
    Kernel, always_inlined, inlined, reduction, unfused)
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import matrix, out_matrix, out_vector, rows_of, vector
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.workspace import new_like


@reduction
def mean_of(x):
    total = x.dtype.type(0)
    for c in range(len(x)):
        total += x[c]
    return total / len(x)


@reduction
def mean_square(x, mean):
    total = x.dtype.type(0)
    for c in range(len(x)):
        total += (x[c] - mean) * (x[c] - mean)
    return total / len(x)


@reduction
def gradient_means(dy, weight, x, mean, rstd):
    """The means of g and of g x_hat, where g = weight dy."""
    first = second = dy.dtype.type(0)
    for c in range(len(x)):
        g = dy[c] * weight[c]
        first += g
        second += g * ((x[c] - mean) * rstd)
    return first / len(x), second / len(x)


@inlined
def are_squares_exact(total, dtype):
    """Whether a sum of squares has not lost digits, as their squares are far from both limits."""
    return dtype.type(np.finfo(dtype).tiny / np.finfo(dtype).eps ** 2) <= total <= dtype.type(
        np.finfo(dtype).max * np.finfo(dtype).eps ** 2)


@inlined
def reciprocal_of_any_size(x, mean, epsilon, inside):
    """r and kappa of `normalize_vector` for numbers whose squares over- or underflow.

    They are divided by a power of two first: see `numformer.functional.scaling`.
    """
    real, size = x.dtype.type, 0.0
    for c in range(len(x)):
        size = max(size, abs(np.float64(x[c] - mean)))
    if not 0 < size < np.inf:
        size = 1.0                                      # zeros, NaN or Inf
    root = math.sqrt(epsilon) if inside else np.float64(epsilon)
    scale = math.ldexp(1.0, math.frexp(max(size, root))[1] - 1)
    total = 0.0
    for c in range(len(x)):
        part = np.float64(x[c] - mean) / scale
        total += part * part
    total /= len(x)
    if inside:
        return real(1 / math.sqrt(total + epsilon / scale / scale) / scale), real(1)
    root = math.sqrt(total)
    kappa = real((root + epsilon / scale) / root) if root != 0 else real(0)
    return real(1 / (root + epsilon / scale) / scale), kappa if kappa < np.inf else real(0)


@always_inlined
def normalize_vector(x, weight, bias, epsilon, inside, centred, y):
    """Normalize one vector, also in place. Returns mean, rstd, kappa (see `layer_norm_outside`)."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    mean = x.dtype.type(mean_of(x)) if centred else zero
    variance = x.dtype.type(mean_square(x, mean))
    if not are_squares_exact(variance + (epsilon if inside else epsilon * epsilon), x.dtype):
        r, kappa = reciprocal_of_any_size(x, mean, epsilon, inside)
    elif inside:
        r, kappa = one / math.sqrt(variance + epsilon), one
    else:
        root = math.sqrt(variance)
        r = one / (root + epsilon)
        kappa = (root + epsilon) / root if root != zero else zero
    if len(bias) > 0:
        for c in range(len(x)):
            y[c] = weight[c] * ((x[c] - mean) * r) + bias[c]
    else:
        for c in range(len(x)):
            y[c] = weight[c] * ((x[c] - mean) * r)
    return mean, r, kappa


def normalize(x, weight, bias, epsilon, inside, centred, y, mean, rstd, kappa):
    """x, y (N, C); weight (C,), bias (C,) or empty; mean, rstd, kappa (N,)."""
    x, y = unowned(x), unowned(y)
    for n in range(len(x)):
        mean[n], rstd[n], kappa[n] = normalize_vector(
            row(x, n), weight, bias, epsilon, inside, centred, row(y, n))


@unfused
def normalize_vector_backward(dy, x, weight, centred, mean, rstd, kappa, dx, dweight, dbias):
    """dx = r (g - <g> - kappa x_hat <g x_hat>), without <g> where the mean was not subtracted.

    Adds to the gradients of weight and bias; that of the bias may be empty.
    """
    mean_g, mean_g_x_hat = gradient_means(dy, weight, x, mean, rstd)
    a = x.dtype.type(mean_g) if centred else x.dtype.type(0)
    b = x.dtype.type(mean_g_x_hat) * kappa
    for c in range(len(x)):
        x_hat = (x[c] - mean) * rstd
        dx[c] = rstd * (dy[c] * weight[c] - a - x_hat * b)
    for c in range(len(x)):
        dweight[c] += dy[c] * ((x[c] - mean) * rstd)
    for c in range(len(dbias)):
        dbias[c] += dy[c]


def normalize_backward(dy, x, weight, centred, mean, rstd, kappa, dx, dweight, dbias):
    """dx; dweight and dbias are overwritten."""
    dy, x, dx, dweight, dbias = (unowned(dy), unowned(x), unowned(dx), unowned(dweight),
                                 unowned(dbias))
    dweight[:], dbias[:] = x.dtype.type(0), x.dtype.type(0)
    for n in range(len(x)):
        normalize_vector_backward(row(dy, n), row(x, n), weight, centred, mean[n], rstd[n],
                                  kappa[n], row(dx, n), dweight, dbias)


FORWARD = Kernel(normalize, lambda real: (
    matrix(real), *2 * [vector(real)], real, *2 * [boolean], out_matrix(real),
    *3 * [out_vector(real)]))
BACKWARD = Kernel(normalize_backward, lambda real: (
    *2 * [matrix(real)], vector(real), boolean, *3 * [vector(real)], out_matrix(real),
    *2 * [out_vector(real)]))


@compiled_version
def layer_norm(x, weight, bias, epsilon=1e-5):
    """The compiled version of `numformer.functional.layer_norm`."""
    return _forward("layer_norm", x, weight, epsilon, True, bias=bias)


@compiled_version
def layer_norm_outside(x, weight, bias, epsilon=1e-5):
    """The compiled version of `numformer.functional.layer_norm_outside`."""
    return _forward("layer_norm_outside", x, weight, epsilon, False, bias=bias)


@compiled_version
def rms_norm(x, weight, epsilon=1e-5):
    """The compiled version of `numformer.functional.rms_norm`."""
    return _forward("rms_norm", x, weight, epsilon, True)


@compiled_version
def rms_norm_outside(x, weight, epsilon=1e-5):
    """The compiled version of `numformer.functional.rms_norm_outside`."""
    return _forward("rms_norm_outside", x, weight, epsilon, False)


def layer_norm_backward(dy, saved):
    """The gradient of `layer_norm` and of `layer_norm_outside`."""
    return _backward(dy, saved)


def rms_norm_backward(dy, saved):
    """The gradient of `rms_norm` and of `rms_norm_outside`."""
    dx, dweight, _ = _backward(dy, saved)
    return dx, dweight


layer_norm_outside_backward = layer_norm_backward
rms_norm_outside_backward = rms_norm_backward


def _forward(name, x, weight, epsilon, inside, **bias):
    """The norm over the last axis. With a bias it is LayerNorm, which subtracts the mean."""
    check_norm(name, x, weight, epsilon, **bias)
    centred = bool(bias)
    real, vectors, weight = x.dtype.type, rows_of(x), np.ascontiguousarray(weight)
    y, (mean, rstd, kappa) = new_like(vectors), np.empty((3, len(vectors)), real)
    bias_or_empty = np.ascontiguousarray(bias["bias"]) if centred else np.empty(0, real)
    FORWARD[x.dtype](vectors, weight, bias_or_empty, real(epsilon), inside, centred,
                     y, mean, rstd, kappa)

    saved = (vectors, weight, centred, mean, rstd, kappa)
    return y.reshape(x.shape), saved


def _backward(dy, saved):
    vectors, weight, centred, mean, rstd, kappa = saved
    dx, dweight = new_like(vectors), np.empty_like(weight)
    dbias = np.empty(len(weight) * centred, weight.dtype)
    BACKWARD[weight.dtype](rows_of(dy), vectors, weight, centred, mean, rstd, kappa,
                           dx, dweight, dbias)
    return dx.reshape(dy.shape), dweight, dbias
