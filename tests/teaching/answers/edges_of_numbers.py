"""Edge mistakes of numbers: overflow, underflow, zero and equal vectors, dtypes, clipping."""

import numpy as np
from scipy import special

from answers.corpus import edge


def rows(*numbers):
    """A case of one array x."""
    return lambda: ({"x": np.array(numbers, float)}, {})


def logits(*numbers):
    return lambda: ({"logits": np.array(numbers, float)}, {})


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@edge("sigmoid", "exp(x) / (1 + exp(x)) is inf / inf for large x", "unstable sigmoid",
      rows([800.0, 1.0, -2.0]))
def sigmoid_overflows(x):
    return np.exp(x) / (1 + np.exp(x))


@edge("silu_backward", "the sigmoid is exp(x) / (1 + exp(x)): NaN for large x",
      "unstable sigmoid", rows([900.0, 1.0], [0.3, -2.0]))
def silu_overflows(dy, x):
    s = np.exp(x) / (1 + np.exp(x))
    return dy * (s + x * s * (1 - s))


@edge("z_loss", "log(sum(exp)) without the maximum overflows", "unstable log-sum-exp",
      logits([1000.0, 999.0, 3.0], [1.0, 2.0, 3.0]))
def z_loss_overflows(logits):
    return np.mean(np.log(np.exp(logits).sum(axis=1)) ** 2)


@edge("router_z_loss_backward", "log(sum(exp)) of very negative logits is log(0)",
      "unstable log-sum-exp", logits([-900.0, -901.0, -905.0], [1.0, 2.0, 3.0]))
def router_z_loss_underflows(dloss, logits):
    total = np.exp(logits).sum(axis=1, keepdims=True)
    return 2 * dloss * np.log(total) * np.exp(logits) / total / len(logits)


@edge("softmax", "the maximum of the whole array is subtracted, not that of the row",
      "global maximum", rows([1000.0, 999.0, 998.0], [-1000.0, -1001.0, -1002.0]))
def softmax_global(x, axis=-1):
    e = np.exp(x - x.max())
    return e / e.sum(axis=axis, keepdims=True)


def two_heads_far_apart():
    q = normal(1, 2, 3, 4)
    q[:, 0] *= 4000
    return {"q": q, "k": normal(1, 2, 5, 4, seed=1), "v": normal(1, 2, 5, 4, seed=2)}, {}


@edge("attention_backward", "the maximum of all scores is subtracted, not that of the row",
      "global maximum", two_heads_far_apart)
def attention_global(do, q, k, v):
    scale = q.shape[-1] ** -0.5
    s = q @ k.mT * scale
    e = np.exp(s - s.max())
    p = e / e.sum(-1, keepdims=True)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    return ds @ k, ds.mT @ q, p.mT @ do


@edge("softmax_cross_entropy", "the logarithm of a probability that has underflowed to 0",
      "log(0)", lambda: ({"logits": np.array([[0.0, 2000.0, 3.0]]), "targets": np.array([0])}, {}))
def log_of_softmax(logits, targets):
    p = special.softmax(logits, axis=-1)
    return -np.log(np.take_along_axis(p, targets[..., None], axis=-1)).mean()


@edge("log_softmax", "1e-12 is added inside the logarithm", "log(0)",
      rows([0.0, -60.0, 3.0], [1.0, 2.0, -70.0]))
def log_softmax_guarded(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.log(np.maximum(e / e.sum(axis=axis, keepdims=True), 1e-12))


@edge("soft_cap", "a tanh by exp(2x) overflows for very large x", "very large numbers",
      lambda: ({"x": np.array([[3000.0, 1.0, -2.0]]), "cap": 1.5}, {}))
def soft_cap_overflows(x, cap):
    e = np.exp(2 * x / cap)
    return cap * (e - 1) / (e + 1)


@edge("gelu_tanh_backward", "sech**2 as 4 / (exp(u) + exp(-u))**2 times x**3: 0 * inf",
      "very large numbers", rows([1e150, 1.0, -2.0]))
def gelu_tanh_far(dy, x):
    c = np.sqrt(2 / np.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return dy * 0.5 * (1 + t + (1 - t * t) * c * (x + 3 * 0.044715 * x**3))


@edge("relu_backward", "numbers below 1e-6 are taken for 0", "very small numbers",
      rows([1e-7, 1.0, -1e-9]))
def relu_with_threshold(dy, x):
    return dy * (x > 1e-6)


@edge("rms_norm", "the epsilon is a lower bound of the norm: small vectors are not scaled",
      "very small numbers", lambda: ({"x": 1e-3 * normal(2, 3, 4), "weight": np.ones(4)},
                                     {"epsilon": 0.0}))
def rms_norm_bounded(x, weight, epsilon=1e-5):
    square = (x * x).mean(-1, keepdims=True)
    return weight * x / np.sqrt(np.where(square < 1e-4, 1.0, square) + epsilon)


@edge("layer_norm", "the variance is E[x**2] - E[x]**2, which cancels far from 0",
      "E[x**2] - E[x]**2",
      lambda: ({"x": 1e7 + normal(2, 3, 6), "weight": np.ones(6), "bias": np.zeros(6)}, {}))
def layer_norm_one_pass(x, weight, bias, epsilon=1e-5):
    mean = x.mean(-1, keepdims=True)
    variance = (x**2).mean(-1, keepdims=True) - mean**2
    return weight * (x - mean) / np.sqrt(variance + epsilon) + bias


@edge("batch_norm_backward", "the variance is E[x**2] - E[x]**2, which cancels far from 0",
      "E[x**2] - E[x]**2",
      lambda: ({"x": 1e7 + normal(4, 3, 6), "weight": np.ones(6), "bias": np.zeros(6)}, {}))
def batch_norm_one_pass(dy, x, weight, bias, epsilon=1e-5):
    mean = x.mean((0, 1))
    rstd = 1 / np.sqrt((x * x).mean((0, 1)) - mean * mean + epsilon)
    x_hat = (x - mean) * rstd
    dweight, dbias, n = (dy * x_hat).sum((0, 1)), dy.sum((0, 1)), x[..., 0].size
    return weight * rstd * (dy - dbias / n - x_hat * dweight / n), dweight, dbias


@edge("cosine_similarity", "a zero vector is divided by its norm", "zero vectors",
      lambda: ({"a": np.array([[0.0, 0.0], [1.0, 2.0]]), "b": normal(3, 2)}, {}))
def cosine_of_zero(a, b):
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    return a @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


@edge("rms_norm_outside_backward", "x / rms is 0 / 0 for a zero vector", "zero vectors",
      lambda: ({"x": normal(2, 3, 4) * np.array([0, 1, 1])[:, None], "weight": np.ones(4)}, {}))
def rms_norm_of_zero(dy, x, weight, epsilon=1e-5):
    rms = np.sqrt((x * x).mean(-1, keepdims=True))
    g, s = dy * weight, 1 / (rms + epsilon)
    dx = g * s - x / rms * s * s * (g * x).mean(-1, keepdims=True)
    return dx, (dy * x * s).sum((0, 1))


def constant_row():
    x = normal(2, 3, 4)
    x[0, 0] = 2.5
    return {"x": x, "weight": normal(4), "bias": normal(4)}, {}


@edge("layer_norm_outside_backward", "the derivative of sqrt(variance) is 1 / 0 in a constant row",
      "equal vectors", constant_row)
def layer_norm_of_constant(dy, x, weight, bias, epsilon=1e-5):
    c = x - x.mean(-1, keepdims=True)
    sigma = np.sqrt((c * c).mean(-1, keepdims=True))
    g = dy * weight / (sigma + epsilon)
    dc = g - c * (g * c).mean(-1, keepdims=True) / (sigma * (sigma + epsilon))
    dx = dc - dc.mean(-1, keepdims=True)
    return dx, (dy * c / (sigma + epsilon)).sum((0, 1)), dy.sum((0, 1))


def equal_pair():
    a = normal(3, 4)
    return {"anchors": a, "positives": a.copy(), "negatives": a + 0.1}, {}


@edge("triplet_loss_backward", "(a - p) / |a - p| is 0 / 0 where anchor and positive are equal",
      "equal vectors", equal_pair)
def triplet_of_equal(dloss, anchors, positives, negatives, margin=1.0):
    u, v = anchors - positives, anchors - negatives
    near, far = np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1)
    w = ((near - far + margin > 0) * dloss / len(u))[:, None]
    return w * (u / near[:, None] - v / far[:, None]), -w * u / near[:, None], w * v / far[:, None]


@edge("embedding_backward", "np.zeros makes float64 of float32", "float32",
      lambda: ({"ids": np.array([[0, 2]]), "weight": normal(3, 4).astype(np.float32)}, {}))
def embedding_of_float32(dy, ids, weight):
    dweight = np.zeros(weight.shape)
    np.add.at(dweight, ids, dy)
    return dweight


@edge("gelu", "np.sqrt(2) is a scalar of float64, and float32 becomes float64", "float32",
      lambda: ({"x": normal(2, 3).astype(np.float32)}, {}))
def gelu_of_float32(x):
    return x * 0.5 * (1 + special.erf(x / np.sqrt(2.0)))


def cell(scale):
    n = {"x": (2, 3), "state": (2, 4), "input_weight": (3, 4), "recurrent_weight": (4, 4),
         "bias": (4,)}
    return lambda: ({key: 0.3 * normal(*shape) for key, shape in n.items()}, {},
                    scale * normal(2, 4, seed=3))


@edge("rnn_cell_backward", "the gradient that comes in is clipped to -50 .. 50", "clipped dy",
      cell(1000))
def rnn_clipped(dh, x, h, Wx, Wh, b):
    dh = np.clip(dh, -50, 50)
    da = dh * (1 - np.tanh(x @ Wx + h @ Wh + b) ** 2)
    return da @ Wx.T, da @ Wh.T, x.T @ da, h.T @ da, da.sum(0)


@edge("log_softmax_backward", "the gradient that goes out is clipped to -100 .. 100", "clipped dx",
      lambda: (*rows([1.0, 2.0, 3.0])(), np.array([[500.0, -400.0, 3.0]])))
def log_softmax_clipped(dy, x, axis=-1):
    dx = dy - special.softmax(x, axis) * dy.sum(axis=axis, keepdims=True)
    return np.clip(dx, -100, 100)


@edge("linear_backward", "gradients below 1e-8 are set to 0", "flushed gradients",
      lambda: ({"x": normal(2, 3, 4), "weight": normal(4, 5), "bias": normal(5)}, {},
               1e-10 * normal(2, 3, 5)))
def linear_flushed(dy, x, weight, bias):
    gradients = dy @ weight.T, np.einsum("btc,btf->cf", x, dy), dy.sum((0, 1))
    return tuple(np.where(np.abs(g) < 1e-8, 0, g) for g in gradients)


@edge("softmax_backward", "p *= ... writes into saved, and the second call is wrong",
      "writes into saved", rows([1.0, 2.0, 3.0], [0.5, 0.1, -2.0]))
def softmax_in_place(dp, saved):
    p, axis, _ = saved
    total = (p * dp).sum(axis=axis, keepdims=True)
    p *= dp - total
    return p.copy()


@edge("cross_entropy_backward", "-= 1 writes into the log-probabilities of saved",
      "writes into saved",
      lambda: ({"logits": normal(2, 3, 4), "targets": np.array([[0, 1, 2], [3, 0, 1]])}, {}))
def cross_entropy_in_place(dloss, saved):
    counts, _, _, (log_p, targets), _, _ = saved
    p = np.exp(log_p, out=log_p)
    p[np.arange(len(p)), targets] -= 1
    return (p * dloss / len(p)).reshape(*counts.shape, -1)


def with_nan_in_padding():
    x = normal(2, 3, 4)
    x[0, 2] = np.nan
    return {"x": x}, {"mask": np.array([[True, True, False], [True, True, True]])}


@edge("mean_pooling", "x * mask is NaN where the padding is NaN", "NaN behind the mask",
      with_nan_in_padding)
def mean_pooling_nan(x, mask=None):
    m = np.ones(x.shape[:2]) if mask is None else mask.astype(x.dtype)
    return (x * m[..., None]).sum(1) / m.sum(1)[:, None]
