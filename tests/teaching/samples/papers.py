"""Functions as reviewers of reimplementations and students of a second-year course hand them in."""
import math

import numpy as np
import scipy.special as sp
import torch

SAMPLES = []


def wrong(name, cause):
    def add(fn):
        SAMPLES.append(dict(name=name, fn=fn, wrong=True, cause=cause))
        return fn
    return add


def right(name, cause=""):
    def add(fn):
        SAMPLES.append(dict(name=name, fn=fn, wrong=False, cause=cause))
        return fn
    return add


# =====================================================================================
# Part 1: from reimplementations of papers
# =====================================================================================

# ---- norms -------------------------------------------------------------------------

@wrong("layer_norm", "epsilon is added to the standard deviation, outside the root (Annotated Transformer)")
def w_ln_annotated(x, gamma, beta, epsilon=1e-5):
    mu = x.mean(-1, keepdims=True)
    sigma = np.sqrt(((x - mu) ** 2).mean(-1, keepdims=True))
    return gamma * (x - mu) / (sigma + epsilon) + beta


@wrong("rms_norm", "the weight is taken as an offset from one, 1 + weight, as in Gemma")
def w_rms_gemma(x, weight, epsilon=1e-5):
    inv = 1.0 / np.sqrt(np.einsum("...c,...c->...", x, x)[..., None] / x.shape[-1] + epsilon)
    return (1.0 + weight) * (x * inv)


@wrong("rms_norm", "the normalization is computed in float32, so float64 input loses its precision")
def w_rms_llama_cast(x, weight, epsilon=1e-5):
    dtype = x.dtype
    h = x.astype(np.float32)
    var = np.mean(h ** 2, axis=-1, keepdims=True, dtype=np.float32)
    h = h / np.sqrt(var + np.float32(epsilon))
    return weight * h.astype(dtype)


@wrong("rms_norm_backward", "the root mean square is detached: the path of the gradient through it is missing in dx")
def w_rms_detached(dy, x, weight, epsilon=1e-5):
    xt = torch.tensor(np.array(x), requires_grad=True)
    wt = torch.tensor(np.array(weight), requires_grad=True)
    rrms = torch.rsqrt(xt.pow(2).mean(-1, keepdim=True) + epsilon).detach()
    (xt * rrms * wt).backward(torch.tensor(np.array(dy)))
    return xt.grad.numpy(), wt.grad.numpy()


@wrong("rms_norm_outside_backward",
       "uses the gradient for epsilon inside the root: the factor (rms + epsilon) / rms of the second term is missing")
def w_rms_outside_bwd(dy, x, weight, epsilon=1e-5):
    rms = np.sqrt((x * x).mean(axis=-1, keepdims=True))
    r = 1 / (rms + epsilon)
    n = x * r
    g = dy * weight
    dx = r * (g - n * (g * n).mean(axis=-1, keepdims=True))
    return dx, (dy * n).reshape(-1, x.shape[-1]).sum(0)


@wrong("batch_norm", "the variance is the unbiased one (n - 1), which belongs in the running statistics only")
def w_bn_unbiased(x, weight, bias, epsilon=1e-5):
    flat = x.reshape(-1, x.shape[-1])
    mean = flat.mean(0)
    var = flat.var(0, ddof=1)
    return (weight * (flat - mean) / np.sqrt(var + epsilon) + bias).reshape(x.shape)


@wrong("batch_norm_inference_backward",
       "treats the statistics as those of the batch: subtracts the batch means of the gradient although they are constants")
def w_bn_inf_bwd(dy, x, weight, bias, statistics, epsilon=1e-5):
    mean, var = statistics
    axes = tuple(range(x.ndim - 1))
    inv = 1 / np.sqrt(var + epsilon)
    xh = (x - mean) * inv
    g = dy * weight
    dx = inv * (g - g.mean(axis=axes) - xh * (g * xh).mean(axis=axes))
    return dx, (dy * xh).sum(axis=axes), dy.sum(axis=axes)


@wrong("masked_batch_norm", "the mean is divided by the number of all positions instead of the real ones; padding counts")
def w_masked_bn(x, weight, bias, mask, epsilon=1e-5):
    m = mask[..., None].astype(x.dtype)
    axes = tuple(range(x.ndim - 1))
    n = m.sum()
    mean = (x * m).sum(axis=axes) / mask.size
    cen = (x - mean) * m
    var = (cen ** 2).sum(axis=axes) / n
    return (weight * cen / np.sqrt(var + epsilon) + bias) * m


_running = {}


@wrong("batch_norm", "normalizes with running statistics that are kept between calls instead of those of the batch")
def w_bn_running(x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    axes = tuple(range(x.ndim - 1))
    m, v = x.mean(axis=axes), x.var(axis=axes)
    old = _running.get(C, (np.zeros(C), np.ones(C)))
    m = 0.9 * old[0] + 0.1 * m
    v = 0.9 * old[1] + 0.1 * v
    _running[C] = (m, v)
    return (x - m) / np.sqrt(v + epsilon) * weight + bias


@wrong("layer_norm_backward",
       "the terms through mean and variance are summed over all but the last axis (batch norm's gradient) instead of the last axis")
def w_ln_bwd_axis(dy, x, weight, bias, epsilon=1e-5):
    lead = tuple(range(x.ndim - 1))
    mu = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    xn = (x - mu) * rstd
    g = dy * weight
    dx = rstd * (g - g.mean(lead, keepdims=True) - xn * (g * xn).mean(lead, keepdims=True))
    return dx, np.sum(dy * xn, axis=lead), np.sum(dy, axis=lead)


# ---- activations -------------------------------------------------------------------

@wrong("gelu_tanh", "the cubic coefficient is 0.044751 instead of 0.044715")
def w_gelu_tanh_digits(x):
    u = math.sqrt(2 / math.pi) * (x + 0.044751 * x * x * x)
    return x * sp.expit(2 * u)


@wrong("gelu", "erf is approximated by a rational formula (Abramowitz and Stegun 7.1.26), good to 1e-7 only")
def w_gelu_as(x):
    z = np.abs(x) / np.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1.0 - poly * np.exp(-z * z))
    return 0.5 * x * (1.0 + erf)


@wrong("quick_gelu_backward", "the inner derivative 1.702 is missing in the second term")
def w_quick_gelu_bwd(dy, x):
    s = sp.expit(1.702 * x)
    return dy * (s + x * s * (1 - s))


@wrong("swish", "beta multiplies the sigmoid instead of its argument")
def w_swish_beta(x, beta=1.0):
    return x * (beta * sp.expit(x))


@wrong("soft_cap_backward", "the tanh is not divided by the cap: 1 - y^2 instead of 1 - (y / cap)^2")
def w_softcap_bwd(dy, x, cap):
    y = cap * np.tanh(x / cap)
    return dy * (1 - y ** 2)


@wrong("gated_linear_unit", "for activation gelu the tanh approximation is used instead of the exact form")
def w_glu(g, h, activation="silu"):
    table = {
        "relu": lambda z: np.maximum(z, 0),
        "relu_squared": lambda z: np.maximum(z, 0) ** 2,
        "silu": lambda z: z * sp.expit(z),
        "quick_gelu": lambda z: z * sp.expit(1.702 * z),
        "gelu": lambda z: z * sp.expit(2 * np.sqrt(2 / np.pi) * (z + 0.044715 * z ** 3)),
        "gelu_tanh": lambda z: z * sp.expit(2 * np.sqrt(2 / np.pi) * (z + 0.044715 * z ** 3)),
    }
    return table[activation](g) * h


@wrong("gated_feed_forward", "the activation is applied to the hidden branch instead of the gate branch")
def w_gated_ff(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight, output_bias):
    gate = x @ gate_weight
    up = x @ hidden_weight
    if gate_bias is not None:
        gate = gate + gate_bias
    if hidden_bias is not None:
        up = up + hidden_bias
    y = (gate * (up * sp.expit(up))) @ output_weight
    return y if output_bias is None else y + output_bias


@wrong("feed_forward_backward", "the derivative of GELU is evaluated at the activation instead of at the preactivation")
def w_ff_bwd(dy, x, W1, b1, W2, b2):
    C, Fh = W1.shape
    X, G = x.reshape(-1, C), dy.reshape(-1, W2.shape[1])
    h = X @ W1 if b1 is None else X @ W1 + b1
    a = h * sp.ndtr(h)
    da = G @ W2.T
    dact = sp.ndtr(a) + a * np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
    dh = da * dact
    return ((dh @ W1.T).reshape(x.shape), X.T @ dh, None if b1 is None else dh.sum(0),
            a.T @ G, None if b2 is None else G.sum(0))


# ---- losses ------------------------------------------------------------------------

@wrong("cross_entropy", "the smoothing mass is spread over the V - 1 other classes instead of all V")
def w_ce_smooth(logits, targets, label_smoothing=0.0):
    V = logits.shape[-1]
    logp = sp.log_softmax(logits.reshape(-1, V), axis=1)
    t = targets.ravel()
    hit = logp[np.arange(len(t)), t]
    rest = logp.sum(1) - hit
    return -((1 - label_smoothing) * hit + label_smoothing / max(V - 1, 1) * rest).mean()


@wrong("cross_entropy", "with ignored targets the smoothing term is still averaged over all positions, ignored ones included")
def w_ce_smooth_ignore(logits, targets, ignore_index=-100, label_smoothing=0.0):
    V = logits.shape[-1]
    lp = sp.log_softmax(logits, axis=-1).reshape(-1, V)
    t = targets.reshape(-1)
    keep = t != ignore_index
    nll = -lp[keep, t[keep]].mean()
    smooth = -lp.mean(axis=1).mean()
    return (1 - label_smoothing) * nll + label_smoothing * smooth


@wrong("cross_entropy_backward", "the factor 2 of the square is missing in the gradient of the z-loss")
def w_ce_bwd_z(dloss, logits, targets, z_loss=0.0):
    V = logits.shape[-1]
    z = logits.reshape(-1, V)
    n = len(z)
    lse = sp.logsumexp(z, axis=1, keepdims=True)
    p = sp.softmax(z, axis=1)
    g = p.copy()
    g[np.arange(n), targets.reshape(-1)] -= 1
    g = g + z_loss * lse * p
    return (g * (dloss / n)).reshape(logits.shape)


@wrong("cross_entropy_backward", "ignored targets are counted in the mean: divides by the number of all positions")
def w_ce_bwd_count(dloss, logits, targets, ignore_index=-100):
    keep = targets != ignore_index
    p = sp.softmax(logits, axis=-1)
    onehot = np.where(keep, targets, 0)[..., None] == np.arange(logits.shape[-1])
    return (p - onehot) * keep[..., None] * (dloss / targets.size)


@wrong("distillation_loss", "the KL divergence runs the wrong way, from the student to the teacher")
def w_distill_rev(logits, teacher_logits, temperature=1.0):
    lt = sp.log_softmax(teacher_logits / temperature, axis=-1)
    ls = sp.log_softmax(logits / temperature, axis=-1)
    kl = (np.exp(ls) * (ls - lt)).sum(-1)
    return temperature ** 2 * kl.mean()


@wrong("distillation_loss_backward", "the factor T^2 of the loss is missing: the gradient is divided by T instead of multiplied")
def w_distill_bwd(dloss, logits, teacher_logits, temperature=1.0):
    q = sp.softmax(logits / temperature, axis=-1)
    p = sp.softmax(teacher_logits / temperature, axis=-1)
    n = logits[..., 0].size
    return dloss * (q - p) / (n * temperature)


@wrong("contrastive_loss", "only the rows are used (N-pair loss); the cross-entropy of the columns is missing")
def w_clip_rows(logits):
    lp = sp.log_softmax(logits, axis=1)
    return -np.trace(lp) / len(logits)


@wrong("triplet_loss", "squared Euclidean distances, as in FaceNet, instead of distances")
def w_triplet_sq(anchors, positives, negatives, margin=1.0):
    d1 = ((anchors - positives) ** 2).sum(1)
    d2 = ((anchors - negatives) ** 2).sum(1)
    return np.maximum(d1 - d2 + margin, 0).mean()


@wrong("triplet_loss_backward", "the mean is over the active triplets instead of all")
def w_triplet_bwd(dloss, anchors, positives, negatives, margin=1.0):
    ap, an = anchors - positives, anchors - negatives
    dp = np.linalg.norm(ap, axis=1, keepdims=True)
    dn = np.linalg.norm(an, axis=1, keepdims=True)
    act = dp - dn + margin > 0
    w = dloss * act / max(act.sum(), 1)
    return w * (ap / dp - an / dn), -w * ap / dp, w * an / dn


@wrong("cosine_regression_loss_backward", "the norms are treated as constants: the projection orthogonal to each vector is missing")
def w_cosreg_bwd(dloss, u, v, targets):
    nu = np.linalg.norm(u, axis=1, keepdims=True)
    nv = np.linalg.norm(v, axis=1, keepdims=True)
    e = ((u * v).sum(1, keepdims=True) / (nu * nv)) - targets[:, None]
    c = 2 * dloss / len(u) * e / (nu * nv)
    return c * v, c * u


@wrong("router_z_loss", "the square of the mean log-sum-exp instead of the mean of the squares")
def w_router_z(logits):
    return sp.logsumexp(logits, axis=-1).mean() ** 2


@wrong("load_balance_loss", "choices are counted per token and not divided by k, so the loss is k times as large")
def w_load_balance(logits, chosen):
    N, E = logits.shape
    p = sp.softmax(logits, axis=1)
    f = np.zeros(E)
    np.add.at(f, chosen.ravel(), 1.0 / N)
    return E * np.dot(f, p.mean(0))


@wrong("weighted_cross_entropy", "divides by the number of targets instead of the sum of their weights")
def w_wce(logits, targets, weights):
    lp = np.take_along_axis(sp.log_softmax(logits, axis=-1), targets[..., None], -1)[..., 0]
    return -(weights[targets] * lp).mean()


@wrong("generalized_iou", "the empty share is divided by the union instead of by the enclosing box")
def w_giou(a, b):
    def area(q):
        return (q[..., 2] - q[..., 0]) * (q[..., 3] - q[..., 1])
    lt, rb = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    wh = np.clip(rb - lt, 0, None)
    inter = wh[..., 0] * wh[..., 1]
    union = area(a) + area(b) - inter
    full = (np.maximum(a[..., 2], b[..., 2]) - np.minimum(a[..., 0], b[..., 0])) * \
           (np.maximum(a[..., 3], b[..., 3]) - np.minimum(a[..., 1], b[..., 1]))
    return inter / union - (full - union) / union


# ---- experts -----------------------------------------------------------------------

@wrong("top_k_gates", "the softmax is over all experts and not renormalized over the chosen ones")
def w_topk(logits, chosen):
    p = sp.softmax(logits, axis=-1)
    return p[np.arange(len(p))[:, None], chosen]


@wrong("top_k_gates", "noise is added to the logits (noisy top-k gating), so the result is random")
def w_topk_noisy(logits, chosen):
    noisy = logits + 0.01 * np.random.standard_normal(logits.shape)
    return sp.softmax(np.take_along_axis(noisy, chosen, 1), axis=1)


@wrong("top_k_gates_over_all_backward", "the logits that were not chosen get no gradient, although they are in the normalization")
def w_topk_all_bwd(dweights, logits, chosen):
    p = sp.softmax(logits, axis=1)
    w = np.take_along_axis(p, chosen, 1)
    g = w * (dweights - (w * dweights).sum(1, keepdims=True))
    out = np.zeros_like(logits)
    np.put_along_axis(out, chosen, g, 1)
    return out


@wrong("combine_experts", "the weights are flattened in column-major order, so slots read weights of other tokens")
def w_combine(outputs, weights, slots):
    N, k = weights.shape
    flat = weights.flatten(order="F")
    y = np.zeros((N, outputs.shape[1]), outputs.dtype)
    for row, s in zip(outputs, slots):
        y[s // k] += flat[s] * row
    return y


@wrong("dispatch_to_experts_backward", "a token's gradient is overwritten by its last copy instead of summed over its copies")
def w_dispatch_bwd(dy, x, slots, k):
    dx = np.zeros_like(x)
    dx[slots // k] = dy
    return dx


# ---- attention ---------------------------------------------------------------------

def _allowed(pattern, T, S):
    return np.ones((T, S), bool) if pattern is None else pattern.dense(T, S)


def _masked_softmax(z, m):
    m = np.broadcast_to(m, z.shape)
    z = np.where(m, z, -np.inf)
    top = z.max(-1, keepdims=True)
    e = np.where(m, np.exp(z - np.where(np.isfinite(top), top, 0)), 0)
    s = e.sum(-1, keepdims=True)
    return e / np.where(s == 0, 1, s)


@wrong("scaled_dot_product_attention", "grouped heads are tiled instead of repeated: query head h reads key head h % G")
def w_gqa_tile(q, k, v, pattern=None, scale=None):
    T, S, H, G = q.shape[2], k.shape[2], q.shape[1], k.shape[1]
    kk, vv = np.tile(k, (1, H // G, 1, 1)), np.tile(v, (1, H // G, 1, 1))
    s = (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    p = _masked_softmax(np.einsum("bhtd,bhsd->bhts", q, kk) * s, _allowed(pattern, T, S))
    return np.einsum("bhts,bhsd->bhtd", p, vv)


@wrong("scaled_dot_product_attention", "only with a causal pattern, grouped heads are read in the wrong order, h % G instead of h // (H / G)")
def w_gqa_causal(q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    s = D ** -0.5 if scale is None else scale
    out = np.zeros((B, H, T, v.shape[-1]), q.dtype)
    m = np.broadcast_to(_allowed(pattern, T, S), (B, H, T, S))
    fast = pattern is not None and pattern.causal
    for h in range(H):
        g = h % G if fast else h * G // H
        p = _masked_softmax(q[:, h] @ k[:, g].swapaxes(-1, -2) * s, m[:, h])
        out[:, h] = p @ v[:, g]
    return out


@wrong("scaled_dot_product_attention", "the soft cap is applied after the slopes and the bias instead of before them")
def w_cap_order(q, k, v, slopes=None, bias=None, softcap=None):
    T, S = q.shape[2], k.shape[2]
    z = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(q.shape[-1])
    if slopes is not None:
        z = z - slopes[:, None, None] * abs(np.arange(T)[:, None] + S - T - np.arange(S))
    if bias is not None:
        z = z + bias[:, np.arange(S) - np.arange(T)[:, None] + T - 1]
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    return sp.softmax(z, axis=-1) @ v


@wrong("scaled_dot_product_attention", "with a scale given, the scores are scaled twice: 1 / sqrt(D) remains")
def w_double_scale(q, k, v, scale=None):
    q = q / np.sqrt(q.shape[-1])
    z = q @ np.swapaxes(k, 2, 3)
    if scale is not None:
        z = z * scale
    return sp.softmax(z, axis=-1) @ v


@wrong("scaled_dot_product_attention", "queries and keys are aligned at their starts instead of their ends when causal and T differs from S")
def w_align(q, k, v, pattern=None):
    T, S, D = q.shape[2], k.shape[2], q.shape[-1]
    m = np.array(_allowed(pattern, T, S))
    if pattern is not None and pattern.causal and pattern.window is None and pattern.documents is None \
            and pattern.lengths is None and pattern.mask is None:
        m = np.tril(np.ones((T, S), bool))
    p = _masked_softmax(q @ k.swapaxes(-1, -2) / np.sqrt(D), m)
    return p @ v


@wrong("scaled_dot_product_attention", "off by one: the window leaves out the key at distance left")
def w_window(q, k, v, pattern=None):
    T, S, D = q.shape[2], k.shape[2], q.shape[-1]
    m = np.array(_allowed(pattern, T, S))
    if pattern is not None and pattern.window is not None and pattern.window[0] is not None:
        pos = np.arange(S - T, S)[:, None]
        m = m & (np.arange(S) > pos - pattern.window[0])
    return _masked_softmax(q @ k.swapaxes(-1, -2) / np.sqrt(D), m) @ v


@wrong("scaled_dot_product_attention_backward",
       "gradients of shared key heads are summed over the wrong axis: heads h % G instead of consecutive heads")
def w_gqa_bwd(do, q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    n = H // G
    s = 1 / np.sqrt(D) if scale is None else scale
    K, V = np.repeat(k, n, 1), np.repeat(v, n, 1)
    p = _masked_softmax(q @ K.swapaxes(2, 3) * s, _allowed(pattern, T, S))
    dV = p.swapaxes(2, 3) @ do
    dp = do @ V.swapaxes(2, 3)
    dz = p * (dp - (p * dp).sum(-1, keepdims=True)) * s
    dK = dz.swapaxes(2, 3) @ q
    return (dz @ K, dK.reshape(B, n, G, S, D).sum(1),
            dV.reshape(B, n, G, S, V.shape[-1]).sum(1))


@wrong("tiled_attention", "the accumulated output is not rescaled when the running maximum grows; only the sum of weights is")
def w_flash_acc(q, k, v, pattern=None, scale=None, tile=64):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    k, v = np.repeat(k, H // G, 1), np.repeat(v, H // G, 1)
    s = 1 / np.sqrt(D) if scale is None else scale
    m = np.broadcast_to(_allowed(pattern, T, S), (B, H, T, S))
    top = np.full((B, H, T, 1), -1e300)
    den = np.zeros((B, H, T, 1))
    acc = np.zeros((B, H, T, v.shape[-1]))
    for a in range(0, S, tile):
        z = np.where(m[..., a:a + tile], q @ k[:, :, a:a + tile].swapaxes(2, 3) * s, -np.inf)
        new = np.maximum(top, z.max(-1, keepdims=True))
        e = np.exp(z - new)
        den = den * np.exp(top - new) + e.sum(-1, keepdims=True)
        acc = acc + e @ v[:, :, a:a + tile]
        top = new
    return (acc / np.where(den == 0, 1, den)).astype(q.dtype)


@wrong("tiled_attention", "the keys after the last full tile of 16 are dropped")
def w_flash_tail(q, k, v):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    k, v = np.repeat(k, H // G, 1), np.repeat(v, H // G, 1)
    step = min(16, S)
    num, den = 0.0, 0.0
    z = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(D)
    z = z - z.max(-1, keepdims=True)
    for n in range(S // step):
        cols = slice(n * step, n * step + step)
        w = np.exp(z[..., cols])
        num = num + w @ v[:, :, cols]
        den = den + w.sum(-1, keepdims=True)
    return num / den


@wrong("tiled_attention_backward", "the sum over p * dp runs over a tile of 64 keys only instead of all keys")
def w_flash_bwd(do, q, k, v):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    n = H // G
    K, V = np.repeat(k, n, 1), np.repeat(v, n, 1)
    c = D ** -0.5
    z = q @ K.swapaxes(2, 3) * c
    L = sp.logsumexp(z, axis=-1, keepdims=True)
    dq, dK, dV = np.zeros_like(q), np.zeros_like(K), np.zeros_like(V)
    for j in range(0, S, 64):
        t = slice(j, j + 64)
        p = np.exp(z[..., t] - L)
        dV[:, :, t] = p.swapaxes(2, 3) @ do
        dp = do @ V[:, :, t].swapaxes(2, 3)
        dz = p * (dp - (p * dp).sum(-1, keepdims=True)) * c
        dq += dz @ K[:, :, t]
        dK[:, :, t] = dz.swapaxes(2, 3) @ q
    return dq, dK.reshape(B, G, n, S, -1).sum(2), dV.reshape(B, G, n, S, -1).sum(2)


@wrong("additive_scores_backward", "the derivative of tanh is (1 - t)^2 instead of 1 - t^2")
def w_bahdanau_bwd(dscores, q, k, v):
    t = np.tanh(q[:, :, None, :] + k[:, None, :, :])
    dv = np.einsum("bts,btsa->a", dscores, t)
    du = np.einsum("bts,a,btsa->btsa", dscores, v, (1 - t) ** 2)
    return du.sum(2), du.sum(1), dv


@wrong("relative_scores", "the distance has the wrong sign: query minus key instead of key minus query")
def w_shaw_sign(q, table, S):
    T, K = q.shape[2], len(table) // 2
    d = (np.arange(T)[:, None] + S - T) - np.arange(S)[None, :]
    rel = table[np.clip(d, -K, K) + K]
    return np.einsum("bhtd,tsd->bhts", q, rel)


@wrong("relative_values", "positions are aligned at the start: the offset S - T of the queries is missing")
def w_shaw_values(p, table):
    T, S = p.shape[-2:]
    K = len(table) // 2
    d = np.clip(np.arange(S)[None] - np.arange(T)[:, None], -K, K) + K
    return np.einsum("bhts,tsd->bhtd", p, table[d])


@wrong("relative_attention", "the term of the key table is added after the scaling, so it is not scaled")
def w_shaw_scale(q, k, v, key_table, value_table, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    k, v = np.repeat(k, H // G, 1), np.repeat(v, H // G, 1)
    s = 1 / np.sqrt(D) if scale is None else scale

    def rows(tab):
        K = len(tab) // 2
        return tab[np.clip(np.arange(S)[None] - np.arange(S - T, S)[:, None], -K, K) + K]
    z = np.einsum("bhtd,bhsd->bhts", q, k) * s + np.einsum("bhtd,tsd->bhts", q, rows(key_table))
    p = sp.softmax(z, axis=-1)
    return p @ v + np.einsum("bhts,tsd->bhtd", p, rows(value_table))


@wrong("linear_attention_backward", "the gradient through the denominator is missing")
def w_linatt_bwd(do, q, k, v):
    def phi(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    def dphi(x):
        return np.where(x > 0, 1.0, np.exp(np.minimum(x, 0)))
    a, b = phi(q), phi(k)
    kv = np.einsum("bhsd,bhse->bhde", b, v)
    den = np.einsum("bhtd,bhd->bht", a, b.sum(2))[..., None]
    g = do / den
    da = np.einsum("bhte,bhde->bhtd", g, kv)
    dkv = np.einsum("bhtd,bhte->bhde", a, g)
    db = np.einsum("bhse,bhde->bhsd", v, dkv)
    return da * dphi(q), db * dphi(k), np.einsum("bhsd,bhde->bhse", b, dkv)


@wrong("low_rank_attention", "the scores are divided by the root of the number of mixtures R instead of the width D")
def w_linformer(q, k, v, E, F):
    kk = np.einsum("rs,bhsd->bhrd", E, k)
    vv = np.einsum("rs,bhsd->bhrd", F, v)
    z = np.einsum("bhtd,bhrd->bhtr", q, kk) / np.sqrt(len(E))
    return sp.softmax(z, axis=-1) @ vv


@wrong("sparse_attention", "entries of -1 are not masked: they read the last key")
def w_sparse(q, k, v, keys):
    kg = k[:, :, keys]
    vg = v[:, :, keys]
    z = np.einsum("bhtd,bhtmd->bhtm", q, kg) / np.sqrt(q.shape[-1])
    return np.einsum("bhtm,bhtmd->bhtd", sp.softmax(z, axis=-1), vg)


@wrong("window_attention_backward", "the gradient of the bias is averaged over the windows instead of summed")
def w_swin_bwd(do, q, k, v, bias):
    c = q.shape[-1] ** -0.5
    p = sp.softmax(np.einsum("bhid,bhjd->bhij", q, k) * c + bias, axis=-1)
    dv = np.einsum("bhij,bhie->bhje", p, do)
    dp = np.einsum("bhie,bhje->bhij", do, v)
    dz = p * (dp - np.einsum("bhij,bhij->bhi", p, dp)[..., None])
    return (c * np.einsum("bhij,bhjd->bhid", dz, k), c * np.einsum("bhij,bhid->bhjd", dz, q),
            dv, dz.mean(axis=0))


@wrong("window_position_bias", "row and column distance are exchanged in the index of the table")
def w_swin_bias(table, window):
    M = window
    out = np.empty((table.shape[1], M * M, M * M), table.dtype)
    for i in range(M * M):
        for j in range(M * M):
            dr, dc = i // M - j // M + M - 1, i % M - j % M + M - 1
            out[:, i, j] = table[dc * (2 * M - 1) + dr]
    return out


@wrong("alibi", "the penalty uses the distance i - j without the offset S - T of the queries")
def w_alibi(scores, slopes):
    T, S = scores.shape[-2:]
    i, j = np.ogrid[:T, :S]
    return scores - np.abs(i - j) * slopes.reshape(-1, 1, 1)


# ---- positions ---------------------------------------------------------------------

@wrong("rotary", "for the interleaved layout the results are concatenated in halves instead of interleaved again")
def w_rope_layout(x, cosine, sine, layout="half"):
    if layout == "half":
        a, b = np.split(x, 2, axis=-1)
    else:
        a, b = x[..., ::2], x[..., 1::2]
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)


@wrong("partial_rotary", "the last R coordinates are rotated instead of the first R")
def w_partial(x, cosine, sine):
    R = 2 * cosine.shape[-1]
    keep, rot = x[..., :x.shape[-1] - R], x[..., x.shape[-1] - R:]
    a, b = rot[..., :R // 2], rot[..., R // 2:]
    return np.concatenate([keep, a * cosine - b * sine, b * cosine + a * sine], -1)


@wrong("relative_position_bias", "bucket of far distances is rounded to the nearest instead of down")
def w_t5(table, T, S, max_distance=128, bidirectional=True):
    d = np.arange(1 - S, T)
    nb = len(table)
    ret = np.zeros_like(d)
    if bidirectional:
        nb //= 2
        ret = ret + (d > 0) * nb
        n = abs(d)
    else:
        n = np.maximum(-d, 0)
    exact = nb // 2
    with np.errstate(divide="ignore"):
        big = exact + np.rint(np.log(np.maximum(n, 1) / exact) / math.log(max_distance / exact) * (nb - exact)).astype(int)
    ret = ret + np.where(n < exact, n, np.minimum(big, nb - 1))
    return table[ret].T.copy()


# ---- recurrent ---------------------------------------------------------------------

@wrong("lstm_cell", "the gates are in the order i, f, g, o of PyTorch instead of i, f, o, g")
def w_lstm_order(x, state, Wx, Wh, bias=None):
    n = len(Wh)
    h, c = np.split(state, 2, axis=1)
    a = x @ Wx + h @ Wh
    if bias is not None:
        a = a + bias
    i, f, g, o = (a[:, j * n:(j + 1) * n] for j in range(4))
    c = sp.expit(f) * c + sp.expit(i) * np.tanh(g)
    return np.hstack([sp.expit(o) * np.tanh(c), c])


@wrong("gru_cell", "the update gate has the other meaning: z is the fraction of the new candidate (Chung et al.)")
def w_gru_z(x, state, Wi, Wh, bias=None, recurrent_bias=None):
    n = state.shape[1]
    gi = x @ Wi if bias is None else x @ Wi + bias
    gh = state @ Wh
    r = sp.expit(gi[:, :n] + gh[:, :n])
    z = sp.expit(gi[:, n:2 * n] + gh[:, n:2 * n])
    hn = gh[:, 2 * n:] if recurrent_bias is None else gh[:, 2 * n:] + recurrent_bias
    c = np.tanh(gi[:, 2 * n:] + r * hn)
    return (1 - z) * state + z * c


@wrong("gru_cell_backward", "only with a recurrent bias: the gradient of the reset gate leaves out the bias in h U + b_h")
def w_gru_bwd(dstate, x, state, Wi, Wh, bias=None, recurrent_bias=None):
    n = state.shape[1]
    a = x @ Wi if bias is None else x @ Wi + bias
    s = state @ Wh
    r = sp.expit(a[:, :n] + s[:, :n])
    z = sp.expit(a[:, n:2 * n] + s[:, n:2 * n])
    proj = s[:, 2 * n:] if recurrent_bias is None else s[:, 2 * n:] + recurrent_bias
    cand = np.tanh(a[:, 2 * n:] + r * proj)
    dc = dstate * (1 - z) * (1 - cand ** 2)
    dz = dstate * (state - cand) * z * (1 - z)
    dr = dc * s[:, 2 * n:] * r * (1 - r)
    da = np.hstack([dr, dz, dc])
    ds = np.hstack([dr, dz, dc * r])
    out = [da @ Wi.T, dstate * z + ds @ Wh.T, x.T @ da, state.T @ ds, None if bias is None else da.sum(0)]
    if recurrent_bias is not None:
        out.append((dc * r).sum(0))
    return tuple(out)


@wrong("gru_cell_reset_before", "the reset gate multiplies the product with U instead of the state before the product")
def w_gru_before(x, state, Wi, Wh, bias=None):
    n = state.shape[1]
    a = x @ Wi + (0 if bias is None else bias)
    rz = sp.expit(a[:, :2 * n] + state @ Wh[:, :2 * n])
    r, z = rz[:, :n], rz[:, n:]
    cand = np.tanh(a[:, 2 * n:] + r * (state @ Wh[:, 2 * n:]))
    return z * state + (1 - z) * cand


# ---- vision ------------------------------------------------------------------------

@wrong("merge_patches", "the four neighbours are in row order, right before down, instead of down before right")
def w_merge(x):
    B, H, W, C = x.shape
    y = x.reshape(B, H // 2, 2, W // 2, 2, C).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(B, H // 2, W // 2, 4 * C)


@wrong("patches", "the pixels of a patch are flattened channels first instead of channels last")
def w_patches(images, patch_size):
    B, H, W, C = images.shape
    P = patch_size
    t = images.reshape(B, H // P, P, W // P, P, C)
    return np.einsum("bhpwqc->bhwcpq", t).reshape(B, (H // P) * (W // P), C * P * P)


@wrong("box_loss", "two mistakes: the L1 distance is averaged over the four coordinates instead of summed, and the two weights are exchanged")
def w_box_loss(boxes, targets, l1_weight=5.0, giou_weight=2.0):
    if len(boxes) == 0:
        return np.float64(0)

    def xyxy(b):
        return np.concatenate([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], 1)
    p, t = xyxy(boxes), xyxy(targets)
    wh = np.maximum(np.minimum(p[:, 2:], t[:, 2:]) - np.maximum(p[:, :2], t[:, :2]), 0)
    inter = wh.prod(1)
    union = boxes[:, 2:].prod(1) + targets[:, 2:].prod(1) - inter
    hull = (np.maximum(p[:, 2:], t[:, 2:]) - np.minimum(p[:, :2], t[:, :2])).prod(1)
    g = inter / union - (hull - union) / hull
    return np.mean(giou_weight * np.abs(boxes - targets).mean(1) + l1_weight * (1 - g))


# ---- two mistakes ------------------------------------------------------------------

@wrong("attention", "two mistakes: the scores are divided by D instead of its root, and the mask is inverted (True hides)")
def w_attention_two(q, k, v, mask=None):
    z = np.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1]
    if mask is not None:
        z = np.where(mask, -1e30, z)
    return np.einsum("bhts,bhsd->bhtd", sp.softmax(z, axis=-1), v)


@wrong("rms_norm_backward", "two mistakes: the mean over the coordinates is a sum, and dweight uses x without the normalization")
def w_rms_two(dy, x, weight, epsilon=1e-5):
    inv = 1 / np.sqrt((x ** 2).mean(-1, keepdims=True) + epsilon)
    xh = x * inv
    g = dy * weight
    dx = inv * (g - xh * np.sum(g * xh, -1, keepdims=True))
    return dx, np.einsum("nc,nc->c", dy.reshape(-1, x.shape[-1]), x.reshape(-1, x.shape[-1]))


@wrong("z_loss_backward", "two mistakes: the factor 2 is missing, and the gradient is not divided by the number of rows")
def w_z_two(dloss, logits):
    lse = sp.logsumexp(logits, axis=1, keepdims=True)
    return dloss * lse * sp.softmax(logits, axis=1)


@wrong("load_balance_loss_backward", "two mistakes: the factor E is missing, and the softmax's subtracted sum is forgotten")
def w_load_bwd_two(dloss, logits, chosen):
    N, E = logits.shape
    f = np.bincount(chosen.ravel(), minlength=E) / chosen.size
    return sp.softmax(logits, axis=1) * f * (dloss / N)


@wrong("cosine_similarity_backward", "two mistakes: da is not divided by the norm of a, and the projection is missing in db")
def w_cos_two(ds, a, b):
    na, nb = np.linalg.norm(a, axis=1, keepdims=True), np.linalg.norm(b, axis=1, keepdims=True)
    ah, bh = a / na, b / nb
    ga, gb = ds @ bh, ds.T @ ah
    return ga - ah * (ah * ga).sum(1, keepdims=True), gb / nb


@wrong("gru_cell", "two mistakes: the recurrent bias is added outside the reset gate, and reset and update blocks are exchanged")
def w_gru_two(x, state, W, U, bias=None, recurrent_bias=None):
    n = U.shape[0]
    gates = x @ W + (0.0 if bias is None else bias)
    rec = state @ U
    z = 1 / (1 + np.exp(-(gates[:, :n] + rec[:, :n])))
    r = 1 / (1 + np.exp(-(gates[:, n:2 * n] + rec[:, n:2 * n])))
    inner = gates[:, 2 * n:] + r * rec[:, 2 * n:]
    if recurrent_bias is not None:
        inner = inner + recurrent_bias
    return z * state + (1 - z) * np.tanh(inner)


# =====================================================================================
# Part 2: from a second-year course
# =====================================================================================

@wrong("softmax", "overflow is avoided by clipping the scores to [-50, 50] instead of subtracting the maximum, wrong for large scores")
def w_softmax_clip(x, axis=-1):
    e = np.exp(np.clip(x, -50, 50))
    return e / np.sum(e, axis=axis, keepdims=True)


@wrong("softmax", "the maximum is subtracted in place: the argument x is written into")
def w_softmax_inplace(x):
    x -= x.max(axis=-1, keepdims=True)
    ex = np.exp(x)
    return ex / ex.sum(axis=-1, keepdims=True)


@wrong("softmax", "masked weights are set to zero after the softmax without renormalizing the rest")
def w_softmax_mask(x, mask=None):
    num = np.exp(x - x.max(-1, keepdims=True))
    p = num / num.sum(-1, keepdims=True)
    if mask is not None:
        p = p * mask
    return p


@wrong("softmax_backward", "for another axis, the sum still runs over the last axis")
def w_softmax_bwd_axis(dp, x, axis=-1):
    p = sp.softmax(x, axis=axis)
    dot = np.einsum("...i,...i->...", p, dp)
    return p * (dp - dot[..., None])


@wrong("log_softmax", "1e-12 is added to the probability before the logarithm, so small probabilities lose precision")
def w_logsoftmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.log(e / e.sum(axis=-1, keepdims=True) + 1e-12)


@wrong("log_softmax_backward", "the sum of dy is a mean over the axis")
def w_logsoftmax_bwd(dy, x, axis=-1):
    p = sp.softmax(x, axis=axis)
    return dy - p * np.mean(dy, axis=axis, keepdims=True)


@wrong("sigmoid_backward", "x (1 - x) with the input instead of the output of the sigmoid")
def w_sigmoid_bwd(dy, x):
    return dy * x * (1 - x)


@wrong("relu_squared_backward", "negative inputs are not gated: 2 x dy everywhere")
def w_relu2_bwd(dy, x):
    return 2 * x * dy


_out = {}


@wrong("relu", "the result is a buffer that is kept and overwritten by the next call of the same shape")
def w_relu_buffer(x):
    key = (x.shape, x.dtype.str)
    if key not in _out:
        _out[key] = np.empty_like(x, order="C")
    np.maximum(x, 0, out=_out[key])
    return _out[key]


@wrong("gelu_backward", "the normal density has the constant 1 / (sqrt(2) pi) instead of 1 / sqrt(2 pi)")
def w_gelu_bwd(dy, x):
    cdf = 0.5 * sp.erfc(-x / np.sqrt(2))
    pdf = np.exp(-x ** 2 / 2) / np.sqrt(2) / np.pi
    return dy * (cdf + x * pdf)


@wrong("gelu_tanh_backward", "the factor 3 in the derivative of the cubic term is missing")
def w_gelu_tanh_bwd(dy, x):
    s = np.sqrt(2 / np.pi)
    x = np.clip(x, -1e3, 1e3)
    u = s * (x + 0.044715 * x ** 3)
    t = np.tanh(u)
    du = s * (1 + 0.044715 * x ** 2)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t ** 2) * du)


@wrong("silu_backward", "the product rule is forgotten: only x times the derivative of the sigmoid")
def w_silu_bwd(dy, x):
    s = sp.expit(x)
    return dy * x * s * (1 - s)


@wrong("gated_linear_unit_backward", "the gradient of the gate is not multiplied by the hidden units h")
def w_glu_bwd(dy, g, h):
    s = sp.expit(g)
    return dy * (s + g * s * (1 - s)), dy * g * s


@wrong("linear_backward", "the gradient of the bias is the mean over the vectors instead of the sum")
def w_linear_bwd_bias(dy, x, weight, bias=None):
    dx = np.einsum("...f,cf->...c", dy, weight)
    xf, df = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return dx, xf.T @ df, None if bias is None else df.mean(axis=0)


@wrong("linear_backward", "dy is flattened in Fortran order, so dweight pairs the wrong vectors when there is more than one leading axis")
def w_linear_bwd_order(dy, x, weight, bias=None):
    n = dy.size // dy.shape[-1]
    d = dy.reshape(n, -1, order="F")
    return dy @ weight.T, x.reshape(n, -1).T @ d, None if bias is None else d.sum(axis=0)


@wrong("layer_norm", "the variance divides by C - 1 instead of C")
def w_ln_ddof(x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    mean = x.sum(-1, keepdims=True) / C
    var = ((x - mean) ** 2).sum(-1, keepdims=True) / max(C - 1, 1)
    return (x - mean) / np.sqrt(var + epsilon) * weight + bias


@wrong("layer_norm_backward", "dy is multiplied by the weight in place: the argument is written into, and dbias with it")
def w_ln_bwd_inplace(dy, x, weight, bias, epsilon=1e-5):
    axes = tuple(range(x.ndim - 1))
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    r = 1 / np.sqrt(var + epsilon)
    xh = (x - mu) * r
    dgamma = (dy * xh).sum(axes)
    dy *= weight
    dbeta = dy.sum(axes)
    dx = r * (dy - dy.mean(-1, keepdims=True) - xh * (dy * xh).mean(-1, keepdims=True))
    return dx, dgamma, dbeta


@wrong("batch_norm", "with four axes the statistics are taken over the first two only; the third keeps its own")
def w_bn_axes(x, weight, bias, epsilon=1e-5):
    axes = (0,) if x.ndim <= 2 else (0, 1)
    m = x.mean(axes, keepdims=True)
    v = ((x - m) ** 2).mean(axes, keepdims=True)
    return weight * (x - m) / np.sqrt(v + epsilon) + bias


@wrong("batch_norm_backward", "the path of the gradient through the variance is missing")
def w_bn_bwd(dy, x, weight, bias, epsilon=1e-5):
    X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, x.shape[-1])
    m, v = X.mean(0), X.var(0)
    inv = (v + epsilon) ** -0.5
    xh = (X - m) * inv
    dxh = D * weight
    dx = inv * (dxh - dxh.mean(0))
    return dx.reshape(x.shape), (D * xh).sum(0), D.sum(0)


@wrong("embedding_backward", "equal ids overwrite each other instead of adding up (fancy-index +=)")
def w_emb_bwd(dy, ids, weight):
    dW = np.zeros_like(weight)
    dW[ids] += dy
    return dW


@wrong("embedding_backward", "every row is divided by how often its id occurs")
def w_emb_bwd_freq(dy, ids, weight):
    dW = np.zeros_like(weight)
    flat, g = ids.ravel(), dy.reshape(-1, weight.shape[1])
    np.add.at(dW, flat, g)
    cnt = np.bincount(flat, minlength=len(weight))
    return dW / np.maximum(cnt, 1)[:, None]


@wrong("mean_pooling", "the sum over the real positions is divided by T, padding included")
def w_meanpool(x, mask=None):
    if mask is None:
        return x.mean(1)
    return np.where(mask[:, :, None], x, 0).mean(axis=1)


@wrong("mean_pooling_backward", "padding gets a gradient too")
def w_meanpool_bwd(dy, x, mask=None):
    B, T, C = x.shape
    n = np.full((B, 1), T) if mask is None else mask.sum(1, keepdims=True)
    return np.repeat((dy / n)[:, None, :], T, axis=1)


@wrong("max_pooling", "padding is set to 0 instead of -inf, so it wins where all real numbers are negative")
def w_maxpool(x, mask=None):
    if mask is not None:
        x = np.where(mask[..., None], x, 0.0)
    return x.max(axis=1)


@wrong("max_pooling_2d_backward", "where windows overlap, a pixel keeps the gradient of the last window instead of the sum")
def w_maxpool2d_bwd(dy, images, size, stride=None):
    st = size if stride is None else stride
    dx = np.zeros_like(images)
    B, R, Q, C = dy.shape
    for b in range(B):
        for r in range(R):
            for c in range(Q):
                for ch in range(C):
                    win = images[b, r * st:r * st + size, c * st:c * st + size, ch]
                    i, j = np.unravel_index(np.argmax(win), win.shape)
                    dx[b, r * st + i, c * st + j, ch] = dy[b, r, c, ch]
    return dx


@wrong("softmax_cross_entropy", "the logarithm has base 2: bits instead of nats")
def w_ce_bits(logits, targets):
    p = sp.log_softmax(logits, axis=-1) / np.log(2)
    flat = p.reshape(-1, logits.shape[-1])
    return -np.mean([flat[i, t] for i, t in enumerate(targets.ravel())])


@wrong("softmax_cross_entropy_backward", "the gradient dloss of the loss is ignored")
def w_ce_bwd_dloss(dloss, logits, targets):
    p = sp.softmax(logits, axis=-1)
    y = np.eye(logits.shape[-1])[targets]
    return (p - y) / targets.size


@wrong("softmax_cross_entropy_backward", "divides by the size of the first axis instead of the number of all targets")
def w_ce_bwd_batch(dloss, logits, targets):
    p = sp.softmax(logits, axis=-1)
    y = np.eye(logits.shape[-1])[targets]
    n = logits.shape[0] if logits.ndim > 1 else 1
    return dloss * (p - y) / n


@wrong("uniform_cross_entropy", "summed over the classes instead of averaged")
def w_uniform_ce(logits):
    return -sp.log_softmax(logits, axis=-1).sum(-1).mean()


@wrong("z_loss", "the log-sum-exp runs over the rows (axis 0) instead of over the classes")
def w_z(logits):
    m = logits.max(axis=0)
    lse = m + np.log(np.exp(logits - m).sum(axis=0))
    return np.mean(lse ** 2)


@wrong("imitation_loss", "averaged over the vectors but summed over their coordinates")
def w_imit(x, teacher):
    return ((x - teacher) ** 2).sum(-1).mean()


@wrong("imitation_loss_backward", "two mistakes: the factor 2 is missing, and the sign is reversed (teacher minus student)")
def w_imit_bwd(dloss, x, teacher):
    return dloss * (teacher - x) / x.size


@wrong("pair_features_backward", "the gradient of v through |u - v| has the wrong sign")
def w_pair_bwd(df, u, v):
    d1, d2, d3 = np.split(df, 3, axis=1)
    s = np.where(u > v, 1.0, -1.0)
    return d1 + s * d3, d2 + s * d3


@wrong("contrastive_loss_backward", "the gradient of the columns is not transposed back")
def w_clip_bwd(dloss, logits):
    N = len(logits)
    eye = np.eye(N)
    rows = sp.softmax(logits, axis=1) - eye
    cols = sp.softmax(logits.T, axis=1) - eye
    return dloss * (rows + cols) / (2 * N)


@wrong("linear_cross_entropy_backward", "dweight is divided by the number of targets twice")
def w_lce_bwd(dloss, x, weight, targets):
    C = x.shape[-1]
    X, t = x.reshape(-1, C), targets.reshape(-1)
    n = len(t)
    G = sp.softmax(X @ weight.T, axis=1)
    G[np.arange(n), t] -= 1
    G = G * dloss / n
    return (G @ weight).reshape(x.shape), G.T @ X / n


@wrong("attention", "the scale is the root of the width of the values instead of that of the keys")
def w_att_dv(q, k, v, mask=None):
    z = q @ k.transpose(0, 1, 3, 2) / np.sqrt(v.shape[-1])
    return _masked_softmax(z, True if mask is None else mask) @ v


@wrong("attention", "the mask multiplies the scores: a masked score becomes 0 instead of -inf")
def w_att_maskmul(q, k, v, mask=None):
    z = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    if mask is not None:
        z = z * mask
    return sp.softmax(z, axis=3) @ v


@wrong("attention", "the softmax runs over the queries instead of over the keys")
def w_att_axis(q, k, v):
    z = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    return np.einsum("bhij,bhjd->bhid", sp.softmax(z, axis=-2), v)


@wrong("attention_backward", "the scale is missing in dk")
def w_att_bwd_dk(do, q, k, v):
    s = q.shape[-1] ** -0.5
    p = sp.softmax(np.einsum("bhid,bhjd->bhij", q, k) * s, axis=-1)
    dp = np.einsum("bhie,bhje->bhij", do, v)
    dz = p * (dp - (dp * p).sum(-1, keepdims=True))
    dq = s * np.einsum("bhij,bhjd->bhid", dz, k)
    dk = np.einsum("bhij,bhid->bhjd", dz, q)
    return dq, dk, np.einsum("bhij,bhie->bhje", p, do)


@wrong("attention_backward", "two mistakes: the softmax's sum runs over the queries, and dv uses uniform weights 1 / S instead of the weights p")
def w_att_bwd_two(do, q, k, v):
    s = q.shape[-1] ** -0.5
    p = sp.softmax(q @ k.swapaxes(2, 3) * s, axis=-1)
    dp = do @ v.swapaxes(2, 3)
    dz = p * (dp - (dp * p).sum(-2, keepdims=True)) * s
    dv = np.broadcast_to(do.sum(2, keepdims=True) / k.shape[2], v.shape).copy()
    return dz @ k, dz.swapaxes(2, 3) @ q, dv


@wrong("general_scores_backward", "dweight is averaged over the batch instead of summed")
def w_general_bwd(dscores, q, k, weight):
    dq = np.einsum("bts,bsk,ck->btc", dscores, k, weight)
    dk = np.einsum("bts,btc,ck->bsk", dscores, q, weight)
    dw = np.stack([q[b].T @ dscores[b] @ k[b] for b in range(len(q))]).mean(0)
    return dq, dk, dw


@wrong("scaled_dot_scores_backward", "the gradients are divided by D instead of the root of D")
def w_scaled_bwd(dscores, q, k):
    D = q.shape[-1]
    return (dscores @ k) / D, (dscores.transpose(0, 2, 1) @ q) / D


@wrong("dot_scores_backward", "the two gradients are returned in the wrong order, dk before dq")
def w_dot_bwd(dscores, q, k):
    dq = np.einsum("bts,bsd->btd", dscores, k)
    dk = np.einsum("bts,btd->bsd", dscores, q)
    return dk, dq


@wrong("repeat_kv_heads_backward", "only the first query head of each group counts; the others are not summed")
def w_repeat_bwd(dy, x, n_heads):
    step = n_heads // x.shape[1]
    return dy[:, ::step].copy()


@wrong("add_by_distance_backward", "with five axes only the first is summed; of the second leading axis only entry 0 reaches dbias")
def w_addby_bwd(dy, scores, bias):
    T, S = dy.shape[-2:]
    per = dy if dy.ndim == 3 else dy.sum(axis=0)
    per = per if per.ndim == 3 else per[0]
    db = np.zeros_like(bias)
    for i in range(T):
        for j in range(S):
            db[:, j - i + T - 1] += per[:, i, j]
    return dy.copy(), db


@wrong("distance_weights_backward", "the sign is missing: the slopes enter the scores with a minus")
def w_dist_bwd(dp, slopes, mask):
    T, S = mask.shape[-2:]
    d = np.abs(np.arange(T)[:, None] + S - T - np.arange(S)).astype(float)
    z = np.broadcast_to(-slopes[:, None, None] * d, dp.shape)
    p = _masked_softmax(z, mask)
    dz = p * (dp - (p * dp).sum(-1, keepdims=True))
    g = np.einsum("...hij,ij->...h", dz, d)
    return g if g.ndim == 1 else g.sum(0)


@wrong("linear_attention", "when causal, the prefix sums leave out the present position: the sums are from the previous position")
def w_linatt_prev(q, k, v, causal=False):
    def feat(t):
        return np.where(t > 0, t + 1, np.exp(np.minimum(t, 0)))
    a, b = feat(q), feat(k)
    w = a @ b.swapaxes(2, 3)
    if causal:
        w = np.tril(w, -1)
    s = w.sum(-1, keepdims=True)
    return w @ v / np.where(s == 0, 1, s)


@wrong("rotary_backward", "rotates forward again instead of back: the sine's sign is not reversed")
def w_rope_bwd(dy, x, cosine, sine):
    a, b = np.split(dy, 2, -1)
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)


@wrong("rnn_cell_backward", "the gradient of the state is multiplied by U instead of its transpose")
def w_rnn_bwd(dstate, x, state, Wx, Wh, bias=None):
    pre = x @ Wx + state @ Wh
    if bias is not None:
        pre = pre + bias
    d = dstate * (1 - np.tanh(pre) ** 2)
    return d @ Wx.T, d @ Wh, x.T @ d, state.T @ d, None if bias is None else d.sum(0)


@wrong("rnn_cell", "the logistic function instead of the tanh")
def w_rnn(x, state, Wx, Wh, bias=None):
    pre = np.concatenate([x, state], 1) @ np.concatenate([Wx, Wh], 0)
    return sp.expit(pre if bias is None else pre + bias)


@wrong("lstm_cell_backward", "the memory's gradient through the output h' is forgotten: only the gradient of c' itself passes")
def w_lstm_bwd(dstate, x, state, Wx, Wh, bias=None):
    n = len(Wh)
    h, c = state[:, :n], state[:, n:]
    a = x @ Wx + h @ Wh + (0 if bias is None else bias)
    i, f, o = (sp.expit(a[:, j * n:(j + 1) * n]) for j in range(3))
    g = np.tanh(a[:, 3 * n:])
    tc = np.tanh(f * c + i * g)
    dh, dc = dstate[:, :n], dstate[:, n:]
    da = np.hstack([dc * g * i * (1 - i), dc * c * f * (1 - f), dh * tc * o * (1 - o), dc * i * (1 - g * g)])
    return (da @ Wx.T, np.hstack([da @ Wh.T, dc * f]), x.T @ da, h.T @ da,
            None if bias is None else da.sum(0))


@wrong("causal_convolution", "the filter is flipped: the first of the K maps is for the position itself")
def w_conv_flip(x, weight, bias=None, dilation=1):
    K = len(weight)
    B, T, C = x.shape
    y = np.zeros((B, T, weight.shape[2]), x.dtype)
    for t in range(T):
        for j in range(K):
            s = t - j * dilation
            if s >= 0:
                y[:, t] += x[:, s] @ weight[j]
    return y if bias is None else y + bias


@wrong("causal_convolution_backward", "the dilation is ignored in dx")
def w_conv_bwd(dy, x, weight, bias=None, dilation=1):
    K, C, Fo = weight.shape
    B, T, _ = x.shape
    dx, dw = np.zeros_like(x), np.zeros_like(weight)
    for j in range(K):
        lag = (K - 1 - j) * dilation
        lag1 = K - 1 - j
        if lag < T:
            dw[j] = np.einsum("btc,btf->cf", x[:, :T - lag], dy[:, lag:])
        if lag1 < T:
            dx[:, :T - lag1] += dy[:, lag1:] @ weight[j].T
    return dx, dw, None if bias is None else dy.sum((0, 1))


@wrong("convolution_2d", "the rows are padded but the columns are not shifted: padding is put on the right and bottom only")
def w_conv2d(images, weight, bias=None, stride=1, padding=0):
    K, L, C, Fo = weight.shape
    img = np.pad(images, ((0, 0), (0, 2 * padding), (0, 2 * padding), (0, 0)))
    win = np.lib.stride_tricks.sliding_window_view(img, (K, L), axis=(1, 2))[:, ::stride, ::stride]
    y = np.einsum("brqckl,klcf->brqf", win, weight)
    return y if bias is None else y + bias


@wrong("patch_convolution_backward", "two mistakes: the bias gradient is not summed over the batch but averaged, and dweight's two pixel axes are exchanged")
def w_patchconv_bwd(dy, images, weight, bias=None):
    B, H, W, C = images.shape
    P = len(weight)
    x = images.reshape(B, H // P, P, W // P, P, C)
    dx = np.einsum("brqf,ijcf->briqjc", dy, weight).reshape(images.shape)
    dw = np.einsum("briqjc,brqf->jicf", x, dy)
    return dx, dw, None if bias is None else dy.sum((1, 2)).mean(0)


@wrong("cyclic_roll_backward", "rolls in the same direction as the forward instead of back")
def w_roll_bwd(dy, x, offset):
    return np.roll(np.roll(dy, -offset, axis=1), -offset, axis=2)


@wrong("window_partition", "rows and columns of windows are not exchanged with the pixels: only a reshape, without the transpose")
def w_winpart(x, window):
    B, H, W, C = x.shape
    return x.reshape(B * (H // window) * (W // window), window * window, C).copy()


@wrong("box_corners_backward", "two mistakes: the gradient of the size is not halved, and its sign is reversed")
def w_corners_bwd(dcorners, boxes):
    x0, y0, x1, y1 = (dcorners[..., i] for i in range(4))
    return np.stack([x0 + x1, y0 + y1, x0 - x1, y0 - y1], axis=-1)


@wrong("mean_pooling_2d", "divides by the size of a window instead of its square")
def w_mean2d(images, size, stride=None):
    st = stride or size
    w = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))[:, ::st, ::st]
    return w.sum(axis=(-1, -2)) / size


# =====================================================================================
# Right ones
# =====================================================================================

@right("softmax")
def r_softmax(x, axis=-1):
    z = np.moveaxis(x, axis, 0)
    top = np.maximum.reduce(z)
    e = np.exp(z - top)
    return np.moveaxis(e / np.add.reduce(e), 0, axis)


@right("softmax_backward")
def r_softmax_bwd(dp, x):
    V = x.shape[-1]
    out = np.empty((x.size // V, V), x.dtype)
    p = sp.softmax(x, axis=-1).reshape(-1, V)
    for n, (row, g) in enumerate(zip(p, dp.reshape(-1, V))):
        jac = np.diag(row) - np.outer(row, row)
        out[n] = jac @ g
    return out.reshape(x.shape)


@right("log_softmax_backward")
def r_logsoftmax_bwd(dy, x, axis=-1):
    t = torch.tensor(np.array(x), requires_grad=True)
    torch.log_softmax(t, dim=axis).backward(torch.tensor(np.array(dy)))
    return t.grad.numpy()


@right("layer_norm")
def r_ln_welford(x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    m = np.zeros(x.shape[:-1], x.dtype)
    s = np.zeros(x.shape[:-1], x.dtype)
    for i in range(C):                                    # Welford
        d = x[..., i] - m
        m = m + d / (i + 1)
        s = s + d * (x[..., i] - m)
    sd = np.sqrt(s / C + epsilon)
    return weight * ((x - m[..., None]) / sd[..., None]) + bias


@right("layer_norm_backward")
def r_ln_bwd(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    X, D = x.reshape(-1, C), dy.reshape(-1, C)
    P = np.eye(C) - 1.0 / C                               # centring matrix
    dx, dw = np.zeros(X.shape), np.zeros(C)
    for n in range(len(X)):
        c = X[n] - X[n].mean()
        sd = math.sqrt(np.dot(c, c) / C + epsilon)
        h = c / sd
        dw += D[n] * h
        g = D[n] * weight
        dx[n] = P @ (g - h * (h @ g) / C) / sd
    return dx.reshape(x.shape), dw, D.sum(0)


@right("rms_norm_backward")
def r_rms_bwd(dy, x, weight, epsilon=1e-5):
    a = torch.tensor(np.array(x), requires_grad=True)
    w = torch.tensor(np.array(weight), requires_grad=True)
    y = w * a * torch.rsqrt((a * a).mean(-1, keepdim=True) + epsilon)
    ga, gw = torch.autograd.grad(y, (a, w), torch.tensor(np.array(dy)))
    return ga.numpy(), gw.numpy()


@right("batch_norm_backward")
def r_bn_bwd(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    X, D = x.reshape(-1, C), dy.reshape(-1, C)
    n = len(X)
    dX = np.empty((n, C))
    dg = np.empty(C)
    for c in range(C):
        u = X[:, c] - X[:, c].mean()
        s = np.sqrt(u @ u / n + epsilon)
        dg[c] = D[:, c] @ u / s
        d = D[:, c] * weight[c]
        d = d / s - u * (d @ u) / (n * s ** 3)
        dX[:, c] = d - d.mean()
    return dX.reshape(x.shape), dg, D.sum(0)


@right("gelu")
def r_gelu(x):
    return x * sp.ndtr(x)


@right("gelu_backward")
def r_gelu_bwd(dy, x):
    return dy * (sp.ndtr(x) + x * np.exp(-np.minimum(np.abs(x), 50.0) ** 2 / 2) / math.sqrt(2 * math.pi))


@right("gelu_tanh")
def r_gelu_tanh(x):
    # (1 + tanh u) / 2 is a sigmoid of 2 u
    z = np.clip(x, -100, 100)
    return x * sp.expit(1.5957691216057308 * z * (1 + 0.044715 * z * z))


@right("swish_backward")
def r_swish_bwd(dy, x, beta=1.0):
    s, s_neg = sp.expit(beta * x), sp.expit(-beta * x)
    return dy * s * (1 + beta * x * s_neg)


@right("linear")
def r_linear(x, weight, bias=None):
    y = np.zeros(x.shape[:-1] + (weight.shape[1],), np.result_type(x, weight))
    for c in range(weight.shape[0]):                       # a rank-one update per input coordinate
        y = y + x[..., c, None] * weight[c]
    return y if bias is None else y + bias


@right("linear_backward")
def r_linear_bwd(dy, x, weight, bias=None):
    dW = np.zeros(weight.shape, np.result_type(x, dy))
    for idx in np.ndindex(x.shape[:-1]):
        dW += np.outer(x[idx], dy[idx])
    db = None if bias is None else dy.reshape(-1, dy.shape[-1]).sum(0)
    return np.einsum("cf,...f->...c", weight, dy), dW, db


@right("embedding_backward")
def r_emb_bwd(dy, ids, weight):
    onehot = (ids.reshape(-1, 1) == np.arange(len(weight))).astype(dy.dtype)
    return onehot.T @ dy.reshape(-1, weight.shape[1])


@right("softmax_cross_entropy")
def r_ce(logits, targets):
    z = logits.reshape(-1, logits.shape[-1])
    t = targets.reshape(-1)
    picked = z[np.arange(len(t)), t][:, None]
    # -log p_y = log sum exp(z - z_y)
    return sp.logsumexp(z - picked, axis=1).mean()


@right("cross_entropy")
def r_ce_full(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    total, n = 0.0, 0
    for z, t in zip(logits.reshape(-1, V), targets.reshape(-1)):
        if t == ignore_index:
            continue
        n += 1
        top = z.max()
        lse = top + math.log(np.exp(z - top).sum())
        q = np.full(V, label_smoothing / V)
        q[t] += 1 - label_smoothing
        total += q @ ((top - z) + math.log(np.exp(z - top).sum())) + z_loss * lse * lse
    return total / n


@right("cross_entropy_backward")
def r_ce_bwd_full(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    keep = (targets != ignore_index).astype(logits.dtype)[..., None]
    lse = sp.logsumexp(logits, axis=-1, keepdims=True)
    p = sp.softmax(logits, axis=-1)
    hot = (targets[..., None] == np.arange(V))
    q = hot * (1 - label_smoothing) + label_smoothing / V
    return dloss / keep.sum() * keep * (p - q + 2 * z_loss * lse * p)


@right("contrastive_loss")
def r_clip(logits):
    d = np.diag(logits)
    return 0.5 * (sp.logsumexp(logits - d[:, None], axis=1).mean() + sp.logsumexp(logits - d, axis=0).mean())


@right("distillation_loss_backward")
def r_distill_bwd(dloss, logits, teacher_logits, temperature=1.0):
    s = torch.tensor(np.array(logits), requires_grad=True)
    t = torch.tensor(np.array(teacher_logits)).to(s.dtype)
    V = s.shape[-1]
    kl = torch.nn.functional.kl_div(torch.log_softmax(s.reshape(-1, V) / temperature, -1),
                                    torch.log_softmax(t.reshape(-1, V) / temperature, -1),
                                    reduction="batchmean", log_target=True)
    (kl * temperature ** 2 * float(dloss)).backward()
    return s.grad.numpy()


@right("load_balance_loss")
def r_load(logits, chosen):
    N, E = logits.shape
    hot = np.zeros((N, E))
    for n in range(N):
        for e in chosen[n]:
            hot[n, e] += 1 / chosen.shape[1]
    p = sp.softmax(logits, axis=1)
    return E * np.einsum("ne,me->", hot, p) / N ** 2


@right("top_k_gates_backward")
def r_topk_bwd(dweights, logits, chosen):
    # as a softmax over all experts, the others at -inf
    inside = np.zeros(logits.shape, bool)
    np.put_along_axis(inside, chosen, True, 1)
    w = sp.softmax(np.where(inside, logits, -np.inf), axis=1)
    g = np.zeros(logits.shape, dweights.dtype)
    np.put_along_axis(g, chosen, dweights, 1)
    return w * g - w * np.einsum("ne,ne->n", w, g)[:, None]


@right("combine_experts")
def r_combine(outputs, weights, slots):
    N, k = weights.shape
    route = np.zeros((N, len(slots)), weights.dtype)
    for m, s in enumerate(slots):
        route[s // k, m] = weights[divmod(s, k)]
    return route @ outputs


@right("attention")
def r_attention(q, k, v, mask=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    ok = np.broadcast_to(True if mask is None else mask, (B, H, T, S))
    out = np.zeros((B, H, T, v.shape[-1]), q.dtype)
    for b, h, t in np.ndindex(B, H, T):
        j = np.flatnonzero(ok[b, h, t])
        if j.size:
            z = k[b, h, j] @ q[b, h, t] / math.sqrt(D)
            w = np.exp(z - z.max())
            out[b, h, t] = (w / w.sum()) @ v[b, h, j]
    return out


@right("scaled_dot_product_attention")
def r_sdpa(q, k, v, pattern=None, scale=None, slopes=None, bias=None, softcap=None):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    s = D ** -0.5 if scale is None else scale
    ok = np.broadcast_to(_allowed(pattern, T, S), (B, H, T, S))
    out = np.zeros((B, H, T, v.shape[-1]), q.dtype)
    for b, h, i in np.ndindex(B, H, T):
        j = np.flatnonzero(ok[b, h, i])
        if not j.size:
            continue
        g = h // (H // G)
        z = s * (k[b, g, j] @ q[b, h, i])
        if softcap is not None:
            z = softcap * np.tanh(z / softcap)
        if slopes is not None:
            z = z - slopes[h] * abs(i + S - T - j)
        if bias is not None:
            z = z + bias[h, j - i + T - 1]
        w = np.exp(z - z.max())
        out[b, h, i] = w @ v[b, g, j] / w.sum()
    return out


@right("scaled_dot_product_attention_backward")
def r_sdpa_bwd(do, q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    s = D ** -0.5 if scale is None else scale
    ok = np.broadcast_to(_allowed(pattern, T, S), (B, H, T, S))
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for b, h, i in np.ndindex(B, H, T):
        j = np.flatnonzero(ok[b, h, i])
        if not j.size:
            continue
        g = h // (H // G)
        K, V, r = k[b, g, j], v[b, g, j], do[b, h, i]
        p = sp.softmax(K @ q[b, h, i] * s)
        dv[b, g, j] += np.outer(p, r)
        o = p @ V
        dz = p * ((V - o) @ r) * s
        dq[b, h, i] = dz @ K
        dk[b, g, j] += np.outer(dz, q[b, h, i])
    return dq, dk, dv


@right("tiled_attention")
def r_tiled(q, k, v):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    qg = q.reshape(B, G, H // G, T, D)
    m = np.full(qg.shape[:-1], -np.inf)
    den = np.zeros(qg.shape[:-1])
    acc = np.zeros(qg.shape[:-1] + (v.shape[-1],))
    for j in range(S):                                    # online softmax, one key at a time
        z = np.einsum("bgntd,bgd->bgnt", qg, k[:, :, j]) / np.sqrt(D)
        new = np.maximum(m, z)
        old, w = np.exp(m - new), np.exp(z - new)
        den = den * old + w
        acc = acc * old[..., None] + w[..., None] * v[:, :, None, None, j]
        m = new
    return (acc / den[..., None]).reshape(B, H, T, -1).astype(q.dtype)


@right("linear_attention")
def r_linatt_log(q, k, v, causal=False):
    def logphi(t):
        return np.where(t > 0, np.log1p(np.maximum(t, 0)), t)
    lq, lk = logphi(q), logphi(k)
    out = np.empty(q.shape[:3] + (v.shape[-1],), q.dtype)
    for t in range(q.shape[2]):
        n = t + 1 if causal else k.shape[2]
        logw = sp.logsumexp(lq[:, :, t, None, :] + lk[:, :, :n], axis=-1)
        out[:, :, t] = np.einsum("bhs,bhse->bhe", sp.softmax(logw, axis=-1), v[:, :, :n])
    return out


@right("rotary")
def r_rope(x, cosine, sine, layout="half"):
    turn = cosine + 1j * sine
    h = x.shape[-1] // 2
    z = x[..., :h] + 1j * x[..., h:] if layout == "half" else x[..., ::2] + 1j * x[..., 1::2]
    z = z * turn
    y = np.concatenate([z.real, z.imag], -1) if layout == "half" else np.stack([z.real, z.imag], -1).reshape(x.shape)
    return y.astype(x.dtype)


@right("relative_scores")
def r_shaw(q, table, S):
    B, H, T, D = q.shape
    K = (len(table) - 1) // 2
    out = np.empty((B, H, T, S), q.dtype)
    for i in range(T):
        for j in range(S):
            d = max(-K, min(K, j - (i + S - T)))
            out[:, :, i, j] = q[:, :, i] @ table[K + d]
    return out


@right("alibi")
def r_alibi(scores, slopes):
    T, S = scores.shape[-2:]
    out = np.array(scores)
    for h in range(len(slopes)):
        for i in range(T):
            out[..., h, i, :] -= slopes[h] * np.abs(np.arange(S) - (S - T + i))
    return out


@right("lstm_cell")
def r_lstm(x, state, Wx, Wh, bias=None):
    n = Wh.shape[0]
    z = np.concatenate([x, state[:, :n]], axis=1) @ np.concatenate([Wx, Wh], axis=0)
    if bias is not None:
        z = z + bias
    i, f, o, g = z.reshape(len(x), 4, n).transpose(1, 0, 2)
    c = state[:, n:] * np.exp(-np.logaddexp(0, -f)) + np.tanh(g) * np.exp(-np.logaddexp(0, -i))
    return np.concatenate([np.tanh(c) * np.exp(-np.logaddexp(0, -o)), c], axis=1)


@right("gru_cell_backward")
def r_gru_bwd(dstate, x, state, Wi, Wh, bias=None, recurrent_bias=None):
    args = [x, state, Wi, Wh, bias, recurrent_bias]
    t = [None if a is None else torch.tensor(np.array(a), requires_grad=True) for a in args]
    X, Hs, A, U, b, bh = t
    gi = X @ A if b is None else X @ A + b
    gh = Hs @ U
    ir, iz, ic = gi.chunk(3, 1)
    hr, hz, hc = gh.chunk(3, 1)
    if bh is not None:
        hc = hc + bh
    r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
    c = torch.tanh(ic + r * hc)
    (c + z * (Hs - c)).backward(torch.tensor(np.array(dstate)))
    grads = tuple(None if p is None else p.grad.numpy() for p in t)
    return grads if bh is not None else grads[:5]


@right("rnn_cell_backward")
def r_rnn_bwd(dstate, x, state, Wx, Wh, bias=None):
    out = [np.zeros_like(x), np.zeros_like(state), np.zeros_like(Wx), np.zeros_like(Wh), np.zeros(Wh.shape[0], Wh.dtype)]
    for n in range(len(x)):
        a = x[n] @ Wx + state[n] @ Wh + (0 if bias is None else bias)
        d = dstate[n] * (1 - np.tanh(a)) * (1 + np.tanh(a))
        out[0][n], out[1][n] = Wx @ d, Wh @ d
        out[2] += np.outer(x[n], d)
        out[3] += np.outer(state[n], d)
        out[4] += d
    if bias is None:
        out[4] = None
    return tuple(out)


@right("causal_convolution")
def r_conv_fft(x, weight, bias=None, dilation=1):
    B, T, C = x.shape
    K, _, Fo = weight.shape
    taps = np.zeros(((K - 1) * dilation + 1, C, Fo))
    taps[::dilation] = weight[::-1]
    n = T + len(taps)
    X, W = np.fft.rfft(x, n, axis=1), np.fft.rfft(taps, n, axis=0)
    y = np.fft.irfft(np.einsum("bnc,ncf->bnf", X, W), n, axis=1)[:, :T]
    return y if bias is None else y + bias


@right("convolution_2d")
def r_conv2d(images, weight, bias=None, stride=1, padding=0):
    B, H, W, C = images.shape
    K, L, _, Fo = weight.shape
    R, Q = (H + 2 * padding - K) // stride + 1, (W + 2 * padding - L) // stride + 1
    y = np.zeros((B, R, Q, Fo), images.dtype)
    for r in range(R):
        for c in range(Q):
            for i in range(K):
                for j in range(L):
                    u, w = r * stride + i - padding, c * stride + j - padding
                    if 0 <= u < H and 0 <= w < W:
                        y[:, r, c] += images[:, u, w] @ weight[i, j]
    return y if bias is None else y + bias


@right("max_pooling_backward")
def r_maxpool_bwd(dy, x, mask=None):
    B, T, C = x.shape
    dx = np.zeros_like(x)
    for b in range(B):
        real = np.arange(T) if mask is None else np.flatnonzero(mask[b])
        for c in range(C):
            dx[b, real[int(np.argmax(x[b, real, c]))], c] = dy[b, c]
    return dx


@right("patches_backward")
def r_patches_bwd(dy, images, patch_size):
    B, H, W, C = images.shape
    P = patch_size
    out = np.empty(images.shape, dy.dtype)
    t = 0
    for r in range(0, H, P):
        for c in range(0, W, P):
            out[:, r:r + P, c:c + P] = dy[:, t].reshape(B, P, P, C)
            t += 1
    return out


@right("merge_patches")
def r_merge(x):
    B, H, W, C = x.shape
    return np.einsum("bhiwjc->bhwjic", x.reshape(B, H // 2, 2, W // 2, 2, C)).reshape(B, H // 2, W // 2, 4 * C)


@right("triplet_loss_backward")
def r_triplet_bwd(dloss, anchors, positives, negatives, margin=1.0):
    a, p, n = (torch.tensor(np.array(t), requires_grad=True) for t in (anchors, positives, negatives))
    d1, d2 = (a - p).pow(2).sum(1).sqrt(), (a - n).pow(2).sum(1).sqrt()
    (torch.relu(d1 - d2 + margin).mean() * float(dloss)).backward()
    return a.grad.numpy(), p.grad.numpy(), n.grad.numpy()


@right("generalized_iou")
def r_giou(a, b):
    out = np.empty(a.shape[:-1], a.dtype)
    for n in np.ndindex(out.shape):
        ax0, ay0, ax1, ay1 = a[n]
        bx0, by0, bx1, by1 = b[n]
        w, h = min(ax1, bx1) - max(ax0, bx0), min(ay1, by1) - max(ay0, by0)
        inter = w * h if w > 0 and h > 0 else 0.0
        union = (ax1 - ax0) * (ay1 - ay0) + (bx1 - bx0) * (by1 - by0) - inter
        hull = (max(ax1, bx1) - min(ax0, bx0)) * (max(ay1, by1) - min(ay0, by0))
        out[n] = (inter / union if union else 0.0) + (union / hull - 1 if hull else 0.0)
    return out


@right("additive_scores_backward")
def r_bahdanau_bwd(dscores, q, k, v):
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for i in range(q.shape[1]):
        for j in range(k.shape[1]):
            t = np.tanh(q[:, i] + k[:, j])
            g = dscores[:, i, j, None]
            dv += (g * t).sum(0)
            d = g * v * (1 - t) * (1 + t)
            dq[:, i] += d
            dk[:, j] += d
    return dq, dk, dv


@right("low_rank_attention")
def r_linformer(q, k, v, E, F):
    # (E k)^T = k^T E^T: mix the scores instead of the keys
    z = np.einsum("bhts,rs->bhtr", np.einsum("bhtd,bhsd->bhts", q, k), E) / np.sqrt(q.shape[-1])
    p = sp.softmax(z, axis=-1)
    return np.einsum("bhtr,bhre->bhte", p, np.tensordot(v, F, axes=(2, 1)).swapaxes(2, 3))
