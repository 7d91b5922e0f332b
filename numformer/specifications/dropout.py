"""Dropout."""

import numpy as np

from numformer import functional as F
from numformer.functional import dropout_mask, dropout_seed
from numformer.specifications.edges import NO_GENERATOR, left_out
from numformer.specifications.levels import sizes
from numformer.specifications.pair import Pair, seeded
from numformer.specifications.specification import specify


# ---- dropout -------------------------------------------------------------------------------------

def dropout(x, rate, rng):
    kept = dropout_mask(dropout_seed(rng), x.shape, rate)
    return x * kept / (1 - rate)


def dropout_backward(dy, x, rate, rng):
    kept = dropout_mask(dropout_seed(rng), x.shape, rate)
    return dy * kept / (1 - rate)


def with_dropout(rng):
    rows, columns = sizes(rng, 2)
    return {"x": rng.standard_normal((rows + 2, columns + 2)), "rate": 0.4,
            "rng": np.random.default_rng(rows)}, {}


MASK = ("The dropout mask must be dropout_mask(dropout_seed(rng), x.shape, rate); both are in "
        "numformer.functional.")


def kept(x, rate, rng):
    return F.dropout(np.ones_like(x), rate, rng)[0] > 0


specify(
    F.dropout, ("x",),
    {"plain": with_dropout, "no generator": left_out(with_dropout, "rng", hint=NO_GENERATOR)},
    note=MASK,
    cases=[
        Pair("dropout", [(3, 4)], after=(0.4,), options=seeded),
        Pair("dropout at inference", [(3, 4)], after=(0.4,))],
    mistakes=[
        ("the factor 1 / (1 - rate) is missing", lambda dy, x, rate, rng: dy * kept(x, rate, rng)),
        ("the mask is the wrong way round: what was dropped gets the gradient, and what was kept "
         "gets none", lambda dy, x, rate, rng: dy * ~kept(x, rate, rng) / (1 - rate)),
        ("the dropout mask is missing: dropped entries get no gradient",
         lambda dy, x, rate, rng: dy / (1 - rate))],
    last_axes={"x": 0},
    hints=(
        "Each number is kept with probability 1 - rate or becomes 0; the kept ones are divided by "
        "1 - rate, so that the mean stays.",
        "The mask must be the one of the library: dropout_mask(dropout_seed(rng), x.shape, rate), "
        "True where kept. Without rng, or with rate 0, y is a copy of x.",
        "y is x times the mask, over (1 - rate): entries are 0 or x / (1 - rate)."),
    backward_hints=(
        "y_i = x_i m_i / (1 - rate) depends on one x_i alone, and m is a constant. What must be "
        "the same in forward and backward?",
        "The mask of the forward once more, from the saved seed: a new one would be another "
        "function. The factor 1 / (1 - rate) belongs to the gradient, too.",
        "dx is dy times the same mask, over (1 - rate); without a generator it is dy."))


# ---- residual_dropout ----------------------------------------------------------------------------

def residual_dropout(x, branch, rate, rng):
    kept = dropout_mask(dropout_seed(rng), x.shape, rate)
    return x + branch * kept / (1 - rate)


def residual_dropout_backward(dy, x, branch, rate, rng):
    kept = dropout_mask(dropout_seed(rng), x.shape, rate)
    return dy * 1.0, dy * kept / (1 - rate)


def residual(rng):
    (arguments, _), rows = with_dropout(rng), rng.integers(2, 8)
    branch = rng.standard_normal(arguments["x"].shape)
    return {"x": arguments["x"], "branch": branch, "rate": 0.4,
            "rng": np.random.default_rng(rows)}, {}


specify(
    F.residual_dropout, ("x", "branch"),
    {"plain": residual, "no generator": left_out(residual, "rng", hint=NO_GENERATOR)},
    note=MASK,
    cases=[
        Pair("residual dropout", [(2, 3, 4), (2, 3, 4)], after=(0.4,), options=seeded),
        Pair("residual dropout at inference", [(3, 4), (3, 4)], after=(0.4,))],
    mistakes=[
        ("the dropout mask is missing: dropped entries get no gradient",
         lambda dy, x, branch, rate, rng: (dy, dy / (1 - rate))),
        ("dropout is applied to the gradient of x too, but x is added unchanged",
         lambda dy, x, branch, rate, rng: 2 * (dy * kept(x, rate, rng) / (1 - rate),)),
        ("the factor 1 / (1 - rate) is missing",
         lambda dy, x, branch, rate, rng: (dy, dy * kept(x, rate, rng)))],
    last_axes={"x": 0, "branch": 0},
    hints=(
        "Only the branch is dropped; the residual stream x passes untouched.",
        "Dropout first, then the sum: kept entries of branch are divided by 1 - rate. Without "
        "rng, or with rate 0, y = x + branch.",
        "y is x plus branch times the mask over (1 - rate), the mask being "
        "dropout_mask(dropout_seed(rng), branch.shape, rate)."),
    backward_hints=(
        "A sum passes its gradient to both terms: x gets dy as it is, branch gets it through the "
        "dropout.",
        "dx has neither mask nor factor. dbranch has both: the forward's mask from the saved "
        "seed, and 1 / (1 - rate).",
        "Return dy for x, and dy times the mask over (1 - rate) for branch, in this order."))
