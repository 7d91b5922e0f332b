"""Mistakes in functions of single numbers."""

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
    "relu_backward": [("the mask is that of dy, but must be that of x", lambda dy, x: np.where(dy > 0, dy, 0))],
    "relu_squared_backward": [
        ("the factor 2 is missing: the derivative is 2 max(0, x)", lambda dy, x: dy * np.maximum(x, 0)),
        ("the mask is missing: where x is negative nothing came through", lambda dy, x: dy * 2 * x)],
    "gated_linear_unit_backward": [
        ("the gate's own derivative is missing in dg", lambda dy, g, h, activation="silu": (dy * h, dy * value(g, activation))),
        ("h is missing in dg: a product has two derivatives",
         lambda dy, g, h, activation="silu": (dy * slope(g, activation), dy * value(g, activation))),
        ("dh is multiplied by g, but must be by f(g)",
         lambda dy, g, h, activation="silu": (F.gated_linear_unit_backward(dy, F.gated_linear_unit(g, h, activation)[1])[0], dy * g))],
    "gelu_backward": [
        ("the term x * density is missing: a product has two derivatives", lambda dy, x: dy * (1 - F.gelu(-x)[0] / -x)),
        ("this is the derivative of GELU's tanh form", lambda dy, x: F.gelu_tanh_backward(dy, F.gelu_tanh(x)[1])),
        ("the density lacks its factor 1 / sqrt(2 pi)",
         lambda dy, x: F.gelu_backward(dy, F.gelu(x)[1]) + dy * x * normal_density(x) * (np.sqrt(2 * np.pi) - 1))],
    "gelu_tanh_backward": [
        ("this is the derivative of the exact GELU", lambda dy, x: F.gelu_backward(dy, F.gelu(x)[1])),
        ("the term through the tanh is missing: a product has two derivatives", lambda dy, x: dy * F.gelu_tanh(x)[0] / x)],
    "sigmoid_backward": [
        ("the factor 1 - y is missing: the derivative is y * (1 - y)", lambda dy, x: dy * gate(x)),
        ("the factor y is missing: the derivative is y * (1 - y)", lambda dy, x: dy * (1 - gate(x))),
        ("x stands where y = sigmoid(x) belongs", lambda dy, x: dy * x * (1 - x))],
    "swish_backward": [
        ("the gate's own derivative is missing: a product has two", lambda dy, x, beta=1.0: dy * gate(x, beta)),
        ("beta is missing in the gate's derivative",
         lambda dy, x, beta=1.0: dy * (gate(x, beta) + x * gate(x, beta) * (1 - gate(x, beta)))),
        ("beta is left out", lambda dy, x, beta=1.0: F.silu_backward(dy, F.silu(x)[1]))],
    "silu_backward": [
        ("the gate's own derivative is missing: a product has two", lambda dy, x: dy * gate(x)),
        ("this is the derivative of the gate alone, without x", lambda dy, x: dy * gate(x) * (1 - gate(x)))],
    "soft_cap_backward": [
        ("the square is missing: the derivative is 1 - tanh(x / c)**2", lambda dy, x, cap: dy * (1 - np.tanh(x / cap))),
        ("x / c stands where tanh(x / c) belongs", lambda dy, x, cap: dy * (1 - (x / cap) ** 2)),
        ("y is not divided by the cap", lambda dy, x, cap: dy * (1 - (cap * np.tanh(x / cap)) ** 2))],
    "dropout_backward": [
        ("the factor 1 / (1 - rate) is missing", lambda dy, x, rate, rng: dy * kept(x, rate, rng)),
        ("the mask is missing: what was silenced gets no gradient", lambda dy, x, rate, rng: dy / (1 - rate))],
    "residual_dropout_backward": [
        ("the mask is missing: what was silenced gets no gradient", lambda dy, x, branch, rate, rng: (dy, dy / (1 - rate))),
        ("dropout's factor stands on x too, which goes by unchanged",
         lambda dy, x, branch, rate, rng: 2 * (dy * kept(x, rate, rng) / (1 - rate),)),
        ("the factor 1 / (1 - rate) is missing", lambda dy, x, branch, rate, rng: (dy, dy * kept(x, rate, rng)))],
}
