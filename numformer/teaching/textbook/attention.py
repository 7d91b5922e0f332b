"""Attention, its scores and its positions, written out."""

import math

import numpy as np

from numformer.functional import EVERYWHERE


def attention(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v


def attention_backward(do, q, k, v, mask=None):
    scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.mT * scale
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dq = ds @ k * scale
    dk = ds.mT @ q * scale
    dv = p.mT @ do
    return dq, dk, dv


def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None):
    group = q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    mask = pattern.dense(q.shape[2], k.shape[2])
    k = np.repeat(k, group, axis=1)
    v = np.repeat(v, group, axis=1)
    scores = np.where(mask, q @ k.mT * scale, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v


def scaled_dot_product_attention_backward(do, q, k, v, pattern=EVERYWHERE, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    group = H // G
    scale = 1 / math.sqrt(D) if scale is None else scale
    mask = pattern.dense(T, S)
    k = np.repeat(k, group, axis=1)
    v = np.repeat(v, group, axis=1)
    scores = np.where(mask, q @ k.mT * scale, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    dq = ds @ k
    dk = ds.mT @ q
    dv = p.mT @ do
    dk = dk.reshape(B, G, group, S, D).sum(axis=2)
    dv = dv.reshape(B, G, group, S, D).sum(axis=2)
    return dq, dk, dv


def tiled_attention(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    return scaled_dot_product_attention(q, k, v, pattern, scale)


def tiled_attention_in_tiles(q, k, v, pattern=EVERYWHERE, scale=None, tile=2):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    v = np.repeat(v, q.shape[1] // v.shape[1], axis=1)
    m = np.full((*q.shape[:3], 1), -np.inf)
    l = np.zeros((*q.shape[:3], 1))                                     # noqa: E741
    acc = np.zeros(q.shape)
    for j in range(0, k.shape[2], tile):
        s = q @ k[:, :, j:j + tile].mT * scale
        m_new = np.maximum(m, s.max(axis=-1, keepdims=True))
        alpha = np.exp(m - m_new)
        p = np.exp(s - m_new)
        l = alpha * l + p.sum(axis=-1, keepdims=True)                   # noqa: E741
        acc = alpha * acc + p @ v[:, :, j:j + tile]
        m = m_new
    return acc / l


def tiled_attention_backward(do, q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    return scaled_dot_product_attention_backward(do, q, k, v, pattern, scale)


def repeat_kv_heads(x, n_heads):
    group = n_heads // x.shape[1]
    return np.repeat(x, group, axis=1)


def repeat_kv_heads_backward(dy, x, n_heads):
    B, G, S, D = x.shape
    group = n_heads // G
    return dy.reshape(B, G, group, S, D).sum(axis=2)


def additive_scores(q, k, v):
    t = np.tanh(q[:, :, None] + k[:, None])
    return t @ v


def additive_scores_backward(dscores, q, k, v):
    t = np.tanh(q[:, :, None] + k[:, None])
    slope = 1 - t ** 2
    d = dscores[..., None]
    du = d * v * slope
    dq = du.sum(axis=2)
    dk = du.sum(axis=1)
    dv = (d * t).sum(axis=(0, 1, 2))
    return dq, dk, dv


def dot_scores(q, k):
    return q @ k.mT


def dot_scores_backward(dscores, q, k):
    dq = dscores @ k
    dk = dscores.mT @ q
    return dq, dk


def scaled_dot_scores(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


def scaled_dot_scores_backward(dscores, q, k):
    scale = 1 / math.sqrt(q.shape[-1])
    dq = dscores @ k * scale
    dk = dscores.mT @ q * scale
    return dq, dk


def general_scores(q, k, weight):
    return q @ weight @ k.mT


def general_scores_backward(dscores, q, k, weight):
    dq = dscores @ k @ weight.T
    dk = dscores.mT @ q @ weight
    dweight = (q.mT @ dscores @ k).sum(axis=0)
    return dq, dk, dweight


def alibi(scores, slopes):
    T, S = scores.shape[-2:]
    distance = np.abs(np.arange(T)[:, None] + S - T - np.arange(S))
    return scores - slopes[:, None, None] * distance


def alibi_backward(dy, scores, slopes):
    return dy * 1.0


def distance_weights(slopes, mask):
    T, S = mask.shape[-2:]
    distance = np.abs(np.arange(T)[:, None] + S - T - np.arange(S))
    e = np.where(mask, np.exp(-slopes[:, None, None] * distance), 0)
    return e / e.sum(axis=-1, keepdims=True)


def distance_weights_backward(dp, slopes, mask):
    T, S = mask.shape[-2:]
    distance = np.abs(np.arange(T)[:, None] + S - T - np.arange(S))
    e = np.where(mask, np.exp(-slopes[:, None, None] * distance), 0)
    p = e / e.sum(axis=-1, keepdims=True)
    dscores = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dslopes = -(dscores * distance).sum(axis=(-2, -1))
    return dslopes if dslopes.ndim == 1 else dslopes.sum(axis=0)


def rotary(x, cosine, sine, layout="half"):
    half = x.shape[-1] // 2
    a = x[..., :half] if layout == "half" else x[..., 0::2]
    b = x[..., half:] if layout == "half" else x[..., 1::2]
    first = a * cosine - b * sine
    second = a * sine + b * cosine
    if layout == "half":
        return np.concatenate([first, second], axis=-1)
    return np.stack([first, second], axis=-1).reshape(x.shape)


def rotary_backward(dy, x, cosine, sine, layout="half"):
    half = x.shape[-1] // 2
    da = dy[..., :half] if layout == "half" else dy[..., 0::2]
    db = dy[..., half:] if layout == "half" else dy[..., 1::2]
    first = da * cosine + db * sine
    second = db * cosine - da * sine
    if layout == "half":
        return np.concatenate([first, second], axis=-1)
    return np.stack([first, second], axis=-1).reshape(x.shape)


def partial_rotary(x, cosine, sine, layout="half"):
    R = 2 * cosine.shape[-1]
    y = x.copy()
    y[..., :R] = rotary(x[..., :R], cosine, sine, layout)
    return y


def partial_rotary_backward(dy, x, cosine, sine, layout="half"):
    R = 2 * cosine.shape[-1]
    dx = dy.copy()
    dx[..., :R] = rotary_backward(dy[..., :R], x[..., :R], cosine, sine, layout)
    return dx


def drop_weights(p, rate, seed):
    from numformer.functional import attention_dropout_mask
    kept = attention_dropout_mask(seed, p.shape, rate)
    return p * kept / (1 - rate)


def drop_weights_backward(dw, p, rate, seed):
    from numformer.functional import attention_dropout_mask
    kept = attention_dropout_mask(seed, p.shape, rate)
    return dw * kept / (1 - rate)
