"""Versions of Transformer functions as contributors to NumPy/JAX-style repositories and bloggers write them."""

import math

import numpy as np
import scipy.special as sps
import torch

SAMPLES = []


def _wrong(name, fn, cause):
    SAMPLES.append(dict(name=name, fn=fn, wrong=True, cause=cause))


def _right(name, fn, cause="right"):
    SAMPLES.append(dict(name=name, fn=fn, wrong=False, cause=cause))


# ------------------------------------------------------------------ softmax and friends

def softmax_global_max(x, axis=-1):
    e = np.exp(x - np.max(x))
    return e / np.sum(e, axis=axis, keepdims=True)


_wrong("softmax", softmax_global_max,
       "the maximum is that of the whole array and not of each row, so rows far below it underflow to 0/0")


def softmax_mask_after(x, axis=-1, mask=None):
    z = x if mask is None else np.where(mask, x, 0.0)
    e = np.exp(z - z.max(axis, keepdims=True))
    p = e / e.sum(axis, keepdims=True)
    return p if mask is None else p * mask


_wrong("softmax", softmax_mask_after,
       "masked scores still count (as exp(0 - max)) in the denominator: the weights are set to 0 after "
       "the normalization, so the row does not sum to one")


def softmax_inplace(x, axis=-1):
    # saves one allocation
    x -= x.max(axis=axis, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=axis, keepdims=True)
    return x


_wrong("softmax", softmax_inplace, "the argument x is overwritten: the computation is done in place")


def softmax_bwd_axis(dp, x, axis=-1):
    y = sps.softmax(x, axis=axis)
    return y * (dp - np.einsum("...i,...i->...", dp, y)[..., None])


_wrong("softmax_backward", softmax_bwd_axis,
       "the sum of p * dp runs over the last axis whatever the axis option is")


def softmax_right_logaddexp(x, axis=-1, mask=None):
    z = np.asarray(x, dtype=np.float64)
    if mask is not None:
        z = np.where(mask, z, -np.inf)
    lse = np.logaddexp.reduce(z, axis=axis, keepdims=True)
    lse = np.where(np.isneginf(lse), 0.0, lse)
    return np.exp(z - lse).astype(x.dtype)


_right("softmax", softmax_right_logaddexp)


def log_softmax_eps(x, axis=-1):
    z = x - np.amax(x, axis=axis, keepdims=True)
    e = np.exp(z)
    return np.log(e / e.sum(axis=axis, keepdims=True) + 1e-12)


_wrong("log_softmax", log_softmax_eps,
       "a small constant is added to the probabilities before the logarithm, and small probabilities "
       "underflow: log(softmax + 1e-12) instead of x - max - log(sum)")


def log_softmax_bwd_right(dy, x, axis=-1):
    # J^T dy row by row: J = I - 1 p^T
    X, G = np.moveaxis(x, axis, -1), np.moveaxis(dy, axis, -1)
    n = X.shape[-1]
    P = sps.softmax(X.astype(float), axis=-1).reshape(-1, n)
    G2 = G.astype(float).reshape(-1, n)
    out = np.stack([(np.eye(n) - np.ones((n, 1)) * p).T @ g for p, g in zip(P, G2)])
    return np.moveaxis(out.reshape(X.shape), -1, axis).astype(dy.dtype)


_right("log_softmax_backward", log_softmax_bwd_right)


# ------------------------------------------------------------------ norms


def layer_norm_bwd_two(dy, x, weight, bias, epsilon=1e-5):
    D = x.shape[-1]
    xc = x - x.mean(-1, keepdims=True)
    istd = (np.mean(xc ** 2, -1, keepdims=True) + epsilon) ** -0.5
    n = xc * istd
    dn = dy * weight
    dx = istd / D * (D * dn - dn.sum(-1, keepdims=True) - n * (dy * n).sum(-1, keepdims=True))
    ax = tuple(range(x.ndim - 1))
    return dx, (dy * xc).sum(ax), dy.sum(ax)


_wrong("layer_norm_backward", layer_norm_bwd_two,
       "two mistakes: in the term of the variance the weight is missing (dy * x_hat is summed instead of "
       "weight * dy * x_hat), and dweight uses the centred x that is not divided by the standard deviation")


def layer_norm_bwd_lead(dy, x, weight, bias, epsilon=1e-5):
    xc = x - x.mean(-1, keepdims=True)
    s = np.sqrt((xc * xc).mean(-1, keepdims=True) + epsilon)
    h = xc / s
    g = weight * dy
    dx = (g - g.mean(-1, keepdims=True) - h * np.mean(g * h, -1, keepdims=True)) / s
    dgamma, dbeta = dy * h, dy
    if x.ndim > 1:
        dgamma, dbeta = dgamma.sum(0), dbeta.sum(0)
    return dx, dgamma, dbeta


_wrong("layer_norm_backward", layer_norm_bwd_lead,
       "dweight and dbias are summed over the first axis only: right for a matrix of vectors, but with "
       "more axes (B, T, C) the sum over T is missing")


def layer_norm_bwd_right_jac(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    X, G = x.reshape(-1, C).astype(float), dy.reshape(-1, C).astype(float)
    P = np.eye(C) - np.full((C, C), 1.0 / C)              # projects the mean away
    dX, dg, db = np.zeros_like(X), np.zeros(C), np.zeros(C)
    for n, (row, g) in enumerate(zip(X, G)):
        u = P @ (row - row.mean())
        r = 1.0 / math.sqrt(u @ u / C + epsilon)
        J = np.eye(C) * r - np.outer(u * r, u * r) * (r / C)     # of u; P comes before it
        dX[n] = P @ (J @ (weight.astype(float) * g))
        dg += g * u * r
        db += g
    return dX.reshape(x.shape), dg, db


_right("layer_norm_backward", layer_norm_bwd_right_jac)


def rms_norm_eps_sum(x, weight, epsilon=1e-5):
    ss = np.einsum("...d,...d->...", x, x)[..., None]
    return weight * x * ((ss + epsilon) / x.shape[-1]) ** -0.5


_wrong("rms_norm", rms_norm_eps_sum,
       "epsilon is added to the sum of squares before the division by C, so it is C times too small")


def rms_norm_float32(x, weight, epsilon=1e-5):
    h = x.astype(np.float32)
    h = h * (1 / np.sqrt(np.mean(np.square(h), axis=-1, keepdims=True) + np.float32(epsilon)))
    return weight * h.astype(x.dtype)


_wrong("rms_norm", rms_norm_float32,
       "precision is lost: the normalization is computed in float32 and cast back")


def rms_norm_bwd_noweight(dy, x, weight, epsilon=1e-5):
    r = 1 / np.sqrt((x ** 2).mean(-1, keepdims=True) + epsilon)
    n = x * r
    dw = np.einsum("nc,nc->c", dy.reshape(-1, x.shape[-1]), n.reshape(-1, x.shape[-1]))
    return r * (dy * weight - n * np.mean(dy * n, -1, keepdims=True)), dw


_wrong("rms_norm_backward", rms_norm_bwd_noweight,
       "the weight is missing in the mean of g * x_hat (dy instead of weight * dy in the second term)")


def rms_norm_bwd_right(dy, x, weight, epsilon=1e-5):
    D = x.shape[-1]
    rms = np.hypot(np.linalg.norm(x, axis=-1, keepdims=True) / math.sqrt(D), math.sqrt(epsilon))
    u = x / rms
    gw = dy * weight / rms
    coef = np.einsum("...i,...i->...", gw, u)[..., None] / D
    return gw - coef * u, np.tensordot(np.ones(x.size // D, x.dtype), (dy * u).reshape(-1, D), axes=1)


_right("rms_norm_backward", rms_norm_bwd_right)


def layer_norm_outside_bwd_nokappa(dy, x, weight, bias, epsilon=1e-5):
    c = x - x.mean(-1, keepdims=True)
    inv = 1 / (np.sqrt((c ** 2).mean(-1, keepdims=True)) + epsilon)
    n, g = c * inv, dy * weight
    dx = inv * (g - g.mean(-1, keepdims=True) - n * (g * n).mean(-1, keepdims=True))
    red = tuple(range(dy.ndim - 1))
    return dx, (dy * n).sum(axis=red), dy.sum(axis=red)


_wrong("layer_norm_outside_backward", layer_norm_outside_bwd_nokappa,
       "the backward is that of epsilon inside the root: the factor (sigma + epsilon) / sigma of the term "
       "through the variance is missing")


def batch_norm_bwd_count(dy, x, weight, bias, epsilon=1e-5):
    ax = tuple(range(x.ndim - 1))
    N = x.shape[0]
    mu = x.mean(ax)
    inv = (x.var(ax) + epsilon) ** -0.5
    h = (x - mu) * inv
    dg, db = (dy * h).sum(ax), dy.sum(ax)
    return weight * inv / N * (N * dy - db - h * dg), dg, db


_wrong("batch_norm_backward", batch_norm_bwd_count,
       "the number of vectors is taken from the first axis only (B instead of B * T), so the two "
       "subtracted terms are too large with three axes or more")


def batch_norm_bwd_right(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    X, G = x.reshape(-1, C).astype(float), dy.reshape(-1, C).astype(float)
    n = X.shape[0]
    Xc = X - np.ones((n, n)) @ X / n
    r = 1 / np.sqrt(np.einsum("nc,nc->c", Xc, Xc) / n + epsilon)
    H = Xc * r
    M = np.eye(n) - 1.0 / n
    dX = np.stack([(M - np.outer(H[:, c], H[:, c]) / n) @ (G[:, c] * weight[c]) * r[c]
                   for c in range(C)], axis=1)
    return dX.reshape(x.shape), np.einsum("nc,nc->c", G, H), np.einsum("nc->c", G)


_right("batch_norm_backward", batch_norm_bwd_right)


def masked_bn_count(x, weight, bias, mask, epsilon=1e-5):
    m = mask[..., None]
    ax = tuple(range(x.ndim - 1))
    xs = np.where(m, x, 0)
    mu = xs.sum(ax) / mask.sum()
    var = np.where(m, (xs - mu) ** 2, 0).mean(ax)
    return np.where(m, weight * (xs - mu) / np.sqrt(var + epsilon) + bias, 0)


_wrong("masked_batch_norm", masked_bn_count,
       "the variance is divided by the number of all positions, padding included, instead of the real ones")


# ------------------------------------------------------------------ activations

def gelu_as(x):
    """erf by Abramowitz & Stegun 7.1.26, no SciPy needed"""
    z = np.abs(x) / np.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1.0 - poly * np.exp(-z * z))
    return 0.5 * x * (1.0 + erf)


_wrong("gelu", gelu_as, "erf is a polynomial approximation, right to 1.5e-7 only")


def gelu_tanh_const(x):
    return 0.5 * x * (1 + np.tanh(0.79788 * x * (1 + 0.044715 * x * x)))


_wrong("gelu_tanh", gelu_tanh_const, "sqrt(2 / pi) is rounded to 0.79788, which costs precision")


def sigmoid_bwd_input(dy, x):
    sig = np.vectorize(lambda z: 0.5 * (1 + math.tanh(0.5 * z)), otypes=[float])
    y = sig(x)
    return dy * sig(y) * (1 - sig(y))


_wrong("sigmoid_backward", sigmoid_bwd_input,
       "the derivative s(1 - s) is taken at the output instead of the input: the sigmoid is applied twice")


def swish_bwd_beta2(dy, x, beta=1.0):
    y = x * sps.expit(beta * x)
    return dy * (y + sps.expit(beta * x) * (1 - y))


_wrong("swish_backward", swish_bwd_beta2,
       "y + sigma (1 - y) holds for beta = 1 alone: y must be multiplied by beta in both places")


def silu_bwd_right(dy, x):
    out = np.empty_like(dy)
    for idx in np.ndindex(*x.shape):
        v = float(x[idx])
        s = 1 / (1 + math.exp(-v)) if v >= 0 else math.exp(v) / (1 + math.exp(v))
        s1 = 1 / (1 + math.exp(v)) if v < 0 else math.exp(-v) / (1 + math.exp(-v))
        out[idx] = float(dy[idx]) * s * (1 + v * s1)
    return out


_right("silu_backward", silu_bwd_right)


def soft_cap_bwd_div(dy, x, cap):
    return dy * (1 - np.tanh(x / cap) ** 2) / cap


_wrong("soft_cap_backward", soft_cap_bwd_div,
       "an extra factor 1 / cap: that of the outer multiplication by cap, which cancels it, is missing")


def soft_cap_right(x, cap):
    # c tanh(u) = c (1 - e^{-2|u|}) / (1 + e^{-2|u|}) sign(u)
    em = np.expm1(-2 * np.abs(x) / cap)
    return np.copysign(-cap * em / (2 + em), x)


_right("soft_cap", soft_cap_right)


_PHI = {
    "relu": lambda z: np.maximum(z, 0),
    "relu_squared": lambda z: np.maximum(z, 0) ** 2,
    "gelu": lambda z: z * sps.ndtr(z),
    "gelu_tanh": lambda z: 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z ** 3))),
    "silu": lambda z: z * sps.expit(z),
    "quick_gelu": lambda z: z * sps.expit(1.702 * z),
}


def _dgelu(z):
    return sps.ndtr(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _dgelu_tanh(z):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (z + 0.044715 * z ** 3))
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * c * (1 + 3 * 0.044715 * z * z)


def _dswish(z, b):
    s = sps.expit(b * z)
    return s + b * z * s * sps.expit(-b * z)


_DPHI = {
    "relu": lambda z: (z > 0).astype(z.dtype),
    "relu_squared": lambda z: 2 * np.maximum(z, 0),
    "gelu": _dgelu,
    "gelu_tanh": _dgelu_tanh,
    "silu": lambda z: _dswish(z, 1.0),
    "quick_gelu": lambda z: _dswish(z, 1.702),
}


def glu_alias(g, h, activation="silu"):
    act = {"relu": _PHI["relu"], "relu_squared": _PHI["relu_squared"], "silu": _PHI["silu"],
           "gelu": _PHI["gelu_tanh"], "gelu_tanh": _PHI["gelu_tanh"], "quick_gelu": _PHI["quick_gelu"]}[activation]
    return act(g) * h


_wrong("gated_linear_unit", glu_alias, "for activation='gelu' the tanh approximation is used instead of the exact GELU")


# ------------------------------------------------------------------ linear maps, feed-forward, embedding

def linear_bwd_two(dy, x, weight, bias=None):
    B = x.shape[0]
    dx = np.einsum("...o,io->...i", dy, weight)
    dW = np.einsum("ni,no->io", x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])) / B
    db = None if bias is None else dy.reshape(-1, dy.shape[-1]).mean(0)
    return dx, dW, db


_wrong("linear_backward", linear_bwd_two,
       "two mistakes: dweight is divided by the size of the first axis, and dbias is the mean over the "
       "vectors instead of the sum")


def linear_chunked(x, weight, bias=None, rows=64):
    """matmul in blocks of rows, keeps the working set in L2"""
    flat = x.reshape(-1, x.shape[-1])
    out = np.zeros((flat.shape[0], weight.shape[1]), x.dtype)
    for c in range(max(flat.shape[0] // rows, 1)):
        out[c * rows:(c + 1) * rows] = flat[c * rows:(c + 1) * rows] @ weight
    if bias is not None:
        out += bias
    return out.reshape(x.shape[:-1] + (weight.shape[1],))


_wrong("linear", linear_chunked,
       "the last incomplete block of 64 rows is never computed: with more than 64 vectors the rest stays 0 (plus bias)")


def feed_forward_bwd_at_a(dy, x, hidden_weight, hidden_bias, output_weight, output_bias, activation="gelu"):
    flat = lambda t: t.reshape(-1, t.shape[-1])
    h = x @ hidden_weight + (0 if hidden_bias is None else hidden_bias)
    a = _PHI[activation](h)
    dh = (dy @ output_weight.T) * _DPHI[activation](a)
    return (dh @ hidden_weight.T, flat(x).T @ flat(dh), None if hidden_bias is None else flat(dh).sum(0),
            flat(a).T @ flat(dy), None if output_bias is None else flat(dy).sum(0))


_wrong("feed_forward_backward", feed_forward_bwd_at_a,
       "the derivative of the activation is taken at its output a instead of its input h")


def gated_ff_bwd_gatepath(dy, x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight, output_bias,
                          activation="silu"):
    f, df = _PHI[activation], _DPHI[activation]
    opt = lambda b, d: None if b is None else d.reshape(-1, d.shape[-1]).sum(0)
    outer = lambda u, d: np.einsum("ni,nj->ij", u.reshape(-1, u.shape[-1]), d.reshape(-1, d.shape[-1]))
    g = x @ gate_weight if gate_bias is None else x @ gate_weight + gate_bias
    h = x @ hidden_weight if hidden_bias is None else x @ hidden_weight + hidden_bias
    da = dy @ output_weight.T
    dg, dh = da * h * df(g), da * f(g)
    return (dh @ hidden_weight.T, outer(x, dg), opt(gate_bias, dg), outer(x, dh), opt(hidden_bias, dh),
            outer(f(g) * h, dy), opt(output_bias, dy))


_wrong("gated_feed_forward_backward", gated_ff_bwd_gatepath,
       "dx lacks the path through the gates: dg @ gate_weight.T is not added")


def gated_ff_two(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight, output_bias,
                 activation="silu"):
    f = _PHI[activation]
    g = x @ gate_weight
    h = x @ hidden_weight
    if gate_bias is not None:
        h = h + gate_bias
    if hidden_bias is not None:
        g = g + hidden_bias
    a = g * f(h)
    return a @ output_weight + (0 if output_bias is None else output_bias)


_wrong("gated_feed_forward", gated_ff_two,
       "two mistakes: the activation is applied to the hidden units instead of the gates, and the biases of gate and hidden "
       "projection are exchanged")


def gated_ff_right(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight, output_bias,
                   activation="silu"):
    """fused up-projection as in llama.c: [gate | up] in one matmul"""
    F = gate_weight.shape[1]
    zeros = np.zeros(F, x.dtype)
    gb = zeros if gate_bias is None else gate_bias
    hb = zeros if hidden_bias is None else hidden_bias
    fused = np.einsum("...c,cf->...f", x, np.hstack([gate_weight, hidden_weight])) + np.hstack([gb, hb])
    g, u = np.split(fused, 2, axis=-1)
    y = np.tensordot(_PHI[activation](g) * u, output_weight, axes=([-1], [0]))
    return y if output_bias is None else y + output_bias


_right("gated_feed_forward", gated_ff_right)


_GRAD_BUFFERS = {}


def embedding_bwd_buffer(dy, ids, weight):
    buf = _GRAD_BUFFERS.setdefault((weight.shape, str(dy.dtype)), np.zeros(weight.shape, dy.dtype))
    np.add.at(buf, ids, dy)
    return buf.copy()


_wrong("embedding_backward", embedding_bwd_buffer,
       "state is kept: the gradients are accumulated in a buffer that is never cleared between calls")


def embedding_bwd_right(dy, ids, weight):
    from scipy import sparse
    n = ids.size
    S = sparse.csr_matrix((np.ones(n), ids.reshape(-1), np.arange(n + 1)), shape=(n, weight.shape[0]))
    return np.asarray(S.T @ dy.reshape(n, -1).astype(float))


_right("embedding_backward", embedding_bwd_right)


# ------------------------------------------------------------------ pooling

def mean_pooling_bwd_batchcount(dy, x, mask=None):
    B, T, C = x.shape
    m = np.ones((B, T)) if mask is None else mask.astype(float)
    return np.einsum("bc,bt->btc", dy, m) * B / m.sum()


_wrong("mean_pooling_backward", mean_pooling_bwd_batchcount,
       "the count is the mean number of real positions of the whole batch instead of that of each sequence")


def max_pooling_bwd_mask(dy, x, mask=None):
    T = x.shape[1]
    hit = np.arange(T)[None, :, None] == x.argmax(axis=1)[:, None, :]
    if mask is not None:
        hit = hit & mask[..., None]
    return np.where(hit, dy[:, None, :], 0.0)


_wrong("max_pooling_backward", max_pooling_bwd_mask,
       "the argmax runs over padding, too: where the largest number is padding the gradient is lost")


# ------------------------------------------------------------------ convolutions and images

def causal_conv_pad(x, weight, bias=None, dilation=1):
    K = weight.shape[0]
    T = x.shape[1]
    xp = np.pad(x, ((0, 0), (K - 1, (K - 1) * (dilation - 1)), (0, 0)))
    y = sum(np.einsum("btc,cf->btf", xp[:, k * dilation:k * dilation + T], weight[k]) for k in range(K))
    return y if bias is None else y + bias


_wrong("causal_convolution", causal_conv_pad,
       "the padding on the left is K - 1 instead of (K - 1) * dilation, so with dilation > 1 positions see the future")


def causal_conv_right_fft(x, weight, bias=None, dilation=1):
    K, C, F = weight.shape
    B, T, _ = x.shape
    L = T + (K - 1) * dilation
    kern = np.zeros((L, C, F))
    kern[np.arange(K) * dilation] = weight[::-1]
    X = np.fft.rfft(x.astype(np.float64), n=2 * L, axis=1)
    H = np.fft.rfft(kern, n=2 * L, axis=0)
    y = np.fft.irfft(np.einsum("blc,lcf->blf", X, H), n=2 * L, axis=1)[:, :T]
    return y if bias is None else y + bias


_right("causal_convolution", causal_conv_right_fft)


def conv2d_square(images, weight, bias=None, stride=1, padding=0):
    K, L, C, F = weight.shape
    x = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    H, W = x.shape[1:3]
    R, S = (H - K) // stride + 1, (W - K) // stride + 1
    y = np.zeros((x.shape[0], max(R, 0), max(S, 0), F), x.dtype)
    for r in range(R):
        for s in range(S):
            win = x[:, r * stride:r * stride + K, s * stride:s * stride + L]
            w = weight[:, :win.shape[2]]
            y[:, r, s] = np.einsum("bklc,klcf->bf", win, w)
    return y if bias is None else y + bias


_wrong("convolution_2d", conv2d_square,
       "the number of columns is computed with the kernel's height K instead of its width L: wrong for kernels that are not square")


def conv2d_right(images, weight, bias=None, stride=1, padding=0):
    x = np.pad(images, [(0, 0), (padding,) * 2, (padding,) * 2, (0, 0)])
    K, L = weight.shape[:2]
    v = np.lib.stride_tricks.sliding_window_view(x, (K, L), axis=(1, 2))[:, ::stride, ::stride]
    y = np.einsum("brsckl,klcf->brsf", v, weight, optimize=True)
    return y if bias is None else y + bias


_right("convolution_2d", conv2d_right)


def conv2d_bwd_stride(dy, images, weight, bias=None, stride=1, padding=0):
    K, L, C, F = weight.shape
    B, H, W, _ = images.shape
    p = padding
    xp = np.pad(images, ((0, 0), (p, p), (p, p), (0, 0)))
    dxp, dw = np.zeros_like(xp), np.zeros_like(weight)
    R, S = dy.shape[1:3]
    for r, s in np.ndindex(R, S):
        i, j = r * stride, s * stride
        dw += np.einsum("bklc,bf->klcf", xp[:, i:i + K, j:j + L], dy[:, r, s])
        dxp[:, i:i + K, j:j + L] = np.einsum("bf,klcf->bklc", dy[:, r, s], weight)
    return dxp[:, p:p + H, p:p + W], dw, None if bias is None else dy.sum((0, 1, 2))


_wrong("convolution_2d_backward", conv2d_bwd_stride,
       "where windows overlap the gradient of a pixel is overwritten (=) instead of added up (+=)")


def mean_pool2d_reshape(images, size, stride=None):
    B, H, W, C = images.shape
    h, w = H // size, W // size
    return images[:, :h * size, :w * size].reshape(B, h, size, w, size, C).mean((2, 4))


_wrong("mean_pooling_2d", mean_pool2d_reshape, "the stride is ignored: windows are always side by side")


def mean_pool2d_right(images, size, stride=None):
    """summed-area table"""
    s = size if stride is None else stride
    x = images.astype(np.longdouble)
    sat = np.pad(x, ((0, 0), (1, 0), (1, 0), (0, 0))).cumsum(1).cumsum(2)
    H, W = images.shape[1:3]
    i, j = np.arange(0, H - size + 1, s), np.arange(0, W - size + 1, s)
    box = lambda a, b: sat[:, a[:, None], b[None, :]]
    return ((box(i + size, j + size) - box(i, j + size) - box(i + size, j) + box(i, j)) / size ** 2).astype(images.dtype)


_right("mean_pooling_2d", mean_pool2d_right)


def patches_bwd_grid(dy, images, patch_size):
    B, H, W, K = images.shape
    P = patch_size
    g = dy.reshape(B, W // P, H // P, P, P, K)
    return g.transpose(0, 2, 3, 1, 4, 5).reshape(B, H, W, K)


_wrong("patches_backward", patches_bwd_grid,
       "rows and columns of the grid of patches are exchanged: the patches are taken to be in column-major order")


def window_partition_fortran(x, window):
    B, H, W, C = x.shape
    M = window
    out = [x[b, r:r + M, c:c + M].reshape(M * M, C, order="F")
           for b in range(B) for r in range(0, H, M) for c in range(0, W, M)]
    return np.stack(out)


_wrong("window_partition", window_partition_fortran,
       "each window is flattened in Fortran order, so its pixels (and channels) are permuted")


def cyclic_roll_axes(x, offset):
    r = np.arange(x.shape[1])
    return x[:, (r + offset) % x.shape[1]][:, :, (np.arange(x.shape[2]) + offset) % x.shape[1] % x.shape[2]]


_wrong("cyclic_roll", cyclic_roll_axes,
       "the column index wraps modulo the height instead of the width: wrong for maps that are not square")


def window_bias_bwd_right(dbias, table, window):
    M = window
    dt = np.zeros(table.shape, dbias.dtype)
    for qi, qj, ki, kj in np.ndindex(M, M, M, M):
        dt[(qi - ki + M - 1) * (2 * M - 1) + (qj - kj + M - 1)] += dbias[:, qi * M + qj, ki * M + kj]
    return dt


_right("window_position_bias_backward", window_bias_bwd_right)


def giou_clamp_product(a, b):
    wh = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    inter = np.maximum(wh[..., 0] * wh[..., 1], 0)
    area = lambda z: np.prod(z[..., 2:] - z[..., :2], axis=-1)
    union = area(a) + area(b) - inter
    enc = np.prod(np.maximum(a[..., 2:], b[..., 2:]) - np.minimum(a[..., :2], b[..., :2]), axis=-1)
    return inter / union - (enc - union) / enc


_wrong("generalized_iou", giou_clamp_product,
       "the product of the sides is clamped at 0 instead of each side: boxes apart in both directions get a positive "
       "intersection, as the product of two negative numbers is positive")


def giou_right(a, b):
    flat_a, flat_b = a.reshape(-1, 4), b.reshape(-1, 4)
    out = np.zeros(len(flat_a), a.dtype)
    for n, (p, q) in enumerate(zip(flat_a.tolist(), flat_b.tolist())):
        unit = max(map(abs, p + q)) or 1.0
        p, q = [t / unit for t in p], [t / unit for t in q]
        iw, ih = (max(0.0, min(p[d + 2], q[d + 2]) - max(p[d], q[d])) for d in (0, 1))
        ew, eh = (max(p[d + 2], q[d + 2]) - min(p[d], q[d]) for d in (0, 1))
        U = (p[2] - p[0]) * (p[3] - p[1]) + (q[2] - q[0]) * (q[3] - q[1]) - iw * ih
        E = ew * eh
        out[n] = (iw * ih / U if U else 0.0) - ((E - U) / E if E else 0.0)
    return out.reshape(a.shape[:-1])


_right("generalized_iou", giou_right)


# ------------------------------------------------------------------ attention

def attention_scale_dv(q, k, v, mask=None):
    s = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(v.shape[-1])
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    return np.einsum("bhts,bhse->bhte", sps.softmax(s, axis=-1), v)


_wrong("attention", attention_scale_dv, "the scores are divided by the root of the width of the values instead of that of the keys")


def attention_right_stream(q, k, v, mask=None):
    """one key at a time, running max (online softmax)"""
    B, H, T, D = q.shape
    S = k.shape[2]
    allow = np.ones((B, H, T, S), bool) if mask is None else np.broadcast_to(mask, (B, H, T, S))
    m = np.full((B, H, T), -np.inf)
    den = np.zeros((B, H, T))
    num = np.zeros((B, H, T, v.shape[-1]))
    for j in range(S):
        s = np.einsum("bhtd,bhd->bht", q.astype(float), k[:, :, j].astype(float)) / math.sqrt(D)
        ok = allow[..., j]
        new = np.where(ok, np.maximum(m, s), m)
        safe = np.where(np.isneginf(new), 0.0, new)
        decay = np.exp(m - safe)
        w = np.where(ok, np.exp(np.where(ok, s, 0.0) - np.where(ok, safe, 0.0)), 0.0)
        den = den * decay + w
        num = num * decay[..., None] + w[..., None] * v[:, :, None, j]
        m = new
    return (num / np.where(den == 0, 1, den)[..., None]).astype(q.dtype)


_right("attention", attention_right_stream)


def _rules(pattern, T, S):
    """mask of a pattern from its rules, broadcastable to (B, H, T, S)"""
    qpos, kpos = np.arange(T)[:, None] + S - T, np.arange(S)[None, :]
    ok = np.ones((1, 1, T, S), bool)
    if pattern.causal:
        ok = ok & (kpos <= qpos)
    if pattern.window is not None:
        left, right = pattern.window
        if left is not None:
            ok = ok & (kpos >= qpos - left)
        if right is not None:
            ok = ok & (kpos <= qpos + right)
    if pattern.lengths is not None:
        ok = ok & (kpos[None, None] < np.asarray(pattern.lengths)[:, None, None, None])
    if pattern.documents is not None:
        d = np.asarray(pattern.documents)
        ok = ok & (d[:, None, S - T:, None] == d[:, None, None, :])
    if pattern.mask is not None:
        ok = ok & pattern.mask
    return ok


def _safe_softmax(s, ok):
    s = np.where(ok, s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isneginf(top), 0, top))
    z = e.sum(-1, keepdims=True)
    return e / np.where(z == 0, 1, z)


from numformer.functional import AttentionPattern as _Pattern  # noqa: E402

_ALL = _Pattern()


def sdpa_elif(q, k, v, pattern=_ALL, scale=None):
    B, H, T, D = q.shape
    S, rep = k.shape[2], H // k.shape[1]
    qpos, kpos = np.arange(T)[:, None] + S - T, np.arange(S)
    ok = np.ones((1, 1, T, S), bool)
    if pattern.causal:
        ok = ok & (kpos <= qpos)
    elif pattern.window is not None:
        lo, hi = pattern.window
        ok = ok & (kpos >= (qpos - lo if lo is not None else 0)) & (kpos <= (qpos + hi if hi is not None else S))
    if pattern.lengths is not None:
        ok = ok & (kpos < np.asarray(pattern.lengths)[:, None, None, None])
    if pattern.documents is not None:
        doc = np.asarray(pattern.documents)
        ok = ok & (doc[:, None, S - T:, None] == doc[:, None, None])
    if pattern.mask is not None:
        ok = ok & pattern.mask
    kk, vv = np.repeat(k, rep, axis=1), np.repeat(v, rep, axis=1)
    s = np.einsum("bhtd,bhsd->bhts", q, kk) * (D ** -0.5 if scale is None else scale)
    return np.einsum("bhts,bhse->bhte", _safe_softmax(s, ok), vv)


_wrong("scaled_dot_product_attention", sdpa_elif,
       "the window is ignored where the pattern is causal, too (elif): it acts only without causal")


def sdpa_capscale(q, k, v, pattern=_ALL, scale=None, softcap=None):
    H, D = q.shape[1], q.shape[-1]
    n_rep = H // k.shape[1]
    k, v = (np.repeat(t, n_rep, 1) for t in (k, v))
    s = q @ k.swapaxes(2, 3)
    if softcap is not None:
        s = softcap * np.tanh(s / math.sqrt(D) / softcap)
    else:
        s = s * (D ** -0.5 if scale is None else scale)
    return _safe_softmax(s, _rules(pattern, q.shape[2], k.shape[2])) @ v


_wrong("scaled_dot_product_attention", sdpa_capscale,
       "with a soft cap the scale option is ignored: 1 / sqrt(D) is always used there")


def sdpa_alibi_then_cap(q, k, v, slopes=None, softcap=None):
    B, H, T, D = q.shape
    S = k.shape[2]
    s = np.einsum("bhtd,bhsd->bhts", q, k) / D ** 0.5
    if slopes is not None:
        dist = np.abs(np.arange(S)[None] - np.arange(S - T, S)[:, None])
        s = s - slopes[:, None, None] * dist
    if softcap is not None:
        s = np.tanh(s / softcap) * softcap
    return np.einsum("bhts,bhse->bhte", sps.softmax(s, -1), v)


_wrong("scaled_dot_product_attention", sdpa_alibi_then_cap,
       "with slopes and a soft cap the order is wrong: the cap also squeezes ALiBi's penalty, which is to be subtracted after it")


def sdpa_right(q, k, v, pattern=_ALL, scale=None, slopes=None, bias=None, softcap=None):
    B, H, T, D = q.shape
    G, S, E = k.shape[1], k.shape[2], v.shape[-1]
    sc = 1 / math.sqrt(D) if scale is None else scale
    ok = np.broadcast_to(_rules(pattern, T, S), (B, H, T, S))
    out = np.zeros((B, H, T, E), q.dtype)
    rel = np.arange(S)[None, :] - np.arange(T)[:, None]
    for b, h in np.ndindex(B, H):
        g = h * G // H
        z = (q[b, h] @ k[b, g].T) * sc
        if softcap is not None:
            z = softcap * np.tanh(z / softcap)
        if slopes is not None:
            z = z - slopes[h] * np.abs(rel - (S - T))
        if bias is not None:
            z = z + bias[h][rel + T - 1]
        for i in range(T):
            keys = np.flatnonzero(ok[b, h, i])
            if keys.size:
                out[b, h, i] = sps.softmax(z[i, keys]) @ v[b, g, keys]
    return out


_right("scaled_dot_product_attention", sdpa_right)


def sdpa_bwd_group(do, q, k, v, pattern=_ALL, scale=None):
    B, H, T, D = q.shape
    G, S, E = k.shape[1], k.shape[2], v.shape[-1]
    R = H // G
    sc = D ** -0.5 if scale is None else scale
    q5, do5 = q.reshape(B, G, R, T, D), do.reshape(B, G, R, T, E)
    ok = np.broadcast_to(_rules(pattern, T, S), (B, H, T, S)).reshape(B, G, R, T, S)
    p = _safe_softmax(np.einsum("bgrtd,bgsd->bgrts", q5, k) * sc, ok)
    dp = np.einsum("bgrte,bgse->bgrts", do5, v)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * sc
    dq = np.einsum("bgrts,bgsd->bgrtd", ds, k).reshape(q.shape)
    dk = np.einsum("bgrts,bgrtd->bgsd", ds, q5)
    dv = np.einsum("bgrts,bgrte->bgse", p, do5) / R
    return dq, dk, dv


_wrong("scaled_dot_product_attention_backward", sdpa_bwd_group,
       "with grouped heads dv is the mean over the query heads of a group instead of their sum")


def sdpa_bwd_right(do, q, k, v, pattern=_ALL, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    sc = D ** -0.5 if scale is None else scale
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    ok = np.broadcast_to(_rules(pattern, T, S), (B, H, T, S))
    for b, h in np.ndindex(B, H):
        g = h // (H // G)
        for i in range(T):
            idx = np.flatnonzero(ok[b, h, i])
            if not idx.size:
                continue
            K, V = k[b, g, idx], v[b, g, idx]
            p = sps.softmax(sc * (K @ q[b, h, i]))
            dp = V @ do[b, h, i]
            dz = p * (dp - p @ dp) * sc
            dq[b, h, i] += dz @ K
            dk[b, g, idx] += np.outer(dz, q[b, h, i])
            dv[b, g, idx] += np.outer(p, do[b, h, i])
    return dq, dk, dv


_right("scaled_dot_product_attention_backward", sdpa_bwd_right)


def tiled_no_rescale(q, k, v, pattern=_ALL, scale=None, tile=64):
    B, H, T, D = q.shape
    S = k.shape[2]
    sc = D ** -0.5 if scale is None else scale
    k, v = np.repeat(k, H // k.shape[1], 1), np.repeat(v, H // v.shape[1], 1)
    ok = np.broadcast_to(_rules(pattern, T, S), (B, H, T, S))
    m = np.full((B, H, T, 1), -np.inf)
    l, acc = np.zeros((B, H, T, 1)), np.zeros((B, H, T, v.shape[-1]))
    for j in range(0, S, tile):
        blk = slice(j, j + tile)
        s = np.where(ok[..., blk], np.einsum("bhtd,bhsd->bhts", q, k[:, :, blk]) * sc, -np.inf)
        m_new = np.maximum(m, s.max(-1, keepdims=True))
        base = np.where(np.isneginf(m_new), 0, m_new)
        p = np.exp(s - base)
        l = l * np.exp(m - base) + p.sum(-1, keepdims=True)
        acc = acc + p @ v[:, :, blk]
        m = m_new
    return acc / np.where(l == 0, 1, l)


_wrong("tiled_attention", tiled_no_rescale,
       "the accumulator is not rescaled by exp(m_old - m_new) when the maximum rises: wrong with more than one tile of keys")


def tiled_bwd_tile_delta(do, q, k, v, pattern=_ALL, scale=None, tile=64):
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    rep = H // G
    sc = D ** -0.5 if scale is None else scale
    kk, vv = np.repeat(k, rep, 1), np.repeat(v, rep, 1)
    p_all = _safe_softmax(np.einsum("bhtd,bhsd->bhts", q, kk) * sc, _rules(pattern, T, S))
    dq, dkk, dvv = np.zeros_like(q), np.zeros_like(kk), np.zeros_like(vv)
    for j in range(0, S, tile):
        t = slice(j, j + tile)
        p = p_all[..., t]
        dp = np.einsum("bhte,bhse->bhts", do, vv[:, :, t])
        ds = p * (dp - np.einsum("bhts,bhts->bht", p, dp)[..., None])
        dq += np.einsum("bhts,bhsd->bhtd", ds, kk[:, :, t]) * sc
        dkk[:, :, t] = np.einsum("bhts,bhtd->bhsd", ds, q) * sc
        dvv[:, :, t] = np.einsum("bhts,bhte->bhse", p, do)
    fold = lambda z: z.reshape(B, G, rep, S, -1).sum(2)
    return dq, fold(dkk), fold(dvv)


_wrong("tiled_attention_backward", tiled_bwd_tile_delta,
       "the sum of p * dp in the softmax backward runs over the keys of one tile only: wrong with more than one tile")


def tiled_right(q, k, v, pattern=_ALL, scale=None, tile=64):
    """two passes over the tiles, from the last to the first: log-sum-exp, then weights"""
    B, H, T, D = q.shape
    S = k.shape[2]
    sc = D ** -0.5 if scale is None else scale
    k, v = np.repeat(k, H // k.shape[1], 1), np.repeat(v, H // v.shape[1], 1)
    mask = np.broadcast_to(pattern.dense(T, S), (B, H, T, S))
    scores = lambda t: np.where(mask[..., t], np.einsum("bhtd,bhsd->bhts", q, k[:, :, t]).astype(float) * sc, -np.inf)
    tiles = [slice(j, min(j + tile, S)) for j in range(0, S, tile)][::-1]
    lse = np.full((B, H, T), -np.inf)
    for t in tiles:
        lse = np.logaddexp(lse, np.logaddexp.reduce(scores(t), axis=-1))
    lse = np.where(np.isneginf(lse), 0, lse)[..., None]
    return sum(np.exp(scores(t) - lse) @ v[:, :, t] for t in tiles).astype(q.dtype)


_right("tiled_attention", tiled_right)


def window_attention_bwd_two(do, q, k, v, bias, pattern=_ALL, scale=None):
    B, H, T, D = q.shape
    sc = D ** -0.5 if scale is None else scale
    p = _safe_softmax(np.einsum("bhtd,bhsd->bhts", q, k) * sc + bias, _rules(pattern, T, T))
    dp = np.einsum("bhte,bhse->bhts", do, v)
    ds = p * (dp - np.einsum("bhts,bhts->bht", p, dp)[..., None])
    return (np.einsum("bhts,bhsd->bhtd", ds, k) * sc, np.einsum("bhts,bhtd->bhsd", ds, q),
            np.einsum("bhts,bhte->bhse", p, do), ds.mean(0))


_wrong("window_attention_backward", window_attention_bwd_two,
       "two mistakes: dk lacks the scale, and dbias is the mean over the windows of the batch instead of the sum")


def _log_elu1(z):
    return np.where(z > 0, np.log1p(np.maximum(z, 0)), z)


def linear_attention_den(q, k, v, causal=False):
    lw = sps.logsumexp(_log_elu1(q)[:, :, :, None] + _log_elu1(k)[:, :, None], axis=-1)
    w = np.exp(lw - lw.max(-1, keepdims=True))
    z = w.sum(-1, keepdims=True)
    return np.einsum("bhts,bhse->bhte", np.tril(w) if causal else w, v) / z


_wrong("linear_attention", linear_attention_den,
       "if causal, the denominator sums over all keys instead of those up to the query")


def linear_attention_bwd_detached(do, q, k, v, causal=False):
    t = lambda z: torch.tensor(np.ascontiguousarray(z), dtype=torch.float64)
    Q, K, V = (t(z).requires_grad_(True) for z in (q, k, v))
    lphi = lambda z: torch.where(z > 0, torch.log1p(torch.relu(z)), z)
    lw = torch.logsumexp(lphi(Q)[:, :, :, None] + lphi(K)[:, :, None], -1)
    if causal:
        lw = lw.masked_fill(torch.ones(lw.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    log_norm = torch.logsumexp(lw, -1, keepdim=True).detach()
    (torch.exp(lw - log_norm) @ V).backward(t(do))
    return Q.grad.numpy(), K.grad.numpy(), V.grad.numpy()


_wrong("linear_attention_backward", linear_attention_bwd_detached,
       "the denominator is detached: the gradient through the sum of the weights is missing in dq and dk")


def linear_attention_right_log(q, k, v, causal=False):
    B, H, T, D = q.shape
    o = np.zeros((B, H, T, v.shape[-1]))
    a, b = _log_elu1(q.astype(float)), _log_elu1(k.astype(float))
    for i in range(T):
        S = i + 1 if causal else k.shape[2]
        lw = np.logaddexp.reduce(a[:, :, i, None, :] + b[:, :, :S], axis=-1)          # (B, H, S)
        o[:, :, i] = np.einsum("bhs,bhse->bhe", sps.softmax(lw, axis=-1), v[:, :, :S])
    return o.astype(q.dtype)


_right("linear_attention", linear_attention_right_log)


def sparse_wrap(q, k, v, keys):
    kg, vg = k[:, :, keys], v[:, :, keys]
    s = np.einsum("bhtd,bhtmd->bhtm", q, kg) / math.sqrt(q.shape[-1])
    return np.einsum("bhtm,bhtme->bhte", sps.softmax(s, axis=-1), vg)


_wrong("sparse_attention", sparse_wrap, "entries -1 (no key) are not masked: the index wraps around to the last key")


def sparse_right(q, k, v, keys):
    T, M = keys.shape
    S = k.shape[2]
    ok = np.zeros((T, S + 1), bool)
    ok[np.arange(T)[:, None], keys] = True            # -1 lands in the extra column
    s = np.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1])
    return _safe_softmax(s, ok[:, :S]) @ v


_right("sparse_attention", sparse_right)


# ------------------------------------------------------------------ scores and positions


def additive_two(q, k, v):
    # e_ij = sigma(q_i + k_j) . v
    e = sps.expit(q[:, :, None] + k[:, None])
    return np.einsum("btsa,a->bts", e, v) / q.shape[-1]


_wrong("additive_scores", additive_two,
       "two mistakes: a sigmoid in place of the tanh, and the mean over the hidden units instead of the sum")


def scaled_dot_bwd_two(dscores, q, k):
    d = q.shape[-1]
    return np.einsum("bts,bsd->btd", dscores, k) / d, np.einsum("bts,btd->bsd", dscores, q)


_wrong("scaled_dot_scores_backward", scaled_dot_bwd_two,
       "two mistakes: dq is divided by D instead of its root, and dk lacks the scale")


def alibi_signed(scores, slopes):
    T, S = scores.shape[-2:]
    rel = np.arange(S)[None, :] - (np.arange(T)[:, None] + S - T)
    return scores + slopes[:, None, None] * rel


_wrong("alibi", alibi_signed,
       "the signed distance is used instead of its absolute value: keys after the query get a bonus instead of a penalty")


def alibi_right(scores, slopes):
    T, S = scores.shape[-2:]
    y = scores.copy()
    for i in range(T):
        for j in range(S):
            y[..., i, j] -= slopes.astype(scores.dtype) * abs(i + S - T - j)
    return y


_right("alibi", alibi_right)


def add_by_distance_bwd_right(dy, scores, bias):
    H, T, S = dy.shape[-3:]
    db = np.zeros((H, T + S - 1))
    idx = np.arange(S)[None] - np.arange(T)[:, None] + T - 1
    for g in dy.reshape(-1, H, T, S):
        for h in range(H):
            db[h] += np.bincount(idx.ravel(), weights=g[h].ravel(), minlength=T + S - 1)
    return 1.0 * dy, db.astype(bias.dtype)


_right("add_by_distance_backward", add_by_distance_bwd_right)


def distance_weights_bwd_two(dp, slopes, mask):
    T, S = mask.shape[-2:]
    d = np.abs(np.arange(T)[:, None] + S - T - np.arange(S)).astype(float)
    p = _safe_softmax(np.broadcast_to(-slopes[:, None, None] * d, dp.shape), mask)
    dz = p * (dp - (p * dp).sum(-1, keepdims=True))
    ds = np.einsum("...hts,ts->...h", dz, d)
    return ds.reshape(-1, len(slopes)).mean(0)


_wrong("distance_weights_backward", distance_weights_bwd_two,
       "two mistakes: the minus sign of the slope is missing, and with a batch of masks the gradient is the mean over it instead of the sum")


def relative_values_diag(p, table):
    B, H, T, S = p.shape
    K = table.shape[0] // 2
    out = np.zeros((B, H, T, table.shape[1]), p.dtype)
    for i in range(T):
        for r in range(-K, K + 1):
            j = i + S - T + r
            if 0 <= j < S:
                out[:, :, i] += p[:, :, i, j, None] * table[r + K]
    return out


_wrong("relative_values", relative_values_diag,
       "keys farther away than K are left out instead of using the row of the clipped distance")


def relative_values_bwd_right(do, p, table):
    T, S = p.shape[-2:]
    K = table.shape[0] // 2
    hot = np.zeros((T, S, 2 * K + 1), p.dtype)
    for i, j in np.ndindex(T, S):
        hot[i, j, min(max(j - i - S + T, -K), K) + K] = 1
    return (np.einsum("bhtd,rd,tsr->bhts", do, table, hot, optimize=True),
            np.einsum("bhts,tsr,bhtd->rd", p, hot, do, optimize=True))


_right("relative_values_backward", relative_values_bwd_right)


def relative_attention_unscaled(q, k, v, key_table, value_table, pattern=_ALL, scale=None):
    B, H, T, D = q.shape
    S, rep = k.shape[2], H // k.shape[1]
    sc = D ** -0.5 if scale is None else scale

    def rows(table):
        K = table.shape[0] // 2
        return table[np.clip(np.arange(S) - np.arange(T)[:, None] - (S - T), -K, K) + K]

    k, v = np.repeat(k, rep, 1), np.repeat(v, rep, 1)
    s = np.einsum("bhtd,bhsd->bhts", q, k) * sc + np.einsum("bhtd,tsd->bhts", q, rows(key_table))
    p = _safe_softmax(s, _rules(pattern, T, S))
    return np.einsum("bhts,bhse->bhte", p, v) + np.einsum("bhts,tse->bhte", p, rows(value_table))


_wrong("relative_attention", relative_attention_unscaled, "the scale is not applied to the term of the key table")


def rel_bias_maxdist(table, T, S, max_distance=128, bidirectional=True):
    n = table.shape[0]
    rel = np.arange(-(S - 1), T)
    side = np.zeros_like(rel)
    if bidirectional:
        n //= 2
        side, rel = (rel > 0) * n, np.abs(rel)
    else:
        rel = -np.minimum(rel, 0)
    half = n // 2
    far = half + (np.log(np.maximum(rel, 1) / half) / np.log(128 / half) * (n - half)).astype(int)
    return table[side + np.where(rel < half, rel, np.minimum(far, n - 1))].T


_wrong("relative_position_bias", rel_bias_maxdist, "max_distance is ignored: 128 is hard-coded in the logarithmic buckets")


def rotary_inter_concat(x, cosine, sine, layout="half"):
    if layout == "half":
        a, b = np.split(x, 2, axis=-1)
    else:
        a, b = x[..., ::2], x[..., 1::2]
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)


_wrong("rotary", rotary_inter_concat,
       "with the interleaved layout the rotated pairs are concatenated as halves instead of interleaved again")


def rotary_right_complex(x, cosine, sine, layout="half"):
    D = x.shape[-1]
    ia, ib = (np.arange(D // 2), np.arange(D // 2, D)) if layout == "half" else (np.arange(0, D, 2), np.arange(1, D, 2))
    z = (x[..., ia] + 1j * x[..., ib]) * (cosine + 1j * sine)
    y = np.empty(x.shape, x.dtype)
    y[..., ia], y[..., ib] = z.real, z.imag
    return y


_right("rotary", rotary_right_complex)


def rotary_bwd_half_tile(dy, x, cosine, sine, layout="half"):
    if layout == "half":
        d = dy.shape[-1] // 2
        cos, sin = np.tile(cosine, 2), np.tile(sine, 2)
        rot = np.concatenate([-dy[..., d:], dy[..., :d]], -1)
    else:
        cos, sin = np.tile(cosine, 2), np.tile(sine, 2)
        rot = np.stack([-dy[..., 1::2], dy[..., ::2]], -1).reshape(dy.shape)
    return dy * cos - rot * sin


_wrong("rotary_backward", rotary_bwd_half_tile,
       "with the interleaved layout the angles are tiled (np.tile) instead of repeated for the two coordinates of a pair (np.repeat)")


# ------------------------------------------------------------------ losses

def ce_smooth_ignored(logits, targets, ignore_index=-100, label_smoothing=0.0):
    V = logits.shape[-1]
    z, y = logits.reshape(-1, V), targets.reshape(-1)
    lp = z - sps.logsumexp(z, axis=-1, keepdims=True)
    keep = y != ignore_index
    nll = -lp[keep, y[keep]].mean()
    return (1 - label_smoothing) * nll - label_smoothing * lp.mean()


_wrong("cross_entropy", ce_smooth_ignored,
       "the smoothing term is a mean over all positions, ignored targets included: wrong where smoothing and ignored targets meet")


def ce_bwd_zterm(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    lse = sps.logsumexp(logits, axis=-1, keepdims=True)
    p = np.exp(logits - lse)
    keep = targets != ignore_index
    q = (1 - label_smoothing) * np.eye(V)[np.where(keep, targets, 0)] + label_smoothing / V
    g = p - q + 2 * z_loss * lse * (p - q)
    return np.where(keep[..., None], g, 0) * dloss / keep.sum()


_wrong("cross_entropy_backward", ce_bwd_zterm,
       "the term of the z-loss is 2 z lse (p - q) instead of 2 z lse p: the target is subtracted in it, too")


def ce_bwd_right(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    grad = np.zeros((targets.size, V))
    n = sum(int(t) != ignore_index for t in targets.ravel())
    for row, (z, t) in enumerate(zip(logits.reshape(-1, V).astype(float), targets.ravel())):
        if t == ignore_index:
            continue
        lse = float(sps.logsumexp(z))
        g = (1 + 2 * z_loss * lse) * sps.softmax(z) - label_smoothing / V
        g[t] -= 1 - label_smoothing
        grad[row] = g * (float(dloss) / n)
    return grad.reshape(logits.shape).astype(logits.dtype)


_right("cross_entropy_backward", ce_bwd_right)


def sce_shifted(logits, targets):
    lp = sps.log_softmax(logits, axis=-1)
    if targets.ndim > 1 and targets.shape[-1] > 1:
        lp, targets = lp[..., :-1, :], targets[..., 1:]
    return -np.take_along_axis(lp, targets[..., None], -1).mean()


_wrong("softmax_cross_entropy", sce_shifted,
       "for sequences the probabilities are from the previous position: logits[:-1] are compared with targets[1:], though the "
       "targets are aligned already")


def uniform_ce_bits(logits):
    return -(sps.log_softmax(logits, axis=-1) / np.log(2)).mean()


_wrong("uniform_cross_entropy", uniform_ce_bits, "the logarithm has base 2: bits instead of nats")


def distill_bwd_two(dloss, logits, teacher_logits, temperature=1.0):
    n = logits.shape[0]
    q, p = sps.softmax(logits / temperature, axis=-1), sps.softmax(teacher_logits / temperature, axis=-1)
    return (q - p) * temperature ** 2 * dloss / n


_wrong("distillation_loss_backward", distill_bwd_two,
       "two mistakes: the factor 1 / T of the inner division is missing (T^2 instead of T), and the mean is over the first axis only")


def z_loss_overflow(logits):
    return np.mean(np.log(np.einsum("nv->n", np.exp(logits))) ** 2)


_wrong("z_loss", z_loss_overflow, "exp overflows (and underflows) for large logits: the maximum is not subtracted")


def linear_ce_bwd_smooth(dloss, x, weight, targets, ignore_index=-100, label_smoothing=0.0):
    V, C = weight.shape
    X, y = x.reshape(-1, C), targets.reshape(-1)
    keep = y != ignore_index
    G = np.zeros((len(y), V), x.dtype)
    G[keep] = sps.softmax(X[keep] @ weight.T, axis=-1)
    G[keep, y[keep]] -= 1 - label_smoothing
    G *= dloss / keep.sum()
    return (G @ weight).reshape(x.shape), np.einsum("nv,nc->vc", G, X)


_wrong("linear_cross_entropy_backward", linear_ce_bwd_smooth,
       "label smoothing is half done: epsilon / V is not subtracted from the probabilities of all classes")


def contrastive_bwd_cols(dloss, logits):
    N = len(logits)
    return dloss / (2 * N) * (sps.softmax(logits, axis=1) + sps.softmax(logits.T, axis=1) - 2 * np.eye(N))


_wrong("contrastive_loss_backward", contrastive_bwd_cols, "the softmax of the columns is not transposed back before the sum")


def contrastive_right(logits):
    z = logits.astype(float)
    d = np.diagonal(z)
    return np.mean([np.logaddexp.reduce(z, axis=a) - d for a in (0, 1)]).astype(logits.dtype)


_right("contrastive_loss", contrastive_right)


def triplet_mean_inside(anchors, positives, negatives, margin=1.0):
    d = lambda u, w: np.sqrt(np.einsum("bc,bc->b", u - w, u - w))
    return np.maximum(0.0, np.mean(d(anchors, positives) - d(anchors, negatives) + margin))


_wrong("triplet_loss", triplet_mean_inside, "the maximum with 0 is taken of the mean over the triplets instead of each triplet")


def cosine_right(a, b):
    unit = lambda z: (z / np.abs(z).max(1, keepdims=True)) / np.linalg.norm(z / np.abs(z).max(1, keepdims=True), axis=1, keepdims=True)
    return np.einsum("nc,mc->nm", unit(a), unit(b))


_right("cosine_similarity", cosine_right)


def cosreg_bwd_noproj(dloss, u, v, targets):
    nu, nv = (np.linalg.norm(t, axis=1, keepdims=True) for t in (u, v))
    uh, vh = u / nu, v / nv
    c = np.einsum("bc,bc->b", uh, vh)
    w = (2 * dloss * (c - targets) / len(c))[:, None]
    return w * vh / nu, w * uh / nv


_wrong("cosine_regression_loss_backward", cosreg_bwd_noproj,
       "the derivative of the norms is missing: c u_hat is not subtracted, so the gradient is not orthogonal to the vector")


# ------------------------------------------------------------------ recurrent cells

def gru_bias_outside(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    F = state.shape[1]
    a = x @ input_weight + (0 if bias is None else bias)
    u = state @ recurrent_weight
    r, z = sps.expit(a[:, :F] + u[:, :F]), sps.expit(a[:, F:2 * F] + u[:, F:2 * F])
    n = np.tanh(a[:, 2 * F:] + r * u[:, 2 * F:] + (0 if recurrent_bias is None else recurrent_bias))
    return (1 - z) * n + z * state


_wrong("gru_cell", gru_bias_outside, "the recurrent bias is added outside the reset gate: it is not multiplied by r")


def gru_bwd_no_r(dstate, x, state, input_weight, recurrent_weight, bias=None):
    a = x @ input_weight if bias is None else x @ input_weight + bias
    ar, az, an = np.split(a, 3, 1)
    hr, hz, hn = np.split(state @ recurrent_weight, 3, 1)
    r, z = sps.expit(ar + hr), sps.expit(az + hz)
    n = np.tanh(an + r * hn)
    dn = dstate * (1 - z) * (1 - n * n)
    dz = dstate * (state - n) * z * (1 - z)
    dr = dn * hn * r * (1 - r)
    da = np.hstack([dr, dz, dn])
    dh = dstate * z + np.hstack([dr, dz, dn]) @ recurrent_weight.T
    dU = state.T @ np.hstack([dr, dz, dn * r])
    return da @ input_weight.T, dh, x.T @ da, dU, None if bias is None else da.sum(0)


_wrong("gru_cell_backward", gru_bwd_no_r,
       "in the gradient of the state the candidate's part is not multiplied by the reset gate r")


def gru_right(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    B, F = state.shape
    sig = np.vectorize(lambda s: 0.5 + 0.5 * math.tanh(0.5 * s), otypes=[float])
    new = np.zeros_like(state)
    for b in range(B):
        pre = [np.dot(x[b], input_weight[:, g * F:(g + 1) * F])
               + (0 if bias is None else bias[g * F:(g + 1) * F]) for g in range(3)]
        rec = [state[b] @ recurrent_weight[:, g * F:(g + 1) * F] for g in range(3)]
        r, z = sig(pre[0] + rec[0]), sig(pre[1] + rec[1])
        hn = rec[2] if recurrent_bias is None else rec[2] + recurrent_bias
        n = np.tanh(pre[2] + r * hn)
        new[b] = n + z * (state[b] - n)
    return new


_right("gru_cell", gru_right)


def gru_before_bwd_u3(dstate, x, state, input_weight, recurrent_weight, bias=None):
    W, U = np.split(input_weight, 3, 1), np.split(recurrent_weight, 3, 1)
    b = (0, 0, 0) if bias is None else np.split(bias, 3)
    r = sps.expit(x @ W[0] + state @ U[0] + b[0])
    z = sps.expit(x @ W[1] + state @ U[1] + b[1])
    n = np.tanh(x @ W[2] + (r * state) @ U[2] + b[2])
    dn = dstate * (1 - z) * (1 - n ** 2)
    dz = dstate * (state - n) * z * (1 - z)
    drh = dn @ U[2].T
    dr = drh * state * r * (1 - r)
    da = np.concatenate([dr, dz, dn], 1)
    dh = dstate * z + drh * r + dr @ U[0].T + dz @ U[1].T
    return da @ input_weight.T, dh, x.T @ da, state.T @ da, None if bias is None else da.sum(0)


_wrong("gru_cell_reset_before_backward", gru_before_bwd_u3,
       "the gradient of the candidate's recurrent weight uses the state instead of r * state")


def lstm_bwd_detach(dstate, x, state, input_weight, recurrent_weight, bias=None):
    h, c = np.hsplit(state, 2)
    a = x @ input_weight + h @ recurrent_weight
    a = a if bias is None else a + bias
    ai, af, ao, ag = np.hsplit(a, 4)
    i, f, o, g = sps.expit(ai), sps.expit(af), sps.expit(ao), np.tanh(ag)
    c1 = f * c + i * g
    t = np.tanh(c1)
    dh1, dc1 = np.hsplit(dstate, 2)
    dc = dc1 + dh1 * o * (1 - np.tanh(c) ** 2)
    da = np.hstack([dc * g * i * (1 - i), dc * c * f * (1 - f), dh1 * t * o * (1 - o), dc * i * (1 - g * g)])
    return (da @ input_weight.T, np.hstack([da @ recurrent_weight.T, dc * f]), x.T @ da, h.T @ da,
            None if bias is None else da.sum(0))


_wrong("lstm_cell_backward", lstm_bwd_detach,
       "the derivative of tanh is taken at the previous memory c instead of the new one c'")


def lstm_bwd_right(dstate, x, state, input_weight, recurrent_weight, bias=None):
    t = lambda z: torch.tensor(np.array(z), dtype=torch.float64, requires_grad=True)
    args = [t(z) for z in (x, state, input_weight, recurrent_weight)] + ([] if bias is None else [t(bias)])
    X, S, W, U = args[:4]
    h, c = S.chunk(2, dim=1)
    a = X @ W + h @ U
    if bias is not None:
        a = a + args[4]
    i, f, o, g = a.chunk(4, dim=1)
    c2 = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    out = torch.cat([torch.sigmoid(o) * torch.tanh(c2), c2], 1)
    grads = [z.numpy().astype(x.dtype) for z in torch.autograd.grad(out, args, torch.tensor(np.array(dstate), dtype=torch.float64))]
    return tuple(grads) if bias is not None else (*grads, None)


_right("lstm_cell_backward", lstm_bwd_right)


def rnn_two(x, state, input_weight, recurrent_weight, bias=None):
    a = np.einsum("bc,cf->bf", x, input_weight) + np.einsum("bg,fg->bf", state, recurrent_weight)
    return sps.expit(a if bias is None else a + bias)


_wrong("rnn_cell", rnn_two,
       "two mistakes: the recurrent weight is transposed (wrong einsum index), and the nonlinearity is the sigmoid instead of the tanh")


# ------------------------------------------------------------------ experts


def top_k_all_bwd_chosen(dweights, logits, chosen):
    p = sps.softmax(logits, axis=1)
    w = np.take_along_axis(p, chosen, 1)
    dz = np.zeros_like(logits)
    np.put_along_axis(dz, chosen, w * (dweights - (w * dweights).sum(1, keepdims=True)), 1)
    return dz


_wrong("top_k_gates_over_all_backward", top_k_all_bwd_chosen,
       "the experts that were not chosen get no gradient, though they are in the denominator of the softmax")


def top_k_gates_right(logits, chosen):
    """softmax over all, renormalized over the chosen ones"""
    E = logits.shape[1]
    hot = (chosen[:, :, None] == np.arange(E)).any(1)
    z = np.where(hot, logits, -np.inf)
    return np.take_along_axis(np.exp(z - np.logaddexp.reduce(z.astype(float), axis=1, keepdims=True)), chosen, 1).astype(logits.dtype)


_right("top_k_gates", top_k_gates_right)


def combine_bwd_expert_major(dy, outputs, weights, slots):
    N, k = weights.shape
    tok, j = slots % N, slots // N
    dw = np.zeros_like(weights)
    dw[tok, j] = np.einsum("mc,mc->m", outputs, dy[tok])
    return weights[tok, j][:, None] * dy[tok], dw


_wrong("combine_experts_backward", combine_bwd_expert_major,
       "a slot is split as (choice, token) = divmod(s, N) instead of (token, choice) = divmod(s, k)")
