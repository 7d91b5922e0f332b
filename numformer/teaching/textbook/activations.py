"""Elementwise functions, written out."""

import math

import numpy as np


def relu(x):
    return np.where(x > 0, x, 0)


def relu_backward(dy, x):
    return dy * (x > 0)


def relu_squared(x):
    return np.maximum(x, 0) ** 2


def relu_squared_backward(dy, x):
    return dy * 2 * np.where(x > 0, x, 0)


def gelu(x):
    from scipy.special import erf
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def gelu_backward(dy, x):
    from scipy.special import erf
    cdf = 0.5 * (1 + erf(x / math.sqrt(2)))
    pdf = np.exp(-x ** 2 / 2) / math.sqrt(2 * math.pi)
    return dy * (cdf + x * pdf)


def gelu_tanh(x):
    c = math.sqrt(2 / math.pi)
    u = c * (x + 0.044715 * x ** 3)
    return 0.5 * x * (1 + np.tanh(u))


def gelu_tanh_backward(dy, x):
    c = math.sqrt(2 / math.pi)
    u = c * (x + 0.044715 * x ** 3)
    t = np.tanh(u)
    du = c * (1 + 3 * 0.044715 * x ** 2)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t ** 2) * du)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sigmoid_backward(dy, x):
    y = 1 / (1 + np.exp(-x))
    return dy * y * (1 - y)


def swish(x, beta=1.0):
    s = 1 / (1 + np.exp(-beta * x))
    return x * s


def swish_backward(dy, x, beta=1.0):
    s = 1 / (1 + np.exp(-beta * x))
    return dy * (s + x * beta * s * (1 - s))


def silu(x):
    s = 1 / (1 + np.exp(-x))
    return x * s


def silu_backward(dy, x):
    s = 1 / (1 + np.exp(-x))
    return dy * (s + x * s * (1 - s))


def quick_gelu(x):
    return x / (1 + np.exp(-1.702 * x))


def quick_gelu_backward(dy, x):
    s = 1 / (1 + np.exp(-1.702 * x))
    return dy * (s + 1.702 * x * s * (1 - s))


def silu_backward_in_y(dy, x):
    s = 1 / (1 + np.exp(-x))
    y = x * s
    return dy * (y + s * (1 - y))


def soft_cap(x, cap):
    return cap * np.tanh(x / cap)


def soft_cap_backward(dy, x, cap):
    t = np.tanh(x / cap)
    return dy * (1 - t ** 2)


def gated_linear_unit(g, h, activation="silu"):
    s = 1 / (1 + np.exp(-g))
    a = g * s if activation == "silu" else np.maximum(g, 0)
    return a * h


def gated_linear_unit_backward(dy, g, h, activation="silu"):
    s = 1 / (1 + np.exp(-g))
    a = g * s if activation == "silu" else np.maximum(g, 0)
    slope = s + g * s * (1 - s) if activation == "silu" else (g > 0) * 1.0
    dg = dy * h * slope
    dh = dy * a
    return dg, dh


def softmax(x, axis=-1, mask=None):
    e = np.exp(x - x.max())
    if mask is not None:
        e = e * mask
    return e / e.sum(axis=axis, keepdims=True)


def softmax_in_scores(x, axis=-1, mask=None):
    if mask is not None:
        x = np.where(mask, x, -1e30)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax_backward(dp, x, axis=-1, mask=None):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    if mask is not None:
        e = e * mask
    p = e / e.sum(axis=axis, keepdims=True)
    s = (p * dp).sum(axis=axis, keepdims=True)
    return p * (dp - s)


def softmax_backward_in_scores(dp, x, axis=-1, mask=None):
    if mask is not None:
        x = np.where(mask, x, -1e30)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    p = e / e.sum(axis=axis, keepdims=True)
    dx = p * dp - p * (p * dp).sum(axis=axis, keepdims=True)
    return dx if mask is None else np.where(mask, dx, 0)


def log_softmax(x, axis=-1):
    e = np.exp(x)
    return x - np.log(e.sum(axis=axis, keepdims=True))


def log_softmax_in_steps(x, axis=-1):
    m = x.max()
    e = np.exp(x - m)
    return x - m - np.log(e.sum(axis=axis, keepdims=True))


def log_softmax_backward(dy, x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    p = e / e.sum(axis=axis, keepdims=True)
    return dy - p * dy.sum(axis=axis, keepdims=True)
