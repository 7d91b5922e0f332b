"""Homework of a third-year deep learning course, as handed in, and a few versions of reviewers.

Written by hand from lecture slides, the PyTorch documentation and blog posts.
"""
import dataclasses
import math

import numpy as np
import scipy.special as sp
import torch
import torch.nn.functional as F

torch.ones(1, requires_grad=True).exp().backward(torch.ones(1))       # the first call is slow

SAMPLES = []


def sample(name, wrong, cause):
    def add(fn):
        SAMPLES.append(dict(name=name, fn=fn, wrong=wrong, cause=cause))
        return fn
    return add


# ---------------------------------------------------------------- softmax

@sample("softmax", True, "masked scores are multiplied by the mask, so they count as 0 and keep the "
        "weight e^0 instead of 0")
def hw1_softmax(x, axis=-1, mask=None):
    z = x
    if mask is not None:
        z = z * mask
    z = z - np.max(z, axis=axis, keepdims=True)
    num = np.exp(z)
    den = np.sum(num, axis=axis, keepdims=True)
    return num / den


@sample("softmax", False, "")
def softmax_via_logsumexp(x, axis=-1, mask=None):
    if mask is None:
        mask = np.ones(x.shape, dtype=bool)
    mask = np.broadcast_to(mask, x.shape)
    z = np.where(mask, x, -np.inf)
    top = np.max(z, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    z = z - top
    lse = np.logaddexp.reduce(z, axis=axis, keepdims=True)
    lse = np.where(np.isfinite(lse), lse, 0.0)
    return np.exp(z - lse)


@sample("softmax_backward", True, "the axis is moved back in the wrong direction (moveaxis(axis, -1) "
        "instead of (-1, axis)), wrong for axis=0 with three axes or more")
def hw1_softmax_grad(dp, x, axis=-1):
    xs = np.moveaxis(x, axis, -1)
    gs = np.moveaxis(dp, axis, -1)
    shp = xs.shape
    xs = xs.reshape(-1, shp[-1])
    gs = gs.reshape(-1, shp[-1])
    res = np.zeros(xs.shape)
    for r in range(xs.shape[0]):
        e = np.exp(xs[r] - xs[r].max())
        s = e / e.sum()
        jac = np.diag(s) - np.outer(s, s)        # slide 23: ds_i/dx_j = s_i (delta_ij - s_j)
        res[r] = jac.T @ gs[r]
    res = res.reshape(shp)
    return np.moveaxis(res, axis, -1)


@sample("softmax_backward", False, "")
def softmax_grad_pairs(dp, x, axis=-1):
    # dx_i = sum_j p_i p_j (dp_i - dp_j): no cancellation of large terms
    x = np.swapaxes(x, axis, -1)
    dp = np.swapaxes(dp, axis, -1)
    w = np.exp(x - x.max(-1, keepdims=True))
    p = w / w.sum(-1, keepdims=True)
    n = x.shape[-1]
    dx = np.zeros(np.broadcast(p, dp).shape)
    for j in range(n):
        dx += p * p[..., j:j + 1] * (dp - dp[..., j:j + 1])
    return np.swapaxes(dx, axis, -1)


@sample("log_softmax", True, "1e-8 is added inside the logarithm of the finished softmax: small "
        "probabilities lose their digits and the log stops at -18")
def hw1_log_softmax(x, axis=-1):
    e = np.exp(x - np.amax(x, axis=axis, keepdims=True))
    probs = e / np.sum(e, axis=axis, keepdims=True)
    return np.log(probs + 1e-8)


@sample("log_softmax_backward", True, "the sum of dy runs over the last axis whatever axis says: wrong "
        "for another axis")
def hw1_log_softmax_grad(dy, x, axis=-1):
    m = x.max(axis=axis, keepdims=True)
    e = np.exp(x - m)
    p = e / e.sum(axis=axis, keepdims=True)
    total = dy.sum(axis=-1, keepdims=True)
    return dy - p * total


@sample("log_softmax_backward", False, "")
def log_softmax_grad_matrix(dy, x, axis=-1):
    xx = np.moveaxis(x, axis, -1)
    gg = np.moveaxis(dy, axis, -1)
    p = torch.softmax(torch.tensor(np.ascontiguousarray(xx)), dim=-1).numpy()
    n = p.shape[-1]
    # J[i, j] = d y_i / d x_j = delta_ij - p_j
    out = np.einsum("...i,ij->...j", gg, np.eye(n)) - np.einsum("...i,...j->...j", gg, p)
    return np.moveaxis(out, -1, axis)


# ---------------------------------------------------------------- attention

@sample("attention", True, "the scale is 1/sqrt of the width of the values instead of the keys: wrong "
        "where D_V differs from D")
def hw4_attention(q, k, v, mask=None):
    d_k = v.shape[-1]
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    scores = scores - scores.max(axis=-1, keepdims=True)
    w = np.exp(scores)
    w = w / w.sum(axis=-1, keepdims=True)
    return np.matmul(w, v)


@sample("attention", True, "dropout of 0.1 of the weights is left on (dropout_p=0.1): the result is "
        "random")
def attention_from_pytorch_docs(q, k, v, mask=None):
    tq, tk, tv = (torch.from_numpy(np.ascontiguousarray(a)) for a in (q, k, v))
    am = None if mask is None else torch.from_numpy(
        np.broadcast_to(mask, (*q.shape[:3], k.shape[2])).copy())
    return F.scaled_dot_product_attention(tq, tk, tv, attn_mask=am, dropout_p=0.1).numpy()


@sample("attention", False, "")
def attention_by_hand(q, k, v, mask=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    out = np.zeros((B, H, T, v.shape[3]))
    if mask is None:
        mask = np.ones((T, S), bool)
    mask = np.broadcast_to(mask, (B, H, T, S))
    for b in range(B):
        for h in range(H):
            for t in range(T):
                ok = np.nonzero(mask[b, h, t])[0]
                if len(ok) == 0:
                    continue
                e = k[b, h, ok] @ q[b, h, t] / math.sqrt(D)
                a = np.exp(e - e.max())
                out[b, h, t] = a @ v[b, h, ok] / a.sum()
    return out


@sample("attention_backward", True, "einsum of dk sums over the keys instead of the queries: dscores is "
        "not transposed, wrong indices for T = S and an error for T != S")
def hw4_attention_grad(do, q, k, v, mask=None):
    c = 1 / np.sqrt(q.shape[-1])
    e = np.einsum("bhid,bhjd->bhij", q, k) * c
    if mask is not None:
        e = np.where(mask, e, -1e30)
    e = np.exp(e - e.max(-1, keepdims=True))
    if mask is not None:
        e = e * mask
    p = e / e.sum(-1, keepdims=True)
    dv = np.einsum("bhij,bhid->bhjd", p, do)
    dp = np.einsum("bhid,bhjd->bhij", do, v)
    de = p * (dp - np.einsum("bhij,bhij->bhi", p, dp)[..., None])
    dq = c * np.einsum("bhij,bhjd->bhid", de, k)
    dk = c * np.einsum("bhij,bhjd->bhid", de, q)
    return dq, dk, dv


@sample("attention_backward", True, "two mistakes: dk lacks the factor 1/sqrt(D), and the softmax's "
        "gradient is p * dp without the sum over the keys")
def hw4_attention_grad_late(do, q, k, v):
    root = math.sqrt(k.shape[-1])
    s = q @ k.transpose(0, 1, 3, 2) / root
    s -= s.max(3, keepdims=True)
    A = np.exp(s)
    A /= A.sum(3, keepdims=True)
    # O = A V
    dA = do @ v.transpose(0, 1, 3, 2)
    dV = A.transpose(0, 1, 3, 2) @ do
    # A = softmax(S)
    dS = A * dA
    # S = Q K^T / root
    dQ = (dS @ k) / root
    dK = dS.transpose(0, 1, 3, 2) @ q
    return dQ, dK, dV


@sample("attention_backward", False, "")
def attention_grad_autograd(do, q, k, v, mask=None):
    q_, k_, v_ = (torch.tensor(np.array(a), requires_grad=True) for a in (q, k, v))
    s = torch.einsum("bhtd,bhsd->bhts", q_, k_) / q.shape[-1] ** 0.5
    if mask is not None:
        m = torch.from_numpy(np.array(mask))
        s = s.masked_fill(~m, float("-inf"))
    o = torch.einsum("bhts,bhsd->bhtd", torch.softmax(s, dim=-1), v_)
    o.backward(torch.tensor(np.array(do)))
    return q_.grad.numpy(), k_.grad.numpy(), v_.grad.numpy()


@sample("scaled_dot_product_attention", True, "grouped heads: query head h uses key-value head h % G "
        "(tile) instead of h // (H / G) (repeat)")
def hw5_gqa(q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    k = np.tile(k, (1, H // G, 1, 1))
    v = np.tile(v, (1, H // G, 1, 1))
    if scale is None:
        scale = D ** -0.5
    logits = np.einsum("bhtd,bhsd->bhts", q, k) * scale
    if pattern is not None:
        logits = np.where(pattern.dense(T, S), logits, -np.inf)
    top = logits.max(-1, keepdims=True)
    top = np.where(np.isinf(top), 0, top)
    w = np.exp(logits - top)
    z = w.sum(-1, keepdims=True)
    return np.einsum("bhts,bhsd->bhtd", w / np.where(z == 0, 1, z), v)


@sample("scaled_dot_product_attention", True, "ALiBi's distance is |i - j| without the shift S - T: "
        "wrong where there are more keys than queries")
def hw5_alibi_attention(q, k, v, pattern=None, scale=None, slopes=None):
    B, H, T, D = q.shape
    S, rep = k.shape[2], H // k.shape[1]
    kk, vv = k.repeat(rep, axis=1), v.repeat(rep, axis=1)
    a = np.matmul(q, kk.transpose(0, 1, 3, 2))
    a = a * (1.0 / math.sqrt(D) if scale is None else scale)
    if slopes is not None:
        rel = np.abs(np.arange(T)[:, None] - np.arange(S)[None, :])
        a = a - slopes.reshape(1, H, 1, 1) * rel
    allowed = np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)
    a = np.where(allowed, a, -np.inf)
    mx = a.max(axis=-1, keepdims=True)
    mx[np.isneginf(mx)] = 0.0
    a = np.exp(a - mx)
    den = a.sum(axis=-1, keepdims=True)
    den[den == 0] = 1.0
    return np.matmul(a / den, vv)


@sample("scaled_dot_product_attention", True, "with one query the pattern is not applied: right for "
        "causal alone, wrong for a window, lengths or a mask")
def kv_cache_attention(q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    s = D ** -0.5 if scale is None else scale
    qg = q.reshape(B, G, H // G, T, D)
    z = np.einsum("bgrtd,bgsd->bgrts", qg, k).reshape(B, H, T, S) * s
    # decoding: the newest token sees the whole cache, no mask needed
    if pattern is not None and T > 1:
        z = np.where(pattern.dense(T, S), z, -np.inf)
    m = z.max(-1, keepdims=True)
    m = np.where(np.isfinite(m), m, 0)
    p = np.exp(z - m)
    n = p.sum(-1, keepdims=True)
    p = (p / np.where(n > 0, n, 1)).reshape(B, G, H // G, T, S)
    return np.einsum("bgrts,bgsd->bgrtd", p, v).reshape(B, H, T, -1)


@sample("scaled_dot_product_attention", False, "")
def gqa_by_groups(q, k, v, pattern=None, scale=None, slopes=None, softcap=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    R = H // G
    o = np.zeros((B, H, T, v.shape[-1]))
    ok = np.ones((1, 1, T, S), bool)
    if pattern is not None:
        ok = pattern.dense(T, S)
        ok = ok[None, None] if ok.ndim == 2 else ok
    ok = np.broadcast_to(ok, (B, H, T, S))
    pos_q = np.arange(T) + S - T
    dist = np.abs(np.subtract.outer(pos_q, np.arange(S)))
    for h in range(H):
        z = np.einsum("btd,bsd->bts", q[:, h], k[:, h // R])
        z = z / np.sqrt(D) if scale is None else z * scale
        if softcap is not None:
            z = softcap * np.tanh(z / softcap)
        if slopes is not None:
            z = z - slopes[h] * dist
        z = np.where(ok[:, h], z, -np.inf)
        top = z.max(2, keepdims=True)
        e = np.exp(z - np.where(np.isneginf(top), 0, top))
        tot = e.sum(2, keepdims=True)
        o[:, h] = np.matmul(e, v[:, h // R]) / np.where(tot == 0, 1, tot)
    return o


@sample("scaled_dot_product_attention_backward", True, "the derivative of the soft cap is taken at the "
        "score after ALiBi was subtracted: wrong only where softcap and slopes meet")
def sdpa_grad_gemma_bloom(do, q, k, v, pattern=None, scale=None, slopes=None, softcap=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    rep = H // G
    K, V = np.repeat(k, rep, 1), np.repeat(v, rep, 1)
    sc = 1 / np.sqrt(D) if scale is None else scale
    z = sc * (q @ K.swapaxes(2, 3))
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    if slopes is not None:
        d = np.abs(np.arange(S - T, S)[:, None] - np.arange(S))
        z = z - slopes[None, :, None, None] * d
    vis = np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)
    zm = np.where(vis, z, -np.inf)
    m = zm.max(-1, keepdims=True)
    e = np.exp(zm - np.where(np.isinf(m), 0, m))
    tot = e.sum(-1, keepdims=True)
    p = e / np.where(tot == 0, 1, tot)
    dV = p.swapaxes(2, 3) @ do
    dp = do @ V.swapaxes(2, 3)
    dz = p * (dp - (p * dp).sum(-1, keepdims=True))
    if softcap is not None:
        dz = dz * (1 - (z / softcap) ** 2)
    dq = sc * dz @ K
    dK = sc * dz.swapaxes(2, 3) @ q
    return dq, dK.reshape(B, G, rep, S, D).sum(2), dV.reshape(B, G, rep, S, -1).sum(2)


@sample("scaled_dot_product_attention", True, "the window is one key too narrow on the left: j > i - left instead "
        "of j >= i - left")
def hw5_local_attention(q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    k, v = (np.repeat(a, H // a.shape[1], axis=1) for a in (k, v))
    s = np.matmul(q, k.swapaxes(-1, -2)) * (scale if scale is not None else 1 / np.sqrt(D))
    vis = np.ones((T, S), bool)
    if pattern is not None:
        vis = dataclasses.replace(pattern, window=None).dense(T, S)
        if pattern.window is not None:
            left, right = pattern.window
            i = np.arange(T)[:, None] + S - T
            j = np.arange(S)[None]
            near = np.ones((T, S), bool)
            if left is not None:
                near &= (j > i - left) | (j == i)
            if right is not None:
                near &= j <= i + right
            vis = vis & near
    s = np.where(vis, s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isinf(top), 0, top))
    n = e.sum(-1, keepdims=True)
    return np.einsum("bhts,bhsd->bhtd", e / np.where(n == 0, 1, n), v)


@sample("tiled_attention", True, "when the maximum rises only the sum is rescaled, not the accumulated "
        "values: wrong beyond one tile of keys")
def hw6_flash(q, k, v, pattern=None, scale=None, tile=64):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    k, v = np.repeat(k, H // G, 1), np.repeat(v, H // G, 1)
    scale = 1 / math.sqrt(D) if scale is None else scale
    vis = np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)
    m = np.full((B, H, T, 1), -np.inf)
    l = np.zeros((B, H, T, 1))
    acc = np.zeros((B, H, T, v.shape[-1]))
    for j in range(0, S, tile):
        s = np.einsum("bhtd,bhsd->bhts", q, k[:, :, j:j + tile]) * scale
        s = np.where(vis[..., j:j + tile], s, -np.inf)
        m_new = np.maximum(m, s.max(-1, keepdims=True))
        safe = np.where(np.isinf(m_new), 0, m_new)
        p = np.exp(s - safe)
        l = l * np.exp(m - safe) + p.sum(-1, keepdims=True)
        acc = acc + p @ v[:, :, j:j + tile]
        m = m_new
    return acc / np.where(l == 0, 1, l)


@sample("tiled_attention", True, "the keys after the last full block of 16 are left out")
def blockwise_attention(q, k, v, pattern=None, scale=None):
    BS = 16
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    g = H // G
    scale = scale or D ** -0.5
    n_blocks = max(1, S // BS)
    vis = np.broadcast_to(True if pattern is None else pattern.dense(T, S), (B, H, T, S))
    mx = np.full((B, H, T), -np.inf)
    den = np.zeros((B, H, T))
    num = np.zeros((B, H, T, v.shape[3]))
    for blk in range(n_blocks):
        sl = slice(blk * BS, min((blk + 1) * BS, S))
        kb = k[:, :, sl].repeat(g, 1)
        vb = v[:, :, sl].repeat(g, 1)
        s = np.where(vis[..., sl], q @ kb.swapaxes(2, 3) * scale, -np.inf)
        new = np.maximum(mx, s.max(-1))
        ref = np.where(np.isneginf(new), 0, new)
        corr = np.exp(mx - ref)
        e = np.exp(s - ref[..., None])
        den = den * corr + e.sum(-1)
        num = num * corr[..., None] + e @ vb
        mx = new
    return num / np.where(den == 0, 1, den)[..., None]


@sample("tiled_attention", False, "")
def tiled_two_passes(q, k, v, pattern=None, scale=None):
    # pass 1: the maxima; pass 2: sums, from the last tile to the first
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    head = np.arange(H) // (H // G)
    kh, vh = k[:, head], v[:, head]
    c = D ** -0.5 if scale is None else scale
    vis = np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)
    starts = list(range(0, S, 24))

    def tile(j):
        s = np.einsum("bhtd,bhsd->bhts", q, kh[:, :, j:j + 24]) * c
        return np.where(vis[..., j:j + 24], s, -np.inf)

    top = np.full((B, H, T, 1), -np.inf)
    for j in starts:
        top = np.maximum(top, tile(j).max(axis=-1, keepdims=True))
    top = np.where(np.isneginf(top), 0, top)
    numer, denom = 0.0, 0.0
    for j in reversed(starts):
        e = np.exp(tile(j) - top)
        numer = numer + np.einsum("bhts,bhsd->bhtd", e, vh[:, :, j:j + 24])
        denom = denom + e.sum(axis=-1, keepdims=True)
    return numer / np.where(denom == 0, 1, denom)


@sample("tiled_attention_backward", True, "delta, the sum of p * dp, is taken over the keys of the tile "
        "instead of all keys: wrong beyond 32 keys")
def hw6_flash_grad(do, q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    rep = H // G
    kk, vv = np.repeat(k, rep, axis=1), np.repeat(v, rep, axis=1)
    sc = D ** -0.5 if scale is None else scale
    vis = np.broadcast_to(True if pattern is None else pattern.dense(T, S), (B, H, T, S))
    s = np.where(vis, sc * q @ kk.swapaxes(2, 3), -np.inf)
    m = s.max(-1, keepdims=True)
    m = np.where(np.isinf(m), 0, m)
    l = np.exp(s - m).sum(-1, keepdims=True)
    l = np.where(l == 0, 1, l)
    dq, dk, dv = np.zeros(q.shape), np.zeros(kk.shape), np.zeros(vv.shape)
    for j in range(0, S, 32):
        J = slice(j, j + 32)
        P = np.exp(s[..., J] - m) / l
        dv[:, :, J] = P.swapaxes(2, 3) @ do
        dP = do @ vv[:, :, J].swapaxes(2, 3)
        dS = P * (dP - (P * dP).sum(-1, keepdims=True))
        dq += sc * dS @ kk[:, :, J]
        dk[:, :, J] = sc * dS.swapaxes(2, 3) @ q
    dk = dk.reshape(B, G, rep, S, -1).sum(axis=2)
    dv = dv.reshape(B, G, rep, S, -1).sum(axis=2)
    return dq, dk, dv


# ---------------------------------------------------------------- other attentions and scores

@sample("linear_attention", True, "if causal, the numerator is a prefix sum but the normalizer sums over "
        "all keys")
def hw7_linear_attention(q, k, v, causal=False):
    def phi(u):
        return np.where(u > 0, u + 1, np.exp(np.minimum(u, 0)))

    fq, fk = phi(q), phi(k)
    if not causal:
        kv = np.einsum("bhsd,bhse->bhde", fk, v)
        num = np.einsum("bhtd,bhde->bhte", fq, kv)
    else:
        kv = np.cumsum(np.einsum("bhsd,bhse->bhsde", fk, v), axis=2)
        num = np.einsum("bhtd,bhtde->bhte", fq, kv)
    z = 1.0 / np.einsum("bhtd,bhd->bht", fq, fk.sum(axis=2))
    return num * z[..., None]


@sample("linear_attention", False, "")
def linear_attention_logspace(q, k, v, causal=False):
    q, k = q.astype(np.float64), k.astype(np.float64)
    lq = np.where(q > 0, np.log1p(np.maximum(q, 0)), q)
    lk = np.where(k > 0, np.log1p(np.maximum(k, 0)), k)
    B, H, T, D = q.shape
    S = k.shape[2]
    z = np.full((B, H, T, S), -np.inf)
    for d in range(D):
        z = np.logaddexp(z, lq[..., d][..., :, None] + lk[..., d][..., None, :])
    if causal:
        z = np.where(np.tri(T, S, dtype=bool), z, -np.inf)
    w = np.exp(z - z.max(-1, keepdims=True))
    return (w / w.sum(-1, keepdims=True)) @ v


@sample("linear_attention_backward", True, "the branch of the derivative of elu(x) + 1 is chosen by the "
        "feature, which is always positive: the slope is 1 also for negative x, not e^x")
def hw7_linear_attention_grad(do, q, k, v):
    a = np.where(q > 0, q + 1, np.exp(np.minimum(q, 0)))
    b = np.where(k > 0, k + 1, np.exp(np.minimum(k, 0)))
    w = np.einsum("bhtd,bhsd->bhts", a, b)
    n = w.sum(-1, keepdims=True)
    p = w / n
    dv = np.einsum("bhts,bhte->bhse", p, do)
    dp = np.einsum("bhte,bhse->bhts", do, v)
    dw = (dp - (dp * p).sum(-1, keepdims=True)) / n
    da = np.einsum("bhts,bhsd->bhtd", dw, b)
    db = np.einsum("bhts,bhtd->bhsd", dw, a)
    dq = da * np.where(a > 0, 1.0, a)
    dk = db * np.where(b > 0, 1.0, b)
    return dq, dk, dv


@sample("low_rank_attention_backward", True, "dv goes back through the projection of the keys instead of "
        "that of the values")
def hw7_linformer_grad(do, q, k, v, key_projection, value_projection):
    E, Fp = key_projection, value_projection
    c = q.shape[-1] ** -0.5
    kk, vv = E @ k, Fp @ v
    s = c * q @ kk.swapaxes(-1, -2)
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    dvv = p.swapaxes(-1, -2) @ do
    dp = do @ vv.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    dq = c * ds @ kk
    dkk = c * ds.swapaxes(-1, -2) @ q
    dE = np.einsum("bhrd,bhsd->rs", dkk, k)
    dF = np.einsum("bhrd,bhsd->rs", dvv, v)
    return dq, E.T @ dkk, E.T @ dvv, dE, dF


@sample("sparse_attention", True, "-1, which stands for no key, is not masked: it reads the last key and "
        "value")
def hw7_sparse(q, k, v, keys):
    kg = k[:, :, keys]                      # (B, H, T, M, D)
    vg = v[:, :, keys]
    s = np.einsum("bhtd,bhtmd->bhtm", q, kg) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    return np.einsum("bhtm,bhtmd->bhtd", p, vg)


@sample("relative_values_backward", True, "distances are j - i without aligning the last query with the "
        "last key: wrong for T != S")
def hw8_shaw_values_grad(do, p, table):
    B, H, T, S = p.shape
    K = len(table) // 2
    idx = np.zeros((T, S), int)
    for i in range(T):
        for j in range(S):
            idx[i, j] = max(-K, min(K, j - i)) + K
    vecs = table[idx]                                   # (T, S, D)
    dp = np.einsum("bhtd,tsd->bhts", do, vecs)
    dvecs = np.einsum("bhts,bhtd->tsd", p, do)
    dtable = np.zeros(table.shape)
    np.add.at(dtable, idx, dvecs)
    return dp, dtable


@sample("relative_attention", True, "two mistakes: the term of the key table is not scaled, and the "
        "distance is clipped to 0 .. 2K after adding K from query minus key (wrong sign)")
def hw8_shaw_attention(q, k, v, key_table, value_table):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    k, v = np.repeat(k, H // G, 1), np.repeat(v, H // G, 1)
    off = np.arange(S - T, S)[:, None] - np.arange(S)
    Kk, Kv = len(key_table) // 2, len(value_table) // 2
    rk = key_table[np.clip(off + Kk, 0, 2 * Kk)]
    rv = value_table[np.clip(off + Kv, 0, 2 * Kv)]
    e = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(D) + np.einsum("bhtd,tsd->bhts", q, rk)
    w = np.exp(e - e.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    return np.einsum("bhts,bhsd->bhtd", w, v) + np.einsum("bhts,tsd->bhtd", w, rv)


@sample("additive_scores_backward", True, "the derivative of tanh is taken as t (1 - t), which is that of "
        "the sigmoid")
def hw3_bahdanau_grad(dscores, q, k, v):
    t = np.tanh(q[:, :, None, :] + k[:, None, :, :])
    dv = np.einsum("bts,btsa->a", dscores, t)
    dt = np.einsum("bts,a->btsa", dscores, v)
    dpre = dt * t * (1 - t)
    return dpre.sum(2), dpre.sum(1), dv


@sample("general_scores_backward", False, "")
def luong_grad_einsum(dscores, q, k, weight):
    dq = np.einsum("bts,cd,bsd->btc", dscores, weight, k, optimize=True)
    dk = np.einsum("bts,btc,cd->bsd", dscores, q, weight, optimize=True)
    dw = np.einsum("bts,btc,bsd->cd", dscores, q, k, optimize=True)
    return dq, dk, dw


@sample("distance_weights_backward", True, "the gradient of the slopes is averaged over the batch of the "
        "mask instead of summed")
def hw9_distance_grad(dp, slopes, mask):
    T, S = mask.shape[-2:]
    dist = np.abs((np.arange(T) + S - T).reshape(-1, 1) - np.arange(S).reshape(1, -1))
    sc = -slopes.reshape(-1, 1, 1) * dist
    sc = np.where(mask, sc, -np.inf)
    mx = sc.max(-1, keepdims=True)
    e = np.exp(sc - np.where(np.isinf(mx), 0, mx))
    tot = e.sum(-1, keepdims=True)
    p = e / np.where(tot == 0, 1, tot)
    dz = p * (dp - (p * dp).sum(-1, keepdims=True))
    g = -np.einsum("...hts,ts->...h", dz, dist)
    return g if g.ndim == 1 else g.mean(axis=0)


@sample("add_by_distance_backward", True, "dbias sums over the first axis alone: wrong where scores have "
        "two batch axes or none")
def hw9_t5_bias_grad(dy, scores, bias):
    H, T, S = scores.shape[-3:]
    db = np.zeros(bias.shape)
    flat = dy.sum(axis=0)
    for r in range(T + S - 1):
        db[:, r] = np.trace(flat, offset=r - (T - 1), axis1=-2, axis2=-1)
    return dy.copy(), db


@sample("add_by_distance", False, "")
def t5_bias_windows(scores, bias):
    T, S = scores.shape[-2:]
    rows = np.lib.stride_tricks.sliding_window_view(bias, S, axis=1)      # (H, T, S)
    return scores + rows[:, ::-1]


# ---------------------------------------------------------------- positions

@sample("rotary", True, "layout interleaved: the rotated pairs are put back as two halves instead of "
        "interleaved")
def hw10_rope(x, cosine, sine, layout="half"):
    d = x.shape[-1]
    if layout == "half":
        x1, x2 = x[..., :d // 2], x[..., d // 2:]
    else:
        x1, x2 = x[..., ::2], x[..., 1::2]
    return np.concatenate([x1 * cosine - x2 * sine, x1 * sine + x2 * cosine], axis=-1)


@sample("rotary", False, "")
def rope_complex(x, cosine, sine, layout="half"):
    D = x.shape[-1]
    turn = cosine.astype(float) + 1j * sine
    y = np.empty(x.shape)
    if layout == "half":
        a, b = np.arange(D // 2), np.arange(D // 2, D)
    else:
        a, b = np.arange(0, D, 2), np.arange(1, D, 2)
    z = (x[..., a] + 1j * x[..., b]) * turn
    y[..., a] = z.real
    y[..., b] = z.imag
    return y


@sample("partial_rotary", True, "the last R coordinates are rotated instead of the first R")
def hw10_partial_rope(x, cosine, sine):
    R = 2 * cosine.shape[-1]
    n = x.shape[-1] - R
    keep, rot = x[..., :n], x[..., n:]
    a, b = rot[..., :R // 2], rot[..., R // 2:]
    rot = np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)
    return np.concatenate([keep, rot], axis=-1)


@sample("partial_rotary_backward", False, "")
def partial_rope_grad_matrix(dy, x, cosine, sine, layout="half"):
    D, half = x.shape[-1], cosine.shape[1]
    T = x.shape[-2]
    M = np.zeros((T, D, D))                       # y_t = M_t x_t
    M[:, np.arange(D), np.arange(D)] = 1
    for i in range(half):
        a, b = (i, i + half) if layout == "half" else (2 * i, 2 * i + 1)
        M[:, a, a], M[:, a, b] = cosine[:, i], -sine[:, i]
        M[:, b, a], M[:, b, b] = sine[:, i], cosine[:, i]
    return np.einsum("...td,tdc->...tc", dy, M)


@sample("relative_position_bias", True, "the distances run from -(T - 1) to S - 1 instead of -(S - 1) to "
        "T - 1: wrong for T != S")
def hw9_t5_table(table, T, S, max_distance=128, bidirectional=True):
    out = np.zeros((table.shape[1], T + S - 1))
    n_all = table.shape[0]
    for col, d in enumerate(range(-(T - 1), S)):
        n = n_all // 2 if bidirectional else n_all
        bucket = n if (bidirectional and d > 0) else 0
        a = abs(d) if bidirectional else max(-d, 0)
        exact = n // 2
        if a < exact:
            bucket += a
        else:
            lg = exact + int(np.log(a / exact) / math.log(max_distance / exact) * (n - exact))
            bucket += min(n - 1, lg)
        out[:, col] = table[bucket]
    return out


# ---------------------------------------------------------------- norms

@sample("layer_norm", True, "the variance is the unbiased one, divided by C - 1 (torch.var's default)")
def hw2_layer_norm(x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    mu = np.sum(x, axis=-1, keepdims=True) / C
    var = np.sum((x - mu) ** 2, axis=-1, keepdims=True) / (C - 1)
    return weight * (x - mu) / np.sqrt(var + epsilon) + bias


@sample("layer_norm", True, "computed in float32 (.float()): half of the digits are lost")
def layer_norm_torch_float(x, weight, bias, epsilon=1e-5):
    t = torch.as_tensor(np.ascontiguousarray(x)).float()
    w = torch.as_tensor(np.ascontiguousarray(weight)).float()
    b = torch.as_tensor(np.ascontiguousarray(bias)).float()
    y = F.layer_norm(t, (t.shape[-1],), w, b, eps=epsilon)
    return y.numpy().astype(x.dtype)


@sample("layer_norm_backward", True, "two mistakes: the term of the mean (mean of g) is missing in dx, "
        "and dbias is a mean over the vectors instead of a sum")
def hw2_layer_norm_grad(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    X, G = x.reshape(-1, C), dy.reshape(-1, C)
    dX = np.zeros(X.shape)
    dw = np.zeros(C)
    for n in range(len(X)):
        xc = X[n] - X[n].mean()
        inv = 1 / np.sqrt((xc ** 2).mean() + epsilon)
        xh = xc * inv
        dw += G[n] * xh
        g = G[n] * weight
        dX[n] = inv * (g - xh * (g * xh).mean())
    return dX.reshape(x.shape), dw, G.mean(axis=0)


@sample("layer_norm_backward", True, "dweight and dbias sum over axes 0 and 1 whatever there is: right "
        "for three axes alone")
def hw2_layer_norm_grad_btc(dy, x, weight, bias, epsilon=1e-5):
    mu = x.mean(-1, keepdims=True)
    sd = np.sqrt(((x - mu) ** 2).mean(-1, keepdims=True) + epsilon)
    n = (x - mu) / sd
    dgamma = (dy * n).sum(axis=(0, 1))
    dbeta = dy.sum(axis=(0, 1))
    g = dy * weight
    dx = (g - g.mean(-1, keepdims=True) - n * (g * n).mean(-1, keepdims=True)) / sd
    return dx, dgamma, dbeta


@sample("layer_norm_backward", False, "")
def layer_norm_grad_jacobian(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    P = np.eye(C) - np.ones((C, C)) / C                   # centring, a symmetric projection
    xs, gs = x.reshape(-1, C), dy.reshape(-1, C)
    dxs = np.zeros(xs.shape)
    dgamma, dbeta = np.zeros(C), np.zeros(C)
    for r, (row, g) in enumerate(zip(xs, gs)):
        c = row - row.mean()
        rstd = 1 / math.sqrt(float(c @ c) / C + epsilon)
        h = rstd * c
        gw = P @ (g * weight)
        dxs[r] = rstd * (gw - h * (h @ gw) / C)
        dgamma += g * h
        dbeta += g
    return dxs.reshape(x.shape), dgamma, dbeta


@sample("rms_norm_backward", True, "two mistakes: dweight uses x instead of the normalized x, and the "
        "inner mean leaves the weight out (dy * x_hat instead of weight * dy * x_hat)")
def hw2_rms_norm_grad(dy, x, weight, epsilon=1e-5):
    inv = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)
    xn = x * inv
    dw = (dy * x).reshape(-1, x.shape[-1]).sum(0)
    dx = inv * (dy * weight - xn * np.mean(dy * xn, axis=-1, keepdims=True))
    return dx, dw


@sample("rms_norm_outside", False, "")
def rms_outside_loops(x, weight, epsilon=1e-5):
    C = x.shape[-1]
    flat = x.reshape(-1, C)
    y = np.zeros(flat.shape)
    for i, vec in enumerate(flat):
        big = np.abs(vec).max()
        unit = vec / big if big > 0 else vec
        rms = big * math.sqrt(math.fsum(float(u) * float(u) for u in unit) / C)
        y[i] = vec / (rms + epsilon) * weight
    return y.reshape(x.shape)


@sample("layer_norm_outside_backward", True, "kappa = (sigma + eps) / sigma is missing in the term of the "
        "variance: the formula of epsilon inside the root")
def annotated_norm_grad(dy, x, weight, bias, epsilon=1e-5):
    mean = x.mean(-1, keepdims=True)
    std = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True))
    xh = (x - mean) / (std + epsilon)
    lead = tuple(range(x.ndim - 1))
    g = weight * dy
    dx = (g - g.mean(-1, keepdims=True) - xh * (xh * g).mean(-1, keepdims=True)) / (std + epsilon)
    return dx, np.sum(dy * xh, axis=lead), np.sum(dy, axis=lead)


@sample("batch_norm", True, "the sums over all vectors are divided by the size of the first axis alone: "
        "right for two axes, wrong for three")
def hw2_batch_norm(x, weight, bias, epsilon=1e-5):
    m = x.shape[0]
    ax = tuple(range(x.ndim - 1))
    mu = x.sum(axis=ax) / m
    var = ((x - mu) ** 2).sum(axis=ax) / m
    return weight * (x - mu) / np.sqrt(var + epsilon) + bias


@sample("batch_norm_backward", True, "the variance is treated as a constant: its path of the gradient is "
        "missing")
def hw2_batch_norm_grad(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    X, G = x.reshape(-1, C), dy.reshape(-1, C)
    N = len(X)
    mu = X.mean(0)
    ivar = 1 / np.sqrt(X.var(0) + epsilon)
    xhat = (X - mu) * ivar
    dgamma = (G * xhat).sum(0)
    dbeta = G.sum(0)
    dxmu = G * weight * ivar
    dmu = -dxmu.sum(0)
    dX = dxmu + dmu / N
    return dX.reshape(x.shape), dgamma, dbeta


@sample("batch_norm_backward", False, "")
def batch_norm_grad_kratzert(dy, x, weight, bias, epsilon=1e-5):
    # the computational graph of the blog post, node by node
    D = x.shape[-1]
    X = x.reshape(-1, D)
    out = dy.reshape(-1, D)
    N = X.shape[0]
    xmu = X - 1. / N * np.sum(X, axis=0)
    sqrtvar = np.sqrt(1. / N * np.sum(xmu ** 2, axis=0) + epsilon)
    ivar = 1. / sqrtvar
    xhat = xmu * ivar
    dbeta = np.sum(out, axis=0)
    dgamma = np.sum(out * xhat, axis=0)
    dxhat = out * weight
    divar = np.sum(dxhat * xmu, axis=0)
    dxmu1 = dxhat * ivar
    dsqrtvar = -1. / sqrtvar ** 2 * divar
    dvar = 0.5 * ivar * dsqrtvar
    dxmu2 = 2 * xmu * (1. / N * np.ones((N, D)) * dvar)
    dx1 = dxmu1 + dxmu2
    dmu = -1 * np.sum(dx1, axis=0)
    return (dx1 + 1. / N * np.ones((N, D)) * dmu).reshape(x.shape), dgamma, dbeta


@sample("masked_batch_norm", True, "the mean and the variance are divided by the number of all positions "
        "instead of the real ones")
def hw2_masked_bn(x, weight, bias, mask, epsilon=1e-5):
    m = mask[..., None].astype(x.dtype)
    C = x.shape[-1]
    N = mask.size
    mean = (x * m).reshape(-1, C).sum(0) / N
    var = (((x - mean) * m) ** 2).reshape(-1, C).sum(0) / N
    return m * (weight * (x - mean) / np.sqrt(var + epsilon) + bias)


# ---------------------------------------------------------------- activations and feed-forwards

@sample("gelu", True, "erf is the approximation of Abramowitz and Stegun, right to 1e-7 only")
def hw2_gelu(x):
    z = np.abs(x) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (
        -1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - poly * np.exp(-z * z))
    return x * 0.5 * (1 + erf)


@sample("gelu", False, "")
def gelu_ndtr(x):
    with np.errstate(under="ignore"):
        return x * np.exp(sp.log_ndtr(x))


@sample("gelu_tanh_backward", True, "the derivative of the cubic term lacks its factor 3")
def hw2_gelu_tanh_grad(dy, x):
    c = np.sqrt(2 / np.pi)
    x = np.clip(x, -50, 50)
    th = np.tanh(c * (x + 0.044715 * x ** 3))
    sech2 = 1 - th ** 2
    return dy * (0.5 * (1 + th) + 0.5 * x * sech2 * c * (1 + 0.044715 * x ** 2))


@sample("swish_backward", True, "the factor beta of the inner derivative is missing: right for beta = 1 "
        "alone")
def hw2_swish_grad(dy, x, beta=1.0):
    s = sp.expit(beta * x)
    return dy * (s + x * s * (1 - s))


@sample("sigmoid", True, "e^x / (1 + e^x) overflows for large x and gives NaN")
def hw1_sigmoid(x):
    with np.errstate(over="ignore", invalid="ignore"):
        ex = np.exp(x)
        return ex / (1 + ex)


@sample("sigmoid", False, "")
def sigmoid_logaddexp(x):
    return np.exp(-np.logaddexp(0, -x))


@sample("relu_backward", True, "dx is dy itself, so the zeros are written into the argument dy")
def hw1_relu_grad(dy, x):
    dx = dy
    dx[x <= 0] = 0
    return dx


@sample("relu_squared_backward", True, "2 x dy also for negative x: the gate of the ReLU is missing")
def primer_grad(dy, x):
    return np.multiply(2 * x, dy)


@sample("gated_linear_unit_backward", True, "the derivative of the gate is s (1 - s), that of the sigmoid, "
        "instead of SiLU's s + g s (1 - s)")
def hw11_swiglu_grad(dy, g, h):
    s = sp.expit(g)
    dh = dy * g * s
    dg = dy * h * s * (1 - s)
    return dg, dh


@sample("feed_forward_backward", True, "the derivative of GELU is taken at its output a instead of its "
        "input h")
def hw11_mlp_grad(dy, x, hidden_weight, hidden_bias, output_weight, output_bias):
    C, E = x.shape[-1], dy.shape[-1]
    X, G = x.reshape(-1, C), dy.reshape(-1, E)
    pre = X @ hidden_weight
    if hidden_bias is not None:
        pre = pre + hidden_bias
    act = pre * sp.ndtr(pre)
    dact = G @ output_weight.T
    dpre = dact * (sp.ndtr(act) + act * np.exp(-act ** 2 / 2) / math.sqrt(2 * math.pi))
    return ((dpre @ hidden_weight.T).reshape(x.shape), X.T @ dpre,
            None if hidden_bias is None else dpre.sum(0), act.T @ G,
            None if output_bias is None else G.sum(0))


@sample("feed_forward_backward", False, "")
def mlp_grad_einsum(dy, x, hidden_weight, hidden_bias, output_weight, output_bias):
    h = np.einsum("...c,cf->...f", x, hidden_weight)
    if hidden_bias is not None:
        h = h + hidden_bias
    Phi = 0.5 * sp.erfc(-h / math.sqrt(2))
    near = np.clip(h, -60, 60)
    dPhi = np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    da = np.einsum("...e,fe->...f", dy, output_weight)
    dh = da * (Phi + near * dPhi)
    lead = tuple(range(x.ndim - 1))
    dW1 = np.tensordot(x, dh, axes=(lead, lead))
    dW2 = np.tensordot(h * Phi, dy, axes=(lead, lead))
    return (np.einsum("...f,cf->...c", dh, hidden_weight), dW1,
            None if hidden_bias is None else dh.sum(axis=lead), dW2,
            None if output_bias is None else dy.sum(axis=lead))


@sample("gated_feed_forward_backward", True, "two mistakes: dx lacks the path through the gate, and the "
        "gradient of the output weight uses the hidden units h instead of f(g) * h")
def hw11_llama_mlp_grad(dy, x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight,
                        output_bias):
    lin = lambda w, b: x @ w if b is None else x @ w + b
    flat = lambda t: t.reshape(-1, t.shape[-1])
    g, h = lin(gate_weight, gate_bias), lin(hidden_weight, hidden_bias)
    s = sp.expit(g)
    da = dy @ output_weight.T
    dh = da * g * s
    dg = da * h * (s + g * s * (1 - s))
    dx = dh @ hidden_weight.T
    bsum = lambda t, b: None if b is None else flat(t).sum(0)
    return (dx, flat(x).T @ flat(dg), bsum(dg, gate_bias), flat(x).T @ flat(dh),
            bsum(dh, hidden_bias), flat(h).T @ flat(dy), bsum(dy, output_bias))


@sample("linear", True, "x is flattened in Fortran order and put back in C order: the vectors are mixed up "
        "where there are three axes or more")
def hw1_linear(x, weight, bias=None):
    flat = x.reshape((-1, x.shape[-1]), order="F")
    y = np.dot(flat, weight)
    if bias is not None:
        y += bias
    return y.reshape(x.shape[:-1] + (weight.shape[1],))


_ROPE_TABLES = {}


@sample("rotary", True, "cosine and sine are kept from the first call with the same shape: state between "
        "calls, wrong for other angles in the same shapes")
def rope_with_buffers(x, cosine, sine, layout="half"):
    T, D = x.shape[-2:]
    if (T, D, layout) not in _ROPE_TABLES:            # like register_buffer
        if layout == "half":
            c, s = np.concatenate([cosine] * 2, -1), np.concatenate([sine] * 2, -1)
        else:
            c, s = np.repeat(cosine, 2, axis=-1), np.repeat(sine, 2, axis=-1)
        _ROPE_TABLES[T, D, layout] = c, s
    c, s = _ROPE_TABLES[T, D, layout]
    if layout == "half":
        turned = np.concatenate([-x[..., D // 2:], x[..., :D // 2]], axis=-1)
    else:
        turned = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    return x * c + turned * s


# ---------------------------------------------------------------- losses

@sample("cross_entropy", True, "the z-loss is averaged over all targets, ignored ones counted: wrong only "
        "where z_loss and ignored targets meet")
def hw12_cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    Z, y = logits.reshape(-1, V), targets.reshape(-1)
    mx = Z.max(1)
    lse = mx + np.log(np.exp(Z - mx[:, None]).sum(1))
    keep = (y != ignore_index)
    n = keep.sum()
    logp = (Z - mx[:, None]) - (lse - mx)[:, None]
    nll = -logp[np.arange(len(y)), np.where(keep, y, 0)]
    smooth = -logp.mean(1)
    loss = (1 - label_smoothing) * (nll * keep).sum() / n + label_smoothing * (smooth * keep).sum() / n
    if z_loss > 0:
        loss = loss + z_loss * np.mean(np.where(keep, lse, 0) ** 2)
    return loss


@sample("cross_entropy", False, "")
def cross_entropy_token_loop(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    total, count = 0.0, 0
    for pos in np.ndindex(targets.shape):
        y = int(targets[pos])
        if y == ignore_index:
            continue
        z = logits[pos].astype(float)
        top = z.max()
        rest = math.log(np.exp(z - top).sum())
        logp = (z - top) - rest
        q = np.full(len(z), label_smoothing / len(z))
        q[y] += 1 - label_smoothing
        total += -float(q @ logp) + z_loss * (top + rest) ** 2
        count += 1
    return np.float64(total / count)


@sample("cross_entropy_backward", True, "label smoothing: -eps/V stays in the gradient at ignored "
        "positions, wrong only where smoothing and ignored targets meet")
def hw12_cross_entropy_grad(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0):
    V = logits.shape[-1]
    valid = (targets != ignore_index)[..., None]
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    onehot = (np.arange(V) == targets[..., None]) * valid
    q = (1 - label_smoothing) * onehot + label_smoothing / V
    return dloss * (p * valid - q) / valid.sum()


@sample("linear_cross_entropy", False, "")
def cut_cross_entropy(x, weight, targets, ignore_index=-100, label_smoothing=0.0):
    # seven classes at a time, with a running maximum and a running sum
    V, C = weight.shape
    X, y = x.reshape(-1, C), targets.reshape(-1)
    X, y = X[y != ignore_index], y[y != ignore_index]
    n = len(y)
    top, total = np.full(n, -np.inf), np.zeros(n)
    hit, mean = np.zeros(n), np.zeros(n)
    for lo in range(0, V, 7):
        z = np.einsum("nc,vc->nv", X, weight[lo:lo + 7])
        new = np.maximum(top, z.max(1))
        total = total * np.exp(top - new) + np.exp(z - new[:, None]).sum(1)
        top = new
        here = (y >= lo) & (y < lo + 7)
        hit[here] = z[here, y[here] - lo]
        mean += z.sum(1) / V
    rest = np.log(total)
    a, b = (top - hit) + rest, (top - mean) + rest
    return ((1 - label_smoothing) * a + label_smoothing * b).sum() / n


@sample("linear_cross_entropy_backward", True, "vectors go in chunks of 16, and the loss is taken as the "
        "mean of the chunks' means: wrong beyond 16 vectors where chunks hold different counts of targets")
def hw12_chunked_head_grad(dloss, x, weight, targets, ignore_index=-100):
    V, C = weight.shape
    X, y = x.reshape(-1, C), targets.reshape(-1)
    chunks = [slice(i, i + 16) for i in range(0, len(y), 16)]
    chunks = [c for c in chunks if (y[c] != ignore_index).any()]
    dX, dW = np.zeros(X.shape), np.zeros(weight.shape)
    for c in chunks:
        xb, yb = X[c], y[c]
        ok = yb != ignore_index
        z = xb @ weight.T
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.nonzero(ok)[0], yb[ok]] -= 1
        g = dloss * p * ok[:, None] / ok.sum() / len(chunks)
        dX[c] = g @ weight
        dW += g.T @ xb
    return dX.reshape(x.shape), dW


@sample("z_loss_backward", True, "two mistakes: the factor 2 of the square is missing, and the gradient "
        "is not divided by the number of vectors")
def hw12_z_loss_grad(dloss, logits):
    top = logits.max(axis=1, keepdims=True)
    e = np.exp(logits - top)
    s = e.sum(axis=1, keepdims=True)
    return dloss * (top + np.log(s)) * e / s


@sample("router_z_loss", True, "the logarithm of the sum of exponentials without subtracting the maximum: "
        "overflow for large logits")
def hw13_router_z(logits):
    with np.errstate(over="ignore"):
        return np.mean(np.log(np.sum(np.exp(logits), axis=-1)) ** 2)


@sample("distillation_loss", True, "two mistakes: T^2 is missing, and batchmean divides by the first axis "
        "alone instead of all vectors")
def hw12_distill(logits, teacher_logits, temperature=1.0):
    s = torch.tensor(np.array(logits, dtype=float)) / temperature
    t = torch.tensor(np.array(teacher_logits, dtype=float)) / temperature
    return F.kl_div(F.log_softmax(s, dim=-1), F.softmax(t, dim=-1), reduction="batchmean").numpy()


@sample("cosine_regression_loss_backward", True, "the gradient through the normalization lacks 1 / |u| and "
        "1 / |v|")
def hw12_sbert_grad(dloss, u, v, targets):
    un = u / np.linalg.norm(u, axis=1, keepdims=True)
    vn = v / np.linalg.norm(v, axis=1, keepdims=True)
    cos = np.einsum("bc,bc->b", un, vn)[:, None]
    err = cos - targets[:, None]
    g = 2 * dloss * err / len(u)
    return g * (vn - cos * un), g * (un - cos * vn)


@sample("cosine_similarity_backward", False, "")
def cosine_grad_rows(ds, a, b):
    def scaled(m):
        size = np.abs(m).max(axis=1, keepdims=True)
        size = np.where(size == 0, 1, size)
        return size * np.sqrt(((m / size) ** 2).sum(axis=1, keepdims=True))

    na, nb = scaled(a)[:, 0], scaled(b)[:, 0]
    ua, ub = a / na[:, None], b / nb[:, None]
    da, db = np.zeros(a.shape), np.zeros(b.shape)
    for i in range(len(a)):
        c = ub @ ua[i]                                       # cosines of vector i
        da[i] = ds[i] @ (ub - np.outer(c, ua[i])) / na[i]
        db += (ds[i] / nb)[:, None] * (ua[i] - c[:, None] * ub)
    return da, db


@sample("triplet_loss_backward", True, "the anchor gets only the gradient through its positive; the path "
        "through the negative is missing")
def hw12_triplet_grad(dloss, anchors, positives, negatives, margin=1.0):
    B = anchors.shape[0]
    da, dp, dn = (np.zeros(anchors.shape) for _ in range(3))
    for i in range(B):
        x, y = anchors[i] - positives[i], anchors[i] - negatives[i]
        dx, dy = np.sqrt(x @ x), np.sqrt(y @ y)
        if dx - dy + margin > 0:
            da[i] = dloss / B * x / dx
            dp[i] = -dloss / B * x / dx
            dn[i] = dloss / B * y / dy
    return da, dp, dn


@sample("weighted_cross_entropy", True, "the weighted sum is divided by the number of targets instead of "
        "the sum of their weights")
def hw12_weighted_ce(logits, targets, weights):
    z = logits - logits.max(axis=-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(logp, targets[..., None], -1).squeeze(-1)
    return np.mean(-weights[targets] * picked)


@sample("generalized_iou", True, "width and height of the intersection are not cut off at 0: boxes apart "
        "get a negative area, or a positive one where both are negative")
def hw14_giou(a, b):
    x0, y0 = np.maximum(a[..., 0], b[..., 0]), np.maximum(a[..., 1], b[..., 1])
    x1, y1 = np.minimum(a[..., 2], b[..., 2]), np.minimum(a[..., 3], b[..., 3])
    inter = (x1 - x0) * (y1 - y0)
    area = lambda r: (r[..., 2] - r[..., 0]) * (r[..., 3] - r[..., 1])
    union = area(a) + area(b) - inter
    X0, Y0 = np.minimum(a[..., 0], b[..., 0]), np.minimum(a[..., 1], b[..., 1])
    X1, Y1 = np.maximum(a[..., 2], b[..., 2]), np.maximum(a[..., 3], b[..., 3])
    hull = (X1 - X0) * (Y1 - Y0)
    return inter / union - (hull - union) / hull


@sample("contrastive_loss_backward", False, "")
def clip_grad(dloss, logits):
    N = len(logits)
    p = sp.softmax(logits, axis=1) + sp.softmax(logits, axis=0)
    p[np.diag_indices(N)] -= 2
    return dloss * p / (2 * N)


# ---------------------------------------------------------------- recurrent cells

@sample("lstm_cell", True, "the blocks are read in PyTorch's order i, f, g, o instead of i, f, o, g")
def hw3_lstm(x, state, input_weight, recurrent_weight, bias=None):
    H = recurrent_weight.shape[0]
    h, c = state[:, :H], state[:, H:]
    a = x @ input_weight + h @ recurrent_weight
    if bias is not None:
        a = a + bias
    ai, af, ag, ao = np.split(a, 4, axis=1)
    c1 = sp.expit(af) * c + sp.expit(ai) * np.tanh(ag)
    h1 = sp.expit(ao) * np.tanh(c1)
    return np.hstack([h1, c1])


@sample("lstm_cell_backward", True, "two mistakes: the path from h' to c' lacks 1 - tanh(c')^2, and "
        "the gradient of the recurrent weight uses the new h' instead of the previous h")
def hw3_lstm_grad(dstate, x, state, input_weight, recurrent_weight, bias=None):
    H = len(recurrent_weight)
    h, c = state[:, :H], state[:, H:]
    a = x @ input_weight + h @ recurrent_weight
    if bias is not None:
        a = a + bias
    i, f, o = (sp.expit(a[:, n * H:(n + 1) * H]) for n in range(3))
    g = np.tanh(a[:, 3 * H:])
    c = f * state[:, H:] + i * g
    th = np.tanh(c)
    h = o * th
    dh, dc = dstate[:, :H], dstate[:, H:]
    do = dh * th
    dc = dc + dh * o
    da = np.hstack([dc * g * i * (1 - i), dc * state[:, H:] * f * (1 - f), do * o * (1 - o),
                    dc * i * (1 - g * g)])
    dprev = np.hstack([da @ recurrent_weight.T, dc * f])
    return da @ input_weight.T, dprev, x.T @ da, h.T @ da, None if bias is None else da.sum(0)


@sample("lstm_cell_backward", False, "")
def lstm_grad_torch(dstate, x, state, input_weight, recurrent_weight, bias=None):
    H = recurrent_weight.shape[0]
    order = np.r_[0:2 * H, 3 * H:4 * H, 2 * H:3 * H]           # ours i f o g, PyTorch's i f g o
    leaf = lambda m: torch.tensor(np.array(m, dtype=np.float64), requires_grad=True)
    X, S, W, U = map(leaf, (x, state, input_weight, recurrent_weight))
    b = leaf(np.zeros(4 * H) if bias is None else bias)
    idx = torch.from_numpy(order)
    zero = torch.zeros(4 * H, dtype=torch.float64)
    h1, c1 = torch.lstm_cell(X, (S[:, :H], S[:, H:]), W[:, idx].T, U[:, idx].T, b[idx], zero)
    grads = torch.autograd.grad(torch.cat([h1, c1], 1), (X, S, W, U, b),
                                torch.tensor(np.array(dstate, dtype=np.float64)))
    dx, ds, dw, du, db = (t.numpy() for t in grads)
    return dx, ds, dw, du, None if bias is None else db


@sample("gru_cell_backward", True, "the gradient of the recurrent bias lacks the reset gate that "
        "multiplies it: wrong only with a recurrent bias")
def hw3_gru_grad(dstate, x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    n_h = state.shape[1]
    a = x @ input_weight + (0 if bias is None else bias)
    p = state @ recurrent_weight
    r = sp.expit(a[:, :n_h] + p[:, :n_h])
    z = sp.expit(a[:, n_h:2 * n_h] + p[:, n_h:2 * n_h])
    m = p[:, 2 * n_h:] + (0 if recurrent_bias is None else recurrent_bias)
    n = np.tanh(a[:, 2 * n_h:] + r * m)
    # h' = z h + (1 - z) n
    dz = dstate * (state - n) * z * (1 - z)
    dn = dstate * (1 - z) * (1 - n ** 2)
    dr = dn * m * r * (1 - r)
    da = np.concatenate([dr, dz, dn], 1)
    dp = np.concatenate([dr, dz, dn * r], 1)
    out = [da @ input_weight.T, dstate * z + dp @ recurrent_weight.T, x.T @ da, state.T @ dp,
           None if bias is None else da.sum(0)]
    if recurrent_bias is not None:
        out.append(dn.sum(0))
    return tuple(out)


@sample("gru_cell_reset_before_backward", True, "the path of the state through r * h into the candidate "
        "is missing in the gradient of the state")
def hw3_gru_paper_grad(dstate, x, state, input_weight, recurrent_weight, bias=None):
    B, n = state.shape
    Ur, Uz, Uh = np.split(recurrent_weight, 3, axis=1)
    dx, dh = np.zeros(x.shape), np.zeros(state.shape)
    dW, dU = np.zeros(input_weight.shape), np.zeros(recurrent_weight.shape)
    db = np.zeros(3 * n)
    for b in range(B):
        a = x[b] @ input_weight
        if bias is not None:
            a = a + bias
        h = state[b]
        r, z = sp.expit(a[:n] + h @ Ur), sp.expit(a[n:2 * n] + h @ Uz)
        c = np.tanh(a[2 * n:] + (r * h) @ Uh)
        g = dstate[b]
        dc = g * (1 - z) * (1 - c * c)
        dr = (Uh @ dc) * h * r * (1 - r)
        dz = g * (h - c) * z * (1 - z)
        da = np.concatenate([dr, dz, dc])
        dx[b] = input_weight @ da
        dh[b] = g * z + Ur @ dr + Uz @ dz
        dW += np.outer(x[b], da)
        dU += np.concatenate([np.outer(h, dr), np.outer(h, dz), np.outer(r * h, dc)], axis=1)
        db += da
    return dx, dh, dW, dU, None if bias is None else db


# ---------------------------------------------------------------- convolutions and images

@sample("causal_convolution_backward", True, "two mistakes: dx ignores the dilation, and dbias is a mean "
        "over the batch instead of a sum")
def hw15_wavenet_grad(dy, x, weight, bias=None, dilation=1):
    K = weight.shape[0]
    T = x.shape[1]
    dx, dw = np.zeros(x.shape), np.zeros(weight.shape)
    for k in range(K):
        back = (K - 1 - k) * dilation
        if back < T:
            dw[k] = np.einsum("btc,btf->cf", x[:, :T - back], dy[:, back:])
        lag = K - 1 - k
        if lag < T:
            dx[:, :T - lag] += dy[:, lag:] @ weight[k].T
    return dx, dw, None if bias is None else dy.sum(axis=1).mean(axis=0)


@sample("causal_convolution", False, "")
def wavenet_fft(x, weight, bias=None, dilation=1):
    B, T, C = x.shape
    K, _, n_out = weight.shape
    kernel = np.zeros(((K - 1) * dilation + 1, C, n_out))
    for k in range(K):
        kernel[(K - 1 - k) * dilation] = weight[k]
    kernel = kernel[:T]
    n = T + len(kernel)
    X = np.fft.rfft(x.astype(float), n, axis=1)
    Wf = np.fft.rfft(kernel, n, axis=0)
    y = np.fft.irfft(np.einsum("bnc,ncf->bnf", X, Wf), n, axis=1)[:, :T]
    return y if bias is None else y + bias


@sample("convolution_2d", True, "two mistakes: the image is padded with its edge pixels instead of zeros, "
        "and the filter is flipped in both directions")
def hw15_conv(images, weight, bias=None, stride=1, padding=0):
    K, L, C, Fo = weight.shape
    p, s = padding, stride
    im = np.pad(images, ((0, 0), (p, p), (p, p), (0, 0)), mode="edge")
    H = (im.shape[1] - K) // s + 1
    W = (im.shape[2] - L) // s + 1
    w = weight[::-1, ::-1]
    y = np.zeros((images.shape[0], H, W, Fo))
    for r in range(H):
        for c in range(W):
            patch = im[:, r * s:r * s + K, c * s:c * s + L]
            y[:, r, c] = np.tensordot(patch, w, axes=3)
    return y if bias is None else y + bias


@sample("convolution_2d", False, "")
def conv_sliding(images, weight, bias=None, stride=1, padding=0):
    K, L = weight.shape[:2]
    im = np.pad(images, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    win = np.lib.stride_tricks.sliding_window_view(im, (K, L), axis=(1, 2))[:, ::stride, ::stride]
    y = np.tensordot(win, weight.transpose(2, 0, 1, 3), axes=([3, 4, 5], [0, 1, 2]))
    return y if bias is None else y + bias


@sample("mean_pooling_2d_backward", True, "the gradient is divided by stride^2 instead of size^2: wrong "
        "where the stride differs from the size")
def hw15_avgpool_grad(dy, images, size, stride=None):
    s = size if stride is None else stride
    dx = np.zeros(images.shape)
    for r in range(dy.shape[1]):
        for c in range(dy.shape[2]):
            dx[:, r * s:r * s + size, c * s:c * s + size] += dy[:, r:r + 1, c:c + 1] / s ** 2
    return dx


@sample("max_pooling_2d_backward", False, "")
def maxpool_grad_loops(dy, images, size, stride=None):
    s = stride or size
    B, R, Q, C = dy.shape
    dx = np.zeros(images.shape)
    b, ch = np.meshgrid(np.arange(B), np.arange(C), indexing="ij")
    for r in range(R):
        for q in range(Q):
            win = images[:, r * s:r * s + size, q * s:q * s + size].reshape(B, -1, C)
            i, j = np.unravel_index(win.argmax(axis=1), (size, size))
            np.add.at(dx, (b, r * s + i, q * s + j, ch), dy[:, r, q])
    return dx


@sample("max_pooling", True, "padding is multiplied by 0 instead of left out: it counts as 0 where all "
        "real numbers are negative")
def hw15_max_pool(x, mask=None):
    if mask is not None:
        x = x * mask[:, :, None]
    return np.max(x, axis=1)


@sample("patches", True, "a patch is flattened with the channel first (C, P, P), as torch's unfold does, "
        "instead of (P, P, C)")
def vit_unfold(images, patch_size):
    t = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    cols = F.unfold(t, kernel_size=patch_size, stride=patch_size)
    return cols.transpose(1, 2).contiguous().numpy()


@sample("window_reverse", True, "rows and columns of windows are exchanged: right for square images alone")
def swin_reverse(windows, height, width):
    M = int(round(math.sqrt(windows.shape[1])))
    C = windows.shape[-1]
    B = windows.shape[0] // ((height // M) * (width // M))
    x = windows.reshape(B, width // M, height // M, M, M, C)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(B, height, width, C).copy()


@sample("window_partition", False, "")
def swin_partition_loops(x, window):
    M = window
    B, Hh, Ww, C = x.shape
    out = []
    for b in range(B):
        for r in range(0, Hh, M):
            for c in range(0, Ww, M):
                out.append(np.array(x[b, r:r + M, c:c + M]).reshape(M * M, C))
    return np.stack(out)


@sample("window_attention_backward", True, "dbias is the mean over the windows instead of the sum")
def swin_attention_grad(do, q, k, v, bias):
    sc = q.shape[-1] ** -0.5
    z = np.einsum("nhid,nhjd->nhij", q, k) * sc + bias
    p = sp.softmax(z, axis=-1)
    dp = np.einsum("nhid,nhjd->nhij", do, v)
    dz = p * (dp - np.sum(dp * p, axis=-1, keepdims=True))
    return (sc * np.einsum("nhij,nhjd->nhid", dz, k), sc * np.einsum("nhij,nhid->nhjd", dz, q),
            np.einsum("nhij,nhid->nhjd", p, do), dz.mean(axis=0))


# ---------------------------------------------------------------- experts and embeddings

@sample("top_k_gates_over_all_backward", True, "the softmax's gradient is taken over the chosen experts "
        "alone: the others get none though they are in the sum")
def hw13_switch_grad(dweights, logits, chosen):
    p = sp.softmax(logits, axis=1)
    dlogits = np.zeros(logits.shape)
    for n in range(len(logits)):
        c = chosen[n]
        w = p[n, c]
        dlogits[n, c] = w * (dweights[n] - w @ dweights[n])
    return dlogits


@sample("top_k_gates_backward", False, "")
def mixtral_gates_grad(dweights, logits, chosen):
    N, E = logits.shape
    member = np.zeros((N, E), bool)
    g = np.zeros((N, E))
    for n in range(N):
        for j, e in enumerate(chosen[n]):
            member[n, e] = True
            g[n, e] = dweights[n, j]
    z = np.where(member, logits, -np.inf)
    p = np.exp(z - z.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True)
    return p * g - p * np.einsum("ne,ne->n", p, g)[:, None]


@sample("combine_experts_backward", True, "the gradients of the weights are returned in the order of the "
        "slots instead of scattered back to (token, choice)")
def hw13_combine_grad(dy, outputs, weights, slots):
    N, k = weights.shape
    tok = slots // k
    w = weights.ravel()[slots]
    g = dy[tok]
    dw = np.zeros(N * k)
    dw[:len(slots)] = (outputs * g).sum(axis=1)
    return g * w[:, None], dw.reshape(N, k)


@sample("load_balance_loss", True, "the fraction of an expert counts choices per token (divided by N, not "
        "N k): k times too large")
def hw13_balance(logits, chosen):
    N, E = logits.shape
    p = sp.softmax(logits, axis=-1)
    f = np.array([(chosen == e).any(axis=1).mean() for e in range(E)])
    return E * np.dot(f, p.mean(axis=0))


@sample("embedding_backward", True, "each row is divided by how often its id occurs (scale_grad_by_freq): "
        "a mean instead of a sum")
def embedding_grad_by_freq(dy, ids, weight):
    V, C = weight.shape
    dW = np.zeros((V, C))
    flat, g = ids.ravel(), dy.reshape(-1, C)
    for v in np.unique(flat):
        dW[v] = g[flat == v].mean(axis=0)
    return dW


@sample("embedding_backward", False, "")
def embedding_grad_onehot(dy, ids, weight):
    onehot = np.equal.outer(np.arange(len(weight)), ids.reshape(-1)).astype(float)
    return onehot @ dy.reshape(-1, weight.shape[1])
