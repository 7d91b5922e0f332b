"""Results of a wrong kind: number, shape, dtype, type; exceptions; other numbers in float32."""

import numpy as np

from numformer.parameter import Layer, Parameter

rng = np.random.default_rng(15)
X = rng.standard_normal((3, 4))
SINGLE = {"float32": True}


def square(x):
    return x ** 2, x


def product(a, b):
    return a * b, (a, b)


def right(dy, x):
    return 2 * x * dy


def refuses(dy, x):
    raise RuntimeError("not today")


class Doubled(Layer):
    """y = w x, times a constant of float64 in one of the two."""

    def __init__(self, forward_constant, backward_constant):
        self.w = Parameter(rng.standard_normal(4))
        self.constants = forward_constant, backward_constant

    def forward(self, x):
        return x * self.w.data * self.constants[0], (x,)

    def backward(self, dy, saved):
        (x,) = saved
        self.w.grad += (dy * x).sum(axis=0) * self.constants[1]
        return dy * self.w.data * self.constants[1]


class NoPair(Doubled):
    def forward(self, x):
        return super().forward(x)[0]


BUGS = [
    ("no pair", NoPair(2.0, 2.0), [X], {}, "forward must return (y, saved), but returned ndarray"),
    ("y of float32", (lambda x: ((x ** 2).astype(np.float32), x), right), [X], {},
     "y must be an array of float64, but is float32"),
    ("y as a list", (lambda x: ((x ** 2).tolist(), x), right), [X], {}, "but is list"),
    ("y as a masked array", (lambda x: (np.ma.masked_array(x ** 2), x), right), [X], {},
     "but is MaskedArray"),
    ("dx of float32", (square, lambda dy, x: right(dy, x).astype(np.float32)), [X], {},
     "the gradient of x is float32, but x is float64"),
    ("dx as a masked array", (square, lambda dy, x: np.ma.masked_array(right(dy, x))), [X], {},
     "backward returned MaskedArray as the gradient of x"),
    ("no dx", (square, lambda dy, x: None), [X], {}, "backward returned NoneType"),
    ("dx transposed", (square, lambda dy, x: right(dy, x).T), [X], {},
     "the gradient of x has shape (4, 3)"),
    ("dx summed", (square, lambda dy, x: right(dy, x).sum(axis=0)), [X], {},
     "the gradient of x has shape (4,)"),
    ("too many", (square, lambda dy, x: (right(dy, x),) * 2), [X], {},
     "backward returned 2 gradients for 1 inputs"),
    ("one for two", (product, lambda dy, s: (dy * s[1],)), [X, X], {},
     "backward returned 1 gradients for 2 inputs"),
    ("an exception", (square, refuses), [X], {}, "it raised RuntimeError: not today"),
    ("float64 for float32 in forward", Doubled(np.float64(2.0), 2.0), [X], SINGLE,
     "in float32, y is float64"),
    ("float64 for float32 in backward", Doubled(2.0, np.float64(2.0)), [X], SINGLE,
     "in float32, the gradient of x is float64"),
]
