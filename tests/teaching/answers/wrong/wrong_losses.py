"""Wrong answers: cross-entropy and its parts."""

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from answers.corpus import wrong


def one_hot(targets, V):
    return (np.arange(V) == targets[..., None]).astype(float)


@wrong("softmax_cross_entropy_backward", "not divided by the number of targets")
def sce_b_mean(dloss, logits, targets):
    return dloss * (softmax(logits, axis=-1) - one_hot(targets, logits.shape[-1]))


@wrong("softmax_cross_entropy_backward", "divided by B alone, not by B * T")
def sce_b_batch(dloss, logits, targets):
    p = softmax(logits, axis=-1)
    return dloss * (p - one_hot(targets, logits.shape[-1])) / len(logits)


@wrong("softmax_cross_entropy_backward", "the sign is wrong: one-hot minus p")
def sce_b_sign(dloss, logits, targets):
    p = softmax(logits, axis=-1)
    return dloss * (one_hot(targets, logits.shape[-1]) - p) / targets.size


@wrong("softmax_cross_entropy_backward", "dloss is ignored")
def sce_b_dloss(dloss, logits, targets):
    return (softmax(logits, axis=-1) - one_hot(targets, logits.shape[-1])) / targets.size


@wrong("softmax_cross_entropy_backward", "1 is never subtracted at the targets")
def sce_b_targets(dloss, logits, targets):
    return softmax(logits, axis=-1) * dloss / targets.size


@wrong("softmax_cross_entropy_backward", "1 is subtracted after the division by the number")
def sce_b_late(dloss, logits, targets):
    d = softmax(logits, axis=-1) * (dloss / targets.size)
    b, t = np.indices(targets.shape)
    d[b, t, targets] -= 1
    return d


@wrong("softmax_cross_entropy_backward", "logits in place of probabilities")
def sce_b_logits(dloss, logits, targets):
    d = logits.copy()
    np.put_along_axis(d, targets[..., None], np.take_along_axis(d, targets[..., None], -1) - 1, -1)
    return d * dloss / targets.size


@wrong("softmax_cross_entropy_backward", "divided by the number of logits, V times too many")
def sce_b_size(dloss, logits, targets):
    d = softmax(logits, axis=-1) - np.eye(logits.shape[-1])[targets]
    return dloss * d / logits.size


@wrong("softmax_cross_entropy_backward", "the softmax is over the wrong axis: over T")
def sce_b_axis(dloss, logits, targets):
    d = softmax(logits, axis=1) - np.eye(logits.shape[-1])[targets]
    return dloss * d / targets.size


@wrong("softmax_cross_entropy_backward", "only the targets' entries get a gradient")
def sce_b_only_targets(dloss, logits, targets):
    hot = np.eye(logits.shape[-1])[targets]
    return dloss * hot * (softmax(logits, axis=-1) - 1) / targets.size


@wrong("cross_entropy_backward", "divided by all targets, ignored ones included")
def ce_b_all(dloss, logits, targets, ignore_index=-100):
    counted = targets != ignore_index
    d = softmax(logits, axis=-1) - one_hot(targets, logits.shape[-1])
    return d * counted[..., None] * dloss / targets.size


@wrong("cross_entropy_backward", "ignored targets still push their logits: the mask is forgotten")
def ce_b_no_mask(dloss, logits, targets, ignore_index=-100):
    n = (targets != ignore_index).sum()
    return dloss * (softmax(logits, axis=-1) - one_hot(targets, logits.shape[-1])) / n


@wrong("cross_entropy_backward", "class 0 is ignored along with the ignored targets: targets > 0")
def ce_b_class_zero(dloss, logits, targets, ignore_index=-100):
    counted = targets > 0
    d = (softmax(logits, axis=-1) - one_hot(targets, logits.shape[-1])) * counted[..., None]
    return dloss * d / counted.sum()


@wrong("cross_entropy_backward", "label smoothing: 1 - s at the target, but s / V nowhere")
def ce_b_smoothing(dloss, logits, targets, label_smoothing=0.0):
    wanted = (1 - label_smoothing) * one_hot(targets, logits.shape[-1])
    return dloss * (softmax(logits, axis=-1) - wanted) / targets.size


@wrong("cross_entropy_backward", "label smoothing: s / (V - 1) on the other classes")
def ce_b_others(dloss, logits, targets, label_smoothing=0.0):
    V, hot = logits.shape[-1], one_hot(targets, logits.shape[-1])
    wanted = (1 - label_smoothing) * hot + label_smoothing / (V - 1) * (1 - hot)
    return dloss * (softmax(logits, axis=-1) - wanted) / targets.size


@wrong("cross_entropy_backward", "the factor 2 of the z-loss is forgotten")
def ce_b_z_two(dloss, logits, targets, z_loss=0.0):
    p = softmax(logits, axis=-1)
    lse = logsumexp(logits, axis=-1, keepdims=True)
    d = p - one_hot(targets, logits.shape[-1]) + z_loss * lse * p
    return dloss * d / targets.size


@wrong("cross_entropy_backward", "the z-loss is not scaled by its weight")
def ce_b_z_weight(dloss, logits, targets, z_loss=0.0):
    p = softmax(logits, axis=-1)
    d = p - one_hot(targets, logits.shape[-1])
    if z_loss:
        d += 2 * logsumexp(logits, axis=-1, keepdims=True) * p
    return dloss * d / targets.size


@wrong("cross_entropy_backward", "divided by T, the length of a row")
def ce_b_length(dloss, logits, targets):
    d = softmax(logits, axis=-1) - one_hot(targets, logits.shape[-1])
    return dloss * d / targets.shape[1]


@wrong("cross_entropy_backward", "two mistakes: the sign is wrong, and the mean is forgotten")
def ce_b_two(dloss, logits, targets):
    return dloss * (one_hot(targets, logits.shape[-1]) - softmax(logits, axis=-1))


@wrong("uniform_cross_entropy_backward", "1 for 1 / V is subtracted")
def uniform_b_one(dloss, logits):
    return dloss * (softmax(logits, axis=-1) - 1) / logits[..., 0].size


@wrong("uniform_cross_entropy_backward", "divided by the number of logits, not of rows")
def uniform_b_size(dloss, logits):
    return dloss * (softmax(logits, axis=-1) - 1 / logits.shape[-1]) / logits.size


@wrong("uniform_cross_entropy_backward", "the sign is wrong")
def uniform_b_sign(dloss, logits):
    return dloss * (1 / logits.shape[-1] - softmax(logits, axis=-1)) / logits[..., 0].size


@wrong("uniform_cross_entropy_backward", "1 / T for 1 / V: the wrong axis' size")
def uniform_b_axis(dloss, logits):
    return dloss * (softmax(logits, axis=-1) - 1 / logits.shape[1]) / logits[..., 0].size


@wrong("z_loss_backward", "the factor 2 of the square is forgotten")
def z_b_two(dloss, logits):
    lse = logsumexp(logits, axis=1, keepdims=True)
    return dloss * lse * softmax(logits, axis=1) / len(logits)


@wrong("z_loss_backward", "the factor lse of the chain rule is missing")
def z_b_lse(dloss, logits):
    return 2 * dloss * softmax(logits, axis=1) / len(logits)


@wrong("z_loss_backward", "not divided by the number of rows")
def z_b_mean(dloss, logits):
    return 2 * dloss * logsumexp(logits, axis=1, keepdims=True) * softmax(logits, axis=1)


@wrong("z_loss_backward", "the derivative of log-sum-exp is taken to be 1, not the softmax")
def z_b_softmax(dloss, logits):
    lse = logsumexp(logits, axis=1, keepdims=True)
    return np.broadcast_to(2 * dloss * lse / len(logits), logits.shape).copy()


@wrong("router_z_loss_backward", "divided by N * E, the number of logits")
def router_z_b_size(dloss, logits):
    return 2 * dloss * logsumexp(logits, axis=1)[:, None] * softmax(logits, 1) / logits.size


@wrong("router_z_loss_backward", "the log-sum-exp over the whole batch, not over each token")
def router_z_b_whole(dloss, logits):
    return 2 * dloss * logsumexp(logits) * softmax(logits, axis=1) / len(logits)


@wrong("softmax_cross_entropy", "the sum, not the mean")
def sce_sum(logits, targets):
    return -np.take_along_axis(log_softmax(logits, axis=-1), targets[..., None], -1).sum()


@wrong("softmax_cross_entropy", "the sign is forgotten: the log-likelihood")
def sce_sign(logits, targets):
    return np.take_along_axis(log_softmax(logits, axis=-1), targets[..., None], -1).mean()


@wrong("cross_entropy", "log base 2: bits, not nats")
def ce_bits(logits, targets):
    p = np.take_along_axis(softmax(logits, axis=-1), targets[..., None], -1)
    return -np.log2(p).mean()


@wrong("cross_entropy", "the mean is over all targets, ignored ones included")
def ce_all(logits, targets, ignore_index=-100):
    counted = targets != ignore_index
    picked = np.take_along_axis(log_softmax(logits, -1), (targets * counted)[..., None], -1)
    return -(picked[..., 0] * counted).mean()


@wrong("cross_entropy", "smoothed with s / V added, but the target keeps its whole weight 1")
def ce_smoothed(logits, targets, label_smoothing=0.0):
    wanted = np.eye(logits.shape[-1])[targets] + label_smoothing / logits.shape[-1]
    return -(wanted * log_softmax(logits, -1)).sum(-1).mean()


@wrong("cross_entropy", "the probability is not logarithmised: 1 - p")
def ce_probability(logits, targets):
    return 1 - np.take_along_axis(softmax(logits, -1), targets[..., None], -1).mean()


@wrong("uniform_cross_entropy", "the sum over the classes, not their mean")
def uniform_sum(logits):
    return -log_softmax(logits, -1).sum(-1).mean()


@wrong("z_loss", "the square of the mean, not the mean of the squares")
def z_square(logits):
    return logsumexp(logits, axis=1).mean() ** 2


@wrong("router_z_loss", "not squared")
def router_z_square(logits):
    return logsumexp(logits, axis=1).mean()
