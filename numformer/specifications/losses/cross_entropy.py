"""The cross-entropy in all its forms."""

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import Level, also, sizes
from numformer.specifications.linear import INT8
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- softmax_cross_entropy -----------------------------------------------------------------------

def softmax_cross_entropy(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    one_hot = np.eye(logits.shape[-1])[targets]
    return -(one_hot * np.log(p)).sum() / targets.size


def softmax_cross_entropy_backward(dloss, logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    one_hot = np.eye(logits.shape[-1])[targets]
    return dloss * ((p - one_hot) / targets.size)


def classified(ignored=False, **options):
    def make(rng):
        B, T, V = sizes(rng, 3)
        targets = rng.integers(0, V, (B, T))
        targets[0, 0] = F.IGNORE_INDEX if ignored else targets[0, 0]
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


TARGETS = np.array([[3, 1, -100], [0, 5, 1]])


specify(
    F.softmax_cross_entropy, ("logits",),
    {"plain": classified(), "unlikely targets": Level(far_logits, LOGARITHM),
     "targets of int8": Level(many_targets, INT8)},
    last_axes={"logits": 1, "targets": 0})


# ---- uniform_cross_entropy -----------------------------------------------------------------------

def uniform_cross_entropy(logits):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return -np.log(p).mean()


def uniform_cross_entropy_backward(dloss, logits):
    V = logits.shape[-1]
    n = logits.size // logits.shape[-1]
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return dloss * (p - 1 / V) / n


def scored(rng):
    B, T, V = sizes(rng, 3)
    return {"logits": 2 * rng.standard_normal((B, T, V))}, {}


specify(
    F.uniform_cross_entropy, ("logits",),
    {"plain": scored},
    last_axes={"logits": 1})


# ---- z_loss --------------------------------------------------------------------------------------

def z_loss(logits):
    lse = np.log(np.exp(logits).sum(axis=-1))
    return (lse ** 2).mean()


def z_loss_backward(dloss, logits):
    e = np.exp(logits)
    p = e / e.sum(axis=-1, keepdims=True)
    lse = np.log(e.sum(axis=-1, keepdims=True))
    return dloss * 2 * lse * p / len(logits)


def scored_rows(rng):
    N, V = sizes(rng, 2)
    return {"logits": 2 * rng.standard_normal((N, V))}, {}


specify(
    F.z_loss, ("logits",),
    {"plain": scored_rows})


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
    arguments, _ = classified()(rng)
    arguments["targets"][0, 0], arguments["targets"][-1, -1] = 0, 1
    return arguments, {"ignore_index": 0}


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


def loss_without_targets(dloss, logits, targets, **options):
    _, counts, p = loss_parts(logits, targets)
    return dloss * p * counts / counts.sum()


def loss_without_dloss(dloss, logits, targets, **options):
    return F.cross_entropy_backward(1.0, F.cross_entropy(logits, targets, **options)[1])


specify(
    F.cross_entropy, ("logits",),
    {"plain": classified(), "an ignored target": Level(
         classified(ignored=True), needs=("ignore_index",)),
     "label_smoothing=0.2": classified(label_smoothing=0.2),
     "z_loss=0.1": classified(z_loss=0.1), "ignore_index=0": classified_otherwise,
     "unlikely targets": Level(far_logits, LOGARITHM),
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
        ("the target distribution is not subtracted: the gradient is p - q, prediction minus "
         "target", loss_without_targets),
        ("dloss is not used: the gradient must be multiplied by it", loss_without_dloss),
        ("label smoothing is missing",
         lambda dloss, logits, targets, label_smoothing=0.0, **options:
         F.cross_entropy_backward(dloss, F.cross_entropy(logits, targets, **options)[1])),
        ("the z-loss is missing", lambda dloss, logits, targets, z_loss=0.0, **options:
         F.cross_entropy_backward(dloss, F.cross_entropy(logits, targets, **options)[1]))],
    last_axes={"logits": 1, "targets": 0})


# ---- linear_cross_entropy ------------------------------------------------------------------------

def classified_by_table(ignored=False):
    """x (B, T, C), a weight (V, C) and targets, some of which may be -100."""
    def make(rng):
        B, T, C, V = sizes(rng, 4)
        targets = rng.integers(0, V, (B, T))
        if ignored:
            targets[0, 0] = F.IGNORE_INDEX
        return {"x": rng.standard_normal((B, T, C)), "weight": rng.standard_normal((V, C)),
                "targets": targets}, {}
    return make


def classified_by_table_otherwise(rng):
    """Class 0 is ignored."""
    arguments, _ = classified_by_table()(rng)
    arguments["targets"][0, 0], arguments["targets"][-1, -1] = 0, 1
    return arguments, {"ignore_index": 0}


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
    last_axes={"x": 1, "targets": 0})
