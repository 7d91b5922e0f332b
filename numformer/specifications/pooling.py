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
         np.broadcast_to((dy / everywhere(x, mask).sum(axis=1, keepdims=True))[:, None], x.shape))],
    hints=(
        "Sum the real vectors of a sequence and divide by their number; padding takes no part in "
        "either.",
        "mask (B, T) needs a new axis to select vectors of x (B, T, C). n is the number of True "
        "in each row, (B, 1), not T.",
        "Where mask is False, put 0; sum over axis 1, and divide by n = mask.sum(axis=1)[:, "
        "None]. Without a mask it is the mean over axis 1."),
    backward_hints=(
        "Every real position enters the sum with the same factor 1 / n: each gets an equal share "
        "of dy.",
        "dy is (B, C), dx (B, T, C): a new axis for the positions. n counts the real positions of "
        "that sequence; padding gets 0.",
        "dx is (dy / n)[:, None], broadcast over all T positions, and 0 where mask is False. "
        "Without a mask, n = T."))


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
         F.max_pooling_backward(dy, F.max_pooling(x)[1]))],
    hints=(
        "The maximum over the positions, for every coordinate on its own: different coordinates "
        "may come from different positions.",
        "Padding must never win: replace it by -np.inf first. mask is (B, T), x is (B, T, C).",
        "Take the maximum over axis 1 of x where mask is True and -np.inf elsewhere; the result "
        "is (B, C)."),
    backward_hints=(
        "The maximum passes its gradient to the position that it came from, and to no other; of "
        "equal maxima, to the first.",
        "argmax over axis 1 gives that position for every coordinate, (B, C), and of equal ones "
        "the first. Mask the padding as in the forward.",
        "With largest = argmax(axis=1)[:, None]: np.put_along_axis writes dy[:, None] into zeros "
        "of the shape of x, along axis 1."))
