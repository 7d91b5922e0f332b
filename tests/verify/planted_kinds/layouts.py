"""Right for contiguous arrays only."""

import numpy as np

from numformer.parameter import Layer, Parameter

rng = np.random.default_rng(8)
X = rng.standard_normal((3, 4))


def in_memory_order(x):
    """Transposes what lies in Fortran order."""
    return x.ravel(order="K").reshape(x.shape) ** 2, x


def square(x):
    return x ** 2, x


def backward_in_memory_order(dy, x):
    return 2 * x.ravel(order="K").reshape(x.shape) * dy


def dy_in_memory_order(dy, x):
    return 2 * x * dy.ravel(order="A").reshape(x.shape)


def filled_by_rows(dy, x):
    """A Fortran dx is reshaped to a copy, and nothing arrives."""
    dx = np.zeros_like(x)
    dx.reshape(-1)[...] = (2 * x * dy).reshape(-1)
    return dx


def by_base(x):
    """Reads the array that a view was cut out of."""
    return (x if x.base is None or x.base.size == x.size else x.base.flat[:x.size].reshape(x.shape)
            ) ** 2, x


def by_address(x):
    """What C code does that ignores strides."""
    first = np.lib.stride_tricks.as_strided(x, (x.size,), (x.itemsize,)) if x.strides[-1] > 0 else x
    return first.reshape(x.shape) ** 2 + 0 * x, x


def first_of_a_broadcast(dy, x):
    """Takes an array with strides of 0 for one that is already summed."""
    return 2 * x * (dy / dy.size if 0 in dy.strides else dy)


class FlatGradient(Layer):
    """Adds to a reshaped gradient, which is a copy where that is not contiguous."""

    def __init__(self):
        self.weight = Parameter(rng.standard_normal((4, 2)))

    def forward(self, x):
        return x @ self.weight.data, x

    def backward(self, dy, x):
        self.weight.grad.reshape(-1)[...] += (x.T @ dy).reshape(-1)
        return dy @ self.weight.data.T


def double(dy, x):
    return 2 * x * dy


BUGS = [
    ("forward in memory order", (in_memory_order, double), [X], {}, "in Fortran order"),
    ("backward in memory order", (square, backward_in_memory_order), [X], {}, "in Fortran order"),
    ("dy in memory order", (square, dy_in_memory_order), [X], {}, "dy in Fortran order"),
    ("dx filled through a copy", (square, filled_by_rows), [X], {}, "in Fortran order"),
    ("the base of a view", (by_base, double), [X], {}, "with negative strides"),
    ("strides ignored", (by_address, double), [X], {}, "in Fortran order"),
    ("strides of 0", (square, first_of_a_broadcast), [X], {}, "one broadcast number"),
    ("a gradient added to a copy", FlatGradient(), [X], {},
     "inputs and parameters in Fortran order, the gradient of weight"),
]
