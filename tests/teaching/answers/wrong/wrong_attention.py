"""Wrong answers: attention and its forms."""

import math

import numpy as np
from scipy.special import softmax

from answers.corpus import wrong
from numformer import functional as F


def weights(q, k):
    return softmax(q @ k.mT / math.sqrt(q.shape[-1]), axis=-1)


def softmax_backward(dp, p):
    return p * (dp - (p * dp).sum(-1, keepdims=True))


@wrong("attention_backward", "the scale 1 / sqrt(D) is forgotten in dq and dk")
def att_b_scale(do, q, k, v):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p)
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("attention_backward", "the scale is forgotten in dk alone")
def att_b_scale_dk(do, q, k, v):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p)
    return ds @ k / math.sqrt(q.shape[-1]), ds.mT @ q, p.mT @ do


@wrong("attention_backward", "the scale is 1 / D, not 1 / sqrt(D), in the gradients")
def att_b_scale_d(do, q, k, v):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p) / q.shape[-1]
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("attention_backward", "the softmax's gradient lacks the sum: ds = p * dp")
def att_b_sum(do, q, k, v):
    p = weights(q, k)
    ds = p * (do @ v.mT) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("attention_backward", "the softmax is not derived: ds = dp")
def att_b_softmax(do, q, k, v):
    p = weights(q, k)
    ds = do @ v.mT / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("attention_backward", "the softmax's sum runs over the queries, the wrong axis")
def att_b_axis(do, q, k, v):
    p = weights(q, k)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(-2, keepdims=True)) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("attention_backward", "dq and dk are returned in the wrong order")
def att_b_order(do, q, k, v):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(q.shape[-1])
    return ds.mT @ q, ds @ k, p.mT @ do


@wrong("attention_backward", "dk and dv are returned in the wrong order")
def att_b_order_dv(do, q, k, v):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(q.shape[-1])
    return ds @ k, p.mT @ do, ds.mT @ q


@wrong("attention_backward", "dv has the scores' gradient in place of the weights")
def att_b_dv(do, q, k, v):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, ds.mT @ do


@wrong("attention_backward", "dv is 1% too large")
def att_b_percent(do, saved):
    q, k, v, p, scale, _ = saved
    ds = softmax_backward(do @ v.mT, p) * scale
    return ds @ k, ds.mT @ q, 1.01 * p.mT @ do


@wrong("attention_backward", "= for += over the queries: dk is of the last query alone")
def att_b_loop(do, q, k, v):
    p = weights(q, k)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for b, h, i in np.ndindex(*q.shape[:3]):
        dp = v[b, h] @ do[b, h, i]
        ds = p[b, h, i] * (dp - p[b, h, i] @ dp) / math.sqrt(q.shape[-1])
        dq[b, h, i] = ds @ k[b, h]
        dk[b, h] = np.outer(ds, q[b, h, i])
        dv[b, h] += np.outer(p[b, h, i], do[b, h, i])
    return dq, dk, dv


@wrong("attention_backward", "the mask is forgotten when the weights are computed again")
def att_b_mask(do, q, k, v, mask=None):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("attention_backward", "the mask is the wrong way round")
def att_b_inverted(do, q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    p = softmax(s if mask is None else np.where(mask, -1e9, s), axis=-1)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("attention_backward", "two mistakes: no scale in dq and dk, and the softmax lacks its sum")
def att_b_two(do, q, k, v):
    p = weights(q, k)
    ds = p * (do @ v.mT)
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("attention_backward", "the wrong sign of dk")
def att_b_sign(do, q, k, v):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(q.shape[-1])
    return ds @ k, -ds.mT @ q, p.mT @ do


@wrong("scaled_dot_product_attention_backward", "the mean over the row is subtracted, not p * dp")
def sdpa_b_mean(do, q, k, v):
    p = weights(q, k)
    dp = do @ v.mT
    ds = p * (dp - dp.mean(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("scaled_dot_product_attention_backward", "the scale is applied twice to dq")
def sdpa_b_twice(do, q, k, v):
    scale = 1 / math.sqrt(q.shape[-1])
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p) * scale
    return scale * ds @ k, ds.mT @ q, p.mT @ do


@wrong("scaled_dot_product_attention_backward", "the option scale is ignored in the gradients")
def sdpa_b_option(do, q, k, v, scale=None):
    D = q.shape[-1]
    p = softmax(q @ k.mT * (scale or D ** -0.5), axis=-1)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(D)
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("scaled_dot_product_attention_backward", "the causal pattern is ignored")
def sdpa_b_pattern(do, q, k, v, pattern=F.EVERYWHERE):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("scaled_dot_product_attention_backward", "causal masks the own position, too: i > j")
def sdpa_b_strict(do, q, k, v, pattern=F.EVERYWHERE):
    T, S = q.shape[2], k.shape[2]
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if pattern.causal:
        s = np.where(np.tri(T, S, S - T - 1, dtype=bool), s, -1e30)
    p = softmax(s, axis=-1)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("scaled_dot_product_attention_backward", "dv has the squared weights: p is applied twice")
def sdpa_b_squared(do, q, k, v):
    p = weights(q, k)
    ds = softmax_backward(do @ v.mT, p) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, (p * p).mT @ do


@wrong("scaled_dot_product_attention_backward", "the factor p is missing: dp - sum(p dp)")
def sdpa_b_factor(do, q, k, v):
    p = weights(q, k)
    dp = do @ v.mT
    ds = (dp - (p * dp).sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("tiled_attention_backward", "delta has the values in place of the output: sum(do)")
def tiled_b_delta(do, q, k, v):
    p = weights(q, k)
    ds = p * (do @ v.mT - do.sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ do


@wrong("tiled_attention_backward", "delta is forgotten")
def tiled_b_no_delta(do, q, k, v):
    scale, p = 1 / math.sqrt(q.shape[-1]), weights(q, k)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for j in range(k.shape[2]):
        ds = p[..., j] * np.einsum("bhtd,bhd->bht", do, v[:, :, j]) * scale
        dq += ds[..., None] * k[:, :, None, j]
        dk[:, :, j] = np.einsum("bht,bhtd->bhd", ds, q)
        dv[:, :, j] = np.einsum("bht,bhtd->bhd", p[..., j], do)
    return dq, dk, dv


@wrong("tiled_attention_backward", "= for += in dq: only the last key counts")
def tiled_b_assign(do, q, k, v):
    scale, p = 1 / math.sqrt(q.shape[-1]), weights(q, k)
    delta = (do * (p @ v)).sum(-1)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for j in range(k.shape[2]):
        ds = p[..., j] * (np.einsum("bhtd,bhd->bht", do, v[:, :, j]) - delta) * scale
        dq = ds[..., None] * k[:, :, None, j]
        dk[:, :, j] = np.einsum("bht,bhtd->bhd", ds, q)
        dv[:, :, j] = np.einsum("bht,bhtd->bhd", p[..., j], do)
    return dq, dk, dv


@wrong("attention", "divided by D, not by sqrt(D)")
def att_d(q, k, v):
    return softmax(q @ k.mT / q.shape[-1], axis=-1) @ v


@wrong("attention", "the scale is forgotten")
def att_unscaled(q, k, v):
    return softmax(q @ k.mT, axis=-1) @ v


@wrong("attention", "the softmax runs over the queries")
def att_queries(q, k, v):
    return softmax(q @ k.mT / math.sqrt(q.shape[-1]), axis=-2) @ v


@wrong("attention", "the mask is the wrong way round")
def att_inverted(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return softmax(s if mask is None else np.where(mask, -1e9, s), axis=-1) @ v


@wrong("scaled_dot_product_attention", "the scale is sqrt(D): multiplied, not divided")
def sdpa_multiplied(q, k, v):
    return softmax(q @ k.mT * math.sqrt(q.shape[-1]), axis=-1) @ v


@wrong("tiled_attention", "the sums are not rescaled when the maximum rises")
def tiled_rescale(q, k, v):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    m, total, acc = np.full(q.shape[:3], -np.inf), 0, 0
    for j in range(k.shape[2]):
        m = np.maximum(m, s[..., j])
        e = np.exp(s[..., j] - m)
        total, acc = total + e, acc + e[..., None] * v[:, :, None, j]
    return acc / total[..., None]


@wrong("tiled_attention", "the first key is left out")
def tiled_first(q, k, v):
    return weights(q, k[:, :, 1:]) @ v[:, :, 1:]
