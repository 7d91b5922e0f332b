"""Mistakes in elementwise functions."""

import numpy as np

from numformer import functional as F


def normal_density(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def gate(x, beta=1.0):
    return F.sigmoid(beta * x)[0]


def kept(x, rate, rng):
    return F.dropout(np.ones_like(x), rate, rng)[0] > 0


def value(g, activation):
    return F.ACTIVATIONS[activation][0](g)[0]


def slope(g, activation):
    f, f_backward = F.ACTIVATIONS[activation]
    return f_backward(np.ones_like(g), f(g)[1])


MISTAKES = {
    "relu_backward": [("the mask is dy > 0, but must be x > 0",
                       lambda dy, x: np.where(dy > 0, dy, 0))],
    "relu_squared_backward": [
        ("the factor 2 is missing: the derivative is 2 max(0, x)",
         lambda dy, x: dy * np.maximum(x, 0)),
        ("the mask is missing: the derivative is 0 where x is negative", lambda dy, x: dy * 2 * x)],
    "gated_linear_unit_backward": [
        ("the derivative of the activation is missing in dg",
         lambda dy, g, h, activation="silu": (dy * h, dy * value(g, activation))),
        ("h is missing in dg: the derivative of f(g) h with respect to g is f'(g) h",
         lambda dy, g, h, activation="silu": (dy * slope(g, activation),
                                              dy * value(g, activation))),
        ("dh is dy * g, but must be dy * f(g)",
         lambda dy, g, h, activation="silu": (dy * h * slope(g, activation), dy * g))],
    "gelu_backward": [
        ("the term x * density is missing: the product rule has two terms",
         lambda dy, x: dy * (1 - F.gelu(-x)[0] / -x)),
        ("this is the derivative of the tanh approximation of GELU",
         lambda dy, x: F.gelu_tanh_backward(dy, F.gelu_tanh(x)[1])),
        ("the factor 1 / sqrt(2 pi) of the density is missing",
         lambda dy, x: F.gelu_backward(dy, F.gelu(x)[1]) + dy * x * normal_density(x)
         * (np.sqrt(2 * np.pi) - 1))],
    "gelu_tanh_backward": [
        ("this is the derivative of the exact GELU",
         lambda dy, x: F.gelu_backward(dy, F.gelu(x)[1])),
        ("the term through the tanh is missing: the product rule has two terms",
         lambda dy, x: dy * F.gelu_tanh(x)[0] / x)],
    "sigmoid_backward": [
        ("the factor 1 - y is missing: the derivative is y * (1 - y)", lambda dy, x: dy * gate(x)),
        ("the factor y is missing: the derivative is y * (1 - y)",
         lambda dy, x: dy * (1 - gate(x))),
        ("x is used instead of y = sigmoid(x)", lambda dy, x: dy * x * (1 - x)),
        ("1 - y**2 is the derivative of tanh: that of sigmoid is y * (1 - y)",
         lambda dy, x: dy * (1 - gate(x) ** 2))],
    "swish_backward": [
        ("the derivative of the gate is missing: the product rule has two terms",
         lambda dy, x, beta=1.0: dy * gate(x, beta)),
        ("beta is missing in the derivative of the gate",
         lambda dy, x, beta=1.0: dy * (gate(x, beta) + x * gate(x, beta) * (1 - gate(x, beta)))),
        ("beta is missing", lambda dy, x, beta=1.0: F.silu_backward(dy, F.silu(x)[1]))],
    "silu_backward": [
        ("the derivative of the gate is missing: the product rule has two terms",
         lambda dy, x: dy * gate(x)),
        ("this is the derivative of the gate only, without x",
         lambda dy, x: dy * gate(x) * (1 - gate(x)))],
    "quick_gelu_backward": [
        ("1.702 is missing: this is the gradient of SiLU",
         lambda dy, x: F.silu_backward(dy, F.silu(x)[1]))],
    "soft_cap_backward": [
        ("the square is missing: the derivative is 1 - tanh(x / c)**2",
         lambda dy, x, cap: dy * (1 - np.tanh(x / cap))),
        ("x / c is used instead of tanh(x / c)", lambda dy, x, cap: dy * (1 - (x / cap) ** 2)),
        ("y is not divided by the cap",
         lambda dy, x, cap: dy * (1 - (cap * np.tanh(x / cap)) ** 2))],
    "dropout_backward": [
        ("the factor 1 / (1 - rate) is missing", lambda dy, x, rate, rng: dy * kept(x, rate, rng)),
        ("the dropout mask is missing: dropped entries get no gradient",
         lambda dy, x, rate, rng: dy / (1 - rate))],
    "residual_dropout_backward": [
        ("the dropout mask is missing: dropped entries get no gradient",
         lambda dy, x, branch, rate, rng: (dy, dy / (1 - rate))),
        ("dropout is applied to the gradient of x too, but x is added unchanged",
         lambda dy, x, branch, rate, rng: 2 * (dy * kept(x, rate, rng) / (1 - rate),)),
        ("the factor 1 / (1 - rate) is missing",
         lambda dy, x, branch, rate, rng: (dy, dy * kept(x, rate, rng)))],
}
