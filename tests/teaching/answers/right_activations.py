"""Right answers: softmax and activations."""

import functools
import math

import numpy as np
from scipy import special, stats

from answers.corpus import right
from numformer import functional as F


@right("softmax", "SciPy")
def softmax_by_scipy(x, axis=-1):
    return special.softmax(x, axis=axis)


@right("softmax", "loop over rows")
def softmax_by_rows(z):
    rows = []
    for row in z.reshape(-1, z.shape[-1]):
        largest = max(row)
        weights = [math.exp(number - largest) for number in row]
        rows.append([w / math.fsum(weights) for w in weights])
    return np.array(rows, z.dtype).reshape(z.shape)


@right("softmax", "exp of log_softmax")
def softmax_by_logs(x, axis=-1, mask=None):
    if mask is not None:
        x = np.where(mask, x, -np.inf)
    return np.exp(x - special.logsumexp(x, axis=axis, keepdims=True))


@right("softmax", "longdouble inside")
def softmax_long(scores, dim=-1):
    e = np.exp(scores.astype(np.longdouble) - scores.max(axis=dim, keepdims=True))
    return (e / e.sum(axis=dim, keepdims=True)).astype(scores.dtype)


right("softmax", "lambda, Fortran order")(
    lambda x: np.asfortranarray(np.exp(x - x.max(-1)[..., None])
                                / np.exp(x - x.max(-1)[..., None]).sum(-1)[..., None]))


@right("softmax", "pair with saved")
def softmax_pair(x, axis=-1, mask=None):
    if mask is None:
        mask = np.ones(x.shape, bool)
    top = np.max(x, axis=axis, keepdims=True, where=mask, initial=-np.inf)
    e = np.where(mask, np.exp(x - top), 0.0)
    p = e / e.sum(axis=axis, keepdims=True)
    return p, (p, axis)


@right("softmax_backward", "explicit Jacobian")
def softmax_jacobian(dp, x):
    p = special.softmax(x, axis=-1)
    dx = np.empty_like(x)
    for i in np.ndindex(p.shape[:-1]):
        jacobian = np.diag(p[i]) - np.outer(p[i], p[i])
        dx[i] = jacobian @ dp[i]
    return dx


@right("softmax_backward", "multiplied out")
def softmax_multiplied_out(dp, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p * dp - p * (p * dp).sum(axis=-1, keepdims=True)


@right("softmax_backward", "einsum Jacobian")
def softmax_einsum(dp, x):
    p = special.softmax(x, axis=-1)
    identity = np.eye(p.shape[-1], dtype=p.dtype)
    jacobian = np.einsum("...i,ij->...ij", p, identity) - np.einsum("...i,...j->...ij", p, p)
    return np.einsum("...ij,...j->...i", jacobian, dp)


@right("softmax_backward", "quotient rule")
def softmax_quotient(dp, x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    total = e.sum(axis=axis, keepdims=True)
    de = dp / total - (dp * e).sum(axis=axis, keepdims=True) / total**2
    return de * e


@right("softmax_backward", "takes saved")
def softmax_saved(dp, saved):
    p, axis, mask = saved
    inner = np.sum(dp * p, axis=axis)
    return np.multiply(p, np.subtract(dp, np.expand_dims(inner, axis)))


@right("softmax_backward", "axis moved, mask")
def softmax_moved(dp, x, axis=-1, mask=None):
    if mask is not None:
        x = np.where(mask, x, -1e30)
    p = np.moveaxis(special.softmax(x, axis=axis), axis, -1)
    g = np.moveaxis(dp, axis, -1)
    dx = p * (g - (p[..., None, :] @ g[..., None])[..., 0])
    return np.moveaxis(dx, -1, axis)


@right("log_softmax", "SciPy")
def log_softmax_by_scipy(x, axis=-1):
    return special.log_softmax(x, axis)


@right("log_softmax", "logaddexp.reduce")
def log_softmax_by_logaddexp(scores):
    return scores - np.logaddexp.reduce(scores, axis=-1)[..., np.newaxis]


@right("log_softmax_backward", "Jacobian, strided view")
def log_softmax_jacobian(dy, x):
    p, V = special.softmax(x, axis=-1), x.shape[-1]
    out = np.zeros((*x.shape[:-1], 2 * V), x.dtype)
    for n in np.ndindex(x.shape[:-1]):
        out[(*n, slice(None, None, 2))] = (np.eye(V) - np.outer(np.ones(V), p[n])).T @ dy[n]
    return out[..., ::2]


@right("log_softmax_backward", "SciPy, keyword axis")
def log_softmax_keyword(dy, x, *, axis=-1):
    total = np.add.reduce(dy, axis=axis, keepdims=True)
    return -(special.softmax(x, axis=axis) * total - dy)


@right("relu", "half the sum")
def relu_by_abs(x):
    return (x + np.abs(x)) / 2


right("relu", "partial of np.maximum")(functools.partial(np.maximum, 0.0))


@right("relu_backward", "np.heaviside")
def relu_heaviside(dy, x):
    return dy * np.heaviside(x, 0)


@right("relu_backward", "copy, zero by mask")
def relu_zeroed(grad, inputs):
    out = grad.copy()
    out[inputs <= 0] = 0
    return out


@right("relu_squared_backward", "loop over ndindex")
def relu_squared_loop(dy, x):
    dx = np.zeros(x.shape, x.dtype)
    for index in np.ndindex(*x.shape):
        if x[index] > 0:
            dx[index] = dy[index] * 2 * x[index]
    return dx


@right("relu_squared", "x times relu")
def relu_squared_product(x):
    return x * np.clip(x, 0, None)


@right("gelu", "norm.cdf")
def gelu_by_cdf(x):
    return (x * stats.norm.cdf(x)).astype(x.dtype)


@right("gelu", "math.erf vectorised")
def gelu_by_math(x):
    values = np.vectorize(lambda t: 0.5 * t * (1 + math.erf(t / math.sqrt(2))))(x)
    return values.astype(x.dtype)


@right("gelu_backward", "norm.pdf")
def gelu_by_pdf(dy, x):
    return (dy * stats.norm.cdf(x) + dy * x * stats.norm.pdf(x)).astype(x.dtype)


class GeluBackward:
    """A callable object with a constant of its own."""

    def __init__(self):
        self.constant = 1 / math.sqrt(2 * math.pi)

    def __call__(self, dy, x):
        phi = 0.5 * (1 + special.erf(x / math.sqrt(2)))
        return dy * (phi + x * self.constant * np.exp(-x**2 / 2))


right("gelu_backward", "callable class")(GeluBackward())


@right("gelu_tanh", "as a sigmoid")
def gelu_tanh_by_expit(x):
    return x * special.expit(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


@right("gelu_tanh_backward", "sech squared")
def gelu_tanh_by_cosh(dy, x):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * np.power(x, 3))
    du = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return dy * 0.5 * (1 + np.tanh(u) + x * du / np.cosh(u)**2)


@right("sigmoid", "SciPy expit")
def sigmoid_by_expit(x):
    return special.expit(x)


right("sigmoid", "tanh, lambda")(lambda x: 0.5 + 0.5 * np.tanh(0.5 * x))


@right("sigmoid_backward", "product of expits")
def sigmoid_expits(dy, x):
    return dy * special.expit(x) * special.expit(-x)


class Activations:
    """Functions kept together in a class."""

    @classmethod
    def swish_backward(cls, dy, x, beta=1.0):
        s = special.expit(beta * x)
        return dy * (beta * x * s + s * (1 - beta * x * s))

    @staticmethod
    def silu(x):
        return x / (1 + np.exp(-x))


right("swish_backward", "classmethod, other form")(Activations.swish_backward)
right("silu", "staticmethod, x over 1 + exp")(Activations.silu)


@right("silu_backward", "list comprehension")
def silu_listed(dy, x):
    def slope(t):
        s = 0.5 + 0.5 * math.tanh(t / 2)
        return s + t * s * (1 - s)
    return np.array([g * slope(t) for g, t in zip(dy.flat, x.flat)], x.dtype).reshape(x.shape)


@right("swish", "float64 inside, out=")
def swish_out(x, beta=1.0):
    y = np.empty(x.shape, np.float64)
    special.expit(np.multiply(beta, x), out=y)
    np.multiply(y, x, out=y)
    return y.astype(x.dtype)


@right("gated_linear_unit_backward", "plain arguments only")
def swiglu_backward(dy, gate, up):
    s = special.expit(gate)
    return [dy * up * s * (1 + gate * (1 - s)), dy * gate * s]


@right("gated_linear_unit", "dispatch on activation")
def gated(g, h, activation="silu"):
    table = {"silu": lambda t: t * special.expit(t), "relu": lambda t: np.fmax(t, 0),
             "gelu": lambda t: t * special.ndtr(t)}
    return np.einsum("...,...->...", table[activation](g), h)


@right("soft_cap_backward", "sech squared")
def soft_cap_sech(dy, x, cap):
    return dy / np.cosh(x / cap) ** 2


@right("dropout_backward", "multiply by kept")
def dropout_kept(dy, x, rate, rng):
    kept = F.dropout_mask(F.dropout_seed(rng), x.shape, rate)
    return kept * dy / (1 - rate)
