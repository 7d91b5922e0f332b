"""Plain classes, pairs of functions, several outputs, and functions of real numbers only."""

import numpy as np
from scipy.special import expit

rng = np.random.default_rng(17)
X = rng.standard_normal((3, 4))


class Slots:
    """A parameter of one's own making."""

    def __init__(self, data):
        self.data, self.grad = data, np.zeros_like(data)


class PlainLinear:
    """Gradients in dW and db, added up."""

    def __init__(self):
        self.W, self.b = rng.standard_normal((4, 2)), rng.standard_normal(2)
        self.dW, self.db = np.zeros_like(self.W), np.zeros_like(self.b)

    def forward(self, x):
        return x @ self.W + self.b, x

    def backward(self, dy, x):
        self.dW += x.T @ dy
        self.db += dy.sum(axis=0)
        return dy @ self.W.T


class PlainStack:
    """Parts in a list, parameters in a dict."""

    def __init__(self):
        self.parts = [PlainLinear(), PlainGate()]

    def forward(self, x):
        h, saved_linear = self.parts[0].forward(x)
        y, saved_gate = self.parts[1].forward(h)
        return y, (saved_linear, saved_gate)

    def backward(self, dy, saved):
        return self.parts[0].backward(self.parts[1].backward(dy, saved[1]), saved[0])


class PlainGate:
    def __init__(self):
        self.parameters = {"gate": Slots(np.array([0.3, -2.0]))}

    def forward(self, x):
        gate = self.parameters["gate"].data
        return x * gate, (x, gate)

    def backward(self, dy, saved):
        x, gate = saved
        self.parameters["gate"].grad += (dy * x).sum(axis=0)
        return dy * gate


class PlainSum:
    """A gradient that is replaced by a sum, of an array without a Parameter, and a float as dx."""

    def __init__(self):
        self.w, self.dw = rng.standard_normal(4), np.zeros(4)

    def forward(self, x):
        return x * self.w, x

    def backward(self, dy, x):
        self.dw = self.dw + dy * x
        return float(dy @ self.w)


class Static:
    """No parameters, no self."""

    @staticmethod
    def forward(x):
        return np.sin(x), np.cos(x)

    @staticmethod
    def backward(dy, saved):
        return [dy * saved]


class TwoOutputs:
    """Mean and variance."""

    def forward(self, x):
        mean = x.mean(axis=-1)
        centred = x - mean[..., None]
        return (mean, (centred * centred).mean(axis=-1)), centred

    def backward(self, dy, centred):
        dmean, dvariance = dy
        n = centred.shape[-1]
        return dmean[..., None] / n + dvariance[..., None] * 2 * centred / n


def swish(x, beta=1.0):
    return x / (1 + np.exp(-beta * x))


def swish_backward(dy, x, beta=1.0):
    s = 1 / (1 + np.exp(-beta * x))
    return dy * (s + beta * x * s * (1 - s))


def bilinear(a, b):
    return np.einsum("ti,si->ts", a, b)


def bilinear_backward(dy, a, b):
    return np.einsum("ts,si->ti", dy, b), np.einsum("ts,ti->si", dy, a)


def real_sigmoid(x):
    """SciPy's takes no complex numbers."""
    return expit(x)


def real_sigmoid_backward(dy, x):
    return dy * expit(x) * expit(-x)


def absolute(x):
    return np.abs(x)


def absolute_backward(dy, x):
    return dy * np.sign(x)


CASES = [
    ("a plain class", PlainLinear(), [X], {}), ("plain parts", PlainStack(), [X], {}),
    ("a plain class that adds by another array", PlainSum(), [np.array(1.5)], {}),
    ("static methods, a list of gradients", Static(), [X], {}),
    ("two outputs", TwoOutputs(), [X], {}),
    ("functions that save nothing", (swish, swish_backward), [X], {}),
    ("functions with an option", (swish, swish_backward), [X], {"options": {"beta": 1.7}}),
    ("functions of two arrays", (bilinear, bilinear_backward), [X, X[:2] + 1], {}),
    ("lambdas", (lambda x: np.exp(x), lambda dy, x: dy * np.exp(x)), [X], {}),
    ("SciPy's sigmoid", (real_sigmoid, real_sigmoid_backward), [X], {"complex_safe": False}),
    ("SciPy's sigmoid, saturated", (real_sigmoid, real_sigmoid_backward), [30 * X],
     {"complex_safe": False}),
    ("abs, inputs of 1e-6", (absolute, absolute_backward), [1e-6 * X], {"complex_safe": False}),
    ("np.abs at 0", (absolute, absolute_backward), [np.array([0.0, -1.0, 1e3])],
     {"complex_safe": False}),
]
