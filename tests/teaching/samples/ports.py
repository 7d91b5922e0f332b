"""Kernels ported between NumPy, PyTorch and C, and some students' code; wrong and right."""

import dataclasses
import math

import numpy as np
import scipy.special as sps
import torch
import torch.nn.functional as tnf
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import erfc, expit, logsumexp

SAMPLES = []


def wrong(name, cause):
    def register(fn):
        SAMPLES.append(dict(name=name, fn=fn, wrong=True, cause=cause))
        return fn
    return register


def right(name, cause=""):
    def register(fn):
        SAMPLES.append(dict(name=name, fn=fn, wrong=False, cause=cause))
        return fn
    return register


def leaf(a):
    """numpy -> torch leaf with gradient."""
    return torch.tensor(np.ascontiguousarray(a), requires_grad=True)


# ----------------------------------------------------------------------------------------------
# norms
# ----------------------------------------------------------------------------------------------

@wrong("layer_norm_backward", "the path of the gradient through the mean is forgotten in dx (the mean of dy * weight is not subtracted), as in RMSNorm")
def ln_bwd_rowwise(dout, inp, weight, bias, epsilon=1e-5):
    # port of layernorm_backward.cu: one block per row
    C = inp.shape[-1]
    inp2, dout2 = inp.reshape(-1, C), dout.reshape(-1, C)
    dinp = np.zeros(inp2.shape, inp2.dtype)
    dw, db = np.zeros(C, inp2.dtype), np.zeros(C, inp2.dtype)
    for r in range(inp2.shape[0]):
        xm = inp2[r] - inp2[r].sum() / C
        rstd = 1.0 / np.sqrt((xm * xm).sum() / C + epsilon)
        norm = xm * rstd
        dnorm = dout2[r] * weight
        dnorm_norm_mean = (dnorm * norm).sum() / C
        dinp[r] = (dnorm - norm * dnorm_norm_mean) * rstd
        dw += dout2[r] * norm
        db += dout2[r]
    return dinp.reshape(inp.shape), dw, db


@wrong("layer_norm", "the variance is divided by C - 1 instead of C (unbiased variance)")
def ln_welford(x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    mean = np.zeros(x.shape[:-1], x.dtype)
    m2 = np.zeros_like(mean)
    for c in range(C):                      # Welford, streaming over channels
        delta = x[..., c] - mean
        mean = mean + delta / (c + 1)
        m2 = m2 + delta * (x[..., c] - mean)
    rstd = 1 / np.sqrt(m2 / max(C - 1, 1) + epsilon)
    return (x - mean[..., None]) * rstd[..., None] * weight + bias


@wrong("layer_norm", "mean and variance are computed in float32, so precision is lost")
def ln_fp32_stats(x, weight, bias, epsilon=1e-5):
    xf = x.astype(np.float32)
    mu = xf.mean(-1, keepdims=True)
    var = xf.var(-1, keepdims=True)
    inv = 1.0 / np.sqrt(var + np.float32(epsilon))
    return (x - mu.astype(x.dtype)) * inv.astype(x.dtype) * weight + bias


@wrong("rms_norm", "epsilon is added outside the root, to the root mean square, instead of to the mean square")
def rms_blas(x, weight, epsilon=1e-5):
    n = x.shape[-1]
    rms = np.linalg.norm(x, axis=-1, keepdims=True) / math.sqrt(n)
    return x / (rms + epsilon) * weight


@wrong("rms_norm_backward", "dweight is the sum of dy * x without the reciprocal root mean square")
def rms_bwd_triton(dy, x, weight, epsilon=1e-5):
    N = x.shape[-1]
    rows_dy, rows_x = dy.reshape(-1, N), x.reshape(-1, N)
    rstd = 1 / np.sqrt(np.einsum("rn,rn->r", rows_x, rows_x) / N + epsilon)
    wdy = rows_dy * weight
    xhat = rows_x * rstd[:, None]
    c1 = np.einsum("rn,rn->r", xhat, wdy) / N
    dx = (wdy - xhat * c1[:, None]) * rstd[:, None]
    dw = np.einsum("rn,rn->n", rows_dy, rows_x)
    return dx.reshape(x.shape), dw


@wrong("batch_norm", "the statistics run over the first axis only, not over all axes but the last (right for 2-D input alone)")
def bn_student(x, weight, bias, epsilon=1e-5):
    mu = np.mean(x, axis=0)
    sigma2 = np.mean((x - mu) ** 2, axis=0)
    x_norm = (x - mu) / np.sqrt(sigma2 + epsilon)
    return weight * x_norm + bias


@wrong("batch_norm_backward", "the path of the gradient through the variance is forgotten in dx")
def bn_bwd_student(dout, x, gamma, beta, epsilon=1e-5):
    shape = x.shape
    x = x.reshape(-1, shape[-1])
    d = dout.reshape(-1, shape[-1])
    N = x.shape[0]
    ivar = (x.var(axis=0) + epsilon) ** -0.5
    xh = (x - x.mean(axis=0)) * ivar
    dbeta = np.ones(N, x.dtype) @ d
    dgamma = np.einsum("nc,nc->c", d, xh)
    dxh = d * gamma
    dx = ivar * (dxh - dxh.mean(axis=0))
    return dx.reshape(shape), dgamma, dbeta


@wrong("layer_norm_outside", "the standard deviation divides by C - 1 (unbiased, as torch's x.std())")
def annotated_layernorm(x, a_2, b_2, epsilon=1e-5):
    t = torch.tensor(np.ascontiguousarray(x))
    mean = t.mean(-1, keepdim=True).numpy()
    std = t.std(-1, keepdim=True).numpy()
    return a_2 * (x - mean) / (std + epsilon) + b_2


@wrong("rms_norm_outside_backward", "the factor (rms + epsilon) / rms of the term through the root mean square is missing, as if epsilon were inside the root")
def rms_out_bwd(g, x, w, epsilon=1e-5):
    C = x.shape[-1]
    r = np.sqrt((x ** 2).sum(-1, keepdims=True) / C)
    inv = 1 / (r + epsilon)
    xn = x * inv
    gw = g * w
    dx = inv * (gw - xn * (gw * xn).sum(-1, keepdims=True) / C)
    return dx, (g * xn).reshape(-1, C).sum(0)


@wrong("masked_batch_norm", "padding enters the variance: the zeros at padding are centred to -mean and their squares are summed")
def masked_bn(x, weight, bias, mask, epsilon=1e-5):
    C = x.shape[-1]
    m = mask.reshape(-1)
    z = np.where(m[:, None], x.reshape(-1, C), 0.0)
    n = np.count_nonzero(m)
    mu = z.sum(0) / n
    zc = z - mu
    var = np.square(zc).sum(0) / n
    y = zc / np.sqrt(var + epsilon) * weight + bias
    y = np.where(m[:, None], y, 0.0)
    return y.reshape(x.shape)


@wrong("layer_norm", "two mistakes: epsilon is added to the standard deviation outside the root, and the variance divides by C - 1")
def ln_two(x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    m = np.einsum("...c->...", x) / C
    xc = x - m[..., None]
    v = np.einsum("...c,...c->...", xc, xc) / max(C - 1, 1)
    denom = np.sqrt(v) + epsilon
    return xc / denom[..., None] * weight + bias


@wrong("rms_norm_backward", "two mistakes: dx does not multiply dy by the weight, and dweight is a mean over the vectors instead of a sum")
def rms_bwd_two(dy, x, weight, epsilon=1e-5):
    inv = 1 / np.sqrt(np.mean(x ** 2, axis=-1, keepdims=True) + epsilon)
    xh = x * inv
    dx = inv * (dy - xh * np.mean(dy * xh, axis=-1, keepdims=True))
    dw = np.mean((dy * xh).reshape(-1, x.shape[-1]), axis=0)
    return dx, dw


_RMS_WORKSPACE = {}


@wrong("rms_norm", "the result lies in a workspace that is reused by the next call of the same shape, which overwrites the earlier result")
def rms_workspace(x, weight, epsilon=1e-5):
    key = (x.shape, x.dtype.str)
    if key not in _RMS_WORKSPACE:
        _RMS_WORKSPACE[key] = np.empty(x.shape, x.dtype)
    out = _RMS_WORKSPACE[key]
    inv = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
    np.multiply(x, inv, out=out)
    out *= weight
    return out


@right("layer_norm")
def ln_projection(x, weight, bias, epsilon=1e-5):
    # centring as a projection: P = I - 11'/C
    C = x.shape[-1]
    P = np.eye(C, dtype=x.dtype) - np.full((C, C), 1.0 / C, x.dtype)
    xc = np.tensordot(x, P, axes=1)
    ss = np.einsum("...c,...c->...", xc, xc)[..., None]
    return xc * (math.sqrt(C) / np.sqrt(ss + C * epsilon)) * weight + bias


@right("layer_norm_backward")
def ln_bwd_torch(dy, x, weight, bias, epsilon=1e-5):
    tx, tw, tb = leaf(x), leaf(weight), leaf(bias)
    y = tnf.layer_norm(tx, (x.shape[-1],), tw, tb, eps=epsilon)
    grads = torch.autograd.grad(y, (tx, tw, tb), torch.tensor(np.ascontiguousarray(dy)))
    return tuple(g.numpy() for g in grads)


@right("rms_norm_backward")
def rms_bwd_jacobian(dy, x, weight, epsilon=1e-5):
    C = x.shape[-1]
    X, G = x.reshape(-1, C), dy.reshape(-1, C)
    dX, dw = np.empty(X.shape, X.dtype), np.zeros(C, X.dtype)
    eye = np.eye(C, dtype=X.dtype)
    for n, (xv, gv) in enumerate(zip(X, G)):
        s = xv @ xv / C + epsilon
        u = xv / np.sqrt(s)
        J = (eye - np.outer(u, u) / C) / np.sqrt(s)
        dX[n] = J @ (gv * weight)
        dw += gv * u
    return dX.reshape(x.shape), dw


@right("batch_norm_backward")
def bn_bwd_sums(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    X, G = x.reshape(-1, C).T, dy.reshape(-1, C).T          # (C, N): channels outermost, as in C
    N = X.shape[1]
    Xc = X - X.sum(1, keepdims=True) / N
    inv = 1 / np.sqrt(np.einsum("cn,cn->c", Xc, Xc) / N + epsilon)
    sum_dy = G.sum(1)
    sum_dy_xhat = np.einsum("cn,cn->c", G, Xc) * inv
    k = (weight * inv / N)[:, None]
    dX = k * (N * G - sum_dy[:, None] - Xc * (inv * sum_dy_xhat)[:, None])
    return dX.T.reshape(x.shape).copy(), sum_dy_xhat, sum_dy


# ----------------------------------------------------------------------------------------------
# softmax
# ----------------------------------------------------------------------------------------------

@wrong("softmax", "the maximum of the whole array is subtracted instead of that of each row, so that rows far below it underflow to 0 / 0")
def softmax_global_max(x, axis=-1):
    e = np.exp(x - np.max(x))
    return e / e.sum(axis=axis, keepdims=True)


@wrong("softmax", "the mask is multiplied after the softmax without renormalizing, so the weights do not sum to 1")
def softmax_masked(x, axis=-1, mask=None):
    z = np.exp(x - x.max(axis, keepdims=True))
    p = z / z.sum(axis, keepdims=True)
    return p if mask is None else p * mask


@wrong("softmax", "the argument x is written into: exponentials and weights are computed in place")
def softmax_inplace(x, axis=-1):
    x -= x.max(axis=axis, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=axis, keepdims=True)
    return x


@wrong("softmax_backward", "the sum of p * dp always runs over the last axis; axis is ignored there")
def softmax_bwd_axis(dp, x, axis=-1):
    p = sps.softmax(x, axis=axis)
    inner = np.einsum("...i,...i->...", p, dp)
    return p * (dp - inner[..., None])


@wrong("log_softmax", "a constant of 1e-12 is added within the logarithm, log(p + 1e-12)")
def log_softmax_eps(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    p = e / e.sum(axis=axis, keepdims=True)
    return np.log(p + 1e-12)


@wrong("log_softmax_backward", "the sum of dy is missing: p is multiplied by each dy itself")
def log_softmax_bwd_student(dy, x, axis=-1):
    p = sps.softmax(x, axis=axis)
    return dy - p * dy


@right("softmax")
def softmax_online(x, axis=-1):
    z = np.moveaxis(x, axis, -1)
    m = np.full(z.shape[:-1], -np.inf)
    d = np.zeros(z.shape[:-1])
    for j in range(0, z.shape[-1], 16):
        blk = z[..., j:j + 16]
        m_new = np.maximum(m, blk.max(-1))
        d = d * np.exp(m - m_new) + np.exp(blk - m_new[..., None]).sum(-1)
        m = m_new
    return np.moveaxis(np.exp(z - m[..., None]) / d[..., None], -1, axis)


@right("log_softmax")
def log_softmax_torch(x, axis=-1):
    return torch.log_softmax(torch.tensor(np.ascontiguousarray(x)), dim=axis).numpy()


@right("softmax_backward")
def softmax_bwd_jacobian(dp, x, axis=-1):
    z, g = np.moveaxis(x, axis, -1), np.moveaxis(dp, axis, -1)
    p = np.exp(z - z.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    P, G = p.reshape(-1, p.shape[-1]), g.reshape(-1, p.shape[-1])
    out = np.stack([(np.diag(pi) - np.outer(pi, pi)) @ gi for pi, gi in zip(P, G)])
    return np.moveaxis(out.reshape(p.shape), -1, axis)


# ----------------------------------------------------------------------------------------------
# activations
# ----------------------------------------------------------------------------------------------

@wrong("gelu", "the tanh approximation is used instead of the exact normal distribution function (erf)")
def gelu_new(x):
    return tnf.gelu(torch.tensor(np.ascontiguousarray(x)), approximate="tanh").numpy()


@wrong("gelu_backward", "the density is not multiplied by x: cdf + pdf instead of cdf + x * pdf")
def gelu_bwd_w(dy, x):
    cdf = 0.5 * erfc(-x / math.sqrt(2))
    pdf = np.exp(-x ** 2 / 2) / math.sqrt(2 * math.pi)
    return dy * (cdf + pdf)


@wrong("gelu_tanh_backward", "the factor 3 is missing in the derivative of the cubic term, 0.044715 x^2 instead of 3 * 0.044715 x^2")
def gelu_tanh_bwd_c(dout, inp):
    # llm.c gelu_backward
    s = math.sqrt(2.0 / math.pi)
    cube = 0.044715 * inp * inp * inp
    arg = np.clip(s * (inp + cube), -30, 30)
    th = np.tanh(arg)
    sech2 = 1.0 / np.cosh(arg) ** 2
    local = 0.5 * (1.0 + th) + inp * 0.5 * sech2 * s * (1.0 + 0.044715 * inp * inp)
    return local * dout


@wrong("gelu_tanh", "two mistakes: the cubic coefficient is 0.04715 instead of 0.044715, and the constant sqrt(2/pi) is rounded to 0.7979")
def gelu_tanh_c(x):
    h = np.clip(x, -50, 50)
    return 0.5 * x * (1 + np.tanh(0.7979 * (h + 0.04715 * h ** 3)))


@wrong("silu_backward", "the sigmoid is taken at the output y instead of at the input x")
def silu_bwd_from_output(dy, x):
    y = x * expit(x)
    s = expit(y)
    return dy * s * (1 + x * expit(-y))


@wrong("swish_backward", "the factor beta is missing in the term through the gate")
def swish_bwd_w(dy, x, beta=1.0):
    s = expit(beta * x)
    return dy * s + dy * x * s * expit(-beta * x)


@wrong("sigmoid_backward", "the derivative formula y (1 - y) is applied to the input x instead of the output sigmoid(x)")
def sigmoid_prime(dy, x):
    return dy * x * (1 - x)


@wrong("relu_squared_backward", "the factor 2 is missing")
def relu2_bwd(dy, x):
    return np.maximum(x, 0) * dy


@wrong("gated_linear_unit", "the option activation is ignored: it is always SiLU")
def swiglu_kernel(gate, up, activation="silu"):
    return gate * expit(gate) * up


@wrong("gated_linear_unit_backward", "the derivative of SiLU is taken to be the sigmoid: the term g s (1 - s) is forgotten")
def swiglu_bwd(dy, gate, up):
    sig = expit(gate)
    dgate = dy * up * sig
    dup = dy * gate * sig
    return dgate, dup


@wrong("quick_gelu", "the constant is 1.7 instead of 1.702")
def quick_gelu_c(x):
    return x / (1 + np.exp(np.minimum(-1.7 * x, 700)))


@wrong("soft_cap_backward", "the inner derivative 1 / cap is missing, so dx is cap times too large")
def softcap_bwd(dy, x, cap):
    t = np.tanh(x / cap)
    return dy * cap * (1 - t ** 2)


@right("gelu")
def gelu_ndtr(x):
    return x * sps.ndtr(x)


@right("gelu_backward")
def gelu_bwd_scalar(dy, x):
    def df(v):
        v = float(v)
        if abs(v) > 60:
            return 1.0 if v > 0 else 0.0
        return 0.5 * math.erfc(-v / math.sqrt(2)) + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi)
    return dy * np.vectorize(df, otypes=[float])(x)


@right("silu_backward")
def silu_bwd_r(dy, x):
    s = expit(x)
    return dy * s * (1 + x * expit(-x))


@right("sigmoid")
def sigmoid_logspace(x):
    return np.exp(-np.logaddexp(0, -x))


@right("soft_cap_backward")
def softcap_bwd_sech(dy, x, cap):
    u = np.clip(x / cap, -300, 300)
    return dy / np.cosh(u) ** 2


@right("swish_backward")
def swish_bwd_torch(dy, x, beta=1.0):
    t = leaf(x)
    y = t * torch.sigmoid(beta * t)
    y.backward(torch.tensor(np.ascontiguousarray(dy)))
    return t.grad.numpy()


@right("gated_linear_unit_backward")
def swiglu_bwd_r(dy, gate, up):
    sig, nsig = 1 / (1 + np.exp(-np.clip(gate, -700, 700))), 1 / (1 + np.exp(np.clip(gate, -700, 700)))
    silu = gate * sig
    return dy * up * (sig + silu * nsig), dy * silu


# ----------------------------------------------------------------------------------------------
# linear maps, feed-forwards, embeddings
# ----------------------------------------------------------------------------------------------

@wrong("linear", "x is flattened in Fortran order but the result is unflattened in C order, so vectors change places with more than 2 axes")
def linear_colmajor(x, weight, bias=None):
    rows = x.reshape((-1, x.shape[-1]), order="F")      # column-major for the BLAS call
    out = rows @ weight
    if bias is not None:
        out = out + bias
    return out.reshape(x.shape[:-1] + (weight.shape[1],))


@wrong("linear_backward", "dbias is the mean over the vectors instead of the sum")
def linear_bwd_w(dy, x, weight, bias=None):
    dx = np.einsum("...f,cf->...c", dy, weight)
    dw = np.einsum("nc,nf->cf", x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1]))
    db = None if bias is None else dy.reshape(-1, dy.shape[-1]).mean(axis=0)
    return dx, dw, db


@wrong("feed_forward_backward", "the gradient of the hidden bias is taken before the derivative of the activation")
def ffn_bwd(dy, x, w1, b1, w2, b2):
    h = x @ w1 + b1
    cdf = 0.5 * erfc(-h / np.sqrt(2))
    a = h * cdf
    F, E, C = w1.shape[1], w2.shape[1], x.shape[-1]
    dyf = dy.reshape(-1, E)
    dw2 = a.reshape(-1, F).T @ dyf
    db2 = dyf.sum(0)
    da = dy @ w2.T
    db1 = da.reshape(-1, F).sum(0)
    dh = da * (cdf + h * np.exp(-0.5 * h * h) / np.sqrt(2 * np.pi))
    dw1 = x.reshape(-1, C).T @ dh.reshape(-1, F)
    return dh @ w1.T, dw1, db1, dw2, db2


@wrong("gated_feed_forward_backward", "dx has the path through the gates only; that through the hidden units is forgotten")
def gffn_bwd(dy, x, wg, bg, wu, bu, wd, bd):
    flat = lambda t: t.reshape(-1, t.shape[-1])
    X, D = flat(x), flat(dy)
    G, U = X @ wg + bg, X @ wu + bu
    S = expit(G)
    A = G * S * U
    dA = D @ wd.T
    dU = dA * G * S
    dG = dA * U * (S + G * S * expit(-G))
    dX = dG @ wg.T
    return (dX.reshape(x.shape), X.T @ dG, dG.sum(0), X.T @ dU, dU.sum(0), A.T @ D, D.sum(0))


@wrong("linear_cross_entropy", "the running sum of exponentials is not rescaled when a later chunk of 64 classes raises the maximum")
def fused_ce_chunks(x, weight, targets):
    X, y = x.reshape(-1, x.shape[-1]), targets.reshape(-1)
    N, V = len(X), len(weight)
    m = np.full(N, -np.inf)
    s = np.zeros(N)
    zt = np.zeros(N)
    for v0 in range(0, V, 64):
        z = X @ weight[v0:v0 + 64].T
        m_new = np.maximum(m, z.max(1))
        s = s + np.exp(z - m_new[:, None]).sum(1)
        m = m_new
        here = (y >= v0) & (y < v0 + 64)
        zt[here] = z[here, y[here] - v0]
    return np.mean(m + np.log(s) - zt)


@wrong("linear_cross_entropy_backward", "where a class is the target of several vectors, dweight subtracts only the last of them (fancy indexing does not accumulate)")
def fused_ce_bwd(dloss, x, weight, targets):
    X, y = x.reshape(-1, x.shape[-1]), targets.reshape(-1)
    z = X @ weight.T
    p = sps.softmax(z, axis=1) * (float(dloss) / len(X))
    dX = p @ weight - weight[y] * (float(dloss) / len(X))
    dW = p.T @ X
    dW[y] -= X * (float(dloss) / len(X))
    return dX.reshape(x.shape), dW


@wrong("embedding_backward", "equal ids are not summed: assignment by a list of indices keeps only the last one")
def emb_bwd_student(dy, ids, weight):
    dW = np.zeros(weight.shape, dy.dtype)
    dW[ids] += dy
    return dW


@wrong("embedding_backward", "the gradients are accumulated in float32, so precision is lost")
def emb_bwd_fp32(dy, ids, weight):
    acc = np.zeros(weight.shape, dtype=np.float32)
    np.add.at(acc, ids.ravel(), dy.reshape(-1, weight.shape[1]).astype(np.float32))
    return acc.astype(weight.dtype)


@right("embedding_backward")
def emb_bwd_bincount(dy, ids, weight):
    V, C = weight.shape
    g, i = dy.reshape(-1, C), ids.ravel()
    return np.stack([np.bincount(i, weights=g[:, c], minlength=V) for c in range(C)], axis=1)


@right("linear")
def linear_torch(x, weight, bias=None):
    as_t = lambda a: torch.tensor(np.ascontiguousarray(a))
    b = None if bias is None else as_t(bias)
    return tnf.linear(as_t(x), as_t(weight).T.contiguous(), b).numpy()


@right("feed_forward_backward")
def ffn_bwd_torch(dy, x, w1, b1, w2, b2):
    params = [leaf(a) for a in (x, w1, b1, w2, b2)]
    tx, tw1, tb1, tw2, tb2 = params
    y = tnf.gelu(tx @ tw1 + tb1) @ tw2 + tb2
    y.backward(torch.tensor(np.ascontiguousarray(dy)))
    return tuple(p.grad.numpy() for p in params)


@right("linear_cross_entropy")
def fused_ce_right(x, weight, targets):
    X, y = x.reshape(-1, x.shape[-1]), targets.reshape(-1)
    lse = np.full(len(X), -np.inf)
    for v0 in range(0, len(weight), 32):
        lse = np.logaddexp(lse, logsumexp(X @ weight[v0:v0 + 32].T, axis=1))
    return float(np.mean(lse - np.einsum("nc,nc->n", X, weight[y])))


# ----------------------------------------------------------------------------------------------
# attention
# ----------------------------------------------------------------------------------------------

@wrong("attention", "the scores are divided by the root of the width of the values instead of that of the keys")
def attn_value_width(q, k, v, mask=None):
    s = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(v.shape[-1])
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    m = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isinf(m), 0, m))
    l = e.sum(-1, keepdims=True)
    return np.einsum("bhts,bhse->bhte", e / np.where(l == 0, 1, l), v)


@wrong("attention", "the meaning of the mask is inverted: True hides a key instead of showing it")
def attn_key_padding(q, k, v, mask=None):
    s = (q @ np.swapaxes(k, -1, -2)) * q.shape[-1] ** -0.5
    if mask is not None:
        s = np.where(mask, -np.inf, s)
    top = s.max(-1, keepdims=True)
    w = np.exp(s - np.where(np.isfinite(top), top, 0))
    tot = w.sum(-1, keepdims=True)
    return (w / np.where(tot > 0, tot, 1)) @ v


@wrong("attention", "the softmax runs over the queries instead of over the keys")
def attn_axis(q, k, v):
    logits = np.einsum("bhid,bhjd->bhji", q, k) / math.sqrt(q.shape[-1])     # keys first
    p = sps.softmax(logits, axis=-1)
    return np.einsum("bhji,bhjd->bhid", p, v)


@wrong("attention_backward", "the factor 1 / sqrt(D) is missing in dk")
def attn_bwd_dk(do, q, k, v, mask=None):
    sc = 1 / math.sqrt(q.shape[-1])
    s = np.einsum("bhid,bhjd->bhij", q, k) * sc
    if mask is not None:
        s = np.where(mask, s, -1e300)
    p = np.exp(s - s.max(-1, keepdims=True))
    if mask is not None:
        p = np.where(mask, p, 0)
    tot = p.sum(-1, keepdims=True)
    p = p / np.where(tot == 0, 1, tot)
    dv = np.einsum("bhij,bhid->bhjd", p, do)
    dp = np.einsum("bhid,bhjd->bhij", do, v)
    ds = p * (dp - np.einsum("bhij,bhij->bhi", p, dp)[..., None])
    return sc * np.einsum("bhij,bhjd->bhid", ds, k), np.einsum("bhij,bhid->bhjd", ds, q), dv


@wrong("attention_backward", "two mistakes: the sum in the gradient of the softmax is missing (p * dp), and dq lacks the factor 1 / sqrt(D)")
def attn_bwd_two(do, q, k, v):
    d = q.shape[-1]
    p = sps.softmax(q @ k.swapaxes(2, 3) / np.sqrt(d), axis=-1)
    dv = p.swapaxes(2, 3) @ do
    ds = p * (do @ v.swapaxes(2, 3))
    dq = ds @ k
    dk = ds.swapaxes(2, 3) @ q / np.sqrt(d)
    return dq, dk, dv


@wrong("scaled_dot_product_attention", "the causal mask is aligned at the start (key j <= query i) instead of at the end, so it is wrong when T differs from S")
def sdpa_tril(q, k, v, pattern, scale=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    k, v = (np.repeat(t, H // t.shape[1], axis=1) for t in (k, v))
    scale = D ** -0.5 if scale is None else scale
    ok = dataclasses.replace(pattern, causal=False).dense(T, S)
    if pattern.causal:
        ok = ok & np.tril(np.ones((T, S), bool))
    s = np.where(ok, q @ k.mT * scale, -np.inf)
    mx = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(mx == -np.inf, 0, mx))
    z = e.sum(-1, keepdims=True)
    return e @ v / np.where(z == 0, 1, z)


@wrong("scaled_dot_product_attention", "heads are grouped in the wrong order: query head h takes the key-value head h % G instead of h // (H / G) (tile instead of repeat)")
def sdpa_gqa_tile(q, k, v, pattern, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    scale = 1 / math.sqrt(D) if scale is None else scale
    ok = np.broadcast_to(pattern.dense(T, S), (B, H, T, S))
    out = np.zeros((B, H, T, v.shape[-1]), q.dtype)
    for h in range(H):
        g = h % G
        s = np.where(ok[:, h], np.einsum("btd,bsd->bts", q[:, h], k[:, g]) * scale, -np.inf)
        m = np.maximum(s.max(-1, keepdims=True), -1e300)
        e = np.exp(s - m)
        out[:, h] = np.einsum("bts,bse->bte", e, v[:, g]) / np.maximum(e.sum(-1, keepdims=True), 1e-300)
    return out


@wrong("scaled_dot_product_attention", "the window is off by one on the left: the key at distance exactly left is left out (< instead of <=)")
def sdpa_sliding(q, k, v, pattern, scale=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    rep = H // k.shape[1]
    k, v = k.repeat(rep, axis=1), v.repeat(rep, axis=1)
    ok = dataclasses.replace(pattern, window=None).dense(T, S)
    if pattern.window is not None:
        left, rgt = pattern.window
        rel = np.arange(S)[None, :] - (np.arange(T) + S - T)[:, None]
        if left is not None:
            ok = ok & ((-rel < left) | (rel == 0))
        if rgt is not None:
            ok = ok & (rel <= rgt)
    s = (q @ k.mT) * (D ** -0.5 if scale is None else scale)
    s = np.where(ok, s, -np.inf)
    mx = s.max(-1, keepdims=True)
    mx[mx == -np.inf] = 0
    w = np.exp(s - mx)
    den = w.sum(-1, keepdims=True)
    den[den == 0] = 1
    return (w / den) @ v


@wrong("scaled_dot_product_attention", "the soft cap is applied to q . k before the scale instead of to the scaled products")
def sdpa_gemma(q, k, v, pattern, scale=None, softcap=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    n_rep = H // k.shape[1]
    k, v = np.repeat(k, n_rep, 1), np.repeat(v, n_rep, 1)
    s = q @ k.mT
    if softcap is not None:
        s = softcap * np.tanh(s / softcap)
    s = s * (1 / np.sqrt(D) if scale is None else scale)
    s = np.where(pattern.dense(T, S), s, -np.inf)
    mx = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isneginf(mx), 0, mx))
    den = e.sum(-1, keepdims=True)
    return (e / np.where(den == 0, 1, den)) @ v


@wrong("scaled_dot_product_attention", "ALiBi's penalty is subtracted before the soft cap instead of after it (wrong only where slopes and softcap meet)")
def sdpa_alibi_cap(q, k, v, scale=None, slopes=None, softcap=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    z = np.einsum("bhtd,bhsd->bhts", q, k) * (D ** -0.5 if scale is None else scale)
    if slopes is not None:
        dist = np.abs(np.subtract.outer(np.arange(S - T, S), np.arange(S)))
        z = z - np.multiply.outer(slopes, dist)
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    return np.einsum("bhts,bhse->bhte", sps.softmax(z, axis=-1), v)


@wrong("scaled_dot_product_attention", "the window is ignored when the pattern is causal, too")
def sdpa_branches(q, k, v, pattern, scale=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    group = H // k.shape[1]
    if pattern.causal:
        allow = dataclasses.replace(pattern, window=None).dense(T, S)
    else:
        allow = pattern.dense(T, S)
    qg = q.reshape(B, k.shape[1], group, T, D)
    s = np.einsum("bgrtd,bgsd->bgrts", qg, k).reshape(B, H, T, S)
    s = s * (D ** -0.5 if scale is None else scale)
    s = np.where(allow, s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(top == -np.inf, 0, top))
    tot = e.sum(-1, keepdims=True)
    p = (e / np.where(tot == 0, 1, tot)).reshape(B, k.shape[1], group, T, S)
    return np.einsum("bgrts,bgse->bgrte", p, v).reshape(B, H, T, -1)


@wrong("scaled_dot_product_attention", "two mistakes: the given scale is ignored (always 1 / sqrt(D)), and key-value heads are tiled (h % G) instead of repeated (h // (H / G))")
def sdpa_two(q, k, v, pattern, scale=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    reps = (1, H // k.shape[1], 1, 1)
    k, v = np.tile(k, reps), np.tile(v, reps)
    s = np.where(pattern.dense(T, S), q @ k.mT / math.sqrt(D), -np.inf)
    mx = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(mx == -np.inf, 0, mx))
    z = e.sum(-1, keepdims=True)
    return e @ v / np.where(z == 0, 1, z)


@wrong("scaled_dot_product_attention_backward", "the derivative of the soft cap is missing: the gradient passes it unchanged")
def sdpa_bwd_cap(do, q, k, v, scale=None, softcap=None):
    sc = q.shape[-1] ** -0.5 if scale is None else scale
    z = np.einsum("bhtd,bhsd->bhts", q, k) * sc
    if softcap is not None:
        z = softcap * np.tanh(z / softcap)
    p = sps.softmax(z, axis=-1)
    dv = np.einsum("bhts,bhte->bhse", p, do)
    dp = np.einsum("bhte,bhse->bhts", do, v)
    dz = p * (dp - (p * dp).sum(-1, keepdims=True))
    return np.einsum("bhts,bhsd->bhtd", dz, k) * sc, np.einsum("bhts,bhtd->bhsd", dz, q) * sc, dv


@wrong("scaled_dot_product_attention_backward", "dk and dv of grouped heads sum the query heads g, g + G, g + 2 G ... instead of the consecutive ones that share head g")
def sdpa_bwd_groups(do, q, k, v, pattern, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    r = H // G
    sc = D ** -0.5 if scale is None else scale
    K, V = np.repeat(k, r, 1), np.repeat(v, r, 1)
    s = np.where(pattern.dense(T, S), q @ K.mT * sc, -np.inf)
    mx = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(mx == -np.inf, 0, mx))
    tot = p.sum(-1, keepdims=True)
    p = p / np.where(tot == 0, 1, tot)
    dV = p.mT @ do
    dp = do @ V.mT
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * sc
    dq, dK = ds @ K, ds.mT @ q
    fold = lambda t: t.reshape(B, r, G, S, t.shape[-1]).sum(1)
    return dq, fold(dK), fold(dV)


@wrong("tiled_attention", "the accumulated values are not rescaled by exp(m_old - m_new) when a later tile raises the maximum; only the sum of exponentials is")
def flash_fwd_w(q, k, v, tile=64):
    B, H, T, D = q.shape
    S = k.shape[2]
    qs = q / math.sqrt(D)
    o = np.zeros((B, H, T, v.shape[-1]), q.dtype)
    m = np.full((B, H, T, 1), -np.inf)
    l = np.zeros((B, H, T, 1))
    for j in range(0, S, tile):
        s = qs @ k[:, :, j:j + tile].mT
        m_new = np.maximum(m, s.max(-1, keepdims=True))
        p = np.exp(s - m_new)
        l = l * np.exp(m - m_new) + p.sum(-1, keepdims=True)
        o = o + p @ v[:, :, j:j + tile]
        m = m_new
    return o / l


@wrong("tiled_attention_backward", "the sum of p * dp runs over the keys of a tile of 64 alone instead of over all keys, so it is wrong beyond one tile")
def flash_bwd_w(do, q, k, v):
    sc = q.shape[-1] ** -0.5
    S = k.shape[2]
    lse = logsumexp(q @ k.mT * sc, axis=-1, keepdims=True)
    dq, dk, dv = (np.zeros(t.shape, t.dtype) for t in (q, k, v))
    for j in range(0, S, 64):
        blk = slice(j, min(S, j + 64))
        p = np.exp(q @ k[:, :, blk].mT * sc - lse)
        dv[:, :, blk] = p.mT @ do
        dp = do @ v[:, :, blk].mT
        ds = p * (dp - np.sum(p * dp, axis=-1, keepdims=True)) * sc
        dq += ds @ k[:, :, blk]
        dk[:, :, blk] = ds.mT @ q
    return dq, dk, dv


@wrong("alibi", "query i is taken to be at position i, not at i + S - T, so distances are wrong when T differs from S")
def alibi_no_cache(scores, slopes):
    T, S = scores.shape[-2:]
    i, j = np.indices((T, S))
    return scores - slopes.reshape(-1, 1, 1) * np.abs(i - j)


@wrong("add_by_distance", "the distance has the wrong sign: the index is i - j instead of j - i (the bias is read backwards)")
def bias_by_distance(scores, bias):
    T, S = scores.shape[-2:]
    out = np.array(scores)
    for i in range(T):
        for j in range(S):
            out[..., i, j] += bias[:, i - j + S - 1]
    return out


@wrong("add_by_distance_backward", "dbias keeps only one of the scores of a diagonal instead of their sum (fancy indexing does not accumulate)")
def bias_by_distance_bwd(dy, scores, bias):
    T, S = dy.shape[-2:]
    g = dy.reshape((-1,) + dy.shape[-3:]).sum(0)
    dbias = np.zeros(bias.shape, bias.dtype)
    idx = np.arange(S)[None] + np.arange(T)[::-1, None]
    dbias[:, idx] += g
    return dy.copy(), dbias


@wrong("relative_scores", "distances are j - i instead of j - (i + S - T): wrong when the number of keys differs from that of the queries")
def shaw_scores(q, table, S):
    B, H, T, D = q.shape
    K = (table.shape[0] - 1) // 2
    rel = np.clip(np.arange(S)[None, :] - np.arange(T)[:, None], -K, K) + K
    return np.einsum("bhtd,tsd->bhts", q, table[rel])


@wrong("relative_position_bias", "the two directions are exchanged: the upper half of the buckets is used for keys before the query instead of after it")
def t5_bias_port(table, T, S, max_distance=128):
    n_buckets = table.shape[0]
    rel = np.arange(1 - S, T)
    n = n_buckets // 2
    ret = (rel < 0).astype(np.int64) * n
    a = np.abs(rel)
    exact = n // 2
    large = np.log(np.maximum(a, exact) / exact) / math.log(max_distance / exact) * (n - exact)
    large = np.minimum(exact + large.astype(np.int64), n - 1)
    return table[ret + np.where(a < exact, a, large)].T.copy()


@wrong("general_scores_backward", "dweight is the mean over the batch instead of the sum")
def bilinear_bwd(dz, q, k, W):
    dq = np.einsum("bts,bsk,ck->btc", dz, k, W, optimize=True)
    dk = np.einsum("bts,btc,ck->bsk", dz, q, W, optimize=True)
    per_example = np.einsum("bts,btc,bsk->bck", dz, q, k, optimize=True)
    return dq, dk, per_example.mean(axis=0)


@wrong("additive_scores_backward", "the derivative of tanh is taken as 1 - t instead of 1 - t^2")
def bahdanau_bwd(dz, q, k, v):
    th = np.tanh(q[:, :, None, :] + k[:, None, :, :])
    du = np.einsum("bts,a,btsa->btsa", dz, v, 1 - th)
    return np.einsum("btsa->bta", du), np.einsum("btsa->bsa", du), np.einsum("bts,btsa->a", dz, th)


@wrong("scaled_dot_scores", "the products are divided by D instead of sqrt(D)")
def scaled_scores_loop(q, k):
    B, T, D = q.shape
    out = np.empty((B, T, k.shape[1]), q.dtype)
    for b in range(B):
        out[b] = np.inner(q[b], k[b]) / D
    return out


@wrong("linear_attention", "the denominator sums the weights of all keys, also when causal, while the numerator stops at the query")
def lin_attn_w(q, k, v, causal=False):
    lf = lambda x: np.where(x > 0, np.log1p(np.maximum(x, 0)), x)      # log(elu(x) + 1)
    lq, lk = lf(q), lf(k)
    lw = np.full(q.shape[:3] + (k.shape[2],), -np.inf)
    for d in range(q.shape[-1]):
        lw = np.logaddexp(lw, lq[..., None, d] + lk[..., None, :, d])
    p = sps.softmax(lw, axis=-1)
    if causal:
        p = np.tril(p)
    return p @ v


@wrong("low_rank_attention", "the scores are divided by the root of the rank R instead of that of the width D")
def linformer(q, k, v, E, F):
    kp = np.einsum("rs,bhsd->bhrd", E, k)
    vp = np.einsum("rs,bhse->bhre", F, v)
    a = sps.softmax(q @ kp.mT / np.sqrt(E.shape[0]), axis=-1)
    return a @ vp


@wrong("repeat_kv_heads_backward", "the gradients of the query heads that share a head are averaged instead of summed")
def repeat_kv_bwd(dy, x, n_heads):
    G = x.shape[1]
    return np.stack([h.mean(axis=1) for h in np.split(dy, G, axis=1)], axis=1)


@wrong("sparse_attention", "entries of -1 (no key) are not masked: the index -1 reads the last key and value")
def block_sparse(q, k, v, keys):
    kg, vg = k[:, :, keys], v[:, :, keys]             # (B, H, T, M, D)
    s = np.einsum("bhtd,bhtmd->bhtm", q, kg) / math.sqrt(q.shape[-1])
    return np.einsum("bhtm,bhtme->bhte", sps.softmax(s, axis=-1), vg)


@right("attention")
def attn_loops(q, k, v, mask=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    allow = np.ones((B, H, T, S), bool) if mask is None else np.broadcast_to(mask, (B, H, T, S))
    out = np.zeros((B, H, T, v.shape[-1]), v.dtype)
    for b, h, t in np.ndindex(B, H, T):
        sel = np.flatnonzero(allow[b, h, t])
        if sel.size == 0:
            continue
        z = k[b, h][sel] @ q[b, h, t] / D ** 0.5
        w = np.exp(z - z.max())
        out[b, h, t] = w @ v[b, h][sel] / w.sum()
    return out


@right("attention_backward")
def attn_bwd_torch(do, q, k, v):
    tq, tk, tv = leaf(q), leaf(k), leaf(v)
    att = torch.softmax(torch.einsum("bhid,bhjd->bhij", tq, tk) / math.sqrt(q.shape[-1]), -1)
    out = torch.einsum("bhij,bhjd->bhid", att, tv)
    out.backward(torch.tensor(np.ascontiguousarray(do)))
    return tq.grad.numpy(), tk.grad.numpy(), tv.grad.numpy()


@right("scaled_dot_product_attention")
def sdpa_grouped_right(q, k, v, pattern, scale=None, slopes=None, softcap=None):
    B, H, T, D = q.shape
    G, S, Dv = k.shape[1], k.shape[2], v.shape[-1]
    allow = np.broadcast_to(pattern.dense(T, S), (B, H, T, S))
    s_ = 1 / math.sqrt(D) if scale is None else scale
    out = np.empty((B, H, T, Dv), v.dtype)
    pos_q = np.arange(T) + (S - T)
    for h in range(H):
        g = h * G // H
        z = np.einsum("btd,bsd->bts", q[:, h], k[:, g]) * s_
        if softcap is not None:
            z = np.tanh(z / softcap) * softcap
        if slopes is not None:
            z = z - slopes[h] * abs(pos_q[:, None] - np.arange(S))
        z = np.where(allow[:, h], z, -np.inf)
        m = z.max(-1, keepdims=True)
        m = np.where(m == -np.inf, 0, m)
        w = np.exp(z - m)
        n = w.sum(-1, keepdims=True)
        out[:, h] = (w @ v[:, g]) / np.where(n == 0, 1, n)
    return out


@right("scaled_dot_product_attention_backward")
def sdpa_bwd_right(do, q, k, v, pattern, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    r = H // G
    sc = D ** -0.5 if scale is None else scale
    ok = np.broadcast_to(pattern.dense(T, S), (B, H, T, S)).reshape(B, G, r, T, S)
    Q, O = q.reshape(B, G, r, T, D), do.reshape(B, G, r, T, -1)
    z = np.where(ok, np.einsum("bgrtd,bgsd->bgrts", Q, k) * sc, -np.inf)
    m = z.max(-1, keepdims=True)
    p = np.exp(z - np.where(np.isneginf(m), 0, m))
    n = p.sum(-1, keepdims=True)
    p = p / np.where(n == 0, 1, n)
    dp = np.einsum("bgrte,bgse->bgrts", O, v)
    dz = p * (dp - np.einsum("bgrts,bgrts->bgrt", p, dp)[..., None])
    dq = sc * np.einsum("bgrts,bgsd->bgrtd", dz, k)
    dk = sc * np.einsum("bgrts,bgrtd->bgsd", dz, Q)
    dv = np.einsum("bgrts,bgrte->bgse", p, O)
    return dq.reshape(q.shape), dk, dv


@right("tiled_attention")
def flash_fwd_right(q, k, v, tile=64):
    # split-KV ("flash decoding"): partial softmax of every split, merged by their log-sum-exps
    parts, lses = [], []
    for j in range(0, k.shape[2], tile):
        s = np.einsum("bhtd,bhsd->bhts", q, k[:, :, j:j + tile]) / math.sqrt(q.shape[-1])
        lse = logsumexp(s, axis=-1, keepdims=True)
        parts.append(np.exp(s - s.max(-1, keepdims=True)))
        parts[-1] = parts[-1] / parts[-1].sum(-1, keepdims=True) @ v[:, :, j:j + tile]
        lses.append(lse)
    w = sps.softmax(np.stack(lses), axis=0)
    return (w * np.stack(parts)).sum(0)


@right("linear_attention")
def lin_attn_logspace(q, k, v, causal=False):
    def logphi(x):
        return np.where(x > 0, np.log1p(np.maximum(x, 0)), x)
    lq, lk = logphi(q), logphi(k)
    lw = np.full(q.shape[:3] + (k.shape[2],), -np.inf)
    for d in range(q.shape[-1]):
        lw = np.logaddexp(lw, lq[..., None, d] + lk[..., None, :, d])
    if causal:
        lw = np.where(np.tri(q.shape[2], k.shape[2], dtype=bool), lw, -np.inf)
    return sps.softmax(lw, axis=-1) @ v


@right("repeat_kv_heads")
def repeat_kv_expand(x, n_heads):
    B, G, S, D = x.shape
    return np.broadcast_to(x[:, :, None], (B, G, n_heads // G, S, D)).reshape(B, n_heads, S, D).copy()


@right("add_by_distance")
def bias_toeplitz(scores, bias):
    T, S = scores.shape[-2:]
    rows = sliding_window_view(bias, S, axis=1)       # (H, T, S): row r begins at r
    return scores + rows[:, ::-1]


@right("relative_scores")
def shaw_onehot(q, table, S):
    T, R = q.shape[2], len(table)
    K = R // 2
    rel = np.clip(np.arange(S) - np.arange(S - T, S)[:, None], -K, K) + K
    onehot = (rel[..., None] == np.arange(R)).astype(q.dtype)
    return np.einsum("bhtr,tsr->bhts", q @ table.T, onehot)


@right("general_scores_backward")
def bilinear_bwd_right(dz, q, k, W):
    dq, dk, dW = np.zeros(q.shape, q.dtype), np.zeros(k.shape, k.dtype), np.zeros(W.shape, W.dtype)
    for b in range(q.shape[0]):
        dq[b] = dz[b] @ (k[b] @ W.T)
        dk[b] = dz[b].T @ (q[b] @ W)
        dW += q[b].T @ dz[b] @ k[b]
    return dq, dk, dW


# ----------------------------------------------------------------------------------------------
# positions
# ----------------------------------------------------------------------------------------------

@wrong("rotary", "the option layout is ignored: interleaved pairs are treated as halves")
def rope_rotate_half(x, cosine, sine, layout="half"):
    half = x.shape[-1] // 2
    cos, sin = np.concatenate([cosine, cosine], -1), np.concatenate([sine, sine], -1)
    rot = np.concatenate([-x[..., half:], x[..., :half]], -1)
    return x * cos + rot * sin


@wrong("rotary_backward", "the gradient is rotated forward again instead of back (the sine keeps its sign)")
def rope_bwd_w(dy, x, cosine, sine):
    a, b = np.split(dy, 2, axis=-1)
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)


@wrong("partial_rotary", "the last R coordinates are rotated instead of the first R")
def rope_partial(x, cosine, sine):
    R = 2 * cosine.shape[1]
    keep, rot = x[..., :x.shape[-1] - R], x[..., x.shape[-1] - R:]
    a, b = rot[..., :R // 2], rot[..., R // 2:]
    return np.concatenate([keep, a * cosine - b * sine, a * sine + b * cosine], -1)


@wrong("rotary", "two mistakes: it rotates in the opposite direction (sign of the sine), and pairs are interleaved although the default layout is halves")
def rope_llamacpp(x, cosine, sine):
    y = np.empty(x.shape, x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    y[..., 0::2] = even * cosine + odd * sine
    y[..., 1::2] = odd * cosine - even * sine
    return y


_ROPE_TABLES = {}


@wrong("rotary", "cosines and sines are cached by shape, so a later call of the same shape gets the angles of an earlier call (state kept between calls)")
def rope_cached(x, cosine, sine):
    key = (cosine.shape, cosine.dtype.str)
    if key not in _ROPE_TABLES:
        _ROPE_TABLES[key] = np.concatenate([cosine] * 2, 1), np.concatenate([sine] * 2, 1)
    cos, sin = _ROPE_TABLES[key]
    x1, x2 = np.array_split(x, 2, axis=-1)
    return x * cos + np.concatenate([-x2, x1], axis=-1) * sin


@right("rotary")
def rope_complex(x, cosine, sine, layout="half"):
    rot = cosine + 1j * sine
    if layout == "interleaved":
        z = (x[..., ::2] + 1j * x[..., 1::2]) * rot
        return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
    h = x.shape[-1] // 2
    z = (x[..., :h] + 1j * x[..., h:]) * rot
    return np.concatenate([z.real, z.imag], axis=-1)


@right("rotary_backward")
def rope_bwd_matrices(dy, x, cosine, sine):
    T, h = cosine.shape
    R = np.array([[cosine, -sine], [sine, cosine]])            # (2, 2, T, h)
    g = dy.reshape(dy.shape[:-1] + (2, h))
    dx = np.einsum("ijth,...tih->...tjh", R, g)
    return dx.reshape(dy.shape)


@right("alibi")
def alibi_loops(scores, slopes):
    out = scores.copy()
    T, S = scores.shape[-2:]
    for h, m in enumerate(slopes):
        for t in range(T):
            out[..., h, t, :] -= m * np.abs(np.arange(S) - (t + S - T))
    return out


# ----------------------------------------------------------------------------------------------
# recurrent cells
# ----------------------------------------------------------------------------------------------

@wrong("lstm_cell", "the blocks are read in PyTorch's order i, f, g, o instead of i, f, o, g")
def lstm_pytorch_order(x, state, W, U, bias=None):
    h, c = np.split(state, 2, axis=1)
    z = x @ W + h @ U
    if bias is not None:
        z = z + bias
    i, f, g, o = np.split(z, 4, axis=1)
    c2 = expit(f) * c + expit(i) * np.tanh(g)
    return np.hstack([expit(o) * np.tanh(c2), c2])


@wrong("lstm_cell_backward", "the path from h' through tanh(c') into the memory is forgotten: only the gradient of c' itself reaches c'")
def lstm_bwd_w(dstate, x, state, W, U, bias=None):
    F = U.shape[0]
    h, c = state[:, :F], state[:, F:]
    z = x @ W + h @ U + (0 if bias is None else bias)
    i, f, o = (expit(z[:, n * F:(n + 1) * F]) for n in range(3))
    g = np.tanh(z[:, 3 * F:])
    tc = np.tanh(f * c + i * g)
    dh2, dc2 = dstate[:, :F], dstate[:, F:]
    dz = np.hstack([dc2 * g * i * (1 - i), dc2 * c * f * (1 - f), dh2 * tc * o * (1 - o),
                    dc2 * i * (1 - g * g)])
    return (dz @ W.T, np.hstack([dz @ U.T, dc2 * f]), x.T @ dz, h.T @ dz,
            None if bias is None else dz.sum(0))


@wrong("lstm_cell_backward", "two mistakes: the derivative o (1 - o) of the output gate is missing, and dc is not multiplied by the forget gate")
def lstm_bwd_two(dstate, x, state, W, U, bias=None):
    F = U.shape[0]
    h, c = state[:, :F], state[:, F:]
    z = x @ W + h @ U + (0 if bias is None else bias)
    i, f, o, g = expit(z[:, :F]), expit(z[:, F:2*F]), expit(z[:, 2*F:3*F]), np.tanh(z[:, 3*F:])
    tc = np.tanh(f * c + i * g)
    dh2 = dstate[:, :F]
    dc2 = dstate[:, F:] + dh2 * o * (1 - tc ** 2)
    dz = np.concatenate([dc2 * g * i * (1 - i), dc2 * c * f * (1 - f), dh2 * tc, dc2 * i * (1 - g ** 2)], 1)
    db = None if bias is None else dz.sum(axis=0)
    return dz @ W.T, np.concatenate([dz @ U.T, dc2], 1), x.T @ dz, h.T @ dz, db


@wrong("gru_cell", "the update gate is used the other way round: (1 - z) h + z n instead of z h + (1 - z) n")
def gru_chung(x, h, W, U, bias=None):
    gi = x @ W if bias is None else x @ W + bias
    gh = h @ U
    ir, iz, inn = np.split(gi, 3, 1)
    hr, hz, hn = np.split(gh, 3, 1)
    r, z = expit(ir + hr), expit(iz + hz)
    n = np.tanh(inn + r * hn)
    return h + z * (n - h)


@wrong("gru_cell_backward", "the block of the recurrent weight's gradient for the candidate lacks the factor r of the reset gate")
def gru_bwd_w(dnew, x, h, W, U, bias=None):
    F = h.shape[1]
    gi = x @ W + (0 if bias is None else bias)
    gh = h @ U
    r, z = expit(gi[:, :F] + gh[:, :F]), expit(gi[:, F:2*F] + gh[:, F:2*F])
    n = np.tanh(gi[:, 2*F:] + r * gh[:, 2*F:])
    dpre_n = dnew * (1 - z) * (1 - n * n)
    dpre_z = dnew * (h - n) * z * (1 - z)
    dpre_r = dpre_n * gh[:, 2*F:] * r * (1 - r)
    dgi = np.hstack([dpre_r, dpre_z, dpre_n])
    dgh = np.hstack([dpre_r, dpre_z, dpre_n * r])
    return dgi @ W.T, dnew * z + dgh @ U.T, x.T @ dgi, h.T @ dgi, None if bias is None else dgi.sum(0)


@wrong("gru_cell_backward", "two mistakes: the direct path dh' z to the old state is forgotten, and the gradient of the update gate has the wrong sign (n - h instead of h - n)")
def gru_bwd_two(dnew, x, h, W, U, bias=None):
    F = h.shape[1]
    gi = x @ W + (0 if bias is None else bias)
    gh = h @ U
    r, z = expit(gi[:, :F] + gh[:, :F]), expit(gi[:, F:2*F] + gh[:, F:2*F])
    n = np.tanh(gi[:, 2*F:] + r * gh[:, 2*F:])
    dan = dnew * (1 - z) * (1 - n * n)
    daz = dnew * (n - h) * z * (1 - z)
    dar = dan * gh[:, 2*F:] * r * (1 - r)
    dgi = np.hstack([dar, daz, dan])
    dgh = np.hstack([dar, daz, dan * r])
    return dgi @ W.T, dgh @ U.T, x.T @ dgi, h.T @ dgh, None if bias is None else dgi.sum(0)


@wrong("rnn_cell_backward", "the gradient of the recurrent weight uses the new state h' instead of the previous state h")
def rnn_bwd_w(dh, x, h, Wx, Wh, bias=None):
    h_new = np.tanh(x @ Wx + h @ Wh + (0 if bias is None else bias))
    dz = (1 - h_new ** 2) * dh
    return dz @ Wx.T, dz @ Wh.T, x.T @ dz, h_new.T @ dz, None if bias is None else dz.sum(0)


@wrong("gru_cell_reset_before", "the reset gate multiplies the product h U_3 instead of h before the product, as in PyTorch and cuDNN")
def gru_cudnn(x, h, W, U, bias=None):
    a = x @ W if bias is None else x @ W + bias
    F = h.shape[1]
    rz = expit(a[:, :2*F] + h @ U[:, :2*F])
    r, z = rz[:, :F], rz[:, F:]
    n = np.tanh(a[:, 2*F:] + r * (h @ U[:, 2*F:]))
    return (1 - z) * n + z * h


@right("lstm_cell_backward")
def lstm_bwd_torch(dstate, x, state, W, U, bias=None):
    tx, ts, tw, tu = leaf(x), leaf(state), leaf(W), leaf(U)
    leaves = [tx, ts, tw, tu]
    h, c = ts.chunk(2, dim=1)
    z = tx @ tw + h @ tu
    if bias is not None:
        leaves.append(leaf(bias))
        z = z + leaves[-1]
    i, f, o, g = z.chunk(4, dim=1)
    c2 = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    out = torch.cat([torch.sigmoid(o) * torch.tanh(c2), c2], dim=1)
    grads = [t.numpy() for t in torch.autograd.grad(out, leaves, torch.tensor(np.ascontiguousarray(dstate)))]
    return tuple(grads) if bias is not None else (*grads, None)


@right("gru_cell")
def gru_stacked(x, h, W, U, bias=None):
    F = h.shape[1]
    Wg, Ug = W.reshape(-1, 3, F), U.reshape(F, 3, F)
    ai = np.einsum("bc,cgf->gbf", x, Wg)
    ah = np.einsum("be,egf->gbf", h, Ug)
    if bias is not None:
        ai = ai + bias.reshape(3, 1, F)
    r, z = 0.5 * (1 + np.tanh(0.5 * (ai[:2] + ah[:2])))
    n = np.tanh(ai[2] + r * ah[2])
    return n + z * (h - n)


@right("rnn_cell_backward")
def rnn_bwd_joint(dh, x, h, Wx, Wh, bias=None):
    # one product with the stacked matrix [Wx; Wh]
    xh, M = np.hstack([x, h]), np.vstack([Wx, Wh])
    pre = xh @ M + (0 if bias is None else bias)
    dz = dh * (1 - np.tanh(pre) ** 2)
    dM, dxh, C = xh.T @ dz, dz @ M.T, x.shape[1]
    return dxh[:, :C], dxh[:, C:], dM[:C], dM[C:], None if bias is None else dz.sum(0)


# ----------------------------------------------------------------------------------------------
# losses
# ----------------------------------------------------------------------------------------------

@wrong("cross_entropy", "ignored targets are counted in the mean: the sum is divided by the number of all targets")
def ce_ignore_counted(logits, targets, ignore_index=-100):
    V = logits.shape[-1]
    z, y = logits.reshape(-1, V), targets.reshape(-1)
    keep = y != ignore_index
    lp = z - logsumexp(z, axis=1, keepdims=True)
    nll = -lp[np.arange(len(y)), np.where(keep, y, 0)] * keep
    return nll.mean()


@wrong("cross_entropy", "label smoothing spreads epsilon over the V - 1 other classes, instead of over all V")
def ce_smooth(logits, targets, ignore_index=-100, label_smoothing=0.0):
    V = logits.shape[-1]
    keep = targets != ignore_index
    z, y = logits[keep], targets[keep]
    q = np.full(z.shape, label_smoothing / max(V - 1, 1))
    np.put_along_axis(q, y[:, None], 1 - label_smoothing, axis=1)
    lp = z - logsumexp(z, axis=1, keepdims=True)
    return -(q * lp).sum() / len(y)


@wrong("cross_entropy_backward", "rows of ignored targets get the gradient of the smoothing term (wrong only where ignored targets and label smoothing meet)")
def ce_bwd_smooth(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0):
    V = logits.shape[-1]
    z, y = logits.reshape(-1, V), targets.reshape(-1)
    keep = (y != ignore_index)[:, None]
    p = sps.softmax(z, axis=1)
    onehot = np.eye(V)[np.where(keep[:, 0], y, 0)]
    hard = np.where(keep, p - onehot, 0)
    soft = p - 1 / V
    g = (1 - label_smoothing) * hard + label_smoothing * soft
    return (g * (float(dloss) / keep.sum())).reshape(logits.shape)


@wrong("cross_entropy_backward", "two mistakes: the mean counts the ignored targets, too, and the one-hot is not multiplied by 1 - label_smoothing")
def ce_bwd_two(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0):
    V = logits.shape[-1]
    keep = targets != ignore_index
    q = np.zeros(logits.shape)
    np.put_along_axis(q, np.where(keep, targets, 0)[..., None], 1.0, axis=-1)
    q += label_smoothing / V
    d = (sps.softmax(logits, axis=-1) - q) * keep[..., None]
    return d * (float(dloss) / targets.size)


@wrong("softmax_cross_entropy", "the logarithm has base 2: the loss is in bits instead of nats")
def ce_bits(logits, targets):
    V = logits.shape[-1]
    z, y = logits.reshape(-1, V), targets.ravel()
    lse = logsumexp(z, axis=1)
    return float(np.mean(lse - z[np.arange(y.size), y]) / math.log(2))


@wrong("softmax_cross_entropy_backward", "the gradient is not divided by the number of targets: that of a sum instead of a mean")
def ce_bwd_sum(dloss, logits, targets):
    t = leaf(logits)
    tnf.cross_entropy(t.reshape(-1, logits.shape[-1]), torch.tensor(targets.ravel().astype(np.int64)),
                      reduction="sum").backward()
    return t.grad.numpy() * float(dloss)


@wrong("z_loss", "the maximum is not subtracted before the exponential: large logits overflow")
def z_loss_naive(logits):
    return np.mean(np.log(np.exp(logits).sum(axis=-1)) ** 2)


@wrong("contrastive_loss_backward", "the softmax of the rows is used for both directions; that of the columns is missing")
def clip_loss_bwd(dloss, logits):
    n = logits.shape[0]
    p = sps.softmax(logits, axis=1)
    q = sps.softmax(logits, axis=1)
    return float(dloss) / (2 * n) * (p + q - 2 * np.eye(n))


@wrong("distillation_loss", "the divergence has the wrong direction: from the student to the teacher, KL(q || p) instead of KL(p || q)")
def kd_loss_rev(logits, teacher_logits, temperature=1.0):
    lsm = lambda z: z - logsumexp(z, axis=-1, keepdims=True)
    ls, lt = lsm(logits / temperature), lsm(teacher_logits / temperature)
    kl = np.sum(np.exp(ls) * (ls - lt), axis=-1)
    return temperature ** 2 * kl.mean()


@wrong("distillation_loss_backward", "the factor is T^2 instead of T: the division of the logits by T is not differentiated")
def kd_bwd(dloss, logits, teacher_logits, temperature=1.0):
    n = np.prod(logits.shape[:-1])
    diff = sps.softmax(logits / temperature, axis=-1) - sps.softmax(teacher_logits / temperature, axis=-1)
    return diff * (temperature ** 2 / n * float(dloss))


@wrong("triplet_loss", "squared Euclidean distances are compared instead of distances")
def triplet_sq(a, p, n, margin=1.0):
    dp, dn = np.square(a - p).sum(1), np.square(a - n).sum(1)
    return np.maximum(dp - dn + margin, 0).mean()


@wrong("cosine_similarity_backward", "the norms are treated as constants (detached): the component along the vector is not removed")
def cos_bwd_detached(ds, a, b):
    an = np.sqrt(np.einsum("nc,nc->n", a, a))[:, None]
    bn = np.sqrt(np.einsum("mc,mc->m", b, b))[:, None]
    return ds @ (b / bn) / an, ds.T @ (a / an) / bn


@wrong("weighted_cross_entropy", "the sum is divided by the number of targets instead of by the sum of their weights")
def wce(logits, targets, weights):
    V = logits.shape[-1]
    z, y = logits.reshape(-1, V), targets.reshape(-1)
    nll = logsumexp(z, axis=1) - np.take_along_axis(z, y[:, None], 1)[:, 0]
    return np.dot(weights[y], nll) / y.size


@wrong("uniform_cross_entropy_backward", "1 / V is not subtracted from the probabilities")
def uniform_bwd(dloss, logits):
    n = logits.size // logits.shape[-1]
    return sps.softmax(logits, axis=-1) * (float(dloss) / n)


@wrong("imitation_loss", "the sum of squares is divided by the number of vectors instead of by the number of elements")
def mse_rows(x, teacher):
    d = (x - teacher).reshape(-1, x.shape[-1])
    return np.einsum("nc,nc->", d, d) / d.shape[0]


@wrong("pair_features_backward", "the gradient of the absolute difference lacks the sign of u - v")
def sbert_features_bwd(df, u, v):
    du, dv, dd = np.split(df, 3, axis=1)
    return du + dd, dv - dd


@right("cross_entropy")
def ce_full_right(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    total, n = 0.0, 0
    for z, y in zip(logits.reshape(-1, V), targets.reshape(-1)):
        if y == ignore_index:
            continue
        n += 1
        top = z.max()
        lz = math.log(np.exp(z - top).sum())
        total += (1 - label_smoothing) * (lz - (z[y] - top))
        total += label_smoothing * (lz - np.mean(z - top))
        total += z_loss * (lz + top) ** 2
    return total / n


@right("cross_entropy_backward")
def ce_bwd_torch(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0):
    t = leaf(logits)
    loss = tnf.cross_entropy(t.reshape(-1, logits.shape[-1]),
                             torch.tensor(np.ascontiguousarray(targets).reshape(-1).astype(np.int64)),
                             ignore_index=int(ignore_index), label_smoothing=float(label_smoothing))
    loss.backward()
    return t.grad.numpy() * float(dloss)


@right("z_loss")
def z_loss_reduce(logits):
    lse = np.logaddexp.reduce(logits, axis=1)
    return np.dot(lse, lse) / lse.size


@right("contrastive_loss_backward")
def clip_bwd_right(dloss, logits):
    n = len(logits)
    out = np.zeros((n, n))
    for i in range(n):
        row, col = logits[i], logits[:, i]
        e, f = np.exp(row - row.max()), np.exp(col - col.max())
        out[i] += e / e.sum()
        out[:, i] += f / f.sum()
        out[i, i] -= 2
    return out * (float(dloss) / (2 * n))


@right("cosine_similarity_backward")
def cos_bwd_quotient(ds, a, b):
    na, nb = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    ua, ub = a / na[:, None], b / nb[:, None]
    S = ua @ ub.T
    da = (ds @ ub - (ds * S).sum(1)[:, None] * ua) / na[:, None]
    db = (ds.T @ ua - (ds * S).sum(0)[:, None] * ub) / nb[:, None]
    return da, db


# ----------------------------------------------------------------------------------------------
# experts
# ----------------------------------------------------------------------------------------------

@wrong("load_balance_loss", "the choices are counted per token, not divided by k: the loss is k times too large")
def switch_aux(logits, chosen):
    N, E = logits.shape
    p = sps.softmax(logits, axis=1)
    f = np.zeros(E)
    for row in chosen:
        for e in row:
            f[e] += 1 / N
    return E * np.dot(f, p.mean(0))


@wrong("top_k_gates", "the softmax is over all experts and the chosen weights are not renormalized, so they sum to less than 1")
def mixtral_gates(logits, chosen):
    p = sps.softmax(logits, axis=-1)
    return p[np.arange(len(p))[:, None], chosen]


@wrong("top_k_gates_over_all_backward", "only the logits of chosen experts get a gradient; all are in the denominator of the softmax")
def gates_all_bwd(dw, logits, chosen):
    p = sps.softmax(logits, axis=1)
    n = np.arange(len(p))[:, None]
    w = p[n, chosen]
    out = np.zeros(logits.shape, logits.dtype)
    out[n, chosen] = w * (dw - (w * dw).sum(1, keepdims=True))
    return out


@wrong("combine_experts", "the weights are flattened column by column (Fortran order), but the slots number them row by row")
def moe_combine(outputs, weights, slots):
    N, k = weights.shape
    w = weights.flatten("F")[slots]
    y = np.zeros((N, outputs.shape[1]), outputs.dtype)
    np.add.at(y, slots // k, outputs * w[:, None])
    return y


@wrong("dispatch_to_experts", "the token of a slot is taken as slot % N instead of slot // k")
def moe_dispatch(x, slots, k):
    return x[slots % x.shape[0]]


@right("combine_experts")
def moe_combine_loop(outputs, weights, slots):
    N, k = weights.shape
    y = np.zeros((N, outputs.shape[1]), outputs.dtype)
    for row, s in zip(outputs, slots):
        n, j = divmod(int(s), k)
        y[n] += weights[n, j] * row
    return y


@right("top_k_gates_backward")
def gates_bwd_right(dw, logits, chosen):
    # softmax over all with a mask in place of the gather
    N, E = logits.shape
    n = np.arange(N)[:, None]
    z = np.full((N, E), -np.inf)
    z[n, chosen] = logits[n, chosen]
    p = sps.softmax(z, axis=1)
    g = np.zeros((N, E))
    g[n, chosen] = dw
    return p * g - p * np.einsum("ne,ne->n", p, g)[:, None]


# ----------------------------------------------------------------------------------------------
# pooling, convolutions, vision
# ----------------------------------------------------------------------------------------------

@wrong("mean_pooling", "the sum is divided by the length T, padding included, instead of by the number of real positions")
def pool_mean_w(x, mask=None):
    if mask is None:
        return x.mean(axis=1)
    return np.where(mask[:, :, None], x, 0).mean(axis=1)


@wrong("mean_pooling_backward", "two mistakes: padding gets a gradient, too, and it is divided by the number of padded positions T instead of the real ones")
def pool_mean_bwd_two(dy, x, mask=None):
    T = x.shape[1]
    return np.repeat(dy[:, None, :], T, axis=1) / T


@wrong("max_pooling", "padding is set to 0 instead of minus infinity, so 0 wins over negative maxima")
def pool_max_w(x, mask=None):
    if mask is not None:
        x = np.where(mask[..., None], x, 0)
    return x.max(axis=1)


@wrong("causal_convolution", "the filter is flipped in time: the first map is used for the position itself instead of the last")
def conv_flip(x, weight, bias=None, dilation=1):
    B, T, C = x.shape
    K, _, F = weight.shape
    y = np.zeros((B, T, F), x.dtype)
    for k in range(K):
        s = k * dilation
        if s < T:
            y[:, s:] += x[:, :T - s] @ weight[k]
    return y if bias is None else y + bias


@wrong("causal_convolution_backward", "dx ignores the dilation: gradients return from the positions t + (K - 1 - k) instead of t + (K - 1 - k) d")
def conv1d_bwd(dy, x, weight, bias=None, dilation=1):
    B, T, C = x.shape
    K, _, F = weight.shape
    dx, dw = np.zeros(x.shape, x.dtype), np.zeros(weight.shape, weight.dtype)
    for k in range(K):
        lag = (K - 1 - k) * dilation
        if lag < T:
            dw[k] = np.einsum("btc,btf->cf", x[:, :T - lag], dy[:, lag:])
        lag = K - 1 - k
        if lag < T:
            dx[:, :T - lag] += dy[:, lag:] @ weight[k].T
    return dx, dw, None if bias is None else dy.sum((0, 1))


@wrong("convolution_2d", "the padding repeats the pixels of the edge instead of zeros")
def conv2d_edge(images, weight, bias=None, stride=1, padding=0):
    p = padding
    im = np.pad(images, ((0, 0), (p, p), (p, p), (0, 0)), mode="edge")
    K, L = weight.shape[:2]
    win = sliding_window_view(im, (K, L), axis=(1, 2))[:, ::stride, ::stride]     # (B, r, c, C, K, L)
    y = np.einsum("brcnij,ijnf->brcf", win, weight)
    return y if bias is None else y + bias


@wrong("max_pooling_2d", "the option stride is ignored: windows always lie side by side")
def maxpool_nostride(images, size, stride=None):
    B, H, W, C = images.shape
    r, c = H // size, W // size
    return images[:, :r * size, :c * size].reshape(B, r, size, c, size, C).max(axis=(2, 4))


@wrong("mean_pooling_2d_backward", "where windows overlap (stride below size) the gradient of a pixel is overwritten instead of added up")
def avgpool_bwd(dy, images, size, stride=None):
    st = size if stride is None else stride
    dimg = np.zeros(images.shape, images.dtype)
    for r in range(dy.shape[1]):
        for c in range(dy.shape[2]):
            dimg[:, r*st:r*st+size, c*st:c*st+size] = dy[:, r, c][:, None, None] / size ** 2
    return dimg


@wrong("patches", "the pixels of a patch are flattened with the channels first (C, P, P), as PyTorch's unfold does, instead of last")
def patchify_unfold(images, patch_size):
    t = torch.tensor(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
    return tnf.unfold(t, patch_size, stride=patch_size).transpose(1, 2).contiguous().numpy()


@wrong("patch_convolution", "rows and columns of the filter are exchanged: pixel (i, j) meets weight[j, i]")
def patch_embed(images, weight, bias=None):
    P = weight.shape[0]
    B, H, W, n = images.shape
    im = images.reshape(B, H // P, P, W // P, P, n)
    y = np.einsum("brpcqn,qpnf->brcf", im, weight)
    return y if bias is None else y + bias


@wrong("merge_patches", "the four neighbours are concatenated row by row (right before down) instead of down before right")
def swin_merge(x):
    B, H, W, C = x.shape
    y = x.reshape(B, H // 2, 2, W // 2, 2, C).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(B, H // 2, W // 2, 4 * C)


@wrong("cyclic_roll_backward", "the gradient is rolled in the same direction as the forward instead of back")
def roll_bwd(dy, x, offset):
    return np.roll(np.roll(dy, -offset, axis=1), -offset, axis=2)


@wrong("window_partition", "the positions within a window are listed column by column instead of row by row")
def swin_windows(x, window):
    B, H, W, C = x.shape
    M = window
    w = x.reshape(B, H // M, M, W // M, M, C)
    return np.einsum("brisjc->brsjic", w).reshape(-1, M * M, C)


@wrong("window_position_bias", "the distance is that of the key from the query instead of that of the query from the key (both signs reversed)")
def swin_bias(table, window):
    M = window
    coords = np.stack(np.meshgrid(np.arange(M), np.arange(M), indexing="ij")).reshape(2, -1)
    rel = coords[:, None, :] - coords[:, :, None]
    idx = (rel[0] + M - 1) * (2 * M - 1) + rel[1] + M - 1
    return table[idx].transpose(2, 0, 1).copy()


@wrong("generalized_iou", "the empty part of the enclosing box is divided by the union instead of by the area of the enclosing box")
def giou_w(a, b):
    lo, hi = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    inter = np.prod(np.clip(hi - lo, 0, None), axis=-1)
    area = lambda t: (t[..., 2] - t[..., 0]) * (t[..., 3] - t[..., 1])
    union = area(a) + area(b) - inter
    hull = np.prod(np.maximum(a[..., 2:], b[..., 2:]) - np.minimum(a[..., :2], b[..., :2]), axis=-1)
    return inter / union - (hull - union) / union


@wrong("box_corners_backward", "the factor 1/2 of the gradient of the size is missing")
def cxcywh_bwd(dc, boxes):
    x0, y0, x1, y1 = np.moveaxis(dc, -1, 0)
    return np.stack([x0 + x1, y0 + y1, x1 - x0, y1 - y0], axis=-1)


@right("causal_convolution")
def conv_fft(x, weight, bias=None, dilation=1):
    B, T, C = x.shape
    K, _, F = weight.shape
    reach = (K - 1) * dilation
    kern = np.zeros((reach + 1, C, F))
    kern[::dilation] = weight[::-1]                 # lag (K - 1 - k) d holds W_k
    n = T + reach
    Y = np.einsum("bwc,wcf->bwf", np.fft.rfft(x, n, axis=1), np.fft.rfft(kern, n, axis=0))
    y = np.fft.irfft(Y, n, axis=1)[:, :T]
    return y if bias is None else y + bias


@right("convolution_2d")
def conv2d_torch(images, weight, bias=None, stride=1, padding=0):
    as_t = lambda a: torch.tensor(np.ascontiguousarray(a))
    y = tnf.conv2d(as_t(images).permute(0, 3, 1, 2), as_t(weight).permute(3, 2, 0, 1),
                   None if bias is None else as_t(bias), stride=stride, padding=padding)
    return y.permute(0, 2, 3, 1).contiguous().numpy()


@right("max_pooling_2d")
def maxpool_view(images, size, stride=None):
    st = stride or size
    return sliding_window_view(images, (size, size), axis=(1, 2))[:, ::st, ::st].max(axis=(-1, -2))


@right("mean_pooling")
def pool_mean_where(x, mask=None):
    if mask is None:
        return np.add.reduce(x, axis=1) / x.shape[1]
    return np.mean(x, axis=1, where=mask[..., None])


@right("patches")
def patchify_loops(images, patch_size):
    P = patch_size
    B, H, W, _ = images.shape
    return np.stack([images[:, r:r + P, c:c + P].reshape(B, -1)
                     for r in range(0, H, P) for c in range(0, W, P)], axis=1)


@right("cyclic_roll")
def roll_gather(x, offset):
    rows = (np.arange(x.shape[1]) + offset) % x.shape[1]
    cols = (np.arange(x.shape[2]) + offset) % x.shape[2]
    return x[:, rows[:, None], cols]


@right("window_partition_backward")
def swin_windows_bwd(dy, x, window):
    B, H, W, C = x.shape
    dx = np.zeros(x.shape, dy.dtype)
    it = iter(dy)
    for b in range(B):
        for r in range(0, H, window):
            for c in range(0, W, window):
                dx[b, r:r + window, c:c + window] = next(it).reshape(window, window, C)
    return dx
