"""What landed in the tutors' inbox during the year: exercise submissions, ports, snippets.

Everybody kept their own style; the head of each block says who sent it.
"""

import math

import numpy as np

from numformer.functional import EVERYWHERE


# ------------------------------------------------------------------ Amelie (comes from PyTorch)

def amelie_softmax(x, axis=-1, mask=None):
    """F.softmax with masked_fill."""
    scores = x.copy()
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    scores = scores - scores.max(axis=axis, keepdims=True)
    e = np.exp(scores)
    return e / e.sum(axis=axis, keepdims=True)


def amelie_layer_norm(x, weight, bias, epsilon=1e-5):
    """nn.LayerNorm, written with std as in the tutorial."""
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True, ddof=1)
    return (x - mu) / np.sqrt(var + epsilon) * weight + bias


def amelie_lstm_cell(x, state, input_weight, recurrent_weight, bias=None):
    """nn.LSTMCell, gates chunked in four."""
    hx, cx = np.split(state, 2, axis=1)
    gates = x @ input_weight + hx @ recurrent_weight
    if bias is not None:
        gates = gates + bias
    i, f, g, o = np.split(gates, 4, axis=1)
    sig = lambda t: np.exp(-np.logaddexp(0.0, -t))
    i, f, o = sig(i), sig(f), sig(o)
    g = np.tanh(g)
    cy = f * cx + i * g
    hy = o * np.tanh(cy)
    return np.concatenate([hy, cy], axis=1)


def amelie_cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    """F.cross_entropy(reduction='mean') plus the z term of PaLM."""
    V = logits.shape[-1]
    z = logits.reshape(-1, V)
    t = targets.reshape(-1)
    keep = t != ignore_index
    top = z.max(1, keepdims=True)
    lse = (top + np.log(np.exp(z - top).sum(1, keepdims=True)))[:, 0]
    logp = z - lse[:, None]
    nll = -logp[np.arange(len(t)), np.where(keep, t, 0)]
    n = keep.sum()
    loss = (1 - label_smoothing) * (nll * keep).sum() / n
    if label_smoothing:
        loss += label_smoothing * (-logp).mean()
    if z_loss:
        loss += z_loss * (lse[keep] ** 2).sum() / n
    return loss


def amelie_embedding_backward(dy, ids, weight):
    """Scatter the rows back into the table."""
    grad = np.zeros_like(weight)
    grad[ids.ravel()] += dy.reshape(-1, weight.shape[1])
    return grad


def amelie_scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None,
                                        softcap=None, dropout=0.0, seed=None):
    """F.scaled_dot_product_attention with is_causal, plus our extra options."""
    from dataclasses import replace
    from numformer.functional import attention_dropout_mask
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    k = np.repeat(k, H // G, axis=1)
    v = np.repeat(v, H // G, axis=1)
    allowed = np.ones((1, 1, T, S), bool)
    if pattern is not None:
        allowed = allowed & replace(pattern, causal=False).dense(T, S)
        if pattern.causal:
            allowed = allowed & np.tril(np.ones((T, S), bool))
    s = np.einsum("bhtd,bhsd->bhts", q, k) * (1 / math.sqrt(D) if scale is None else scale)
    if softcap is not None:
        s = softcap * np.tanh(s / softcap)
    where_q = np.arange(T)[:, None] + (S - T)
    where_k = np.arange(S)[None, :]
    if slopes is not None:
        s = s - slopes[:, None, None] * np.abs(where_q - where_k)
    if bias is not None:
        s = s + bias[:, where_k - np.arange(T)[:, None] + (T - 1)]
    allowed = np.broadcast_to(allowed, s.shape)
    top = np.where(allowed, s, -np.inf).max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.where(allowed, np.exp(np.where(allowed, s, top) - top), 0.0)
    total = e.sum(-1, keepdims=True)
    p = e / np.where(total == 0, 1.0, total)
    if seed is not None and dropout > 0:
        p = p * attention_dropout_mask(seed, p.shape, dropout) / (1 - dropout)
    return p @ v


def amelie_group_advantages(rewards, scale=True, epsilon=1e-4):
    """GRPO advantages, as (r - r.mean()) / (r.std() + eps)."""
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    if not scale:
        return centred
    return centred / (rewards.std(axis=1, keepdims=True, ddof=1) + epsilon)


def amelie_patches(images, patch_size):
    """unfold, then flatten every patch."""
    B, h, w, c = images.shape
    p = patch_size
    x = images.transpose(0, 3, 1, 2)
    x = x.reshape(B, c, h // p, p, w // p, p)
    x = x.transpose(0, 2, 4, 1, 3, 5)
    return x.reshape(B, (h // p) * (w // p), c * p * p)


def amelie_distillation_loss(logits, teacher_logits, temperature=1.0):
    """F.kl_div(log_softmax(s / T), softmax(t / T), reduction='batchmean') * T"""
    def lsm(a):
        a = a - a.max(-1, keepdims=True)
        return a - np.log(np.exp(a).sum(-1, keepdims=True))
    s, t = lsm(logits / temperature), lsm(teacher_logits / temperature)
    n = logits.size // logits.shape[-1]
    return temperature * (np.exp(t) * (t - s)).sum() / n


def amelie_repeat_kv_heads(x, n_heads):
    """x.repeat(1, n_rep, 1, 1)"""
    return np.tile(x, (1, n_heads // x.shape[1], 1, 1))


def amelie_gru_cell(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    """nn.GRUCell."""
    F = state.shape[1]
    gi = x @ input_weight
    if bias is not None:
        gi = gi + bias
    gh = state @ recurrent_weight
    sig = lambda t: np.exp(-np.logaddexp(0.0, -t))
    r = sig(gi[:, :F] + gh[:, :F])
    z = sig(gi[:, F:2 * F] + gh[:, F:2 * F])
    pre = gi[:, 2 * F:] + r * gh[:, 2 * F:]
    if recurrent_bias is not None:
        pre = pre + recurrent_bias
    n = np.tanh(pre)
    return n + z * (state - n)


def amelie_adam_step(data, grad, mean, square, learning_rate, steps, beta1=0.9, beta2=0.999,
                     epsilon=1e-8, weight_decay=0.0, grad_scale=1.0):
    """torch.optim.Adam(..., weight_decay=...), single tensor path."""
    g = grad * grad_scale
    if weight_decay:
        g = g + weight_decay * data
    mean *= beta1
    mean += (1 - beta1) * g
    square *= beta2
    square += (1 - beta2) * g * g
    denom = np.sqrt(square / (1 - beta2 ** steps)) + epsilon
    step = learning_rate / (1 - beta1 ** steps) * mean
    data -= np.divide(step, denom, out=np.zeros_like(step), where=denom != 0)


def amelie_linear_backward(dy, x, weight, bias=None):
    """What autograd of F.linear gives, folded over the leading axes."""
    lead = list(range(x.ndim - 1))
    return (np.matmul(dy, weight.swapaxes(0, 1)),
            np.tensordot(x, dy, axes=(lead, lead)),
            None if bias is None else np.add.reduce(dy, axis=tuple(lead)))


def amelie_convolution_2d(images, weight, bias=None, stride=1, padding=0):
    """F.conv2d by as_strided views and one contraction."""
    K, L = weight.shape[:2]
    x = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(x, (K, L), axis=(1, 2))
    view = view[:, ::stride, ::stride]                       # (B, rows, cols, C, K, L)
    out = np.tensordot(view, weight, axes=((4, 5, 3), (0, 1, 2)))
    return out if bias is None else out + bias


# ------------------------------------------------------------------ Jonas (C++, loves loops)

def jonas_softmax(x, axis=-1, mask=None):
    """One pass over tiles of 32 scores with a running maximum, then a pass that writes the weights."""
    moved = np.moveaxis(x, axis, -1)
    m = None
    if mask is not None:
        m = np.moveaxis(np.broadcast_to(mask, x.shape), axis, -1)
    out = np.zeros(moved.shape)
    for idx in np.ndindex(moved.shape[:-1]):
        row = moved[idx]
        ok = np.ones(row.shape, bool) if m is None else m[idx]
        if not ok.any():
            continue
        biggest, total = -math.inf, 0.0
        for start in range(0, len(row), 32):
            part = row[start:start + 32][ok[start:start + 32]]
            if part.size == 0:
                continue
            new = max(biggest, part.max())
            total += np.exp(part - new).sum()
            biggest = new
        out[idx][ok] = np.exp(row[ok] - biggest) / total
    return np.moveaxis(out, -1, axis)


def jonas_rms_norm(x, weight, epsilon=1e-5):
    """Four accumulators, like the SIMD kernel."""
    C = x.shape[-1]
    acc = np.zeros(x.shape[:-1] + (4,))
    for c in range(0, C - C % 4, 4):
        acc += x[..., c:c + 4] ** 2
    if C < 4:
        ms = (x ** 2).sum(-1) / C
    else:
        ms = acc.sum(-1) / C
    return x / np.sqrt(ms + epsilon)[..., None] * weight


def jonas_tiled_attention(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    """The flash loop, queries outside, keys inside."""
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    rep = H // G
    sc = D ** -0.5 if scale is None else scale
    full = np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)
    full = np.broadcast_to(full, (B, H, T, S))
    out = np.zeros((B, H, T, v.shape[-1]))
    for b in range(B):
        for h in range(H):
            kk, vv = k[b, h // rep], v[b, h // rep]
            m = np.full(T, -np.inf)
            l = np.zeros(T)
            acc = np.zeros((T, v.shape[-1]))
            for j in range(0, S, tile):
                ok = full[b, h, :, j:j + tile]
                s = np.where(ok, q[b, h] @ kk[j:j + tile].T * sc, -np.inf)
                new = np.maximum(m, s.max(1))
                base = np.where(np.isinf(new), 0.0, new)
                alpha = np.exp(m - base)
                e = np.exp(s - base[:, None])
                l = l * alpha + e.sum(1)
                acc = acc + e @ vv[j:j + tile]
                m = new
            out[b, h] = acc / np.where(l == 0, 1, l)[:, None]
    return out


def jonas_causal_convolution(x, weight, bias=None, dilation=1):
    """Ring buffer version: taps at t, t - d, t - 2d, ..."""
    B, T, C = x.shape
    K, _, F = weight.shape
    y = np.zeros((B, T, F))
    for t in range(T):
        for k in range(K):
            src = t - k * dilation
            if src >= 0:
                y[:, t] += x[:, src] @ weight[k]
    return y if bias is None else y + bias


def jonas_convolution_2d_backward(dy, images, weight, bias=None, stride=1, padding=0):
    """Backward of conv, one tap of the filter at a time."""
    K, L = weight.shape[:2]
    B, rows, cols, F = dy.shape
    _, h, w, C = images.shape
    xp = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    dxp = np.zeros(xp.shape)
    dweight = np.zeros(weight.shape)
    for i in range(K):
        for j in range(L):
            ys = slice(i, i + stride * (rows - 1) + 1, stride)
            xs = slice(j, j + stride * (cols - 1) + 1, stride)
            dweight[i, j] = np.einsum("brcx,brcf->xf", xp[:, ys, xs], dy)
            dxp[:, ys, xs] = dy @ weight[i, j].T
    dimages = dxp[:, padding:padding + h, padding:padding + w]
    return dimages, dweight, None if bias is None else dy.sum(axis=(0, 1, 2))


def jonas_linear_attention(q, k, v, causal=False):
    """Chunked scan of 16 positions so that the triangle inside a chunk is a small matmul."""
    phi = lambda a: np.where(a > 0, a + 1, np.exp(np.minimum(a, 0)))
    fq, fk = phi(q), phi(k)
    if not causal:
        num = fq @ (fk.swapaxes(-1, -2) @ v)
        den = fq @ fk.sum(axis=2)[..., None]
        return num / den
    T = q.shape[2]
    out = np.empty(v.shape)
    kv = np.zeros(q.shape[:2] + (q.shape[3], v.shape[3]))
    z = np.zeros(q.shape[:2] + (q.shape[3], 1))
    for a in range(0, T, 16):
        b = min(a + 16, T)
        cq, ck, cv = fq[:, :, a:b], fk[:, :, a:b], v[:, :, a:b]
        w = np.tril(cq @ ck.swapaxes(-1, -2))
        out[:, :, a:b] = (cq @ kv + w @ cv) / (cq @ z + w.sum(-1, keepdims=True))
        kv = ck.swapaxes(-1, -2) @ cv
        z = z + ck.sum(axis=2)[..., None]
    return out


def jonas_max_pooling(x, mask=None):
    """Zero out the padding, then max along time."""
    if mask is not None:
        x = x * mask[:, :, None]
    best = x[:, 0].copy()
    for t in range(1, x.shape[1]):
        np.maximum(best, x[:, t], out=best)
    return best


def jonas_top_k_experts(logits, k):
    """std::partial_sort on negated scores."""
    order = np.argsort(logits, axis=1, kind="stable")[:, ::-1]
    return np.ascontiguousarray(order[:, :k])


def jonas_box_iou(a, b):
    """Ported from the detection code I had at work."""
    out = np.zeros((len(a), len(b)))
    for i, (ax0, ay0, ax1, ay1) in enumerate(a):
        for j, (bx0, by0, bx1, by1) in enumerate(b):
            w = max(0.0, min(ax1, bx1) - max(ax0, bx0) + 1)
            h = max(0.0, min(ay1, by1) - max(ay0, by0) + 1)
            inter = w * h
            union = (ax1 - ax0 + 1) * (ay1 - ay0 + 1) + (bx1 - bx0 + 1) * (by1 - by0 + 1) - inter
            out[i, j] = inter / union
    return out


def jonas_attention(q, k, v, mask=None):
    """Plain loops, no broadcasting anywhere."""
    B, H, T, D = q.shape
    S = k.shape[2]
    if mask is not None:
        mask = np.broadcast_to(mask, (B, H, T, S))
    out = np.zeros((B, H, T, v.shape[3]))
    for b in range(B):
        for h in range(H):
            for t in range(T):
                idx = range(S) if mask is None else np.flatnonzero(mask[b, h, t])
                if len(idx) == 0:
                    continue
                s = [float(q[b, h, t].dot(k[b, h, j])) / D ** 0.5 for j in idx]
                top = max(s)
                w = [math.exp(a - top) for a in s]
                z = math.fsum(w)
                for a, j in zip(w, idx):
                    out[b, h, t] += a / z * v[b, h, j]
    return out


def jonas_cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    """Token by token with math.fsum."""
    V = logits.shape[-1]
    nll, uni, zz = [], [], []
    for row, t in zip(logits.reshape(-1, V), targets.reshape(-1)):
        if t == ignore_index:
            continue
        top = row.max()
        rest = math.log(math.fsum(np.exp(row - top)))
        nll.append(rest - (row[t] - top))
        uni.append(rest - float((row - top).mean()))
        zz.append((top + rest) ** 2)
    n = len(nll)
    loss = math.fsum(nll)
    if label_smoothing:
        loss = (1 - label_smoothing) * loss + label_smoothing * math.fsum(uni)
    return np.float64((loss + z_loss * math.fsum(zz)) / n if z_loss else loss / n)


def jonas_max_pooling_2d_backward(dy, images, size, stride=None):
    """For each window: find the winner again, add there."""
    s = size if stride is None else stride
    out = np.zeros(images.shape)
    for b, r, c, ch in np.ndindex(dy.shape):
        win = images[b, r * s:r * s + size, c * s:c * s + size, ch]
        i, j = np.unravel_index(int(np.argmax(win)), win.shape)
        out[b, r * s + i, c * s + j, ch] += dy[b, r, c, ch]
    return out


def jonas_embedding_backward(dy, ids, weight):
    """One += per token; slow, but nobody can say it is wrong."""
    table = np.zeros(weight.shape)
    for where in np.ndindex(ids.shape):
        table[ids[where]] += dy[where]
    return table


def jonas_patches(images, patch_size):
    """Slice, ravel, append."""
    B, h, w, _ = images.shape
    p = patch_size
    return np.array([[images[b, y:y + p, x:x + p].ravel()
                      for y in range(0, h, p) for x in range(0, w, p)] for b in range(B)])


# ------------------------------------------------------------------ Priya (einsum for everything)

def priya_attention_backward(do, q, k, v, mask=None):
    """einsum all the way."""
    s = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        s = np.where(mask, s, -np.inf)
        s = np.where(np.broadcast_to(mask, s.shape).any(-1, keepdims=True), s, 0)
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    if mask is not None:
        p = p * mask
    dv = np.einsum("bhts,bhte->bhse", p, do)
    dp = np.einsum("bhte,bhse->bhts", do, v)
    ds = p * (dp - np.einsum("bhts,bhts->bht", p, dp)[..., None]) / np.sqrt(q.shape[-1])
    if mask is not None:
        ds = np.where(mask, ds, 0)
    return np.einsum("bhts,bhsd->bhtd", ds, k), np.einsum("bhts,bhtd->bhsd", ds, q), dv


def priya_additive_scores_backward(dscores, q, k, v):
    """z = v . tanh(q + k)"""
    t = np.tanh(q[:, :, None, :] + k[:, None, :, :])
    dv = np.einsum("bts,btsa->a", dscores, t)
    du = np.einsum("bts,a,btsa->btsa", dscores, v, 1 - t ** 2)
    return np.einsum("btsa->bsa", du), np.einsum("btsa->bta", du), dv


def priya_general_scores_backward(dscores, q, k, weight):
    """z = q W k, all three gradients."""
    dq = np.einsum("bts,bsk,ck->btc", dscores, k, weight)
    dk = np.einsum("bts,btc,ck->bsk", dscores, q, weight)
    dweight = np.einsum("bts,btc,bsk->bck", dscores, q, k).mean(axis=0)
    return dq, dk, dweight


def priya_low_rank_linear(x, weight, bias, down, up, alpha=1.0, rank_stabilized=False):
    """LoRA."""
    R = down.shape[1]
    s = alpha / np.sqrt(R) if not rank_stabilized else alpha / R
    y = np.einsum("...c,cf->...f", x, weight) + s * np.einsum("...c,cr,rf->...f", x, down, up)
    return y if bias is None else y + bias


def priya_low_rank_linear_backward(dy, x, weight, bias, down, up, alpha=1.0, rank_stabilized=False):
    """LoRA backward."""
    R = down.shape[1]
    s = alpha / (R ** 0.5 if rank_stabilized else R)
    xf, gf = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    h = xf @ down
    dh = gf @ up.T
    ddown = xf.T @ dh
    dup = s * h.T @ gf
    dx = gf @ weight.T + s * dh @ down.T
    return dx.reshape(x.shape), xf.T @ gf, None if bias is None else gf.sum(0), ddown, dup


def priya_load_balance_loss(logits, chosen):
    """Switch loss, with one-hot dispatch."""
    N, E = logits.shape
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    onehot = np.eye(E)[chosen]                                # (N, k, E)
    f = np.einsum("nke->e", onehot) / N
    return E * np.einsum("e,e->", f, p.mean(0))


def priya_relative_attention(q, k, v, key_table, value_table, pattern=EVERYWHERE, scale=None, dropout=0.0,
                             seed=None):
    """Shaw et al., equations 3 and 4."""
    from numformer.functional import attention_dropout_mask
    B, H, T, D = q.shape
    S = k.shape[2]
    s = D ** -0.5 if scale is None else scale
    k, v = (np.repeat(a, H // a.shape[1], axis=1) for a in (k, v))
    d = np.arange(S)[None] - np.arange(T)[:, None] - (S - T)
    K, V = len(key_table) // 2, len(value_table) // 2
    ak = key_table[np.clip(d, -K, K) + K]
    av = value_table[np.clip(d, -K, K) + V]
    z = s * (np.einsum("bhtd,bhsd->bhts", q, k) + np.einsum("bhtd,tsd->bhts", q, ak))
    ok = np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)
    ok = np.broadcast_to(ok, z.shape)
    z = np.where(ok, z, -np.inf)
    z = np.where(ok.any(-1, keepdims=True), z, 0)
    p = np.exp(z - z.max(-1, keepdims=True))
    p = np.where(ok, p / p.sum(-1, keepdims=True), 0)
    if seed is not None and dropout > 0:
        p = p * attention_dropout_mask(seed, p.shape, dropout) / (1 - dropout)
    return np.einsum("bhts,bhse->bhte", p, v) + np.einsum("bhts,tse->bhte", p, av)


def priya_low_rank_attention_backward(do, q, k, v, key_projection, value_projection):
    """Linformer."""
    mk = np.einsum("rs,bhsd->bhrd", key_projection, k)
    mv = np.einsum("rs,bhse->bhre", value_projection, v)
    sc = 1 / np.sqrt(q.shape[-1])
    z = np.einsum("bhtd,bhrd->bhtr", q, mk) * sc
    p = np.exp(z - z.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    dmv = np.einsum("bhtr,bhte->bhre", p, do)
    dp = np.einsum("bhte,bhre->bhtr", do, mv)
    dz = p * (dp - (p * dp).sum(-1, keepdims=True)) * sc
    dmk = np.einsum("bhtr,bhtd->bhrd", dz, q)
    dq = np.einsum("bhtr,bhrd->bhtd", dz, mk)
    dk = np.einsum("rs,bhrd->bhsd", key_projection, dmk)
    dv = np.einsum("rs,bhre->bhse", value_projection, dmv)
    dE = np.einsum("bhrd,bhsd->hrs", dmk, k).mean(0)
    dF = np.einsum("bhre,bhse->hrs", dmv, v).mean(0)
    return dq, dk, dv, dE, dF


def priya_rms_norm_backward(dy, x, weight, epsilon=1e-5):
    """dx = r * w * (dy - xhat <dy, xhat>)"""
    r = 1 / np.sqrt(np.einsum("...c,...c->...", x, x)[..., None] / x.shape[-1] + epsilon)
    xh = x * r
    dw = np.einsum("nc,nc->c", dy.reshape(-1, x.shape[-1]), xh.reshape(-1, x.shape[-1]))
    inner = np.einsum("...c,...c->...", dy, xh)[..., None] / x.shape[-1]
    return r * weight * (dy - xh * inner), dw


def priya_cosine_similarity_backward(ds, a, b):
    """s = ahat bhat^T"""
    def unit(m):
        n = np.sqrt(np.einsum("nc,nc->n", m, m))[:, None]
        return np.where(n == 0, 0, m / np.where(n == 0, 1, n))
    ah, bh = unit(a), unit(b)
    ga, gb = ds @ bh, ds.T @ ah
    da = ga - ah * np.einsum("nc,nc->n", ah, ga)[:, None]
    db = gb - bh * np.einsum("nc,nc->n", bh, gb)[:, None]
    return da, db


def priya_softmax_backward(dp, x, axis=-1, mask=None):
    """Row times Jacobian, the Jacobian written out as diag(p) - p p^T."""
    z = np.moveaxis(x, axis, -1)
    g = np.moveaxis(dp, axis, -1)
    ok = np.ones(z.shape, bool)
    if mask is not None:
        ok = np.moveaxis(np.broadcast_to(mask, x.shape), axis, -1)
    z = np.where(ok, z, -np.inf)
    top = z.max(-1, keepdims=True)
    e = np.where(ok, np.exp(z - np.where(np.isinf(top), 0, top)), 0)
    tot = e.sum(-1, keepdims=True)
    p = e / np.where(tot == 0, 1, tot)
    jac = np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1])) - np.einsum("...i,...j->...ij", p, p)
    dx = np.einsum("...ij,...j->...i", jac, np.where(ok, g, 0))
    return np.moveaxis(dx, -1, axis)


def priya_low_rank_linear_merged(x, weight, bias, down, up, alpha=1.0, rank_stabilized=False):
    """Merge the adapter into the weight first."""
    s = alpha * down.shape[1] ** (-0.5 if rank_stabilized else -1.0)
    merged = weight + s * np.einsum("cr,rf->cf", down, up)
    return np.einsum("...c,cf->...f", x, merged) + (0 if bias is None else bias)


def priya_load_balance_loss_onehot(logits, chosen):
    """The same loss from one-hot vectors, averaged over tokens and choices alike."""
    E = logits.shape[1]
    f = (chosen[..., None] == np.arange(E)).mean(axis=(0, 1))
    z = logits - logits.max(1)[:, None]
    p = np.exp(z) / np.exp(z).sum(1)[:, None]
    return E * np.einsum("e,ne->", f, p) / len(logits)


# ------------------------------------------------------------------ Kenji (JAX, pure functions)

def kenji_log_softmax(x, axis=-1):
    """jnp.log(jax.nn.softmax(x)) with a floor against log(0)."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.log(e / e.sum(axis=axis, keepdims=True) + 1e-12)


def kenji_gelu(x):
    """jax.nn.gelu"""
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)
    return 0.5 * x * (1.0 + np.tanh(inner))


def kenji_gelu_backward(dy, x):
    """d/dx x Phi(x) = Phi(x) + x phi(x)"""
    from scipy.special import ndtr
    phi = np.exp(-x ** 2) / np.sqrt(2 * np.pi)
    return dy * (ndtr(x) + x * phi)


def kenji_sinusoidal_positions(positions, width, dtype=np.float64):
    """sin on even lanes, cos on odd lanes, selected with where."""
    lane = np.arange(width)
    angle = np.asarray(positions)[:, None] / 10000.0 ** (lane / width)
    return np.where(lane % 2 == 0, np.sin(angle), np.cos(angle)).astype(dtype)


def kenji_alibi_slopes(n_heads):
    """2 ** (-8 (h + 1) / H)"""
    return np.exp2(-8.0 * (np.arange(n_heads) + 1) / n_heads)


def kenji_rotary(x, cosine, sine, layout="half"):
    """apply_rotary_pos_emb, stack and reshape."""
    if layout == "half":
        a, b = np.split(x, 2, axis=-1)
    else:
        a, b = x[..., ::2], x[..., 1::2]
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)


def kenji_rotary_backward(dy, x, cosine, sine, layout="half"):
    """vjp of rotary."""
    D = x.shape[-1]
    if layout == "half":
        ga, gb = dy[..., :D // 2], dy[..., D // 2:]
        return np.concatenate([ga * cosine + gb * sine, gb * cosine - ga * sine], axis=-1)
    ga, gb = dy[..., 0::2], dy[..., 1::2]
    return np.stack([ga * cosine - gb * sine, gb * cosine + ga * sine], axis=-1).reshape(x.shape)


def kenji_partial_rotary(x, cosine, sine, layout="half"):
    """GPT-J / NeoX style: rotate a slice, concatenate the rest."""
    R = 2 * cosine.shape[-1]
    rot, keep = x[..., :R], x[..., R:]
    a, b = rot[..., :R // 2], rot[..., R // 2:]
    out = np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)
    return np.concatenate([out, keep], axis=-1)


def kenji_swish_backward(dy, x, beta=1.0):
    """y = x sigma(beta x)"""
    s = np.exp(-np.logaddexp(0.0, -beta * x))
    return dy * (s + x * s * (1 - s))


def kenji_token_log_probs(logits, tokens, temperature=1.0):
    """take_along_axis of log_softmax, tempered."""
    z = logits - logits.max(-1, keepdims=True)
    logp = (z - np.log(np.exp(z).sum(-1, keepdims=True))) / temperature
    safe = np.where(tokens == -100, 0, tokens)
    got = np.take_along_axis(logp, safe[..., None], -1)[..., 0]
    return np.where(tokens == -100, 0.0, got)


def kenji_kl_estimate_backward(dk, log_probs, reference_log_probs, old_log_probs, estimator="k3"):
    """grad of the four estimators."""
    d = reference_log_probs - log_probs
    if estimator == "k1":
        return dk * np.ones_like(d)
    if estimator == "k2":
        return -dk * d
    g = 1 - np.exp(d)
    if estimator == "k3":
        return dk * g
    return dk * np.exp(log_probs - old_log_probs) * g


def kenji_dpo_loss_backward(dloss, chosen, rejected, reference_chosen, reference_rejected, beta=0.1,
                            label_smoothing=0.0, likelihood=0.0):
    """jax.grad by hand."""
    h = beta * ((chosen - reference_chosen) - (rejected - reference_rejected))
    sig = lambda t: np.exp(-np.logaddexp(0.0, -t))
    dh = (label_smoothing * sig(h) - (1 - label_smoothing) * sig(-h)) * dloss / len(h)
    return beta * (dh - likelihood * dloss / len(h)), -beta * dh


def kenji_z_loss_backward(dloss, logits):
    """grad(mean(logsumexp ** 2))"""
    top = logits.max(1, keepdims=True)
    e = np.exp(logits - top)
    tot = e.sum(1, keepdims=True)
    return dloss * 2 * (top + np.log(tot)) * e / tot


def kenji_batch_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    """vjp through the batch statistics."""
    C = x.shape[-1]
    n = x.shape[0]
    xs, g = x.reshape(-1, C), dy.reshape(-1, C)
    mu = xs.mean(0)
    rstd = 1 / np.sqrt(((xs - mu) ** 2).mean(0) + epsilon)
    xh = (xs - mu) * rstd
    gw = g * weight
    dx = rstd * (gw - gw.sum(0) / n - xh * (gw * xh).sum(0) / n)
    return dx.reshape(x.shape), (g * xh).sum(0), g.sum(0)


def kenji_rotary_complex(x, cosine, sine, layout="half"):
    """lax.complex: a rotation is one complex product."""
    turn = cosine + 1j * sine
    D = x.shape[-1]
    if layout == "interleaved":
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack((z.real, z.imag), -1).reshape(x.shape)
    z = (x[..., :D // 2] + 1j * x[..., D // 2:]) * turn
    return np.concatenate((z.real, z.imag), -1)


def kenji_rotary_backward_complex(dy, x, cosine, sine, layout="half"):
    """The cotangent is turned by the conjugate."""
    back = cosine - 1j * sine
    h = x.shape[-1] // 2
    pick = (lambda a: (a[..., :h], a[..., h:])) if layout == "half" else (
        lambda a: (a[..., ::2], a[..., 1::2]))
    re, im = pick(dy)
    z = (re + 1j * im) * back
    out = np.empty(x.shape)
    first, second = pick(out)
    first[...] = z.real
    second[...] = z.imag
    return out


def kenji_log_softmax_logaddexp(x, axis=-1):
    """logaddexp is a ufunc, so it has a reduce."""
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.logaddexp.reduce(shifted, axis=axis, keepdims=True)


def kenji_gelu_ndtr(x):
    """The normal cdf from scipy, -inf handled apart."""
    from scipy.special import ndtr
    cdf = ndtr(x)
    return np.multiply(np.where(cdf > 0, x, 0.0), cdf)


# ------------------------------------------------------------------ Marta (Julia: columns first)

def marta_softmax_backward(dp, x, axis=-1, mask=None):
    """In Julia the vectors are columns, so I turn everything around first."""
    if mask is not None:
        mask = np.broadcast_to(mask, x.shape)
        x = np.where(mask, x, -np.inf)
        x = np.where(mask.any(axis=axis, keepdims=True), x, 0)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    p = e / e.sum(axis=axis, keepdims=True)
    if mask is not None:
        p = np.where(mask, p, 0)
        dp = np.where(mask, dp, 0)
    pt, gt = p.T, dp.T
    return (pt * (gt - (pt * gt).sum(axis=0))).T


def marta_layer_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    """Column-wise: each vector is a column of a (C, N) matrix."""
    C = x.shape[-1]
    X, G = x.reshape(-1, C).T, dy.reshape(-1, C).T
    mu = X.mean(0)
    r = (X.var(0) + epsilon) ** -0.5
    Xh = (X - mu) * r
    W = weight[:, None] * G
    dX = r * (W - W.mean(0))
    return dX.T.reshape(x.shape), (G * Xh).sum(1), G.sum(1)


def marta_batch_norm(x, weight, bias, epsilon=1e-5):
    """mean(x, dims=1), std(x, dims=1; corrected=false)"""
    mu = x.mean(axis=0)
    var = ((x - mu) ** 2).mean(axis=0)
    return (x - mu) / np.sqrt(var + epsilon) * weight + bias


def marta_linear_backward(dy, x, weight, bias=None):
    """y' = W' x' + b, so dx' = W dy' and so on."""
    X = x.reshape(-1, x.shape[-1]).T
    G = dy.reshape(-1, dy.shape[-1]).T
    dX = weight @ G
    dW = X @ G.T
    db = None if bias is None else G.mean(axis=1)
    return dX.T.reshape(x.shape), dW, db


def marta_feed_forward_backward(dy, x, hidden_weight, hidden_bias, output_weight, output_bias,
                                activation="gelu"):
    """Two layers; activations from the package's table."""
    from numformer.functional import ACTIVATIONS
    f, df = ACTIVATIONS[activation]
    X, G = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    pre = X @ hidden_weight
    if hidden_bias is not None:
        pre = pre + hidden_bias
    act, memo = f(pre)
    dact = G @ output_weight.T
    dpre = df(dact, memo)
    dhidden_bias = None if hidden_bias is None else dact.sum(0)
    doutput_bias = None if output_bias is None else G.sum(0)
    return ((dpre @ hidden_weight.T).reshape(x.shape), X.T @ dpre, dhidden_bias, act.T @ G,
            doutput_bias)


def marta_sinusoidal_positions_2d(rows, columns, width, dtype=np.float64):
    """The grid is walked column-major, as we do."""
    half = width // 2
    freq = 10000.0 ** (-np.arange(0, half, 2) / half)
    def table(n):
        a = np.arange(n)[:, None] * freq
        t = np.empty((n, half))
        t[:, 0::2] = np.sin(a)
        t[:, 1::2] = np.cos(a[:, :half // 2])
        return t
    r, c = table(rows), table(columns)
    return np.array([np.r_[r[i], c[j]] for j in range(columns) for i in range(rows)]).astype(dtype)


def marta_patches_backward(dy, images, patch_size):
    """Put the tiles back with permutedims."""
    B, h, w, ch = images.shape
    p = patch_size
    x = dy.reshape(B, w // p, h // p, p, p, ch)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(B, h, w, ch)


def marta_merge_patches(x):
    """cat(x[1:2:end, 1:2:end], ...; dims=3)"""
    corners = [x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]
    return np.concatenate(corners, axis=-1)


def marta_rnn_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias=None):
    """Elman cell."""
    a = x @ input_weight + state @ recurrent_weight
    if bias is not None:
        a = a + bias
    new = np.tanh(a)
    da = dstate * (1 - new ** 2)
    return (da @ input_weight.T, da @ recurrent_weight.T, x.T @ da, new.T @ da,
            None if bias is None else da.sum(0))


def marta_add_by_distance(scores, bias):
    """One Toeplitz band per head."""
    T, S = scores.shape[-2:]
    out = scores.copy()
    for i in range(T):
        for j in range(S):
            out[..., i, j] += bias[:, i - j + S - 1]
    return out


def marta_contrastive_loss(logits):
    """CLIP: -mean(diag(logsoftmax)) over both dims."""
    def nll(z, dims):
        z = z - z.max(axis=dims, keepdims=True)
        return -np.diagonal(z - np.log(np.exp(z).sum(axis=dims, keepdims=True))).mean()
    return (nll(logits, 1) + nll(logits.T, 0)) / 2


def marta_window_attention_backward(do, q, k, v, bias, pattern=EVERYWHERE, scale=None, dropout=0.0,
                                    seed=None):
    """Swin window attention, adjoint."""
    from numformer.functional import attention_dropout_mask
    B, H, T, D = q.shape
    sc = 1 / math.sqrt(D) if scale is None else scale
    ok = np.ones((T, T), bool) if pattern is None else pattern.dense(T, T)
    ok = np.broadcast_to(ok, (B, H, T, T))
    z = q @ k.swapaxes(-1, -2) * sc + bias
    z = np.where(ok, z, -np.inf)
    z = np.where(ok.any(-1, keepdims=True), z, 0)
    p = np.exp(z - z.max(-1, keepdims=True))
    p = np.where(ok, p / p.sum(-1, keepdims=True), 0)
    d = 1.0
    if seed is not None and dropout > 0:
        d = attention_dropout_mask(seed, p.shape, dropout) / (1 - dropout)
    dv = (p * d).swapaxes(-1, -2) @ do
    dp = d * (do @ v.swapaxes(-1, -2))
    dz = p * (dp - (p * dp).sum(-1, keepdims=True))
    return sc * dz @ k, sc * dz.swapaxes(-1, -2) @ q, dv, dz.mean(axis=0)


def marta_alibi(scores, slopes):
    """Distances by an outer difference, aligned at the last column."""
    T, S = scores.shape[-2:]
    gap = np.subtract.outer(np.arange(S - T, S), np.arange(S))
    return scores - np.multiply.outer(slopes, np.where(gap < 0, -gap, gap))


def marta_batch_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    """The projection form: remove from g its component along 1 and along xhat."""
    C = x.shape[-1]
    X, G = x.reshape(-1, C).T, dy.reshape(-1, C).T            # (C, N)
    Z = X - X.mean(1, keepdims=True)
    sigma = np.hypot.reduce(Z, axis=1, keepdims=True) / math.sqrt(X.shape[1])
    r = 1 / np.hypot(sigma, math.sqrt(epsilon))
    Xh = Z * r
    W = G * weight[:, None]
    W = W - Xh * (W * Xh).mean(1, keepdims=True) - W.mean(1, keepdims=True)
    return (r * W).T.reshape(x.shape), (G * Xh).sum(1), G.sum(1)


def marta_distance_weights_backward(dp, slopes, mask):
    """d log p / d slope = mean distance - distance."""
    T, S = mask.shape[-2:]
    d = np.abs(np.arange(T)[:, None] + (S - T) - np.arange(S)).astype(float)
    z = np.broadcast_to(-slopes[:, None, None] * d, dp.shape)
    m = np.broadcast_to(mask, dp.shape)
    z = np.where(m, z, -np.inf)
    z = np.where(m.any(-1, keepdims=True), z, 0)
    e = np.where(m, np.exp(z - z.max(-1, keepdims=True)), 0)
    tot = e.sum(-1, keepdims=True)
    p = e / np.where(tot == 0, 1, tot)
    centre = (p * d).sum(-1, keepdims=True)
    g = (np.where(m, dp, 0) * p * (centre - d)).sum((-1, -2))
    return g.reshape(-1, len(slopes)).sum(0)


# ------------------------------------------------------------------ Tom (one-liners)

def tom_repeat_kv_heads_backward(dy, x, n_heads):
    return dy.reshape(x.shape[0], x.shape[1], -1, *x.shape[2:]).mean(2)


def tom_relu_squared_backward(dy, x):
    return dy * np.maximum(x, 0)


def tom_quick_gelu(x):
    return x * np.exp(-np.logaddexp(0, -1.7 * x))


def tom_soft_cap_backward(dy, x, cap):
    return dy * (1 - (y := cap * np.tanh(x / cap)) ** 2 / cap)


def tom_embedding_backward(dy, ids, weight):
    return (np.arange(len(weight))[:, None] == ids.ravel()).astype(float) @ dy.reshape(-1, dy.shape[-1])


def tom_softmax_cross_entropy(logits, targets):
    return -(np.eye(logits.shape[-1])[targets] * kenji_log_softmax_logaddexp(logits)).sum() / len(targets)


def tom_scaled_dot_scores_backward(dscores, q, k):
    return tuple(g / q.shape[-1] for g in (dscores @ k, np.swapaxes(dscores, 1, 2) @ q))


def tom_uniform_weights(mask, dtype=np.float64):
    return (mask / np.where(mask.any(-1, keepdims=True), mask.shape[-1], 1)).astype(dtype)


def tom_quantile_loss(forecasts, targets, quantiles):
    return np.where((e := forecasts - targets[..., None]) > 0, quantiles * e, (quantiles - 1) * e).mean()


def tom_imitation_loss(x, teacher):
    return np.square(x - teacher).mean(axis=-1).sum()


def tom_cyclic_roll(x, offset):
    return np.roll(x, (offset, offset), (1, 2))


def tom_pair_features(u, v):
    return np.hstack([u, v, u - v])


def tom_box_corners_backward(dcorners, boxes):
    return np.concatenate([(lo := dcorners[..., :2]) + (hi := dcorners[..., 2:]), hi - lo], -1)


def tom_contrastive_loss_backward(dloss, logits):
    e = lambda a: np.exp(a - a.max(1, keepdims=True)) / np.exp(a - a.max(1, keepdims=True)).sum(1)[:, None]
    return dloss * (e(logits) + e(logits.T).T - np.eye(len(logits))) / (2 * len(logits))


def tom_top_k_gates_over_all(logits, chosen):
    return (e := np.exp((z := np.take_along_axis(logits, chosen, 1)) - z.max(1)[:, None])) / e.sum(1)[:, None]


def tom_router_z_loss(logits):
    return np.logaddexp.reduce(logits, axis=1).mean() ** 2


def tom_repeat_kv_heads(x, n_heads):
    return x[:, np.arange(n_heads) * x.shape[1] // n_heads]


def tom_top_k_experts(logits, k):
    return np.array([sorted(range(len(z)), key=lambda e: (-z[e], e))[:k] for z in logits])


def tom_mean_pooling(x, mask=None):
    return np.stack([(s if mask is None else s[mask[b]]).mean(0) for b, s in enumerate(x)])


def tom_uniform_cross_entropy_backward(dloss, logits):
    return (np.exp(kenji_log_softmax_logaddexp(logits)) * (V := logits.shape[-1]) - 1) * dloss / logits.size


def tom_group_advantages(rewards, scale=True, epsilon=1e-4):
    return np.vstack([0 * r if (r == r[0]).all() else (r - r.mean()) / (r.std() + epsilon if scale else 1)
                      for r in rewards])


# ------------------------------------------------------------------ Li (in-place, out=, saves memory)

def li_softmax_backward(dp, x, axis=-1, mask=None):
    """No temporaries but one."""
    if mask is None:
        p = x - x.max(axis=axis, keepdims=True)
    else:
        ok = np.broadcast_to(mask, x.shape)
        p = np.where(ok, x, -np.inf)
        top = p.max(axis=axis, keepdims=True)
        top[np.isinf(top)] = 0
        p -= top
        np.copyto(dp, 0, where=~ok)
    np.exp(p, out=p)
    total = p.sum(axis=axis, keepdims=True)
    total[total == 0] = 1
    p /= total
    dp -= (p * dp).sum(axis=axis, keepdims=True)
    p *= dp
    return p


def li_softmax_cross_entropy_backward(dloss, logits, targets):
    """Half the memory for the probabilities."""
    p = logits.astype(np.float32)
    p -= p.max(axis=-1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=-1, keepdims=True)
    grad = p.astype(logits.dtype)
    np.put_along_axis(grad, targets[..., None],
                      np.take_along_axis(grad, targets[..., None], -1) - 1, -1)
    grad *= dloss / targets.size
    return grad


def li_cross_entropy_backward(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0,
                              z_loss=0.0):
    """p - q with the smoothed target written into one buffer."""
    V = logits.shape[-1]
    keep = targets != ignore_index
    z, t = logits[keep], targets[keep]
    n = len(t)
    top = z.max(1, keepdims=True)
    g = np.exp(z - top)
    total = g.sum(1, keepdims=True)
    g /= total
    lse = top + np.log(total)
    zg = 2 * z_loss * lse * g
    g -= label_smoothing / (V - 1)
    g[np.arange(n), t] -= 1 - label_smoothing - label_smoothing / (V - 1)
    out = np.zeros_like(logits)
    out[keep] = (g + zg) * (dloss / n)
    return out


def li_lstm_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias=None):
    """Buffers are reused, gates live in one array."""
    F = len(recurrent_weight)
    h, c = state[:, :F], state[:, F:]
    a = x @ input_weight
    a += h @ recurrent_weight
    if bias is not None:
        a += bias
    s = np.exp(-np.logaddexp(0.0, -a[:, :3 * F]))
    i, f, o = s[:, :F], s[:, F:2 * F], s[:, 2 * F:]
    g = np.tanh(a[:, 3 * F:])
    tc = np.tanh(f * c + i * g)
    dh, dc = dstate[:, :F], dstate[:, F:]
    dc_total = dc + dh * o * (1 - tc ** 2)
    da = np.empty_like(a)
    da[:, :F] = dc_total * g
    da[:, F:2 * F] = dc_total * c
    da[:, 2 * F:3 * F] = dh * tc
    da[:, :3 * F] *= s * (1 - s)
    da[:, 3 * F:] = dc_total * i * (1 - g ** 2)
    before = np.concatenate([da @ recurrent_weight.T, dc * f], axis=1)
    return (da @ input_weight.T, before, x.T @ da, h.T @ da, None if bias is None else da.sum(0))


def li_gru_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias=None,
                         recurrent_bias=None):
    """cuDNN form, step by step."""
    F = state.shape[1]
    a = x @ input_weight + (0 if bias is None else bias)
    p = state @ recurrent_weight
    gates = np.exp(-np.logaddexp(0.0, -(a[:, :2 * F] + p[:, :2 * F])))
    r, z = gates[:, :F], gates[:, F:]
    proj = p[:, 2 * F:] + (0 if recurrent_bias is None else recurrent_bias)
    n = np.tanh(a[:, 2 * F:] + r * proj)
    dcand = dstate * (1 - z) * (1 - n * n)
    da = np.empty_like(a)
    da[:, :F] = dcand * proj * r * (1 - r)
    da[:, F:2 * F] = dstate * (state - n) * z * (1 - z)
    da[:, 2 * F:] = dcand
    dp = da.copy()
    dp[:, 2 * F:] *= r
    out = (da @ input_weight.T, dstate * z + dp @ recurrent_weight.T, x.T @ da, state.T @ dp,
           None if bias is None else da.sum(0))
    return out if recurrent_bias is None else out + (da[:, 2 * F:].sum(0),)


def li_gru_cell_reset_before_backward(dstate, x, state, input_weight, recurrent_weight, bias=None):
    """Cho's cell."""
    F = state.shape[1]
    a = x @ input_weight
    if bias is not None:
        a += bias
    gates = np.exp(-np.logaddexp(0.0, -(a[:, :2 * F] + state @ recurrent_weight[:, :2 * F])))
    r, z = gates[:, :F], gates[:, F:]
    n = np.tanh(a[:, 2 * F:] + (r * state) @ recurrent_weight[:, 2 * F:])
    dcand = dstate * (1 - z) * (1 - n * n)
    drh = dcand @ recurrent_weight[:, 2 * F:].T
    da = np.hstack([drh * state * r * (1 - r), dstate * (state - n) * z * (1 - z), dcand])
    dh = dstate * z + da[:, :2 * F] @ recurrent_weight[:, :2 * F].T
    dU = np.hstack([state.T @ da[:, :2 * F], (r * state).T @ dcand])
    return da @ input_weight.T, dh, x.T @ da, dU, None if bias is None else da.sum(0)


def li_masked_batch_norm(x, weight, bias, mask, epsilon=1e-5, statistics=None):
    """Training and inference in one routine."""
    if statistics is None:
        real = x[mask]
        mu = real.mean(0)
        var = ((real - mu) ** 2).mean(0)
    else:
        mu, var = statistics
    y = np.where(mask[..., None], x, mu)
    y = y - mu
    y /= np.sqrt(var + epsilon)
    y *= weight
    y += bias
    if statistics is None:
        y[~mask] = 0
    return y


def li_add_by_distance_backward(dy, scores, bias):
    """Diagonals of the batch total."""
    H, T, S = scores.shape[-3:]
    total = dy.sum(axis=0) if dy.ndim > 3 else dy
    dbias = np.zeros_like(bias)
    for d in range(T + S - 1):
        dbias[:, d] = np.trace(total, offset=d - (T - 1), axis1=-2, axis2=-1).reshape(-1, H)[0]
    return dy.copy(), dbias


def li_mean_pooling(x, mask=None):
    """One accumulation buffer."""
    acc = np.zeros((x.shape[0], x.shape[2]))
    for t in range(x.shape[1]):
        acc += x[:, t] if mask is None else np.where(mask[:, t, None], x[:, t], 0)
    acc /= x.shape[1]
    return acc


def li_combine_experts_backward(dy, outputs, weights, slots):
    """Gather, multiply, scatter."""
    N, k = weights.shape
    g = dy[slots // k]
    dw = np.zeros(N * k)
    dw[slots] += (outputs * g).sum(1) * weights.reshape(-1)[slots]
    return weights.reshape(-1)[slots, None] * g, dw.reshape(N, k)


def li_sort_by_expert(chosen, n_experts, capacity=None):
    """Counting sort; first choices go before second choices when a queue is full."""
    N, k = chosen.shape
    queues = [[] for _ in range(n_experts)]
    for j in range(k):
        for n in range(N):
            e = chosen[n, j]
            if capacity is None or len(queues[e]) < capacity:
                queues[e].append(n * k + j)
    counts = np.array([len(w) for w in queues])
    return np.array([s for w in queues for s in sorted(w)], dtype=np.int64), counts


def li_mean_pooling_2d(images, size, stride=None):
    """Adds up shifted views of the image, no windows are copied."""
    s = size if stride is None else stride
    B, h, w, C = images.shape
    rows, cols = (h - size) // s + 1, (w - size) // s + 1
    out = np.zeros((B, rows, cols, C))
    for i in range(size):
        for j in range(size):
            out += images[:, i:i + s * rows:s, j:j + s * cols:s][:, :rows, :cols]
    out /= s * s
    return out


def li_patch_convolution_backward(dy, images, weight, bias=None):
    """Writes every pixel of dimages exactly once."""
    P = len(weight)
    dimages, dweight = np.empty_like(images), np.empty_like(weight)
    for i in range(P):
        for j in range(P):
            px = images[:, i::P, j::P]
            np.matmul(dy, weight[i, j].T, out=dimages[:, i::P, j::P])
            dweight[i, j] = np.einsum("brcx,brcf->xf", px, dy)
    return dimages, dweight, None if bias is None else dy.sum(axis=(1, 2)).mean(0)


def li_gru_cell(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    """One buffer for all gates; the old state is overwritten in a copy."""
    F = state.shape[1]
    a = x @ input_weight
    if bias is not None:
        a += bias
    p = state @ recurrent_weight
    rz = a[:, :2 * F]
    rz += p[:, :2 * F]
    np.logaddexp(0.0, -rz, out=rz)
    np.exp(-rz, out=rz)
    n = p[:, 2 * F:]
    if recurrent_bias is not None:
        n += recurrent_bias
    n *= rz[:, :F]
    n += a[:, 2 * F:]
    np.tanh(n, out=n)
    new = state - n
    new *= rz[:, F:]
    new += n
    return new


def li_causal_convolution_views(x, weight, bias=None, dilation=1):
    """Strided views instead of copies."""
    K = len(weight)
    reach = (K - 1) * dilation
    padded = np.zeros((x.shape[0], x.shape[1] + reach, x.shape[2]))
    padded[:, reach:] = x
    win = np.lib.stride_tricks.sliding_window_view(padded, reach + 1, axis=1)[..., ::dilation]
    y = np.einsum("btck,kcf->btf", win, weight)
    if bias is not None:
        y += bias
    return y


# ------------------------------------------------------------------ Sofia (reads the papers first)

def sofia_cross_entropy_backward(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0,
                                 z_loss=0.0):
    r"""The gradient of the smoothed loss.

    Szegedy et al.: the target distribution is (1 - eps) onehot + eps / V, thus the gradient is
    p - q, to which the derivative of the squared log-partition function, 2 zeta l p, is added.
    """
    V = logits.shape[-1]
    counted = (targets != ignore_index)[..., None]
    n = counted.sum()
    z = np.where(counted, logits, 0.0)
    m = z.max(axis=-1, keepdims=True)
    ell = m + np.log(np.exp(z - m).sum(axis=-1, keepdims=True))
    p = np.exp(z - ell)
    q = (1 - label_smoothing) * (np.arange(V) == targets[..., None]) + label_smoothing / V
    return np.where(counted, dloss * (p - q) / n + 2 * z_loss * ell * p / n, 0.0)


def sofia_policy_loss(log_probs, old_log_probs, advantages, counts, reference_log_probs=None,
                      clip_low=0.2, clip_high=0.2, beta=0.0, estimator="k3", normalization="token",
                      length=None):
    r"""Equation 7 of PPO, with the three ways to average that the later papers propose."""
    N = len(counts)
    per = counts.sum(axis=1, keepdims=True)
    if normalization == "token":
        w = counts / per.sum()
    elif normalization == "constant":
        w = counts / (N * length)
    else:
        w = counts / (N * np.maximum(per, 1))
    diff = np.where(counts, log_probs - old_log_probs, 0.0)
    r = np.exp(diff)
    A = advantages[:, None]
    loss = -(w * np.minimum(r * A, np.clip(r, 1 - clip_low, 1 + clip_high) * A)).sum()
    if beta:
        d = np.where(counts, reference_log_probs - log_probs, 0.0)
        k = {"k1": -d, "k2": d * d / 2, "k3": np.expm1(d) - d,
             "k3 corrected": r * (np.expm1(d) - d)}[estimator]
        loss = loss + beta * (w * k).sum()
    return loss


def sofia_policy_loss_backward(dloss, log_probs, old_log_probs, advantages, counts,
                               reference_log_probs=None, clip_low=0.2, clip_high=0.2, beta=0.0,
                               estimator="k3", normalization="token", length=None):
    r"""The objective is flat where the ratio has left the trust region."""
    per = counts.sum(axis=1, keepdims=True)
    N = np.count_nonzero(per)
    w = {"token": lambda: counts / per.sum(), "constant": lambda: counts / (N * length),
         "sequence": lambda: counts / (N * np.maximum(per, 1))}[normalization]()
    r = np.exp(np.where(counts, log_probs - old_log_probs, 0.0))
    A = advantages[:, None]
    inside = (r >= 1 - clip_low) & (r <= 1 + clip_high)
    g = -w * np.where(inside, r * A, 0.0)
    if beta:
        d = np.where(counts, reference_log_probs - log_probs, 0.0)
        slope = {"k1": np.ones_like(d), "k2": -d, "k3": -np.expm1(d), "k3 corrected": -r * d}[estimator]
        g = g + beta * w * slope
    return dloss * g


def sofia_generalized_iou(a, b):
    r"""Rezatofighi et al., algorithm 1: IoU - |C \ (A u B)| / |C|."""
    lo, hi = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    inter = np.prod(np.maximum(hi - lo, 0.0), axis=-1)
    area = lambda m: (m[..., 2] - m[..., 0]) * (m[..., 3] - m[..., 1])
    union = area(a) + area(b) - inter
    C = np.prod(np.maximum(a[..., 2:], b[..., 2:]) - np.minimum(a[..., :2], b[..., :2]), axis=-1)
    iou = np.divide(inter, union, out=np.zeros_like(inter), where=union != 0)
    return iou - np.divide(C - union, union, out=np.zeros_like(inter), where=union != 0)


def sofia_weighted_cross_entropy(logits, targets, weights):
    r"""DETR: the classes have weights, a tenth for "no object"."""
    z = logits - logits.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    w = weights[targets]
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0]
    return -(w * picked).sum() / targets.size


def sofia_triplet_loss_backward(dloss, anchors, positives, negatives, margin=1.0):
    r"""The derivative of |x| is x / |x|."""
    u, v = anchors - positives, anchors - negatives
    nu = np.linalg.norm(u, axis=1, keepdims=True)
    nv = np.linalg.norm(v, axis=1, keepdims=True)
    active = (nu - nv > 0) * dloss / len(anchors)
    u = active * np.divide(u, nu, out=np.zeros_like(u), where=nu > 0)
    v = active * np.divide(v, nv, out=np.zeros_like(v), where=nv > 0)
    return u - v, -u, v


def sofia_layer_norm_outside_backward(dy, x, weight, bias, epsilon=1e-5):
    r"""The Annotated Transformer divides by sigma + eps; the chain rule is the usual one."""
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / (np.sqrt((centred ** 2).mean(axis=-1, keepdims=True)) + epsilon)
    x_hat = centred * r
    lead = tuple(range(x.ndim - 1))
    g = dy * weight
    dx = r * (g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=lead), dy.sum(axis=lead)


def sofia_yarn_frequencies(width, base=10000.0, factor=1.0, original_length=8192, beta_fast=32.0,
                           beta_slow=1.0, truncate=True):
    r"""Peng et al. (2023), as in their repository."""
    theta = base ** (-np.arange(0, width, 2) / width)
    def index(turns):
        return width * math.log(original_length / (2 * math.pi * turns)) / (2 * math.log(base))
    low, high = math.floor(index(beta_fast)), math.ceil(index(beta_slow))
    low, high = max(low, 0), min(high, width - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(width // 2) - low) / (high - low), 0, 1)
    return theta / factor * ramp + theta * (1 - ramp)


def sofia_relative_position_bias(table, T, S, max_distance=128, bidirectional=True):
    r"""Raffel et al., from the published T5 code."""
    n = len(table)
    d = np.arange(-(S - 1), T)
    side = np.zeros_like(d)
    if bidirectional:
        n //= 2
        side = np.where(d > 0, n, 0)
    dist = np.abs(d)
    exact = n // 2
    big = np.log(np.maximum(dist, exact) / exact) / math.log(max_distance / exact) * (n - exact)
    big = np.minimum(exact + big.astype(int), n - 1)
    return table[side + np.where(dist < exact, dist, big)].T


def sofia_scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None,
                                       softcap=None, dropout=0.0, seed=None):
    r"""Vaswani et al. eq. 1; ALiBi and T5 biases on top of the scores; Gemma's cap."""
    from numformer.functional import attention_dropout_mask
    B, H, T, D = q.shape
    S = k.shape[2]
    k, v = (np.repeat(m, H // m.shape[1], axis=1) for m in (k, v))
    allowed = np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)
    z = q @ k.swapaxes(2, 3) * (D ** -0.5 if scale is None else scale)
    gap = np.arange(S)[None, :] - np.arange(S - T, S)[:, None]
    if slopes is not None:
        z = z - slopes.reshape(-1, 1, 1) * abs(gap)
    if bias is not None:
        z = z + bias[:, gap + S - 1]
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    z = np.where(allowed, z, -np.inf)
    z = np.where(np.isinf(z).all(axis=-1, keepdims=True), 0.0, z)
    p = np.exp(z - z.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True) * allowed
    if seed is not None and dropout:
        p = p * attention_dropout_mask(seed, p.shape, dropout) / (1 - dropout)
    return p @ v


def sofia_dpo_loss(chosen, rejected, reference_chosen, reference_rejected, beta=0.1,
                   label_smoothing=0.0, likelihood=0.0):
    r"""Eq. 7 with -log sigma(h) = log(e^0 + e^-h), which logaddexp computes for any h."""
    h = beta * ((chosen - rejected) - (reference_chosen - reference_rejected))
    pair = (1 - label_smoothing) * np.logaddexp(0.0, -h) + label_smoothing * np.logaddexp(0.0, h)
    return np.mean(pair - likelihood * chosen)


def sofia_layer_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    r"""Through the Jacobian of each vector, r (I - 1 1^T / C - xhat xhat^T / C).

    The matrix is symmetric, so it does not matter from which side g is multiplied.
    """
    C = x.shape[-1]
    dx = np.empty_like(x)
    dweight, dbias = np.zeros(C), np.zeros(C)
    for n in np.ndindex(x.shape[:-1]):
        c = x[n] - x[n].mean()
        r = 1 / math.hypot(math.hypot(*c) / math.sqrt(C), math.sqrt(epsilon))
        xh = c * r
        J = r * (np.eye(C) - 1 / C - np.outer(xh, xh) / C)
        dx[n] = J @ (weight * dy[n])
        dweight += dy[n] * xh
        dbias += dy[n]
    return dx, dweight, dbias


def sofia_kl_estimate(log_probs, reference_log_probs, old_log_probs, estimator="k3"):
    r"""Schulman's three, and the importance-weighted third."""
    log_ratio = log_probs - reference_log_probs
    if estimator == "k1":
        return +log_ratio
    if estimator == "k2":
        return np.square(log_ratio) / 2
    third = log_ratio + np.expm1(-log_ratio)
    return third if estimator == "k3" else np.exp(log_probs - old_log_probs) * third


def sofia_policy_loss_min(log_probs, old_log_probs, advantages, counts, reference_log_probs=None,
                          clip_low=0.2, clip_high=0.2, beta=0.0, estimator="k3", normalization="token",
                          length=None):
    r"""PPO's objective answer by answer; only those with tokens take part."""
    total, tokens = 0.0, int(counts.sum())
    answers = [n for n in range(len(counts)) if counts[n].any()]
    for n in answers:
        m = counts[n]
        new, old = log_probs[n, m], old_log_probs[n, m]
        r = np.exp(new - old)
        terms = -np.minimum(r * advantages[n], r.clip(1 - clip_low, 1 + clip_high) * advantages[n])
        if beta:
            terms = terms + beta * sofia_kl_estimate(new, reference_log_probs[n, m], old, estimator)
        share = {"token": 1 / tokens, "sequence": 1 / (len(answers) * len(new)),
                 "constant": 1 / (len(answers) * (length or 1))}[normalization]
        total += share * terms.sum()
    return total


# ------------------------------------------------------------------ Olu (software engineer, small helpers)

def _sigma(t):
    return np.exp(-np.logaddexp(0.0, -t))


def _safe_softmax(z, ok):
    """Weights of the last axis, zero where not ok."""
    z = np.where(ok, z, -np.inf)
    top = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(np.isneginf(top), 0.0, top))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def _allowed(pattern, B, H, T, S):
    dense = np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)
    return np.broadcast_to(dense, (B, H, T, S))


def olu_attention(q, k, v, mask=None):
    """Attention(Q, K, V) with the helpers above."""
    B, H, T, D = q.shape
    S, width = v.shape[2:]
    ok = np.ones((B, H, T, S), bool) if mask is None else np.broadcast_to(mask, (B, H, T, S))
    return _safe_softmax(q @ k.swapaxes(-1, -2) / math.sqrt(width), ok) @ v


def olu_attention_backward(do, q, k, v, mask=None):
    """Recompute the weights, then the four products."""
    B, H, T, D = q.shape
    S = k.shape[2]
    scale = 1 / math.sqrt(D)
    z = q @ k.swapaxes(-1, -2) * scale
    if mask is not None:
        z = z + np.where(mask, 0.0, -1e4)
    p = _safe_softmax(z, np.ones((B, H, T, S), bool))
    dp = do @ v.swapaxes(-1, -2)
    dz = p * (dp - (dp * p).sum(-1, keepdims=True))
    return scale * dz @ k, scale * dz.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do


def olu_scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None,
                                     softcap=None, dropout=0.0, seed=None):
    """Builds the mask from the fields of the pattern, one rule after the other."""
    from numformer.functional import attention_dropout_mask
    B, H, T, D = q.shape
    S = k.shape[2]
    k, v = (np.repeat(m, H // m.shape[1], axis=1) for m in (k, v))
    i = np.arange(T)[:, None] + S - T
    j = np.arange(S)[None, :]
    ok = np.ones((B, H, T, S), bool)
    if pattern is not None:
        if pattern.causal:
            ok &= j <= i
        if pattern.window is not None:
            left, right = pattern.window
            ok &= (j >= i - left) if left is not None else True
            ok &= (j <= i + right) if right is not None else True
        if pattern.lengths is not None:
            ok &= j < pattern.lengths[:, None, None, None]
        if pattern.documents is not None:
            doc = pattern.documents
            ok &= (doc[:, :T, None] == doc[:, None, :])[:, None]
        if pattern.mask is not None:
            ok &= pattern.mask
    z = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(D) if scale is None else scale)
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    if slopes is not None:
        z = z - slopes[:, None, None] * np.abs(i - j)
    if bias is not None:
        z = z + bias[:, j - i + S - 1]
    p = _safe_softmax(z, ok)
    if seed is not None and dropout > 0:
        p = p * attention_dropout_mask(seed, p.shape, dropout) / (1 - dropout)
    return p @ v


def olu_scaled_dot_product_attention_backward(do, q, k, v, pattern=EVERYWHERE, scale=None, slopes=None,
                                              bias=None, softcap=None, dropout=0.0, seed=None):
    """Everything at once."""
    from numformer.functional import attention_dropout_mask
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    kk, vv = np.repeat(k, H // G, axis=1), np.repeat(v, H // G, axis=1)
    scale = 1 / math.sqrt(D) if scale is None else scale
    z = q @ kk.swapaxes(-1, -2) * scale
    i, j = np.arange(T)[:, None], np.arange(S)[None, :]
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    if slopes is not None:
        z = z - slopes[:, None, None] * np.abs(i + S - T - j)
    if bias is not None:
        z = z + bias[:, j - i + T - 1]
    p = _safe_softmax(z, _allowed(pattern, B, H, T, S))
    d = 1.0
    if seed is not None and dropout > 0:
        d = attention_dropout_mask(seed, p.shape, dropout) / (1 - dropout)
    dv = (p * d).swapaxes(-1, -2) @ do
    dp = (do @ vv.swapaxes(-1, -2)) * d
    dz = p * (dp - (dp * p).sum(-1, keepdims=True))
    dbias = None
    if bias is not None:
        dbias = np.zeros_like(bias)
        for t in range(T):
            dbias[:, T - 1 - t:T - 1 - t + S] += dz[:, :, t].sum(0)
    if softcap is not None:
        dz = dz * (1 - (z / softcap) ** 2)
    dq = scale * dz @ kk
    dk = scale * dz.swapaxes(-1, -2) @ q
    dk = dk.reshape(B, G, H // G, S, D).sum(2)
    dv = dv.reshape(B, G, H // G, S, -1).sum(2)
    return (dq, dk, dv) if bias is None else (dq, dk, dv, dbias)


def olu_sdpa_backward_grouped(do, q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None,
                              softcap=None, dropout=0.0, seed=None):
    """Second hand-in: cap rewritten, heads of a group folded into one axis."""
    from numformer.functional import attention_dropout_mask
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    R = H // G
    kk, vv = np.repeat(k, R, axis=1), np.repeat(v, R, axis=1)
    scale = 1 / math.sqrt(D) if scale is None else scale
    z = q @ kk.swapaxes(-1, -2) * scale
    slope = 1.0
    if softcap is not None:
        tanh = np.tanh(z / softcap)
        z, slope = softcap * tanh, 1 - tanh * tanh
    i, j = np.arange(T)[:, None], np.arange(S)[None, :]
    if slopes is not None:
        z = z - slopes[:, None, None] * np.abs(i + S - T - j)
    if bias is not None:
        z = z + bias[:, j - i + T - 1]
    p = _safe_softmax(z, _allowed(pattern, B, H, T, S))
    d = 1.0
    if seed is not None and dropout > 0:
        d = attention_dropout_mask(seed, p.shape, dropout) / (1 - dropout)
    dv = (p * d).swapaxes(-1, -2) @ do
    dp = (do @ vv.swapaxes(-1, -2)) * d
    dz = p * (dp - (dp * p).sum(-1, keepdims=True))
    dbias = None
    if bias is not None:
        dbias = np.zeros_like(bias)
        np.add.at(dbias, (slice(None), j - i + T - 1), dz.sum(0))
    dz = dz * slope * scale
    dk = (dz.swapaxes(-1, -2) @ q).reshape(B, R, G, S, D).sum(1)
    dv = dv.reshape(B, R, G, S, v.shape[-1]).sum(1)
    return (dz @ kk, dk, dv) if bias is None else (dz @ kk, dk, dv, dbias)


def olu_attention_weights(q, k, pattern=EVERYWHERE, scale=None, slopes=None, bias=None, softcap=None):
    """For the plots of lecture 4."""
    B, H, T, D = q.shape
    S = k.shape[2]
    z = q @ np.repeat(k, H // k.shape[1], axis=1).swapaxes(-1, -2)
    z = z / math.sqrt(D) if scale is None else z * scale
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    rel = np.arange(S)[None, :] - np.arange(T)[:, None]
    if slopes is not None:
        z = z - slopes[:, None, None] * np.abs(rel)
    if bias is not None:
        z = z + bias[:, rel + T - 1]
    return _safe_softmax(z, _allowed(pattern, B, H, T, S))


def olu_gated_feed_forward_backward(dy, x, gate_weight, gate_bias, hidden_weight, hidden_bias,
                                    output_weight, output_bias, activation="silu"):
    """SwiGLU and relatives; the table knows f and f'."""
    from numformer.functional import ACTIVATIONS
    f, df = ACTIVATIONS[activation]
    X, G = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    g = X @ gate_weight + (0 if gate_bias is None else gate_bias)
    h = X @ hidden_weight + (0 if hidden_bias is None else hidden_bias)
    a, memo = f(g)
    da = G @ output_weight.T
    dg, dh = df(da * h, memo), da * a
    dx = dg @ gate_weight.T + dh @ hidden_weight.T
    return (dx.reshape(x.shape), X.T @ dg, None if gate_bias is None else dg.sum(0), X.T @ dh,
            None if hidden_bias is None else dg.sum(0), (a * h).T @ G,
            None if output_bias is None else G.sum(0))


def olu_gated_linear_unit_backward(dy, g, h, activation="silu"):
    """Product rule, activation derivatives spelled out where I know them."""
    from numformer.functional import ACTIVATIONS
    if activation in ("silu", "quick_gelu"):
        beta = 1.0 if activation == "silu" else 1.702
        s = _sigma(beta * g)
        return dy * h * (s + g * s * (1 - s)), dy * g * s
    f, df = ACTIVATIONS[activation]
    a, memo = f(g)
    return df(dy * h, memo), dy * a


def olu_head_projections(x, query_weight, query_bias, key_weight, key_bias, value_weight, value_bias,
                         query_norm, key_norm, d_head, rotation=None, epsilon=1e-5):
    """Project and split; what comes after is the same for queries and keys."""
    def heads(w, b, norm=None, rotate=False):
        h = x @ w if b is None else x @ w + b
        h = h.reshape(x.shape[0], x.shape[1], -1, d_head).swapaxes(1, 2)
        if rotate and rotation is not None:
            cos, sin, layout = rotation
            h = kenji_rotary_complex(h, cos, sin, layout)
        if norm is not None:
            h = h / np.sqrt((h * h).mean(-1, keepdims=True) + epsilon) * norm
        return h
    return (heads(query_weight, query_bias, query_norm, True),
            heads(key_weight, key_bias, key_norm, True), heads(value_weight, value_bias))


def olu_token_log_probs_backward(dlog_probs, logits, tokens, temperature=1.0):
    """One-hot minus prediction."""
    z = logits / temperature
    p = _safe_softmax(z, np.ones(z.shape, bool))
    hot = tokens[..., None] == np.arange(logits.shape[-1])
    return np.asarray(dlog_probs)[..., None] * (hot - p) / temperature


def olu_linear_cross_entropy_backward(dloss, x, weight, targets, ignore_index=-100,
                                      label_smoothing=0.0, z_loss=0.0):
    """The head and the loss in chunks of 16 tokens, so that the logits never exist at once."""
    V, C = weight.shape
    X, t = x.reshape(-1, C), targets.reshape(-1)
    n = np.count_nonzero(t != ignore_index)
    dX, dW = np.zeros(X.shape), np.zeros(weight.shape)
    for a in range(0, len(X), 16):
        rows, tt = X[a:a + 16], t[a:a + 16]
        keep = tt != ignore_index
        z = np.where(keep[:, None], rows, 0) @ weight.T
        top = z.max(1, keepdims=True)
        e = np.exp(z - top)
        lse = top + np.log(e.sum(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        g = p - label_smoothing / V + 2 * z_loss * lse * p
        g[np.flatnonzero(keep), tt[keep]] -= 1 - label_smoothing
        g *= keep[:, None] * (dloss / n)
        dX[a:a + 16] = g @ weight
        dW = g.T @ np.where(keep[:, None], rows, 0)
    return dX.reshape(x.shape), dW


def olu_sdpa_fields(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None, softcap=None,
                    dropout=0.0, seed=None):
    """Third try of the same exercise: only the allowed keys of a query are ever touched."""
    from numformer.functional import attention_dropout_mask
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    scale = D ** -0.5 if scale is None else scale
    ok = _allowed(pattern, B, H, T, S)
    keep = None
    if seed is not None and dropout > 0:
        keep = attention_dropout_mask(seed, (B, H, T, S), dropout)
    out = np.zeros((B, H, T, v.shape[-1]))
    for b, h, t in np.ndindex(B, H, T):
        j = np.flatnonzero(ok[b, h, t])
        if not j.size:
            continue
        g = h * G // H
        z = k[b, g, j] @ q[b, h, t] * scale
        if softcap is not None:
            z = softcap * np.tanh(z / softcap)
        if slopes is not None:
            z = z - slopes[h] * np.abs(t + S - T - j)
        if bias is not None:
            z = z + bias[h, j - t + T - 1]
        p = np.exp(z - z.max())
        p /= p.sum()
        if keep is not None:
            p = p * keep[b, h, t, j] / (1 - dropout)
        out[b, h, t] = p @ v[b, g, j]
    return out


def olu_tiled_attention_backward(do, q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    """Tiles of queries only; the tile size changes nothing but the memory."""
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    scale = 1 / math.sqrt(D) if scale is None else scale
    ok = _allowed(pattern, B, H, T, S)
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for h in range(H):
        g = h // (H // G)
        for a in range(0, T, tile):
            qi, gi = q[:, h, a:a + tile], do[:, h, a:a + tile]
            p = _safe_softmax(qi @ k[:, g].swapaxes(1, 2) * scale, ok[:, h, a:a + tile])
            dp = gi @ v[:, g].swapaxes(1, 2)
            ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
            dq[:, h, a:a + tile] = ds @ k[:, g]
            dk[:, g] += ds.swapaxes(1, 2) @ qi
            dv[:, g] += p.swapaxes(1, 2) @ gi
    return dq, dk, dv


# ------------------------------------------------------------------ Henrik (thirty years of Fortran)

def henrik_rms_norm_outside(x, weight, epsilon=1e-5):
    """XRMS = SQRT(SUM(X**2)/N)"""
    xrms = np.sqrt((x ** 2).mean(axis=-1, keepdims=True))
    return weight * x / np.maximum(xrms, epsilon)


def henrik_batch_norm_inference(x, weight, bias, statistics, epsilon=1e-5):
    """A*X + B with A, B from the running averages."""
    avg, var = statistics
    a = weight / (np.sqrt(var) + epsilon)
    return a * x + (bias - a * avg)


def henrik_gelu_tanh_backward(dy, x):
    """Hand differentiated."""
    c = math.sqrt(2.0 / math.pi)
    u = c * (x + 0.044715 * x ** 3)
    t = np.tanh(u)
    du = c * (1.0 + 0.044715 * x ** 2)
    return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t ** 2) * du)


def henrik_top_k_gates_over_all_backward(dweights, logits, chosen):
    """Scatter, then the softmax Jacobian."""
    n, e = logits.shape
    p = np.exp(logits - logits.max(axis=1)[:, None])
    p = p / p.sum(axis=1)[:, None]
    out = np.zeros((n, e))
    for i in range(n):
        s = 0.0
        for j, c in enumerate(chosen[i]):
            s = s + p[i, c] * dweights[i, j]
        for j, c in enumerate(chosen[i]):
            out[i, c] = p[i, c] * (dweights[i, j] - s)
    return out


def henrik_load_balance_loss_backward(dloss, logits, chosen):
    """DO over tokens."""
    n, e = logits.shape
    f = np.zeros(e)
    for c in chosen[:, 0]:
        f[c] += 1.0 / n
    out = np.zeros((n, e))
    for i in range(n):
        p = np.exp(logits[i] - logits[i].max())
        p = p / p.sum()
        g = e / n * f * dloss
        out[i] = p * (g - p @ g)
    return out


def henrik_causal_convolution_backward(dy, x, weight, bias=None, dilation=1):
    """Index arithmetic as in the finite impulse response code."""
    nk = weight.shape[0]
    nt = x.shape[1]
    dx, dw = np.zeros(x.shape), np.zeros(weight.shape)
    for k in range(nk):
        lag = (nk - 1 - k) * dilation
        for t in range(nt):
            if t - lag > 0 or lag == 0:
                dx[:, t - lag] += dy[:, t] @ weight[k].T
                dw[k] += x[:, t - lag].T @ dy[:, t]
    return dx, dw, None if bias is None else dy.sum(axis=(0, 1))


def henrik_shifted_window_mask(height, width, window, offset):
    """Regions are numbered by bands of rows and columns."""
    region = np.zeros((height, width))
    number = 0
    for r in (slice(0, height - window), slice(height - window, height)):
        for c in (slice(0, width - window), slice(width - window, width)):
            region[r, c] = number
            number += 1
    if offset == 0:
        region[:] = 0
    w = region.reshape(height // window, window, width // window, window).transpose(0, 2, 1, 3)
    w = w.reshape(-1, window * window)
    return w[:, :, None] == w[:, None, :]


def henrik_box_loss(boxes, targets, l1_weight=5.0, giou_weight=2.0):
    """L1 and GIoU of DETR."""
    n = max(len(boxes), 1)
    def corners(m):
        return np.concatenate([m[:, :2] - m[:, 2:] / 2, m[:, :2] + m[:, 2:] / 2], axis=1)
    a, b = corners(boxes), corners(targets)
    side = np.maximum(np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2]), 0)
    inter = side[:, 0] * side[:, 1]
    union = boxes[:, 2] * boxes[:, 3] + targets[:, 2] * targets[:, 3] - inter
    hull = (np.maximum(a[:, 2:], b[:, 2:]) - np.minimum(a[:, :2], b[:, :2])).prod(axis=1)
    g = np.divide(inter, union, out=np.zeros(len(boxes)), where=union != 0)
    g = g - np.divide(hull - union, hull, out=np.zeros(len(boxes)), where=hull != 0)
    l1 = np.abs(a - b).sum()
    return (l1_weight * l1 + giou_weight * (1 - g).sum()) / n


def henrik_sparse_attention(q, k, v, keys):
    """Gather lists."""
    z = (q[:, :, :, None, :] * k[:, :, keys]).sum(axis=-1) / math.sqrt(q.shape[-1])
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    w = z / z.sum(axis=-1, keepdims=True)
    w = np.where(keys >= 0, w, 0.0)
    return (w[..., None] * v[:, :, keys]).sum(axis=3)


def henrik_orthogonalize(matrix, steps=5):
    """Newton-Schulz."""
    x = matrix / np.linalg.norm(matrix, 2) if matrix.any() else matrix
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def henrik_deformable_attention(values, locations, weights, shapes):
    """Bilinear interpolation as in my image warping routine."""
    B, H, S, D = values.shape
    _, _, T, L, K, _ = locations.shape
    out = np.zeros((B, H, T, D))
    start = 0
    for l, (m, n) in enumerate(shapes):
        img = values[:, :, start:start + m * n].reshape(B, H, m, n, D)
        start += m * n
        for b, h, t, kk in np.ndindex(B, H, T, K):
            x = locations[b, h, t, l, kk, 0] * n - 0.5
            y = locations[b, h, t, l, kk, 1] * m - 0.5
            x, y = min(max(x, 0.0), n - 1.0), min(max(y, 0.0), m - 1.0)
            c0, r0 = int(math.floor(x)), int(math.floor(y))
            for r, hr in ((r0, 1 - (y - r0)), (r0 + 1, y - r0)):
                for c, hc in ((c0, 1 - (x - c0)), (c0 + 1, x - c0)):
                    if 0 <= r < m and 0 <= c < n:
                        out[b, h, t] += weights[b, h, t, l, kk] * hr * hc * img[b, h, r, c]
    return out


def henrik_distance_weights(slopes, mask):
    """EXP(-S*|I-J|), normalized by row."""
    t, s = mask.shape[-2:]
    d = np.abs(np.arange(t)[:, None] - np.arange(s))
    e = np.where(mask, np.exp(-slopes[:, None, None] * d), 0.0)
    tot = e.sum(axis=-1, keepdims=True)
    return e / np.where(tot == 0, 1.0, tot)


def henrik_rms_norm(x, weight, epsilon=1e-5):
    """HYPOT never overflows, so the norm is folded with it and epsilon is one more component."""
    rms = np.hypot.reduce(x, axis=-1, keepdims=True) / math.sqrt(x.shape[-1])
    return weight * (x / np.hypot(rms, math.sqrt(epsilon)))


def henrik_orthogonalize_gram(matrix, steps=5):
    """Always the Gram matrix of the columns: the polynomial acts from the right."""
    big = np.abs(matrix).max()
    if big == 0:
        return np.zeros_like(matrix)
    x = matrix / big
    x = x / np.sqrt((x * x).sum())
    for _ in range(steps):
        g = x.T @ x
        x = 3.4445 * x + x @ (-4.7750 * g + 2.0315 * (g @ g))
    return x


def henrik_relative_position_bias(table, T, S, max_distance=128, bidirectional=True):
    """IF ... ELSE IF, one distance after the other."""
    nb = table.shape[0]
    out = np.empty((table.shape[1], T + S - 1))
    for r in range(T + S - 1):
        d = r - (S - 1)
        n, base = (nb // 2, nb // 2 if d > 0 else 0) if bidirectional else (nb, 0)
        d = abs(d) if bidirectional else max(-d, 0)
        half = n // 2
        if d < half:
            row = d
        else:
            row = half + int(math.log(d / half) / math.log(max_distance / half) * (n - half))
        out[:, r] = table[base + min(row, n - 1)]
    return out


def henrik_generalized_iou(a, b):
    """Box by box."""
    out = np.zeros(a.shape[:-1])
    for n in np.ndindex(out.shape):
        ax0, ay0, ax1, ay1 = (float(c) for c in a[n])
        bx0, by0, bx1, by1 = (float(c) for c in b[n])
        sx = max(abs(ax0), abs(ax1), abs(bx0), abs(bx1)) or 1.0
        sy = max(abs(ay0), abs(ay1), abs(by0), abs(by1)) or 1.0
        ax0, ax1, bx0, bx1 = ax0 / sx, ax1 / sx, bx0 / sx, bx1 / sx
        ay0, ay1, by0, by1 = ay0 / sy, ay1 / sy, by0 / sy, by1 / sy
        w = max(min(ax1, bx1) - max(ax0, bx0), 0.0)
        h = max(min(ay1, by1) - max(ay0, by0), 0.0)
        union = (ax1 - ax0) * (ay1 - ay0) + (bx1 - bx0) * (by1 - by0) - w * h
        hull = (max(ax1, bx1) - min(ax0, bx0)) * (max(ay1, by1) - min(ay0, by0))
        out[n] = (w * h / union if union else 0.0) - ((hull - union) / hull if hull else 0.0)
    return out


def henrik_window_partition(x, window):
    """Four nested loops and a counter."""
    b, h, w, c = x.shape
    y = np.empty((b * (h // window) * (w // window), window * window, c))
    n = 0
    for ib in range(b):
        for r in range(0, h, window):
            for s in range(0, w, window):
                for p in range(window * window):
                    y[n, p] = x[ib, r + p // window, s + p % window]
                n += 1
    return y


# ------------------------------------------------------------------ Wei (second semester, careful, short)

def wei_layer_norm(x, weight, bias, epsilon=1e-5):
    """Scale by the largest deviation first; then no square can overflow."""
    d = x - x.mean(axis=-1)[..., np.newaxis]
    s = np.abs(d).max(axis=-1)[..., np.newaxis]
    s = np.where(s > 1, s, 1.0)
    u = d / s
    return u / np.sqrt(np.mean(u ** 2, axis=-1, keepdims=True) + epsilon / s / s) * weight + bias


def wei_lstm_cell(x, state, input_weight, recurrent_weight, bias=None):
    """Stack [x, h] and the two weights: one product; sigmoids from tanh of the half."""
    F = recurrent_weight.shape[0]
    a = np.hstack((x, state[:, :F])) @ np.vstack((input_weight, recurrent_weight))
    a = a if bias is None else a + bias
    i, f, o = (0.5 * (1 + np.tanh(0.5 * a[:, n * F:(n + 1) * F])) for n in range(3))
    c = f * state[:, F:] + i * np.tanh(a[:, 3 * F:])
    return np.hstack((o * np.tanh(c), c))


def wei_lstm_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias=None):
    """The same stacking, backwards."""
    F, C = len(recurrent_weight), x.shape[1]
    xh = np.hstack((x, state[:, :F]))
    U = np.vstack((input_weight, recurrent_weight))
    a = xh @ U + (0.0 if bias is None else bias)
    i, f, o = (_sigma(a[:, n * F:(n + 1) * F]) for n in range(3))
    g, c = np.tanh(a[:, 3 * F:]), state[:, F:]
    th = np.tanh(f * c + i * g)
    gh, gc = dstate[:, :F], dstate[:, F:]
    gc = gc + gh * o * (1 - th) * (1 + th)
    da = np.hstack((gc * g * i * (1 - i), gc * c * f * (1 - f), gh * th * o * (1 - o),
                    gc * i * (1 - g) * (1 + g)))
    dxh, dU = da @ U.T, xh.T @ da
    return (dxh[:, :C], np.hstack((dxh[:, C:], gc * f)), dU[:C], dU[C:],
            None if bias is None else np.ones(len(x)) @ da)


def wei_token_log_probs_backward(dlog_probs, logits, tokens, temperature=1.0):
    """Row by row, rows of the prompt stay zero."""
    out = np.zeros(logits.shape)
    for n in np.ndindex(tokens.shape):
        if tokens[n] != -100:
            e = np.exp((logits[n] - logits[n].max()) / temperature)
            out[n] = -np.asarray(dlog_probs)[n] / temperature * e / e.sum()
            out[n][tokens[n]] += np.asarray(dlog_probs)[n] / temperature
    return out


def wei_sinusoidal_positions(positions, width, dtype=np.float64):
    """exp(i angle) has the cosine and the sine at once."""
    turn = np.exp(1j * np.outer(positions, 1e4 ** (-np.arange(0, width, 2) / width)))
    return np.stack([turn.imag, turn.real], axis=-1).reshape(len(turn), -1)[:, :width].astype(dtype)


def wei_alibi_slopes(n_heads):
    """Recursive, like the authors: a power of two, then the odd ones of the next."""
    if n_heads & (n_heads - 1) == 0:
        return np.array([0.5 ** (8 * (h + 1) / n_heads) for h in range(n_heads)])
    low = 1 << (n_heads.bit_length() - 1)
    return np.append(wei_alibi_slopes(low), wei_alibi_slopes(2 * low)[::2][:n_heads - low])


def wei_add_by_distance_backward(dy, scores, bias):
    """Anti-diagonals: flip the keys' axis, pad, and reshape so that diagonals become columns."""
    H, T, S = dy.shape[-3:]
    g = dy.reshape(-1, H, T, S).sum(axis=0)
    skew = np.zeros((H, T, T + S))
    skew[:, :, :S] = g[:, ::-1]                               # last query first
    skew = skew.reshape(H, -1)[:, :T * (T + S - 1)].reshape(H, T, T + S - 1)
    return np.array(dy), skew.sum(axis=1)


def wei_sparse_attention(q, k, v, keys):
    """Dense scores, everything that is not in the table is thrown away."""
    T, S = q.shape[2], k.shape[2]
    ok = np.zeros((T, S + 1), bool)
    ok[np.arange(T)[:, None], keys] = True
    ok = ok[:, :S]
    return _safe_softmax(np.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5, ok) @ v


def wei_patch_convolution_backward(dy, images, weight, bias=None):
    """One six-index einsum each."""
    B, R, Q, C = dy.shape
    P = len(weight)
    tiles = images.reshape(B, R, P, Q, P, -1)
    dimages = np.einsum("brqc,ijkc->briqjk", dy, weight).reshape(images.shape)
    return (dimages, np.einsum("briqjk,brqc->ijkc", tiles, dy),
            None if bias is None else dy.reshape(-1, C).sum(0))


def wei_repeat_kv_heads_backward(dy, x, n_heads):
    """reduceat at the first head of each group."""
    return np.add.reduceat(dy, np.arange(0, n_heads, n_heads // x.shape[1]), axis=1)


def wei_shifted_window_mask(height, width, window, offset):
    """Roll the coordinates themselves; a jump inside a window means another part."""
    r = np.roll(np.arange(height), -offset) < offset
    c = np.roll(np.arange(width), -offset) < offset
    masks = []
    for y in range(0, height, window):
        for x in range(0, width, window):
            part = [(r[y + i], c[x + j]) for i in range(window) for j in range(window)]
            masks.append([[p == s for s in part] for p in part])
    return np.array(masks)


def wei_sort_by_expert(chosen, n_experts, capacity=None):
    """flatnonzero is already in the order of the tokens."""
    lists = [np.flatnonzero(chosen.ravel() == e)[:capacity] for e in range(n_experts)]
    return np.concatenate(lists), np.array([len(a) for a in lists])


def wei_combine_experts_backward(dy, outputs, weights, slots):
    """Slot by slot."""
    k = weights.shape[1]
    do, dw = np.empty_like(outputs), np.zeros_like(weights)
    for m, s in enumerate(slots):
        n, j = divmod(int(s), k)
        do[m] = dy[n] * weights[n, j]
        dw[n, j] = dy[n] @ outputs[m]
    return do, dw


def wei_linear_cross_entropy_backward(dloss, x, weight, targets, ignore_index=-100,
                                      label_smoothing=0.0, z_loss=0.0):
    """Chunks of 16 vectors; the gradient of the table grows from chunk to chunk."""
    V, C = weight.shape
    keep = np.flatnonzero(targets.ravel() != ignore_index)
    X, t = x.reshape(-1, C)[keep], targets.ravel()[keep]
    dX, dW = np.zeros((targets.size, C)), np.zeros((V, C))
    for a in range(0, len(t), 16):
        z = X[a:a + 16] @ weight.T
        top = z.max(axis=1, keepdims=True)
        e = np.exp(z - top)
        s = e.sum(axis=1, keepdims=True)
        g = e / s * (1 + 2 * z_loss * (top + np.log(s))) - label_smoothing / V
        g[np.arange(len(g)), t[a:a + 16]] -= 1 - label_smoothing
        g *= dloss / len(t)
        dX[keep[a:a + 16]] = g @ weight
        dW += g.T @ X[a:a + 16]
    return dX.reshape(x.shape), dW


def wei_cross_entropy_backward(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0,
                               z_loss=0.0):
    """Weights of the rows are 0 where nothing counts, so no indexing is needed."""
    V = logits.shape[-1]
    w = (targets != ignore_index)[..., None].astype(float)
    logits = np.where(w > 0, logits, 0.0)
    top = logits.max(axis=-1, keepdims=True)
    e = np.exp(logits - top)
    s = e.sum(axis=-1, keepdims=True)
    q = np.full(logits.shape, label_smoothing / V)
    q += (1 - label_smoothing) * (np.arange(V) == targets[..., None])
    return (e / s * (1 + 2 * z_loss * (top + np.log(s))) - q) * w * (dloss / w.sum())


def wei_contrastive_loss(logits):
    """Both directions from logaddexp, pair by pair."""
    N = len(logits)
    lse = np.logaddexp.reduce(logits, axis=0) + np.logaddexp.reduce(logits, axis=1)
    return 0.5 * sum(lse[i] - 2 * logits[i, i] for i in range(N)) / N


def wei_policy_loss_backward(dloss, log_probs, old_log_probs, advantages, counts,
                             reference_log_probs=None, clip_low=0.2, clip_high=0.2, beta=0.0,
                             estimator="k3", normalization="token", length=None):
    """Token by token, with the if of the paper."""
    lengths = counts.sum(axis=1)
    answers = int((lengths > 0).sum())
    out = np.zeros(log_probs.shape)
    for n, t in zip(*np.nonzero(counts)):
        w = {"token": lambda: 1 / lengths.sum(), "sequence": lambda: 1 / (answers * lengths[n]),
             "constant": lambda: 1 / (answers * length)}[normalization]()
        r, A = np.exp(log_probs[n, t] - old_log_probs[n, t]), advantages[n]
        flat = r > 1 + clip_high if A > 0 else r < 1 - clip_low
        g = 0.0 if flat else -r * A
        if beta:
            d = reference_log_probs[n, t] - log_probs[n, t]
            g += beta * {"k1": 1.0, "k2": -d, "k3": -np.expm1(d), "k3 corrected": -r * d}[estimator]
        out[n, t] = dloss * w * g
    return out


def wei_softmax(x, axis=-1, mask=None):
    """Masked scores are replaced by the smallest allowed one, and their weights multiplied by 0."""
    if mask is None:
        mask = np.ones((1,) * x.ndim, bool)
    ok = np.broadcast_to(mask, x.shape)
    top = np.max(x, axis=axis, keepdims=True, where=ok, initial=-np.inf)
    e = np.exp(np.minimum(np.where(ok, x, 0) - np.where(np.isfinite(top), top, 0), 0)) * ok
    return np.divide(e, e.sum(axis=axis, keepdims=True), out=np.zeros(x.shape), where=ok)


def wei_triplet_loss_backward(dloss, anchors, positives, negatives, margin=1.0):
    """One triplet at a time."""
    da, dp, dn = (np.zeros(anchors.shape) for _ in range(3))
    for i in range(len(anchors)):
        u, v = anchors[i] - positives[i], anchors[i] - negatives[i]
        near, far = math.hypot(*u), math.hypot(*v)
        if near - far + margin > 0:
            u = u / near if near else u
            v = v / far if far else v
            dp[i], dn[i] = -u * dloss / len(anchors), v * dloss / len(anchors)
            da[i] = -(dp[i] + dn[i])
    return da, dp, dn


def wei_relative_attention(q, k, v, key_table, value_table, pattern=EVERYWHERE, scale=None, dropout=0.0,
                           seed=None):
    """One query at a time: its own keys and values, shifted by the vectors of the distances."""
    from numformer.functional import attention_dropout_mask
    B, H, T, D = q.shape
    S = k.shape[2]
    ok = _allowed(pattern, B, H, T, S)
    drop = np.ones((B, H, T, S))
    if seed is not None and dropout > 0:
        drop = attention_dropout_mask(seed, drop.shape, dropout) / (1 - dropout)
    kk, vv = (np.repeat(m, H // m.shape[1], axis=1) for m in (k, v))
    row = lambda table, d: table[np.clip(d, -(len(table) // 2), len(table) // 2) + len(table) // 2]
    out = []
    for t in range(T):
        d = np.arange(S) - (t + S - T)
        z = np.einsum("bhd,bhsd->bhs", q[:, :, t], kk + row(key_table, d))
        p = _safe_softmax(z * (D ** -0.5 if scale is None else scale), ok[:, :, t]) * drop[:, :, t]
        seen = np.where(ok[:, :, t, :, None], vv + row(value_table, d), 0)
        out.append(np.einsum("bhs,bhse->bhe", p, seen))
    return np.stack(out, axis=2)


# What is known about each, after we went through them together

SAMPLES = [
    dict(name="softmax", fn=amelie_softmax, wrong=True,
         cause="a row that is masked completely gets equal weights instead of zeros, as the mask is a "
               "large negative number"),
    dict(name="layer_norm", fn=amelie_layer_norm, wrong=True,
         cause="the variance is divided by C - 1 instead of C"),
    dict(name="lstm_cell", fn=amelie_lstm_cell, wrong=True,
         cause="the gates are read in the order i, f, g, o instead of i, f, o, g"),
    dict(name="cross_entropy", fn=amelie_cross_entropy, wrong=True,
         cause="with label smoothing and ignored targets, the uniform term is a mean over all positions, "
               "also the ignored ones"),
    dict(name="embedding_backward", fn=amelie_embedding_backward, wrong=True,
         cause="of repeated ids only the last gradient is kept, they are not summed"),
    dict(name="scaled_dot_product_attention", fn=amelie_scaled_dot_product_attention, wrong=True,
         cause="the causal mask aligns the first query with the first key, which is wrong where T differs "
               "from S"),
    dict(name="group_advantages", fn=amelie_group_advantages, wrong=True,
         cause="the standard deviation of the group is divided by G - 1 instead of G"),
    dict(name="patches", fn=amelie_patches, wrong=True,
         cause="each patch is flattened with the channels first instead of last"),
    dict(name="distillation_loss", fn=amelie_distillation_loss, wrong=True,
         cause="the divergence is multiplied by T instead of T squared"),
    dict(name="repeat_kv_heads", fn=amelie_repeat_kv_heads, wrong=True,
         cause="the heads are repeated as a whole (0, 1, 0, 1) instead of each in a row (0, 0, 1, 1)"),
    dict(name="gru_cell", fn=amelie_gru_cell, wrong=True,
         cause="the recurrent bias is added outside of the product with the reset gate"),
    dict(name="adam_step", fn=amelie_adam_step, wrong=True,
         cause="the weight decay is added to the gradient (L2) instead of being decoupled"),
    dict(name="softmax", fn=jonas_softmax, wrong=True,
         cause="the running sum is not rescaled when a later block of 32 scores raises the maximum"),
    dict(name="rms_norm", fn=jonas_rms_norm, wrong=True,
         cause="where the width is not a multiple of four, the last coordinates are left out of the mean "
               "square"),
    dict(name="tiled_attention", fn=jonas_tiled_attention, wrong=True,
         cause="the accumulated values are not rescaled when a later tile of keys raises the maximum"),
    dict(name="causal_convolution", fn=jonas_causal_convolution, wrong=True,
         cause="the filter is reversed: its first matrix is applied to the position itself"),
    dict(name="convolution_2d_backward", fn=jonas_convolution_2d_backward, wrong=True,
         cause="where windows overlap, the gradients of a pixel overwrite each other instead of being "
               "added"),
    dict(name="linear_attention", fn=jonas_linear_attention, wrong=True,
         cause="the state of keys and values is overwritten at each chunk of 16 positions instead of "
               "accumulated"),
    dict(name="max_pooling", fn=jonas_max_pooling, wrong=True,
         cause="padding counts as 0 in the maximum instead of as minus infinity"),
    dict(name="top_k_experts", fn=jonas_top_k_experts, wrong=True,
         cause="of equal logits the expert with the highest number comes first"),
    dict(name="box_iou", fn=jonas_box_iou, wrong=True,
         cause="sides are one longer than they are, as if corners were inclusive pixels"),
    dict(name="additive_scores_backward", fn=priya_additive_scores_backward, wrong=True,
         cause="the sums over queries and over keys are exchanged, so the gradients of q and k are swapped"),
    dict(name="general_scores_backward", fn=priya_general_scores_backward, wrong=True,
         cause="the gradient of the weight is a mean over the batch instead of a sum"),
    dict(name="low_rank_linear", fn=priya_low_rank_linear, wrong=True,
         cause="the scale is alpha / sqrt(R) where it should be alpha / R, and the other way round"),
    dict(name="low_rank_linear_backward", fn=priya_low_rank_linear_backward, wrong=True,
         cause="the gradient of down lacks the scale alpha / R"),
    dict(name="load_balance_loss", fn=priya_load_balance_loss, wrong=True,
         cause="the fractions count choices per token, so the loss is k times as large"),
    dict(name="relative_attention", fn=priya_relative_attention, wrong=True,
         cause="distances of the value table are clipped to the K of the key table, which is wrong where "
               "the two tables differ in length"),
    dict(name="low_rank_attention_backward", fn=priya_low_rank_attention_backward, wrong=True,
         cause="the gradients of the two projections are means over the heads instead of sums"),
    dict(name="rms_norm_backward", fn=priya_rms_norm_backward, wrong=True,
         cause="the weight is left out of the mean of the product with x_hat and multiplied only at the "
               "end"),
    dict(name="cosine_similarity_backward", fn=priya_cosine_similarity_backward, wrong=True,
         cause="the division by the norm of the vector is missing"),
    dict(name="log_softmax", fn=kenji_log_softmax, wrong=True,
         cause="the logarithm is taken of the softmax plus 1e-12, so that very negative values are lost"),
    dict(name="gelu", fn=kenji_gelu, wrong=True,
         cause="the approximation by tanh instead of the exact normal distribution function"),
    dict(name="gelu_backward", fn=kenji_gelu_backward, wrong=True,
         cause="the density is exp(-x^2) instead of exp(-x^2 / 2)"),
    dict(name="sinusoidal_positions", fn=kenji_sinusoidal_positions, wrong=True,
         cause="the cosines have a frequency of their own instead of that of the sine before them"),
    dict(name="alibi_slopes", fn=kenji_alibi_slopes, wrong=True,
         cause="for a number of heads that is no power of two the formula of powers of two is used"),
    dict(name="rotary", fn=kenji_rotary, wrong=True,
         cause="in the interleaved layout the rotated pairs are put into two halves instead of interleaved"),
    dict(name="rotary_backward", fn=kenji_rotary_backward, wrong=True,
         cause="in the interleaved layout the gradient is rotated forwards instead of back"),
    dict(name="partial_rotary", fn=kenji_partial_rotary, wrong=True,
         cause="the interleaved layout is ignored: pairs are always of the two halves"),
    dict(name="swish_backward", fn=kenji_swish_backward, wrong=True,
         cause="the factor beta of the derivative of the gate is missing"),
    dict(name="token_log_probs", fn=kenji_token_log_probs, wrong=True,
         cause="the temperature divides the log-probabilities instead of the logits"),
    dict(name="kl_estimate_backward", fn=kenji_kl_estimate_backward, wrong=True,
         cause="for 'k3 corrected' the ratio is taken as a constant"),
    dict(name="dpo_loss_backward", fn=kenji_dpo_loss_backward, wrong=True,
         cause="the gradient of the likelihood term is multiplied by beta"),
    dict(name="z_loss_backward", fn=kenji_z_loss_backward, wrong=True,
         cause="the division by the number of rows is missing"),
    dict(name="batch_norm_backward", fn=kenji_batch_norm_backward, wrong=True,
         cause="the means are divided by the length of the first axis instead of the number of vectors"),
    dict(name="softmax_backward", fn=marta_softmax_backward, wrong=True,
         cause="the sum of p dp always runs over the last axis, as transposing puts it first, also where "
               "axis is another"),
    dict(name="layer_norm_backward", fn=marta_layer_norm_backward, wrong=True,
         cause="the term of the variance is missing"),
    dict(name="batch_norm", fn=marta_batch_norm, wrong=True,
         cause="the statistics run over the first axis only, which is wrong for more than two axes"),
    dict(name="linear_backward", fn=marta_linear_backward, wrong=True,
         cause="the gradient of the bias is a mean over the vectors instead of a sum"),
    dict(name="feed_forward_backward", fn=marta_feed_forward_backward, wrong=True,
         cause="the gradient of the hidden bias is taken before the derivative of the activation"),
    dict(name="sinusoidal_positions_2d", fn=marta_sinusoidal_positions_2d, wrong=True,
         cause="the grid is listed column by column instead of row by row"),
    dict(name="patches_backward", fn=marta_patches_backward, wrong=True,
         cause="rows and columns of patches are exchanged, which is wrong for images that are not square"),
    dict(name="merge_patches", fn=marta_merge_patches, wrong=True,
         cause="the four neighbours are concatenated right before down instead of down before right"),
    dict(name="rnn_cell_backward", fn=marta_rnn_cell_backward, wrong=True,
         cause="the gradient of the recurrent weight uses the new state instead of the previous one"),
    dict(name="add_by_distance", fn=marta_add_by_distance, wrong=True,
         cause="the bias of distance i - j is added instead of that of j - i"),
    dict(name="contrastive_loss", fn=marta_contrastive_loss, wrong=True,
         cause="both terms are the cross-entropy of the rows: the transpose is normalized along the wrong "
               "axis"),
    dict(name="window_attention_backward", fn=marta_window_attention_backward, wrong=True,
         cause="the gradient of the bias is a mean over the windows instead of a sum"),
    dict(name="repeat_kv_heads_backward", fn=tom_repeat_kv_heads_backward, wrong=True,
         cause="a key-value head gets the mean over its query heads instead of the sum"),
    dict(name="relu_squared_backward", fn=tom_relu_squared_backward, wrong=True,
         cause="the factor 2 is missing"),
    dict(name="quick_gelu", fn=tom_quick_gelu, wrong=True,
         cause="the constant is 1.7 instead of 1.702"),
    dict(name="soft_cap_backward", fn=tom_soft_cap_backward, wrong=True,
         cause="y^2 is divided by the cap instead of by its square"),
    dict(name="softmax_cross_entropy", fn=tom_softmax_cross_entropy, wrong=True,
         cause="the sum is divided by the length of the first axis instead of the number of targets"),
    dict(name="scaled_dot_scores_backward", fn=tom_scaled_dot_scores_backward, wrong=True,
         cause="the gradients are divided by D instead of by its root"),
    dict(name="uniform_weights", fn=tom_uniform_weights, wrong=True,
         cause="the weights are divided by the number of all keys instead of the allowed ones"),
    dict(name="quantile_loss", fn=tom_quantile_loss, wrong=True,
         cause="the costs of forecasts that are too high and too low are exchanged"),
    dict(name="imitation_loss", fn=tom_imitation_loss, wrong=True,
         cause="the vectors are summed, only their coordinates are averaged"),
    dict(name="cyclic_roll", fn=tom_cyclic_roll, wrong=True,
         cause="the feature map is rolled in the other direction"),
    dict(name="pair_features", fn=tom_pair_features, wrong=True,
         cause="the third part is u - v without the absolute value"),
    dict(name="box_corners_backward", fn=tom_box_corners_backward, wrong=True,
         cause="the gradient of the size lacks the factor 1 / 2"),
    dict(name="contrastive_loss_backward", fn=tom_contrastive_loss_backward, wrong=True,
         cause="the identity is subtracted once instead of twice"),
    dict(name="top_k_gates_over_all", fn=tom_top_k_gates_over_all, wrong=True,
         cause="the softmax runs over the chosen experts instead of over all"),
    dict(name="router_z_loss", fn=tom_router_z_loss, wrong=True,
         cause="the square of the mean instead of the mean of the squares"),
    dict(name="softmax_backward", fn=li_softmax_backward, wrong=True,
         cause="the array dp that comes in is changed in place"),
    dict(name="softmax_cross_entropy_backward", fn=li_softmax_cross_entropy_backward, wrong=True,
         cause="the probabilities are computed in float32"),
    dict(name="cross_entropy_backward", fn=li_cross_entropy_backward, wrong=True,
         cause="the smoothing is spread over the other V - 1 classes instead of over all V"),
    dict(name="lstm_cell_backward", fn=li_lstm_cell_backward, wrong=True,
         cause="the gradient of the previous memory lacks the part that comes through the output h'"),
    dict(name="gru_cell_backward", fn=li_gru_cell_backward, wrong=True,
         cause="the gradient of the recurrent bias lacks the factor of the reset gate"),
    dict(name="gru_cell_reset_before_backward", fn=li_gru_cell_reset_before_backward, wrong=True,
         cause="the gradient of the state lacks the path through the product of reset gate and state"),
    dict(name="masked_batch_norm", fn=li_masked_batch_norm, wrong=True,
         cause="with given statistics the outputs of padding are the bias instead of 0"),
    dict(name="add_by_distance_backward", fn=li_add_by_distance_backward, wrong=True,
         cause="with two batch axes only the first entry of the second one is in the gradient of the bias"),
    dict(name="mean_pooling", fn=li_mean_pooling, wrong=True,
         cause="the sum is divided by the length of the sequence instead of the number of real positions"),
    dict(name="combine_experts_backward", fn=li_combine_experts_backward, wrong=True,
         cause="the gradient of the weights is multiplied by the weights"),
    dict(name="sort_by_expert", fn=li_sort_by_expert, wrong=True,
         cause="with a capacity, first choices of later tokens are served before second choices of earlier"
               " ones"),
    dict(name="mean_pooling_2d", fn=li_mean_pooling_2d, wrong=True,
         cause="the sum is divided by the square of the stride instead of that of the size"),
    dict(name="patch_convolution_backward", fn=li_patch_convolution_backward, wrong=True,
         cause="the gradient of the bias is a mean over the batch instead of a sum"),
    dict(name="cross_entropy_backward", fn=sofia_cross_entropy_backward, wrong=True,
         cause="the term of the z-loss is not multiplied by dloss"),
    dict(name="policy_loss", fn=sofia_policy_loss, wrong=True,
         cause="answers without tokens are counted in N"),
    dict(name="policy_loss_backward", fn=sofia_policy_loss_backward, wrong=True,
         cause="the gradient is cut on both sides of the clip, whatever the sign of the advantage"),
    dict(name="generalized_iou", fn=sofia_generalized_iou, wrong=True,
         cause="the empty area is divided by the union instead of the enclosing box"),
    dict(name="weighted_cross_entropy", fn=sofia_weighted_cross_entropy, wrong=True,
         cause="the sum is divided by the number of targets instead of the sum of their weights"),
    dict(name="triplet_loss_backward", fn=sofia_triplet_loss_backward, wrong=True,
         cause="the margin is left out where it is decided which triplets count"),
    dict(name="layer_norm_outside_backward", fn=sofia_layer_norm_outside_backward, wrong=True,
         cause="the factor kappa = (sigma + epsilon) / sigma of the term of the variance is missing"),
    dict(name="yarn_frequencies", fn=sofia_yarn_frequencies, wrong=True,
         cause="truncate=False is ignored: the ends of the ramp are always rounded"),
    dict(name="relative_position_bias", fn=sofia_relative_position_bias, wrong=True,
         cause="where not bidirectional, later keys get the bucket of their distance instead of bucket 0"),
    dict(name="scaled_dot_product_attention", fn=sofia_scaled_dot_product_attention, wrong=True,
         cause="the soft cap is applied after ALiBi and the bias instead of before them"),
    dict(name="attention", fn=olu_attention, wrong=True,
         cause="the scores are divided by the root of the width of the values instead of that of the keys"),
    dict(name="attention_backward", fn=olu_attention_backward, wrong=True,
         cause="a query whose keys are all masked gets gradients as if it attended to all of them"),
    dict(name="scaled_dot_product_attention", fn=olu_scaled_dot_product_attention, wrong=True,
         cause="with documents and fewer queries than keys, the queries get the documents of the first "
               "keys instead of the last"),
    dict(name="scaled_dot_product_attention_backward",
         fn=olu_scaled_dot_product_attention_backward, wrong=True,
         cause="with a soft cap and ALiBi or a bias, the derivative of the cap is taken at the scores "
               "after these were added"),
    dict(name="scaled_dot_product_attention_backward", fn=olu_sdpa_backward_grouped, wrong=True,
         cause="the gradients of keys and values sum over the wrong query heads, as groups are folded in "
               "the other order"),
    dict(name="attention_weights", fn=olu_attention_weights, wrong=True,
         cause="the distances of ALiBi are not aligned at the last key, which is wrong where T differs "
               "from S"),
    dict(name="gated_feed_forward_backward", fn=olu_gated_feed_forward_backward, wrong=True,
         cause="the gradient of the hidden bias sums that of the gates instead of that of the hidden units"),
    dict(name="gated_linear_unit_backward", fn=olu_gated_linear_unit_backward, wrong=True,
         cause="for quick_gelu the derivative of the gate lacks the factor 1.702"),
    dict(name="head_projections", fn=olu_head_projections, wrong=True,
         cause="queries and keys are rotated before their norm instead of after it"),
    dict(name="token_log_probs_backward", fn=olu_token_log_probs_backward, wrong=True,
         cause="ignored positions get a gradient"),
    dict(name="linear_cross_entropy_backward", fn=olu_linear_cross_entropy_backward, wrong=True,
         cause="with more than 16 vectors the gradient of the weight is that of the last chunk alone"),
    dict(name="rms_norm_outside", fn=henrik_rms_norm_outside, wrong=True,
         cause="the larger of root mean square and epsilon instead of their sum"),
    dict(name="batch_norm_inference", fn=henrik_batch_norm_inference, wrong=True,
         cause="epsilon is added to the standard deviation instead of to the variance"),
    dict(name="gelu_tanh_backward", fn=henrik_gelu_tanh_backward, wrong=True,
         cause="the derivative of the cube lacks its factor 3"),
    dict(name="top_k_gates_over_all_backward", fn=henrik_top_k_gates_over_all_backward, wrong=True,
         cause="the logits of experts that were not chosen get no gradient"),
    dict(name="load_balance_loss_backward", fn=henrik_load_balance_loss_backward, wrong=True,
         cause="only the first choice of each token is counted"),
    dict(name="causal_convolution_backward", fn=henrik_causal_convolution_backward, wrong=True,
         cause="off by one: what the first position gives to later ones is left out"),
    dict(name="shifted_window_mask", fn=henrik_shifted_window_mask, wrong=True,
         cause="the bands end at a whole window and not at the offset, so nothing is masked"),
    dict(name="box_loss", fn=henrik_box_loss, wrong=True,
         cause="the L1 distance is that of the corners instead of centres and sizes"),
    dict(name="sparse_attention", fn=henrik_sparse_attention, wrong=True,
         cause="empty entries, -1, are counted in the normalizer with the score of the last key"),
    dict(name="orthogonalize", fn=henrik_orthogonalize, wrong=True,
         cause="the matrix is divided by its largest singular value instead of its Frobenius norm"),
    dict(name="deformable_attention", fn=henrik_deformable_attention, wrong=True,
         cause="points outside of a map are moved to its border instead of giving 0"),
    dict(name="distance_weights", fn=henrik_distance_weights, wrong=True,
         cause="the distances are not aligned at the last key, which is wrong where T differs from S"),
    dict(name="linear_backward", fn=amelie_linear_backward, wrong=False, cause=""),
    dict(name="convolution_2d", fn=amelie_convolution_2d, wrong=False, cause=""),
    dict(name="attention", fn=jonas_attention, wrong=False, cause=""),
    dict(name="attention_backward", fn=priya_attention_backward, wrong=False, cause=""),
    dict(name="cross_entropy", fn=jonas_cross_entropy, wrong=False, cause=""),
    dict(name="max_pooling_2d_backward", fn=jonas_max_pooling_2d_backward, wrong=False, cause=""),
    dict(name="embedding_backward", fn=jonas_embedding_backward, wrong=False, cause=""),
    dict(name="patches", fn=jonas_patches, wrong=False, cause=""),
    dict(name="softmax_backward", fn=priya_softmax_backward, wrong=False, cause=""),
    dict(name="low_rank_linear", fn=priya_low_rank_linear_merged, wrong=False, cause=""),
    dict(name="load_balance_loss", fn=priya_load_balance_loss_onehot, wrong=False, cause=""),
    dict(name="rotary", fn=kenji_rotary_complex, wrong=False, cause=""),
    dict(name="rotary_backward", fn=kenji_rotary_backward_complex, wrong=False, cause=""),
    dict(name="log_softmax", fn=kenji_log_softmax_logaddexp, wrong=False, cause=""),
    dict(name="gelu", fn=kenji_gelu_ndtr, wrong=False, cause=""),
    dict(name="alibi", fn=marta_alibi, wrong=False, cause=""),
    dict(name="batch_norm_backward", fn=marta_batch_norm_backward, wrong=False, cause=""),
    dict(name="distance_weights_backward", fn=marta_distance_weights_backward, wrong=False, cause=""),
    dict(name="embedding_backward", fn=tom_embedding_backward, wrong=False, cause=""),
    dict(name="repeat_kv_heads", fn=tom_repeat_kv_heads, wrong=False, cause=""),
    dict(name="top_k_experts", fn=tom_top_k_experts, wrong=False, cause=""),
    dict(name="mean_pooling", fn=tom_mean_pooling, wrong=False, cause=""),
    dict(name="uniform_cross_entropy_backward", fn=tom_uniform_cross_entropy_backward, wrong=False, cause=""),
    dict(name="group_advantages", fn=tom_group_advantages, wrong=False, cause=""),
    dict(name="gru_cell", fn=li_gru_cell, wrong=False, cause=""),
    dict(name="causal_convolution", fn=li_causal_convolution_views, wrong=False, cause=""),
    dict(name="dpo_loss", fn=sofia_dpo_loss, wrong=False, cause=""),
    dict(name="layer_norm_backward", fn=sofia_layer_norm_backward, wrong=False, cause=""),
    dict(name="kl_estimate", fn=sofia_kl_estimate, wrong=False, cause=""),
    dict(name="policy_loss", fn=sofia_policy_loss_min, wrong=False, cause=""),
    dict(name="scaled_dot_product_attention", fn=olu_sdpa_fields, wrong=False, cause=""),
    dict(name="tiled_attention_backward", fn=olu_tiled_attention_backward, wrong=False, cause=""),
    dict(name="rms_norm", fn=henrik_rms_norm, wrong=False, cause=""),
    dict(name="orthogonalize", fn=henrik_orthogonalize_gram, wrong=False, cause=""),
    dict(name="relative_position_bias", fn=henrik_relative_position_bias, wrong=False, cause=""),
    dict(name="generalized_iou", fn=henrik_generalized_iou, wrong=False, cause=""),
    dict(name="window_partition", fn=henrik_window_partition, wrong=False, cause=""),
    dict(name="layer_norm", fn=wei_layer_norm, wrong=False, cause=""),
    dict(name="lstm_cell", fn=wei_lstm_cell, wrong=False, cause=""),
    dict(name="lstm_cell_backward", fn=wei_lstm_cell_backward, wrong=False, cause=""),
    dict(name="token_log_probs_backward", fn=wei_token_log_probs_backward, wrong=False, cause=""),
    dict(name="sinusoidal_positions", fn=wei_sinusoidal_positions, wrong=False, cause=""),
    dict(name="alibi_slopes", fn=wei_alibi_slopes, wrong=False, cause=""),
    dict(name="add_by_distance_backward", fn=wei_add_by_distance_backward, wrong=False, cause=""),
    dict(name="sparse_attention", fn=wei_sparse_attention, wrong=False, cause=""),
    dict(name="patch_convolution_backward", fn=wei_patch_convolution_backward, wrong=False, cause=""),
    dict(name="repeat_kv_heads_backward", fn=wei_repeat_kv_heads_backward, wrong=False, cause=""),
    dict(name="shifted_window_mask", fn=wei_shifted_window_mask, wrong=False, cause=""),
    dict(name="sort_by_expert", fn=wei_sort_by_expert, wrong=False, cause=""),
    dict(name="combine_experts_backward", fn=wei_combine_experts_backward, wrong=False, cause=""),
    dict(name="linear_cross_entropy_backward", fn=wei_linear_cross_entropy_backward, wrong=False, cause=""),
    dict(name="cross_entropy_backward", fn=wei_cross_entropy_backward, wrong=False, cause=""),
    dict(name="contrastive_loss", fn=wei_contrastive_loss, wrong=False, cause=""),
    dict(name="policy_loss_backward", fn=wei_policy_loss_backward, wrong=False, cause=""),
    dict(name="softmax", fn=wei_softmax, wrong=False, cause=""),
    dict(name="triplet_loss_backward", fn=wei_triplet_loss_backward, wrong=False, cause=""),
    dict(name="relative_attention", fn=wei_relative_attention, wrong=False, cause=""),
]
