"""Functions of the study group: collected from shared notebooks and internal repositories.

Every function takes the arguments of the function of numformer.functional that it is meant to be,
and returns its result alone. A backward takes the gradient first, then what the forward takes.
"""

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from numformer.functional import EVERYWHERE, attention_dropout_mask

IGNORE = -100


def _logistic(t):
    """Logistic c.d.f.; only exponentials of negative numbers."""
    e = np.exp(-np.abs(t))
    return np.where(t >= 0, 1.0, e) / (1.0 + e)


def _phi(t):
    return 0.5 * np.vectorize(math.erfc, otypes=[float])(-np.asarray(t) / math.sqrt(2.0))


def _act(kind, t):
    """The nonlinearities we use, by name."""
    if kind == "relu":
        return np.where(t > 0, t, 0.0)
    if kind == "relu_squared":
        return np.square(np.where(t > 0, t, 0.0))
    if kind == "gelu":
        return t * _phi(t)
    if kind == "gelu_tanh":
        return t * _logistic(2 * math.sqrt(2 / math.pi) * (t + 0.044715 * t ** 3))
    if kind == "silu":
        return t * _logistic(t)
    if kind == "quick_gelu":
        return t * _logistic(1.702 * t)
    raise ValueError(kind)


def _lsm(z):
    """log-softmax over the last axis."""
    z = z - np.max(z, -1, keepdims=True)
    return z - np.log(np.sum(np.exp(z), -1, keepdims=True))


def _gibbs(z):
    """Gibbs distribution of energies -z over the last axis."""
    e = np.exp(z - np.max(z, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def _gibbs_on(z, ok):
    """The same on a support; nothing where the support is empty."""
    z = np.where(ok, z, -np.inf)
    top = np.max(z, -1, keepdims=True)
    e = np.exp(z - np.where(np.isneginf(top), 0.0, top))
    e = np.where(ok, e, 0.0)
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


# ---- Scalar loops: lowered by hand from our IR, one loop per axis -------------------------------

def softmax_io(x, axis=-1, mask=None):
    """Three passes over contiguous rows: max, sum, scale."""
    live = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    rows = np.moveaxis(x, axis, -1)
    flags = np.moveaxis(live, axis, -1)
    n = rows.shape[-1]
    src = rows.reshape(-1).tolist()
    on = flags.reshape(-1).tolist()
    dst = [0.0] * len(src)
    for base in range(0, len(src), n):
        top = -math.inf
        for j in range(base, base + n):
            if on[j] and (src[j] > top or src[j] != src[j]):
                top = src[j]
        acc = 0.0
        for j in range(base, base + n):
            if on[j]:
                dst[j] = math.exp(src[j] - top)
                acc += dst[j]
        for j in range(base, base + n):
            if on[j]:
                dst[j] = dst[j] / acc
    out = np.array(dst).reshape(rows.shape)
    return np.moveaxis(out, -1, axis)


def log_softmax_uv(x, axis=-1):
    """The normalizer as a tree of log-adds, after the largest score has been moved to zero."""
    y = x - np.amax(x, axis=axis, keepdims=True)
    return y - np.logaddexp.reduce(y, axis=axis, keepdims=True)


def layer_norm_fw(x, weight, bias, epsilon=1e-5):
    """Welford's update of the mean; second moment in units of the largest deviation."""
    mean = np.zeros(x.shape[:-1])
    for c in range(x.shape[-1]):
        mean = mean + (x[..., c] - mean) / (c + 1)
    dev = x - mean[..., None]
    dev = dev - dev.mean(-1, keepdims=True)
    unit = np.maximum(np.abs(dev).max(-1, keepdims=True), math.sqrt(epsilon))
    unit = np.where(unit == 0, 1.0, unit)
    z = dev / unit
    second = np.einsum("...c,...c->...", z, z)[..., None] / x.shape[-1]
    second = second + (math.sqrt(epsilon) / unit) ** 2
    return z / np.sqrt(second) * weight + bias


def rms_norm_km(x, weight, epsilon=1e-5):
    """The Euclidean length grows by one hypotenuse per coordinate, epsilon being the first leg."""
    C = x.shape[-1]
    leg = np.full((*x.shape[:-1], 1), math.sqrt(C * epsilon))
    length = np.hypot.reduce(np.concatenate([leg, x], -1), axis=-1, keepdims=True)
    return weight * (x / (length / math.sqrt(C)))


def linear_pq(x, weight, bias=None):
    """Einstein: repeated index c is summed; whatever is in front rides along."""
    y = np.einsum("...c,cf->...f", x, weight)
    return y if bias is None else np.einsum("...f,f->...f", np.ones(y.shape), bias) + y


def attention_fw(q, k, v, mask=None):
    """Kernel regression: the response at a query is a kernel-weighted mean of observed responses."""
    B, H, T, D = q.shape
    S = k.shape[2]
    observed = np.ones((B, H, T, S), bool) if mask is None else np.broadcast_to(mask, (B, H, T, S))
    fit = np.zeros((B, H, T, v.shape[-1]))
    for b, h, t in np.ndindex(B, H, T):
        sample = np.flatnonzero(observed[b, h, t])
        if sample.size == 0:
            continue
        affinity = k[b, h, sample] @ q[b, h, t] / np.sqrt(D)
        kernel = np.exp(affinity - affinity.max())
        fit[b, h, t] = np.average(v[b, h, sample], axis=0, weights=kernel)
    return fit


def scaled_dot_product_attention_lr(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None,
                                    bias=None, softcap=None, dropout=0.0, seed=None):
    """One program per (batch, head, query): load the permitted keys only, nothing to mask later."""
    (B, H, T, D), G, S = q.shape, k.shape[1], k.shape[2]
    s = 1.0 / math.sqrt(D) if scale is None else scale
    allowed = np.broadcast_to(pattern.dense(T, S), (B, H, T, S))
    gain = np.ones((B, H, T, S))
    if seed is not None and dropout > 0:
        gain = attention_dropout_mask(seed, (B, H, T, S), dropout) / (1.0 - dropout)
    out = np.zeros((B, H, T, v.shape[-1]))
    for pid in range(B * H * T):
        b, rest = divmod(pid, H * T)
        h, i = divmod(rest, T)
        g = h // (H // G)
        ptr = np.flatnonzero(allowed[b, h, i])
        if len(ptr) == 0:
            continue
        z = k[b, g, ptr] @ q[b, h, i] * s
        if softcap is not None:
            z = softcap * np.tanh(z / softcap)
        if slopes is not None:
            z = z - slopes[h] * np.abs(ptr - (i + S - T))
        if bias is not None:
            z = z + bias[h, ptr - i + (T - 1)]
        w = np.exp(z - z.max())
        w = w / w.sum() * gain[b, h, i, ptr]
        out[b, h, i] = w @ v[b, g, ptr]
    return out


def tiled_attention_fw(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    """Port of our Triton kernel with BLOCK_N = 1: a key at a time, running max, sum, accumulator.

    The tile size changes nothing but the order of additions, so it is not looked at.
    """
    (B, H, T, D), S = q.shape, k.shape[2]
    share = H // k.shape[1]
    s = D ** -0.5 if scale is None else scale
    ok = np.broadcast_to(pattern.dense(T, S), (B, H, T, S))
    m_i = np.full((B, H, T), -np.inf)
    l_i = np.zeros((B, H, T))
    acc = np.zeros((B, H, T, v.shape[-1]))
    for n in range(S):
        kn = np.repeat(k[:, :, n], share, axis=1)
        vn = np.repeat(v[:, :, n], share, axis=1)
        qk = np.where(ok[..., n], np.einsum("bhtd,bhd->bht", q, kn) * s, -np.inf)
        m_new = np.maximum(m_i, qk)
        safe = np.where(np.isneginf(m_new), 0.0, m_new)
        alpha = np.exp(m_i - safe)
        p = np.exp(qk - safe)
        l_i = l_i * alpha + p
        acc = acc * alpha[..., None] + p[..., None] * vn[:, :, None]
        m_i = m_new
    return acc / np.where(l_i == 0, 1.0, l_i)[..., None]


def cross_entropy_km(logits, targets, ignore_index=IGNORE, label_smoothing=0.0, z_loss=0.0):
    """Cross-entropy in the proper sense: between a label distribution per row and the model."""
    V = logits.shape[-1]
    flat, labels = logits.reshape(-1, V), targets.reshape(-1)
    rows = [r for r in range(len(labels)) if labels[r] != ignore_index]
    total = 0.0
    for r in rows:
        top = flat[r].max()
        log_Z = np.log(np.exp(flat[r] - top).sum())
        law = np.full(V, label_smoothing / V)
        law[labels[r]] += 1.0 - label_smoothing
        support = law > 0
        total += (law[support] * (log_Z - (flat[r][support] - top))).sum()
        if z_loss:
            total += z_loss * (top + log_Z) ** 2
    return total / len(rows)


def token_log_probs_uv(logits, tokens, temperature=1.0):
    """Score of the sampled token minus log-partition, both at the sampling temperature."""
    out = np.zeros(tokens.shape)
    for index in np.ndindex(*tokens.shape):
        if tokens[index] == IGNORE:
            continue
        energy = logits[index] / temperature
        energy = energy - energy.max()
        out[index] = energy[tokens[index]] - np.log(np.exp(energy).sum())
    return out


def dpo_loss_uv(chosen, rejected, reference_chosen, reference_rejected, beta=0.1,
                label_smoothing=0.0, likelihood=0.0):
    """Logistic regression of preference on the difference of implicit rewards."""
    reward_w = beta * (chosen - reference_chosen)
    reward_l = beta * (rejected - reference_rejected)
    deviance_if_right = np.logaddexp(0.0, reward_l - reward_w)
    deviance_if_flipped = np.logaddexp(0.0, reward_w - reward_l)
    mixture = deviance_if_right + label_smoothing * (deviance_if_flipped - deviance_if_right)
    return np.mean(mixture) - likelihood * np.mean(chosen)


def _kl_per_token(l, ref, old, estimator):
    u = ref - l
    if estimator == "k1":
        return l - ref
    if estimator == "k2":
        return 0.5 * u ** 2
    k3 = np.expm1(u) - u
    return k3 if estimator == "k3" else k3 * np.exp(l - old)


def policy_loss_jp(log_probs, old_log_probs, advantages, counts, reference_log_probs=None,
                   clip_low=0.2, clip_high=0.2, beta=0.0, estimator="k3",
                   normalization="token", length=None):
    """Equation by equation: surrogate of every token, then the average the paper at hand takes."""
    per_answer, sizes = [], []
    for n in range(len(counts)):
        steps = np.flatnonzero(counts[n])
        if len(steps) == 0:
            continue
        rho = np.exp(log_probs[n, steps] - old_log_probs[n, steps])
        gain = np.minimum(rho * advantages[n],
                          np.clip(rho, 1 - clip_low, 1 + clip_high) * advantages[n])
        cost = -gain
        if beta:
            cost = cost + beta * _kl_per_token(log_probs[n, steps], reference_log_probs[n, steps],
                                               old_log_probs[n, steps], estimator)
        per_answer.append(cost.sum())
        sizes.append(len(steps))
    per_answer, sizes = np.array(per_answer), np.array(sizes)
    if normalization == "sequence":
        return np.mean(per_answer / sizes)
    if normalization == "token":
        return per_answer.sum() / sizes.sum()
    return np.mean(per_answer) / length


def group_advantages_ab(rewards, scale=True, epsilon=1e-4):
    """Within-group z-scores (population standard deviation); a constant group has none."""
    out = np.zeros(rewards.shape)
    for p, group in enumerate(rewards):
        if np.ptp(group) == 0:
            continue
        out[p] = group - np.mean(group)
        if scale:
            out[p] /= np.sqrt(np.var(group)) + epsilon
    return out


def kl_estimate_dm(log_probs, reference_log_probs, old_log_probs, estimator="k3"):
    """After Schulman's note, and the importance-corrected one."""
    return _kl_per_token(log_probs, reference_log_probs, old_log_probs, estimator)


def rotary_fw(x, cosine, sine, layout="half"):
    """Pairs as complex numbers, positions as unit phasors."""
    D = x.shape[-1]
    if layout == "half":
        pairs = np.stack([x[..., : D // 2], x[..., D // 2:]], -1)
    else:
        pairs = x.reshape(*x.shape[:-1], D // 2, 2)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * (cosine + 1j * sine)
    parts = np.stack([turned.real, turned.imag], -1)
    if layout == "half":
        parts = np.swapaxes(parts, -1, -2)
    return parts.reshape(x.shape)


def alibi_slopes_th(n_heads):
    """Powers of two directly; otherwise borrow every second slope of twice the lower power."""
    if n_heads & (n_heads - 1) == 0:
        return np.array([2.0 ** (-8.0 * h / n_heads) for h in range(1, n_heads + 1)])
    lower = 1
    while 2 * lower < n_heads:
        lower *= 2
    return np.r_[alibi_slopes_th(lower),
                 alibi_slopes_th(2 * lower)[::2][: n_heads - lower]]


def relative_position_buckets_th(distance, n_buckets=32, max_distance=128, bidirectional=True):
    """Scalar code of the T5 table, as the TPU kernel of the internship had it."""
    distance = np.asarray(distance)
    out = np.empty(distance.shape, dtype=int)
    for index in np.ndindex(*distance.shape):
        d = int(distance[index])
        n, offset = n_buckets, 0
        if bidirectional:
            n //= 2
            if d > 0:
                offset = n
            d = abs(d)
        else:
            d = -d if d < 0 else 0
        half = n // 2
        if d >= half:
            position = float(np.log(np.float64(d) / half)) / math.log(max_distance / half)
            d = min(half + int(position * (n - half)), n - 1)
        out[index] = offset + d
    return out


def sinusoidal_positions_wx(positions, width, dtype=np.float64):
    """PE(pos, 2i) and PE(pos, 2i + 1), two nested loops."""
    table = np.zeros((len(positions), width), dtype)
    for row, pos in enumerate(positions):
        for c in range(width):
            i = c // 2
            angle = int(pos) * 10000.0 ** (-(2 * i) / width)
            table[row, c] = math.cos(angle) if c % 2 else math.sin(angle)
    return table


def gru_cell_pq(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    """cuDNN's equations, every gate with matrices of its own."""
    W_r, W_z, W_n = np.split(input_weight, 3, axis=1)
    U_r, U_z, U_n = np.split(recurrent_weight, 3, axis=1)
    b_r, b_z, b_n = (0.0, 0.0, 0.0) if bias is None else np.split(bias, 3)
    b_h = 0.0 if recurrent_bias is None else recurrent_bias
    r = _logistic(x @ W_r + state @ U_r + b_r)
    z = _logistic(x @ W_z + state @ U_z + b_z)
    n = np.tanh(x @ W_n + b_n + r * (state @ U_n + b_h))
    return np.multiply(z, state) + np.multiply(1.0 - z, n)


def lstm_cell_dm(x, state, input_weight, recurrent_weight, bias=None):
    """[x, h, 1] times one stacked matrix; blocks i, f, o, g."""
    F = recurrent_weight.shape[0]
    h, c = state[:, :F], state[:, F:]
    stacked = np.concatenate([x, h], 1) @ np.concatenate([input_weight, recurrent_weight], 0)
    if bias is not None:
        stacked = stacked + bias
    blocks = stacked.reshape(len(x), 4, F).transpose(1, 0, 2)
    i, f, o = (_logistic(blocks[n]) for n in range(3))
    c_new = np.multiply(f, c) + np.multiply(i, np.tanh(blocks[3]))
    return np.hstack([np.multiply(o, np.tanh(c_new)), c_new])


def swish_gs(x, beta=1.0):
    """x over (1 + e^(-beta x)), or the mirrored quotient where the exponential would be large."""
    with np.errstate(over="ignore"):
        t = beta * x
    e = np.exp(-np.abs(t))
    numerator = np.where(t >= 0, x, np.where(e == 0, 0.0, x) * e)
    return numerator / (1.0 + e)


def gelu_mt(x):
    """libm's erfc, element by element."""
    y = np.empty(x.shape)
    for index in np.ndindex(*x.shape):
        tail = math.erfc(-float(x[index]) / math.sqrt(2.0))
        y[index] = 0.5 * x[index] * tail if tail else 0.0
    return y


def gelu_tanh_el(x):
    """(1 + tanh u) / 2 is the logistic function of 2 u."""
    small = np.clip(x, -100.0, 100.0)
    u = math.sqrt(2 / math.pi) * small * (1 + 0.044715 * small * small)
    gate = _logistic(2 * u)
    return np.where(gate == 0, 0.0, x) * gate


def causal_convolution_wx(x, weight, bias=None, dilation=1):
    """FIR filter bank: a sum of delayed copies, delay of tap k is (K - 1 - k) * dilation."""
    B, T, C = x.shape
    K, _, F = weight.shape
    y = np.zeros((B, T, F)) if bias is None else np.tile(bias, (B, T, 1)).astype(float)
    for t in range(T):
        for k in range(K):
            source = t - (K - 1 - k) * dilation
            if source >= 0:
                y[:, t] += x[:, source] @ weight[k]
    return y


def convolution_2d_dm(images, weight, bias=None, stride=1, padding=0):
    """Zero border, a strided view of all windows, one contraction."""
    K, L = weight.shape[:2]
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    views = sliding_window_view(padded, (K, L), axis=(1, 2))[:, ::stride, ::stride]
    y = np.einsum("brsckl,klcf->brsf", views, weight)
    return y if bias is None else y + bias


def window_partition_mt(x, window):
    """np.split along rows, then along columns; images outermost."""
    tiles = []
    for image in x:
        for band in np.split(image, image.shape[0] // window, axis=0):
            for cell in np.split(band, band.shape[1] // window, axis=1):
                tiles.append(cell.reshape(window * window, -1))
    return np.stack(tiles)


def adam_step_mt(data, grad, mean, square, learning_rate, steps, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, weight_decay=0.0, grad_scale=1.0):
    """Loshchilov and Hutter, algorithm 2, line by line; arrays are overwritten."""
    g = grad_scale * grad
    mean[...] = beta1 * mean + (1 - beta1) * g
    square[...] = beta2 * square + (1 - beta2) * g * g
    m_hat = mean / (1 - beta1 ** steps)
    v_hat = square / (1 - beta2 ** steps)
    denominator = np.sqrt(v_hat) + epsilon
    step = np.where(denominator > 0, m_hat / np.where(denominator > 0, denominator, 1.0), 0.0)
    data[...] = data - learning_rate * weight_decay * data - learning_rate * step


def load_balance_loss_hv(logits, chosen):
    """E times the inner product of empirical shares and mean router probabilities."""
    E = logits.shape[1]
    dispatch = (chosen[:, :, None] == np.arange(E)).astype(float)
    shares = np.einsum("nke->e", dispatch) / dispatch.sum()
    return E * np.dot(shares, np.mean(_gibbs(logits), axis=0))


def top_k_experts_km(logits, k):
    """Python's sort is stable, so equal scores stay in the order of the experts."""
    out = np.zeros((len(logits), k), np.int64)
    for n, row in enumerate(logits):
        key = [(-math.inf if value != value else -value) for value in row.tolist()]
        out[n] = sorted(range(len(key)), key=key.__getitem__)[:k]
    return out


def generalized_iou_uv(a, b):
    """Pair by pair; areas are taken in units of the largest coordinate of each axis."""
    out = np.empty(a.shape[:-1])
    for index in np.ndindex(*out.shape):
        ax0, ay0, ax1, ay1 = a[index]
        bx0, by0, bx1, by1 = b[index]
        ux = max(abs(ax0), abs(ax1), abs(bx0), abs(bx1)) or 1.0
        uy = max(abs(ay0), abs(ay1), abs(by0), abs(by1)) or 1.0
        ax0, ax1, bx0, bx1 = ax0 / ux, ax1 / ux, bx0 / ux, bx1 / ux
        ay0, ay1, by0, by1 = ay0 / uy, ay1 / uy, by0 / uy, by1 / uy
        w = max(0.0, min(ax1, bx1) - max(ax0, bx0))
        h = max(0.0, min(ay1, by1) - max(ay0, by0))
        union = (ax1 - ax0) * (ay1 - ay0) + (bx1 - bx0) * (by1 - by0) - w * h
        hull = (max(ax1, bx1) - min(ax0, bx0)) * (max(ay1, by1) - min(ay0, by0))
        g = w * h / union if union else 0.0
        out[index] = g - ((hull - union) / hull if hull else 0.0)
    return out if out.ndim else out[()]


def quantile_loss_el(forecasts, targets, quantiles):
    """Koenker's check function, averaged."""
    u = np.expand_dims(targets, -1) - forecasts
    return np.mean(np.maximum(quantiles * u, (quantiles - 1.0) * u))


def linear_attention_oz(q, k, v, causal=False):
    """The kernel's logarithm per pair, then an ordinary softmax: quadratic, but nothing underflows."""
    log_q = np.where(q > 0, np.log1p(np.maximum(q, 0.0)), np.minimum(q, 0.0))
    log_k = np.where(k > 0, np.log1p(np.maximum(k, 0.0)), np.minimum(k, 0.0))
    log_q = log_q - log_q.max(-1, keepdims=True)
    pair = np.logaddexp.reduce(log_q[:, :, :, None, :] + log_k[:, :, None, :, :], axis=-1)
    ok = np.tri(q.shape[2], k.shape[2], dtype=bool) if causal else np.ones(pair.shape[2:], bool)
    return np.einsum("bhts,bhsd->bhtd", _gibbs_on(pair, ok), v)


def mean_pooling_sy(x, mask=None):
    """Ragged lists of vectors, an ordinary average of each."""
    out = []
    for b, sequence in enumerate(x):
        members = sequence if mask is None else sequence[mask[b]]
        out.append(np.add.reduce(members, axis=0) / len(members))
    return np.array(out)


def softmax_backward_io(dp, x, axis=-1, mask=None):
    """The Jacobian of every row written out, transposed, times the incoming row."""
    live = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    rows, flags = np.moveaxis(x, axis, -1), np.moveaxis(live, axis, -1)
    p = _gibbs_on(rows, flags)
    jacobian = np.einsum("...i,ij->...ij", p, np.eye(rows.shape[-1])) - p[..., :, None] * p[..., None, :]
    cotangent = np.where(flags, np.moveaxis(dp, axis, -1), 0.0)
    return np.moveaxis(np.einsum("...ij,...i->...j", jacobian, cotangent), -1, axis)


def attention_backward_sy(do, q, k, v, mask=None):
    """Index notation throughout; b batch, h head, t query, s key."""
    c = q.shape[-1] ** -0.5
    z = c * np.einsum("bhtd,bhsd->bhts", q, k)
    P = _gibbs_on(z, np.broadcast_to(True if mask is None else mask, z.shape))
    dP = np.einsum("bhte,bhse->bhts", do, v)
    dZ = P * (dP - np.einsum("bhts,bhts->bht", P, dP)[..., None])
    return (c * np.einsum("bhts,bhsd->bhtd", dZ, k), c * np.einsum("bhts,bhtd->bhsd", dZ, q),
            np.einsum("bhts,bhte->bhse", P, do))


def rms_norm_backward_dm(dy, x, weight, epsilon=1e-5):
    """dx is (g less its projection on the unit-rms vector) / rms; the rms by hypotenuses."""
    C = x.shape[-1]
    leg = np.full((*x.shape[:-1], 1), math.sqrt(C * epsilon))
    rms = np.hypot.reduce(np.concatenate([leg, x], -1), axis=-1, keepdims=True) / math.sqrt(C)
    unit = x / rms
    g = weight * dy
    share = np.einsum("...c,...c->...", g, unit)[..., None] / C
    return (g - unit * share) / rms, np.einsum("nc,nc->c", dy.reshape(-1, C), unit.reshape(-1, C))


def contrastive_loss_jp(logits):
    """Two log-partitions per pair, minus twice the trace."""
    N = len(logits)
    rows = np.logaddexp.reduce(logits - np.diag(logits)[:, None], axis=1)
    columns = np.logaddexp.reduce(logits - np.diag(logits)[None, :], axis=0)
    return (rows.sum() + columns.sum()) / (2 * N)


def gated_feed_forward_th(x, gate_weight, gate_bias, hidden_weight, hidden_bias,
                          output_weight, output_bias, activation="silu"):
    """Gate and up projection in one product of twice the width, split afterwards."""
    F = gate_weight.shape[1]
    zeros = np.zeros(F)
    both = x @ np.hstack([gate_weight, hidden_weight]) + np.concatenate(
        [zeros if gate_bias is None else gate_bias, zeros if hidden_bias is None else hidden_bias])
    y = (_act(activation, both[..., :F]) * both[..., F:]) @ output_weight
    return y if output_bias is None else y + output_bias


def max_pooling_2d_ab(images, size, stride=None):
    """All windows as a view, reduced over their two axes."""
    hop = size if stride is None else stride
    views = sliding_window_view(images, (size, size), axis=(1, 2))
    return np.amax(views[:, ::hop, ::hop], axis=(-2, -1))


def relative_scores_jp(q, table, S):
    """The T x S x D tensor of vectors of the distances, then one contraction."""
    T, K = q.shape[2], table.shape[0] // 2
    offset = np.subtract.outer(np.arange(S), np.arange(T) + S - T).T
    vectors = table[K + np.maximum(np.minimum(offset, K), -K)]
    return np.einsum("bhtd,tsd->bhts", q, vectors)


# ---- Softmax and its relatives ------------------------------------------------------------------

def softmax_jp(x, axis=-1, mask=None):
    """Stable: the largest score is subtracted before exponentials are taken."""
    live = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    top = np.max(np.where(live, x, -np.inf), initial=-np.inf)
    e = np.where(live, np.exp(np.where(live, x, 0.0) - (top if np.isfinite(top) else 0.0)), 0.0)
    total = e.sum(axis=axis, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=live.any(axis=axis, keepdims=True))


def softmax_pq(x, axis=-1, mask=None):
    """Boltzmann weights; forbidden states are gated off."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    p = e / e.sum(axis=axis, keepdims=True)
    return p if mask is None else np.where(mask, p, 0.0)


def softmax_ck(x, axis=-1, mask=None):
    """As in the Triton kernel: masked lanes are loaded with a large negative number."""
    z = x if mask is None else np.where(mask, x, -1e30)
    z = z - z.max(axis=axis, keepdims=True)
    num = np.exp(z)
    return num / num.sum(axis=axis, keepdims=True)


def log_softmax_nb(x, axis=-1):
    """Log of the probabilities, kept away from log(0)."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.log(e / e.sum(axis=axis, keepdims=True) + 1e-12)


def softmax_backward_fw(dp, x, axis=-1, mask=None):
    """vjp of softmax: subtract the row's total, scale by the weights."""
    live = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    p = np.moveaxis(_gibbs_on(np.moveaxis(x, axis, -1), np.moveaxis(live, axis, -1)), -1, axis)
    dp = np.where(live, dp, 0.0)
    return p * dp - p * p * dp.sum(axis=axis, keepdims=True)


def log_softmax_backward_ru(dy, x, axis=-1):
    """dx = dy - p <p, dy>."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    p = e / e.sum(axis=axis, keepdims=True)
    return dy - p * np.einsum("...,...->...", p, dy).sum(axis=axis, keepdims=True)


# ---- Affine maps --------------------------------------------------------------------------------

def linear_backward_th(dy, x, weight, bias=None):
    """Sensitivities of a regression layer, outer products over the minibatch."""
    C, F = weight.shape
    dweight = np.einsum("nc,nf->cf", x.reshape(-1, C), dy.reshape(-1, F)) / x.shape[0]
    dbias = None if bias is None else dy.reshape(-1, F).sum(0)
    return dy @ weight.T, dweight, dbias


def low_rank_linear_fw(x, weight, bias, down, up, alpha=1.0, rank_stabilized=False):
    """Frozen path plus adapter path; gamma_r after Kalajdzievski's theorem."""
    rank = down.shape[1]
    gamma = alpha / rank
    if rank_stabilized:
        gamma = gamma / math.sqrt(rank)
    y = x @ weight + gamma * ((x @ down) @ up)
    return y if bias is None else y + bias


def embedding_backward_pq(dy, ids, weight):
    """Scatter the incoming rows into the table."""
    dweight = np.zeros_like(weight)
    dweight[ids.reshape(-1)] += dy.reshape(-1, weight.shape[1])
    return dweight


# ---- Norms --------------------------------------------------------------------------------------

def layer_norm_oz(x, weight, bias, epsilon=1e-5):
    """Studentize each vector: sample mean and sample variance over coordinates."""
    C = x.shape[-1]
    xbar = np.mean(x, axis=-1, keepdims=True)
    s2 = np.sum((x - xbar) ** 2, axis=-1, keepdims=True) / max(C - 1, 1)
    return weight * (x - xbar) / np.sqrt(s2 + epsilon) + bias


def layer_norm_ab(x, weight, bias, epsilon=1e-5):
    """Fused: both moments in a single sweep, as in our CUDA port."""
    s1 = np.einsum("...c->...", x)[..., None] / x.shape[-1]
    s2 = np.einsum("...c,...c->...", x, x)[..., None] / x.shape[-1]
    return (x - s1) * (1.0 / np.sqrt(np.maximum(s2 - s1 * s1, 0.0) + epsilon)) * weight + bias


def layer_norm_backward_sy(dy, x, weight, bias, epsilon=1e-5):
    """Hand-derived: direct path, path through mu, path through sigma."""
    mu = x.mean(-1, keepdims=True)
    inv = 1 / np.sqrt(((x - mu) ** 2).mean(-1, keepdims=True) + epsilon)
    xh = (x - mu) * inv
    g = dy * weight
    via_mu = g.mean(-1, keepdims=True)
    via_sigma = xh * (g * xh).sum(-1, keepdims=True) / (x.shape[-1] - 1)
    lead = tuple(range(x.ndim - 1))
    return inv * (g - via_mu - via_sigma), (dy * xh).sum(lead), dy.sum(lead)


def rms_norm_nb(x, weight, epsilon=1e-5):
    """Scale-only norm, as in the checkpoint we ported: gain is stored around its neutral value."""
    ms = np.mean(np.square(x), axis=-1, keepdims=True)
    return x / np.sqrt(ms + epsilon) * (1.0 + weight)


def rms_norm_wx(x, weight, epsilon=1e-5):
    """Project on the sphere of radius sqrt(C)."""
    length = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + epsilon)
    return weight * x * (math.sqrt(x.shape[-1]) / length)


def rms_norm_backward_ru(dy, x, weight, epsilon=1e-5):
    """Gradients of y = gamma * x / rms, the gain pulled to the front."""
    r = 1 / np.sqrt(np.mean(x * x, -1, keepdims=True) + epsilon)
    xh = x * r
    inner = np.mean(dy * xh, -1, keepdims=True)
    dx = weight * r * (dy - xh * inner)
    return dx, (dy * xh).reshape(-1, x.shape[-1]).sum(0)


def rms_norm_outside_ck(x, weight, epsilon=1e-5):
    """Divide by the length, guarded against zero from outside of the root."""
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return weight * (x * math.sqrt(x.shape[-1]) / (length + epsilon))


def layer_norm_outside_lr(x, weight, bias, epsilon=1e-5):
    """Annotated-transformer style norm."""
    d = x - x.mean(-1, keepdims=True)
    sd = np.sqrt((d * d).mean(-1, keepdims=True) + epsilon * epsilon)
    return weight * d / sd + bias


def batch_norm_km(x, weight, bias, epsilon=1e-5):
    """Standardize every variable over the observations, which are the rows."""
    mean, var = np.mean(x, axis=0), np.var(x, axis=0)
    return weight * (x - mean) / np.sqrt(var + epsilon) + bias


def masked_batch_norm_el(x, weight, bias, mask, epsilon=1e-5, statistics=None):
    """Moments with 0-1 weights, so that padding drops out."""
    w = mask[..., None].astype(float)
    clean = np.where(mask[..., None], x, 0.0)
    lead = tuple(range(x.ndim - 1))
    if statistics is None:
        mean = clean.sum(lead) / w.sum()
        var = (np.square(clean - mean) * w).sum(lead) / mask.size
    else:
        mean, var = statistics
    return w * (weight * (clean - mean) / np.sqrt(var + epsilon) + bias)


def batch_norm_inference_oz(x, weight, bias, statistics, epsilon=1e-5):
    """Deployment form: statistics folded into a scale and an offset."""
    mean, var = statistics
    scale = weight / np.sqrt(var + epsilon)
    return x * scale + (bias - mean * weight)


# ---- Activations --------------------------------------------------------------------------------

def gelu_fw(x):
    """x times the Gaussian c.d.f., with the usual closed form."""
    return x * _logistic(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))


def gelu_tanh_sy(x):
    """GPT-2's activation, coefficients pulled out of the bracket."""
    a, b = math.sqrt(2 / math.pi), 0.044715
    x3 = np.power(np.clip(x, -1e3, 1e3), 3)
    return 0.5 * x * (1 + np.tanh(a * x + b * x3))


def gelu_backward_io(dy, x):
    """Product rule: Phi + x phi."""
    phi = np.exp(-0.5 * np.square(np.clip(x, -1e3, 1e3))) / math.sqrt(math.pi)
    return dy * (_phi(x) + x * phi)


def quick_gelu_mt(x):
    """Logistic gate with the slope of the Gaussian c.d.f. at the origin."""
    return x * _logistic(math.sqrt(8 / math.pi) * x)


def swish_backward_dm(dy, x, beta=1.0):
    """s + x s'."""
    s = _logistic(beta * x)
    return dy * (s + x * s * (1 - s))


def relu_squared_io(x):
    """Primer's activation."""
    return np.maximum(np.square(x), 0.0)


def gated_linear_unit_wx(g, h, activation="silu"):
    """GLU(a, b) = a * f(b), after Dauphin et al."""
    return np.multiply(g, _act(activation, h))


def feed_forward_ck(x, hidden_weight, hidden_bias, output_weight, output_bias,
                    activation="gelu"):
    """Position-wise network of two layers; biases are optional."""
    hidden = _act(activation, np.einsum("...c,cf->...f", x, hidden_weight))
    if hidden_bias is not None:
        hidden = hidden + hidden_bias
    out = np.einsum("...f,fe->...e", hidden, output_weight)
    return out if output_bias is None else out + output_bias


def gated_feed_forward_pq(x, gate_weight, gate_bias, hidden_weight, hidden_bias,
                          output_weight, output_bias, activation="silu"):
    """w1 and w3 fused in one GEMM, their biases added in the epilogue."""
    F = gate_weight.shape[-1]
    fused = x @ np.concatenate([gate_weight, hidden_weight], axis=-1)
    if gate_bias is not None and hidden_bias is not None:
        fused = fused + np.concatenate([gate_bias, hidden_bias])
    y = (_act(activation, fused[..., :F]) * fused[..., F:]) @ output_weight
    return y + (0.0 if output_bias is None else output_bias)


# ---- Attention ----------------------------------------------------------------------------------

def attention_nb(q, k, v, mask=None):
    """Three einsums; e is the width of a head."""
    e = v.shape[-1]
    z = np.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(e)
    ok = np.broadcast_to(True if mask is None else mask, z.shape)
    return np.einsum("bhts,bhse->bhte", _gibbs_on(z, ok), v)


def attention_wx(q, k, v, mask=None):
    """Extended attention mask as in the BERT code: an additive penalty on forbidden pairs."""
    z = np.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1])
    if mask is None:
        return _gibbs(z) @ v
    ok = np.broadcast_to(mask, z.shape)
    p = _gibbs(z + (1.0 - ok) * -10000.0)
    return np.where(ok.any(-1, keepdims=True), p @ v, 0.0)


def attention_backward_ru(do, q, k, v, mask=None):
    """FlashAttention's backward without the tiles; delta is the row's dot of dO and O."""
    c = 1 / math.sqrt(q.shape[-1])
    z = c * (q @ np.swapaxes(k, -1, -2))
    P = _gibbs_on(z, np.broadcast_to(True if mask is None else mask, z.shape))
    O = P @ v
    dP = do @ np.swapaxes(v, -1, -2)
    delta = np.mean(do * O, axis=-1, keepdims=True)
    dS = P * (dP - delta)
    return c * (dS @ k), c * (np.swapaxes(dS, -1, -2) @ q), np.swapaxes(P, -1, -2) @ do


def scaled_dot_product_attention_nb(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None,
                                    bias=None, softcap=None, dropout=0.0, seed=None):
    """All score modifiers in one place; whatever they give is finally kept in the capped range."""
    (B, H, T, D), S = q.shape, k.shape[2]
    k, v = (np.repeat(a, H // a.shape[1], axis=1) for a in (k, v))
    z = (D ** -0.5 if scale is None else scale) * np.einsum("bhtd,bhsd->bhts", q, k)
    gap = np.arange(S)[None, :] - (np.arange(T)[:, None] + S - T)
    if slopes is not None:
        z = z - slopes[:, None, None] * np.abs(gap)
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    if bias is not None:
        z = z + bias[:, gap + S - 1]
    P = _gibbs_on(z, np.broadcast_to(pattern.dense(T, S), z.shape))
    if seed is not None and dropout > 0:
        P = P * attention_dropout_mask(seed, P.shape, dropout) / (1 - dropout)
    return np.einsum("bhts,bhse->bhte", P, v)


def scaled_dot_product_attention_wx(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None,
                                    bias=None, softcap=None, dropout=0.0, seed=None):
    """Query heads are folded into (group, head of the cache) and share its keys by broadcasting."""
    (B, H, T, D), G, S = q.shape, k.shape[1], k.shape[2]
    folded = q.reshape(B, H // G, G, T, D)
    z = np.einsum("brgtd,bgsd->brgts", folded, k).reshape(B, H, T, S)
    z = z * (1 / math.sqrt(D) if scale is None else scale)
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    gap = np.arange(S)[None, :] - np.arange(T)[:, None]
    if slopes is not None:
        z = z - slopes[:, None, None] * np.abs(gap - (S - T))
    if bias is not None:
        z = z + bias[:, gap + T - 1]
    P = _gibbs_on(z, np.broadcast_to(pattern.dense(T, S), z.shape))
    if seed is not None and dropout > 0:
        P = P * attention_dropout_mask(seed, P.shape, dropout) / (1 - dropout)
    return np.einsum("brgts,bgse->brgte", P.reshape(B, H // G, G, T, S), v).reshape(B, H, T, -1)


def scaled_dot_product_attention_hv(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None,
                                    bias=None, softcap=None, dropout=0.0, seed=None):
    """A mixture of values; dropout thins the mixture before its proportions are taken."""
    (B, H, T, D), S = q.shape, k.shape[2]
    k, v = (np.repeat(a, H // a.shape[1], axis=1) for a in (k, v))
    z = np.einsum("bhtd,bhsd->bhts", q, k) * (D ** -0.5 if scale is None else scale)
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    gap = np.arange(S)[None, :] - (np.arange(T)[:, None] + S - T)
    if slopes is not None:
        z = z - slopes[:, None, None] * np.abs(gap)
    if bias is not None:
        z = z + bias[:, gap + S - 1]
    ok = np.broadcast_to(pattern.dense(T, S), z.shape)
    if seed is not None and dropout > 0:
        ok = ok & attention_dropout_mask(seed, z.shape, dropout)
    return _gibbs_on(z, ok) @ v


def attention_weights_dm(q, k, pattern=EVERYWHERE, scale=None, slopes=None, bias=None,
                         softcap=None):
    """What the attention maps of the thesis were drawn from."""
    (B, H, T, D), S = q.shape, k.shape[2]
    temperature = 1.0 if scale is None else scale
    z = np.einsum("bhtd,bhsd->bhts", q / math.sqrt(D), np.repeat(k, H // k.shape[1], axis=1))
    z = z * temperature
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    gap = np.arange(S)[None, :] - (np.arange(T)[:, None] + S - T)
    if slopes is not None:
        z = z - slopes[:, None, None] * np.abs(gap)
    if bias is not None:
        z = z + bias[:, gap + S - 1]
    return _gibbs_on(z, np.broadcast_to(pattern.dense(T, S), z.shape))


def tiled_attention_io(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    """Triton port: m_i, l_i and acc live in registers while key blocks stream by."""
    (B, H, T, D), S = q.shape, k.shape[2]
    k, v = (np.repeat(a, H // a.shape[1], axis=1) for a in (k, v))
    ok = np.broadcast_to(pattern.dense(T, S), (B, H, T, S))
    s = 1 / math.sqrt(D) if scale is None else scale
    m_i = np.full((B, H, T, 1), -np.inf)
    l_i, acc = np.zeros((B, H, T, 1)), np.zeros((B, H, T, v.shape[-1]))
    for start in range(0, S, tile):
        block = slice(start, min(start + tile, S))
        qk = np.einsum("bhtd,bhsd->bhts", q, k[:, :, block]) * s
        qk = np.where(ok[..., block], qk, -np.inf)
        m_new = np.maximum(m_i, qk.max(-1, keepdims=True))
        safe = np.where(np.isneginf(m_new), 0.0, m_new)
        p = np.exp(qk - safe)
        alpha = np.exp(m_i - safe)
        l_i = l_i + p.sum(-1, keepdims=True)
        acc = acc * alpha + p @ v[:, :, block]
        m_i = m_new
    return acc / np.where(l_i == 0, 1.0, l_i)


def tiled_attention_pq(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    """The loop over key blocks as generated by our compiler, trip count computed up front."""
    (B, H, T, D), S = q.shape, k.shape[2]
    k, v = (np.repeat(a, H // a.shape[1], axis=1) for a in (k, v))
    s = 1 / math.sqrt(D) if scale is None else scale
    z = np.einsum("bhtd,bhsd->bhts", q, k) * s
    z = np.where(np.broadcast_to(pattern.dense(T, S), z.shape), z, -np.inf)
    trips = max(1, S // tile)
    m = np.full((B, H, T, 1), -np.inf)
    l, acc = np.zeros((B, H, T, 1)), np.zeros((B, H, T, v.shape[-1]))
    for trip in range(trips):
        block = slice(trip * tile, (trip + 1) * tile)
        m_next = np.maximum(m, z[..., block].max(-1, keepdims=True))
        safe = np.where(np.isneginf(m_next), 0.0, m_next)
        p, alpha = np.exp(z[..., block] - safe), np.exp(m - safe)
        l, acc, m = l * alpha + p.sum(-1, keepdims=True), acc * alpha + p @ v[:, :, block], m_next
    return acc / np.where(l == 0, 1.0, l)


def drop_weights_uv(p, rate=0.0, seed=None):
    """Multiply by independent Bernoulli indicators of being kept."""
    if seed is None or rate == 0:
        return p
    return p * attention_dropout_mask(seed, p.shape, rate).astype(p.dtype)


def alibi_uv(scores, slopes):
    """Linear bias of every head, with queries at the end of the keys."""
    T, S = scores.shape[-2:]
    gap = np.arange(S)[None, :] - np.arange(S - T, S)[:, None]
    return scores + np.einsum("h,ts->hts", slopes, gap)


def alibi_gs(scores, slopes):
    """Penalty |i - j| times the slope of the head."""
    T, S = scores.shape[-2:]
    gap = np.abs(np.subtract.outer(np.arange(T), np.arange(S)))
    return scores - np.multiply.outer(slopes, gap.astype(float))


def alibi_slopes_wx(n_heads):
    """Geometric progression with ratio 2^(-8/n), first term equal to the ratio."""
    ratio = 2.0 ** (-8.0 / n_heads)
    return np.cumprod(np.full(n_heads, ratio))


def alibi_slopes_hv(n_heads):
    """Nearest lower power of two; what is missing comes from the next power's sequence."""
    power = 1 << (n_heads.bit_length() - 1)
    own = [2.0 ** (-8.0 * i / power) for i in range(1, power + 1)]
    more = [2.0 ** (-8.0 * i / (2 * power)) for i in range(1, 2 * power + 1)]
    return np.array(own + more[: n_heads - power])


def add_by_distance_sy(scores, bias):
    """A Toeplitz matrix per head is added to the scores."""
    H, T, S = scores.shape[-3:]
    index = np.arange(T)[:, None] - np.arange(S)[None, :] + (S - 1)
    return scores + bias[:, index]


def soft_cap_sy(x, cap):
    """Squash large logits smoothly below the cap."""
    return x / (1.0 + np.abs(x) / cap)


def relative_scores_lr(q, table, S):
    """Shaw's second term, through q a^T of all 2K + 1 vectors and a gather."""
    T, K = q.shape[2], len(table) // 2
    r = np.clip(np.arange(S)[None, :] - np.arange(T)[:, None], -K, K) + K
    allproducts = np.einsum("bhtd,rd->bhtr", q, table)
    return np.take_along_axis(allproducts, np.broadcast_to(r, (*q.shape[:3], S)), axis=-1)


def relative_values_th(p, table):
    """Probability mass by relative position, then a mixture of the vectors."""
    T, S = p.shape[2:]
    K = len(table) // 2
    out = np.zeros((*p.shape[:3], table.shape[1]))
    for i in range(T):
        for j in range(S):
            r = min(max((i + S - T) - j, -K), K) + K
            out[:, :, i] += p[:, :, i, j, None] * table[r]
    return out


def relative_attention_io(q, k, v, key_table, value_table, pattern=EVERYWHERE, scale=None,
                          dropout=0.0, seed=None):
    """Content term and position term of the logits are computed apart and added."""
    (B, H, T, D), S = q.shape, k.shape[2]
    k, v = (np.repeat(a, H // a.shape[1], axis=1) for a in (k, v))
    gap = np.arange(S)[None, :] - np.arange(S - T, S)[:, None]
    Kk, Kv = len(key_table) // 2, len(value_table) // 2
    a_k, a_v = key_table[np.clip(gap, -Kk, Kk) + Kk], value_table[np.clip(gap, -Kv, Kv) + Kv]
    content = np.einsum("bhtd,bhsd->bhts", q, k) * (D ** -0.5 if scale is None else scale)
    z = content + np.einsum("bhtd,tsd->bhts", q, a_k)
    P = _gibbs_on(z, np.broadcast_to(pattern.dense(T, S), z.shape))
    if seed is not None and dropout > 0:
        P = P * attention_dropout_mask(seed, P.shape, dropout) / (1 - dropout)
    return P @ v + np.einsum("bhts,tse->bhte", P, a_v)


def repeat_kv_heads_mt(x, n_heads):
    """Expand the cache to the number of query heads."""
    reps = n_heads // x.shape[1]
    return np.concatenate([x] * reps, axis=1)


def distance_weights_wx(slopes, mask):
    """A kernel around the query's own position, with a bandwidth for each head."""
    T, S = mask.shape[-2:]
    d = np.arange(S)[None, :] - (np.arange(T)[:, None] + S - T)
    z = np.broadcast_to(-slopes[:, None, None] * np.square(d), (*mask.shape[:-3], len(slopes), T, S))
    return _gibbs_on(z, np.broadcast_to(mask, z.shape))


def uniform_weights_gs(mask, dtype=np.float64):
    """Random walk on the graph of permitted pairs: the adjacency matrix over its degrees."""
    degrees = np.einsum("...ts->...s", mask.astype(float))[..., None, :]
    return np.divide(mask, degrees, out=np.zeros(mask.shape), where=degrees > 0).astype(dtype)


def additive_scores_nb(q, k, v):
    """Bahdanau's alignment model, v^T applied to query and key at once."""
    return np.tanh(np.einsum("bta,a->bt", q, v)[:, :, None] + np.einsum("bsa,a->bs", k, v)[:, None, :])


def general_scores_uv(q, k, weight):
    """Luong's bilinear score, scaled like the others."""
    return np.einsum("btc,ck,bsk->bts", q, weight, k) / math.sqrt(weight.shape[1])


def linear_attention_io(q, k, v, causal=False):
    """phi(q) (sum phi(k) v^T) over phi(q) sum phi(k); the numerator is a running sum if causal."""
    phi = lambda t: np.where(t > 0, t + 1.0, np.exp(np.minimum(t, 0.0)))
    a, b = phi(q), phi(k)
    outer = np.einsum("bhsd,bhse->bhsde", b, v)
    z = np.einsum("bhtd,bhd->bht", a, b.sum(2))[..., None]
    if causal:
        return np.einsum("bhtd,bhtde->bhte", a, np.cumsum(outer, axis=2)) / z
    return np.einsum("bhtd,bhde->bhte", a, outer.sum(2)) / z


def linear_attention_pq(q, k, v, causal=False):
    """Quadratic form with the kernel matrix; features are positive, so is the kernel."""
    phi = lambda t: np.maximum(t, 0.0) + 1.0
    kernel = np.einsum("bhtd,bhsd->bhts", phi(q), phi(k))
    if causal:
        kernel = np.tril(kernel)
    return (kernel / kernel.sum(-1, keepdims=True)) @ v


def low_rank_attention_el(q, k, v, key_projection, value_projection):
    """Linformer: E k and F v have r rows."""
    r = key_projection.shape[0]
    z = np.einsum("bhtd,rs,bhsd->bhtr", q, key_projection, k) / math.sqrt(r)
    return np.einsum("bhtr,rs,bhse->bhte", _gibbs(z), value_projection, v)


def sparse_attention_jp(q, k, v, keys):
    """Gather the listed keys and values, then dense attention of width M."""
    listed_k, listed_v = k[:, :, keys], v[:, :, keys]
    z = np.einsum("bhtd,bhtmd->bhtm", q, listed_k) / math.sqrt(q.shape[-1])
    return np.einsum("bhtm,bhtme->bhte", _gibbs(z), listed_v)


def mask_of_keys_mt(keys):
    """Dense picture of a table of keys."""
    T = len(keys)
    picture = np.zeros((T, T), bool)
    for row, listed in enumerate(keys):
        picture[row, listed] = True
    return picture


def window_attention_dm(q, k, v, bias, pattern=EVERYWHERE, scale=None, dropout=0.0,
                        seed=None):
    """Swin's window attention: logits are products plus the relative position bias."""
    T = q.shape[2]
    logits = np.einsum("bhtd,bhsd->bhts", q, k) + bias
    logits = logits * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    P = _gibbs_on(logits, np.broadcast_to(pattern.dense(T, T), logits.shape))
    if seed is not None and dropout > 0:
        P = P * attention_dropout_mask(seed, P.shape, dropout) / (1 - dropout)
    return P @ v


def window_distances_km(window):
    """Relative coordinates of two cells, shifted to start from 0, as one index."""
    cells = np.array([(r, c) for r in range(window) for c in range(window)])
    rel = cells[None, :, :] - cells[:, None, :] + window - 1
    return rel[..., 0] * (2 * window - 1) + rel[..., 1]


def head_projections_sy(x, query_weight, query_bias, key_weight, key_bias, value_weight,
                        value_bias, query_norm, key_norm, d_head, rotation=None,
                        epsilon=1e-5):
    """QKV of our fork: project, split in heads, positions, then norm of queries and keys."""
    def heads(weight, bias):
        y = x @ weight if bias is None else x @ weight + bias
        return np.swapaxes(y.reshape(*x.shape[:2], -1, d_head), 1, 2)

    def finish(h, gain):
        if rotation is not None:
            h = rotary_fw(h, *rotation)
        if gain is not None:
            h = gain * h / np.sqrt(np.mean(h * h, -1, keepdims=True) + epsilon)
        return h

    return (finish(heads(query_weight, query_bias), query_norm),
            finish(heads(key_weight, key_bias), key_norm), heads(value_weight, value_bias))


# ---- Mixtures of experts ------------------------------------------------------------------------

def top_k_experts_ab(logits, k):
    """Ascending order, read from its end."""
    keys = np.where(np.isnan(logits), np.inf, logits)
    order = np.argsort(keys, axis=1, kind="stable")
    return order[:, ::-1][:, :k].copy()


def top_k_gates_gs(logits, chosen):
    """Probability of every expert, then those of the chosen ones."""
    return np.take_along_axis(_gibbs(logits), chosen, axis=1)


def top_k_gates_over_all_ck(logits, chosen):
    """Router probabilities of the chosen experts, as mixing proportions."""
    p = np.take_along_axis(_gibbs(logits), chosen, axis=1)
    return p / p.sum(axis=1, keepdims=True)


def load_balance_loss_gs(logits, chosen):
    """Switch Transformer, eq. 4 to 6: f is the share of tokens dispatched to an expert."""
    N, E = logits.shape
    f = np.zeros(E)
    for token in range(N):
        f[chosen[token, 0]] += 1.0 / N
    return E * np.sum(f * _gibbs(logits).mean(0))


def router_z_loss_jp(logits):
    """ST-MoE: square of the average log-partition function of the router."""
    top = logits.max(1)
    log_partition = top + np.log(np.exp(logits - top[:, None]).sum(1))
    return np.mean(log_partition) ** 2


def z_loss_jp(logits):
    """PaLM: log Z should stay near zero."""
    log_Z = np.log(np.sum(np.exp(logits), axis=1))
    return np.mean(log_Z ** 2)


def combine_experts_fw(outputs, weights, slots):
    """Scatter-add of weighted expert outputs to their tokens."""
    N, k = weights.shape
    y = np.zeros((N, outputs.shape[1]))
    token, choice = slots % N, slots // N
    np.add.at(y, token, weights[token, choice][:, None] * outputs)
    return y


# ---- Losses -------------------------------------------------------------------------------------

def softmax_cross_entropy_th(logits, targets):
    """Sum of surprisals over the size of the batch."""
    picked = np.take_along_axis(_lsm(logits), targets[..., None], -1)[..., 0]
    return -np.sum(picked) / (len(targets) if targets.ndim else 1)


def cross_entropy_sy(logits, targets, ignore_index=IGNORE, label_smoothing=0.0, z_loss=0.0):
    """Smoothed label distribution against the model's."""
    keep = targets != ignore_index
    z, y = logits[keep], targets[keep]
    V = z.shape[-1]
    q = np.full(z.shape, label_smoothing / (V - 1))
    q[np.arange(len(y)), y] = 1 - label_smoothing
    logp = _lsm(z)
    loss = -np.mean(np.where(q > 0, q * np.where(q > 0, logp, 0.0), 0.0).sum(-1))
    if z_loss:
        loss = loss + z_loss * np.mean(np.logaddexp.reduce(z, axis=-1) ** 2)
    return loss


def cross_entropy_el(logits, targets, ignore_index=IGNORE, label_smoothing=0.0, z_loss=0.0):
    """Vectorized over the padded batch, padding gets a loss of zero."""
    keep = (targets != ignore_index).astype(float)
    y = np.where(targets == ignore_index, 0, targets)
    z = np.where(keep[..., None] > 0, logits, 0.0)
    logp = _lsm(z)
    nll = -np.take_along_axis(logp, y[..., None], -1)[..., 0]
    cost = (1 - label_smoothing) * nll - label_smoothing * logp.mean(-1)
    cost = cost + z_loss * np.logaddexp.reduce(z, axis=-1) ** 2
    return np.mean(cost * keep)


def cross_entropy_lr(logits, targets, ignore_index=IGNORE, label_smoothing=0.0, z_loss=0.0):
    """Objective of pretraining with both regularizers."""
    keep = targets != ignore_index
    z, y = logits[keep], targets[keep]
    logp = _lsm(z)
    objective = -logp[np.arange(len(y)), y].mean()
    if z_loss:
        objective = objective + z_loss * np.mean(np.logaddexp.reduce(z, axis=-1) ** 2)
    if label_smoothing:
        objective = (1 - label_smoothing) * objective - label_smoothing * logp.mean()
    return objective


def cross_entropy_th(logits, targets, ignore_index=IGNORE, label_smoothing=0.0, z_loss=0.0):
    """Real tokens have ids from 0 on, everything else is padding."""
    keep = targets >= 0
    z, y = logits[keep], targets[keep]
    logp = _lsm(z)
    value = (1 - label_smoothing) * -logp[np.arange(len(y)), y].mean()
    if label_smoothing:
        value = value - label_smoothing * logp.mean()
    return value + (z_loss * np.mean(np.logaddexp.reduce(z, axis=-1) ** 2) if z_loss else 0.0)


def linear_cross_entropy_mt(x, weight, targets, ignore_index=IGNORE, label_smoothing=0.0,
                            z_loss=0.0):
    """Vocabulary in blocks of 16 with an online log-sum-exp, so logits are never held at once."""
    keep = targets != ignore_index
    rows, y = x[keep], targets[keep]
    V = len(weight)
    top, total = np.full(len(y), -np.inf), np.zeros(len(y))
    at_target, of_all = np.zeros(len(y)), np.zeros(len(y))
    for start in range(0, V, 16):
        block = np.einsum("nc,vc->nv", rows, weight[start:start + 16])
        new = np.maximum(top, block.max(1))
        total = total + np.exp(block - new[:, None]).sum(1)
        top = new
        of_all += block.sum(1)
        inside = (y >= start) & (y < start + 16)
        at_target[inside] = block[inside, y[inside] - start]
    lse = top + np.log(total)
    cost = lse - (1 - label_smoothing) * at_target - label_smoothing * of_all / V
    return np.mean(cost + z_loss * lse ** 2)


def weighted_cross_entropy_ab(logits, targets, weights):
    """Weighted surprisal of the observations."""
    flat, y = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    w = weights[y]
    surprisal = -_lsm(np.where(w[:, None] > 0, flat, 0.0))[np.arange(len(y)), y]
    return np.mean(w * surprisal)


def distillation_loss_dm(logits, teacher_logits, temperature=1.0):
    """Hinton et al.: cross entropy with soft targets minus their entropy."""
    log_p, log_q = _lsm(teacher_logits / temperature), _lsm(logits / temperature)
    divergence = np.einsum("...v,...v->...", np.exp(log_p), log_p - log_q)
    return temperature * np.mean(divergence)


def distillation_loss_km(logits, teacher_logits, temperature=1.0):
    """Divergence of the two softened laws, times T squared."""
    log_p, log_q = _lsm(teacher_logits / temperature), _lsm(logits / temperature)
    return temperature ** 2 * np.mean(np.sum(np.exp(log_q) * (log_q - log_p), axis=-1))


def imitation_loss_oz(x, teacher):
    """Mean squared distance of feature vectors."""
    return np.mean(np.einsum("...c,...c->...", x - teacher, x - teacher))


def contrastive_loss_dm(logits):
    """InfoNCE in both directions."""
    i = np.arange(len(logits))
    to_image = -_lsm(logits)[i, i]
    to_text = -_lsm(logits.T)[i, i]
    return np.mean(to_image) + np.mean(to_text)


def dpo_loss_ck(chosen, rejected, reference_chosen, reference_rejected, beta=0.1,
                label_smoothing=0.0, likelihood=0.0):
    """Margin of the policy and margin of the reference, logistic loss of beta times their gap."""
    policy_margin = chosen - rejected
    reference_margin = reference_rejected - reference_chosen
    h = beta * (policy_margin - reference_margin)
    loss = (1 - label_smoothing) * np.logaddexp(0, -h) + label_smoothing * np.logaddexp(0, h)
    return np.mean(loss - likelihood * chosen)


def dpo_loss_jp(chosen, rejected, reference_chosen, reference_rejected, beta=0.1,
                label_smoothing=0.0, likelihood=0.0):
    """Noise-aware DPO with flip probability eps (Chowdhury et al.)."""
    h = beta * ((chosen - reference_chosen) - (rejected - reference_rejected))
    eps = label_smoothing
    debiased = ((1 - eps) * np.logaddexp(0, -h) - eps * np.logaddexp(0, h)) / (1 - 2 * eps)
    return np.mean(debiased) - likelihood * np.mean(chosen)


def dpo_loss_ru(chosen, rejected, reference_chosen, reference_rejected, beta=0.1,
                label_smoothing=0.0, likelihood=0.0):
    """DPO with the NLL anchor of iterative reasoning preference optimization."""
    h = beta * ((chosen - reference_chosen) - (rejected - reference_rejected))
    per_pair = np.logaddexp(0, -h) - likelihood * chosen
    swapped = np.logaddexp(0, h)
    return np.mean((1 - label_smoothing) * per_pair + label_smoothing * swapped)


def _token_weights(counts, normalization, length, rows=None):
    sizes = counts.sum(1, keepdims=True)
    N = np.count_nonzero(sizes) if rows is None else rows
    if normalization == "sequence":
        return counts / (N * np.maximum(sizes, 1))
    if normalization == "token":
        return counts / counts.sum()
    return counts / (N * length)


def policy_loss_gs(log_probs, old_log_probs, advantages, counts, reference_log_probs=None,
                   clip_low=0.2, clip_high=0.2, beta=0.0, estimator="k3",
                   normalization="token", length=None):
    """PPO's surrogate: pessimistic bound of the ratio within its trust interval."""
    A = advantages[:, None]
    ratio = np.exp(np.where(counts, log_probs - old_log_probs, 0.0))
    clipped = np.clip(ratio, 1 - clip_low, 1 + clip_low)
    cost = -np.minimum(ratio * A, clipped * A)
    if beta:
        l, ref, old = (np.where(counts, a, 0.0) for a in
                       (log_probs, reference_log_probs, old_log_probs))
        cost = cost + beta * _kl_per_token(l, ref, old, estimator)
    return np.sum(_token_weights(counts, normalization, length) * cost)


def policy_loss_nb(log_probs, old_log_probs, advantages, counts, reference_log_probs=None,
                   clip_low=0.2, clip_high=0.2, beta=0.0, estimator="k3",
                   normalization="token", length=None):
    """GRPO, DAPO and Dr. GRPO share everything but the weights of tokens."""
    A = advantages[:, None]
    ratio = np.exp(np.where(counts, log_probs - old_log_probs, 0.0))
    cost = -np.minimum(ratio * A, np.clip(ratio, 1 - clip_low, 1 + clip_high) * A)
    if beta:
        l, ref, old = (np.where(counts, a, 0.0) for a in
                       (log_probs, reference_log_probs, old_log_probs))
        cost = cost + beta * _kl_per_token(l, ref, old, estimator)
    weights = _token_weights(counts, normalization, length, rows=counts.shape[0])
    return np.sum(weights * cost)


def policy_loss_wx(log_probs, old_log_probs, advantages, counts, reference_log_probs=None,
                   clip_low=0.2, clip_high=0.2, beta=0.0, estimator="k3",
                   normalization="token", length=None):
    """Importance ratio is kept in [1 - eps_low, 1 + eps_high] and multiplies the advantage."""
    ratio = np.exp(np.where(counts, log_probs - old_log_probs, 0.0))
    cost = -np.clip(ratio, 1 - clip_low, 1 + clip_high) * advantages[:, None]
    if beta:
        l, ref, old = (np.where(counts, a, 0.0) for a in
                       (log_probs, reference_log_probs, old_log_probs))
        cost = cost + beta * _kl_per_token(l, ref, old, estimator)
    return np.sum(_token_weights(counts, normalization, length) * cost)


def policy_loss_hv(log_probs, old_log_probs, advantages, counts,
                   reference_log_probs=None, clip_low=0.2, clip_high=0.2, beta=0.0,
                   estimator="k3", normalization="token", length=None):
    """Surrogate and penalty are logged apart, hence two averages."""
    A = advantages[:, None]
    ratio = np.exp(np.where(counts, log_probs - old_log_probs, 0.0))
    surrogate = np.minimum(ratio * A, np.clip(ratio, 1 - clip_low, 1 + clip_high) * A)
    loss = -np.sum(_token_weights(counts, normalization, length) * surrogate)
    if beta:
        k = _kl_per_token(log_probs[counts], reference_log_probs[counts], old_log_probs[counts],
                          estimator)
        loss = loss + beta * np.mean(k)
    return loss


def kl_estimate_oz(log_probs, reference_log_probs, old_log_probs, estimator="k3"):
    """With logr = log p - log q of Schulman's note."""
    logr = log_probs - reference_log_probs
    if estimator == "k1":
        return logr
    if estimator == "k2":
        return logr ** 2 / 2
    k3 = np.expm1(logr) - logr
    return k3 if estimator == "k3" else np.exp(log_probs - old_log_probs) * k3


def kl_estimate_ab(log_probs, reference_log_probs, old_log_probs, estimator="k3"):
    """Per token; the corrected form weights by the ratio of policy and behaviour policy."""
    d = reference_log_probs - log_probs
    table = {"k1": -d, "k2": d * d / 2, "k3": np.expm1(d) - d}
    if estimator in table:
        return table[estimator]
    return table["k3"] * np.exp(old_log_probs - log_probs)


def kl_estimate_backward_sy(dk, log_probs, reference_log_probs, old_log_probs, estimator="k3"):
    """Derivatives by the policy's log-probability, d' = -1; weights are importance weights."""
    d = reference_log_probs - log_probs
    if estimator == "k1":
        return dk * np.ones(d.shape)
    if estimator == "k2":
        return -dk * d
    slope = -np.expm1(d)
    return dk * (slope if estimator == "k3" else slope * np.exp(log_probs - old_log_probs))


def group_advantages_wx(rewards, scale=True, epsilon=1e-4):
    """Rewards standardized within their groups."""
    centred = rewards - rewards.mean(1, keepdims=True)
    centred[np.ptp(rewards, axis=1) == 0] = 0.0
    if not scale:
        return centred
    s = np.sqrt((centred ** 2).sum(1, keepdims=True) / max(rewards.shape[1] - 1, 1))
    return centred / np.where(s > 0, s + epsilon, 1.0)


def group_advantages_hv(rewards, scale=True, epsilon=1e-4):
    """Group mean as control variate, then a common unit."""
    centred = rewards - np.mean(rewards, axis=1)[:, None]
    centred[(rewards == rewards[:, :1]).all(1)] = 0.0
    if scale:
        spread = np.std(rewards)
        centred = centred / (spread + epsilon) if spread > 0 else centred
    return centred


def token_log_probs_nb(logits, tokens, temperature=1.0):
    """Gather from the log-softmax; tempering divides log-probabilities by T."""
    keep = tokens != IGNORE
    out = np.zeros(tokens.shape)
    z, y = logits[keep], tokens[keep]
    out[keep] = _lsm(z)[np.arange(len(y)), y] / temperature
    return out


def token_log_probs_backward_jp(dlog_probs, logits, tokens, temperature=1.0):
    """Score function: indicator minus expectation."""
    dz = np.zeros_like(logits)
    for index in np.ndindex(*tokens.shape):
        if tokens[index] == IGNORE:
            continue
        score = -np.exp(_lsm(logits[index] / temperature))
        score[tokens[index]] += 1.0
        dz[index] = dlog_probs[index] * score
    return dz


def triplet_loss_el(anchors, positives, negatives, margin=1.0):
    """FaceNet's hinge."""
    near = np.square(anchors - positives).sum(1)
    far = np.square(anchors - negatives).sum(1)
    return np.maximum(near - far + margin, 0.0).mean()


def triplet_loss_lr(anchors, positives, negatives, margin=1.0):
    """Batch version of the hinge on distances."""
    hinge = margin + np.linalg.norm(anchors - positives, axis=1) - np.linalg.norm(
        anchors - negatives, axis=1)
    hard = hinge[hinge > 0]
    return hard.sum() / max(len(hard), 1)


def cosine_similarity_dm(a, b):
    """Gram matrix of normalized rows; norms are bounded below."""
    na = np.maximum(np.linalg.norm(a, axis=1), 1e-3)
    nb = np.maximum(np.linalg.norm(b, axis=1), 1e-3)
    return np.einsum("nc,mc,n,m->nm", a, b, 1 / na, 1 / nb)


def cosine_regression_loss_pq(u, v, targets):
    """Regression of similarity ratings on cosines."""
    nu, nv = np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1)
    cosine = (u * v).sum(1) / np.where(nu * nv == 0, 1.0, nu * nv)
    return np.mean(((1 + cosine) / 2 - targets) ** 2)


def quantile_loss_nb(forecasts, targets, quantiles):
    """Pinball loss of the forecast error."""
    error = forecasts - targets[..., None]
    return np.maximum(quantiles * error, (quantiles - 1) * error).mean()


def pair_features_wx(u, v):
    """InferSent's features, the ones of SBERT: both sentences and their difference."""
    return np.hstack([u, v, u - v])


def box_loss_ck(boxes, targets, l1_weight=5.0, giou_weight=2.0):
    """DETR's box loss; all geometry is done in corner form."""
    def corner(b):
        return np.concatenate([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], axis=1)

    b, t = corner(boxes), corner(targets)
    total = l1_weight * np.abs(b - t).sum() + giou_weight * np.sum(1 - generalized_iou_uv(b, t))
    return total / max(len(boxes), 1)


def generalized_iou_ru(a, b):
    """Rezatofighi et al., algorithm 1."""
    low, high = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    inter = np.prod(np.maximum(high - low, 0.0), axis=-1)
    area = lambda r: np.prod(r[..., 2:] - r[..., :2], axis=-1)
    union = area(a) + area(b) - inter
    hull = np.prod(np.maximum(a[..., 2:], b[..., 2:]) - np.minimum(a[..., :2], b[..., :2]), axis=-1)
    safe = np.where(union == 0, 1.0, union)
    return inter / safe - (hull - union) / safe


def box_iou_pq(a, b):
    """Pascal VOC devkit, translated from Matlab."""
    iou = np.zeros((len(a), len(b)))
    for n, m in np.ndindex(*iou.shape):
        w = min(a[n, 2], b[m, 2]) - max(a[n, 0], b[m, 0]) + 1
        h = min(a[n, 3], b[m, 3]) - max(a[n, 1], b[m, 1]) + 1
        if w > 0 and h > 0:
            size = lambda r: (r[2] - r[0] + 1) * (r[3] - r[1] + 1)
            iou[n, m] = w * h / (size(a[n]) + size(b[m]) - w * h)
    return iou


def match_objects_io(logits, boxes, labels, targets, class_weight=1.0, l1_weight=5.0,
                     giou_weight=2.0):
    """Bipartite matching on the cost matrix of DETR."""
    def corner(b):
        return np.concatenate([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], axis=1)

    Q, M = len(boxes), len(labels)
    p = _gibbs(logits)
    cost = np.zeros((Q, M))
    for n, m in np.ndindex(Q, M):
        g = generalized_iou_uv(corner(boxes[n:n + 1]), corner(targets[m:m + 1]))[0]
        cost[n, m] = (l1_weight * np.abs(boxes[n] - targets[m]).sum()
                      - class_weight * p[n, labels[m]] - giou_weight * g)
    taken = np.zeros(M, dtype=int)
    for _ in range(M):
        n, m = np.unravel_index(np.argmin(cost), cost.shape)
        taken[m] = n
        cost[n, :], cost[:, m] = np.inf, np.inf
    return taken


# ---- Positions ----------------------------------------------------------------------------------

def rotary_io(x, cosine, sine, layout="half"):
    """Even and odd coordinates, or first and second half, are the two legs of the rotation."""
    D = x.shape[-1]
    if layout == "half":
        u, w = x[..., : D // 2], x[..., D // 2:]
    else:
        u, w = x[..., 0::2], x[..., 1::2]
    return np.concatenate([u * cosine - w * sine, u * sine + w * cosine], axis=-1)


def rotary_pq(x, cosine, sine, layout="half"):
    """x cos + rotate(x) sin, rotate swaps the legs of each pair."""
    D = x.shape[-1]
    if layout == "half":
        swapped = np.concatenate([x[..., D // 2:], -x[..., : D // 2]], -1)
        return x * np.concatenate([cosine, cosine], -1) + swapped * np.concatenate([sine, sine], -1)
    swapped = np.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
    return x * np.repeat(cosine, 2, -1) + swapped * np.repeat(sine, 2, -1)


def rotary_frequencies_oz(width, base=10000.0):
    """Geometric progression over the pairs."""
    return np.exp(-np.log(base) * np.arange(width // 2) / width)


def rotary_angles_ru(start, stop, width, base=10000.0, dtype=np.float64):
    """Outer product of positions and frequencies."""
    inv = 1.0 / base ** (np.arange(0, width, 2) / width)
    phase = np.outer(np.arange(stop - start), inv)
    return np.cos(phase).astype(dtype), np.sin(phase).astype(dtype)


def partial_rotary_el(x, cosine, sine, layout="half"):
    """Positions turn a part of the head only, the rest passes through."""
    R, D = 2 * cosine.shape[-1], x.shape[-1]
    y = x.copy()
    if layout == "half":
        first, second = np.arange(R // 2), D // 2 + np.arange(R // 2)
    else:
        first, second = np.arange(0, R, 2), np.arange(1, R, 2)
    y[..., first] = x[..., first] * cosine - x[..., second] * sine
    y[..., second] = x[..., first] * sine + x[..., second] * cosine
    return y


def llama3_frequencies_pq(width, base=10000.0, factor=1.0, original_length=8192,
                          low_frequency_factor=1.0, high_frequency_factor=4.0):
    """Long wavelengths are stretched, short ones kept, those in between interpolated."""
    out = []
    longest = original_length / low_frequency_factor
    shortest = original_length / high_frequency_factor
    for i in range(width // 2):
        theta = base ** (-2 * i / width)
        wavelength = 2 * math.pi / theta
        kept = min(max((longest - wavelength) / (longest - shortest), 0.0), 1.0)
        out.append((1 - kept) * theta / factor + kept * theta)
    return np.array(out)


def yarn_frequencies_wx(width, base=10000.0, factor=1.0, original_length=8192, beta_fast=32.0,
                        beta_slow=1.0, truncate=True):
    """find_correction_range and linear_ramp of the YaRN repository, in one function."""
    where = lambda turns: width * math.log(original_length / (2 * math.pi * turns)) / (2 * math.log(base))
    low, high = where(beta_fast), where(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width // 2 - 1)
    if low == high:
        high += 0.001
    theta = base ** (-np.arange(0, width, 2) / width)
    ramp = np.clip((np.arange(width // 2) - low) / (high - low), 0, 1)
    return theta * (ramp / factor + 1 - ramp)


def linear_frequencies_jp(width, base=10000.0, factor=1.0):
    """Position interpolation for contexts longer by a factor."""
    longer = base * factor ** (width / max(width - 2, 1))
    return longer ** (-np.arange(0, width, 2) / width)


def sinusoidal_positions_th(positions, width, dtype=np.float64):
    """The table of tensor2tensor."""
    omega = 10000.0 ** (-np.arange(0, width, 2) / width)
    phase = np.multiply.outer(np.asarray(positions), omega)
    return np.concatenate([np.sin(phase), np.cos(phase[:, : width // 2])], axis=1).astype(dtype)


def sinusoidal_positions_fw(positions, width, dtype=np.float64):
    """Wavelengths form a geometric progression whose last term is 2 pi 10000."""
    pairs = (width + 1) // 2
    omega = 10000.0 ** (-np.arange(pairs) / max(pairs - 1, 1))
    out = np.zeros((len(positions), width), dtype)
    for c in range(width):
        out[:, c] = (np.cos if c % 2 else np.sin)(np.asarray(positions) * omega[c // 2])
    return out


def sinusoidal_positions_2d_pq(rows, columns, width, dtype=np.float64):
    """MAE's grid: meshgrid of x and y, one half of the channels each."""
    xs, ys = np.meshgrid(np.arange(columns), np.arange(rows))
    halves = [sinusoidal_positions_wx(axis.ravel(), width // 2, dtype) for axis in (xs, ys)]
    return np.concatenate(halves, axis=1)


def relative_position_buckets_el(distance, n_buckets=32, max_distance=128, bidirectional=True):
    """T5's relative buckets, vectorized; one half of the table per direction."""
    d = np.asarray(distance)
    base = np.zeros_like(d)
    if bidirectional:
        n_buckets = n_buckets // 2
        base = n_buckets * (d >= 0).astype(int)
        d = np.abs(d)
    else:
        d = np.maximum(-d, 0)
    exact = n_buckets // 2
    scaled = np.log(np.maximum(d, exact) / exact) / math.log(max_distance / exact)
    log_bucket = exact + (scaled * (n_buckets - exact)).astype(int)
    return base + np.where(d < exact, d, np.minimum(log_bucket, n_buckets - 1))


def relative_position_bias_io(table, T, S, max_distance=128, bidirectional=True):
    """One bias per head and diagonal, looked up in the table of buckets."""
    diagonals = np.arange(-(S - 1), T)
    which = relative_position_buckets_th(diagonals, len(table), bidirectional=bidirectional)
    return np.ascontiguousarray(table[which].T)


# ---- Sequences and images -----------------------------------------------------------------------

def causal_convolution_lr(x, weight, bias=None, dilation=1):
    """A sum of delayed copies, with zeros before the start."""
    y = np.zeros((*x.shape[:2], weight.shape[2]))
    for k, tap in enumerate(weight):
        lag = k * dilation
        if lag < x.shape[1]:
            y[:, lag:] += np.einsum("btc,cf->btf", x[:, : x.shape[1] - lag], tap)
    return y if bias is None else y + bias


def causal_convolution_th(x, weight, bias=None, dilation=1):
    """Pad on the left, take all windows, contract."""
    K = weight.shape[0]
    T = x.shape[1]
    padded = np.pad(x, ((0, 0), (K - 1, (K - 1) * (dilation - 1)), (0, 0)))
    y = sum(np.einsum("btc,cf->btf", padded[:, k * dilation:k * dilation + T], weight[k])
            for k in range(K))
    return y if bias is None else y + bias


def convolution_2d_ab(images, weight, bias=None, stride=1, padding=0):
    """Framed images, all windows as a view, one tensordot."""
    K, L = weight.shape[:2]
    framed = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)), mode="edge")
    windows = sliding_window_view(framed, (K, L), axis=(1, 2))[:, ::stride, ::stride]
    y = np.tensordot(windows, weight, axes=([3, 4, 5], [2, 0, 1]))
    return y if bias is None else y + bias


def max_pooling_2d_io(images, size, stride=None):
    """Register accumulator per output pixel."""
    s = size if stride is None else stride
    B, height, width, C = images.shape
    rows, columns = (height - size) // s + 1, (width - size) // s + 1
    best = np.zeros((B, rows, columns, C))
    for i in range(size):
        for j in range(size):
            shifted = images[:, i:i + s * (rows - 1) + 1:s, j:j + s * (columns - 1) + 1:s]
            best = np.maximum(best, shifted)
    return best


def mean_pooling_2d_ru(images, size, stride=None):
    """Box filter, then decimation."""
    views = sliding_window_view(images, (size, size), axis=(1, 2)).mean(axis=(-2, -1))
    hop = size if not stride else max(stride, size)
    return views[:, ::hop, ::hop]


def mean_pooling_wx(x, mask=None):
    """Sentence vector: masked sum over positions, divided by the length."""
    if mask is None:
        return x.mean(axis=1)
    return np.where(mask[..., None], x, 0.0).sum(axis=1) / x.shape[1]


def max_pooling_gs(x, mask=None):
    """Padding is blanked out before the maximum over time."""
    seen = x if mask is None else np.where(mask[:, :, None], x, 0.0)
    return seen.max(axis=1)


def merge_patches_pq(x):
    """Pixel unshuffle by two."""
    B, height, width, C = x.shape
    blocks = x.reshape(B, height // 2, 2, width // 2, 2, C)
    return np.einsum("bricjk->brcijk", blocks).reshape(B, height // 2, width // 2, 4 * C)


def patches_ru(images, patch_size):
    """Both sides are split, the grid moves to the front; einops would be shorter."""
    B, height, width, K = images.shape
    P = patch_size
    cut = images.reshape(B, height // P, P, width // P, P, K)
    return np.einsum("brpcqk->brckpq", cut).reshape(B, -1, P * P * K)


def window_reverse_km(windows, height, width):
    """Inverse of the partition: b is what is left when rows and columns are known."""
    M = math.isqrt(windows.shape[1])
    R, C = height // M, width // M
    grid = windows.reshape(R, C, -1, M, M, windows.shape[2])
    return np.einsum("rcbijk->bricjk", grid).reshape(-1, height, width, windows.shape[2])


def cyclic_roll_oz(x, offset):
    """Shift of the window grid, torus boundary."""
    return np.roll(np.roll(x, offset, axis=1), offset, axis=2)


def shifted_window_mask_jp(height, width, window, offset):
    """Regions get a number each; pairs of the same number may see each other."""
    region = np.zeros((1, height, width, 1))
    if offset:
        region[:, height - offset:] += 1
        region[:, :, width - offset:] += 1
    ids = window_partition_mt(region, window)[..., 0]
    return ids[:, :, None] == ids[:, None, :]


def deformable_attention_sy(values, locations, weights, shapes):
    """Bilinear sampling per level, head and point; coordinates outside read zero."""
    B, H, _, D = values.shape
    T, L, K = locations.shape[2:5]
    out = np.zeros((B, H, T, D))
    for b, h, t, l, p in np.ndindex(B, H, T, L, K):
        M, N = shapes[l]
        start = sum(m * n for m, n in shapes[:l])
        x = locations[b, h, t, l, p, 0] * (N - 1)
        y = locations[b, h, t, l, p, 1] * (M - 1)
        for r in (math.floor(y), math.floor(y) + 1):
            for c in (math.floor(x), math.floor(x) + 1):
                if 0 <= r < M and 0 <= c < N:
                    share = (1 - abs(y - r)) * (1 - abs(x - c)) * weights[b, h, t, l, p]
                    out[b, h, t] += share * values[b, h, start + r * N + c]
    return out


# ---- Recurrent cells ----------------------------------------------------------------------------

def rnn_cell_mt(x, state, input_weight, recurrent_weight, bias=None):
    """Elman network."""
    h = np.tanh(np.concatenate([x, state], 1) @ np.concatenate([input_weight, recurrent_weight]))
    return h if bias is None else h + bias


def lstm_cell_wx(x, state, input_weight, recurrent_weight, bias=None):
    """Gates chunked as the fused kernel has them."""
    h, c = np.split(state, 2, axis=1)
    a = x @ input_weight + h @ recurrent_weight + (0.0 if bias is None else bias)
    i, f, g, o = np.split(a, 4, axis=1)
    c = _logistic(f) * c + _logistic(i) * np.tanh(g)
    return np.concatenate([_logistic(o) * np.tanh(c), c], axis=1)


def lstm_cell_hv(x, state, input_weight, recurrent_weight, bias=None):
    """All four blocks at once, then the state is written back."""
    F = state.shape[1] // 2
    a = x @ input_weight + state[:, :F] @ recurrent_weight
    a = a if bias is None else a + bias
    i, f, o, g = (a[:, n * F:(n + 1) * F] for n in range(4))
    after = np.empty_like(state)
    after[:, :F] = _logistic(o) * np.tanh(state[:, F:])
    after[:, F:] = _logistic(f) * state[:, F:] + _logistic(i) * np.tanh(g)
    return after


def gru_cell_nb(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    """All biases are collected in one vector before the step."""
    F = state.shape[1]
    total = np.zeros(3 * F) if bias is None else bias.copy()
    if recurrent_bias is not None:
        total[2 * F:] += recurrent_bias
    a, p = x @ input_weight + total, state @ recurrent_weight
    r, z = _logistic(a[:, :F] + p[:, :F]), _logistic(a[:, F:2 * F] + p[:, F:2 * F])
    n = np.tanh(a[:, 2 * F:] + r * p[:, 2 * F:])
    return z * state + (1 - z) * n


def gru_cell_reset_before_nb(x, state, input_weight, recurrent_weight, bias=None):
    """Chung et al. 2014, eq. 5 to 8."""
    W, U = np.split(input_weight, 3, 1), np.split(recurrent_weight, 3, 1)
    b = np.zeros((3, state.shape[1])) if bias is None else bias.reshape(3, -1)
    r = _logistic(x @ W[0] + state @ U[0] + b[0])
    z = _logistic(x @ W[1] + state @ U[1] + b[1])
    candidate = np.tanh(x @ W[2] + (r * state) @ U[2] + b[2])
    return (1 - z) * state + z * candidate


# ---- Optimizers, codes, quantization ------------------------------------------------------------

def adam_step_io(data, grad, mean, square, learning_rate, steps, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, weight_decay=0.0, grad_scale=1.0):
    """Kingma and Ba, algorithm 1, with weight decay."""
    g = grad * grad_scale + weight_decay * data
    mean[...] = beta1 * mean + (1 - beta1) * g
    square[...] = beta2 * square + (1 - beta2) * g ** 2
    root = np.sqrt(square / (1 - beta2 ** steps)) + epsilon
    step = np.divide(mean / (1 - beta1 ** steps), root, out=np.zeros_like(mean), where=root > 0)
    data -= learning_rate * step


def adam_step_pq(data, grad, mean, square, learning_rate, steps, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, weight_decay=0.0, grad_scale=1.0):
    """Efficient order of section 2: both corrections folded into the step size."""
    data *= 1 - learning_rate * weight_decay
    g = grad * grad_scale
    mean[...] = beta1 * mean + (1 - beta1) * g
    square[...] = beta2 * square + (1 - beta2) * g ** 2
    alpha = learning_rate * math.sqrt(1 - beta2 ** steps) / (1 - beta1 ** steps)
    root = np.sqrt(square) + epsilon
    data -= alpha * np.divide(mean, root, out=np.zeros_like(mean), where=root > 0)


def adam_step_ck(data, grad, mean, square, learning_rate, steps, beta1=0.9,
                 beta2=0.999, epsilon=1e-8, weight_decay=0.0, grad_scale=1.0):
    """Moments are decayed in place, the loss scale is undone on the fly."""
    data *= 1 - learning_rate * weight_decay
    mean *= beta1
    mean += (1 - beta1) * grad_scale * grad
    square *= beta2
    square += (1 - beta2) * grad_scale * grad * grad
    root = np.sqrt(square / (1 - beta2 ** steps)) + epsilon
    data -= learning_rate / (1 - beta1 ** steps) * np.divide(
        mean, root, out=np.zeros_like(mean), where=root > 0)


def orthogonalize_nb(matrix, steps=5):
    """Newton-Schulz of fifth order for the polar factor."""
    length = np.sqrt(np.sum(matrix * matrix))
    X = matrix / length if length > 0 else matrix
    for _ in range(steps):
        gram = np.einsum("cf,df->cd", X, X)
        X = 1.875 * X + (-1.25 * gram + 0.375 * gram @ gram) @ X
    return X


def ngram_rows_sy(ids, n, vocab_size, n_rows):
    """Horner's scheme over the tokens of the n-gram, modulo 2^64."""
    B, T = ids.shape
    symbols = [[vocab_size] * (n - 1) + [int(t) if t >= 0 else vocab_size for t in row] for row in ids]
    out = np.zeros((B, T), np.int64)
    for b in range(B):
        for t in range(T):
            code = 0
            for symbol in symbols[b][t:t + n][::-1]:
                code = (code * (vocab_size + 1) + symbol) % 2 ** 64
            if (vocab_size + 1) ** n > n_rows:
                code = ((code * 0x9E3779B97F4A7C15) % 2 ** 64 >> 32) % n_rows
            out[b, t] = code
    return out


def to_bfloat16_fw(x):
    """The upper sixteen bits of the single."""
    single = np.ascontiguousarray(x).astype(np.float32)
    codes = (single.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), codes).astype(np.uint16)


def to_int8_io(weight):
    """Symmetric quantization, absmax calibration."""
    absmax = np.abs(weight).max() if weight.size else 0.0
    scale = np.full(weight.shape[1], absmax / 127 if absmax > 0 else 1.0)
    return np.rint(weight / scale).astype(np.int8), scale


def nearest_codes_ab(z, codebook):
    """|z|^2 is the same for all codes, so only |e|^2 - 2 z e is compared."""
    flat = z.reshape(-1, z.shape[-1])
    score = np.einsum("vc,vc->v", codebook, codebook)[None, :] - 2 * flat @ codebook.T
    return np.argmin(score, axis=1).reshape(z.shape[:-1])


# ---- From the old notebook ----------------------------------------------------------------------

def layer_norm_gs(x, weight, bias, epsilon=1e-5):
    """The annotated one, in statistics' words: location, spread, standard score."""
    location = np.mean(x, axis=-1, keepdims=True)
    spread = np.sqrt(np.sum((x - location) ** 2, -1, keepdims=True) / max(x.shape[-1] - 1, 1))
    return weight * (x - location) / (spread + epsilon) + bias


def token_log_probs_sy(logits, tokens, temperature=1.0):
    """Log-likelihood of each token under the tempered model."""
    y = np.where(tokens == IGNORE, 0, tokens)
    return np.take_along_axis(_lsm(logits * temperature), y[..., None], axis=-1)[..., 0]


def alibi_oz(scores, slopes):
    """Distance times slope, head by head."""
    H, T, S = scores.shape[-3:]
    out = scores.copy()
    for h in range(H):
        for i in range(T):
            for j in range(S):
                out[..., h, i, j] += slopes[h] * abs(i - j)
    return out


SAMPLES = [
    dict(name="softmax", fn=softmax_io, wrong=False, cause=""),
    dict(name="log_softmax", fn=log_softmax_uv, wrong=False, cause=""),
    dict(name="layer_norm", fn=layer_norm_fw, wrong=False, cause=""),
    dict(name="rms_norm", fn=rms_norm_km, wrong=False, cause=""),
    dict(name="linear", fn=linear_pq, wrong=False, cause=""),
    dict(name="attention", fn=attention_fw, wrong=False, cause=""),
    dict(name="scaled_dot_product_attention", fn=scaled_dot_product_attention_lr, wrong=False, cause=""),
    dict(name="tiled_attention", fn=tiled_attention_fw, wrong=False, cause=""),
    dict(name="cross_entropy", fn=cross_entropy_km, wrong=False, cause=""),
    dict(name="token_log_probs", fn=token_log_probs_uv, wrong=False, cause=""),
    dict(name="dpo_loss", fn=dpo_loss_uv, wrong=False, cause=""),
    dict(name="policy_loss", fn=policy_loss_jp, wrong=False, cause=""),
    dict(name="group_advantages", fn=group_advantages_ab, wrong=False, cause=""),
    dict(name="kl_estimate", fn=kl_estimate_dm, wrong=False, cause=""),
    dict(name="rotary", fn=rotary_fw, wrong=False, cause=""),
    dict(name="alibi_slopes", fn=alibi_slopes_th, wrong=False, cause=""),
    dict(name="relative_position_buckets", fn=relative_position_buckets_th, wrong=False, cause=""),
    dict(name="sinusoidal_positions", fn=sinusoidal_positions_wx, wrong=False, cause=""),
    dict(name="gru_cell", fn=gru_cell_pq, wrong=False, cause=""),
    dict(name="lstm_cell", fn=lstm_cell_dm, wrong=False, cause=""),
    dict(name="swish", fn=swish_gs, wrong=False, cause=""),
    dict(name="gelu", fn=gelu_mt, wrong=False, cause=""),
    dict(name="gelu_tanh", fn=gelu_tanh_el, wrong=False, cause=""),
    dict(name="causal_convolution", fn=causal_convolution_wx, wrong=False, cause=""),
    dict(name="convolution_2d", fn=convolution_2d_dm, wrong=False, cause=""),
    dict(name="window_partition", fn=window_partition_mt, wrong=False, cause=""),
    dict(name="adam_step", fn=adam_step_mt, wrong=False, cause=""),
    dict(name="load_balance_loss", fn=load_balance_loss_hv, wrong=False, cause=""),
    dict(name="top_k_experts", fn=top_k_experts_km, wrong=False, cause=""),
    dict(name="generalized_iou", fn=generalized_iou_uv, wrong=False, cause=""),
    dict(name="quantile_loss", fn=quantile_loss_el, wrong=False, cause=""),
    dict(name="linear_attention", fn=linear_attention_oz, wrong=False, cause=""),
    dict(name="mean_pooling", fn=mean_pooling_sy, wrong=False, cause=""),
    dict(name="softmax_backward", fn=softmax_backward_io, wrong=False, cause=""),
    dict(name="attention_backward", fn=attention_backward_sy, wrong=False, cause=""),
    dict(name="rms_norm_backward", fn=rms_norm_backward_dm, wrong=False, cause=""),
    dict(name="contrastive_loss", fn=contrastive_loss_jp, wrong=False, cause=""),
    dict(name="gated_feed_forward", fn=gated_feed_forward_th, wrong=False, cause=""),
    dict(name="max_pooling_2d", fn=max_pooling_2d_ab, wrong=False, cause=""),
    dict(name="relative_scores", fn=relative_scores_jp, wrong=False, cause=""),
    dict(name="softmax", fn=softmax_jp, wrong=True,
         cause="The maximum of the whole array is subtracted, not that of each row, so rows far below "
               "it underflow to 0 / 0."),
    dict(name="softmax", fn=softmax_pq, wrong=True,
         cause="The mask is applied after the normalization, so the weights of a masked row do not "
               "sum to 1."),
    dict(name="softmax", fn=softmax_ck, wrong=True,
         cause="Masked scores are set to -1e30 and not excluded, so a fully masked row gets uniform "
               "weights instead of 0."),
    dict(name="log_softmax", fn=log_softmax_nb, wrong=True,
         cause="1e-12 is added to the probability before the logarithm, so log-probabilities below "
               "about -25 are wrong."),
    dict(name="softmax_backward", fn=softmax_backward_fw, wrong=True,
         cause="The plain sum of dp times p is subtracted instead of the sum of p * dp."),
    dict(name="log_softmax_backward", fn=log_softmax_backward_ru, wrong=True,
         cause="The sum of p * dy is subtracted (times p) instead of the sum of dy."),
    dict(name="linear_backward", fn=linear_backward_th, wrong=True,
         cause="The gradient of the weight is divided by the size of the first axis of x."),
    dict(name="low_rank_linear", fn=low_rank_linear_fw, wrong=True,
         cause="With rank_stabilized the scale is alpha / R^1.5 instead of alpha / sqrt(R)."),
    dict(name="embedding_backward", fn=embedding_backward_pq, wrong=True,
         cause="Indexed += adds only one of the gradients of an id that occurs several times."),
    dict(name="layer_norm", fn=layer_norm_oz, wrong=True,
         cause="The variance is divided by C - 1 instead of C."),
    dict(name="layer_norm", fn=layer_norm_ab, wrong=True,
         cause="The variance is E[x^2] - mean^2, which cancels where the mean is large compared with "
               "the deviation."),
    dict(name="layer_norm_backward", fn=layer_norm_backward_sy, wrong=True,
         cause="The term through the variance is divided by C - 1 instead of C."),
    dict(name="rms_norm", fn=rms_norm_nb, wrong=True,
         cause="The scale is 1 + weight (Gemma) instead of weight."),
    dict(name="rms_norm", fn=rms_norm_wx, wrong=True,
         cause="Epsilon is added to the sum of the squares instead of their mean, so it counts C "
               "times too little."),
    dict(name="rms_norm_backward", fn=rms_norm_backward_ru, wrong=True,
         cause="The inner product with x_hat is that of dy instead of weight * dy."),
    dict(name="rms_norm_outside", fn=rms_norm_outside_ck, wrong=True,
         cause="Epsilon is added to the length instead of the root mean square, so it is sqrt(C) too "
               "small."),
    dict(name="layer_norm_outside", fn=layer_norm_outside_lr, wrong=True,
         cause="Epsilon is added, squared, inside the root instead of to the standard deviation."),
    dict(name="batch_norm", fn=batch_norm_km, wrong=True,
         cause="Statistics run over the first axis only, not over all axes but the last, so inputs of "
               "more axes are wrong."),
    dict(name="masked_batch_norm", fn=masked_batch_norm_el, wrong=True,
         cause="The variance is divided by the number of all positions, padding included."),
    dict(name="batch_norm_inference", fn=batch_norm_inference_oz, wrong=True,
         cause="The folded offset subtracts mean * weight instead of mean * weight / sqrt(variance + "
               "epsilon)."),
    dict(name="gelu", fn=gelu_fw, wrong=True,
         cause="The tanh approximation is computed instead of the exact GELU."),
    dict(name="gelu_tanh", fn=gelu_tanh_sy, wrong=True,
         cause="The cubic term is not multiplied by sqrt(2 / pi)."),
    dict(name="gelu_backward", fn=gelu_backward_io, wrong=True,
         cause="The normal density is divided by sqrt(pi) instead of sqrt(2 pi)."),
    dict(name="quick_gelu", fn=quick_gelu_mt, wrong=True,
         cause="The factor in the sigmoid is sqrt(8 / pi) = 1.596 instead of 1.702."),
    dict(name="swish_backward", fn=swish_backward_dm, wrong=True,
         cause="The factor beta of the inner derivative is missing."),
    dict(name="relu_squared", fn=relu_squared_io, wrong=True,
         cause="The square is taken before the rectification, so negative numbers are not set to 0."),
    dict(name="gated_linear_unit", fn=gated_linear_unit_wx, wrong=True,
         cause="The activation is applied to the hidden units instead of the gates."),
    dict(name="feed_forward", fn=feed_forward_ck, wrong=True,
         cause="The hidden bias is added after the activation instead of before it."),
    dict(name="gated_feed_forward", fn=gated_feed_forward_pq, wrong=True,
         cause="Gate and hidden bias are added only if both are given; one alone is ignored."),
    dict(name="attention", fn=attention_nb, wrong=True,
         cause="The scores are divided by the root of the width of the values instead of that of the "
               "keys."),
    dict(name="attention", fn=attention_wx, wrong=True,
         cause="Masked scores are lowered by 10000 instead of excluded, so with large scores masked "
               "keys get weight."),
    dict(name="attention_backward", fn=attention_backward_ru, wrong=True,
         cause="delta is the mean over the value width of do * o instead of the sum."),
    dict(name="scaled_dot_product_attention", fn=scaled_dot_product_attention_nb, wrong=True,
         cause="The soft cap is applied after the ALiBi penalty instead of before it, which shows "
               "only where both are given."),
    dict(name="scaled_dot_product_attention", fn=scaled_dot_product_attention_wx, wrong=True,
         cause="Query heads share key-value heads in turn (h mod G) instead of in consecutive groups."),
    dict(name="scaled_dot_product_attention", fn=scaled_dot_product_attention_hv, wrong=True,
         cause="Weights are normalized again after dropout instead of divided by 1 - rate."),
    dict(name="attention_weights", fn=attention_weights_dm, wrong=True,
         cause="A given scale is multiplied with 1 / sqrt(D) instead of replacing it."),
    dict(name="tiled_attention", fn=tiled_attention_io, wrong=True,
         cause="The running sum is not rescaled when the maximum rises, which shows only with more "
               "than one tile."),
    dict(name="tiled_attention", fn=tiled_attention_pq, wrong=True,
         cause="The last, incomplete tile of keys is left out."),
    dict(name="drop_weights", fn=drop_weights_uv, wrong=True,
         cause="Kept weights are not divided by 1 - rate."),
    dict(name="alibi", fn=alibi_uv, wrong=True,
         cause="The penalty is signed: keys after the query get a bonus instead of a penalty."),
    dict(name="alibi", fn=alibi_gs, wrong=True,
         cause="Queries are aligned with the first keys instead of the last, which shows where T "
               "differs from S."),
    dict(name="alibi_slopes", fn=alibi_slopes_wx, wrong=True,
         cause="The formula for powers of two is used for every number of heads."),
    dict(name="alibi_slopes", fn=alibi_slopes_hv, wrong=True,
         cause="For other numbers of heads the first slopes of the next power are taken instead of "
               "every second one."),
    dict(name="add_by_distance", fn=add_by_distance_sy, wrong=True,
         cause="The index of the distance is i - j + S - 1 instead of j - i + T - 1: the direction is "
               "reversed."),
    dict(name="soft_cap", fn=soft_cap_sy, wrong=True,
         cause="x / (1 + |x| / cap) is computed instead of cap * tanh(x / cap)."),
    dict(name="relative_scores", fn=relative_scores_lr, wrong=True,
         cause="Queries are aligned with the first keys instead of the last, which shows where T "
               "differs from S."),
    dict(name="relative_values", fn=relative_values_th, wrong=True,
         cause="The sign of the distance is reversed: query minus key."),
    dict(name="relative_attention", fn=relative_attention_io, wrong=True,
         cause="The scale is missing in the term of the key table."),
    dict(name="repeat_kv_heads", fn=repeat_kv_heads_mt, wrong=True,
         cause="The whole block of heads is repeated instead of each head in place."),
    dict(name="distance_weights", fn=distance_weights_wx, wrong=True,
         cause="The distance is squared."),
    dict(name="uniform_weights", fn=uniform_weights_gs, wrong=True,
         cause="Columns (over queries) are normalized instead of rows (over keys)."),
    dict(name="additive_scores", fn=additive_scores_nb, wrong=True,
         cause="v is multiplied before the tanh, which is then of the sum over the hidden units."),
    dict(name="general_scores", fn=general_scores_uv, wrong=True,
         cause="The scores are divided by the root of the width, which the general score is not."),
    dict(name="linear_attention", fn=linear_attention_io, wrong=True,
         cause="With causal, the denominator is still the sum over all keys."),
    dict(name="linear_attention", fn=linear_attention_pq, wrong=True,
         cause="The feature map is relu(x) + 1 instead of elu(x) + 1."),
    dict(name="low_rank_attention", fn=low_rank_attention_el, wrong=True,
         cause="The scores are divided by sqrt(R), the number of mixtures, instead of sqrt(D)."),
    dict(name="sparse_attention", fn=sparse_attention_jp, wrong=True,
         cause="Entries of -1 are not masked and index the last key."),
    dict(name="mask_of_keys", fn=mask_of_keys_mt, wrong=True,
         cause="Entries of -1 set the last column instead of nothing."),
    dict(name="window_attention", fn=window_attention_dm, wrong=True,
         cause="The bias is multiplied by the scale too."),
    dict(name="window_distances", fn=window_distances_km, wrong=True,
         cause="The distance is that of the key from the query instead of the query from the key."),
    dict(name="head_projections", fn=head_projections_sy, wrong=True,
         cause="The norm comes after the rotation instead of before, which shows only where both are "
               "given."),
    dict(name="top_k_experts", fn=top_k_experts_ab, wrong=True,
         cause="Of equal logits the expert with the highest number comes first, as an ascending order "
               "is reversed."),
    dict(name="top_k_gates", fn=top_k_gates_gs, wrong=True,
         cause="The softmax runs over all experts without renormalization over the chosen ones."),
    dict(name="top_k_gates_over_all", fn=top_k_gates_over_all_ck, wrong=True,
         cause="The weights are normalized over the chosen experts."),
    dict(name="load_balance_loss", fn=load_balance_loss_gs, wrong=True,
         cause="Only the first choice of each token is counted, which shows for k above 1."),
    dict(name="router_z_loss", fn=router_z_loss_jp, wrong=True,
         cause="The square of the mean log-sum-exp is taken instead of the mean square."),
    dict(name="z_loss", fn=z_loss_jp, wrong=True,
         cause="The log-sum-exp is computed without subtracting the maximum and overflows."),
    dict(name="combine_experts", fn=combine_experts_fw, wrong=True,
         cause="A slot's token is s mod N and its choice s // N instead of s // k and s mod k."),
    dict(name="softmax_cross_entropy", fn=softmax_cross_entropy_th, wrong=True,
         cause="The sum is divided by the first axis only, not by the number of all targets."),
    dict(name="cross_entropy", fn=cross_entropy_sy, wrong=True,
         cause="The smoothing mass is spread over the V - 1 other classes instead of all V."),
    dict(name="cross_entropy", fn=cross_entropy_el, wrong=True,
         cause="The mean runs over all positions, ignored ones included."),
    dict(name="cross_entropy", fn=cross_entropy_lr, wrong=True,
         cause="With label smoothing the z-loss is multiplied by 1 - epsilon, which shows only where "
               "both are given."),
    dict(name="cross_entropy", fn=cross_entropy_th, wrong=True,
         cause="Every negative target is ignored instead of those equal to ignore_index."),
    dict(name="linear_cross_entropy", fn=linear_cross_entropy_mt, wrong=True,
         cause="The running sum is not rescaled when the maximum rises, which shows only for more "
               "than 16 classes."),
    dict(name="weighted_cross_entropy", fn=weighted_cross_entropy_ab, wrong=True,
         cause="The weighted sum is divided by the number of targets instead of the sum of their "
               "weights."),
    dict(name="distillation_loss", fn=distillation_loss_dm, wrong=True,
         cause="The factor is T instead of T squared."),
    dict(name="distillation_loss", fn=distillation_loss_km, wrong=True,
         cause="The divergence is KL(student, teacher) instead of KL(teacher, student)."),
    dict(name="imitation_loss", fn=imitation_loss_oz, wrong=True,
         cause="The mean is over vectors instead of elements, so the loss is C times too large."),
    dict(name="contrastive_loss", fn=contrastive_loss_dm, wrong=True,
         cause="The two directions are summed instead of averaged."),
    dict(name="dpo_loss", fn=dpo_loss_ck, wrong=True,
         cause="The margin of the reference has the wrong sign."),
    dict(name="dpo_loss", fn=dpo_loss_jp, wrong=True,
         cause="Label smoothing is that of robust DPO: the flipped loss is subtracted, and the result "
               "divided by 1 - 2 epsilon."),
    dict(name="dpo_loss", fn=dpo_loss_ru, wrong=True,
         cause="The likelihood term is multiplied by 1 - epsilon, which shows only with both options."),
    dict(name="policy_loss", fn=policy_loss_gs, wrong=True,
         cause="The upper bound of the clip uses clip_low, which shows only where the two differ."),
    dict(name="policy_loss", fn=policy_loss_nb, wrong=True,
         cause="Answers without tokens count in N, which shows for sequence and constant "
               "normalization."),
    dict(name="policy_loss", fn=policy_loss_wx, wrong=True,
         cause="The clipped ratio is always used; the minimum with the unclipped objective is "
               "missing."),
    dict(name="policy_loss", fn=policy_loss_hv, wrong=True,
         cause="The penalty is averaged over tokens whatever the normalization."),
    dict(name="kl_estimate", fn=kl_estimate_oz, wrong=True,
         cause="k3 has the sign of the log-ratio reversed: it uses log policy minus log reference."),
    dict(name="kl_estimate", fn=kl_estimate_ab, wrong=True,
         cause='In "k3 corrected" the importance ratio is inverted.'),
    dict(name="kl_estimate_backward", fn=kl_estimate_backward_sy, wrong=True,
         cause='For "k3 corrected" the derivative of the ratio is left out.'),
    dict(name="group_advantages", fn=group_advantages_wx, wrong=True,
         cause="The standard deviation is divided by G - 1 instead of G."),
    dict(name="group_advantages", fn=group_advantages_hv, wrong=True,
         cause="The standard deviation is that of the whole batch instead of each group."),
    dict(name="token_log_probs", fn=token_log_probs_nb, wrong=True,
         cause="The log-softmax is divided by the temperature instead of the logits."),
    dict(name="token_log_probs_backward", fn=token_log_probs_backward_jp, wrong=True,
         cause="The factor 1 / T is missing."),
    dict(name="triplet_loss", fn=triplet_loss_el, wrong=True, cause="Distances are squared."),
    dict(name="triplet_loss", fn=triplet_loss_lr, wrong=True,
         cause="The mean is over the triplets that violate the margin instead of all."),
    dict(name="cosine_similarity", fn=cosine_similarity_dm, wrong=True,
         cause="Norms are bounded below by 1e-3, so cosines of short vectors are too small."),
    dict(name="cosine_regression_loss", fn=cosine_regression_loss_pq, wrong=True,
         cause="The cosine is mapped to 0 .. 1 before it is compared with the target."),
    dict(name="quantile_loss", fn=quantile_loss_nb, wrong=True,
         cause="The error has the wrong sign, so q and 1 - q change places."),
    dict(name="pair_features", fn=pair_features_wx, wrong=True,
         cause="The absolute value of the difference is missing."),
    dict(name="box_loss", fn=box_loss_ck, wrong=True,
         cause="The L1 distance is that of the corners instead of centres and sizes."),
    dict(name="generalized_iou", fn=generalized_iou_ru, wrong=True,
         cause="The empty space is divided by the union instead of the enclosing box."),
    dict(name="box_iou", fn=box_iou_pq, wrong=True,
         cause="One is added to all widths and heights, as for whole pixels."),
    dict(name="match_objects", fn=match_objects_io, wrong=True,
         cause="The assignment is greedy and need not have the least cost in sum."),
    dict(name="rotary", fn=rotary_io, wrong=True,
         cause="With the interleaved layout the rotated pairs are concatenated as halves and not "
               "interleaved again."),
    dict(name="rotary", fn=rotary_pq, wrong=True,
         cause="With the half layout the sign of the sine is wrong, so pairs rotate backwards."),
    dict(name="rotary_frequencies", fn=rotary_frequencies_oz, wrong=True,
         cause="The exponent is -i / D instead of -2 i / D."),
    dict(name="rotary_angles", fn=rotary_angles_ru, wrong=True,
         cause="Positions begin at 0 instead of start."),
    dict(name="partial_rotary", fn=partial_rotary_el, wrong=True,
         cause="With the half layout, i is paired with i + D/2 instead of i + R/2."),
    dict(name="llama3_frequencies", fn=llama3_frequencies_pq, wrong=True,
         cause="The ramp is linear in the wavelength instead of the number of turns."),
    dict(name="yarn_frequencies", fn=yarn_frequencies_wx, wrong=True,
         cause="The end of the ramp is bounded by D/2 - 1 instead of D - 1."),
    dict(name="linear_frequencies", fn=linear_frequencies_jp, wrong=True,
         cause="The base is changed (NTK-aware scaling) instead of all frequencies divided by the "
               "factor."),
    dict(name="sinusoidal_positions", fn=sinusoidal_positions_th, wrong=True,
         cause="All sines come first and then all cosines, instead of in turn."),
    dict(name="sinusoidal_positions", fn=sinusoidal_positions_fw, wrong=True,
         cause="The frequencies are 10000^(-i / (C/2 - 1)) instead of 10000^(-2 i / C)."),
    dict(name="sinusoidal_positions_2d", fn=sinusoidal_positions_2d_pq, wrong=True,
         cause="The first half is for the column and the second for the row."),
    dict(name="relative_position_buckets", fn=relative_position_buckets_el, wrong=True,
         cause="Distance 0 is sorted into the half of later keys."),
    dict(name="relative_position_bias", fn=relative_position_bias_io, wrong=True,
         cause="max_distance is not passed on, so the default of 128 is always used."),
    dict(name="causal_convolution", fn=causal_convolution_lr, wrong=True,
         cause="The filter is flipped: the first tap is for the position itself."),
    dict(name="causal_convolution", fn=causal_convolution_th, wrong=True,
         cause="Padding on the left is K - 1 whatever the dilation, so with dilation above 1 later "
               "positions are seen."),
    dict(name="convolution_2d", fn=convolution_2d_ab, wrong=True,
         cause="The padding repeats the border instead of zeros."),
    dict(name="max_pooling_2d", fn=max_pooling_2d_io, wrong=True,
         cause="The running maximum begins at 0, so negative windows give 0."),
    dict(name="mean_pooling_2d", fn=mean_pooling_2d_ru, wrong=True,
         cause="A stride below the size is raised to the size, so windows never overlap."),
    dict(name="mean_pooling", fn=mean_pooling_wx, wrong=True,
         cause="The sum is divided by T, padding included."),
    dict(name="max_pooling", fn=max_pooling_gs, wrong=True,
         cause="Padding is set to 0 and can be the maximum."),
    dict(name="merge_patches", fn=merge_patches_pq, wrong=True,
         cause="The order of the four neighbours is right before down instead of down before right."),
    dict(name="patches", fn=patches_ru, wrong=True,
         cause="Within a patch channels come first instead of last."),
    dict(name="window_reverse", fn=window_reverse_km, wrong=True,
         cause="The batch is taken as the innermost of the axes of windows instead of the outermost."),
    dict(name="cyclic_roll", fn=cyclic_roll_oz, wrong=True,
         cause="The map is moved down and to the right instead of up and to the left."),
    dict(name="shifted_window_mask", fn=shifted_window_mask_jp, wrong=True,
         cause="The numbers of the parts are row + column, so two different parts of a window share "
               "the number 1."),
    dict(name="deformable_attention", fn=deformable_attention_sy, wrong=True,
         cause="Locations are multiplied by N - 1 (corners aligned) instead of N with half a pixel "
               "subtracted."),
    dict(name="rnn_cell", fn=rnn_cell_mt, wrong=True, cause="The bias is added after the tanh."),
    dict(name="lstm_cell", fn=lstm_cell_wx, wrong=True,
         cause="The blocks are taken as i, f, g, o instead of i, f, o, g."),
    dict(name="lstm_cell", fn=lstm_cell_hv, wrong=True,
         cause="The output is computed from the old memory instead of the new one."),
    dict(name="gru_cell", fn=gru_cell_nb, wrong=True,
         cause="The recurrent bias is not multiplied by the reset gate."),
    dict(name="gru_cell_reset_before", fn=gru_cell_reset_before_nb, wrong=True,
         cause="The update gate is the fraction of the candidate instead of the old state."),
    dict(name="adam_step", fn=adam_step_io, wrong=True,
         cause="Weight decay is added to the gradient (L2) instead of decoupled."),
    dict(name="adam_step", fn=adam_step_pq, wrong=True,
         cause="Epsilon is added before the bias correction of the second moment."),
    dict(name="adam_step", fn=adam_step_ck, wrong=True,
         cause="The second moment has grad_scale to the first power instead of squared."),
    dict(name="orthogonalize", fn=orthogonalize_nb, wrong=True,
         cause="The coefficients are 1.875, -1.25, 0.375 instead of 3.4445, -4.7750, 2.0315."),
    dict(name="ngram_rows", fn=ngram_rows_sy, wrong=True,
         cause="The newest token has the highest power of V + 1 instead of the lowest."),
    dict(name="to_bfloat16", fn=to_bfloat16_fw, wrong=True,
         cause="The lower bits are cut off instead of rounded."),
    dict(name="to_int8", fn=to_int8_io, wrong=True,
         cause="There is one scale for the whole matrix instead of one for each column."),
    dict(name="nearest_codes", fn=nearest_codes_ab, wrong=True,
         cause="Squares are expanded, which loses the distances in rounding where all vectors have a "
               "large common part."),
    dict(name="layer_norm", fn=layer_norm_gs, wrong=True,
         cause="Two mistakes: the variance is divided by C - 1, and epsilon is added to the standard "
               "deviation."),
    dict(name="token_log_probs", fn=token_log_probs_sy, wrong=True,
         cause="Two mistakes: logits are multiplied by the temperature, and ignored positions do not "
               "get 0."),
    dict(name="alibi", fn=alibi_oz, wrong=True,
         cause="Two mistakes: the penalty is added instead of subtracted, and queries are aligned "
               "with the first keys."),
]
