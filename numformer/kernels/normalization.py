"""LayerNorm and RMSNorm, a vector at a time: what NumPy does in ten passes over all of them, done while the vector is in the cache."""

import math

import numpy as np
from numba import boolean

from numformer.functional.normalization import check_norm
from numformer.kernels.compiled import Kernel, inlined, summing
from numformer.kernels.memory import borrow, row
from numformer.kernels.room import new_like
from numformer.kernels.shapes import line, matrix, new_line, new_matrix, rows_of


@summing
def mean_of(x):
    total = x.dtype.type(0)
    for c in range(len(x)):
        total += x[c]
    return total / len(x)


@summing
def mean_square(x, mean):
    total = x.dtype.type(0)
    for c in range(len(x)):
        total += (x[c] - mean) * (x[c] - mean)
    return total / len(x)


@summing
def two_means(dy, gain, x, mean, rstd):
    """The means of g and of g x_hat, where g = gain dy."""
    first = second = dy.dtype.type(0)
    for c in range(len(x)):
        g = dy[c] * gain[c]
        first += g
        second += g * ((x[c] - mean) * rstd)
    return first / len(x), second / len(x)


@inlined
def normalize_one(x, gain, shift, epsilon, inside, centred, y):
    """One vector, which y may be too; returns its mean, rstd and bend: see `layer_norm` for what they are."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    mean = x.dtype.type(mean_of(x)) if centred else zero
    variance = x.dtype.type(mean_square(x, mean))
    if inside:
        r, bend = one / math.sqrt(variance + epsilon), one
    else:
        root = math.sqrt(variance)
        r = one / (root + epsilon)
        bend = (root + epsilon) / root if root != zero else zero
    if len(shift) > 0:
        for c in range(len(x)):
            y[c] = gain[c] * ((x[c] - mean) * r) + shift[c]
    else:
        for c in range(len(x)):
            y[c] = gain[c] * ((x[c] - mean) * r)
    return mean, r, bend


def normalize(x, gain, shift, epsilon, inside, centred, y, mean, rstd, bend):
    """x, y (N, C); gain (C,), shift (C,) or empty; mean, rstd, bend (N,)."""
    x, y = borrow(x), borrow(y)
    for n in range(len(x)):
        mean[n], rstd[n], bend[n] = normalize_one(row(x, n), gain, shift, epsilon, inside, centred, row(y, n))


def normalize_backward(dy, x, gain, centred, mean, rstd, bend, dx, dgain, dshift):
    """dx = r (g - <g> - bend x_hat <g x_hat>), without <g> where the mean was left alone."""
    dy, x, dx, zero = borrow(dy), borrow(x), borrow(dx), x.dtype.type(0)
    dgain[:], dshift[:] = zero, zero
    for n in range(len(x)):
        dy_n, x_n, dx_n, mu, r = row(dy, n), row(x, n), row(dx, n), mean[n], rstd[n]
        through_mean, product = two_means(dy_n, gain, x_n, mu, r)
        a, b = x.dtype.type(through_mean) if centred else zero, x.dtype.type(product) * bend[n]
        for c in range(len(x_n)):
            x_hat = (x_n[c] - mu) * r
            dx_n[c] = r * (dy_n[c] * gain[c] - a - x_hat * b)
        for c in range(len(x_n)):
            dgain[c] += dy_n[c] * ((x_n[c] - mu) * r)
        for c in range(len(dshift)):
            dshift[c] += dy_n[c]


FORWARD = Kernel(normalize, lambda real: (
    matrix(real), line(real), line(real), real, boolean, boolean, new_matrix(real), *3 * [new_line(real)]))
BACKWARD = Kernel(normalize_backward, lambda real: (
    matrix(real), matrix(real), line(real), boolean, *3 * [line(real)], new_matrix(real), *2 * [new_line(real)]))


def layer_norm(x, gain, shift=None, epsilon=1e-5, epsilon_inside=True):
    """The twin of `numformer.functional.layer_norm`."""
    check_norm("layer_norm", x, gain, shift, epsilon)
    return _forward(x, gain, shift, epsilon, epsilon_inside, True)


def layer_norm_backward(dy, saved):
    """The twin of `numformer.functional.layer_norm_backward`."""
    return _backward(dy, saved)


def rms_norm(x, gain, epsilon=1e-5, epsilon_inside=True):
    """The twin of `numformer.functional.rms_norm`."""
    check_norm("rms_norm", x, gain, None, epsilon)
    return _forward(x, gain, None, epsilon, epsilon_inside, False)


def rms_norm_backward(dy, saved):
    """The twin of `numformer.functional.rms_norm_backward`."""
    dx, dgain, _ = _backward(dy, saved)
    return dx, dgain


def _forward(x, gain, shift, epsilon, inside, centred):
    real, vectors, gain = x.dtype.type, rows_of(x), np.ascontiguousarray(gain)
    y, (mean, rstd, bend) = new_like(vectors), np.empty((3, len(vectors)), real)
    shifts = np.empty(0, real) if shift is None else np.ascontiguousarray(shift)
    FORWARD[x.dtype](vectors, gain, shifts, real(epsilon), inside, centred, y, mean, rstd, bend)

    saved = (vectors, gain, shift is not None, centred, mean, rstd, bend)
    return y.reshape(x.shape), saved


def _backward(dy, saved):
    vectors, gain, shifted, centred, mean, rstd, bend = saved
    dx, dgain = new_like(vectors), np.empty_like(gain)
    dshift = np.empty(len(gain) * shifted, gain.dtype)
    BACKWARD[gain.dtype](rows_of(dy), vectors, gain, centred, mean, rstd, bend, dx, dgain, dshift)
    return dx.reshape(dy.shape), dgain, dshift if shifted else None
