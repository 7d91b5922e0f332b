"""Wrong numbers: signs, factors, terms, transposes, axes, ids, masks."""

import numpy as np

rng = np.random.default_rng(3)
X, SQUARE = rng.standard_normal((3, 4)), rng.standard_normal((4, 4))
W, V = rng.standard_normal((4, 4)), rng.standard_normal(4)
IDS = np.array([0, 2, 2, 1])
MASK = np.array([True, False, True, True])


def linear(x, weight, bias):
    return x @ weight + bias, (x, weight)


def rms_norm(x, weight):
    r = ((x * x).mean(axis=-1, keepdims=True) + 0.1) ** -0.5
    return weight * x * r, (x, weight, r)


def softmax(x):
    e = np.exp(x - x.real.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p, p


def gathered(table):
    return table[IDS] ** 2, table


def masked(x):
    return np.where(MASK, x, 0) * 2, x


def shifted(x):
    return np.concatenate([x[1:], x[:1]]), None


def product(a, b):
    return a * b, (a, b)


def residual(x):
    return x + np.tanh(x), np.tanh(x)


def relu(x):
    return np.where(x.real > 0, x, 0), x


def loses_repeats(dy, table):
    dtable = np.zeros_like(table)
    dtable[IDS] = 2 * table[IDS] * dy
    return dtable


def one_number_wrong(dy, saved):
    a, b = saved
    da = dy * b
    da[1, 2] *= 1 + 1e-8
    return da, dy * a


def rms_norm_backward(dy, saved, constant_r=False, forgets_weight=False):
    x, weight, r = saved
    g = dy if forgets_weight else dy * weight
    through_r = 0 if constant_r else x * r * r * (g * x).mean(axis=-1, keepdims=True)
    return r * (g - through_r), (dy * x * r).sum(axis=0)


LINEAR, NORM = [SQUARE, W, V], [X, V]

BUGS = [
    ("sign", (linear, lambda dy, s: (-dy @ s[1].T, s[0].T @ dy, dy.sum(0))), LINEAR, {}, "! x"),
    ("factor", (linear, lambda dy, s: (dy @ s[1].T, 2 * s[0].T @ dy, dy.sum(0))), LINEAR, {},
     "! weight"),
    ("forgotten transpose", (linear, lambda dy, s: (dy @ s[1], s[0].T @ dy, dy.sum(0))), LINEAR, {},
     "! x"),
    ("transposed gradient", (linear, lambda dy, s: (dy @ s[1].T, dy.T @ s[0], dy.sum(0))), LINEAR,
     {}, "! weight"),
    ("bias by the mean", (linear, lambda dy, s: (dy @ s[1].T, s[0].T @ dy, dy.mean(0))), LINEAR, {},
     "! bias"),
    ("bias by the wrong axis", (linear, lambda dy, s: (dy @ s[1].T, s[0].T @ dy, dy.sum(1))),
     LINEAR, {}, "! bias"),
    ("bias without a sum", (linear, lambda dy, s: (dy @ s[1].T, s[0].T @ dy, dy)), LINEAR, {},
     "the gradient of bias has shape (4, 4)"),
    ("dropped term", (rms_norm, lambda dy, s: rms_norm_backward(dy, s, constant_r=True)), NORM, {},
     "! x"),
    ("dropped factor", (rms_norm, lambda dy, s: rms_norm_backward(dy, s, forgets_weight=True)),
     NORM, {}, "! x"),
    ("sum for mean", (softmax, lambda dp, p: p * (dp - (p * dp).mean(-1, keepdims=True))), [X], {},
     "! x"),
    ("the diagonal alone", (softmax, lambda dp, p: p * (1 - p) * dp), [X], {}, "! x"),
    ("lost repeats of ids", (gathered, loses_repeats), [X], {}, "! table"),
    ("mask forgotten", (masked, lambda dy, x: 2 * dy), [X], {}, "! x"),
    ("shift the other way", (shifted, lambda dy, _: np.concatenate([dy[1:], dy[:1]])), [X], {},
     "! x"),
    ("arguments exchanged", (product, lambda dy, s: (dy * s[0], dy * s[1])), [X, X[::-1]], {},
     "! a"),
    ("one branch forgotten", (residual, lambda dy, h: dy * (1 - h ** 2)), [X], {}, "! x"),
    ("derivative of the input, not the output", (residual, lambda dy, h: dy * (2 - h)), [X], {},
     "! x"),
    ("one number of many, by 1e-8", (product, one_number_wrong), [X, X[::-1]], {}, "! a"),
    ("wrong slope, inputs at the kink", (relu, lambda dy, x: 1.5 * dy * (x > 0)),
     [np.zeros((2, 3))], {}, "next to a kink"),
    ("wrong slope, some inputs at the kink", (relu, lambda dy, x: 1.5 * dy * (x > 0)),
     [np.array([0.0, 0.0, 1.0])], {}, "! x"),
    ("NaN", (product, lambda dy, s: (dy * s[1] * np.nan, dy * s[0])), [X, X], {}, "! a"),
]
