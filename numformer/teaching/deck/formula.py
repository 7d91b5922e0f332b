"""Formulas of the table of the decks, evaluated on random arrays.

A formula is a list of equations in Python. ``name = ...`` defines a name; any other equation, such
as ``functional.softmax(x) = exp(x) / sum(exp(x), -1)``, says that its two sides are equal. Beside
the rooms of the package a formula has

- the arrays of ``where``, normally distributed, or whole numbers: ``Q (T, D), ids (T) below V``;
- the sizes in `SIZES`, by the alphabet of the project;
- the functions in `WORDS`, which know nothing of the package.

``functional.NAME(...)`` is the output of a function alone, without what its backward needs.
"""

import re

import numpy as np

from numformer import analysis, data, functional, generation, layers, models

SIZES = {"B": 2, "T": 5, "S": 7, "H": 2, "G": 1, "D": 4, "D_V": 3, "C": 8, "F": 10, "V": 11,
         "E": 4, "N": 9}
ROOMS = {"analysis": analysis, "data": data, "generation": generation, "layers": layers,
         "models": models}


def softmax(x, axis=-1):
    """exp(x) over its sum."""
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def mean(x, axis=-1):
    """The mean over the last axis, which stays, with one entry."""
    return x.mean(axis, keepdims=True)


def var(x, axis=-1):
    """The variance over the last axis, which stays, with one entry."""
    return mean((x - mean(x, axis)) ** 2, axis)


def norm(x):
    """The Euclidean norm of vectors along the last axis, which stays, with one entry."""
    return np.sqrt((x ** 2).sum(-1, keepdims=True))


def heads(x, n):
    """(B, T, n D) as (B, n, T, D): the coordinates of each head."""
    return x.reshape(*x.shape[:2], n, -1).swapaxes(1, 2)


def concat(y):
    """(B, H, T, D) as (B, T, H D): the heads of each position, one after the other."""
    return y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)


def weights(layer):
    """The arrays of all parameters of a layer."""
    return [parameter.data for parameter in layer.parameters()]


def backward(name, dy, *inputs):
    """What ``NAME_backward`` returns for a gradient ``dy`` and the inputs of ``NAME``."""
    name = name.removeprefix("functional.")
    return getattr(functional, f"{name}_backward")(dy, getattr(functional, name)(*inputs)[1])


WORDS = {
    "softmax": softmax, "mean": mean, "var": var, "norm": norm, "heads": heads, "concat": concat,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0),
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "sum": np.sum, "max": np.max, "maximum": np.maximum, "arange": np.arange, "stack": np.stack,
    "tril": np.tril, "eye": np.eye, "ones": np.ones, "zeros": np.zeros, "abs": np.abs,
    "where": np.where, "concatenate": np.concatenate, "round": round, "weights": weights,
    "backward": backward, "prod": np.prod,
    "inf": np.inf, "len": len, "range": range, "float64": np.float64,
}


def evaluate(row, seed=0):
    """Both sides of every equation of a row's formula that is no definition.

    Parameters
    ----------
    row : Row
    seed : int
        Of the random arrays.

    Returns
    -------
    dict of str to (ndarray, ndarray)
        By the equation.

    Examples
    --------
    >>> from numformer.teaching.deck import DECKS
    >>> for equation, (code, formula) in evaluate(DECKS["B"].row_at(264)).items():
    ...     print(equation, code.shape, bool(np.allclose(code, formula)))
    functional.scaled_dot_scores(q, k) = q @ k.mT / sqrt(D) (2, 5, 7) True
    """
    rng = np.random.default_rng(seed)
    names = {**WORDS, **SIZES, **ROOMS, "functional": _Outputs(), "rng": rng}
    names["permutation"] = lambda n: np.eye(n)[rng.permutation(n)]
    names.update({name: _array(rng, sizes, below)
                  for name, sizes, below in re.findall(r"(\w+) \((.*?)\)(?: below (\w+))?",
                                                       row.where)})
    sides = {}
    for equation in row.formula:
        left, _, right = equation.partition(" = ")
        value = eval(right, names)
        if re.fullmatch(r"\w+(, \w+)*", left):
            names.update(zip(left.split(", "), value if ", " in left else [value]))
        else:
            sides[equation] = np.asarray(eval(left, names)), np.asarray(value)
    return sides


def _array(rng, sizes, below):
    shape = eval(f"({sizes},)", dict(SIZES))
    return rng.integers(SIZES[below], size=shape) if below else rng.standard_normal(shape)


class _Outputs:
    """`numformer.functional`, without what a forward saves."""

    def __getattr__(self, name):
        found = getattr(functional, name)
        if not callable(found):
            return found

        def output(*arguments, **options):
            result = found(*arguments, **options)
            saves = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], tuple)
            return result[0] if saves else result

        return output
