"""Right answers: attention, score functions and positions."""

import math

import numpy as np
from scipy import special

from answers.corpus import right
from numformer import functional as F


@right("attention", "einsum, no mask")
def attention_einsum(q, k, v):
    scores = np.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1])
    return np.einsum("bhts,bhsd->bhtd", special.softmax(scores, axis=-1), v)


@right("attention", "queries one by one")
def attention_loop(q, k, v, mask=None):
    o = np.zeros((*q.shape[:3], v.shape[3]), v.dtype)
    for b, h, t in np.ndindex(*q.shape[:3]):
        keep = slice(None) if mask is None else np.flatnonzero(mask[t])
        if not k[b, h][keep].size:
            continue
        s = k[b, h][keep] @ q[b, h, t] / math.sqrt(q.shape[3])
        o[b, h, t] = special.softmax(s) @ v[b, h][keep]
    return o


@right("attention_backward", "einsum, no mask")
def attention_backward_einsum(do, q, k, v):
    D = q.shape[-1]
    p = special.softmax(np.einsum("bhtd,bhsd->bhts", q, k) / D**0.5, axis=-1)
    dv = np.einsum("bhts,bhtd->bhsd", p, do)
    dp = np.einsum("bhtd,bhsd->bhts", do, v)
    ds = p * (dp - np.einsum("bhts,bhts->bht", p, dp)[..., None]) / D**0.5
    return np.einsum("bhts,bhsd->bhtd", ds, k), np.einsum("bhts,bhtd->bhsd", ds, q), dv


@right("attention_backward", "delta, scaled queries")
def attention_backward_delta(do, q, k, v, mask=None):
    q = q / math.sqrt(q.shape[-1])
    s = q @ np.swapaxes(k, 2, 3)
    p = special.softmax(s if mask is None else np.where(mask, s, -1e30), axis=-1)
    p = p if mask is None else p * mask
    delta = np.sum(do * (p @ v), axis=-1, keepdims=True)
    ds = p * (do @ np.swapaxes(v, 2, 3) - delta)
    return ds @ k / math.sqrt(k.shape[-1]), np.swapaxes(ds, 2, 3) @ q, np.swapaxes(p, 2, 3) @ do


@right("attention_backward", "saved, heads in loops")
def attention_backward_saved(do, saved):
    q, k, v, p, scale, _ = saved
    dq, dk, dv = (np.zeros_like(x) for x in (q, k, v))
    for b in range(len(q)):
        for h in range(q.shape[1]):
            P = p[b, h]
            dP = do[b, h].dot(v[b, h].T)
            dS = P * dP - P * np.sum(P * dP, axis=1)[:, None]
            dq[b, h] = scale * dS.dot(k[b, h])
            dk[b, h] = scale * dS.T.dot(q[b, h])
            dv[b, h] = P.T.dot(do[b, h])
    return dq, dk, dv


@right("scaled_dot_product_attention", "plain arguments, tensordot")
def sdpa_plain(q, k, v):
    o = np.empty((*q.shape[:3], v.shape[3]), q.dtype, order="F")
    for b, h in np.ndindex(*q.shape[:2]):
        s = np.tensordot(q[b, h], k[b, h], axes=(1, 1)) * q.shape[3] ** -0.5
        o[b, h] = special.softmax(s, axis=1).dot(v[b, h])
    return o


@right("scaled_dot_product_attention", "scale and pattern")
def sdpa_options(q, k, v, pattern=F.EVERYWHERE, scale=None):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = np.einsum("...td,...sd->...ts", q, k) * (scale or 1 / math.sqrt(q.shape[-1]))
    keep = pattern.dense(q.shape[2], k.shape[2])
    return (keep * special.softmax(np.where(keep, s, -1e30), axis=-1)) @ v


@right("scaled_dot_product_attention_backward", "plain arguments only")
def sdpa_backward_plain(grad, query, key, value):
    scale = 1 / math.sqrt(query.shape[-1])
    p = special.softmax(scale * query @ key.transpose(0, 1, 3, 2), axis=-1)
    dp = grad @ value.transpose(0, 1, 3, 2)
    ds = scale * p * (dp - (dp * p).sum(-1)[..., None])
    return ds @ key, (query.transpose(0, 1, 3, 2) @ ds).mT, (grad.mT @ p).mT


@right("tiled_attention", "keys one by one")
def tiled_online(q, k, v):
    m = np.full(q.shape[:3], -np.inf, q.dtype)
    total, acc = np.zeros_like(m), np.zeros((*m.shape, v.shape[3]), v.dtype)
    for j in range(k.shape[2]):
        s = np.einsum("bhtd,bhd->bht", q, k[:, :, j]) / math.sqrt(q.shape[3])
        new = np.maximum(m, s)
        total = total * np.exp(m - new) + np.exp(s - new)
        acc = acc * np.exp(m - new)[..., None] + np.exp(s - new)[..., None] * v[:, :, None, j]
        m = new
    return acc / total[..., None]


@right("additive_scores_backward", "loop over pairs")
def additive_loop(dscores, q, k, v):
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for b, t, s in np.ndindex(*dscores.shape):
        hidden = np.tanh(q[b, t] + k[b, s])
        d = dscores[b, t, s] * v / np.cosh(q[b, t] + k[b, s]) ** 2
        dq[b, t] += d
        dk[b, s] += d
        dv += dscores[b, t, s] * hidden
    return dq, dk, dv


@right("dot_scores_backward", "einsum and view")
def dot_scores_einsum(dscores, q, k):
    return np.einsum("bts,bsd->btd", dscores, k), np.einsum("bts,btd->bds", dscores, q).mT


@right("scaled_dot_scores_backward", "divide arguments first")
def scaled_scores_first(dscores, q, k):
    root = math.sqrt(k.shape[-1])
    return np.matmul(dscores, k / root), np.matmul(dscores.transpose(0, 2, 1), q / root)


@right("general_scores_backward", "sum over examples")
def general_scores_examples(dscores, q, k, weight):
    dq = dscores @ (k @ weight.T)
    dk = np.stack([(d.T @ x) @ weight for d, x in zip(dscores, q)])
    return dq, dk, sum(x.T @ d @ y for x, d, y in zip(q, dscores, k))


@right("relative_scores_backward", "np.add.at on table")
def relative_scores_at(dscores, q, table, S):
    T, K = q.shape[2], len(table) // 2
    rows = np.clip(np.arange(S)[None, :] - np.arange(S - T, S)[:, None], -K, K) + K
    dtable = np.zeros_like(table)
    np.add.at(dtable, rows, np.einsum("bhts,bhtd->tsd", dscores, q))
    return np.einsum("bhts,tsd->bhtd", dscores, table[rows]), dtable


@right("relative_values", "gathered table, einsum")
def relative_values_gathered(p, table):
    T, S = p.shape[2:]
    K = (len(table) - 1) // 2
    distance = np.subtract.outer(np.arange(S), np.arange(T) + S - T).T
    return np.einsum("bhts,tsd->bhtd", p, table[np.minimum(np.maximum(distance, -K), K) + K])


@right("rotary", "complex numbers, half")
def rotary_complex(x, cosine, sine):
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:]) * (cosine + 1j * sine)
    return np.concatenate([z.real, z.imag], axis=-1)


@right("rotary_backward", "rotation matrices, layouts")
def rotary_matrices(dy, x, cosine, sine, layout="half"):
    T, half = cosine.shape
    R = np.zeros((T, 2 * half, 2 * half), dy.dtype)
    i = np.arange(half)
    a, b = (i, half + i) if layout == "half" else (2 * i, 2 * i + 1)
    R[:, a, a] = R[:, b, b] = cosine
    R[:, a, b], R[:, b, a] = -sine, sine
    return (np.swapaxes(R, 1, 2) @ dy[..., None])[..., 0]


@right("alibi", "loop over heads")
def alibi_heads(scores, slopes):
    T, S = scores.shape[-2:]
    i, j = np.meshgrid(np.arange(S - T, S), np.arange(S), indexing="ij")
    return np.stack([scores[..., h, :, :] - float(m) * abs(i - j).astype(scores.dtype)
                     for h, m in enumerate(slopes)], axis=-3)


right("alibi_backward", "lambda, np.positive")(lambda dy, scores, slopes: np.positive(dy))


@right("add_by_distance_backward", "sums of diagonals")
def add_by_distance_traces(dy, scores, bias):
    T, S = dy.shape[-2:]
    batch = dy.reshape(-1, *dy.shape[-3:])
    dbias = [batch.trace(offset=r - T + 1, axis1=2, axis2=3).sum(axis=0) for r in range(T + S - 1)]
    return dy, np.array(dbias).T


@right("repeat_kv_heads_backward", "strided slices added")
def repeat_kv_heads_strided(dy, x, n_heads):
    group = n_heads // x.shape[1]
    return np.add.reduce([dy[:, i::group] for i in range(group)])
