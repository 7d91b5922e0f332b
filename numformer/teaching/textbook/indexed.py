"""Look-ups and tables, written out: what repeats is added by np.add.at."""

import numpy as np

from numformer.functional import EVERYWHERE, relative_position_buckets


def linear(x, weight, bias):
    return x @ weight + bias


def linear_backward(dy, x, weight, bias):
    vectors = x.reshape(-1, x.shape[-1])
    dvectors = dy.reshape(-1, dy.shape[-1])
    dx = dy @ weight.T
    dweight = vectors.T @ dvectors
    dbias = dy.sum(axis=(0, 1))
    return dx, dweight, dbias


def embedding(ids, weight):
    return weight[ids]


def embedding_backward(dy, ids, weight):
    dweight = np.zeros(weight.shape)
    np.add.at(dweight, ids, dy)
    return dweight


def add_by_distance(scores, bias):
    T, S = scores.shape[-2:]
    index = np.arange(S) - np.arange(T)[:, None] + T - 1
    return scores + bias[:, index]


def add_by_distance_backward(dy, scores, bias):
    T, S = scores.shape[-2:]
    index = np.arange(S) - np.arange(T)[:, None] + T - 1
    dbias = np.zeros(bias.shape)
    of_heads = dy.sum(axis=0)
    for h in range(len(bias)):
        np.add.at(dbias[h], index, of_heads[h])
    return dy * 1.0, dbias


def relative_position_bias_backward(dbias, table, T, S, max_distance=128, bidirectional=True):
    distance = np.arange(1 - S, T)
    buckets = relative_position_buckets(distance, len(table), max_distance, bidirectional)
    dtable = np.zeros(table.shape)
    np.add.at(dtable, buckets, dbias.T)
    return dtable


def rows_of(T, S, n_rows):
    K = n_rows // 2
    distance = np.arange(S) - np.arange(T)[:, None] - (S - T)
    return np.clip(distance, -K, K) + K


def relative_scores(q, table, S):
    rows = rows_of(q.shape[2], S, len(table))
    return np.einsum("bhtd,tsd->bhts", q, table[rows])


def relative_scores_backward(dscores, q, table, S):
    rows = rows_of(q.shape[2], S, len(table))
    dq = np.einsum("bhts,tsd->bhtd", dscores, table[rows])
    da = np.einsum("bhts,bhtd->tsd", dscores, q)
    dtable = np.zeros(table.shape)
    np.add.at(dtable, rows, da)
    return dq, dtable


def relative_values(p, table):
    rows = rows_of(p.shape[2], p.shape[3], len(table))
    return np.einsum("bhts,tsd->bhtd", p, table[rows])


def relative_values_backward(do, p, table):
    rows = rows_of(p.shape[2], p.shape[3], len(table))
    dp = np.einsum("bhtd,tsd->bhts", do, table[rows])
    da = np.einsum("bhts,bhtd->tsd", p, do)
    dtable = np.zeros(table.shape)
    np.add.at(dtable, rows, da)
    return dp, dtable


def relative_attention(q, k, v, key_table, value_table, pattern=EVERYWHERE, scale=None):
    T, S = q.shape[2], k.shape[2]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    rows = rows_of(T, S, len(key_table))
    scores = q @ k.mT + np.einsum("bhtd,tsd->bhts", q, key_table[rows])
    scores = np.where(pattern.dense(T, S), scores * scale, -np.inf)
    e = np.exp(scores)
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v + np.einsum("bhts,tsd->bhtd", p, value_table[rows])


def relative_attention_backward(do, q, k, v, key_table, value_table, pattern=EVERYWHERE,
                                scale=None):
    T, S = q.shape[2], k.shape[2]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    rows = rows_of(T, S, len(key_table))
    scores = q @ k.mT + np.einsum("bhtd,tsd->bhts", q, key_table[rows])
    scores = np.where(pattern.dense(T, S), scores * scale, -np.inf)
    e = np.exp(scores)
    p = e / e.sum(axis=-1, keepdims=True)
    dv = p.mT @ do
    dp = do @ v.mT + np.einsum("bhtd,tsd->bhts", do, value_table[rows])
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    dq = ds @ k + np.einsum("bhts,tsd->bhtd", ds, key_table[rows])
    dk = ds.mT @ q
    dkey_table = np.zeros(key_table.shape)
    np.add.at(dkey_table, rows, np.einsum("bhts,bhtd->tsd", ds, q))
    dvalue_table = np.zeros(value_table.shape)
    np.add.at(dvalue_table, rows, np.einsum("bhts,bhtd->tsd", p, do))
    return dq, dk, dv, dkey_table, dvalue_table


def dispatch_to_experts(x, slots, k):
    tokens = slots // k
    return x[tokens]


def dispatch_to_experts_backward(dy, x, slots, k):
    tokens = slots // k
    dx = np.zeros(x.shape)
    np.add.at(dx, tokens, dy)
    return dx


def combine_experts(outputs, weights, slots):
    k = weights.shape[1]
    tokens = slots // k
    w = weights.reshape(-1)[slots]
    y = np.zeros((len(weights), outputs.shape[1]))
    np.add.at(y, tokens, w[:, None] * outputs)
    return y


def combine_experts_backward(dy, outputs, weights, slots):
    k = weights.shape[1]
    tokens = slots // k
    w = weights.reshape(-1)[slots]
    d = dy[tokens]
    doutputs = w[:, None] * d
    dweights = np.zeros(weights.size)
    dweights[slots] = (outputs * d).sum(axis=-1)
    return doutputs, dweights.reshape(weights.shape)
