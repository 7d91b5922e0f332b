"""The cross-entropy in all its forms."""

import numpy as np

from numformer import functional as F
from numformer.specifications.edges import SUBTRACT
from numformer.specifications.levels import Level, also, sizes
from numformer.specifications.linear import INT8
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- softmax_cross_entropy -----------------------------------------------------------------------

def softmax_cross_entropy(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    one_hot = np.eye(logits.shape[-1])[targets]
    return -(one_hot * np.log(p)).sum() / targets.size


def softmax_cross_entropy_in_classes(logits, targets):
    m = np.full(targets.shape, -np.inf)                           # the largest logit so far
    total = np.zeros(targets.shape)                               # the sum of exp(z - m)
    for v in range(logits.shape[-1]):
        z = logits[..., v]
        m_new = np.maximum(m, z)
        total = np.exp(m - m_new) * total + np.exp(z - m_new)
        m = m_new
    of_targets = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (m + np.log(total) - of_targets).mean()


def softmax_cross_entropy_backward(dloss, logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    one_hot = np.eye(logits.shape[-1])[targets]
    return dloss * ((p - one_hot) / targets.size)


def classified(ignored=False, least=1, **options):
    """Logits of `least` classes or more, and targets, of which one may be ignored, but not all."""
    def make(rng):
        B, T, V = sizes(rng, 3)
        V = max(V, least)
        targets = rng.integers(0, V, (B, T))
        targets[0, 0] = F.IGNORE_INDEX if ignored and B * T > 1 else targets[0, 0]
        return {"logits": 2 * rng.standard_normal((B, T, V)), "targets": targets}, options
    return make


def many_targets(rng):
    """Positions times classes are more than an int8 can count."""
    return {"logits": rng.standard_normal((6, 7, 5)),
            "targets": rng.integers(0, 5, (6, 7)).astype(np.int8)}, {}


def far_logits(rng):
    """Targets that are nearly impossible: the logarithm of their probability is about -1000."""
    arguments, options = classified()(rng)
    logits = arguments["logits"]
    far = rng.permutation(logits.shape[-1]) % 2      # classes that are far above the others
    return {**arguments, "logits": logits + 1000 * far}, options


LOGARITHM = ("The probability of a target is about exp(-1000) here, which is 0 in float64, but its "
             "logarithm is not -Inf: compute log-softmax directly.")


def far_logits_show(found, reference):
    """What NaN or Inf shows where some logits are above 1000."""
    if np.isnan(found):
        return ("Some logits are above 1000 here: exp overflows to Inf above 709, and Inf / Inf "
                f"and Inf - Inf are NaN. So {SUBTRACT}, and compute log-softmax directly.")
    if np.isinf(found):
        return (f"{LOGARITHM} Or exp overflowed: some logits are above 1000, and exp is Inf above "
                f"709; {SUBTRACT}.")
    return ""


TARGETS = np.array([[3, 1, -100], [0, 5, 1]])


def online_loss(mistake):
    """The loss by a loop over classes, with a running maximum m and sum l, and one mistake."""
    def loss(logits, targets):
        V = logits.shape[-1]
        m, l = np.full(logits.shape[:-1], -np.inf), np.zeros(logits.shape[:-1])      # noqa: E741
        if mistake in ("inverted", "old maximum"):            # these begin with the first class
            m, l = logits[..., 0], np.ones(logits.shape[:-1])                        # noqa: E741
        start = 1 if mistake in ("inverted", "old maximum", "first class left out") else 0
        for v in range(start, V - (mistake == "last class left out")):
            z = logits[..., v]
            m_new = np.maximum(m, z)
            factor = {"no rescaling": 1.0, "inverted": np.exp(m_new - m)}.get(
                mistake, np.exp(m - m_new))
            l = factor * l + np.exp(z - (m if mistake == "old maximum" else m_new))  # noqa: E741
            m = m_new
        lse = {"no m": np.log(l), "no logarithm": m + l}.get(mistake, m + np.log(l))
        of_targets = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        return (lse - of_targets).mean()
    return loss


def all_targets_of_all(logits, targets):
    lse = logits - F.log_softmax(logits)[0]
    return lse.mean() - logits[..., targets].mean()


def loss_shows(found, reference):
    """What NaN or Inf shows in a loss of plain logits."""
    if np.isnan(found):
        return ("NaN comes of 0 / 0, Inf - Inf or 0 * Inf. In a running sum, exp(m_new - m) is Inf "
                "while m is -Inf: the factor of the old sum is exp(m - m_new).")
    if np.isinf(found):
        return ("Inf comes of log 0, 1 / 0 or exp(Inf). In a running sum, exp(z - m) with the old "
                "m is Inf while m is -Inf: the new term is exp(z - m_new).")
    return ""


specify(
    F.softmax_cross_entropy, ("logits",),
    {"plain": Level(classified(), shows=loss_shows),
     "unlikely targets": Level(far_logits, LOGARITHM, far_logits_show),
     "targets of int8": Level(many_targets, INT8)},
    last_axes={"logits": 1, "targets": 0},
    forward_mistakes=[
        *((cause, online_loss(mistake)) for cause, mistake in [
            ("where a class raises the maximum, the sum so far must be multiplied by exp(m - "
             "m_new): it is not", "no rescaling"),
            ("the sum so far is multiplied by exp(m_new - m), but must be by exp(m - m_new): the "
             "old terms get smaller", "inverted"),
            ("the new term is exp(z - m) with the old maximum, but must be exp(z - m_new)",
             "old maximum"),
            ("the first class is left out of the sum", "first class left out"),
            ("the last class is left out of the sum", "last class left out"),
            ("the maximum is not added back: log sum exp z = m + log sum exp(z - m)", "no m"),
            ("the logarithm is missing: the log-sum-exp is m + log l", "no logarithm")]),
        ("logits[..., targets] takes the logits of all targets at every position: "
         "np.take_along_axis(logits, targets[..., None], axis=-1) takes one at each",
         all_targets_of_all)],
    hints=(
        "-log p_y = log sum_v exp(z_v) - z_y: of all classes only the log-sum-exp is needed. A "
        "loop over them keeps the largest logit m so far, and l, the sum of exp(z - m).",
        "A class may raise m. Then the sum so far must be multiplied by exp(m - m_new), and the "
        "new term is exp(z - m_new). Begin with m = -Inf and l = 0.",
        "For each class: l = exp(m - m_new) * l + exp(z - m_new). At the end the log-sum-exp is m "
        "+ log(l); np.take_along_axis(logits, targets[..., None], axis=-1) takes the z_y."),
    backward_hints=(
        "Write -log p_y = log sum_k exp(z_k) - z_y. The derivative of the first term is the "
        "softmax, of the second a one at the target.",
        "dlogits is prediction minus target: p, with 1 subtracted at each target, of shape (..., "
        "V). The mean adds the factor 1 / n, n being targets.size.",
        "(p - onehot) * dloss / targets.size, where p = np.exp(log_p) and onehot can be "
        "np.eye(V)[targets]."))


# ---- uniform_cross_entropy -----------------------------------------------------------------------

def uniform_cross_entropy(logits):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return -np.log(p).mean()


def uniform_cross_entropy_backward(dloss, logits):
    V = logits.shape[-1]
    n = logits.size // logits.shape[-1]
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return dloss * (p - 1 / V) / n


def uniform_cross_entropy_backward_in_rows(dloss, logits):
    V = logits.shape[-1]
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return (p - 1 / V) * dloss / (logits.size // V)


def scored(rng):
    B, T, V = sizes(rng, 3)
    return {"logits": 2 * rng.standard_normal((B, T, V))}, {}


specify(
    F.uniform_cross_entropy, ("logits",),
    {"plain": scored},
    last_axes={"logits": 1},
    hints=(
        "The cross-entropy with a target that is uniform: all V classes count with 1 / V.",
        "log_p is the log-softmax over the last axis (maximum subtracted first). Average -log_p "
        "over classes and over positions.",
        "As every position has V classes, both means are one: minus the mean of all entries of "
        "log_p."),
    backward_hints=(
        "As for a one-hot target, the gradient of the logits is prediction minus target; only the "
        "target is another one.",
        "The target is 1 / V for every class. The mean over the n positions gives 1 / n: n counts "
        "vectors, not numbers.",
        "dlogits = (p - 1 / V) * dloss / n, with p the softmax and n = logits.size // V."))


# ---- z_loss --------------------------------------------------------------------------------------

def z_loss(logits):
    lse = np.log(np.exp(logits).sum(axis=-1))
    return (lse ** 2).mean()


def z_loss_backward(dloss, logits):
    e = np.exp(logits)
    p = e / e.sum(axis=-1, keepdims=True)
    lse = np.log(e.sum(axis=-1, keepdims=True))
    return dloss * 2 * lse * p / len(logits)


def z_loss_backward_in_rows(dloss, logits):
    m = logits.max(axis=-1, keepdims=True)
    e = np.exp(logits - m)
    total = e.sum(axis=-1, keepdims=True)
    lse = m + np.log(total)
    return dloss * 2 * lse * (e / total) / len(logits)


def scored_rows(rng):
    N, V = sizes(rng, 2)
    return {"logits": 2 * rng.standard_normal((N, V))}, {}


specify(
    F.z_loss, ("logits",),
    {"plain": scored_rows},
    names={"len(lse)": "N", "lse": "log(sum(exp(logits)))"},
    hints=(
        "Square the log-sum-exp of each row of logits, and average over rows.",
        "log sum exp z = top + log sum exp(z - top), with top the maximum of the row: without it, "
        "exp overflows. Sum over axis 1, keepdims=True.",
        "With lse of shape (N, 1): the loss is (lse * lse).mean()."),
    backward_hints=(
        "Chain rule: the mean of squares, then the log-sum-exp. The derivative of the log-sum-exp "
        "with respect to z_nv is the softmax p_nv.",
        "dlse = 2 lse dloss / N, one for each row. The same row's dlse goes to all V logits, "
        "weighted by p.",
        "dlogits is p * dlse, p = exp(logits - top) / total and dlse of shape (N, 1)."))


# ---- cross_entropy -------------------------------------------------------------------------------

def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    counts = targets != ignore_index
    n = counts.sum()
    lse = np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    one_hot = np.eye(V)[np.where(counts, targets, 0)]
    q = (1 - label_smoothing) * one_hot + label_smoothing / V
    losses = -(q * (logits - lse)).sum(axis=-1) + z_loss * lse[..., 0] ** 2
    return (losses * counts).sum() / n


def cross_entropy_backward(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0,
                           z_loss=0.0):
    V = logits.shape[-1]
    counts = targets != ignore_index
    n = counts.sum()
    lse = np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    p = np.exp(logits - lse)
    one_hot = np.eye(V)[np.where(counts, targets, 0)]
    q = (1 - label_smoothing) * one_hot + label_smoothing / V
    dlogits = p - q + 2 * z_loss * lse * p
    return dloss * dlogits * counts[..., None] / n


def classified_otherwise(rng):
    """Class 0 is ignored."""
    arguments, _ = classified(least=2)(rng)
    arguments["targets"][0, 0], arguments["targets"][-1, -1] = 0, 1
    return arguments, {"ignore_index": 0}


def loss_with_smoothed_z_loss(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    return F.cross_entropy(logits, targets, ignore_index, label_smoothing,
                           z_loss * (1 - label_smoothing))[0]


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


def loss_with_ignored_everywhere(of_ignored):
    """Ignored targets have a gradient, and count in the mean; their one-hot vector may be 0."""
    def gradients(dloss, logits, targets, **options):
        difference, counts, p = loss_parts(logits, targets, **options)
        return dloss * np.where(counts, difference, p if of_ignored == "p" else difference
                                ) / targets.size
    return gradients


def loss_with_all_in_the_mean(logits, targets, ignore_index=-100, **options):
    loss, _ = F.cross_entropy(logits, targets, ignore_index, **options)
    return loss * np.mean(targets != ignore_index)


def loss_without_targets(dloss, logits, targets, **options):
    _, counts, p = loss_parts(logits, targets)
    return dloss * p * counts / counts.sum()


def loss_without_dloss(dloss, logits, targets, **options):
    return F.cross_entropy_backward(1.0, F.cross_entropy(logits, targets, **options)[1])


def loss_with_all_in_the_uniform_term(logits, targets, label_smoothing=0.0, **options):
    loss, _ = F.cross_entropy(logits, targets, **options)
    return (1 - label_smoothing) * loss + label_smoothing * F.uniform_cross_entropy(logits)[0]


def loss_with_ignored_in_the_gradient_of_z(dloss, logits, targets, ignore_index=-100, z_loss=0.0,
                                           **options):
    dlogits = F.cross_entropy_backward(dloss, F.cross_entropy(
        logits, targets, ignore_index, z_loss=z_loss, **options)[1])
    counts = targets != ignore_index
    log_p = F.log_softmax(logits)[0]
    of_z = 2 * z_loss * (logits - log_p) * np.exp(log_p)
    return np.where(counts[..., None], dlogits, dloss * of_z / counts.sum())


def loss_with_ignored_in_the_uniform_target(dloss, logits, targets, label_smoothing=0.0,
                                            ignore_index=-100, **options):
    dlogits = F.cross_entropy_backward(dloss, F.cross_entropy(
        logits, targets, ignore_index, label_smoothing, **options)[1])
    counts = targets != ignore_index
    return np.where(counts[..., None], dlogits,
                    -dloss * label_smoothing / logits.shape[-1] / counts.sum())


def loss_with_targets_in_the_gradient_of_z(dloss, logits, targets, ignore_index=-100, z_loss=0.0,
                                           **options):
    right = F.cross_entropy_backward(dloss, F.cross_entropy(
        logits, targets, ignore_index, z_loss=z_loss, **options)[1])
    counts = targets != ignore_index
    one_hot = np.eye(logits.shape[-1])[np.where(counts, targets, 0)]
    lse = (logits - F.log_softmax(logits)[0])[..., :1]
    return right - np.where(counts[..., None], dloss * 2 * z_loss * lse * one_hot, 0) / counts.sum()


def loss_with_ignored_in_the_count_of_z(logits, targets, ignore_index=-100, z_loss=0.0, **options):
    without = F.cross_entropy(logits, targets, ignore_index, **options)[0]
    of_z = F.cross_entropy(logits, targets, ignore_index, z_loss=z_loss, **options)[0] - without
    return without + of_z * np.mean(targets != ignore_index)


def loss_with_all_in_the_z_loss(logits, targets, z_loss=0.0, **options):
    return F.cross_entropy(logits, targets, **options)[0] + z_loss * F.z_loss(
        logits.reshape(-1, logits.shape[-1]))[0]


def loss_with_ignored_in_the_uniform_gradient(dloss, logits, targets, label_smoothing=0.0,
                                              ignore_index=-100, **options):
    dlogits = F.cross_entropy_backward(dloss, F.cross_entropy(
        logits, targets, ignore_index, label_smoothing, **options)[1])
    counts = targets != ignore_index
    uniform = label_smoothing * (F.softmax(logits)[0] - 1 / logits.shape[-1])
    return np.where(counts[..., None], dlogits, dloss * uniform / counts.sum())


specify(
    F.cross_entropy, ("logits",),
    {"plain": classified(), "an ignored target": Level(
         classified(ignored=True), needs=("ignore_index",)),
     "label_smoothing=0.2": classified(label_smoothing=0.2),
     "z_loss=0.1": classified(z_loss=0.1), "ignore_index=0": classified_otherwise,
     "unlikely targets": Level(far_logits, LOGARITHM, far_logits_show),
     "targets of int8": Level(many_targets, INT8)},
    cases=[
        Pair("cross-entropy", [(2, 3, 6)], after=(TARGETS,)),
        Pair("cross-entropy, all options", [(2, 3, 6)],
             after=(TARGETS,),
             options=dict(label_smoothing=0.2, z_loss=0.3))],
    mistakes=[
        ("the mean over the tokens is missing: divide by the number of targets that are not "
         "ignored", loss_without_mean),
        ("the mean is over the batch only, but the loss is a mean over all targets that are not "
         "ignored", loss_with_mean_over_the_batch),
        ("ignored targets are counted in the mean", loss_with_ignored_in_the_mean),
        ("ignored targets get a gradient, which must be 0", loss_with_ignored_in_the_gradient),
        *(("ignored targets get a gradient, which must be 0, and are counted in the mean, which "
           "must be over the others", loss_with_ignored_everywhere(of_ignored))
          for of_ignored in ("p", "p - q")),
        ("the target distribution is not subtracted: the gradient is p - q, prediction minus "
         "target", loss_without_targets),
        ("dloss is not used: the gradient must be multiplied by it", loss_without_dloss),
        ("label smoothing is missing",
         lambda dloss, logits, targets, label_smoothing=0.0, **options:
         F.cross_entropy_backward(dloss, F.cross_entropy(logits, targets, **options)[1])),
        ("with label smoothing, ignored targets still get the gradient of the uniform term",
         loss_with_ignored_in_the_uniform_gradient),
        ("with label smoothing, ignored targets still get the gradient -label_smoothing / V",
         loss_with_ignored_in_the_uniform_target),
        ("ignored targets still get the gradient of the z-loss",
         loss_with_ignored_in_the_gradient_of_z),
        ("the gradient of the z-loss is 2 z_loss lse p: the target is not subtracted in it",
         loss_with_targets_in_the_gradient_of_z),
        ("the z-loss is missing", lambda dloss, logits, targets, z_loss=0.0, **options:
         F.cross_entropy_backward(dloss, F.cross_entropy(logits, targets, **options)[1]))],
    forward_mistakes=[
        ("ignored targets are counted in the mean: divide by the number of the others",
         loss_with_all_in_the_mean),
        ("the uniform term of label smoothing is a mean over ignored targets, too",
         loss_with_all_in_the_uniform_term),
        ("the z-loss is a mean over ignored targets, too", loss_with_all_in_the_z_loss),
        ("the z-loss is multiplied by 1 - label_smoothing, but is added after the smoothing",
         loss_with_smoothed_z_loss),
        ("the z-loss is divided by the number of all targets, ignored ones counted",
         loss_with_ignored_in_the_count_of_z)],
    last_axes={"logits": 1, "targets": 0},
    names={"smoothing": "label_smoothing", "zeta": "z_loss", "counted": "logits",
           "dcounted": "dlogits", "counts": "(targets != ignore_index)"},
    hints=(
        "log softmax(z)_j = z_j - log sum_k exp(z_k). If you subtract the maximum of each row "
        "first, nothing changes and nothing overflows.",
        "np.take_along_axis chooses one log_p per position; -100{ignore_index|, or ignore_index,} "
        "is no valid index, so drop those positions first. The mean is over the others.",
        "The loss is minus the mean of the chosen log_p.{label_smoothing| With label_smoothing it "
        "is mixed with the mean of -log_p over all classes.}{z_loss| z_loss adds its mean lse^2.}"),
    backward_hints=(
        "For one position, the gradient of -log softmax(z) at the target with respect to the "
        "logits is p - onehot. Which factors do the mean and dloss add?",
        "The mean divides by n, the number of targets that count. Ignored positions get 0, and "
        "their target must not be used as an index.",
        "At counted positions: (p - q) * dloss / n, q the one-hot target.{label_smoothing| With "
        "label_smoothing, q is (1 - label_smoothing) onehot + label_smoothing / V.}{z_loss| z_loss "
        "adds 2 * z_loss * lse * p to p - q.}"))


# ---- linear_cross_entropy ------------------------------------------------------------------------

def classified_by_table(ignored=False, least=1):
    """x (B, T, C), a weight (V, C) and targets, some of which may be -100; V is at least this."""
    def make(rng):
        B, T, C, V = sizes(rng, 4)
        V = max(V, least)
        targets = rng.integers(0, V, (B, T))
        if ignored and B * T > 1:
            targets[0, 0] = F.IGNORE_INDEX
        return {"x": rng.standard_normal((B, T, C)), "weight": rng.standard_normal((V, C)),
                "targets": targets}, {}
    return make


def classified_by_table_otherwise(rng):
    """Class 0 is ignored."""
    arguments, _ = classified_by_table(least=2)(rng)
    arguments["targets"][0, 0], arguments["targets"][-1, -1] = 0, 1
    return arguments, {"ignore_index": 0}


def repeated_targets_lost(dloss, x, weight, targets, **options):
    """A row of the weight gets -x of the last vector with that target alone."""
    dx, dweight = F.linear_cross_entropy_backward(
        dloss, F.linear_cross_entropy(x, weight, targets, **options)[1])
    counts = targets != options.get("ignore_index", F.IGNORE_INDEX)
    vectors, rows = x[counts], targets[counts]
    share = dloss / counts.sum() * (1 - options.get("label_smoothing", 0.0))
    np.add.at(dweight, rows, share * vectors)
    dweight[rows] -= share * vectors
    return dx, dweight


specify(
    F.linear_cross_entropy, ("x", "weight"),
    {"plain": classified_by_table(), "ignored targets": Level(
         classified_by_table(ignored=True), needs=("ignore_index",)),
     "label_smoothing=0.2": also(classified_by_table(), label_smoothing=0.2),
     "z_loss=0.1": also(classified_by_table(), z_loss=0.1),
     "ignore_index=0": classified_by_table_otherwise},
    cases=[
        Pair("linear cross-entropy", [(2, 3, 4), (6, 4)], after=(TARGETS,)),
        Pair("linear cross-entropy, all options", [(2, 3, 4), (6, 4)], after=(TARGETS,),
             options=dict(label_smoothing=0.2, z_loss=0.3))],
    mistakes=[("where a class is the target of several vectors, only the last is subtracted from "
               "its row of dweight: np.add.at sums them, `dweight[targets] -= x` does not",
               repeated_targets_lost)],
    last_axes={"x": 1, "targets": 0},
    hints=(
        "Two steps: logits of every vector with the table of classes, then their cross-entropy.",
        "weight is (V, C), one row for each class, as an embedding has it: the logits are x times "
        "its transpose, (..., V).",
        "logits = x @ weight.T; then cross_entropy(logits, targets) with the same options."),
    backward_hints=(
        "Two steps back: the cross-entropy gives dlogits, prediction minus target over n; the "
        "product gives dx and dweight.",
        "dx (..., C) is dlogits (..., V) with weight (V, C), not transposed. dweight (V, C) sums "
        "over all vectors: dlogits first.",
        "With vectors of shape (N, C) and dlogits (N, V): dweight = dlogits.T @ vectors, dx = "
        "dlogits @ weight. Ignored targets have dlogits 0."))
