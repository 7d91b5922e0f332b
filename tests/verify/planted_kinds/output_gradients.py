"""Backwards that are not linear in dy: clipped, flushed, rounded, normalized, ignored."""

import numpy as np

X = np.random.default_rng(6).standard_normal((3, 4))


def tanh(x):
    y = np.tanh(x)
    return y, y


def right(dy, y):
    return dy * (1 - y * y)


def loss(x):
    return (x * x).sum(), x


def decayed(dy, y):
    return right(dy, y) + 0.01 * y


def clipped_norm(dy, y):
    norm = np.sqrt((dy * dy).sum())
    return right(dy, y) * min(1.0, 100 / norm)


def skips_zeros(dy, y):
    return right(dy, y) if dy.all() else 0 * dy


def through_single_precision(dy, y):
    return right(dy.astype(np.float32).astype(float), y)


LINEAR = "not linear in dy"

BUGS = [
    ("dy clipped to 1000", (tanh, lambda dy, y: right(dy.clip(-1e3, 1e3), y)), [X], {}, "clipping"),
    ("dy clipped to 1e6", (tanh, lambda dy, y: right(dy.clip(-1e6, 1e6), y)), [X], {}, "clipping"),
    ("dx clipped to 5", (tanh, lambda dy, y: right(dy, y).clip(-5, 5)), [X], {}, "clipping"),
    ("norm of dy clipped", (tanh, clipped_norm), [X], {}, LINEAR),
    ("dy below 1e-12 flushed", (tanh, lambda dy, y: right(np.where(np.abs(dy) < 1e-12, 0, dy), y)),
     [X], {}, "set to 0"),
    ("dx below 1e-12 flushed", (tanh, lambda dy, y: np.where(
        np.abs(right(dy, y)) < 1e-12, 0, right(dy, y))), [X], {}, "set to 0"),
    ("dy rounded to decimals", (tanh, lambda dy, y: right(dy.round(12), y)), [X], {}, LINEAR),
    ("dy through float32", (tanh, through_single_precision), [X], {}, LINEAR),
    ("dy ignored", (loss, lambda dy, x: 2 * x), [X], {}, "dy = 0"),
    ("sign of dy lost", (loss, lambda dy, x: 2 * x * abs(dy)), [X], {}, LINEAR),
    ("ReLU on dy", (tanh, lambda dy, y: right(np.maximum(dy, 0), y)), [X], {}, LINEAR),
    ("a term without dy", (tanh, decayed), [X], {}, "dy = 0"),
    ("0 for a dy that holds a 0", (tanh, skips_zeros), [X], {}, "! x"),
    ("NaN for dy = 0", (tanh, lambda dy, y: right(dy, y) * dy.sum() / dy.sum()), [X], {}, "dy = 0"),
]
