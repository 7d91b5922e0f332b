"""Gradients that are wrong or missing where they are small next to all the others."""

import numpy as np

from numformer.parameter import Layer, Parameter

rng = np.random.default_rng(14)
X = rng.standard_normal((3, 4))
FEATURES = np.array([1.0, 1.0, 1.0, 1e-15])


class Branches(Layer):
    """y = x a + s x b."""

    def __init__(self, scale, factor):
        self.a, self.b = Parameter(rng.standard_normal(4)), Parameter(rng.standard_normal(4))
        self.scale, self.factor = scale, factor

    def forward(self, x):
        return x * self.a.data + self.scale * (x * self.b.data), (x,)

    def backward(self, dy, saved):
        (x,) = saved
        self.a.grad += (dy * x).sum(axis=0)
        self.b.grad += self.factor * self.scale * (dy * x).sum(axis=0)
        return dy * (self.a.data + self.scale * self.b.data)


def two_inputs(a, b):
    return np.tanh(a) + 1e-15 * np.tanh(b)


def features(x):
    return np.tanh(x) * FEATURES


def two_outputs(x):
    return np.stack([np.tanh(x), 1e-15 * x ** 2])


def with_bias(x, bias):
    return np.tanh(x) + bias


SMALL = FEATURES == 1

BUGS = [
    ("no gradient of a parameter at 1e-15", Branches(1e-15, 0.0), [X], {}, "! b"),
    ("no gradient of a parameter at 1e-10", Branches(1e-10, 0.0), [X], {}, "! b"),
    ("twice the gradient at 1e-15", Branches(1e-15, 2.0), [X], {}, "! b"),
    ("another sign at 1e-30", Branches(1e-30, -1.0), [X], {}, "! b"),
    ("no gradient of an input at 1e-15",
     (two_inputs, lambda dy, a, b: (dy * (1 - np.tanh(a) ** 2), np.zeros_like(b))), [X, X], {},
     "! b"),
    ("no gradient of a feature at 1e-15",
     (features, lambda dy, x: dy * (1 - np.tanh(x) ** 2) * SMALL), [X], {}, "! x"),
    ("no gradient of an output at 1e-15",
     (two_outputs, lambda dy, x: dy[0] * (1 - np.tanh(x) ** 2)), [X], {}, "! x"),
    ("1e-9 off, where a bias is 0",
     (with_bias, lambda dy, x, b: (dy * (1 - np.tanh(x) ** 2), (1 + 1e-9) * dy)),
     [X, np.zeros((3, 4))], {}, "! bias"),
    ("1% off at 1e-12", Branches(1e-12, 1.01), [X], {}, "! b"),
]
