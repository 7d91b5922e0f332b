"""Parameters, inputs and outputs of scales from 1e-15 to 1e12, and many at once."""

import numpy as np

from numformer.parameter import Layer, Parameter

rng = np.random.default_rng(11)
X = rng.standard_normal((3, 4))


class Linear(Layer):
    """y = x W + b, with any scales."""

    def __init__(self, scale=1.0, bias_scale=1.0):
        self.weight = Parameter(scale * rng.standard_normal((4, 2)))
        self.bias = Parameter(bias_scale * rng.standard_normal(2))

    def forward(self, x):
        return x @ self.weight.data + self.bias.data, (x,)

    def backward(self, dy, saved):
        (x,) = saved
        self.weight.grad += x.T @ dy
        self.bias.grad += dy.sum(axis=0)
        return dy @ self.weight.data.T


class Branches(Layer):
    """y = x a + 1e-15 x b: the second branch is below what y can show, but its derivatives are not.
    """

    def __init__(self, scale=1e-15):
        self.a, self.b = Parameter(np.array([1.0, -2.0])), Parameter(np.array([3.0, 0.5]))
        self.scale = scale

    def forward(self, x):
        return x * self.a.data + self.scale * (x * self.b.data), (x,)

    def backward(self, dy, saved):
        (x,) = saved
        self.a.grad += (dy * x).sum(axis=0)
        self.b.grad += self.scale * (dy * x).sum(axis=0)
        return dy * (self.a.data + self.scale * self.b.data)


class SumOfScales(Layer):
    """One output for each scale of a power of ten."""

    def __init__(self):
        self.scales = 10.0 ** np.arange(-12, 13, 6)

    def forward(self, x):
        return self.scales * np.tanh(x), (x,)

    def backward(self, dy, saved):
        (x,) = saved
        return self.scales * dy / np.cosh(x) ** 2


class KeyBias(Layer):
    """Softmax attention of one query; the derivative of the bias of the keys is 0 but for rounding.
    """

    def __init__(self, exact_zero):
        self.query = Parameter(rng.standard_normal(4))
        self.key_bias = Parameter(rng.standard_normal(4))
        self.exact_zero = exact_zero

    def forward(self, x):
        k = x + self.key_bias.data
        s = k @ self.query.data
        e = np.exp(s - s.real.max())
        p = e / e.sum()
        return p @ x, (x, k, p)

    def backward(self, dy, saved):
        x, k, p = saved
        dp = x @ dy
        ds = p * (dp - p @ dp)
        self.query.grad += ds @ k
        dk = ds[:, None] * self.query.data
        if not self.exact_zero:
            self.key_bias.grad += dk.sum(axis=0)
        return p[:, None] * dy + dk


def product(a, b):
    return a * b, (a, b)


def product_backward(dy, saved):
    a, b = saved
    return dy * b, dy * a


def log_sum(x):
    return np.log((x * x).sum()), x


def log_sum_backward(dy, x):
    return dy * 2 * x / (x * x).sum()


def distance(a, b):
    return ((a - b) ** 2).sum(axis=-1), (a, b)


def distance_backward(dy, saved):
    a, b = saved
    da = 2 * dy[..., None] * (a - b)
    return da, -da


CASES = [
    ("linear, inputs of 1e-12", Linear(), [1e-12 * X], {}),
    ("linear, inputs of 1e12", Linear(), [1e12 * X], {}),
    ("linear, weights of 1e12", Linear(1e12), [X], {}),
    ("linear, weights of 1e-12", Linear(1e-12), [X], {}),
    ("linear, weights of 1e-12 and bias of 1e12", Linear(1e-12, 1e12), [X], {}),
    ("linear, all of 1e12", Linear(1e12, 1e12), [1e12 * X], {}),
    ("linear, all of 1e-12", Linear(1e-12, 1e-12), [1e-12 * X], {}),
    ("a branch of 1e-15", Branches(), [X[:, :2]], {}),
    ("a branch of 1e-30", Branches(1e-30), [X[:, :2]], {}),
    ("outputs of many scales", SumOfScales(), [rng.standard_normal((2, 5))], {}),
    ("features of many scales", (product, product_backward),
     [X * 10.0 ** np.array([-12, 0, 6, 12]), X], {}),
    ("key bias, by its formula", KeyBias(False), [X], {}),
    ("key bias, left at 0", KeyBias(True), [X], {}),
    ("key bias, inputs of 1e3", KeyBias(False), [1e3 * X], {}),
    ("a logarithm at 1e-9", (log_sum, log_sum_backward), [1e-9 * X], {}),
    ("a distance of close points", (distance, distance_backward), [X, X + 1e-8 * X[::-1]], {}),
    ("a distance of equal points", (distance, distance_backward), [X, X.copy()], {}),
    ("a product with 0", (product, product_backward), [np.zeros((2, 3)), np.ones((2, 3))], {}),
]
