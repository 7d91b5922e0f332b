"""Wrong answers: score functions, relative positions of Shaw."""

import numpy as np
from scipy.special import softmax

from answers.corpus import wrong


@wrong("additive_scores_backward", "the derivative of tanh is missing")
def add_b_tanh(ds, q, k, v):
    t = np.tanh(q[:, :, None] + k[:, None])
    du = ds[..., None] * v
    return du.sum(2), du.sum(1), np.einsum("bts,btsa->a", ds, t)


@wrong("additive_scores_backward", "means over keys and queries for sums in dq and dk")
def add_b_mean(ds, q, k, v):
    t = np.tanh(q[:, :, None] + k[:, None])
    du = ds[..., None] * v * (1 - t * t)
    return du.mean(2), du.mean(1), np.einsum("bts,btsa->a", ds, t)


@wrong("additive_scores_backward", "the factor v is forgotten in dq and dk")
def add_b_v(ds, q, k, v):
    t = np.tanh(q[:, :, None] + k[:, None])
    du = ds[..., None] * (1 - t * t)
    return du.sum(2), du.sum(1), np.einsum("bts,btsa->a", ds, t)


@wrong("additive_scores_backward", "dv has 1 - tanh**2 in place of tanh")
def add_b_dv(ds, q, k, v):
    t = np.tanh(q[:, :, None] + k[:, None])
    du = ds[..., None] * v * (1 - t * t)
    return du.sum(2), du.sum(1), np.einsum("bts,btsa->a", ds, 1 - t * t)


@wrong("additive_scores_backward", "= for += over the keys: only the last one reaches dq")
def add_b_assign(ds, q, k, v):
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for s in range(k.shape[1]):
        t = np.tanh(q + k[:, s:s + 1])
        du = ds[:, :, s, None] * v * (1 - t**2)
        dq = du
        dk[:, s] = du.sum(1)
        dv += np.einsum("bt,bta->a", ds[:, :, s], t)
    return dq, dk, dv


@wrong("additive_scores", "q - k for q + k")
def add_minus(q, k, v):
    return np.tanh(q[:, :, None] - k[:, None]) @ v


@wrong("dot_scores_backward", "the gradients are scaled by 1 / sqrt(D), the scores are not")
def dot_b_scaled(ds, q, k):
    root = np.sqrt(q.shape[-1])
    return ds @ k / root, ds.mT @ q / root


@wrong("dot_scores_backward", "dk is of the first example only, broadcast")
def dot_b_batch(ds, q, k):
    return ds @ k, np.broadcast_to(ds[:1].mT @ q[:1], k.shape).copy()


@wrong("scaled_dot_scores_backward", "the scale is forgotten")
def scaled_b_scale(ds, q, k):
    return ds @ k, ds.mT @ q


@wrong("scaled_dot_scores_backward", "multiplied by sqrt(D), not divided")
def scaled_b_root(ds, q, k):
    ds = ds * np.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q


@wrong("scaled_dot_scores_backward", "the root of the number of keys, not of the width")
def scaled_b_keys(ds, q, k):
    ds = ds / np.sqrt(k.shape[1])
    return ds @ k, ds.mT @ q


@wrong("scaled_dot_scores", "divided by D")
def scaled_d(q, k):
    return q @ k.mT / q.shape[-1]


@wrong("general_scores_backward", "dq has the weight untransposed: fits square weights only")
def general_b_dq(ds, q, k, weight):
    dweight = np.einsum("btc,bts,bsk->ck", q, ds, k)
    return ds @ k @ weight, ds.mT @ (q @ weight), dweight


@wrong("general_scores_backward", "the weight is forgotten in dk: fits square weights only")
def general_b_dk(ds, q, k, weight):
    dweight = np.einsum("btc,bts,bsk->ck", q, ds, k)
    return ds @ k @ weight.T, ds.mT @ q, dweight


@wrong("general_scores_backward", "dweight is transposed")
def general_b_transposed(ds, q, k, weight):
    return ds @ k @ weight.T, ds.mT @ (q @ weight), np.einsum("btc,bts,bsk->kc", q, ds, k)


@wrong("general_scores_backward", "dweight is the mean over the batch")
def general_b_mean(ds, q, k, weight):
    return ds @ k @ weight.T, ds.mT @ (q @ weight), (q.mT @ ds @ k).mean(0)


@wrong("general_scores", "the weight is transposed: fits square weights only")
def general_transposed(q, k, weight):
    return q @ weight.T @ k.mT


def rows(T, S, table):
    K = len(table) // 2
    return np.clip(np.arange(S) - np.arange(S - T, S)[:, None], -K, K) + K


@wrong("relative_scores_backward", "d[rows] += g loses the distances that occur several times")
def rel_b_repeats(ds, q, table, S):
    index, dtable = rows(q.shape[2], S, table), np.zeros_like(table)
    dtable[index] += np.einsum("bhts,bhtd->tsd", ds, q)
    return np.einsum("bhts,tsd->bhtd", ds, table[index]), dtable


@wrong("relative_scores_backward", "the distance has the wrong sign: i - j")
def rel_b_sign(ds, q, table, S):
    index, dtable = rows(q.shape[2], S, table), np.zeros_like(table)
    index = len(table) - 1 - index
    np.add.at(dtable, index, np.einsum("bhts,bhtd->tsd", ds, q))
    return np.einsum("bhts,tsd->bhtd", ds, table[index]), dtable


@wrong("relative_scores_backward", "the first query is aligned with the first key")
def rel_b_aligned(ds, q, table, S):
    K, dtable = len(table) // 2, np.zeros_like(table)
    index = np.clip(np.arange(S) - np.arange(q.shape[2])[:, None], -K, K) + K
    np.add.at(dtable, index, np.einsum("bhts,bhtd->tsd", ds, q))
    return np.einsum("bhts,tsd->bhtd", ds, table[index]), dtable


@wrong("relative_scores", "distances beyond the table wrap around: modulo in place of clip")
def rel_modulo(q, table, S):
    T, R = q.shape[2], len(table)
    index = (np.arange(S) - np.arange(S - T, S)[:, None] + R // 2) % R
    return np.einsum("bhtd,tsd->bhts", q, table[index])


@wrong("relative_values_backward", "dtable lacks the sum over the heads: only the first head")
def relv_b_heads(do, p, table):
    index, dtable = rows(*p.shape[2:], table), np.zeros_like(table)
    np.add.at(dtable, index, np.einsum("bts,btd->tsd", p[:, 0], do[:, 0]))
    return np.einsum("bhtd,tsd->bhts", do, table[index]), dtable


@wrong("relative_values_backward", "d[rows] += g loses repeated distances")
def relv_b_repeats(do, p, table):
    index, dtable = rows(*p.shape[2:], table), np.zeros_like(table)
    dtable[index] += np.einsum("bhts,bhtd->tsd", p, do)
    return np.einsum("bhtd,tsd->bhts", do, table[index]), dtable


@wrong("relative_values_backward", "clipped distances get no gradient in the table")
def relv_b_clipped(do, p, table):
    T, S = p.shape[2:]
    index, dtable = rows(T, S, table), np.zeros_like(table)
    inside = np.abs(np.arange(S) - np.arange(S - T, S)[:, None]) <= len(table) // 2
    np.add.at(dtable, index, np.einsum("bhts,bhtd->tsd", p * inside, do))
    return np.einsum("bhtd,tsd->bhts", do, table[index]), dtable


@wrong("relative_values", "the table is read the other way round")
def relv_reversed(p, table):
    return np.einsum("bhts,tsd->bhtd", p, table[::-1][rows(*p.shape[2:], table)])


def relative(q, k, v, key_table, value_table):
    index = rows(q.shape[2], k.shape[2], key_table)
    scale = q.shape[-1] ** -0.5
    s = (q @ k.mT + np.einsum("bhtd,tsd->bhts", q, key_table[index])) * scale
    return softmax(s, axis=-1), index, scale


def relative_gradients(do, p, dp, index, scale, q, k, key_table, value_table):
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    dkeys, dvalues = np.zeros_like(key_table), np.zeros_like(value_table)
    np.add.at(dkeys, index, np.einsum("bhts,bhtd->tsd", ds, q))
    np.add.at(dvalues, index, np.einsum("bhts,bhtd->tsd", p, do))
    dq = ds @ k + np.einsum("bhts,tsd->bhtd", ds, key_table[index])
    return dq, ds.mT @ q, p.mT @ do, dkeys, dvalues


@wrong("relative_attention_backward", "the value table's path to the weights is missing")
def rela_b_values(do, q, k, v, key_table, value_table):
    p, index, scale = relative(q, k, v, key_table, value_table)
    return relative_gradients(do, p, do @ v.mT, index, scale, q, k, key_table, value_table)


@wrong("relative_attention_backward", "the key table's path to dq is missing")
def rela_b_keys(do, q, k, v, key_table, value_table):
    p, index, scale = relative(q, k, v, key_table, value_table)
    dp = do @ v.mT + np.einsum("bhtd,tsd->bhts", do, value_table[index])
    out = relative_gradients(do, p, dp, index, scale, q, k, key_table, value_table)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    return ds @ k, *out[1:]


@wrong("relative_attention_backward", "the tables' gradients are returned in the wrong order")
def rela_b_order(do, q, k, v, key_table, value_table):
    p, index, scale = relative(q, k, v, key_table, value_table)
    dp = do @ v.mT + np.einsum("bhtd,tsd->bhts", do, value_table[index])
    out = relative_gradients(do, p, dp, index, scale, q, k, key_table, value_table)
    return *out[:3], out[4], out[3]


@wrong("relative_attention_backward", "the key table's gradient lacks the scale")
def rela_b_scale(do, q, k, v, key_table, value_table):
    p, index, scale = relative(q, k, v, key_table, value_table)
    dp = do @ v.mT + np.einsum("bhtd,tsd->bhts", do, value_table[index])
    out = relative_gradients(do, p, dp, index, scale, q, k, key_table, value_table)
    return *out[:3], out[3] / scale, out[4]


@wrong("relative_attention", "the key table's scores are added after the scaling")
def rela_unscaled(q, k, v, key_table, value_table):
    index = rows(q.shape[2], k.shape[2], key_table)
    s = q @ k.mT * q.shape[-1] ** -0.5 + np.einsum("bhtd,tsd->bhts", q, key_table[index])
    p = softmax(s, axis=-1)
    return p @ v + np.einsum("bhts,tsd->bhtd", p, value_table[index])


@wrong("scaled_dot_scores_backward", "two mistakes: multiplied by sqrt(D), dk has the wrong sign")
def scaled_b_two(ds, q, k):
    ds = ds * np.sqrt(q.shape[-1])
    return ds @ k, -ds.mT @ q
