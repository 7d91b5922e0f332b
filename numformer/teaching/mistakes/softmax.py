"""Mistakes in the softmax and in the loss."""

import numpy as np

from numformer import functional as F


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


def log_softmax_without_sum(dy, x, axis=-1):
    return dy - np.exp(F.log_softmax(x, axis)[0])


def log_softmax_over_the_other_axis(dy, x, axis=-1):
    return dy - np.exp(F.log_softmax(x, axis)[0]) * dy.sum(axis=-2 if axis == -1 else -1,
                                                           keepdims=True)


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


MISTAKES = {
    "softmax_backward": [
        ("the Jacobian of the softmax is missing: dp is returned unchanged", softmax_left_out),
        ("the sum over all weights is missing: softmax_backward is p * (dp - sum(p * dp))",
         softmax_without_sum),
        ("the sum of p * dp is over the wrong axis", softmax_over_the_other_axis),
        ("the softmax itself is over the wrong axis", softmax_forward_over_the_other_axis),
        ("only the diagonal of the Jacobian is used, p * (1 - p): every weight depends on all "
         "scores", softmax_as_sigmoid),
        ("the mean of p * dp is used instead of the sum", softmax_with_the_mean),
        ("the sum is over dp, but must be weighted: sum(p * dp)", softmax_with_an_unweighted_sum)],
    "log_softmax_backward": [
        ("the sum of dy is missing: log_softmax_backward is dy - p * sum(dy)",
         log_softmax_without_sum),
        ("the sum of dy is over the wrong axis", log_softmax_over_the_other_axis)],
    "cross_entropy_backward": [
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
}
