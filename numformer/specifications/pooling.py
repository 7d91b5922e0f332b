"""Pooling over positions."""

import numpy as np

from numformer import functional as F
from numformer.specifications.batch_norm import real
from numformer.specifications.levels import Level, sizes
from numformer.specifications.specification import specify


# ---- mean_pooling --------------------------------------------------------------------------------

def mean_pooling(x, mask=None):
    m = np.ones(x.shape[:2], bool) if mask is None else mask
    n = m.sum(axis=1, keepdims=True)
    return (x * m[:, :, None]).sum(axis=1) / n


def mean_pooling_backward(dy, x, mask=None):
    m = np.ones(x.shape[:2], bool) if mask is None else mask
    n = m.sum(axis=1, keepdims=True)
    return (dy / n)[:, None] * m[:, :, None]


def pooled(masked):
    def make(rng):
        B, T, C = sizes(rng, 3)
        return {"x": rng.standard_normal((B, T, C))}, {"mask": real(rng, B, T)} if masked else {}
    return make


def pooled_with_nan(rng):
    arguments, options = pooled(True)(rng)
    arguments["x"][~options["mask"]] = np.nan
    return arguments, options


PADDING = Level(pooled_with_nan, "Padding holds NaN here, and does not count.", required=False)


def everywhere(x, mask):
    return np.ones(x.shape[:2], bool) if mask is None else mask


specify(
    F.mean_pooling, ("x",),
    {"plain": pooled(False), "a mask": pooled(True), "NaN behind the mask": PADDING},
    mistakes=[
        ("the factor 1 / n of the mean is missing", lambda dy, x, mask=None:
         np.where(everywhere(x, mask)[..., None], dy[:, None], 0)),
        ("padding is counted in n", lambda dy, x, mask=None:
         np.where(everywhere(x, mask)[..., None], dy[:, None] / x.shape[1], 0)),
        ("padding gets a gradient, which must be 0", lambda dy, x, mask=None:
         np.broadcast_to((dy / everywhere(x, mask).sum(axis=1, keepdims=True))[:, None], x.shape))])


# ---- max_pooling ---------------------------------------------------------------------------------

def max_pooling(x, mask=None):
    m = np.ones(x.shape[:2], bool) if mask is None else mask
    return np.where(m[:, :, None], x, -np.inf).max(axis=1)


def max_pooling_backward(dy, x, mask=None):
    m = np.ones(x.shape[:2], bool) if mask is None else mask
    x = np.where(m[:, :, None], x, -np.inf)
    largest = x.argmax(axis=1)
    dx = np.zeros(x.shape)
    for b in range(x.shape[0]):
        for c in range(x.shape[2]):
            dx[b, largest[b, c], c] = dy[b, c]
    return dx


def pooled_with_equal_maxima(rng):
    x = rng.standard_normal(tuple(sizes(rng, 3)))
    x[:, -1] = x[:, 0] = 9
    return {"x": x}, {}


TIES = "Of equal maxima, the gradient goes to the first."


specify(
    F.max_pooling, ("x",),
    {"plain": pooled(False), "a mask": pooled(True), "NaN behind the mask": PADDING,
     "equal maxima": Level(pooled_with_equal_maxima, TIES, required=False)},
    mistakes=[
        ("every position gets the gradient: only the largest must get it", lambda dy, x, mask=None:
         np.broadcast_to(dy[:, None], x.shape)),
        ("one position is chosen for all coordinates: each coordinate has its own maximum",
         lambda dy, x, mask=None:
         dy[:, None]
         * (np.arange(x.shape[1]) == np.where(everywhere(x, mask), x.sum(-1),
                                              -np.inf).argmax(1)[:, None])[..., None]),
        ("padding takes part in the maximum: it must be excluded, whatever its values",
         lambda dy, x, mask=None:
         F.max_pooling_backward(dy, F.max_pooling(x)[1]))])
