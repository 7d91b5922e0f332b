"""Known mistakes, made on purpose: whose numbers equal a student's tells what the student did.

Each is a whole backward of the form `(dy, *arguments, **options)`, wrong in one thing, beside the sentence that says which.
"""

from dataclasses import replace

import numpy as np

from numformer import functional as F

SAME = 1e-7


def likely_cause(name, outputs_of, problem):
    """The sentence of the mistake that gives the same numbers as a student's function, on two problems; "" if none does.

    Parameters
    ----------
    name : str
        Of the backward.
    outputs_of : callable
        A problem to what the student's function returned for it.
    problem : Problem
        One that the function got wrong.
    """
    problems = [problem, replace(problem, seed=problem.seed + 50)]
    theirs = [outputs_of(each) for each in problems]
    if any(outputs is None for outputs in theirs):
        return ""
    with np.errstate(invalid="ignore"):                               # NaN of theirs equals nothing
        return _known(name, theirs, problems) or _factor(theirs, problems)


def _known(name, theirs, problems):
    for cause, mistake in [*MISTAKES.get(name, ()), *GENERAL]:
        if all(_equal(outputs, _made(mistake, each)) for outputs, each in zip(theirs, problems)):
            return cause
    return ""


def _made(mistake, problem):
    """What a mistake gives on a problem; None where it cannot be made, or makes no difference."""
    arguments, options = problem.arguments()
    _, _, dy, truth = problem.truth()
    try:
        with np.errstate(all="ignore"):
            made = mistake(truth, dy, arguments, options) if mistake in GENERAL_FUNCTIONS else mistake(dy, *arguments.values(), **options)
    except (ValueError, TypeError, IndexError):
        return None
    made = made if isinstance(made, tuple) else (made,)
    return None if _equal(made, tuple(truth.values())) else made


def _equal(outputs, made):
    if made is None or len(outputs) != len(made):
        return False
    return all(np.shape(a) == np.shape(b) and bool((np.abs(a - b) <= SAME * (np.abs(b) + np.abs(b).max(initial=0))).all())
               for a, b in zip(outputs, made))


def _factor(theirs, problems):
    """The cause where one gradient is the truth times the same number in every place."""
    names, factors = list(problems[0].truth()[3]), []
    for outputs, problem in zip(theirs, problems):
        truth = list(problem.truth()[3].values())
        wrong = [k for k, (a, b) in enumerate(zip(outputs, truth)) if np.shape(a) != np.shape(b) or not _equal((a,), (b,))]
        k = wrong[0]
        if np.shape(outputs[k]) != np.shape(truth[k]) or not np.isfinite(outputs[k]).all():
            return ""
        factor = float((outputs[k] * truth[k]).sum() / (truth[k] ** 2).sum())
        if not _equal((outputs[k],), (factor * truth[k],)):
            return ""
        factors.append((names[k], factor))
    (name, first), (_, second) = factors
    if abs(first) < SAME:
        return f"{name} is zero everywhere: nothing was written into it"
    if abs(first + 1) < SAME:
        return f"the sign of {name} is turned"
    steady = f"{first:.6g} times the truth everywhere"
    return f"{name} is {steady}, whatever the shapes: a constant factor is wrong" if abs(first - second) < SAME else \
        f"{name} is {steady} here, and {second:.6g} times with other shapes: a mean taken for a sum, or a factor that goes with a size"


# Mistakes of any function


def forgets_dy(truth, dy, arguments, options):
    """Only where the derivative of every place is its own."""
    (gradient,) = truth.values()
    return gradient / dy


def turned_around(truth, dy, arguments, options):
    return tuple(np.swapaxes(gradient, -1, -2) for gradient in truth.values())


def passes_dy_on(truth, dy, arguments, options):
    (gradient,) = truth.values()
    return dy + 0 * gradient


def in_another_order(truth, dy, arguments, options):
    return tuple(truth.values())[::-1]


GENERAL = [
    ("dy does not enter: what comes from above must be multiplied by the derivative", forgets_dy),
    ("the gradients are right, but in the opposite order", in_another_order),
    ("the last two axes are exchanged", turned_around),
    ("dy is handed on as it is: the derivative of the function itself is missing", passes_dy_on),
]
GENERAL_FUNCTIONS = [function for _, function in GENERAL]


# Linear


def linear_with_weight_not_turned(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dy @ weight, dweight, dbias


def linear_without_sum_of_bias(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight, dy


def linear_with_sum_of_bias_over_the_batch_alone(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight, dy.sum(axis=0)


def linear_with_mean_of_bias(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight, dy.mean(axis=(0, 1))


def linear_with_dweight_turned(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight.T, dbias


def linear_without_sum_of_weight(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, np.swapaxes(x, -1, -2) @ dy, dbias


def linear(dy, x, weight, bias):
    return F.linear_backward(dy, F.linear(x, weight, bias)[1])


# Softmax and the loss


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


def log_softmax_without_sum(dy, x, axis=-1):
    return dy - np.exp(F.log_softmax(x, axis)[0])


def log_softmax_over_the_other_axis(dy, x, axis=-1):
    return dy - np.exp(F.log_softmax(x, axis)[0]) * dy.sum(axis=-2 if axis == -1 else -1, keepdims=True)


def loss_parts(logits, targets, label_smoothing=0.0, z_loss=0.0):
    """p - q of every token, which tokens count, and p."""
    p, V = F.softmax(logits)[0], logits.shape[-1]
    counts = targets != F.IGNORE_INDEX
    q = (1 - label_smoothing) * np.eye(V)[np.where(counts, targets, 0)] + label_smoothing / V
    lse = (logits - F.log_softmax(logits)[0])[..., :1]
    return p - q + 2 * z_loss * lse * p, counts[..., None], p


def loss_without_mean(dloss, logits, targets, **options):
    difference, counts, _ = loss_parts(logits, targets, **options)
    return dloss * difference * counts


def loss_with_mean_over_the_batch(dloss, logits, targets, **options):
    return loss_without_mean(dloss, logits, targets, **options) / len(logits)


def loss_with_ignored_in_the_mean(dloss, logits, targets, **options):
    return loss_without_mean(dloss, logits, targets, **options) / targets.size


def loss_with_ignored_in_the_gradient(dloss, logits, targets, **options):
    difference, counts, _ = loss_parts(logits, targets, **options)
    return dloss * difference / counts.sum()


def loss_without_truth(dloss, logits, targets, **options):
    _, counts, p = loss_parts(logits, targets)
    return dloss * p * counts / counts.sum()


def loss_without_dloss(dloss, logits, targets, **options):
    return F.cross_entropy_backward(1.0, F.cross_entropy(logits, targets, **options)[1])


# Norms


def norm_parts(dy, x, gain, centre, epsilon=1e-5, epsilon_inside=True):
    """g = gain * dy, x_hat, the reciprocal deviation, and the gradients of gain and shift."""
    centred = x - x.mean(axis=-1, keepdims=True) if centre else x
    square = (centred * centred).mean(axis=-1, keepdims=True)
    r = (square + epsilon) ** -0.5 if epsilon_inside else 1 / (square ** 0.5 + epsilon)
    x_hat = centred * r
    bend = 1.0 if epsilon_inside else (square ** 0.5 + epsilon) / square ** 0.5
    vectors = tuple(range(x.ndim - 1))
    return gain * dy, x_hat, r, bend, [(dy * x_hat).sum(axis=vectors)] + [dy.sum(axis=vectors)] * centre


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def norm_of(centre, change):
    """A backward of LayerNorm (`centre`) or RMSNorm in which `change(g, x_hat, r, bend)` says what dx is."""
    def gradients(dy, x, gain, *shift, **options):
        g, x_hat, r, bend, more = norm_parts(dy, x, gain, centre, **options)
        return change(g, x_hat, r, bend), *more
    return gradients


def norm_without_gain(centre):
    def gradients(dy, x, gain, *shift, **options):
        g, x_hat, r, bend, more = norm_parts(dy, x, gain, centre, **options)
        return r * (dy - mean(dy) * centre - x_hat * bend * mean(dy * x_hat)), *more
    return gradients


def norm_with_sum_over(axes, centre):
    """The gradients of gain and shift, not summed over all tokens."""
    def gradients(dy, x, gain, *shift, **options):
        g, x_hat, r, bend, _ = norm_parts(dy, x, gain, centre, **options)
        dx = r * (g - mean(g) * centre - x_hat * bend * mean(g * x_hat))
        return dx, *(y.sum(axis=axes) if axes is not None else y for y in [dy * x_hat] + [dy] * centre)
    return gradients


def norm_mistakes(centre):
    both = [("the terms of the mean and of the variance are missing: they depend on x too", lambda g, x_hat, r, bend: r * g),
            ("the term of the mean is missing: adding a constant to x changes nothing, so dx must sum to 0",
             lambda g, x_hat, r, bend: r * (g - x_hat * bend * mean(g * x_hat)))] if centre else []
    return [
        *[(cause, norm_of(centre, change)) for cause, change in [
            *both,
            ("the term of the variance is missing: it depends on x too" if centre else
             "the term of the mean square is missing: it depends on x too", lambda g, x_hat, r, bend: r * (g - mean(g) * centre)),
            ("sums stand where means belong", lambda g, x_hat, r, bend:
             r * (g - g.sum(-1, keepdims=True) * centre - x_hat * bend * (g * x_hat).sum(-1, keepdims=True))),
            ("the factor 1 / sigma in front is missing", lambda g, x_hat, r, bend: g - mean(g) * centre - x_hat * bend * mean(g * x_hat)),
            ("with epsilon outside of the root, the variance's term has one more factor: (sigma + epsilon) / sigma",
             lambda g, x_hat, r, bend: r * (g - mean(g) * centre - x_hat * mean(g * x_hat)))]],
        ("the gain is missing: dy must be multiplied by it first", norm_without_gain(centre)),
        ("the sum over the tokens is missing: all of them share gain and shift", norm_with_sum_over(None, centre)),
        ("gain's gradient is summed over the batch alone: every token counts", norm_with_sum_over(0, centre)),
    ]


# Attention


def attention(mistake):
    """A backward of attention, written out, with one mistake."""
    def gradients(do, q, k, v, pattern=F.EVERYWHERE, scale=None):
        groups, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5 if scale is None else scale
        k_all, v_all = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
        mask = pattern.dense(q.shape[2], k.shape[2])
        scores = q @ k_all.mT * (1 if mistake == "no scale in the forward" else scale)
        p = F.softmax(scores)[0] * mask if mistake == "mask after the softmax" else F.softmax(scores, mask=mask)[0]
        if mistake == "no mask":
            p = F.softmax(scores)[0]
        dv, dp = p.mT @ do, do @ v_all.mT
        if mistake == "dv by dp":
            dv = dp.mT @ do
        if mistake == "no softmax":
            ds = dp * mask
        elif mistake == "no sum":
            ds = p * dp
        else:
            ds = p * (dp - (p * dp).sum(axis=-2 if mistake == "wrong axis" else -1, keepdims=True))
        factor = 1 if mistake in ("no scale", "no scale in the forward") else scale * scale if mistake == "scale twice" else scale
        dq, dk = factor * ds @ k_all, factor * ds.mT @ q
        if mistake == "no scale of dk":
            dk = ds.mT @ q
        dk, dv = (x.reshape(len(x), -1, groups, *x.shape[2:]) for x in (dk, dv))
        if mistake == "no sum over the group":
            return dq, *(x.reshape(len(x), -1, *x.shape[3:]) for x in (dk, dv))
        if mistake == "first of the group":
            return dq, dk[:, :, 0], dv[:, :, 0]
        if mistake == "mean over the group":
            return dq, dk.mean(axis=2), dv.mean(axis=2)
        if mistake == "heads dealt out in turns":
            return dq, *(x.reshape(len(x), groups, -1, *x.shape[3:]).sum(axis=1) for x in (dk, dv))
        return dq, dk.sum(axis=2), dv.sum(axis=2)
    return gradients


# Others


def embedding_with_overwriting(dy, ids, weight):
    dweight = np.zeros_like(weight)
    dweight[ids] = dy
    return dweight


def rotary_turned_forward(dy, x, cosine, sine, layout="half"):
    return F.rotary(dy, cosine, sine, layout)[0]


def rotary_in_the_other_layout(dy, x, cosine, sine, layout="half"):
    return F.rotary(dy, cosine, -sine, "interleaved" if layout == "half" else "half")[0]


def bias_not_summed_over_the_batch(dy, scores, bias):
    return dy, F.add_by_distance_backward(dy[:1], (dy.shape[-2], dy.shape[-1]))[1]


def bias_of_the_opposite_distance(dy, scores, bias):
    dscores, dbias = F.add_by_distance_backward(dy, (dy.shape[-2], dy.shape[-1]))
    return dscores, dbias[:, ::-1]


def table_with_overwriting(dbias, table, T, S, max_distance=128, bidirectional=True):
    dtable = np.zeros_like(table)
    dtable[F.relative_position_buckets(np.arange(1 - S, T), len(table), max_distance, bidirectional)] = dbias.T
    return dtable


def normal_density(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def gate(x, beta=1.0):
    return F.sigmoid(beta * x)[0]


def kept(x, rate, rng):
    return F.dropout(np.ones_like(x), rate, rng)[0] > 0


MISTAKES = {
    "linear_backward": [
        ("the weight is not transposed: dx is dy @ weight.T", linear_with_weight_not_turned),
        ("dweight is transposed: it must be x.T @ dy", linear_with_dweight_turned),
        ("the sum over all tokens is missing in the bias's gradient: bias was broadcast, so its gradient is summed",
         linear_without_sum_of_bias),
        ("the bias's gradient is summed over the first axis alone: bias was broadcast over all but the last",
         linear_with_sum_of_bias_over_the_batch_alone),
        ("the bias's gradient is a mean over the tokens, but must be their sum", linear_with_mean_of_bias),
        ("the sum over the batch is missing in the weight's gradient", linear_without_sum_of_weight)],
    "softmax_backward": [
        ("the softmax's Jacobian is left out: dp is handed on as it is", softmax_left_out),
        ("the sum over all weights is missing: softmax_backward is p * (dp - sum(p * dp))", softmax_without_sum),
        ("the sum of p * dp runs over the wrong axis", softmax_over_the_other_axis),
        ("the softmax itself runs over the wrong axis", softmax_forward_over_the_other_axis),
        ("only the diagonal of the Jacobian is there, p * (1 - p): every weight depends on all scores", softmax_as_sigmoid)],
    "log_softmax_backward": [
        ("the sum of dy is missing: log_softmax_backward is dy - p * sum(dy)", log_softmax_without_sum),
        ("the sum of dy runs over the wrong axis", log_softmax_over_the_other_axis)],
    "cross_entropy_backward": [
        ("the mean over the tokens is missing: divide by how many count", loss_without_mean),
        ("the mean is taken over the batch alone, but the loss is a mean over all tokens that count", loss_with_mean_over_the_batch),
        ("ignored targets are counted in the mean", loss_with_ignored_in_the_mean),
        ("ignored targets get a gradient, which must be 0", loss_with_ignored_in_the_gradient),
        ("the truth is not taken away: the gradient is p - q, prediction minus truth", loss_without_truth),
        ("dloss does not enter: the loss's own gradient multiplies everything", loss_without_dloss),
        ("label smoothing is left out", lambda dloss, logits, targets, label_smoothing=0.0, **options:
         F.cross_entropy_backward(dloss, F.cross_entropy(logits, targets, **options)[1])),
        ("the z-loss is left out", lambda dloss, logits, targets, z_loss=0.0, **options:
         F.cross_entropy_backward(dloss, F.cross_entropy(logits, targets, **options)[1]))],
    "relu_backward": [("the mask is that of dy, but must be that of x", lambda dy, x: np.where(dy > 0, dy, 0))],
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
    "layer_norm_backward": norm_mistakes(True),
    "rms_norm_backward": [
        *norm_mistakes(False),
        ("a mean is taken away, as in LayerNorm: RMSNorm has none",
         norm_of(False, lambda g, x_hat, r, bend: r * (g - mean(g) - x_hat * bend * mean(g * x_hat))))],
    "scaled_dot_product_attention_backward": [(cause, attention(mistake)) for cause, mistake in [
        ("the factor 1 / sqrt(D) is missing in dq and dk", "no scale"),
        ("the factor 1 / sqrt(D) is missing in dk", "no scale of dk"),
        ("the factor 1 / sqrt(D) is missing in the scores too", "no scale in the forward"),
        ("the factor 1 / sqrt(D) is applied twice", "scale twice"),
        ("the softmax's Jacobian is left out: ds = p * (dp - sum(p * dp))", "no softmax"),
        ("the sum in the softmax's Jacobian is missing: ds = p * (dp - sum(p * dp))", "no sum"),
        ("the softmax's Jacobian runs over the wrong axis: its sum is over the keys", "wrong axis"),
        ("the mask is applied after the softmax: hidden scores must be -inf before it, or the weights do not sum to 1",
         "mask after the softmax"),
        ("the mask is left out", "no mask"),
        ("dv is made with dp, but must be p.T @ do", "dv by dp"),
        ("the sum over grouped heads is missing: a key-value head collects from all the query heads that it served",
         "no sum over the group"),
        ("only the first query head of each group reaches its key-value head: their gradients add up", "first of the group"),
        ("the mean over grouped heads is taken, but must be their sum", "mean over the group"),
        ("the heads of a group lie side by side (0 0 1 1), but were taken in turns (0 1 0 1)", "heads dealt out in turns")]],
    "embedding_backward": [
        ("`=` stands for `+=`: of equal ids only the last keeps its gradient, but they add up", embedding_with_overwriting)],
    "rotary_backward": [
        ("the gradient is turned forward: the inverse of a rotation turns back", rotary_turned_forward),
        ("pairs are those of the other layout", rotary_in_the_other_layout)],
    "soft_cap_backward": [
        ("the square is missing: the derivative is 1 - tanh(x / c)**2", lambda dy, x, cap: dy * (1 - np.tanh(x / cap))),
        ("x / c stands where tanh(x / c) belongs", lambda dy, x, cap: dy * (1 - (x / cap) ** 2)),
        ("y is not divided by the cap", lambda dy, x, cap: dy * (1 - (cap * np.tanh(x / cap)) ** 2))],
    "add_by_distance_backward": [
        ("the sum over the batch is missing in the bias's gradient", bias_not_summed_over_the_batch),
        ("the distance is counted the other way round: it is j - i", bias_of_the_opposite_distance)],
    "relative_position_bias_backward": [
        ("`=` stands for `+=`: a bucket serves many distances, and their gradients add up", table_with_overwriting)],
    "dropout_backward": [
        ("the factor 1 / (1 - rate) is missing", lambda dy, x, rate, rng: dy * kept(x, rate, rng)),
        ("the mask is missing: what was silenced gets no gradient", lambda dy, x, rate, rng: dy / (1 - rate))],
}
