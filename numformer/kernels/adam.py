"""Adam's step in one pass over each parameter, and the length of a gradient without a copy of it."""

import math

import numpy as np

from numformer.functional.adam import adam_step as truth
from numformer.kernels.compiled import Kernel, summing
from numformer.kernels.shapes import line, line_of, new_line


def step(data, grad, mean, square, keep, shorten, beta1, rest1, beta2, rest2, scale, epsilon, rate):
    """In the order of NumPy's steps, with nothing fused: the result is the same to the bit."""
    for n in range(len(data)):
        g = grad[n] * shorten
        mean[n] = mean[n] * beta1 + rest1 * g
        square[n] = square[n] * beta2 + rest2 * (g * g)
        data[n] = data[n] * keep - rate * mean[n] / (math.sqrt(square[n] * scale) + epsilon)


@summing
def sum_squares(x):
    total = 0.0
    for n in range(len(x)):
        total += np.float64(x[n]) * np.float64(x[n])
    return total


def squares(x):
    """The sum of the squares, in float64."""
    return sum_squares(x)


STEP = Kernel(step, lambda real: (new_line(real), line(real), *2 * [new_line(real)], *9 * [real]))
SQUARES = Kernel(squares, lambda real: (line(real),))


def adam_step(data, grad, mean, square, learning_rate, steps, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, shorten=1.0):
    """The twin of `numformer.functional.adam_step`: equal to the bit."""
    if not all(x.flags.c_contiguous for x in (data, grad, mean, square)):
        return truth(data, grad, mean, square, learning_rate, steps, beta1, beta2, epsilon, weight_decay, shorten)
    numbers = (1 - learning_rate * weight_decay, shorten, beta1, 1 - beta1, beta2, 1 - beta2, 1 / (1 - beta2 ** steps), epsilon,
               learning_rate / (1 - beta1 ** steps))
    STEP[data.dtype](*(x.reshape(-1) for x in (data, grad, mean, square)), *map(data.dtype.type, numbers))


def sum_of_squares(x):
    """The twin of `numformer.functional.sum_of_squares`."""
    return SQUARES[x.dtype](line_of(x))
