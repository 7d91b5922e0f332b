"""Mistakes in score functions of attention, and in relative positions."""

import numpy as np

from numformer import functional as F


def additive(mistake):
    """A backward of the additive scores, written out, with one mistake."""
    def gradients(dscores, q, k, v):
        u = q[:, :, None] + k[:, None]
        t = np.tanh(u)
        bend = {"no derivative": 1, "no square": 1 - t,
                "derivative of the sum": 1 - u * u}.get(mistake, 1 - t * t)
        du = dscores[..., None] * (1 if mistake == "no v" else v) * bend
        dv = (dscores[..., None]
              * (u if mistake == "dv without tanh"
                 else t)).sum(axis=(1, 2) if mistake == "no sum over B" else (0, 1, 2))
        dq, dk = (du.mean(axis=2),
                  du.mean(axis=1)) if mistake == "means" else (du.sum(axis=2), du.sum(axis=1))
        return dq, dk, dv
    return gradients


def general(mistake):
    def gradients(dscores, q, k, weight):
        du = dscores @ k
        dq = du @ (weight if mistake == "dq not transposed" else weight.T)
        dk = dscores.mT @ (q if mistake == "dk without weight"
                           else q @ (weight.T if mistake == "dk transposed" else weight))
        dweight = q.mT @ du
        if mistake != "no sum over B":
            dweight = dweight.sum(axis=0)
        return dq, dk, dweight.T if mistake == "dweight transposed" else dweight
    return gradients


def dot_with_scale(dscores, q, k):
    return F.scaled_dot_scores_backward(dscores, ((q, k), q.shape[-1]))


def scaled_dot(power):
    def gradients(dscores, q, k):
        scale = q.shape[-1] ** power
        return scale * dscores @ k, scale * dscores.mT @ q
    return gradients


def scaled_in_dq_only(dscores, q, k):
    return dscores @ k / q.shape[-1] ** 0.5, dscores.mT @ q


def table_rows(T, S, rows, mistake=""):
    """The row of the table for every pair: the clipped distance from query to key, ends aligned."""
    reach, shift = rows // 2, 0 if mistake == "aligned at the start" else S - T
    distance = np.arange(S) - np.arange(T)[:, None] - shift
    return np.clip(-distance if mistake == "opposite" else distance, -reach, reach) + reach


def table_gradient(x, y, where, rows, mistake=""):
    """The sum of x[..., i, j] y[..., i, :] over each row's pairs; x (..., T, S), y (..., T, D)."""
    table = np.zeros((*x.shape[:2], rows, y.shape[-1]))
    for i, j in np.ndindex(*where.shape):
        term = x[:, :, i, j, None] * y[:, :, i]
        before = 0 if mistake == "overwritten" else table[:, :, where[i, j]]
        table[:, :, where[i, j]] = before + term
    if mistake == "no sum over heads":
        return table.sum(axis=0)
    return table[0].sum(axis=0) if mistake == "first example" else table.sum(axis=(0, 1))


def relative_scores(mistake):
    def gradients(dscores, q, table, S):
        where = table_rows(q.shape[2], S, len(table), mistake)
        return (dscores[..., None]
                * table[where]).sum(axis=3), table_gradient(dscores, q, where, len(table), mistake)
    return gradients


def relative_values(mistake):
    def gradients(do, p, table):
        where = table_rows(*p.shape[2:], len(table), mistake)
        return (do[:, :, :, None]
                * table[where]).sum(axis=4), table_gradient(p, do, where, len(table), mistake)
    return gradients


def relative_attention(mistake):
    def gradients(do, q, k, v, key_table, value_table, pattern=F.EVERYWHERE, scale=None):
        T, S = q.shape[2], k.shape[2]
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        where = table_rows(T, S, len(key_table))
        of_keys = (q[:, :, :, None] * key_table[where]).sum(axis=4)
        p, _ = F.softmax((q @ k.mT + of_keys) * scale, mask=pattern.dense(T, S))
        dp = do @ v.mT + (0 if mistake == "values in dp"
                          else (do[:, :, :, None] * value_table[where]).sum(axis=4))
        ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
        dq = ds @ k + (0 if mistake == "keys in dq"
                       else (ds[..., None] * key_table[where]).sum(axis=3))
        dkeys = table_gradient(ds / scale if mistake == "scale of the table" else ds, q, where,
                               len(key_table))
        return dq, ds.mT @ q, p.mT @ do, dkeys, table_gradient(p, do, where, len(value_table))
    return gradients


OF_TABLES = [
    ("only the last of the pairs that share a row of the table is kept, but their gradients must "
     "be summed: np.add.at sums repeated rows, `dtable[rows] += g` does not", "overwritten"),
    ("the sum over the heads is missing in dtable: all heads share the table", "no sum over heads"),
    ("dtable is that of the first example only: the whole batch shares the table", "first example"),
    ("the distance has the wrong sign: it is j - i", "opposite"),
    ("queries and keys are aligned at the start, but the last query is at the last key: the "
     "distance is j - (i + S - T)", "aligned at the start")]


def distance_weights(mistake):
    def gradients(dp, slopes, mask):
        p, (distance, _) = F.distance_weights(slopes, mask)
        if mistake == "aligned at the start":
            T, S = mask.shape[-2:]
            distance = np.abs(np.arange(T)[:, None] - np.arange(S))
        dscores = p * (dp - (0 if mistake == "no sum" else (p * dp).sum(axis=-1, keepdims=True)))
        sign = 1 if mistake == "sign" else -1
        dslopes = sign * (dscores * (1 if mistake == "no distance" else distance)).sum((-2, -1))
        return dslopes if dslopes.ndim == 1 else (
            dslopes[0] if mistake == "first example" else dslopes.sum(axis=0))
    return gradients


MISTAKES = {
    "distance_weights_backward": [(cause, distance_weights(mistake)) for cause, mistake in [
        ("the sign is wrong: the score is minus the slope times the distance", "sign"),
        ("the factor of the distance is missing", "no distance"),
        ("the sum over all weights is missing in the gradient of the softmax", "no sum"),
        ("queries and keys are aligned at the start, but the last query is at the last key: the "
         "distance is |i + S - T - j|", "aligned at the start"),
        ("the gradient is that of the first example only: the whole batch shares the slopes",
         "first example")]],
    "additive_scores_backward": [(cause, additive(mistake)) for cause, mistake in [
        ("the derivative of tanh, 1 - t * t, is missing", "no derivative"),
        ("the square in the derivative of tanh is missing: it is 1 - t * t", "no square"),
        ("the derivative of tanh is computed from its argument, but must use its value: 1 - t * t",
         "derivative of the sum"),
        ("v is missing in dq and dk", "no v"),
        ("dv is computed without the tanh: v was multiplied by tanh(q + k)", "dv without tanh"),
        ("the sum over the batch is missing in dv", "no sum over B"),
        ("dq and dk are means, but must be sums: every query is combined with every key",
         "means")]],
    "dot_scores_backward": [("there is a factor 1 / sqrt(D), but these scores are not scaled",
                             dot_with_scale)],
    "scaled_dot_scores_backward": [
        ("the factor 1 / sqrt(D) is missing", scaled_dot(0)),
        ("the factor 1 / sqrt(D) is applied twice", scaled_dot(-1)),
        ("the gradients are multiplied by sqrt(D), but must be divided by it", scaled_dot(0.5)),
        ("the factor 1 / sqrt(D) is missing in dk", scaled_in_dq_only)],
    "general_scores_backward": [(cause, general(mistake)) for cause, mistake in [
        ("the weight is not transposed in dq", "dq not transposed"),
        ("the weight is transposed in dk, but must not be", "dk transposed"),
        ("the weight is missing in dk", "dk without weight"),
        ("dweight is transposed", "dweight transposed"),
        ("the sum over the batch is missing in dweight", "no sum over B")]],
    "relative_scores_backward": [(cause, relative_scores(mistake)) for cause, mistake in OF_TABLES],
    "relative_values_backward": [(cause, relative_values(mistake)) for cause, mistake in OF_TABLES],
    "relative_attention_backward": [(cause, relative_attention(mistake)) for cause, mistake in [
        ("the value table is missing in the gradient of the weights: they were multiplied by v + a",
         "values in dp"),
        ("the key table is missing in dq: q was multiplied by k + a", "keys in dq"),
        ("the scale is missing in dkey_table", "scale of the table")]],
}
