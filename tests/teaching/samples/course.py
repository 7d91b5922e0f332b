"""Samples: versions of numformer functions as students and engineers write them, wrong and right."""
import math

import numpy as np
from scipy import special

SAMPLES = []


def add(name, fn, wrong, cause=""):
    SAMPLES.append(dict(name=name, fn=fn, wrong=wrong, cause=cause))


# ---------------------------------------------------------------------------------------- norms
def ln_annotated(x, weight, bias, epsilon=1e-5):
    mu = x.mean(-1, keepdims=True)
    sd = x.std(-1, keepdims=True)
    return weight * (x - mu) / (sd + epsilon) + bias
add("layer_norm", ln_annotated, True,
    "epsilon is added to the standard deviation, outside the root")


def ln_outside_torchlike(x, weight, bias, epsilon=1e-5):
    n = x.shape[-1]
    xm = x - np.sum(x, axis=-1, keepdims=True) / n
    sd = np.sqrt(np.sum(xm ** 2, axis=-1, keepdims=True) / max(n - 1, 1))
    return xm / (sd + epsilon) * weight + bias
add("layer_norm_outside", ln_outside_torchlike, True,
    "the variance is divided by C - 1 (unbiased, as torch.std) instead of C")


def ln_bwd_const_var(dy, x, weight, bias, epsilon=1e-5):
    shp = x.shape
    D = shp[-1]
    X = x.reshape(-1, D); G = dy.reshape(-1, D)
    mu = X.mean(1)[:, None]
    inv = 1.0 / np.sqrt(X.var(1)[:, None] + epsilon)
    xn = (X - mu) * inv
    dgamma = np.einsum("nd,nd->d", G, xn)
    dbeta = np.einsum("nd->d", G)
    dxn = G * weight
    dX = inv * (dxn - dxn.mean(1)[:, None])
    return dX.reshape(shp), dgamma, dbeta
add("layer_norm_backward", ln_bwd_const_var, True,
    "the path of the gradient through the variance is forgotten")


def ln_bwd_last_gamma(dy, x, weight, bias, epsilon=1e-5):
    """dgamma of a list of tokens; written for (B, T, C)."""
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    std = np.sqrt(var + epsilon)
    norm = (x - mean) / std
    C = x.shape[-1]
    g = dy * weight
    dvar = (g * (x - mean)).sum(-1, keepdims=True) * -0.5 / std ** 3
    dmean = -(g / std).sum(-1, keepdims=True)
    dx = g / std + dvar * 2 * (x - mean) / C + dmean / C
    # the affine parameters: no weight inside
    dgamma = (g * norm).reshape(-1, C).sum(0)
    dbeta = dy.reshape(-1, C).sum(0)
    return dx, dgamma, dbeta
add("layer_norm_backward", ln_bwd_last_gamma, True,
    "dweight uses dy times weight instead of dy")


def ln_bwd_classic(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    rows, grads = x.reshape(-1, C), dy.reshape(-1, C)
    dx = np.empty_like(rows); dw = np.zeros(C, x.dtype); db = np.zeros(C, x.dtype)
    for n in range(rows.shape[0]):
        c = rows[n] - rows[n].sum() / C
        s2 = np.dot(c, c) / C + epsilon
        s = np.sqrt(s2)
        g = grads[n] * weight
        dw += grads[n] * c / s
        db += grads[n]
        proj = (np.dot(g, c) / s) / C
        dx[n] = (g - g.sum() / C - c / s * proj) / s
    return dx.reshape(x.shape), dw, db
add("layer_norm_backward", ln_bwd_classic, False)


def rms_l2(x, weight, epsilon=1e-5):
    denom = np.sqrt(np.einsum("...c,...c->...", x, x) + epsilon)
    return x / denom[..., None] * weight
add("rms_norm", rms_l2, True,
    "the root of the sum of squares is used instead of the root of their mean")


def rms_fixed_eps(x, weight, epsilon=1e-5):
    ms = np.square(x).mean(axis=-1, keepdims=True)
    return x * weight / np.sqrt(ms + 1e-5)
add("rms_norm", rms_fixed_eps, True, "the option epsilon is ignored: 1e-5 is hard-coded")


def rms_bwd(dout, x, weight, epsilon=1e-5):
    d = x.shape[-1]
    r = 1 / np.sqrt((x * x).sum(-1, keepdims=True) / d + epsilon)
    wd = dout * weight
    dx = wd * r - x * r ** 3 * (wd * x).sum(-1, keepdims=True)
    dw = (dout * x * r).reshape(-1, d).sum(axis=0)
    return dx, dw
add("rms_norm_backward", rms_bwd, True,
    "the division by C is missing in the term through the root mean square (sum instead of mean)")


def rms_bwd_jac(dy, x, weight, epsilon=1e-5):
    C = x.shape[-1]
    X, G = x.reshape(-1, C), dy.reshape(-1, C)
    r2 = (X ** 2).mean(1) + epsilon
    r = r2 ** -0.5
    # full Jacobian of x_hat, one matrix per row
    J = r[:, None, None] * (np.eye(C, dtype=x.dtype)
                            - X[:, :, None] * X[:, None, :] / (C * r2)[:, None, None])
    dX = np.einsum("nj,nji->ni", G * weight, J)
    return dX.reshape(x.shape), np.einsum("ni,ni,n->i", G, X, r)
add("rms_norm_backward", rms_bwd_jac, False)


def bn_axis0(x, weight, bias, epsilon=1e-5):
    mu = np.mean(x, axis=0)
    var = np.mean((x - mu) ** 2, axis=0)
    return weight * (x - mu) / np.sqrt(var + epsilon) + bias
add("batch_norm", bn_axis0, True,
    "the statistics are over the first axis alone, not over all axes but the last (right only for 2-D)")


def bn_two_pass(x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    flat = np.moveaxis(x, -1, 0).reshape(C, -1)
    out = np.empty_like(flat)
    for c, row in enumerate(flat):
        m = math.fsum(row) / row.size
        d = row - m
        v = math.fsum(d * d) / row.size
        out[c] = weight[c] * d / math.sqrt(v + epsilon) + bias[c]
    return np.moveaxis(out.reshape((C,) + x.shape[:-1]), 0, -1)
add("batch_norm", bn_two_pass, False)


def bn_bwd(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    X, D = x.reshape(-1, C), dy.reshape(-1, C)
    N = X.shape[0]
    mu = X.mean(0)
    ivar = 1. / np.sqrt(X.var(axis=0, ddof=1) + epsilon)
    xh = (X - mu) * ivar
    dg, db = (D * xh).sum(0), D.sum(0)
    dX = weight * ivar / N * (N * D - db - xh * dg)
    return dX.reshape(x.shape), dg, db
add("batch_norm_backward", bn_bwd, True,
    "the variance has n - 1 in place of n (running-average variance used to normalize)")


def bn_inf_std(x, weight, bias, statistics, epsilon=1e-5):
    mu, var = statistics
    a = weight / (np.sqrt(var) + epsilon)
    return x * a + (bias - mu * a)
add("batch_norm_inference", bn_inf_std, True, "epsilon is added outside the root")


def masked_bn_zero(x, weight, bias, mask, epsilon=1e-5):
    keep = mask[..., None]
    xz = np.where(keep, x, 0.)
    ax = tuple(range(x.ndim - 1))
    n = mask.sum()
    mu = xz.sum(axis=ax) / n
    var = ((xz - mu) ** 2).sum(axis=ax) / n     # padding is zero and does not matter
    y = (xz - mu) / np.sqrt(var + epsilon) * weight + bias
    return np.where(keep, y, 0.)
add("masked_batch_norm", masked_bn_zero, True,
    "padding, set to zero, is counted in the variance: each padded row adds mean squared")


# -------------------------------------------------------------------------------------- softmax
def softmax_ignores_axis(x, axis=-1):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(-1)[..., None]
add("softmax", softmax_ignores_axis, True, "the option axis is ignored: the last axis is always used")


def softmax_logspace(x, axis=-1, mask=None):
    z = x if mask is None else np.where(mask, x, -np.inf)
    lse = special.logsumexp(z, axis=axis, keepdims=True)
    out = np.exp(z - np.where(np.isfinite(lse), lse, 0))
    return out.astype(x.dtype)
add("softmax", softmax_logspace, False)


def softmax_mult_mask(x, axis=-1, mask=None):
    t = np.exp(x - x.max(axis=axis, keepdims=True))
    p = t / t.sum(axis=axis, keepdims=True)
    if mask is not None:
        p = p * mask
    return p
add("softmax", softmax_mult_mask, True,
    "the mask is applied after the normalization, so the weights left over do not sum to 1")


def softmax_half(x, axis=-1):
    z = np.asarray(x - x.max(axis=axis, keepdims=True), dtype=np.float32)
    e = np.exp(z)
    return (e / e.sum(axis=axis, keepdims=True)).astype(x.dtype)
add("softmax", softmax_half, True, "an intermediate in float32: precision is lost")


def softmax_bwd_einsum(dp, x, axis=-1):
    x = np.moveaxis(x, axis, -1)
    g = np.moveaxis(dp, axis, -1)
    p = special.softmax(x, axis=-1)
    out = p * g - np.einsum("...i,...j,...j->...i", p, p, g)
    return np.moveaxis(out, -1, axis)
add("softmax_backward", softmax_bwd_einsum, False)


def logsm_global_max(x, axis=-1):
    z = x - x.max()
    with np.errstate(divide="ignore"):
        return z - np.log(np.sum(np.exp(z), axis=axis, keepdims=True))
add("log_softmax", logsm_global_max, True,
    "the maximum of the whole array is subtracted, so a row far below it underflows to log 0")


def logsm_naive_eps(x, axis=-1):
    p = special.softmax(x, axis=axis)
    return np.log(p + 1e-12)
add("log_softmax", logsm_naive_eps, True,
    "log(softmax + 1e-12): the small probabilities are clipped by the added constant")


def logsm_logaddexp(x, axis=-1):
    return x - np.expand_dims(np.logaddexp.reduce(x, axis=axis), axis)
add("log_softmax", logsm_logaddexp, False)


def logsm_bwd(dy, x, axis=-1):
    p = special.softmax(x, axis=axis)
    return dy - p * dy.mean(axis=axis, keepdims=True)
add("log_softmax_backward", logsm_bwd, True, "the mean of dy is used where the sum is needed")


def logsm_bwd_torch(dy, x, axis=-1):
    import torch
    t = torch.tensor(x.copy(), requires_grad=True)
    torch.log_softmax(t, dim=axis).backward(torch.tensor(dy.copy()))
    return t.grad.numpy()
add("log_softmax_backward", logsm_bwd_torch, False)


# ---------------------------------------------------------------------------------- activations
def gelu_as(x):
    # Abramowitz & Stegun 7.1.26
    z = np.abs(x) / np.sqrt(2.0)
    t = 1 / (1 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - poly * np.exp(-np.minimum(z, 30) ** 2))
    return (x * 0.5 * (1 + erf)).astype(x.dtype)
add("gelu", gelu_as, True, "erf is approximated by a polynomial (Abramowitz-Stegun) with an error of 1e-7")


def gelu_ndtr(x):
    return x * special.ndtr(x)
add("gelu", gelu_ndtr, False)


def gelu_bwd(dy, x):
    cdf = special.ndtr(x)
    pdf = np.exp(-np.minimum(np.abs(x), 50.) ** 2 / 2) / (2 * np.pi)
    return (dy * (cdf + np.clip(x, -50, 50) * pdf)).astype(x.dtype)
add("gelu_backward", gelu_bwd, True, "the density is divided by 2 pi instead of its root")


def gelu_tanh_bwd(grad, x):
    k = math.sqrt(2 / math.pi)
    xc = np.clip(x, -30, 30)
    th = np.tanh(k * (xc + 0.044715 * xc ** 3))
    left = 0.5 * (1 + th)
    right = 0.5 * xc * (1 - th * th) * k * (1 + 0.044715 * xc ** 2)
    return grad * (left + right)
add("gelu_tanh_backward", gelu_tanh_bwd, True, "the factor 3 of the derivative of the cube is missing")


def gelu_tanh_sigmoid(x):
    # 0.5 (1 + tanh u) = sigmoid(2u)
    xc = np.clip(x, -40, 40)
    u = 2 * np.sqrt(2 / np.pi) * xc * (1 + 0.044715 * xc * xc)
    return (x * special.expit(u)).astype(x.dtype)
add("gelu_tanh", gelu_tanh_sigmoid, False)


def quick(x):
    return x * special.expit(1.7 * x)
add("quick_gelu", quick, True, "the constant is 1.7 instead of 1.702")


def swish_bwd(dy, x, beta=1.0):
    s = special.expit(beta * x)
    y = x * s
    return dy * (y + s * (1 - y))
add("swish_backward", swish_bwd, True,
    "the factor beta is missing in the term through the gate (right only at beta = 1)")


def swish_vec(x, beta=1.0):
    def one(v):
        b = float(beta) * float(v)
        return v / (1 + math.exp(-b)) if b >= 0 else v * math.exp(b) / (1 + math.exp(b))
    return np.vectorize(one, otypes=[x.dtype])(x)
add("swish", swish_vec, False)


def silu_in_place(x):
    gate = special.expit(x)
    x *= gate
    return x
add("silu", silu_in_place, True, "the argument x is written into")


def sigmoid_exp(x):
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.exp(x)
        return e / (1 + e)
add("sigmoid", sigmoid_exp, True, "exp overflows for large x: Inf / Inf is NaN")


def sigmoid_bwd_twice(dy, saved):
    (s,) = saved
    g = 1 / (1 + np.exp(-s))
    return dy * g * (1 - g)
add("sigmoid_backward", sigmoid_bwd_twice, True,
    "the sigmoid is applied again to what is saved, which already is the output")


def sigmoid_bwd_tanh(dy, x):
    # s (1 - s) = 1 / (4 cosh^2(x / 2)), symmetric
    h = np.exp(-np.abs(x))
    return dy * h / (1 + h) ** 2
add("sigmoid_backward", sigmoid_bwd_tanh, False)


def relu2_bwd(dy, x):
    r = np.maximum(x, 0)
    return 2 * r * r * dy
add("relu_squared_backward", relu2_bwd, True, "2 relu(x)^2 instead of 2 relu(x)")


def soft_cap_bwd(dy, x, cap):
    t = np.tanh(x)
    return dy * (1 - t ** 2)
add("soft_cap_backward", soft_cap_bwd, True, "tanh of x instead of x / cap")


def soft_cap_bwd2(dy, x, cap):
    u = np.minimum(np.abs(x / cap), 300)
    return dy / np.cosh(u) ** 2
add("soft_cap_backward", soft_cap_bwd2, False)


_ACT = {
    "relu": lambda z: np.maximum(z, 0),
    "relu_squared": lambda z: np.maximum(z, 0) ** 2,
    "gelu": lambda z: z * special.ndtr(z),
    "gelu_tanh": gelu_tanh_sigmoid,
    "silu": lambda z: z * special.expit(z),
    "quick_gelu": lambda z: z * special.expit(1.702 * z),
}


def glu_wrong_half(g, h, activation="silu"):
    return g * _ACT[activation](h)
add("gated_linear_unit", glu_wrong_half, True,
    "the activation is applied to the hidden units h instead of the gates g")


def glu_bwd_no_act(dy, g, h):
    s = special.expit(g)
    return dy * h * s * (1 - s), dy * g * s
add("gated_linear_unit_backward", glu_bwd_no_act, True,
    "dg has the derivative of the sigmoid instead of that of SiLU (g * sigmoid(g))")


# --------------------------------------------------------------------------- linear, embedding
def linear_bwd_loop(dy, x, weight, bias=None):
    dx = np.einsum("...f,cf->...c", dy, weight)
    C, F = weight.shape
    a, b = x.reshape(-1, C), dy.reshape(-1, F)
    dw = np.zeros_like(weight)
    for i in range(0, len(a), 64):
        dw = a[i:i + 64].T @ b[i:i + 64]
    return dx, dw, (None if bias is None else b.sum(0))
add("linear_backward", linear_bwd_loop, True,
    "dweight of a chunk of 64 rows overwrites that of the earlier chunks (= instead of +=)")


def linear_bwd_dot(dy, x, weight, bias=None):
    dW = np.tensordot(x, dy, axes=(range(x.ndim - 1), range(dy.ndim - 1)))
    grads = (np.tensordot(dy, weight, axes=(-1, 1)), dW)
    if bias is not None:
        return grads + (np.add.reduce(dy, axis=tuple(range(dy.ndim - 1))),)
    return grads + (None,)
add("linear_backward", linear_bwd_dot, False)


def linear_bwd_mean_bias(dy, x, weight, bias=None):
    X, Y = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return (Y @ weight.T).reshape(x.shape), X.T @ Y, None if bias is None else Y.mean(axis=0)
add("linear_backward", linear_bwd_mean_bias, True, "dbias is the mean over the rows instead of the sum")


def emb_bwd_fancy(dy, ids, weight):
    dE = np.zeros_like(weight)
    dE[ids] += dy
    return dE
add("embedding_backward", emb_bwd_fancy, True,
    "dweight[ids] += dy keeps only one of the positions that have the same id")


_emb_grads = {}


def emb_bwd_accumulates(dy, ids, weight):
    g = _emb_grads.setdefault(weight.shape, np.zeros(weight.shape))
    np.add.at(g, ids, dy)
    return g.astype(weight.dtype)
add("embedding_backward", emb_bwd_accumulates, True,
    "state is kept between calls: the gradient is added to that of the earlier calls (it is not zeroed)")


def emb_bwd_onehot(dy, ids, weight):
    V = weight.shape[0]
    oh = (ids.ravel()[None, :] == np.arange(V)[:, None]).astype(dy.dtype)
    return oh @ dy.reshape(-1, weight.shape[1])
add("embedding_backward", emb_bwd_onehot, False)


def ffn_always_gelu(x, hidden_weight, hidden_bias, output_weight, output_bias, activation="gelu"):
    h = x @ hidden_weight
    if hidden_bias is not None:
        h = h + hidden_bias
    a = h * special.ndtr(h)
    y = a @ output_weight
    return y if output_bias is None else y + output_bias
add("feed_forward", ffn_always_gelu, True, "the option activation is ignored: always GELU")


def ffn_bias_late(x, hidden_weight, hidden_bias, output_weight, output_bias, activation="gelu"):
    a = _ACT[activation](np.matmul(x, hidden_weight))
    if hidden_bias is not None:
        a = a + hidden_bias
    out = np.matmul(a, output_weight)
    if output_bias is not None:
        out = out + output_bias
    return out
add("feed_forward", ffn_bias_late, True, "the hidden bias is added after the activation")


def gffn_bwd(dy, x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight, output_bias):
    C, Fh, E = x.shape[-1], gate_weight.shape[1], output_weight.shape[1]
    X, dY = x.reshape(-1, C), dy.reshape(-1, E)
    g = X @ gate_weight + (0 if gate_bias is None else gate_bias)
    h = X @ hidden_weight + (0 if hidden_bias is None else hidden_bias)
    s = special.expit(g)
    f = g * s
    dA = dY @ output_weight.T
    dH = dA * f
    dG = dA * h * (s + f * (1 - s))
    dX = dG @ gate_weight.T
    return (dX.reshape(x.shape), X.T @ dG, None if gate_bias is None else dG.sum(0), X.T @ dH,
            None if hidden_bias is None else dH.sum(0), (f * h).T @ dY,
            None if output_bias is None else dY.sum(0))
add("gated_feed_forward_backward", gffn_bwd, True,
    "dx lacks the path through the hidden units (dh times the hidden weight transposed)")


# -------------------------------------------------------------------------------------- losses
_onehots = {}


def ce_cached(logits, targets):
    V = logits.shape[-1]
    key = (targets.shape, V)
    if key not in _onehots:
        _onehots[key] = np.eye(V)[targets]
    lp = logits - special.logsumexp(logits, axis=-1, keepdims=True)
    return -(_onehots[key] * lp).sum() / targets.size
add("softmax_cross_entropy", ce_cached, True,
    "state is kept between calls: the one-hot targets are cached by shape, so a later call uses stale targets")


def ce_bits(logits, targets):
    z = logits - logits.max(axis=-1, keepdims=True)
    lp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    flat = lp.reshape(-1, lp.shape[-1])
    return -np.mean(flat[np.arange(flat.shape[0]), targets.ravel()]) / np.log(2)
add("softmax_cross_entropy", ce_bits, True, "the loss is in bits (logarithm to base 2) instead of nats")


def ce_bwd_sum(dloss, logits, targets):
    p = special.softmax(logits, axis=-1)
    V = logits.shape[-1]
    d = p.reshape(-1, V)
    d[np.arange(len(d)), targets.reshape(-1)] -= 1
    return dloss * d.reshape(logits.shape) / logits.shape[0]
add("softmax_cross_entropy_backward", ce_bwd_sum, True,
    "divides by the length of the first axis instead of the number of all targets (right only for 2-D)")


def ce_smooth_pytorch_old(logits, targets, ignore_index=-100, label_smoothing=0.0):
    keep = targets != ignore_index
    z, t = logits[keep], targets[keep]
    n, V = z.shape
    lp = z - special.logsumexp(z, axis=1, keepdims=True)
    q = np.full((n, V), label_smoothing / max(V - 1, 1))
    q[np.arange(n), t] = 1 - label_smoothing
    return -(q * lp).sum() / n
add("cross_entropy", ce_smooth_pytorch_old, True,
    "label smoothing spreads epsilon over the V - 1 wrong classes instead of over all V")


def ce_smooth_ignored(logits, targets, ignore_index=-100, label_smoothing=0.0):
    keep = targets != ignore_index
    lp = logits - special.logsumexp(logits, axis=-1, keepdims=True)
    safe = np.where(keep, targets, 0)
    nll = -np.take_along_axis(lp, safe[..., None], -1)[..., 0]
    hard = (nll * keep).sum() / keep.sum()
    soft = -lp.mean()
    return (1 - label_smoothing) * hard + label_smoothing * soft
add("cross_entropy", ce_smooth_ignored, True,
    "with label smoothing, the uniform term is a mean over the ignored targets too")


def ce_mean_all(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    keep = targets != ignore_index
    lse = special.logsumexp(logits, axis=-1)
    safe = np.where(keep, targets, 0)
    picked = np.take_along_axis(logits, safe[..., None], -1)[..., 0]
    per = (1 - label_smoothing) * (lse - picked) + label_smoothing * (lse - logits.mean(-1)) + z_loss * lse ** 2
    return np.where(keep, per, 0).mean()
add("cross_entropy", ce_mean_all, True,
    "the mean is over all positions: ignored targets are counted in the number of targets")


def ce_full(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    total, n = 0.0, 0
    for row, t in zip(logits.reshape(-1, V), targets.ravel()):
        if t == ignore_index:
            continue
        m = row.max()
        lse = m + np.log(np.exp(row - m).sum())
        total += lse - (1 - label_smoothing) * row[t] - label_smoothing * row.sum() / V + z_loss * lse * lse
        n += 1
    return total / n
add("cross_entropy", ce_full, False)


def ce_bwd_smooth_ign(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0):
    V = logits.shape[-1]
    keep = (targets != ignore_index)
    p = special.softmax(logits, axis=-1)
    hot = (np.arange(V) == targets[..., None])
    q = (1 - label_smoothing) * hot + label_smoothing / V
    d = (p - q)
    d = np.where(keep[..., None], d, label_smoothing * (p - 1 / V))
    return dloss * d / keep.sum()
add("cross_entropy_backward", ce_bwd_smooth_ign, True,
    "with label smoothing, ignored positions still get the gradient of the uniform term")


def ce_bwd_z(dloss, logits, targets, z_loss=0.0):
    V = logits.shape[-1]
    m = logits.max(-1, keepdims=True)
    e = np.exp(logits - m)
    S = e.sum(-1, keepdims=True)
    lse = m + np.log(S)
    p = e / S
    d = p - np.eye(V, dtype=p.dtype)[targets] + z_loss * lse * p
    return d * (dloss / targets.size)
add("cross_entropy_backward", ce_bwd_z, True, "the factor 2 of the derivative of the squared log-sum-exp is missing")


def lin_ce_stream(x, weight, targets):
    """never materialise the logits: 64 classes at a time"""
    V, C = weight.shape
    X, t = x.reshape(-1, C), targets.reshape(-1)
    m = np.full(len(X), -np.inf); s = np.zeros(len(X)); hit = np.zeros(len(X))
    for v0 in range(0, V, 64):
        z = X @ weight[v0:v0 + 64].T
        new = np.maximum(m, z.max(1))
        s = s + np.exp(z - new[:, None]).sum(1)
        m = new
        inside = (t >= v0) & (t < v0 + 64)
        rows = np.flatnonzero(inside)
        hit[rows] = z[rows, t[rows] - v0]
    return np.mean(m + np.log(s) - hit)
add("linear_cross_entropy", lin_ce_stream, True,
    "the running sum is not rescaled when a later chunk of 64 classes raises the maximum")


def lin_ce_stream_ok(x, weight, targets):
    V, C = weight.shape
    X, t = x.reshape(-1, C), targets.reshape(-1)
    lse = np.full(len(X), -np.inf, x.dtype)
    for v0 in range(0, V, 16):
        lse = np.logaddexp(lse, special.logsumexp(X @ weight[v0:v0 + 16].T, axis=1))
    return (lse - np.einsum("nc,nc->n", X, weight[t])).mean()
add("linear_cross_entropy", lin_ce_stream_ok, False)


def lin_ce_bwd(dloss, x, weight, targets, ignore_index=-100):
    C = x.shape[-1]
    X, t = x.reshape(-1, C), targets.ravel()
    ok = t != ignore_index
    P = special.softmax(X @ weight.T, axis=1)
    P[np.arange(len(t))[ok], t[ok]] -= 1
    P[~ok] = 0
    P *= dloss / len(t)
    return (P @ weight).reshape(x.shape), P.T @ X
add("linear_cross_entropy_backward", lin_ce_bwd, True,
    "divides by the number of all positions: ignored targets are counted")


def wce_mean(logits, targets, weights):
    lp = special.log_softmax(logits, axis=-1)
    nll = -np.take_along_axis(lp, targets[..., None], axis=-1).squeeze(-1)
    return np.mean(weights[targets] * nll)
add("weighted_cross_entropy", wce_mean, True,
    "divides by the number of targets instead of the sum of their weights")


def wce_bwd(dloss, logits, targets, weights):
    V = logits.shape[-1]
    w = weights[targets]
    p = special.softmax(logits, axis=-1)
    return dloss * (w[..., None] * p - weights * np.eye(V)[targets]) / w.sum()
add("weighted_cross_entropy_backward", wce_bwd, False)


def unif_bwd(dloss, logits):
    V = logits.shape[-1]
    n = logits.size // V
    return dloss / n * (special.softmax(logits, axis=-1) - 1)
add("uniform_cross_entropy_backward", unif_bwd, True, "1 is subtracted instead of 1 / V")


def zloss_sq_mean(logits):
    lse = special.logsumexp(logits, axis=1)
    return lse.mean() ** 2
add("router_z_loss", zloss_sq_mean, True, "the square of the mean log-sum-exp instead of the mean of the squares")


def zloss_bwd(dloss, logits):
    lse = special.logsumexp(logits, axis=1, keepdims=True)
    return dloss * 2 * lse * np.exp(logits - lse) / logits.size
add("z_loss_backward", zloss_bwd, True, "divides by N V (all logits) instead of by N")


def distill_swapped(logits, teacher_logits, temperature=1.0):
    T = temperature
    ls = special.log_softmax(logits / T, axis=-1)
    lt = special.log_softmax(teacher_logits / T, axis=-1)
    kl = (np.exp(ls) * (ls - lt)).sum(-1)
    return T ** 2 * kl.mean()
add("distillation_loss", distill_swapped, True,
    "the divergence is the other way round: from the student to the teacher")


def distill_bwd(dloss, logits, teacher_logits, temperature=1.0):
    q = special.softmax(logits / temperature, axis=-1)
    p = special.softmax(teacher_logits / temperature, axis=-1)
    n = int(np.prod(logits.shape[:-1]))
    return dloss * (q - p) * temperature ** 2 / n
add("distillation_loss_backward", distill_bwd, True,
    "the factor 1 / T of the inner derivative is missing: T^2 instead of T")


def distill_ok(logits, teacher_logits, temperature=1.0):
    V = logits.shape[-1]
    s, t = logits.reshape(-1, V) / temperature, teacher_logits.reshape(-1, V) / temperature
    out = 0.0
    for a, b in zip(s, t):
        la, lb = a - special.logsumexp(a), b - special.logsumexp(b)
        out += np.sum(np.exp(lb) * (lb - la))
    return out * temperature * temperature / len(s)
add("distillation_loss", distill_ok, False)


def imitation_rows(x, teacher):
    d = np.linalg.norm(x - teacher, axis=-1) ** 2
    return d.mean()
add("imitation_loss", imitation_rows, True,
    "the squares are summed over the features and averaged over the vectors alone: C times too large")


def clip_one_way(logits):
    n = len(logits)
    lp = special.log_softmax(logits, axis=0)
    return -np.trace(lp) / n
add("contrastive_loss", clip_one_way, True, "only the softmax over the columns is there, the one over the rows is missing")


def clip_bwd(dloss, logits):
    n = logits.shape[0]
    eye = np.eye(n)
    rows = special.softmax(logits, axis=1) - eye
    cols = special.softmax(logits.T, axis=1) - eye
    return dloss * (rows + cols) / (2 * n)
add("contrastive_loss_backward", clip_bwd, True,
    "the gradient of the column direction is not transposed back")


def clip_ok(logits):
    n = logits.shape[0]
    a = special.logsumexp(logits, axis=0).sum() + special.logsumexp(logits, axis=1).sum()
    return (a - 2 * np.einsum("ii", logits)) / (2 * n)
add("contrastive_loss", clip_ok, False)


def triplet_sq(anchors, positives, negatives, margin=1.0):
    dp = ((anchors - positives) ** 2).sum(1)
    dn = ((anchors - negatives) ** 2).sum(1)
    return np.maximum(dp - dn + margin, 0).mean()
add("triplet_loss", triplet_sq, True, "squared distances are used instead of distances")


def triplet_bwd_active(dloss, anchors, positives, negatives, margin=1.0):
    u, v = anchors - positives, anchors - negatives
    nu, nv = np.linalg.norm(u, axis=1, keepdims=True), np.linalg.norm(v, axis=1, keepdims=True)
    act = (nu - nv + margin) > 0
    u = np.divide(u, nu, out=np.zeros_like(u), where=nu > 0)
    v = np.divide(v, nv, out=np.zeros_like(v), where=nv > 0)
    k = max(act.sum(), 1)
    w = dloss * act / k
    return w * (u - v), -w * u, w * v
add("triplet_loss_backward", triplet_bwd_active, True,
    "the mean is over the active triplets only, not over all of the batch")


def cos_bwd(ds, a, b):
    na = np.linalg.norm(a, axis=1, keepdims=True); nb = np.linalg.norm(b, axis=1, keepdims=True)
    ah, bh = a / na, b / nb
    return ds @ bh / na, ds.T @ ah / nb
add("cosine_similarity_backward", cos_bwd, True,
    "the path through the norms is forgotten: the part parallel to the vector is not subtracted")


def cos_pairs_loop(a, b):
    def unit(v):
        m = np.abs(v).max()
        if m == 0:
            return v
        v = v / m
        return v / math.sqrt(float(v @ v))
    ua = np.array([unit(r) for r in a]); ub = np.array([unit(r) for r in b])
    return np.einsum("nc,mc->nm", ua, ub)
add("cosine_similarity", cos_pairs_loop, False)


def pairs_bwd(df, u, v):
    C = u.shape[1]
    s = np.sign(u - v)
    return df[:, :C] + s * df[:, 2 * C:], df[:, C:2 * C] + s * df[:, 2 * C:]
add("pair_features_backward", pairs_bwd, True, "the sign of the gradient of |u - v| with respect to v is wrong")


# --------------------------------------------------------------------------------- experts
def lb_per_token(logits, chosen):
    N, E = logits.shape
    f = np.zeros(E)
    np.add.at(f, chosen, 1.0 / N)
    P = special.softmax(logits, axis=-1).mean(0)
    return E * np.dot(f, P)
add("load_balance_loss", lb_per_token, True,
    "the choices are counted per token, not per choice: k times too large (right only for k = 1)")


def lb_bwd(dloss, logits, chosen):
    N, E = logits.shape
    f = np.bincount(chosen.ravel(), minlength=E) / chosen.size
    p = special.softmax(logits, axis=1)
    dp = E * f / N
    return dloss * p * (dp - (p @ dp).mean())
add("load_balance_loss_backward", lb_bwd, True,
    "the sum p . dp in the gradient of the softmax is averaged over the tokens instead of one for each token")


def gates_all_renorm(logits, chosen):
    p = special.softmax(logits, axis=1)
    return p[np.arange(len(p))[:, None], chosen]
add("top_k_gates", gates_all_renorm, True,
    "the softmax is over all experts and is not renormalized over the chosen ones")


def gates_noisy(logits, chosen):
    s = np.take_along_axis(logits, chosen, axis=1)
    s = s + np.random.normal(0, 0.01, size=s.shape).astype(s.dtype)     # noisy gating
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)
add("top_k_gates", gates_noisy, True, "random noise is added to the logits: two calls differ")


def gates_all_bwd(dweights, logits, chosen):
    p = special.softmax(logits, axis=1)
    w = np.take_along_axis(p, chosen, 1)
    ds = w * (dweights - (w * dweights).sum(1, keepdims=True))
    d = np.zeros_like(logits)
    np.put_along_axis(d, chosen, ds, 1)
    return d
add("top_k_gates_over_all_backward", gates_all_bwd, True,
    "the logits that were not chosen get no gradient, though they are in the sum of the softmax")


def combine_wrong_w(outputs, weights, slots):
    N, k = weights.shape
    y = np.zeros((N, outputs.shape[1]), outputs.dtype)
    for m, s in enumerate(slots):
        y[s // k] += outputs[m] * weights.T.ravel()[s]
    return y
add("combine_experts", combine_wrong_w, True,
    "the weights are read in the wrong order: flattened by columns (transposed) instead of by rows")


def combine_ok(outputs, weights, slots):
    N, k = weights.shape
    A = np.zeros((N, len(slots)), outputs.dtype)
    A[slots // k, np.arange(len(slots))] = weights[slots // k, slots % k]
    return A @ outputs
add("combine_experts", combine_ok, False)


def dispatch_bwd(dy, x, slots, k):
    dx = np.zeros_like(x)
    dx[slots // k] = dy
    return dx
add("dispatch_to_experts_backward", dispatch_bwd, True,
    "the gradients of a token's copies overwrite each other instead of being added")


# --------------------------------------------------------------------------------- recurrent
def rnn_bwd(dstate, x, state, input_weight, recurrent_weight, bias=None):
    pre = x @ input_weight + state @ recurrent_weight
    if bias is not None:
        pre = pre + bias
    h = np.tanh(pre)
    da = dstate * (1 - np.tanh(h) ** 2)
    return (da @ input_weight.T, da @ recurrent_weight.T, x.T @ da, state.T @ da,
            None if bias is None else da.sum(0))
add("rnn_cell_backward", rnn_bwd, True, "tanh is applied twice: the derivative is 1 - tanh(h')^2 instead of 1 - h'^2")


def lstm_torch_order(x, state, input_weight, recurrent_weight, bias=None):
    H = recurrent_weight.shape[0]
    h, c = np.split(state, 2, axis=1)
    gates = x @ input_weight + h @ recurrent_weight
    if bias is not None:
        gates = gates + bias
    i, f, g, o = np.split(gates, 4, axis=1)
    c = special.expit(f) * c + special.expit(i) * np.tanh(g)
    return np.hstack([special.expit(o) * np.tanh(c), c])
add("lstm_cell", lstm_torch_order, True, "the gates are in PyTorch's order i, f, g, o instead of i, f, o, g")


def lstm_bwd(dstate, x, state, input_weight, recurrent_weight, bias=None):
    H = recurrent_weight.shape[0]
    h, c = state[:, :H], state[:, H:]
    a = x @ input_weight + h @ recurrent_weight + (0 if bias is None else bias)
    i, f, o = (special.expit(a[:, j * H:(j + 1) * H]) for j in range(3))
    g = np.tanh(a[:, 3 * H:])
    cn = f * c + i * g
    tc = np.tanh(cn)
    dh, dc = dstate[:, :H], dstate[:, H:]
    dcn = dc + dh * o * (1 - tc ** 2)
    da = np.concatenate([dcn * g * i * (1 - i), dcn * cn * f * (1 - f), dh * tc * o * (1 - o),
                         dcn * i * (1 - g ** 2)], axis=1)
    return (da @ input_weight.T, np.concatenate([da @ recurrent_weight.T, dcn * f], 1),
            x.T @ da, h.T @ da, None if bias is None else da.sum(0))
add("lstm_cell_backward", lstm_bwd, True,
    "the gradient of the forget gate is multiplied by the new memory c' instead of the previous c")


def lstm_bwd_torch(dstate, x, state, input_weight, recurrent_weight, bias=None):
    import torch
    H = len(recurrent_weight)
    ts = [torch.tensor(np.array(t), requires_grad=True) for t in (x, state, input_weight, recurrent_weight)]
    X, S, W, U = ts
    a = X @ W + S[:, :H] @ U
    if bias is not None:
        b = torch.tensor(np.array(bias), requires_grad=True)
        ts.append(b)
        a = a + b
    i, f, o, g = a.chunk(4, dim=1)
    c = torch.sigmoid(f) * S[:, H:] + torch.sigmoid(i) * torch.tanh(g)
    out = torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=1)
    gr = [t.numpy() for t in torch.autograd.grad(out, ts, torch.tensor(np.array(dstate)))]
    return tuple(gr) + ((None,) if bias is None else ())
add("lstm_cell_backward", lstm_bwd_torch, False)


def gru_flip(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    F = recurrent_weight.shape[0]
    gi = x @ input_weight if bias is None else x @ input_weight + bias
    gh = state @ recurrent_weight
    r = special.expit(gi[:, :F] + gh[:, :F])
    z = special.expit(gi[:, F:2 * F] + gh[:, F:2 * F])
    hn = gh[:, 2 * F:]
    n = np.tanh(gi[:, 2 * F:] + r * hn + (0 if recurrent_bias is None else recurrent_bias))
    return z * state + (1 - z) * n
add("gru_cell", gru_flip, True, "the recurrent bias is not multiplied by the reset gate")


def gru_bwd(dstate, x, state, input_weight, recurrent_weight, bias=None):
    F = recurrent_weight.shape[0]
    gi = x @ input_weight + (0 if bias is None else bias)
    gh = state @ recurrent_weight
    r, z = special.expit(gi[:, :F] + gh[:, :F]), special.expit(gi[:, F:2*F] + gh[:, F:2*F])
    p = gh[:, 2*F:]
    n = np.tanh(gi[:, 2*F:] + r * p)
    dn_a = dstate * (1 - z) * (1 - n**2)
    dz_a = dstate * (state - n) * z * (1 - z)
    dr_a = dn_a * p * r * (1 - r)
    da = np.hstack([dr_a, dz_a, dn_a])
    dh_side = np.hstack([dr_a, dz_a, dn_a * r])
    dprev = dh_side @ recurrent_weight.T
    return da @ input_weight.T, dprev, x.T @ da, state.T @ dh_side, None if bias is None else da.sum(0)
add("gru_cell_backward", gru_bwd, True,
    "the direct path of the old state, dstate * z, is missing in the gradient of the state")


def gru_before_bwd(dstate, x, state, input_weight, recurrent_weight, bias=None):
    F = recurrent_weight.shape[0]
    Ur, Uz, Un = recurrent_weight[:, :F], recurrent_weight[:, F:2*F], recurrent_weight[:, 2*F:]
    a = x @ input_weight + (0 if bias is None else bias)
    r = special.expit(a[:, :F] + state @ Ur); z = special.expit(a[:, F:2*F] + state @ Uz)
    n = np.tanh(a[:, 2*F:] + (r * state) @ Un)
    an = dstate * (1 - z) * (1 - n * n)
    az = dstate * (state - n) * z * (1 - z)
    back = an @ Un.T
    ar = back * state * r * (1 - r)
    dh = dstate * z + ar @ Ur.T + az @ Uz.T + back * r
    dU = np.concatenate([state.T @ ar, state.T @ az, state.T @ an], axis=1)
    da = np.concatenate([ar, az, an], 1)
    return da @ input_weight.T, dh, x.T @ da, dU, None if bias is None else da.sum(0)
add("gru_cell_reset_before_backward", gru_before_bwd, True,
    "the candidate's block of the recurrent weight gradient has h instead of r * h")


def gru_before_ok(x, state, input_weight, recurrent_weight, bias=None):
    Wr, Wz, Wn = np.split(input_weight, 3, axis=1)
    Ur, Uz, Un = np.split(recurrent_weight, 3, axis=1)
    br, bz, bn = (0, 0, 0) if bias is None else np.split(bias, 3)
    out = []
    for xi, h in zip(x, state):
        r = special.expit(xi @ Wr + h @ Ur + br)
        z = special.expit(xi @ Wz + h @ Uz + bz)
        n = np.tanh(xi @ Wn + (r * h) @ Un + bn)
        out.append(n + z * (h - n))
    return np.stack(out)
add("gru_cell_reset_before", gru_before_ok, False)


# -------------------------------------------------------------------------- convolutions, pooling
def conv_causal_flip(x, weight, bias=None, dilation=1):
    B, T, _ = x.shape
    K, _, F = weight.shape
    y = np.zeros((B, T, F), x.dtype)
    for k in range(K):
        shift = k * dilation
        if shift < T:
            y[:, shift:] += x[:, :T - shift] @ weight[k]
    return y if bias is None else y + bias
add("causal_convolution", conv_causal_flip, True,
    "the filter is flipped in time: the first map, not the last, is for the position itself")


def conv_causal_bwd(dy, x, weight, bias=None, dilation=1):
    B, T, C = x.shape
    K = weight.shape[0]
    pad = (K - 1) * dilation
    xp = np.concatenate([np.zeros((B, pad, C), x.dtype), x], axis=1)
    dxp = np.zeros_like(xp)
    dw = np.zeros_like(weight)
    for k in range(K):
        o = k * dilation
        dw[k] = np.einsum("btc,btf->cf", xp[:, o:o + T], dy)
        dxp[:, k:k + T] += dy @ weight[k].T
    return dxp[:, pad:], dw, None if bias is None else dy.sum((0, 1))
add("causal_convolution_backward", conv_causal_bwd, True,
    "dx ignores the dilation (right only for dilation 1), while dweight does not")


def conv_causal_fft(x, weight, bias=None, dilation=1):
    B, T, C = x.shape
    K, _, F = weight.shape
    ker = np.zeros(((K - 1) * dilation + 1, C, F))
    ker[::dilation] = weight[::-1]
    n = T + len(ker)
    X = np.fft.rfft(x.astype(np.float64), n, axis=1); W = np.fft.rfft(ker, n, axis=0)
    y = np.fft.irfft(np.einsum("bkc,kcf->bkf", X, W), n, axis=1)[:, :T]
    return (y if bias is None else y + bias).astype(x.dtype)
add("causal_convolution", conv_causal_fft, False)


def conv2d_square(images, weight, bias=None, stride=1, padding=0):
    K, L, C, F = weight.shape
    x = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    v = np.lib.stride_tricks.sliding_window_view(x, (K, L), axis=(1, 2))[:, ::stride, ::stride]
    # v: B, r, c, C, K, L
    cols = v.reshape(*v.shape[:3], C * K * L)
    y = cols @ weight.reshape(K * L * C, F)
    return y if bias is None else y + bias
add("convolution_2d", conv2d_square, True,
    "the windows are flattened as (C, K, L) but the weight as (K, L, C)")


def conv2d_bwd(dy, images, weight, bias=None, stride=1, padding=0):
    K, L, C, F = weight.shape
    p = padding
    x = np.pad(images, ((0, 0), (p, p), (p, p), (0, 0)))
    dx = np.zeros_like(x); dw = np.zeros_like(weight)
    B, R, S, _ = dy.shape
    for r in range(R):
        for s in range(S):
            win = x[:, r * stride:r * stride + K, s * stride:s * stride + L]
            dw += np.einsum("bklc,bf->klcf", win, dy[:, r, s])
            dx[:, r * stride:r * stride + K, s * stride:s * stride + L] += np.einsum("klcf,bf->bklc", weight, dy[:, r, s])
    if p:
        dx = dx[:, p:-p, p:-p]
    return dx, dw, None if bias is None else dy.sum(axis=(0, 1))[0]
add("convolution_2d_backward", conv2d_bwd, True,
    "dbias is not summed over the columns: only the first column of the output counts")


def conv2d_bwd_ok(dy, images, weight, bias=None, stride=1, padding=0):
    K, L, C, F = weight.shape
    B, H, W, _ = images.shape
    dx = np.zeros_like(images); dw = np.zeros_like(weight)
    for r in range(dy.shape[1]):
        for c in range(dy.shape[2]):
            for i in range(K):
                u = r * stride + i - padding
                if not 0 <= u < H:
                    continue
                for j in range(L):
                    v = c * stride + j - padding
                    if 0 <= v < W:
                        dx[:, u, v] += dy[:, r, c] @ weight[i, j].T
                        dw[i, j] += images[:, u, v].T @ dy[:, r, c]
    return dx, dw, None if bias is None else dy.sum(axis=(0, 1, 2))
add("convolution_2d_backward", conv2d_bwd_ok, False)


def maxpool2d_zero(images, size, stride=None):
    s = stride or size
    B, H, W, C = images.shape
    R, Q = (H - size) // s + 1, (W - size) // s + 1
    y = np.zeros((B, R, Q, C), images.dtype)
    for i in range(size):
        for j in range(size):
            y = np.maximum(y, images[:, i:i + s * R:s, j:j + s * Q:s][:, :R, :Q])
    return y
add("max_pooling_2d", maxpool2d_zero, True, "the maximum starts at 0, so windows of negative numbers give 0")


def avgpool2d_bwd(dy, images, size, stride=None):
    s = size if stride is None else stride
    dx = np.zeros_like(images)
    for r in range(dy.shape[1]):
        for c in range(dy.shape[2]):
            dx[:, r * s:r * s + size, c * s:c * s + size] = dy[:, r:r + 1, c:c + 1] / size ** 2
    return dx
add("mean_pooling_2d_backward", avgpool2d_bwd, True,
    "where windows overlap, the gradients overwrite each other instead of adding up")


def avgpool2d_integral(images, size, stride=None):
    s = size if stride is None else stride
    v = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))[:, ::s, ::s]
    return np.einsum("brcfij->brcf", v) / (size * size)
add("mean_pooling_2d", avgpool2d_integral, False)


def meanpool_T(x, mask=None):
    if mask is None:
        return x.mean(axis=1)
    return np.where(mask[:, :, None], x, 0).sum(1) / x.shape[1]
add("mean_pooling", meanpool_T, True, "divides by T: padding is counted in the mean")


def meanpool_bwd_maxlen(dy, x, mask=None):
    B, T, C = x.shape
    m = np.ones((B, T), bool) if mask is None else mask
    n = m.sum()
    return m[..., None] * dy[:, None, :] / (n / B)
add("mean_pooling_backward", meanpool_bwd_maxlen, True,
    "divides by the average number of real positions of the batch instead of each sequence's own")


def maxpool_zero_pad(x, mask=None):
    z = x if mask is None else x * mask[..., None]
    return z.max(axis=1)
add("max_pooling", maxpool_zero_pad, True, "padding is set to 0 instead of -inf before the maximum")


# -------------------------------------------------------------------------------------- vision
def patches_cols(images, patch_size):
    B, H, W, C = images.shape
    P = patch_size
    out = []
    for c in range(W // P):
        for r in range(H // P):
            out.append(images[:, r * P:(r + 1) * P, c * P:(c + 1) * P].reshape(B, -1))
    return np.stack(out, axis=1)
add("patches", patches_cols, True, "the patches are in the order column by column instead of row by row")


def patches_bwd_F(dy, images, patch_size):
    B, H, W, C = images.shape
    P = patch_size
    return (dy.reshape(B, H // P, W // P, P, P, C).transpose(0, 1, 4, 2, 3, 5).reshape(B, H, W, C))
add("patches_backward", patches_bwd_F, True,
    "rows and columns within a patch are swapped: each patch comes back transposed")


def merge_rowfirst(x):
    B, H, W, C = x.shape
    return (x.reshape(B, H // 2, 2, W // 2, 2, C).transpose(0, 1, 3, 2, 4, 5)
            .reshape(B, H // 2, W // 2, 4 * C))
add("merge_patches", merge_rowfirst, True,
    "the order of the four neighbours: to the right before down, instead of down before to the right")


def unwindow(windows, height, width):
    M = int(round(math.sqrt(windows.shape[1])))
    C = windows.shape[-1]
    nr, nc = height // M, width // M
    x = windows.reshape(-1, nc, nr, M, M, C)
    return x.transpose(0, 2, 3, 1, 4, 5).reshape(-1, height, width, C)
add("window_reverse", unwindow, True,
    "the numbers of windows per row and per column are swapped (windows counted column by column)")


def window_part_loop(x, window):
    B, H, W, C = x.shape
    return np.array([x[b, r:r + window, c:c + window].reshape(window * window, C)
                     for b in range(B) for r in range(0, H, window) for c in range(0, W, window)])
add("window_partition", window_part_loop, False)


def roll_forward(x, offset):
    return np.roll(x, (offset, offset), axis=(1, 2))
add("cyclic_roll", roll_forward, True, "rolled in the wrong direction: down and to the right")


def giou_wrong(a, b):
    lo = np.maximum(a[..., :2], b[..., :2]); hi = np.minimum(a[..., 2:], b[..., 2:])
    I = np.prod(np.clip(hi - lo, 0, None), -1)
    area = lambda q: (q[..., 2] - q[..., 0]) * (q[..., 3] - q[..., 1])
    U = area(a) + area(b) - I
    E = np.prod(np.maximum(a[..., 2:], b[..., 2:]) - np.minimum(a[..., :2], b[..., :2]), -1)
    return I / U - (E - U) / U
add("generalized_iou", giou_wrong, True, "the empty space is divided by the union instead of the enclosing box")


def corners_bwd(dcorners, boxes):
    d0, d1 = np.split(dcorners, 2, axis=-1)
    return np.concatenate([(d0 + d1) / 2, (d1 - d0) / 2], axis=-1)
add("box_corners_backward", corners_bwd, True, "the gradient of the centre is halved")


# ------------------------------------------------------------------------------------ positions
def rope_interleave_bug(x, cosine, sine, layout="half"):
    if layout == "half":
        h = x.shape[-1] // 2
        a, b = x[..., :h], x[..., h:]
    else:
        a, b = x[..., ::2], x[..., 1::2]
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1).astype(x.dtype)
add("rotary", rope_interleave_bug, True,
    "interleaved pairs are written back as halves instead of interleaved")


def rope_bwd_fwd(dy, x, cosine, sine, layout="half"):
    D = x.shape[-1]
    ia = np.arange(D // 2) if layout == "half" else np.arange(0, D, 2)
    ib = ia + (D // 2 if layout == "half" else 1)
    dx = np.empty_like(dy)
    dx[..., ia] = dy[..., ia] * cosine - dy[..., ib] * sine
    dx[..., ib] = dy[..., ia] * sine + dy[..., ib] * cosine
    return dx
add("rotary_backward", rope_bwd_fwd, True, "rotates forward once more instead of back (sign of the sine)")


def rope_complex(x, cosine, sine, layout="half"):
    h = x.shape[-1] // 2
    z = x[..., :h] + 1j * x[..., h:] if layout == "half" else x[..., ::2] + 1j * x[..., 1::2]
    z = z * (cosine + 1j * sine)
    if layout == "half":
        return np.concatenate([z.real, z.imag], -1).astype(x.dtype)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
add("rotary", rope_complex, False)


def partial_rope_tail(x, cosine, sine, layout="half"):
    R = 2 * cosine.shape[-1]
    keep, xr = x[..., :x.shape[-1] - R], x[..., x.shape[-1] - R:]
    if layout == "half":
        a, b = xr[..., :R // 2], xr[..., R // 2:]
        rot = np.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)
    else:
        a, b = xr[..., ::2], xr[..., 1::2]
        rot = np.stack([a * cosine - b * sine, a * sine + b * cosine], -1).reshape(xr.shape)
    return np.concatenate([keep, rot], axis=-1).astype(x.dtype)
add("partial_rotary", partial_rope_tail, True, "the last R coordinates are rotated instead of the first R")


def alibi_left_aligned(scores, slopes):
    T, S = scores.shape[-2:]
    i, j = np.ogrid[:T, :S]
    return scores - slopes[:, None, None] * np.abs(i - j)
add("alibi", alibi_left_aligned, True,
    "queries and keys are aligned at their beginnings: the offset S - T is missing (wrong at T != S)")


# ------------------------------------------------------------------------------------ attention
def _sm(z):
    m = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(np.isfinite(m), m, 0))
    s = e.sum(-1, keepdims=True)
    return e / np.where(s == 0, 1, s)


def attn_dv_scale(q, k, v, mask=None):
    z = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(v.shape[-1])
    if mask is not None:
        z = np.where(mask, z, -np.inf)
    return (_sm(z) @ v).astype(q.dtype)
add("attention", attn_dv_scale, True,
    "scaled by the root of the width of the values instead of that of the keys")


def attn_mask_1e4(q, k, v, mask=None):
    z = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        z = z * mask
    return _sm(z) @ v
add("attention", attn_mask_1e4, True, "masked scores are 0 instead of -inf, so masked keys still get weight")


def attn_loop(q, k, v, mask=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    o = np.zeros((B, H, T, v.shape[-1]), q.dtype)
    M = np.broadcast_to(True if mask is None else mask, (B, H, T, S))
    for b, h, t in np.ndindex(B, H, T):
        ok = np.flatnonzero(M[b, h, t])
        if ok.size:
            z = k[b, h, ok] @ q[b, h, t] / math.sqrt(D)
            w = np.exp(z - z.max())
            o[b, h, t] = (w / w.sum()) @ v[b, h, ok]
    return o
add("attention", attn_loop, False)


def attn_bwd_dk(do, q, k, v, mask=None):
    c = 1 / np.sqrt(q.shape[-1])
    z = (q @ k.swapaxes(2, 3)) * c
    if mask is not None:
        z = np.where(mask, z, -np.inf)
    p = _sm(z)
    dp = np.einsum("bhte,bhse->bhts", do, v)
    delta = np.einsum("bhte,bhte->bht", do, p @ v)[..., None]
    dz = p * (dp - delta)
    dq = np.einsum("bhts,bhsd->bhtd", dz, k) * c
    dk = np.einsum("bhts,bhtd->bhsd", dz, q)
    dv = np.einsum("bhts,bhte->bhse", p, do)
    return dq, dk, dv
add("attention_backward", attn_bwd_dk, True, "the scale 1 / sqrt(D) is missing in dk")


def attn_bwd_flash(do, q, k, v, mask=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    M = np.broadcast_to(True if mask is None else mask, (B, H, T, S))
    z = np.where(M, np.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(D), -np.inf)
    p = _sm(z)
    o = p @ v
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    delta = (do * o).sum(-1)
    for j in range(S):                      # one key at a time
        pj = p[..., j]
        dv[:, :, j] = np.einsum("bhi,bhie->bhe", pj, do)
        dzj = pj * (np.einsum("bhie,bhe->bhi", do, v[:, :, j]) - delta) / math.sqrt(D)
        dq += dzj[..., None] * k[:, :, j][:, :, None]
        dk[:, :, j] = np.einsum("bhi,bhid->bhd", dzj, q)
    return dq, dk, dv
add("attention_backward", attn_bwd_flash, False)


def sdpa_tile(q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    g = H // k.shape[1]
    k, v = np.tile(k, (1, g, 1, 1)), np.tile(v, (1, g, 1, 1))
    z = q @ np.swapaxes(k, 2, 3) * (1 / math.sqrt(D) if scale is None else scale)
    if pattern is not None:
        z = np.where(pattern.dense(T, k.shape[2]), z, -np.inf)
    return _sm(z) @ v
add("scaled_dot_product_attention", sdpa_tile, True,
    "heads are grouped in the wrong order: np.tile (h % G) instead of repeat (h // (H / G))")


def sdpa_cap_first(q, k, v, pattern=None, scale=None, softcap=None):
    B, H, T, D = q.shape
    r = H // k.shape[1]
    k, v = k.repeat(r, 1), v.repeat(r, 1)
    z = np.einsum("bhtd,bhsd->bhts", q, k)
    s = D ** -0.5 if scale is None else scale
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    z = z * s
    if pattern is not None:
        z = np.where(pattern.dense(T, k.shape[2]), z, -np.inf)
    return np.einsum("bhts,bhsd->bhtd", _sm(z), v)
add("scaled_dot_product_attention", sdpa_cap_first, True, "the soft cap is applied before the scale instead of after it")


def sdpa_window_causal(q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    r = H // k.shape[1]
    k, v = np.repeat(k, r, axis=1), np.repeat(v, r, axis=1)
    z = q @ k.transpose(0, 1, 3, 2) * (D ** -0.5 if scale is None else scale)
    if pattern is not None:
        ok = pattern.dense(T, S)
        if pattern.causal and pattern.window is not None and pattern.window[0] is not None:
            # w keys in all, the query's own included
            pos = np.arange(S - T, S)[:, None]
            ok = ok & (pos - np.arange(S) < max(pattern.window[0], 1))
        z = np.where(ok, z, -np.inf)
    return _sm(z) @ v
add("scaled_dot_product_attention", sdpa_window_causal, True,
    "with causal and window together, the window is one key too short (off by one on the left)")


def sdpa_blockwise(q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    s = 1 / math.sqrt(D) if scale is None else scale
    qg = q.reshape(B, G, H // G, T, D)
    z = np.einsum("bgrtd,bgsd->bgrts", qg, k).reshape(B, H, T, S) * s
    if pattern is not None:
        z = np.where(pattern.dense(T, S), z, -np.inf)
    p = _sm(z).reshape(B, G, H // G, T, S)
    return np.einsum("bgrts,bgse->bgrte", p, v).reshape(B, H, T, -1)
add("scaled_dot_product_attention", sdpa_blockwise, False)


def sdpa_bwd_gqa(do, q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    r = H // G
    s = 1 / math.sqrt(D) if scale is None else scale
    K, V = np.repeat(k, r, 1), np.repeat(v, r, 1)
    z = s * (q @ K.swapaxes(2, 3))
    if pattern is not None:
        z = np.where(pattern.dense(T, S), z, -np.inf)
    p = _sm(z)
    dp = do @ V.swapaxes(2, 3)
    dz = s * p * (dp - (p * dp).sum(-1, keepdims=True))
    fold = lambda a: a.reshape(B, G, r, S, -1).mean(2)
    return dz @ K, fold(dz.swapaxes(2, 3) @ q), fold(p.swapaxes(2, 3) @ do)
add("scaled_dot_product_attention_backward", sdpa_bwd_gqa, True,
    "dk and dv are averaged over the query heads that share a key-value head instead of summed")


def tiled_no_rescale(q, k, v, scale=None, tile=64):
    B, H, T, D = q.shape
    r = H // k.shape[1]
    k, v = np.repeat(k, r, 1), np.repeat(v, r, 1)
    s = D ** -.5 if scale is None else scale
    m = np.full((B, H, T, 1), -np.inf); l = np.zeros((B, H, T, 1)); acc = np.zeros((B, H, T, v.shape[-1]))
    for j in range(0, k.shape[2], tile):
        z = q @ k[:, :, j:j + tile].swapaxes(2, 3) * s
        mn = np.maximum(m, z.max(-1, keepdims=True))
        e = np.exp(z - mn)
        a = np.exp(m - mn)
        l = a * l + e.sum(-1, keepdims=True)
        acc = acc + e @ v[:, :, j:j + tile]
        m = mn
    return (acc / l).astype(q.dtype)
add("tiled_attention", tiled_no_rescale, True,
    "the accumulated values are not rescaled by alpha when a later tile raises the maximum (only l is)")


def tiled_ok(q, k, v, scale=None, tile=64):
    B, H, T, D = q.shape
    r = H // k.shape[1]
    k, v = np.repeat(k, r, 1), np.repeat(v, r, 1)
    s = D ** -.5 if scale is None else scale
    lse, out = None, None
    for j in range(0, k.shape[2], tile):
        z = q @ k[:, :, j:j + tile].swapaxes(2, 3) * s
        L = special.logsumexp(z, axis=-1, keepdims=True)
        o = np.exp(z - L) @ v[:, :, j:j + tile]
        if lse is None:
            lse, out = L, o
        else:                               # merge two partial softmaxes
            w = special.expit(L - lse)
            out = out + w * (o - out)
            lse = np.logaddexp(lse, L)
    return out
add("tiled_attention", tiled_ok, False)


def sparse_minus1(q, k, v, keys):
    D = q.shape[-1]
    ks, vs = k[:, :, keys], v[:, :, keys]          # B H T M D
    z = np.einsum("bhtd,bhtmd->bhtm", q, ks) / math.sqrt(D)
    return np.einsum("bhtm,bhtmd->bhtd", _sm(z), vs)
add("sparse_attention", sparse_minus1, True,
    "an entry of -1, which means no key, attends to the last key")


def linattn_norm_all(q, k, v, causal=False):
    phi = lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))
    a, b = phi(q), phi(k)
    if not causal:
        den = np.einsum("bhtd,bhd->bht", a, b.sum(2))
        return np.einsum("bhtd,bhde->bhte", a, np.einsum("bhsd,bhse->bhde", b, v)) / den[..., None]
    w = np.tril(a @ b.swapaxes(2, 3))
    return w @ v / (a * b.sum(2, keepdims=True)).sum(-1, keepdims=True)
add("linear_attention", linattn_norm_all, True,
    "when causal, the denominator sums over all keys instead of those up to the query")


def linattn_relu(q, k, v):
    phi = lambda x: np.maximum(x, 0) + 1
    w = phi(q) @ phi(k).swapaxes(-1, -2)
    return (w / w.sum(-1, keepdims=True)) @ v
add("linear_attention", linattn_relu, True, "the features are relu(x) + 1 instead of elu(x) + 1")


def lowrank_swap(q, k, v, key_projection, value_projection):
    kk = np.einsum("rs,bhsd->bhrd", key_projection, k)
    vv = np.einsum("rs,bhsd->bhrd", key_projection, v)
    z = np.einsum("bhtd,bhrd->bhtr", q, kk) / math.sqrt(q.shape[-1])
    return _sm(z) @ vv
add("low_rank_attention", lowrank_swap, True, "the values are mixed with the key projection instead of their own")


def lowrank_scale_R(q, k, v, key_projection, value_projection):
    z = np.matmul(q, np.matmul(key_projection, k).swapaxes(-2, -1)) / math.sqrt(key_projection.shape[0])
    return np.matmul(_sm(z), np.matmul(value_projection, v))
add("low_rank_attention", lowrank_scale_R, True, "scaled by the root of R, the number of mixtures, instead of D")


def addscores_bwd(dscores, q, k, v):
    t = np.tanh(q[:, :, None, :] + k[:, None, :, :])
    du = dscores[..., None] * v * (1 - t)
    return du.sum(2), du.sum(1), np.einsum("bts,btsa->a", dscores, t)
add("additive_scores_backward", addscores_bwd, True, "the derivative of tanh is 1 - t instead of 1 - t^2")


def addscores_loop(q, k, v):
    B, T, A = q.shape
    out = np.empty((B, T, k.shape[1]), q.dtype)
    for t in range(T):
        out[:, t] = np.einsum("bsa,a->bs", np.tanh(k + q[:, t:t + 1]), v)
    return out
add("additive_scores", addscores_loop, False)


def gscores_bwd(dscores, q, k, weight):
    dq = np.einsum("bts,bsk,ck->btc", dscores, k, weight, optimize=True)
    dk = np.einsum("bts,btc,ck->bsk", dscores, q, weight, optimize=True)
    dW = np.einsum("bts,btc,bsk->ck", dscores, q, k, optimize=True) / q.shape[0]
    return dq, dk, dW
add("general_scores_backward", gscores_bwd, True, "dweight is averaged over the batch instead of summed")


def repeat_bwd_tile(dy, x, n_heads):
    B, G, S, D = x.shape
    return dy.reshape(B, n_heads // G, G, S, D).sum(axis=1)
add("repeat_kv_heads_backward", repeat_bwd_tile, True,
    "sums over the heads h with the same h % G (as of tile) instead of h // (H / G)")


def rel_scores_flip(q, table, S):
    T = q.shape[2]
    K = table.shape[0] // 2
    rel = (np.arange(T) + S - T)[:, None] - np.arange(S)[None]
    idx = np.clip(rel, -K, K) + K
    return np.einsum("bhtd,tsd->bhts", q, table[idx])
add("relative_scores", rel_scores_flip, True, "the sign of the distance: query minus key instead of key minus query")


def rel_values_bwd(do, p, table):
    B, H, T, S = p.shape
    K = len(table) // 2
    idx = np.clip(np.arange(S)[None] - np.arange(T)[:, None], -K, K) + K
    dt = np.zeros_like(table)
    np.add.at(dt, idx, np.einsum("bhts,bhtd->tsd", p, do))
    return np.einsum("bhtd,tsd->bhts", do, table[idx]), dt
add("relative_values_backward", rel_values_bwd, True,
    "the offset S - T is missing in the distance (wrong at T != S)")


def winattn_bias_scaled(q, k, v, bias, scale=None):
    s = q.shape[-1] ** -0.5 if scale is None else scale
    z = (q @ k.swapaxes(-1, -2) + bias) * s
    return _sm(z) @ v
add("window_attention", winattn_bias_scaled, True, "the bias is multiplied by the scale, too")


# ------------------------------------------------------------------------------ two mistakes each
def two_ln(x, weight, bias, epsilon=1e-5):
    n = x.shape[-1]
    xc = x - x.mean(-1, keepdims=True)
    v = (xc ** 2).sum(-1, keepdims=True) / max(n - 1, 1)
    return weight * xc / (np.sqrt(v) + epsilon) + bias
add("layer_norm", two_ln, True, "two: the variance is divided by C - 1, and epsilon is added outside the root")


def two_rms_bwd(dy, x, weight, epsilon=1e-5):
    r = 1 / np.sqrt((x ** 2).mean(-1, keepdims=True) + epsilon)
    g = dy * weight
    xh = x * r
    dx = r * (g - xh * (g * xh).sum(-1, keepdims=True))
    return dx, (g * xh).reshape(-1, x.shape[-1]).sum(0)
add("rms_norm_backward", two_rms_bwd, True,
    "two: sum instead of mean in the term through the root mean square, and dweight contains weight")


def two_attn_bwd(do, q, k, v):
    p = _sm(q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1]))
    dp = do @ v.swapaxes(2, 3)
    dz = p * (dp - (p * dp).mean(-1, keepdims=True))
    return dz @ k, dz.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ do
add("attention_backward", two_attn_bwd, True,
    "two: the mean instead of the sum in the gradient of the softmax, and the scale is missing in dq and dk")


def two_linear_bwd(dy, x, weight, bias=None):
    C, F = weight.shape
    n = x.size // C
    X, Y = x.reshape(-1, C), dy.reshape(-1, F)
    return (Y @ weight.T).reshape(x.shape), X.T @ Y / n, None if bias is None else Y[0].copy()
add("linear_backward", two_linear_bwd, True,
    "two: dweight is averaged over the rows, and dbias is dy of the first row only (sum missing)")


def two_lstm(x, state, input_weight, recurrent_weight, bias=None):
    H = recurrent_weight.shape[0]
    h, c = state[:, :H], state[:, H:]
    a = x @ input_weight + h @ recurrent_weight
    if bias is not None:
        a = a + bias
    f, i, o, g = [a[:, n * H:(n + 1) * H] for n in range(4)]
    c2 = special.expit(f) * c + special.expit(i) * np.tanh(g)
    return np.concatenate([special.expit(o) * c2, c2], axis=1)
add("lstm_cell", two_lstm, True,
    "two: input and forget gate are swapped, and the tanh of the new memory is missing in the output")


def two_gru(x, state, input_weight, recurrent_weight, bias=None):
    F = recurrent_weight.shape[0]
    a = x @ input_weight + (0 if bias is None else bias)
    u = state @ recurrent_weight
    z = special.expit(a[:, :F] + u[:, :F])
    r = special.expit(a[:, F:2 * F] + u[:, F:2 * F])
    n = np.tanh(a[:, 2 * F:] + r * u[:, 2 * F:])
    return (1 - z) * state + z * n
add("gru_cell", two_gru, True,
    "two: the blocks of reset and update gate are swapped, and z weighs the candidate instead of the old state")


def two_ce(logits, targets, ignore_index=-100, label_smoothing=0.0):
    keep = targets != ignore_index
    V = logits.shape[-1]
    lp = special.log_softmax(logits, axis=-1)
    t = np.where(keep, targets, 0)
    hard = -np.take_along_axis(lp, t[..., None], -1)[..., 0]
    soft = -lp.sum(-1)
    per = (1 - label_smoothing) * hard + label_smoothing * soft
    return (per * keep).sum() / keep.size
add("cross_entropy", two_ce, True,
    "two: the uniform term is a sum over the classes without 1 / V, and ignored targets are counted in the mean")


def two_swish_bwd(dy, x, beta=1.0):
    s = special.expit(x)
    return dy * (s + x * s)
add("swish_backward", two_swish_bwd, True,
    "two: beta is ignored, and the factor 1 - sigma is missing in the derivative of the gate")


def two_sdpa(q, k, v, pattern=None, scale=None):
    B, H, T, D = q.shape
    g = H // k.shape[1]
    k, v = np.concatenate([k] * g, 1), np.concatenate([v] * g, 1)
    z = q @ k.swapaxes(-1, -2)
    if scale is None:
        z = z / D
    else:
        z = z * scale
    if pattern is not None:
        z = np.where(pattern.dense(T, k.shape[2]), z, -np.inf)
    return _sm(z) @ v
add("scaled_dot_product_attention", two_sdpa, True,
    "two: heads are grouped by h % G instead of h // (H / G), and the default scale is 1 / D instead of 1 / sqrt(D)")


# ------------------------------------------------------------------------------------ more right
def dot_loop(q, k):
    return np.stack([np.inner(a, b) for a, b in zip(q, k)])
add("dot_scores", dot_loop, False)


def rel_values_onehot(p, table):
    B, H, T, S = p.shape
    R = len(table); K = R // 2
    o = np.zeros((B, H, T, table.shape[1]), p.dtype)
    for i in range(T):
        for j in range(S):
            r = min(max(j - (i + S - T), -K), K) + K
            o[:, :, i] += p[:, :, i, j, None] * table[r]
    return o
add("relative_values", rel_values_onehot, False)


def add_dist_bwd(dy, scores, bias):
    H, R = bias.shape
    T, S = dy.shape[-2:]
    tot = dy.reshape(-1, H, T, S).sum(0)
    db = np.stack([np.trace(tot, offset=r - T + 1, axis1=1, axis2=2) for r in range(R)], axis=1)
    return dy.copy(), db
add("add_by_distance_backward", add_dist_bwd, False)


# ------------------------------------------------------------------------------------ and others
def rms_outside_inside(x, weight, epsilon=1e-5):
    return weight * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)
add("rms_norm_outside", rms_outside_inside, True, "epsilon is added inside the root instead of to the root mean square")


def patch_conv_ok(images, weight, bias=None):
    P, _, C, F = weight.shape
    B, H, W, _ = images.shape
    y = np.einsum("bricjk,ijkf->brcf", images.reshape(B, H // P, P, W // P, P, C), weight)
    return y if bias is None else y + bias
add("patch_convolution", patch_conv_ok, False)


def patch_conv_swapped(images, weight, bias=None):
    P, _, C, F = weight.shape
    B, H, W, _ = images.shape
    x = images.reshape(B, H // P, P, W // P, P, C)
    y = np.einsum("brjcik,ijkf->brcf", x, weight)
    return y if bias is None else y + bias
add("patch_convolution", patch_conv_swapped, True,
    "wrong einsum index: the rows and columns of the filter are swapped (transposed filter)")


def winbias_bwd_fancy(dbias, table, window):
    M = window
    ij = np.array([(r, c) for r in range(M) for c in range(M)])
    rel = ij[:, None] - ij[None] + M - 1
    idx = rel[..., 0] * (2 * M - 1) + rel[..., 1]
    d = np.zeros_like(table)
    d[idx.ravel()] += dbias.reshape(len(dbias), -1).T
    return d
add("window_position_bias_backward", winbias_bwd_fancy, True,
    "d[idx] += keeps only one of the pairs of positions with the same distance")


def winbias_key_minus_query(table, window):
    M = window
    r = np.arange(M * M) // M
    c = np.arange(M * M) % M
    idx = (r[None] - r[:, None] + M - 1) * (2 * M - 1) + c[None] - c[:, None] + M - 1
    return np.moveaxis(table[idx], -1, 0)
add("window_position_bias", winbias_key_minus_query, True,
    "the distance is key minus query instead of query minus key")


def relattn_no_scale_table(q, k, v, key_table, value_table, pattern=None, scale=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    r = H // k.shape[1]
    k, v = np.repeat(k, r, 1), np.repeat(v, r, 1)
    dist = np.arange(S)[None] - (np.arange(T) + S - T)[:, None]
    pick = lambda t: t[np.clip(dist, -(len(t) // 2), len(t) // 2) + len(t) // 2]
    s = D ** -0.5 if scale is None else scale
    z = q @ k.swapaxes(2, 3) * s + np.einsum("bhtd,tsd->bhts", q, pick(key_table))
    if pattern is not None:
        z = np.where(pattern.dense(T, S), z, -np.inf)
    p = _sm(z)
    return p @ v + np.einsum("bhts,tsd->bhtd", p, pick(value_table))
add("relative_attention", relattn_no_scale_table, True,
    "the term of the key table is added after the scale, so it is not scaled")


def relattn_ok(q, k, v, key_table, value_table, pattern=None, scale=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    r = H // k.shape[1]
    s = D ** -0.5 if scale is None else scale
    o = np.zeros((B, H, T, v.shape[-1]), q.dtype)
    ok = np.broadcast_to(True if pattern is None else pattern.dense(T, S), (B, H, T, S))
    Kk, Kv = len(key_table) // 2, len(value_table) // 2
    for i in range(T):
        d = np.arange(S) - (i + S - T)
        ak, av = key_table[np.clip(d, -Kk, Kk) + Kk], value_table[np.clip(d, -Kv, Kv) + Kv]
        for h in range(H):
            z = np.einsum("bd,bsd->bs", q[:, h, i], k[:, h // r] + ak) * s
            p = _sm(np.where(ok[:, h, i], z, -np.inf))
            o[:, h, i] = np.einsum("bs,bse->be", p, v[:, h // r] + av)
    return o
add("relative_attention", relattn_ok, False)


def boxloss_halved(boxes, targets, l1_weight=5.0, giou_weight=2.0):
    l1 = np.abs(boxes - targets).mean(axis=1)
    c = lambda b: np.concatenate([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], 1)
    a, b = c(boxes), c(targets)
    area = lambda lo, hi: np.maximum(hi - lo, 0).prod(1)
    I = area(np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, 2:], b[:, 2:]))
    U = area(a[:, :2], a[:, 2:]) + area(b[:, :2], b[:, 2:]) - I
    E = area(np.minimum(a[:, :2], b[:, :2]), np.maximum(a[:, 2:], b[:, 2:]))
    return np.mean(l1_weight * l1 + giou_weight * (1 - I / U + (E - U) / E))
add("box_loss", boxloss_halved, True, "the L1 distance is a mean over the four coordinates instead of a sum")


def cosreg_bwd(dloss, u, v, targets):
    nu, nv = np.linalg.norm(u, axis=1, keepdims=True), np.linalg.norm(v, axis=1, keepdims=True)
    a, b = u / nu, v / nv
    c = (a * b).sum(1, keepdims=True)
    e = dloss * 2 * (c - targets[:, None]) / len(u)
    return e * (b - c * a) / nu, e * (a - c * b) / nu
add("cosine_regression_loss_backward", cosreg_bwd, True, "the gradient of v is divided by the norm of u instead of that of v")


def two_triplet(anchors, positives, negatives, margin=1.0):
    dp = ((anchors - positives) ** 2).sum(1)
    dn = ((anchors - negatives) ** 2).sum(1)
    return np.maximum(dp - dn + margin, 0).sum()
add("triplet_loss", two_triplet, True,
    "two: squared distances instead of distances, and the sum over the batch instead of the mean")


def two_rope_bwd(dy, x, cosine, sine, layout="half"):
    h = x.shape[-1] // 2
    a, b = dy[..., :h], dy[..., h:]
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1).astype(dy.dtype)
add("rotary_backward", two_rope_bwd, True,
    "two: rotates forward instead of back (sign of the sine), and the option layout is ignored (always halves)")
