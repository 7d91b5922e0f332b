"""Adam's step in one pass over each parameter, and the norm of a gradient without a copy of it."""

import math

import numpy as np

from numformer.functional.adam import adam_step as reference
from numformer.functional.adam import EPSILONS, check_epsilon
from numformer.kernels.runtime.compile import Kernel, reduction
from numformer.kernels.runtime.shapes import flat, out_vector, vector
from numformer.kernels.runtime.versions import compiled_version


def step(data, grad, mean, square, keep, shorten, beta1, rest1, beta2, rest2, scale, epsilon, rate):
    """The operations of the reference in its order, with nothing fused: equal to the bit."""
    zero = data.dtype.type(0)
    for n in range(len(data)):
        g = grad[n] * shorten
        mean[n] = mean[n] * beta1 + rest1 * g
        square[n] = square[n] * beta2 + rest2 * (g * g)
        root = math.sqrt(square[n] * scale) + epsilon
        data[n] = data[n] * keep - (rate * mean[n] / root if root != zero else zero)


@reduction
def sum_squares(x):
    total = 0.0
    for n in range(len(x)):
        total += np.float64(x[n]) * np.float64(x[n])
    return total


def squares(x):
    """The sum of the squares, in float64."""
    return sum_squares(x)


STEP = Kernel(step, lambda real: (
    out_vector(real), vector(real), *2 * [out_vector(real)], *9 * [real]))
SQUARES = Kernel(squares, lambda real: (vector(real),))


@compiled_version
def adam_step(data, grad, mean, square, learning_rate, steps, beta1=0.9, beta2=0.999, epsilon=1e-8,
              weight_decay=0.0, grad_scale=1.0):
    """The compiled version of `numformer.functional.adam_step`: equal to the bit."""
    if data.dtype in EPSILONS:
        check_epsilon("adam_step", epsilon, data.dtype)
    if not all(x.flags.c_contiguous for x in (data, grad, mean, square)):
        return reference(data, grad, mean, square, learning_rate, steps, beta1, beta2, epsilon,
                         weight_decay, grad_scale)
    numbers = (1 - learning_rate * weight_decay, grad_scale, beta1, 1 - beta1, beta2, 1 - beta2,
               1 / (1 - beta2 ** steps), epsilon, learning_rate / (1 - beta1 ** steps))
    vectors = (x.reshape(-1) for x in (data, grad, mean, square))
    STEP[data.dtype](*vectors, *map(data.dtype.type, numbers))


@compiled_version
def sums_of_squares(arrays):
    """The compiled version of `numformer.functional.sums_of_squares`."""
    return [SQUARES[x.dtype](flat(x)) for x in arrays]
