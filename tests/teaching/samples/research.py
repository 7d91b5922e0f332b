"""NumPy ports of a research code base (LLaMA, ViT, Swin, DETR, MoE, T5, recurrent cells).

Written by one engineer over some weeks: einops habits, scans with buffers, loops that are meant for Numba.
"""
import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

SAMPLES = []


# ---------------------------------------------------------------- softmax

def softmax_streaming(x, axis=-1):
    """Two passes; the first collects max and normalizer block by block (online softmax)."""
    xs = np.moveaxis(x, axis, -1)
    n = xs.shape[-1]
    run_max = np.full(xs.shape[:-1] + (1,), -np.inf)
    run_sum = np.zeros(xs.shape[:-1] + (1,))
    for lo in range(0, n, 64):
        blk = xs[..., lo:lo + 64]
        new_max = np.maximum(run_max, blk.max(axis=-1, keepdims=True))
        run_sum = run_sum + np.exp(blk - new_max).sum(axis=-1, keepdims=True)
        run_max = new_max
    return np.moveaxis(np.exp(xs - run_max) / run_sum, -1, axis)


def softmax_backward_port(dp, x, axis=-1):
    e = np.exp(x - np.amax(x, axis, keepdims=True))
    probs = e / np.sum(e, axis, keepdims=True)
    inner = np.einsum("...i,...i->...", probs, dp)[..., None]
    return probs * (dp - inner)


def softmax_pairwise(x, axis=-1, mask=None):
    """p_i = 1 / sum_j exp(x_j - x_i): no maximum needed, an overflow is a weight of zero."""
    live = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    z = np.moveaxis(np.where(live, x, 0.0), axis, -1)
    m = np.moveaxis(live, axis, -1)
    with np.errstate(over="ignore"):
        ratio = np.exp(z[..., None, :] - z[..., :, None])        # [.., i, j]
    denom = np.where(m[..., None, :], ratio, 0.0).sum(-1)
    p = np.where(m, 1.0 / np.where(m, denom, 1.0), 0.0)
    return np.moveaxis(p, -1, axis)


def log_softmax_scan(x, axis=-1):
    rows = np.moveaxis(x, axis, 0)
    acc = np.zeros(rows.shape[1:])
    for r in rows:
        acc = np.logaddexp(acc, r)
    return x - np.expand_dims(acc, axis)


def log_softmax_backward_jacobian(dy, x, axis=-1):
    g = np.moveaxis(dy, axis, -1)
    z = np.moveaxis(x, axis, -1)
    z = z - z.max(-1, keepdims=True)
    p = np.exp(z)
    p = p / p.sum(-1, keepdims=True)
    n = z.shape[-1]
    jac = np.eye(n) - p[..., None, :]                            # d y_i / d x_j
    return np.moveaxis(np.einsum("...i,...ij->...j", g, jac), -1, axis)


SAMPLES += [
    dict(name="softmax", fn=softmax_streaming, wrong=True,
         cause="the running sum is not rescaled by exp(old max - new max) when a later block of 64 raises the maximum"),
    dict(name="softmax_backward", fn=softmax_backward_port, wrong=True,
         cause="the sum of p * dp runs over the last axis whatever `axis` is"),
    dict(name="softmax", fn=softmax_pairwise, wrong=False, cause=""),
    dict(name="log_softmax", fn=log_softmax_scan, wrong=True,
         cause="the scan of the log-sum-exp starts at 0 instead of -inf, which counts an additional class of logit 0"),
    dict(name="log_softmax_backward", fn=log_softmax_backward_jacobian, wrong=False, cause=""),
]


# ---------------------------------------------------------------- norms

def layer_norm_welford(x, weight, bias, epsilon=1e-5):
    lead, C = x.shape[:-1], x.shape[-1]
    mu, m2 = np.zeros(lead), np.zeros(lead)
    for c in range(C):
        delta = x[..., c] - mu
        mu = mu + delta / (c + 1)
        m2 = m2 + delta * (x[..., c] - mu)
    var = m2 / max(C - 1, 1)
    inv = 1.0 / np.sqrt(var + epsilon)
    return (x - mu[..., None]) * inv[..., None] * weight + bias


def layer_norm_centering_matrix(x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    centre = np.eye(C) - np.full((C, C), 1.0 / C)
    z = np.einsum("...c,cd->...d", x, centre)
    std = np.linalg.norm(z, axis=-1, keepdims=True) / math.sqrt(C)
    return z / np.hypot(std, math.sqrt(epsilon)) * weight + bias


def layer_norm_backward_btc(dy, x, weight, bias, epsilon=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    rstd = (var + epsilon) ** -0.5
    norm = (x - mu) * rstd
    dweight = (dy * norm).sum((0, 1))
    dbias = dy.sum((0, 1))
    g = dy * weight
    dx = g - g.mean(-1, keepdims=True) - norm * (g * norm).mean(-1, keepdims=True)
    return dx * rstd, dweight, dbias


def annotated_layer_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    c = x - x.mean(axis=-1, keepdims=True)
    std = np.sqrt(np.mean(c * c, axis=-1, keepdims=True))
    denom = std + epsilon
    xh = c / denom
    flat = lambda a: a.reshape(-1, a.shape[-1])
    dgamma = np.einsum("nc,nc->c", flat(dy), flat(xh))
    dbeta = flat(dy).sum(0)
    dxh = dy * weight
    dx = (dxh - dxh.mean(-1, keepdims=True) - xh * (dxh * xh).mean(-1, keepdims=True)) / denom
    return dx, dgamma, dbeta


def llama_rms_norm(x, weight, epsilon=1e-5):
    """The reference calls .float() before the norm and casts back; so do we."""
    h = x.astype(np.float32)
    h = h * (1.0 / np.sqrt(np.mean(h * h, axis=-1, keepdims=True) + np.float32(epsilon)))
    return weight * h.astype(x.dtype)


def rms_norm_backward_rowwise(dy, x, weight, epsilon=1e-5):
    """Quotient rule row by row, with the Jacobian written out."""
    C = x.shape[-1]
    X, G = x.reshape(-1, C), dy.reshape(-1, C)
    dx, dw = np.zeros((len(X), C)), np.zeros(C)
    eye = np.eye(C)
    for n in range(len(X)):
        row = X[n].astype(float)
        s = math.sqrt(float(row @ row) / C + epsilon)
        dw += G[n] * row / s
        jac = (eye - np.outer(row / s, row / s) / C) / s
        dx[n] = jac @ (weight * G[n])
    return dx.reshape(x.shape), dw


def batch_norm_first_axis(x, weight, bias, epsilon=1e-5):
    mean = x.mean(axis=0, keepdims=True)
    var = x.var(axis=0, keepdims=True)
    return (x - mean) / np.sqrt(var + epsilon) * weight + bias


def batch_norm_backward_sloppy(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    X, G = x.reshape(-1, C), dy.reshape(-1, C)
    mu, var = X.mean(0), X.var(0)
    inv = 1 / np.sqrt(var + epsilon)
    xn = (X - mu) * inv
    dgamma = (G * xn).sum(0)
    dbeta = G.mean(0)
    gx = G * weight
    dx = inv * (gx - xn * (gx * xn).mean(0))
    return dx.reshape(x.shape), dgamma, dbeta


def masked_batch_norm_port(x, weight, bias, mask, epsilon=1e-5):
    keep = mask[..., None].astype(x.dtype)
    xs = np.where(mask[..., None], x, 0.0)
    axes = tuple(range(x.ndim - 1))
    n = mask.size
    mean = (xs * keep).sum(axes) / n
    diff = (xs - mean) * keep
    var = (diff * diff).sum(axes) / n
    return keep * (diff / np.sqrt(var + epsilon) * weight + bias)


SAMPLES += [
    dict(name="layer_norm", fn=layer_norm_welford, wrong=True,
         cause="the variance is divided by C - 1 instead of C"),
    dict(name="layer_norm", fn=layer_norm_centering_matrix, wrong=False, cause=""),
    dict(name="layer_norm_backward", fn=layer_norm_backward_btc, wrong=True,
         cause="dweight and dbias are summed over the axes 0 and 1 alone, so it works for three axes only"),
    dict(name="layer_norm_outside_backward", fn=annotated_layer_norm_backward, wrong=True,
         cause="the factor (sigma + epsilon) / sigma of the path through the standard deviation is missing, as if epsilon were inside the root"),
    dict(name="rms_norm", fn=llama_rms_norm, wrong=True,
         cause="the vector is normalized in float32, so only about seven digits are right"),
    dict(name="rms_norm_backward", fn=rms_norm_backward_rowwise, wrong=False, cause=""),
    dict(name="batch_norm", fn=batch_norm_first_axis, wrong=True,
         cause="the statistics run over the first axis only instead of over all vectors"),
    dict(name="batch_norm_backward", fn=batch_norm_backward_sloppy, wrong=True,
         cause="the path through the mean is missing in dx, and dbias is a mean over the batch instead of a sum"),
    dict(name="masked_batch_norm", fn=masked_batch_norm_port, wrong=True,
         cause="mean and variance are divided by the number of all positions, padding included, instead of the real ones"),
]


# ---------------------------------------------------------------- activations and feed-forward

def gelu_erf_polynomial(x):
    """erf after Abramowitz and Stegun 7.1.26, as scipy is not available in the kernels."""
    a = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    z = np.abs(x) / math.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * z)
    poly = np.zeros_like(t)
    for coef in reversed(a):
        poly = (poly + coef) * t
    erf = np.sign(x) * (1.0 - poly * np.exp(-z * z))
    return 0.5 * x * (1.0 + erf)


def gelu_tanh_backward_complex_step(dy, x):
    h = 1e-30
    z = np.clip(x, -50, 50) + 1j * h
    t = np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z * z * z))
    slope = (0.5 * z * (1 + t)).imag / h
    return dy * slope


def swish_backward_port(dy, x, beta=1.0):
    s = special.expit(beta * x)
    return dy * (s + x * s * special.expit(-beta * x))


def swish_backward_logspace(dy, x, beta=1.0):
    u = beta * np.asarray(x, float)
    log_s, log_1ms = -np.logaddexp(0, -u), -np.logaddexp(0, u)
    return dy * (np.exp(log_s) + u * np.exp(log_s + log_1ms))


def sigmoid_rational(x):
    e = np.exp(x)
    return e / (e + 1)


def sigmoid_softplus(x):
    return np.exp(-np.logaddexp(0.0, -x.astype(np.float64)))


def relu_backward_inplace(dy, x):
    dy[x <= 0] = 0
    return dy


def glu_backward(dy, g, h, activation="silu"):
    """f and f' of the gate from a small table."""
    sq2pi = math.sqrt(2 / math.pi)
    if activation in ("silu", "quick_gelu"):
        b = 1.0 if activation == "silu" else 1.702
        s = special.expit(b * g)
        f, df = g * s, s + b * g * s * special.expit(-b * g)
    elif activation == "relu":
        f, df = np.maximum(g, 0), (g > 0) * 1.0
    elif activation == "relu_squared":
        f, df = np.maximum(g, 0) ** 2, 2 * np.maximum(g, 0)
    elif activation in ("gelu", "gelu_tanh"):
        near = np.clip(g, -60.0, 60.0)
        t = np.tanh(sq2pi * (near + 0.044715 * near ** 3))
        f = 0.5 * g * (1 + t)
        df = 0.5 * (1 + t) + 0.5 * near * (1 - t * t) * sq2pi * (1 + 3 * 0.044715 * near ** 2)
    else:
        raise ValueError(activation)
    return dy * h * df, dy * f


def swiglu_block_backward(dy, x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight, output_bias):
    rows = lambda a: a.reshape(-1, a.shape[-1])
    g = x @ gate_weight + (0 if gate_bias is None else gate_bias)
    h = x @ hidden_weight + (0 if hidden_bias is None else hidden_bias)
    sig = special.expit(g)
    act = g * sig
    da = dy @ output_weight.T
    dW3 = rows(act * h).T @ rows(dy)
    dh = da * act
    dg = da * h * sig
    dx = dg @ gate_weight.T
    dW1, dW2 = rows(x).T @ rows(dg), rows(x).T @ rows(dh)
    s = lambda d, b: None if b is None else rows(d).sum(0)
    return dx, dW1, s(dg, gate_bias), dW2, s(dh, hidden_bias), dW3, s(dy, output_bias)


def swiglu_fused(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight, output_bias):
    """One fused projection as in vLLM: [gate | up], then silu(gate) * up."""
    F = gate_weight.shape[1]
    fused = np.concatenate([gate_weight, hidden_weight], axis=1)
    both = np.einsum("...c,cf->...f", x, fused)
    gate, up = both[..., :F], both[..., F:]
    if gate_bias is not None:
        gate = gate + gate_bias
    if hidden_bias is not None:
        up = up + hidden_bias
    y = np.einsum("...f,fe->...e", gate * np.exp(-np.logaddexp(0, -gate)) * up, output_weight)
    return y if output_bias is None else y + output_bias


def feed_forward_backward_port(dy, x, hidden_weight, hidden_bias, output_weight, output_bias):
    C, F, E = x.shape[-1], hidden_weight.shape[1], output_weight.shape[1]
    X, G = x.reshape(-1, C), dy.reshape(-1, E)
    h = X @ hidden_weight
    if hidden_bias is not None:
        h = h + hidden_bias
    a = h * special.ndtr(h)
    da = G @ output_weight.T
    dh = da * (special.ndtr(a) + a * np.exp(-a * a / 2) / math.sqrt(2 * math.pi))
    return ((dh @ hidden_weight.T).reshape(x.shape), X.T @ dh, None if hidden_bias is None else dh.sum(0),
            a.T @ G, None if output_bias is None else G.sum(0))


SAMPLES += [
    dict(name="gelu", fn=gelu_erf_polynomial, wrong=True,
         cause="erf is a polynomial approximation with an error of 1.5e-7"),
    dict(name="gelu_tanh_backward", fn=gelu_tanh_backward_complex_step, wrong=False, cause=""),
    dict(name="swish_backward", fn=swish_backward_port, wrong=True,
         cause="the derivative of the gate lacks the factor beta"),
    dict(name="swish_backward", fn=swish_backward_logspace, wrong=False, cause=""),
    dict(name="sigmoid", fn=sigmoid_rational, wrong=True,
         cause="exp(x) overflows for large x, and inf / inf is NaN"),
    dict(name="sigmoid", fn=sigmoid_softplus, wrong=False, cause=""),
    dict(name="relu_backward", fn=relu_backward_inplace, wrong=True,
         cause="the gradient of the output, an argument, is written into"),
    dict(name="gated_linear_unit_backward", fn=glu_backward, wrong=True,
         cause="with activation='gelu' the approximation by a tanh is used instead of the exact GELU"),
    dict(name="gated_feed_forward_backward", fn=swiglu_block_backward, wrong=True,
         cause="the path from x through the hidden units is missing in dx, and the derivative of SiLU lacks the term g s (1 - s)"),
    dict(name="gated_feed_forward", fn=swiglu_fused, wrong=False, cause=""),
    dict(name="feed_forward_backward", fn=feed_forward_backward_port, wrong=True,
         cause="the derivative of GELU is taken at its output a instead of at its input h"),
]


# ---------------------------------------------------------------- linear, embedding

def linear_backward_fortran(dy, x, weight, bias=None):
    C, F = weight.shape
    x2 = np.reshape(x, (-1, C), order="F")
    g2 = np.reshape(dy, (-1, F))
    dx = np.einsum("...f,cf->...c", dy, weight)
    return dx, x2.T @ g2, None if bias is None else g2.sum(0)


def embedding_backward_by_freq(dy, ids, weight):
    V, C = weight.shape
    flat, g = ids.ravel(), dy.reshape(-1, C)
    out = np.zeros((V, C))
    np.add.at(out, flat, g)
    freq = np.bincount(flat, minlength=V)
    return out / np.maximum(freq, 1)[:, None]


def embedding_backward_bincount(dy, ids, weight):
    V, C = weight.shape
    g = dy.reshape(-1, C)
    return np.stack([np.bincount(ids.reshape(-1), weights=g[:, c], minlength=V) for c in range(C)], axis=1)


SAMPLES += [
    dict(name="linear_backward", fn=linear_backward_fortran, wrong=True,
         cause="x is flattened in Fortran order but dy in C order, so dweight pairs vectors of different positions"),
    dict(name="embedding_backward", fn=embedding_backward_by_freq, wrong=True,
         cause="the gradient of a row is divided by the number of times that its id occurs (mean instead of sum)"),
    dict(name="embedding_backward", fn=embedding_backward_bincount, wrong=False, cause=""),
]


# ---------------------------------------------------------------- attention

def attention_multiplicative_mask(q, k, v, mask=None):
    B, H, T, D = q.shape
    out = np.zeros((B, H, T, v.shape[-1]))
    for h in range(H):
        sim = np.einsum("btd,bsd->bts", q[:, h], k[:, h]) / np.sqrt(D)
        sim = sim - sim.max(-1, keepdims=True)
        w = np.exp(sim)
        w = w / w.sum(-1, keepdims=True)
        if mask is not None:
            w = w * np.broadcast_to(mask, (B, H, T, k.shape[2]))[:, h]
        out[:, h] = w @ v[:, h]
    return out


def attention_online_scan(q, k, v, mask=None):
    """Scan over the keys, one at a time: max, normalizer and accumulator of all queries at once."""
    B, H, T, D = q.shape
    S = k.shape[2]
    allow = np.ones((B, H, T, S), bool) if mask is None else np.broadcast_to(mask, (B, H, T, S))
    m = np.full((B, H, T), -np.inf)
    den = np.zeros((B, H, T))
    acc = np.zeros((B, H, T, v.shape[-1]))
    root = math.sqrt(D)
    for j in range(S):
        s = np.einsum("bhtd,bhd->bht", q, k[:, :, j]).astype(float) / root
        s = np.where(allow[..., j], s, -np.inf)
        top = np.maximum(m, s)
        safe = np.where(np.isinf(top), 0.0, top)
        shrink, w = np.exp(m - safe), np.exp(s - safe)
        den = den * shrink + w
        acc = acc * shrink[..., None] + w[..., None] * v[:, :, None, j]
        m = top
    return acc / np.where(den == 0, 1, den)[..., None]


def sdpa_tile_kv(q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    if scale is None:
        scale = 1 / np.sqrt(D)
    kk = np.tile(k, (1, H // G, 1, 1))
    vv = np.tile(v, (1, H // G, 1, 1))
    logits = (q @ np.swapaxes(kk, -1, -2)) * scale
    if pattern is not None:
        logits = np.where(pattern.dense(T, S), logits, -np.inf)
    hi = logits.max(-1, keepdims=True)
    w = np.exp(logits - np.where(np.isfinite(hi), hi, 0.0))
    tot = w.sum(-1, keepdims=True)
    return (w / np.where(tot > 0, tot, 1.0)) @ vv


def sdpa_sliding_window(q, k, v, pattern=None, scale=None):
    """Builds the mask by hand from the rules of the pattern, as the Mistral port did."""
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    s = D ** -0.5 if scale is None else scale
    qpos, kpos = np.arange(S - T, S)[:, None], np.arange(S)[None, :]
    allow = np.ones((1, 1, T, S), bool)
    if pattern is not None:
        if pattern.window is not None:
            left, right = pattern.window
            if left is not None:
                allow = allow & (kpos >= qpos - left)
            if right is not None:
                allow = allow & (kpos <= qpos + right)
        elif pattern.causal:
            allow = allow & (kpos <= qpos)
        if pattern.lengths is not None:
            allow = allow & (kpos < np.asarray(pattern.lengths)[:, None, None, None])
        if pattern.documents is not None:
            doc = pattern.documents
            allow = allow & (doc[:, None, S - T:, None] == doc[:, None, None, :])
        if pattern.mask is not None:
            allow = allow & pattern.mask
    qg = q.reshape(B, G, H // G, T, D)
    att = np.einsum("bgntd,bgsd->bgnts", qg, k).reshape(B, H, T, S) * s
    att = np.where(allow, att, -np.inf)
    mx = att.max(-1, keepdims=True)
    att = np.exp(att - np.where(np.isinf(mx), 0, mx))
    z = att.sum(-1, keepdims=True)
    att = att / np.where(z == 0, 1, z)
    o = np.einsum("bgnts,bgse->bgnte", att.reshape(B, G, H // G, T, S), v)
    return o.reshape(B, H, T, v.shape[-1])


def sdpa_grouped_einsum(q, k, v, pattern=None, scale=None, slopes=None, bias=None, softcap=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    R = H // G
    z = np.einsum("bgrtd,bgsd->bgrts", q.reshape(B, G, R, T, D), k).astype(float)
    z = z * (1 / math.sqrt(D) if scale is None else scale)
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    rel = np.arange(S)[None, :] - (np.arange(T)[:, None] + S - T)        # j - (i + S - T)
    if slopes is not None:
        z = z - slopes.reshape(1, G, R, 1, 1) * np.abs(rel)
    if bias is not None:
        z = z + bias[:, rel + S - 1].reshape(1, G, R, T, S)
    ok = np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)
    ok = np.broadcast_to(ok, (B, H, T, S)).reshape(B, G, R, T, S)
    z = np.where(ok, z, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = z.max(-1, keepdims=True)
        logp = z - top - np.log(np.exp(z - top).sum(-1, keepdims=True))
    p = np.where(ok, np.exp(logp), 0.0)
    return np.einsum("bgrts,bgse->bgrte", p, v).reshape(B, H, T, v.shape[-1])


def sdpa_softcap_backward(do, q, k, v, scale=None, softcap=None):
    """Gemma's soft cap; single heads, no pattern."""
    s = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    raw = np.matmul(q, np.swapaxes(k, 2, 3)) * s
    z = raw if softcap is None else softcap * np.tanh(raw / softcap)
    p = np.exp(z - z.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dv = np.matmul(np.swapaxes(p, 2, 3), do)
    dp = np.matmul(do, np.swapaxes(v, 2, 3))
    dz = p * (dp - np.sum(p * dp, axis=-1, keepdims=True))
    return s * np.matmul(dz, k), s * np.matmul(np.swapaxes(dz, 2, 3), q), dv


def sdpa_backward_head_by_head(do, q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    s = 1 / math.sqrt(D) if scale is None else scale
    ok = np.broadcast_to(True if pattern is None else pattern.dense(T, S), (B, H, T, S))
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for b in range(B):
        for h in range(H):
            g = h * G // H
            Q, K, V = (a.astype(float) for a in (q[b, h], k[b, g], v[b, g]))
            z = np.where(ok[b, h], Q @ K.T * s, -np.inf)
            live = ok[b, h].any(1)
            top = np.where(live, z.max(1), 0)[:, None]
            e = np.exp(z - top)
            p = e / np.where(live, e.sum(1), 1)[:, None]
            dv[b, g] += p.T @ do[b, h]
            dp = do[b, h] @ V.T
            dz = p * (dp - np.einsum("ts,ts->t", p, dp)[:, None]) * s
            dq[b, h] = dz @ K
            dk[b, g] += dz.T @ Q
    return dq, dk, dv


def flash_forward(q, k, v, pattern=None, scale=None, tile=64):
    B, H, T, D = q.shape
    S = k.shape[2]
    reps = H // k.shape[1]
    k, v = np.repeat(k, reps, 1), np.repeat(v, reps, 1)
    scale = 1 / math.sqrt(D) if scale is None else scale
    ok = np.broadcast_to(True if pattern is None else pattern.dense(T, S), (B, H, T, S))
    row_max = np.full((B, H, T, 1), -np.inf)
    row_sum = np.zeros((B, H, T, 1))
    o = np.zeros((B, H, T, v.shape[-1]))
    for j in range(0, S, tile):
        blk = np.s_[..., j:j + tile]
        s = np.where(ok[blk], q @ k[:, :, j:j + tile].mT * scale, -np.inf)
        new = np.maximum(row_max, s.max(-1, keepdims=True))
        base = np.where(np.isinf(new), 0, new)
        p = np.exp(s - base)
        row_sum = row_sum * np.exp(row_max - base) + p.sum(-1, keepdims=True)
        o = o + p @ v[:, :, j:j + tile]
        row_max = new
    return o / np.where(row_sum == 0, 1, row_sum)


def flash_backward(do, q, k, v, scale=None, tile=64):
    B, H, T, D = q.shape
    S = k.shape[2]
    scale = D ** -0.5 if scale is None else scale
    full = q @ k.mT * scale
    top = full.max(-1, keepdims=True)
    norm = np.exp(full - top).sum(-1, keepdims=True)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for j in range(0, S, tile):
        cols = slice(j, min(S, j + tile))
        p = np.exp(q @ k[:, :, cols].mT * scale - top) / norm
        dv[:, :, cols] = p.mT @ do
        dp = do @ v[:, :, cols].mT
        delta = (p * dp).sum(-1, keepdims=True)
        ds = p * (dp - delta) * scale
        dq += ds @ k[:, :, cols]
        dk[:, :, cols] = ds.mT @ q
    return dq, dk, dv


def linear_attention_scan(q, k, v, causal=False):
    phi = lambda a: np.where(a > 0, a + 1, np.exp(np.minimum(a, 0)))
    fq, fk = phi(q), phi(k)
    if not causal:
        kv = np.einsum("bhsd,bhse->bhde", fk, v)
        z = np.einsum("bhtd,bhd->bht", fq, fk.sum(2))
        return np.einsum("bhtd,bhde->bhte", fq, kv) / np.where(z == 0, 1, z)[..., None]
    B, H, T, D = q.shape
    state, norm = np.zeros((B, H, D, v.shape[-1])), np.zeros((B, H, D))
    buf = np.zeros((B, H, T, v.shape[-1]))
    for t in range(T):
        den = (fq[:, :, t] * norm).sum(-1)
        num = np.einsum("bhd,bhde->bhe", fq[:, :, t], state)
        buf[:, :, t] = num / np.where(den == 0, 1, den)[..., None]
        state += fk[:, :, t, :, None] * v[:, :, t, None, :]
        norm += fk[:, :, t]
    return buf


def linear_attention_logspace(q, k, v, causal=False):
    """The weights phi(q) . phi(k) by logaddexp over the coordinates, then a softmax of their logs."""
    def log_phi(a):
        a = a.astype(np.float64)
        return np.where(a > 0, np.log1p(np.maximum(a, 0)), a)
    lq, lk = log_phi(q), log_phi(k)
    T, S = q.shape[2], k.shape[2]
    lw = np.full(q.shape[:3] + (S,), -np.inf)
    for d in range(q.shape[-1]):
        lw = np.logaddexp(lw, lq[..., d][..., :, None] + lk[..., d][..., None, :])
    if causal:
        lw = np.where(np.tri(T, S, dtype=bool), lw, -np.inf)
    w = np.exp(lw - lw.max(-1, keepdims=True))
    return np.einsum("bhts,bhse->bhte", w / w.sum(-1, keepdims=True), v)


def linear_attention_backward_port(do, q, k, v):
    phi = lambda a: np.where(a > 0, a + 1, np.exp(np.minimum(a, 0)))
    dphi = lambda a: np.where(a > 0, 1.0, np.exp(np.minimum(a, 0)))
    fq, fk = phi(q), phi(k)
    kv = np.einsum("bhsd,bhse->bhde", fk, v)
    z = np.einsum("bhtd,bhd->bht", fq, fk.sum(2))[..., None]
    dn = do / z
    dfq = np.einsum("bhte,bhde->bhtd", dn, kv)
    dkv = np.einsum("bhtd,bhte->bhde", fq, dn)
    dfk = np.einsum("bhse,bhde->bhsd", v, dkv)
    dv = np.einsum("bhsd,bhde->bhse", fk, dkv)
    return dfq * dphi(q), dfk * dphi(k), dv


def sparse_attention_backward_gather(do, q, k, v, keys):
    s = 1 / math.sqrt(q.shape[-1])
    valid = keys >= 0
    kg, vg = k[:, :, keys], v[:, :, keys]                                # (B, H, T, M, .)
    z = np.where(valid, np.einsum("bhtd,bhtmd->bhtm", q, kg) * s, -np.inf)
    top = z.max(-1, keepdims=True)
    e = np.exp(z - np.where(np.isinf(top), 0, top))
    tot = e.sum(-1, keepdims=True)
    p = e / np.where(tot == 0, 1, tot)
    dp = np.einsum("bhte,bhtme->bhtm", do, vg)
    dz = p * (dp - (p * dp).sum(-1, keepdims=True)) * s
    dk, dv = np.zeros_like(k), np.zeros_like(v)
    dk[:, :, keys] += dz[..., None] * q[:, :, :, None, :]
    dv[:, :, keys] += p[..., None] * do[:, :, :, None, :]
    return np.einsum("bhtm,bhtmd->bhtd", dz, kg), dk, dv


def shaw_scores_gathered(q, table, S):
    B, H, T, D = q.shape
    K = len(table) // 2
    out = np.empty((B, H, T, S))
    for i in range(T):
        for r in range(-K, K + 1):
            dots = q[:, :, i] @ table[r + K]
            centre = i + S - T
            lo = 0 if r == -K else centre + r
            hi = S if r == K else centre + r + 1
            lo, hi = max(lo, 0), min(max(hi, 0), S)
            if lo < hi:
                out[:, :, i, lo:hi] = dots[..., None]
    return out


def relative_attention_port(q, k, v, key_table, value_table, pattern=None, scale=None):
    B, H, T, D = q.shape
    S, n = k.shape[2], H // k.shape[1]
    k, v = np.repeat(k, n, axis=1), np.repeat(v, n, axis=1)
    if scale is None:
        scale = D ** -0.5
    dist = np.arange(S) - np.arange(S - T, S)[:, None]
    look = lambda tab: tab[np.clip(dist, -(len(tab) // 2), len(tab) // 2) + len(tab) // 2]
    sim = np.einsum("bhtd,bhsd->bhts", q, k) * scale
    sim = sim + np.einsum("bhtd,tsd->bhts", q, look(key_table))
    if pattern is not None:
        sim = np.where(pattern.dense(T, S), sim, -np.inf)
    top = sim.max(-1, keepdims=True)
    e = np.exp(sim - np.where(np.isinf(top), 0, top))
    den = e.sum(-1, keepdims=True)
    p = e / np.where(den == 0, 1, den)
    return p @ v + np.einsum("bhts,tse->bhte", p, look(value_table))


def bahdanau_backward(dscores, q, k, v):
    hid = np.tanh(q[:, :, None, :] + k[:, None, :, :])
    dv = np.einsum("bts,btsa->a", dscores, hid)
    dhid = np.einsum("bts,a->btsa", dscores, v)
    dpre = dhid * (1 - np.tanh(hid) ** 2)
    return dpre.sum(2), dpre.sum(1), dv


def luong_general_backward(dscores, q, k, weight):
    dq, dk = np.empty_like(q), np.empty_like(k)
    dW = np.zeros_like(weight)
    for b in range(len(q)):
        g = dscores[b]
        dq[b] = g @ k[b] @ weight.T
        dk[b] = g.T @ q[b] @ weight
        dW = q[b].T @ g @ k[b]
    return dq, dk, dW


def alibi_signed(scores, slopes):
    H, T, S = scores.shape[-3:]
    out = scores.copy()
    for h in range(H):
        for i in range(T):
            out[..., h, i, :] -= slopes[h] * ((i + S - T) - np.arange(S))
    return out


def swin_attention_backward(do, q, k, v, bias, scale=None):
    s = q.shape[-1] ** -0.5 if scale is None else scale
    att = s * np.einsum("nhid,nhjd->nhij", q, k) + bias
    att = special.softmax(att, axis=-1)
    dv = np.einsum("nhij,nhie->nhje", att, do)
    datt = np.einsum("nhie,nhje->nhij", do, v)
    dz = att * (datt - (datt * att).sum(-1, keepdims=True))
    dbias = dz.mean(0)
    dq = s * np.einsum("nhij,nhjd->nhid", dz, k)
    dk = np.einsum("nhij,nhid->nhjd", dz, q)
    return dq, dk, dv, dbias


def distance_weights_unaligned(slopes, mask):
    T, S = mask.shape[-2:]
    dist = np.abs(np.arange(T)[:, None] - np.arange(S)[None, :])
    z = -slopes[:, None, None] * dist
    z = np.where(mask, z, -np.inf)
    top = z.max(-1, keepdims=True)
    e = np.exp(z - np.where(np.isinf(top), 0, top))
    tot = e.sum(-1, keepdims=True)
    return e / np.where(tot == 0, 1, tot)


SAMPLES += [
    dict(name="attention", fn=attention_multiplicative_mask, wrong=True,
         cause="the mask multiplies the weights after the softmax, so masked keys count in the normalizer"),
    dict(name="attention", fn=attention_online_scan, wrong=False, cause=""),
    dict(name="scaled_dot_product_attention", fn=sdpa_tile_kv, wrong=True,
         cause="the key-value heads are tiled (head h uses h % G) instead of repeated (h // (H / G))"),
    dict(name="scaled_dot_product_attention", fn=sdpa_sliding_window, wrong=True,
         cause="with a window the causal rule is ignored (elif), so later keys within the window are attended to"),
    dict(name="scaled_dot_product_attention", fn=sdpa_grouped_einsum, wrong=False, cause=""),
    dict(name="scaled_dot_product_attention_backward", fn=sdpa_softcap_backward, wrong=True,
         cause="the derivative of the soft cap, 1 - tanh^2, is missing"),
    dict(name="scaled_dot_product_attention_backward", fn=sdpa_backward_head_by_head, wrong=False, cause=""),
    dict(name="tiled_attention", fn=flash_forward, wrong=True,
         cause="the accumulated output is not rescaled when a later tile raises the maximum, the sum is"),
    dict(name="tiled_attention_backward", fn=flash_backward, wrong=True,
         cause="delta, the sum of p * dp, is taken over the keys of a tile instead of over all keys"),
    dict(name="linear_attention", fn=linear_attention_scan, wrong=True,
         cause="if causal, the state is read before the current key is added, so a query does not attend to its own position"),
    dict(name="linear_attention", fn=linear_attention_logspace, wrong=False, cause=""),
    dict(name="linear_attention_backward", fn=linear_attention_backward_port, wrong=True,
         cause="the gradient through the denominator (the sum of the weights) is forgotten"),
    dict(name="sparse_attention_backward", fn=sparse_attention_backward_gather, wrong=True,
         cause="dk[:, :, keys] += keeps one contribution only of a key that several queries list"),
    dict(name="relative_scores", fn=shaw_scores_gathered, wrong=False, cause=""),
    dict(name="relative_attention", fn=relative_attention_port, wrong=True,
         cause="the term of the key table is not multiplied by the scale"),
    dict(name="additive_scores_backward", fn=bahdanau_backward, wrong=True,
         cause="the derivative of tanh is taken at its output: tanh is applied twice"),
    dict(name="general_scores_backward", fn=luong_general_backward, wrong=True,
         cause="dweight is overwritten in the loop instead of summed over the batch: the last example alone counts"),
    dict(name="alibi", fn=alibi_signed, wrong=True,
         cause="the distance has no absolute value, so later keys get a bonus"),
    dict(name="window_attention_backward", fn=swin_attention_backward, wrong=True,
         cause="dbias is a mean over the windows instead of a sum, and dk lacks the scale"),
    dict(name="distance_weights", fn=distance_weights_unaligned, wrong=True,
         cause="queries and keys are aligned at their beginnings instead of their ends (wrong where T != S)"),
]


# ---------------------------------------------------------------- positions

def rotary_rotate_half(x, cosine, sine, layout="half"):
    cos = np.concatenate([cosine, cosine], axis=-1)
    sin = np.concatenate([sine, sine], axis=-1)
    if layout == "half":
        h = x.shape[-1] // 2
        turned = np.concatenate([-x[..., h:], x[..., :h]], axis=-1)
    else:
        turned = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    return x * cos + turned * sin


def rotary_complex(x, cosine, sine, layout="half"):
    h = x.shape[-1] // 2
    turn = cosine + 1j * sine
    if layout == "half":
        z = (x[..., :h] + 1j * x[..., h:]) * turn
        return np.concatenate([z.real, z.imag], -1)
    z = (x[..., ::2] + 1j * x[..., 1::2]) * turn
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def partial_rotary_backward_port(dy, x, cosine, sine, layout="half"):
    R = 2 * cosine.shape[-1]
    dx = np.zeros(dy.shape)
    if layout == "half":
        a, b = np.s_[..., :R // 2], np.s_[..., R // 2:R]
    else:
        a, b = np.s_[..., 0:R:2], np.s_[..., 1:R:2]
    dx[a] = dy[a] * cosine + dy[b] * sine
    dx[b] = dy[b] * cosine - dy[a] * sine
    return dx


def t5_bias(table, T, S, max_distance=128, bidirectional=True):
    n_buckets, H = table.shape
    rel = np.arange(-(S - 1), T)
    n = n_buckets
    ret = np.zeros_like(rel)
    if bidirectional:
        n //= 2
        ret = ret + (rel >= 0) * n
        rel = np.abs(rel)
    else:
        rel = -np.minimum(rel, 0)
    exact = n // 2
    big = np.log(np.maximum(rel, exact) / exact) / math.log(max_distance / exact) * (n - exact)
    big = np.minimum(exact + big.astype(np.int64), n - 1)
    ret = ret + np.where(rel < exact, rel, big)
    return np.transpose(table[ret], (1, 0)).copy()


SAMPLES += [
    dict(name="rotary", fn=rotary_rotate_half, wrong=True,
         cause="for the interleaved layout cosine and sine are concatenated twice (halves) instead of repeated for each pair"),
    dict(name="rotary", fn=rotary_complex, wrong=False, cause=""),
    dict(name="partial_rotary_backward", fn=partial_rotary_backward_port, wrong=True,
         cause="the coordinates beyond R, which are not rotated, get gradient 0 instead of dy"),
    dict(name="relative_position_bias", fn=t5_bias, wrong=True,
         cause="distance 0 counts as after the query (>= 0 instead of > 0), so it gets the bucket n/2 instead of 0"),
]


# ---------------------------------------------------------------- losses

def bits_per_token(logits, targets):
    V = logits.shape[-1]
    z = logits.reshape(-1, V)
    z = z - z.max(1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(1, keepdims=True))
    return -np.mean(logp[np.arange(len(z)), targets.reshape(-1)]) / math.log(2)


def cross_entropy_smoothed(logits, targets, ignore_index=-100, label_smoothing=0.0):
    z = logits - logits.max(-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    counts = targets != ignore_index
    safe = np.where(counts, targets, 0)
    nll = -np.take_along_axis(logp, safe[..., None], -1)[..., 0]
    nll = (nll * counts).sum() / counts.sum()
    smooth = -logp.mean(-1).mean()
    return (1 - label_smoothing) * nll + label_smoothing * smooth


def cross_entropy_token_loop(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    terms, n = [], 0
    for row, y in zip(logits.reshape(-1, V).astype(np.float64), targets.reshape(-1)):
        if y == ignore_index:
            continue
        n += 1
        top = float(row.max())
        log_total = math.log(math.fsum(np.exp(row - top)))
        shifted = row - top
        terms.append((1 - label_smoothing) * (log_total - float(shifted[y])))
        terms.append(label_smoothing * (log_total - math.fsum(shifted) / V))
        terms.append(z_loss * (top + log_total) ** 2)
    return np.float64(math.fsum(terms) / n)


def cross_entropy_backward_port(dloss, logits, targets, ignore_index=-100, z_loss=0.0):
    top = logits.max(-1, keepdims=True)
    e = np.exp(logits - top)
    tot = e.sum(-1, keepdims=True)
    lse = top + np.log(tot)
    p = e / tot
    counts = targets != ignore_index
    n = counts.sum()
    hot = np.zeros(logits.shape)
    np.put_along_axis(hot, np.where(counts, targets, 0)[..., None], 1.0, axis=-1)
    grad = (p - hot) * counts[..., None]
    grad = grad + 2 * z_loss * lse * p
    return grad * (dloss / n)


def lm_head_backward_chunked(dloss, x, weight, targets):
    """Token chunks of 64, so that the logits of all tokens never exist at once."""
    V, C = weight.shape
    X, y = x.reshape(-1, C), targets.reshape(-1)
    dX, dW = np.zeros((len(X), C)), np.zeros((V, C))
    for s in range(0, len(X), 64):
        xs, ys = X[s:s + 64], y[s:s + 64]
        p = special.softmax(xs @ weight.T, axis=-1)
        p[np.arange(len(ys)), ys] -= 1
        p *= dloss / len(X)
        dX[s:s + 64] = p @ weight
        dW = p.T @ xs
    return dX.reshape(x.shape), dW


def linear_cross_entropy_by_slices(x, weight, targets, ignore_index=-100, label_smoothing=0.0):
    """Slices of 16 classes, with an online log-sum-exp."""
    V, C = weight.shape
    keep = targets.reshape(-1) != ignore_index
    X, y = x.reshape(-1, C)[keep].astype(float), targets.reshape(-1)[keep]
    n = len(y)
    m, s, total = np.full(n, -np.inf), np.zeros(n), np.zeros(n)
    hit = np.zeros(n)
    for lo in range(0, V, 16):
        z = X @ weight[lo:lo + 16].astype(float).T
        m2 = np.maximum(m, z.max(1))
        s = s * np.exp(m - m2) + np.exp(z - m2[:, None]).sum(1)
        m = m2
        total += z.sum(1)
        inside = np.flatnonzero((y >= lo) & (y < lo + z.shape[1]))
        hit[inside] = z[inside, y[inside] - lo]
    nll = (m - hit) + np.log(s)
    uniform = (m - total / V) + np.log(s)
    return ((1 - label_smoothing) * nll + label_smoothing * uniform).sum() / n


def clip_loss(logits):
    N = len(logits)
    logp_text = special.log_softmax(logits, axis=1)
    logp_image = special.log_softmax(logits, axis=1)
    idx = np.arange(N)
    return -(logp_text[idx, idx].mean() + logp_image[idx, idx].mean()) / 2


def clip_loss_backward(dloss, logits):
    N = logits.shape[0]
    z = logits.astype(float)
    a, b = z - z.max(1, keepdims=True), z - z.max(0, keepdims=True)
    la = np.logaddexp.reduce(a, axis=1, keepdims=True)
    lb = np.logaddexp.reduce(b, axis=0, keepdims=True)
    return float(dloss) * (np.exp(a - la) + np.exp(b - lb) - 2 * np.eye(N)) / (2 * N)


def box_loss_port(boxes, targets, l1_weight=5.0, giou_weight=2.0):
    def corners(b):
        return np.concatenate([b[:, :2] - 0.5 * b[:, 2:], b[:, :2] + 0.5 * b[:, 2:]], 1)
    a, t = corners(boxes), corners(targets)
    area = lambda c: (c[:, 2] - c[:, 0]) * (c[:, 3] - c[:, 1])
    lt, rb = np.maximum(a[:, :2], t[:, :2]), np.minimum(a[:, 2:], t[:, 2:])
    inter = np.clip(rb - lt, 0, None).prod(1)
    union = area(a) + area(t) - inter
    hull = (np.maximum(a[:, 2:], t[:, 2:]) - np.minimum(a[:, :2], t[:, :2])).prod(1)
    giou = inter / np.where(union == 0, 1, union) - np.where(hull == 0, 0, (hull - union) / np.where(hull == 0, 1, hull))
    l1 = np.abs(boxes - targets).mean()
    return l1_weight * l1 + giou_weight * (1 - giou).mean()


def giou_wrong_denominator(a, b):
    ax0, ay0, ax1, ay1 = np.moveaxis(a, -1, 0)
    bx0, by0, bx1, by1 = np.moveaxis(b, -1, 0)
    iw = np.maximum(0, np.minimum(ax1, bx1) - np.maximum(ax0, bx0))
    ih = np.maximum(0, np.minimum(ay1, by1) - np.maximum(ay0, by0))
    inter = iw * ih
    union = (ax1 - ax0) * (ay1 - ay0) + (bx1 - bx0) * (by1 - by0) - inter
    enclose = (np.maximum(ax1, bx1) - np.minimum(ax0, bx0)) * (np.maximum(ay1, by1) - np.minimum(ay0, by0))
    u = np.where(union == 0, 1, union)
    return inter / u - (enclose - union) / u


def generalized_iou_spans(a, b):
    """Per side: overlap = length a + length b - length of the hull, if that is positive."""
    la, lb = a[..., 2:] - a[..., :2], b[..., 2:] - b[..., :2]
    span = np.fmax(a[..., 2:], b[..., 2:]) - np.fmin(a[..., :2], b[..., :2])
    over = np.clip(la + lb - span, 0, None)
    inter, hull = over.prod(-1), span.prod(-1)
    union = la.prod(-1) + lb.prod(-1) - inter
    iou = np.divide(inter, union, out=np.zeros_like(inter), where=union != 0)
    gap = np.divide(hull - union, hull, out=np.zeros_like(inter), where=hull != 0)
    return iou - gap


def cosine_similarity_backward_port(ds, a, b):
    na, nb = np.linalg.norm(a, axis=1, keepdims=True), np.linalg.norm(b, axis=1, keepdims=True)
    ah, bh = a / na, b / nb
    ga = np.einsum("nm,mc->nc", ds, bh)
    gb = np.einsum("nm,nc->mc", ds, ah)
    da = (ga - ah * (ah * ga).sum(1, keepdims=True)) / na
    db = gb / nb
    return da, db


def imitation_backward_port(dloss, x, teacher):
    n = x.size // x.shape[-1]
    return dloss * (x - teacher) / n


def triplet_backward_port(dloss, anchors, positives, negatives, margin=1.0):
    ap, an = anchors - positives, anchors - negatives
    near, far = np.sqrt((ap ** 2).sum(1)), np.sqrt((an ** 2).sum(1))
    on = (near - far + margin > 0).astype(float)[:, None]
    u = ap / np.where(near == 0, 1, near)[:, None]
    w = an / np.where(far == 0, 1, far)[:, None]
    return dloss * on * u, -dloss * on * u, dloss * on * w


SAMPLES += [
    dict(name="softmax_cross_entropy", fn=bits_per_token, wrong=True,
         cause="the logarithm is to base 2: the loss is in bits instead of nats"),
    dict(name="cross_entropy", fn=cross_entropy_smoothed, wrong=True,
         cause="the smoothing term is a mean over all positions, those with an ignored target included"),
    dict(name="cross_entropy", fn=cross_entropy_token_loop, wrong=False, cause=""),
    dict(name="cross_entropy_backward", fn=cross_entropy_backward_port, wrong=True,
         cause="the gradient of the z-loss is not set to 0 where the target is ignored"),
    dict(name="linear_cross_entropy_backward", fn=lm_head_backward_chunked, wrong=True,
         cause="dweight is overwritten instead of summed over chunks of 64 tokens, so it is right up to 64 tokens only"),
    dict(name="linear_cross_entropy", fn=linear_cross_entropy_by_slices, wrong=False, cause=""),
    dict(name="contrastive_loss", fn=clip_loss, wrong=True,
         cause="both softmaxes run over the rows; that of the second direction must run over the columns"),
    dict(name="contrastive_loss_backward", fn=clip_loss_backward, wrong=False, cause=""),
    dict(name="box_loss", fn=box_loss_port, wrong=True,
         cause="the L1 distance is a mean over the four coordinates instead of their sum: a factor 1/4"),
    dict(name="generalized_iou", fn=giou_wrong_denominator, wrong=True,
         cause="the empty space is divided by the union instead of the enclosing box"),
    dict(name="generalized_iou", fn=generalized_iou_spans, wrong=False, cause=""),
    dict(name="cosine_similarity_backward", fn=cosine_similarity_backward_port, wrong=True,
         cause="db lacks the projection: the norm of b is treated as a constant"),
    dict(name="imitation_loss_backward", fn=imitation_backward_port, wrong=True,
         cause="the factor 2 is missing, and the mean is over the vectors instead of over all elements (1 / C is missing)"),
    dict(name="triplet_loss_backward", fn=triplet_backward_port, wrong=True,
         cause="1 / B of the mean is missing, and the anchors lack the gradient of the distance to the negatives"),
]


# ---------------------------------------------------------------- recurrent cells, causal convolution

def lstm_cell_torch_order(x, state, input_weight, recurrent_weight, bias=None):
    F = recurrent_weight.shape[0]
    h, c = np.split(state, 2, axis=1)
    gates = x @ input_weight + h @ recurrent_weight
    if bias is not None:
        gates = gates + bias
    i, f, g, o = (gates[:, n * F:(n + 1) * F] for n in range(4))
    c_new = special.expit(f) * c + special.expit(i) * np.tanh(g)
    return np.hstack([special.expit(o) * np.tanh(c_new), c_new])


def lstm_cell_augmented(x, state, input_weight, recurrent_weight, bias=None):
    """A single product with the stacked matrix [W; U; b], gate by gate."""
    B, F = len(x), len(recurrent_weight)
    b = np.zeros(4 * F) if bias is None else bias
    stack = np.vstack([input_weight, recurrent_weight, b[None]])
    inp = np.hstack([x, state[:, :F], np.ones((B, 1))])
    pre = np.einsum("bn,nkf->kbf", inp, stack.reshape(len(stack), 4, F))
    i, f, o = special.expit(pre[:3])
    out = np.empty((B, 2 * F))
    out[:, F:] = f * state[:, F:] + i * np.tanh(pre[3])
    out[:, :F] = o * np.tanh(out[:, F:])
    return out


def lstm_cell_backward_port(dstate, x, state, input_weight, recurrent_weight, bias=None):
    F = len(recurrent_weight)
    h, c = state[:, :F], state[:, F:]
    a = x @ input_weight + h @ recurrent_weight + (0 if bias is None else bias)
    i, f, o = (special.expit(a[:, n * F:(n + 1) * F]) for n in range(3))
    g = np.tanh(a[:, 3 * F:])
    c1 = f * c + i * g
    tc = np.tanh(c1)
    dh, dc = dstate[:, :F], dstate[:, F:]
    do = dh * tc
    dc = dc + dh * o * (1 - tc ** 2)
    df = dc * c1
    da = np.hstack([dc * g * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dc * i * (1 - g * g)])
    dprev = np.hstack([da @ recurrent_weight.T, dc * f])
    return (da @ input_weight.T, dprev, x.T @ da, h.T @ da, None if bias is None else da.sum(0))


def gru_cell_port(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    F = state.shape[1]
    gi = x @ input_weight + (0 if bias is None else bias)
    gh = state @ recurrent_weight
    r = special.expit(gi[:, :F] + gh[:, :F])
    z = special.expit(gi[:, F:2 * F] + gh[:, F:2 * F])
    cand = gi[:, 2 * F:] + r * gh[:, 2 * F:]
    if recurrent_bias is not None:
        cand = cand + recurrent_bias
    n = np.tanh(cand)
    return n + z * (state - n)


def gru_cell_backward_port(dstate, x, state, input_weight, recurrent_weight, bias=None):
    F = state.shape[1]
    Wr, Wz, Wn = np.split(recurrent_weight, 3, axis=1)
    a = x @ input_weight + (0 if bias is None else bias)
    r = special.expit(a[:, :F] + state @ Wr)
    z = special.expit(a[:, F:2 * F] + state @ Wz)
    hn = state @ Wn
    n = np.tanh(a[:, 2 * F:] + r * hn)
    dn = dstate * (1 - z) * (1 - n * n)
    dz = dstate * (state - n) * z * (1 - z)
    dr = dn * hn * r * (1 - r)
    dh = dstate * z + dr @ Wr.T + dz @ Wz.T + (dn * r) @ Wn.T
    da = np.concatenate([dr, dz, dn], 1)
    return (da @ input_weight.T, dh, x.T @ da, state.T @ da, None if bias is None else da.sum(0))


def gru_cell_backward_blocks(dstate, x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    """einops view of the weights: (c, gate, f)."""
    B, F = state.shape
    C = x.shape[1]
    W = input_weight.reshape(C, 3, F)
    U = recurrent_weight.reshape(F, 3, F)
    a = np.einsum("bc,cgf->gbf", x, W)
    if bias is not None:
        a = a + bias.reshape(3, 1, F)
    p = np.einsum("be,egf->gbf", state, U)
    hn = p[2] if recurrent_bias is None else p[2] + recurrent_bias
    r, z = special.expit(a[0] + p[0]), special.expit(a[1] + p[1])
    n = np.tanh(a[2] + r * hn)
    da = np.empty((3, B, F))
    da[2] = dstate * (1 - z) * (1 - n) * (1 + n)
    da[1] = dstate * (state - n) * z * (1 - z)
    da[0] = da[2] * hn * r * (1 - r)
    dp = da.copy()
    dp[2] *= r
    dx = np.einsum("gbf,cgf->bc", da, W)
    dprev = dstate * z + np.einsum("gbf,egf->be", dp, U)
    dW = np.einsum("bc,gbf->cgf", x, da).reshape(C, 3 * F)
    dU = np.einsum("be,gbf->egf", state, dp).reshape(F, 3 * F)
    out = (dx, dprev, dW, dU, None if bias is None else da.sum(1).reshape(-1))
    return out if recurrent_bias is None else out + (dp[2].sum(0),)


def gru_reset_before_port(x, state, input_weight, recurrent_weight, bias=None):
    F = len(recurrent_weight)
    a = x @ input_weight
    if bias is not None:
        a = a + bias
    u = state @ recurrent_weight
    r, z = (special.expit(a[:, s] + u[:, s]) for s in (slice(0, F), slice(F, 2 * F)))
    n = np.tanh(a[:, 2 * F:] + r * u[:, 2 * F:])
    return (1 - z) * state + z * n


def rnn_cell_backward_port(dstate, x, state, input_weight, recurrent_weight, bias=None):
    pre = x @ input_weight + state @ recurrent_weight + (0 if bias is None else bias)
    da = dstate / np.cosh(np.clip(pre, -350, 350)) ** 2
    dU = np.einsum("bf,be->fe", da, state)
    return (da @ input_weight.T, da @ recurrent_weight.T, x.T @ da, dU,
            None if bias is None else da.mean(0))


def causal_conv_fft(x, weight, bias=None, dilation=1):
    B, T, C = x.shape
    K, _, F = weight.shape
    reach = (K - 1) * dilation
    kernel = np.zeros((reach + 1, C, F))
    kernel[::dilation] = weight[::-1]                                   # by lag
    n = 1 << (T + reach).bit_length()
    spec = np.einsum("nbc,ncf->nbf", np.fft.rfft(x.transpose(1, 0, 2), n, axis=0), np.fft.rfft(kernel, n, axis=0))
    y = np.fft.irfft(spec, n, axis=0)[:T].transpose(1, 0, 2)
    return y.copy() if bias is None else y + bias


def causal_conv_backward_roll(dy, x, weight, bias=None, dilation=1):
    K, T = len(weight), x.shape[1]
    dx, dW = np.zeros_like(x), np.zeros_like(weight)
    for k in range(K):
        lag = (K - 1 - k) * dilation
        shifted = np.zeros_like(x)
        if lag < T:
            shifted[:, lag:] = x[:, :T - lag]
        dW[k] = np.einsum("btc,btf->cf", shifted, dy)
        dx += np.roll(dy, -lag, axis=1) @ weight[k].T
    return dx, dW, None if bias is None else dy.sum((0, 1))


SAMPLES += [
    dict(name="lstm_cell", fn=lstm_cell_torch_order, wrong=True,
         cause="the gates are in PyTorch's order i, f, g, o instead of i, f, o, g"),
    dict(name="lstm_cell", fn=lstm_cell_augmented, wrong=False, cause=""),
    dict(name="lstm_cell_backward", fn=lstm_cell_backward_port, wrong=True,
         cause="the gradient of the forget gate uses the new memory c' instead of the memory before the step"),
    dict(name="gru_cell", fn=gru_cell_port, wrong=True,
         cause="the recurrent bias is added outside: the reset gate does not multiply it"),
    dict(name="gru_cell_backward", fn=gru_cell_backward_port, wrong=True,
         cause="the candidate's block of the recurrent weight's gradient lacks the reset gate r"),
    dict(name="gru_cell_backward", fn=gru_cell_backward_blocks, wrong=False, cause=""),
    dict(name="gru_cell_reset_before", fn=gru_reset_before_port, wrong=True,
         cause="the reset gate is applied after the product with the recurrent weight, and z and 1 - z are exchanged"),
    dict(name="rnn_cell_backward", fn=rnn_cell_backward_port, wrong=True,
         cause="the gradient of the recurrent weight is transposed, and dbias is a mean over the batch instead of a sum"),
    dict(name="causal_convolution", fn=causal_conv_fft, wrong=False, cause=""),
    dict(name="causal_convolution_backward", fn=causal_conv_backward_roll, wrong=True,
         cause="np.roll wraps around: the last positions get the gradients of the first ones instead of 0"),
]


# ---------------------------------------------------------------- mixture of experts

def combine_experts_port(outputs, weights, slots):
    N, k = weights.shape
    w = weights.ravel(order="F")[slots]
    y = np.zeros((N, outputs.shape[1]))
    for m in range(len(slots)):
        y[slots[m] // k] += w[m] * outputs[m]
    return y


def combine_experts_backward_onehot(dy, outputs, weights, slots):
    """Dispatch and combine as products with a 0-1 matrix, as in the Mesh TensorFlow version."""
    N, k = weights.shape
    M = len(slots)
    place = np.zeros((M, N, k))
    place[np.arange(M), slots // k, slots % k] = 1.0
    back = np.einsum("mnk,nc->mc", place, dy)
    doutputs = np.einsum("mnk,nk->m", place, weights)[:, None] * back
    dweights = np.einsum("mnk,m->nk", place, (outputs * back).sum(-1))
    return doutputs, dweights


def noisy_top_k_gates(logits, chosen):
    """Shazeer's noisy gating."""
    noisy = logits + 0.01 * np.random.standard_normal(logits.shape)
    z = np.take_along_axis(noisy, chosen, 1)
    z = np.exp(z - z.max(1, keepdims=True))
    return z / z.sum(1, keepdims=True)


def switch_gates_backward(dweights, logits, chosen):
    p = special.softmax(logits, axis=1)
    w = np.take_along_axis(p, chosen, axis=1)
    dz = w * (dweights - (w * dweights).sum(1, keepdims=True))
    out = np.zeros(logits.shape)
    np.put_along_axis(out, chosen, dz, axis=1)
    return out


_EXPERT_HITS = {}


def load_balance_loss_buffered(logits, chosen):
    """Keeps a buffer of expert counts, so that it need not be allocated at each step."""
    N, E = logits.shape
    hits = _EXPERT_HITS.setdefault(E, np.zeros(E))
    for e in chosen.ravel():
        hits[e] += 1
    frac = hits / chosen.size
    prob = special.softmax(logits, axis=-1).mean(0)
    return E * float(frac @ prob)


def load_balance_loss_backward_einsum(dloss, logits, chosen):
    N, E = logits.shape
    hot = (chosen[:, :, None] == np.arange(E)).astype(float)
    frac = np.einsum("nke->e", hot) / chosen.size
    p = special.softmax(logits.astype(float), axis=1)
    centred = frac[None] - (p @ frac)[:, None]
    return float(dloss) * E / N * p * centred


SAMPLES += [
    dict(name="combine_experts", fn=combine_experts_port, wrong=True,
         cause="the weights are flattened in Fortran order, so a slot gets the weight of another choice"),
    dict(name="combine_experts_backward", fn=combine_experts_backward_onehot, wrong=False, cause=""),
    dict(name="top_k_gates", fn=noisy_top_k_gates, wrong=True,
         cause="random noise is added to the logits, so two calls differ"),
    dict(name="top_k_gates_over_all_backward", fn=switch_gates_backward, wrong=True,
         cause="the logits of the experts that were not chosen get no gradient, though they are in the denominator"),
    dict(name="load_balance_loss", fn=load_balance_loss_buffered, wrong=True,
         cause="the counts of the experts are kept between calls and never set to zero"),
    dict(name="load_balance_loss_backward", fn=load_balance_loss_backward_einsum, wrong=False, cause=""),
]


# ---------------------------------------------------------------- vision and pooling

def vit_patches_channel_first(images, patch_size):
    """rearrange(img, 'b (h p1) (w p2) c -> b (h w) (c p1 p2)')"""
    B, Hh, Ww, c = images.shape
    p = patch_size
    t = images.reshape(B, Hh // p, p, Ww // p, p, c)
    t = np.einsum("bhpwqc->bhwcpq", t)
    return t.reshape(B, (Hh // p) * (Ww // p), c * p * p)


def vit_patches_views(images, patch_size):
    p = patch_size
    view = sliding_window_view(images, (p, p), axis=(1, 2))[:, ::p, ::p]    # b h w c p q
    B, h, w, c = view.shape[:4]
    return np.moveaxis(view, 3, -1).reshape(B, h * w, p * p * c)


def patch_embed_backward(dy, images, weight, bias=None):
    P = weight.shape[0]
    B, R, Q, C = dy.shape
    tiles = images.reshape(B, R, P, Q, P, images.shape[-1])
    dimages = np.einsum("brqf,ijcf->briqjc", dy, weight).reshape(images.shape)
    dweight = np.einsum("riqjc,rqf->ijcf", tiles[0], dy[0])
    return dimages, dweight, None if bias is None else dy.mean((0, 1, 2))


def swin_window_partition(x, window):
    B, Hh, Ww, C = x.shape
    nh, nw = Ww // window, Hh // window
    t = x.reshape(B, nh, window, nw, window, C)
    return t.swapaxes(2, 3).reshape(B * nh * nw, window ** 2, C)


def window_reverse_loops(windows, height, width):
    n, area, C = windows.shape
    m = math.isqrt(area)
    rows, cols = height // m, width // m
    out = np.empty((n // (rows * cols), height, width, C))
    for i in range(n):
        b, rest = divmod(i, rows * cols)
        r, c = divmod(rest, cols)
        for j in range(area):
            u, v = divmod(j, m)
            out[b, r * m + u, c * m + v] = windows[i, j]
    return out


def max_pooling_2d_backward_port(dy, images, size, stride=None):
    s = size if stride is None else stride
    B, R, Q, C = dy.shape
    dx = np.zeros(images.shape)
    bi, ci = np.meshgrid(np.arange(B), np.arange(C), indexing="ij")
    for r in range(R):
        for c in range(Q):
            win = images[:, r * s:r * s + size, c * s:c * s + size].reshape(B, size * size, C)
            u, v = np.divmod(win.argmax(1), size)
            dx[bi, r * s + u, c * s + v, ci] = dy[:, r, c]
    return dx


def max_pooling_2d_backward_scatter(dy, images, size, stride=None):
    s = size if stride is None else stride
    B, Hh, Ww, C = images.shape
    R, Q = dy.shape[1:3]
    view = sliding_window_view(images, (size, size), axis=(1, 2))[:, ::s, ::s]
    best = view.reshape(B, R, Q, C, size * size).argmax(-1)
    u, v = np.divmod(best, size)
    b, r, q, c = np.ogrid[:B, :R, :Q, :C]
    flat = ((b * Hh + r * s + u) * Ww + q * s + v) * C + c
    return np.bincount(flat.ravel(), weights=dy.ravel(), minlength=images.size).reshape(images.shape)


def conv2d_pad_front(images, weight, bias=None, stride=1, padding=0):
    padded = np.pad(images, ((0, 0), (2 * padding, 0), (2 * padding, 0), (0, 0)))
    K, L, C, F = weight.shape
    R = (padded.shape[1] - K) // stride + 1
    Q = (padded.shape[2] - L) // stride + 1
    y = np.zeros((len(images), R, Q, F))
    for r in range(R):
        for q in range(Q):
            win = padded[:, r * stride:r * stride + K, q * stride:q * stride + L]
            y[:, r, q] = np.tensordot(win, weight, axes=3)
    return y if bias is None else y + bias


def conv2d_views(images, weight, bias=None, stride=1, padding=0):
    K, L = weight.shape[:2]
    padded = np.pad(images, [(0, 0), (padding,) * 2, (padding,) * 2, (0, 0)])
    view = sliding_window_view(padded, (K, L), axis=(1, 2))[:, ::stride, ::stride]
    y = np.einsum("brqckl,klcf->brqf", view, weight, optimize=True)
    return y if bias is None else y + bias


def mean_pooling_port(x, mask=None):
    B, T, C = x.shape
    if mask is None:
        return x.mean(1)
    acc = np.zeros((B, C))
    for b in range(B):
        for t in range(T):
            if mask[b, t]:
                acc[b] += x[b, t]
    return acc / T


SAMPLES += [
    dict(name="patches", fn=vit_patches_channel_first, wrong=True,
         cause="the pixels of a patch are flattened with the channels first (c p1 p2) instead of last (p1 p2 c)"),
    dict(name="patches", fn=vit_patches_views, wrong=False, cause=""),
    dict(name="patch_convolution_backward", fn=patch_embed_backward, wrong=True,
         cause="dweight is that of the first image alone, and dbias is a mean over images and patches instead of a sum"),
    dict(name="window_partition", fn=swin_window_partition, wrong=True,
         cause="height and width are exchanged in the reshape, so it is right for square feature maps only"),
    dict(name="window_reverse", fn=window_reverse_loops, wrong=False, cause=""),
    dict(name="max_pooling_2d_backward", fn=max_pooling_2d_backward_port, wrong=True,
         cause="where windows overlap (stride < size) a pixel keeps the gradient of the last window instead of the sum"),
    dict(name="max_pooling_2d_backward", fn=max_pooling_2d_backward_scatter, wrong=False, cause=""),
    dict(name="convolution_2d", fn=conv2d_pad_front, wrong=True,
         cause="all padding is put above and to the left of the image instead of on both sides"),
    dict(name="convolution_2d", fn=conv2d_views, wrong=False, cause=""),
    dict(name="mean_pooling", fn=mean_pooling_port, wrong=True,
         cause="with a mask the sum is divided by T, padding included, instead of the number of real positions"),
]
