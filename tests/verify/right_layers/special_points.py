"""Saturated functions, kinks, ties, zeros: where derivatives vanish, cancel or do not exist."""

import numpy as np
from scipy.special import erf

from numformer import functional as F
from numformer.parameter import Layer, Parameter

rng = np.random.default_rng(7)


def softmax(x):
    e = np.exp(x - x.real.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p, p


def softmax_backward(dp, p):
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


def tanh(x):
    y = np.tanh(x)
    return y, y


def tanh_backward(dy, y):
    return dy * (1 - y * y)


def sigmoid(x):
    y = 1 / (1 + np.exp(-x))
    return y, y


def sigmoid_backward(dy, y):
    return dy * y * (1 - y)


def gelu(x):
    cdf = 0.5 * (1 + erf(x / np.sqrt(2)))
    return x * cdf, (x, cdf)


def gelu_backward(dy, saved):
    x, cdf = saved
    return dy * (cdf + x * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi))


def softplus(x):
    """log(1 + e^x) without overflow."""
    return np.where(x.real > 0, x, 0) + np.log1p(np.exp(np.where(x.real > 0, -x, x))), x


def softplus_backward(dy, x):
    return dy / (1 + np.exp(-x))


class Perceptron(Layer):
    """Two linear maps with a ReLU between them, and biases of 0: a zero row is a kink."""

    def __init__(self, bias=0.0):
        self.w1 = Parameter(rng.standard_normal((3, 5)))
        self.b1 = Parameter(np.full(5, bias))
        self.w2 = Parameter(rng.standard_normal((5, 2)))

    def forward(self, x):
        z = x @ self.w1.data + self.b1.data
        h = np.where(z.real > 0, z, 0)
        return h @ self.w2.data, (x, z, h)

    def backward(self, dy, saved):
        x, z, h = saved
        self.w2.grad += h.T @ dy
        dz = (dy @ self.w2.data.T) * (z > 0)
        self.w1.grad += x.T @ dz
        self.b1.grad += dz.sum(axis=0)
        return dz @ self.w1.data.T


def relu_right_of_zero(x):
    """The other slope at 0."""
    return np.where(x.real >= 0, x, 0), x


def relu_backward(dy, x):
    return dy * (x > 0)


def relu_half_backward(dy, x):
    return dy * ((x > 0) + 0.5 * (x == 0))


def leaky(x):
    return np.maximum(x, 0.01 * x), x


def leaky_backward(dy, x):
    return np.where(x > 0, dy, 0.01 * dy)


def complex_safe_abs(x):
    return np.where(x.real < 0, -x, x), x


def sign_backward(dy, x):
    return dy * np.sign(x)


def maximum(x):
    largest = x.real.argmax(axis=-1)[..., None]
    return np.take_along_axis(x, largest, axis=-1)[..., 0], (x,)


def shared_maximum_backward(dy, saved):
    """Ties share the gradient, as in torch.amax."""
    (x,) = saved
    winners = x == x.max(axis=-1, keepdims=True)
    return dy[..., None] * winners / winners.sum(axis=-1, keepdims=True)


def hard_tanh(x):
    return np.where(x.real > 1, 1, np.where(x.real < -1, -1, x)), x


def hard_tanh_backward(dy, x):
    return dy * ((x > -1) & (x < 1))


def rms(x):
    r = ((x * x).mean(axis=-1, keepdims=True) + 1e-12) ** -0.5
    return x * r, (x, r)


def rms_backward(dy, saved):
    x, r = saved
    return r * (dy - x * r * r * (dy * x).mean(axis=-1, keepdims=True))


def log_softmax(x):
    z = x - x.real.max(axis=-1, keepdims=True)
    y = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return y, y


def log_softmax_backward(dy, y):
    return dy - np.exp(y) * dy.sum(axis=-1, keepdims=True)


X = rng.standard_normal((3, 4))
ZERO_ROW = np.array([[0.0, 0.0, 0.0], [0.3, -1.0, 2.0]])

CASES = [
    ("softmax of [0, 25, -20]", (softmax, softmax_backward), [np.array([[0.0, 25.0, -20.0]])], {}),
    ("softmax of spread 300", (softmax, softmax_backward), [300 * X], {}),
    ("softmax of spread 1e5", (softmax, softmax_backward), [1e5 * X], {}),
    ("softmax near 1000", (softmax, softmax_backward), [1000 + X], {}),
    ("softmax of one number", (softmax, softmax_backward), [np.ones((2, 1))], {}),
    ("softmax of equal numbers", (softmax, softmax_backward), [np.ones((2, 4))], {}),
    ("log-softmax, saturated", (log_softmax, log_softmax_backward), [60 * X], {}),
    ("tanh at 12", (tanh, tanh_backward), [np.array([12.0])], {}),
    ("tanh at 0, 12 and 25", (tanh, tanh_backward), [np.array([0.0, 12.0, -25.0])], {}),
    ("sigmoid at 40 and -40", (sigmoid, sigmoid_backward), [np.array([40.0, -40.0, 1.0])], {}),
    ("sigmoid at 36 alone", (sigmoid, sigmoid_backward), [np.array([36.0])], {}),
    ("GELU at -6 alone", (gelu, gelu_backward), [np.array([-6.0])], {}),
    ("GELU from -9 to 9", (gelu, gelu_backward), [np.linspace(-9, 9, 7)], {}),
    ("softplus at 0 and 50", (softplus, softplus_backward), [np.array([0.1, 50.0, -50.0])], {}),
    ("perceptron on a zero row", Perceptron(), [ZERO_ROW], {}),
    ("perceptron on zeros", Perceptron(), [np.zeros((2, 3))], {}),
    ("perceptron, no unit active", Perceptron(-50.0), [ZERO_ROW], {}),
    ("ReLU of zeros", (F.relu, F.relu_backward), [np.zeros((2, 3))], {}),
    ("ReLU with the other slope at 0", (relu_right_of_zero, relu_backward),
     [np.array([0.0, -1.0, 2.0, 0.0])], {}),
    ("ReLU with half a slope at 0", (relu_right_of_zero, relu_half_backward),
     [np.array([0.0, -1.0, 2.0])], {}),
    ("leaky ReLU by maximum, at 0", (leaky, leaky_backward), [np.array([0.0, -1.0, 2.0])], {}),
    ("abs at 0", (complex_safe_abs, sign_backward), [np.array([0.0, -1.0, 2.0])], {}),
    ("maximum of ties", (maximum, shared_maximum_backward), [np.array([[1.0, 1.0, 0.5]])], {}),
    ("hard tanh at its kinks", (hard_tanh, hard_tanh_backward), [np.array([1.0, -1.0, 0.3])], {}),
    ("RMS norm of a zero row", (rms, rms_backward), [ZERO_ROW], {}),
    ("RMS norm of one number", (rms, rms_backward), [np.array([[2.0], [-3.0]])], {}),
    ("layer norm of nearly equal numbers", (F.layer_norm, F.layer_norm_backward),
     [1 + 1e-4 * X, np.ones(4), np.zeros(4)], {}),
    ("layer norm of width 1", (F.layer_norm, F.layer_norm_backward),
     [X[:, :1], np.ones(1), np.zeros(1)], {}),
    ("layer norm of width 2", (F.layer_norm, F.layer_norm_backward),
     [X[:, :2], np.ones(2), np.zeros(2)], {}),
    ("layer norm of equal numbers", (F.layer_norm, F.layer_norm_backward),
     [np.ones((2, 4)), np.ones(4), np.zeros(4)], {}),
]
