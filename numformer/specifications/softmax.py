"""The softmax and its logarithm."""

import numpy as np

from numformer import functional as F
from numformer.specifications.edges import MASKED_ROW, SUBTRACT
from numformer.specifications.levels import Level, one_array, sizes
from numformer.specifications.specification import specify


# ---- softmax -------------------------------------------------------------------------------------

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


def large(rng):
    rows, columns = sizes(rng, 2)
    return {"x": 800 + 300 * rng.standard_normal((rows, columns))}, {}


def overflow_shows(found, reference):
    """What NaN or Inf shows where exp overflows."""
    if np.isfinite(found):
        return ""
    return ("The scores are near 1000 here: exp overflows to Inf above 709, and Inf / Inf is NaN. "
            f"So {SUBTRACT}.")


def logarithm_shows(found, reference):
    """What NaN or -Inf shows in a logarithm of the softmax."""
    if np.isneginf(found) and reference < -700:
        return ("The scores are near 1000 here, and far apart: p underflows to 0, and log 0 is "
                "-Inf. Do not take the logarithm of p: subtract the logarithm of the sum, "
                "x - max - log(sum(exp(x - max))).")
    return overflow_shows(found, reference)


LOW = -2e4
LOW_SCORES = (f"All scores are about {LOW:,.0f} here: what is masked must have no weight, and so a "
              "score of -Inf, not of a number that others may be below.")


def low_scores_show(found, reference):
    """What the first wrong number shows where all scores are about LOW."""
    if np.isfinite(found) and found != 0:
        return ""                                     # a mask by a number, says the hint
    return (f"All scores are about {LOW:,.0f} here, where every exp underflows to 0, and 0 / 0 is "
            f"NaN: {SUBTRACT}, of the scores that are not masked.")


def masked(rng):
    rows, columns = sizes(rng, 2)
    mask = rng.random((rows, columns)) < 0.6
    mask[:, 0], mask[0, 1:2] = True, False
    return {"x": rng.standard_normal((rows, columns))}, {"mask": mask}


def masked_low(rng):
    """Scores so low that a mask by a number such as -10,000 would be above them."""
    arguments, options = masked(rng)
    return {"x": arguments["x"] + LOW}, options


def masked_columns(rng):
    arguments, options = masked(rng)
    options["mask"][0] = True
    return arguments, {**options, "axis": 0}


def far_apart(rng):
    """All scores of some rows are far above all scores of the others."""
    arguments, _ = one_array()(rng)
    x = arguments["x"]
    return {"x": x + 1000 * (np.arange(len(x)) % 3 - 1)[:, None]}, {}


def masked_row(rng):
    arguments, options = masked(rng)
    options["mask"][-1] = False
    return arguments, options


ROWS = ("The scores of some rows are far above those of others: subtract the maximum of each row, "
        "not of all.")


def softmax_left_out(dp, x, axis=-1, mask=None):
    return dp.copy()


def softmax_without_sum(dp, x, axis=-1, mask=None):
    return F.softmax(x, axis, mask)[0] * dp


def softmax_over_the_other_axis(dp, x, axis=-1, mask=None):
    p, other = F.softmax(x, axis, mask)[0], -2 if axis == -1 else -1
    return p * (dp - (p * dp).sum(axis=other, keepdims=True))


def softmax_forward_over_the_other_axis(dp, x, axis=-1, mask=None):
    other = -2 if axis == -1 else -1
    return F.softmax_backward(dp, F.softmax(x, other, mask)[1])


def softmax_as_sigmoid(dp, x, axis=-1, mask=None):
    p = F.softmax(x, axis, mask)[0]
    return p * (1 - p) * dp


def softmax_with_the_mean(dp, x, axis=-1, mask=None):
    p = F.softmax(x, axis, mask)[0]
    return p * (dp - (p * dp).mean(axis=axis, keepdims=True))


def softmax_with_an_unweighted_sum(dp, x, axis=-1, mask=None):
    return F.softmax(x, axis, mask)[0] * (dp - dp.sum(axis=axis, keepdims=True))


def masked_after(x, axis=-1, mask=None):
    p = F.softmax(x, axis)[0]
    return p if mask is None else np.where(mask, p, 0)


def with_another_score_of_0(x, axis=-1, mask=None):
    more = np.concatenate([x, np.zeros_like(x.take([0], axis))], axis)
    if mask is not None:
        mask = np.concatenate([mask, np.ones_like(mask.take([0], axis))], axis)
    return np.delete(F.softmax(more, axis, mask)[0], -1, axis)


def masked_scores_of_0(x, axis=-1, mask=None):
    return F.softmax(x if mask is None else np.where(mask, x, 0), axis)[0]


MASK_ADDED = ("the mask is added to the scores as numbers, 1 and 0: masked scores must be -Inf, as "
              "of np.where(mask, scores, -np.inf)")
MASK_MULTIPLIED = ("the scores are multiplied by the mask: masked ones become 0, and exp(0) is 1; "
                   "they must be -Inf")


def any_axis(rng):
    """x of three or four axes, and one of them but the last."""
    n_axes, axis = ((3, 0), (3, -2), (4, 1), (4, -2))[rng.integers(4)]
    return {"x": rng.standard_normal(sizes(rng, n_axes))}, {"axis": axis}


AXIS = ("Any axis may be the softmax's here, of three or four. np.moveaxis(x, axis, -1) is undone "
        "by np.moveaxis(y, -1, axis).")


specify(
    F.softmax, ("x",),
    {"plain": one_array(), "axis=0": one_array(axis=0), "a mask": masked,
     "any axis": Level(any_axis, AXIS, instances=6),
     "a mask, axis=0": masked_columns,
     "scores near 1000": Level(large, shows=overflow_shows),
     "rows far apart": Level(far_apart, ROWS),
     "a mask, low scores": Level(masked_low, LOW_SCORES, low_scores_show),
     "a row of the mask is False": Level(masked_row, MASKED_ROW, required=False)},
    forward_mistakes=[
        ("the mask comes after the softmax, and what is left is not normalized: masked scores must "
         "be left out of the sum", masked_after),
        (MASK_MULTIPLIED, masked_scores_of_0),
        (MASK_ADDED, lambda x, axis=-1, mask=None: F.softmax(x if mask is None else x + mask,
                                                             axis)[0]),
        ("the mask is missing", lambda x, axis=-1, mask=None: F.softmax(x, axis)[0]),
        ("the sum has an additional term exp(0) = 1, as of another score of 0: it must begin with "
         "0", with_another_score_of_0)],
    mistakes=[
        ("the Jacobian of the softmax is missing: dp is returned unchanged", softmax_left_out),
        ("the sum over all weights is missing: softmax_backward is p * (dp - sum(p * dp))",
         softmax_without_sum),
        ("the sum of p * dp is over the wrong axis", softmax_over_the_other_axis),
        ("the softmax itself is over the wrong axis", softmax_forward_over_the_other_axis),
        ("only the diagonal of the Jacobian is used, p * (1 - p): every weight depends on all "
         "scores", softmax_as_sigmoid),
        ("the mean of p * dp is used instead of the sum", softmax_with_the_mean),
        ("the sum is over dp, but must be weighted: sum(p * dp)", softmax_with_an_unweighted_sum)],
    last_axes={"x": 1},
    hints=(
        "Softmax does not change when the same constant is subtracted from all scores of a row. "
        "Which constant keeps exp from overflowing?",
        "Subtract the maximum along the last axis{axis|, or along axis}, not of the whole array. "
        "Maximum and sum need keepdims=True: they are for the entries of their own row.",
        "weights = np.exp(x - x.max(axis=-1, keepdims=True)), divided by their sum over the same "
        "axis{axis|, which is axis if it is given}.{mask| Masked scores count as -inf.}"),
    backward_hints=(
        "Write dx_k = sum_j J_jk dp_j with the Jacobian J = diag(p) - p p^T. Its first term "
        "leaves one summand, its second a sum over the whole row.",
        "dx_k = p_k dp_k - p_k sum_j p_j dp_j. The sum runs over the axis of the softmax, with "
        "keepdims=True. Only p is needed, as the forward computes it.",
        "Factor out p: dx = p * (dp - s), with s = (p * dp).sum(axis=-1, keepdims=True){axis|, or "
        "over axis if it is given}.{mask| Where masked, p is 0, and so is dx.}"))


# ---- log_softmax ---------------------------------------------------------------------------------

def log_softmax(x, axis=-1):
    e = np.exp(x)
    return x - np.log(e.sum(axis=axis, keepdims=True))


def log_softmax_in_steps(x, axis=-1):
    m = x.max()
    e = np.exp(x - m)
    return x - m - np.log(e.sum(axis=axis, keepdims=True))


def log_softmax_in_rows(x, axis=-1):
    z = x - x.max(axis=axis, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=axis, keepdims=True))


def log_softmax_backward(dy, x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    p = e / e.sum(axis=axis, keepdims=True)
    return dy - p * dy.sum(axis=axis, keepdims=True)


def log_softmax_without_sum(dy, x, axis=-1):
    return dy - np.exp(F.log_softmax(x, axis)[0])


def log_softmax_over_the_other_axis(dy, x, axis=-1):
    return dy - np.exp(F.log_softmax(x, axis)[0]) * dy.sum(axis=-2 if axis == -1 else -1,
                                                           keepdims=True)


def log_of_softmax_plus(small):
    return (f"the logarithm is that of softmax plus {small:g}: where softmax underflows, it is "
            "log softmax no more; use x - max - log(sum(exp(x - max)))",
            lambda x, axis=-1: np.log(F.softmax(x, axis)[0] + small))


specify(
    F.log_softmax, ("x",),
    {"plain": one_array(), "axis=0": one_array(axis=0),
     "scores near 1000": Level(large, shows=logarithm_shows),
     "any axis": Level(any_axis, AXIS, instances=6), "rows far apart": Level(far_apart, ROWS)},
    mistakes=[
        ("the sum of dy is missing: log_softmax_backward is dy - p * sum(dy)",
         log_softmax_without_sum),
        ("the sum of dy is over the wrong axis", log_softmax_over_the_other_axis)],
    forward_mistakes=[
        *(log_of_softmax_plus(small) for small in (1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15, 1e-16)),
        ("the sum has an additional term exp(0) = 1, as of another class with logit 0: it must "
         "begin with 0, and its logarithm with -Inf",
         lambda x, axis=-1: np.log(with_another_score_of_0(x, axis)))],
    last_axes={"x": 1},
    hints=(
        "log p_i = x_i - log sum_j exp(x_j): write it so, because the logarithm of a softmax that "
        "underflowed is -inf.",
        "Subtract the maximum along the last axis{axis|, or along axis,} first, with "
        "keepdims=True: the same constant in both terms, so nothing changes.",
        "shifted is x minus that maximum; y is shifted minus the log of the sum of "
        "np.exp(shifted) over the same axis."),
    backward_hints=(
        "x_k affects y_j in two ways: directly if k = j, and through the sum for every j.",
        "The derivative of log sum_k exp(x_k) with respect to x_k is p_k, the softmax, which is "
        "exp(y). Every dy_j reaches x_k through it: dy is summed over the row.",
        "dx = dy - p * s, where s is the sum of dy over the axis of the softmax, with "
        "keepdims=True. The sum has no factor p, unlike that of softmax_backward."))
