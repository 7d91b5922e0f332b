"""Mistakes in attention and in positions."""

import numpy as np

from numformer import functional as F


def attention(mistake):
    """A backward of attention, written out, with one mistake."""
    def gradients(do, q, k, v, pattern=F.EVERYWHERE, scale=None):
        groups, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5 if scale is None else scale
        k_all, v_all = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
        mask = pattern.dense(q.shape[2], k.shape[2])
        scores = q @ k_all.mT * (1 if mistake == "no scale in the forward" else scale)
        p = F.softmax(scores, mask=mask)[0]
        if mistake == "mask after the softmax":
            p = F.softmax(scores)[0] * mask
        if mistake == "no mask":
            p = F.softmax(scores)[0]
        dv, dp = p.mT @ do, do @ v_all.mT
        if mistake == "dv from dp":
            dv = dp.mT @ do
        if mistake == "no softmax":
            ds = dp * mask
        elif mistake == "no sum":
            ds = p * dp
        else:
            ds = p * (dp - (p * dp).sum(axis=-2 if mistake == "wrong axis" else -1, keepdims=True))
        factor = {"no scale": 1, "no scale in the forward": 1, "scale twice": scale * scale}.get(
            mistake, scale)
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
        if mistake == "interleaved heads":
            return dq, *(x.reshape(len(x), groups, -1, *x.shape[3:]).sum(axis=1) for x in (dk, dv))
        return dq, dk.sum(axis=2), dv.sum(axis=2)
    return gradients


def attention_with_mask(mistake):
    """The same for `attention`, whose mask is an array."""
    def gradients(do, q, k, v, mask=None):
        return attention(mistake)(do, q, k, v, F.AttentionPattern(mask=mask))
    return gradients


def rotary_rotated_forward(dy, x, cosine, sine, layout="half"):
    return F.rotary(dy, cosine, sine, layout)[0]


def rotary_with_one_wrong_sign(dy, x, cosine, sine, layout="half"):
    dx = F.rotary(dy, cosine, -sine, layout)[0]
    b = slice(x.shape[-1] // 2, None) if layout == "half" else slice(1, None, 2)
    dx[..., b] = F.rotary(dy, cosine, sine, layout)[0][..., b]
    return dx


def rotary_in_the_other_layout(dy, x, cosine, sine, layout="half"):
    return F.rotary(dy, cosine, -sine, "interleaved" if layout == "half" else "half")[0]


def partial_rotary_without_the_rest(dy, x, cosine, sine, layout="half"):
    R = 2 * cosine.shape[-1]
    rotated = F.rotary(dy[..., :R], cosine, -sine, layout)[0]
    return np.concatenate([rotated, np.zeros_like(dy[..., R:])], axis=-1)


def partial_rotary_rotated_forward(dy, x, cosine, sine, layout="half"):
    return F.partial_rotary(dy, cosine, sine, layout)[0]


def bias_not_summed_over_the_batch(dy, scores, bias):
    return dy, F.add_by_distance_backward(dy[:1], (dy.shape[-2], dy.shape[-1]))[1]


def bias_of_the_opposite_distance(dy, scores, bias):
    dscores, dbias = F.add_by_distance_backward(dy, (dy.shape[-2], dy.shape[-1]))
    return dscores, dbias[:, ::-1]


def table_with_overwriting(dbias, table, T, S, max_distance=128, bidirectional=True):
    dtable = np.zeros_like(table)
    dtable[F.relative_position_buckets(np.arange(1 - S, T), len(table), max_distance,
                                       bidirectional)] = dbias.T
    return dtable


IN_ATTENTION = [
    ("the factor 1 / sqrt(D) is missing in dq and dk", "no scale"),
    ("the factor 1 / sqrt(D) is missing in dk", "no scale of dk"),
    ("the factor 1 / sqrt(D) is missing in the scores too", "no scale in the forward"),
    ("the factor 1 / sqrt(D) is applied twice", "scale twice"),
    ("the Jacobian of the softmax is missing: ds = p * (dp - sum(p * dp))", "no softmax"),
    ("the Jacobian of the softmax lacks its sum: ds = p * (dp - sum(p * dp))",
     "no sum"),
    ("the Jacobian of the softmax uses the wrong axis: its sum is over the keys", "wrong axis"),
    ("the mask is applied after the softmax: masked scores must be -inf before it, or the "
     "weights do not sum to 1",
     "mask after the softmax"),
    ("the mask is missing", "no mask"),
    ("dv is computed from dp, but must be p.T @ do", "dv from dp")]

IN_GROUPED_HEADS = [
    ("the sum over grouped heads is missing: a key-value head gets the gradients of all query "
     "heads that share it",
     "no sum over the group"),
    ("only the first query head of each group contributes to its key-value head: all "
     "gradients of the group must be summed", "first of the group"),
    ("the gradients of grouped heads are averaged, but must be summed", "mean over the group"),
    ("the heads of a group are adjacent (0 0 1 1), but were taken as interleaved (0 1 0 1)",
     "interleaved heads")]

MISTAKES = {
    "attention_backward": [(cause, attention_with_mask(mistake))
                           for cause, mistake in IN_ATTENTION],
    "scaled_dot_product_attention_backward": [
        (cause, attention(mistake)) for cause, mistake in IN_ATTENTION + IN_GROUPED_HEADS],
    "rotary_backward": [
        ("the gradient is rotated forward: the gradient of a rotation is the inverse rotation",
         rotary_rotated_forward),
        ("the sine of the second coordinate has the sign of the forward: both signs change in the "
         "backward", rotary_with_one_wrong_sign),
        ("the pairs of coordinates are those of the other layout", rotary_in_the_other_layout)],
    "partial_rotary_backward": [
        ("coordinates that are not rotated have no gradient, but theirs passes through unchanged",
         partial_rotary_without_the_rest),
        ("the gradient is rotated forward: the gradient of a rotation is the inverse rotation",
         partial_rotary_rotated_forward)],
    "add_by_distance_backward": [
        ("the sum over the batch is missing in the gradient of the bias",
         bias_not_summed_over_the_batch),
        ("the distance has the wrong sign: it is j - i", bias_of_the_opposite_distance)],
    "relative_position_bias_backward": [
        ("only the last gradient of a repeated bucket is kept, but all must be summed: np.add.at "
         "sums them, `dtable[buckets] += g` does not", table_with_overwriting)],
}
