"""Functions of single numbers, and the gated linear unit."""

import math

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import Level, elementwise, one_array, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import SPECIFICATIONS, specify


def pointwise(function, at_zero=None, mistakes=(), **options):
    """Specify a function of single numbers, with a level for each option."""
    specify(function, ("x",), elementwise(at_zero, **options), (), mistakes, last_axes={"x": 0})


# ---- relu ----------------------------------------------------------------------------------------

def relu(x):
    return np.where(x > 0, x, 0)


def relu_backward(dy, x):
    return dy * (x > 0)


def with_zeros(rng):
    arguments, options = one_array()(rng)
    arguments["x"][0] = 0
    return arguments, options


KINK = "At 0 the slope of ReLU is taken as 0."


pointwise(
    F.relu, Level(with_zeros, KINK, required=False),
    mistakes=[("the mask is dy > 0, but must be x > 0", lambda dy, x: np.where(dy > 0, dy, 0))])


# ---- relu_squared --------------------------------------------------------------------------------

def relu_squared(x):
    return np.maximum(x, 0) ** 2


def relu_squared_backward(dy, x):
    return dy * 2 * np.where(x > 0, x, 0)


pointwise(
    F.relu_squared,
    mistakes=[
        ("the factor 2 is missing: the derivative is 2 max(0, x)",
         lambda dy, x: dy * np.maximum(x, 0)),
        ("the mask is missing: the derivative is 0 where x is negative", lambda dy, x: dy * 2 * x)])


# ---- gelu ----------------------------------------------------------------------------------------

def gelu(x):
    from scipy.special import erf
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def gelu_backward(dy, x):
    from scipy.special import erf
    cdf = 0.5 * (1 + erf(x / math.sqrt(2)))
    pdf = np.exp(-x ** 2 / 2) / math.sqrt(2 * math.pi)
    return dy * (cdf + x * pdf)


def normal_density(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


pointwise(
    F.gelu,
    mistakes=[
        ("the term x * density is missing: the product rule has two terms",
         lambda dy, x: dy * (1 - F.gelu(-x)[0] / -x)),
        ("this is the derivative of the tanh approximation of GELU",
         lambda dy, x: F.gelu_tanh_backward(dy, F.gelu_tanh(x)[1])),
        ("the factor 1 / sqrt(2 pi) of the density is missing",
         lambda dy, x: F.gelu_backward(dy, F.gelu(x)[1]) + dy * x * normal_density(x)
         * (np.sqrt(2 * np.pi) - 1))])


# ---- gelu_tanh -----------------------------------------------------------------------------------

def gelu_tanh(x):
    c = math.sqrt(2 / math.pi)
    u = c * (x + 0.044715 * x ** 3)
    return 0.5 * x * (1 + np.tanh(u))


def gelu_tanh_backward(dy, x):
    c = math.sqrt(2 / math.pi)
    u = c * (x + 0.044715 * x ** 3)
    t = np.tanh(u)
    du = c * (1 + 3 * 0.044715 * x ** 2)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t ** 2) * du)


pointwise(
    F.gelu_tanh,
    mistakes=[
        ("this is the derivative of the exact GELU",
         lambda dy, x: F.gelu_backward(dy, F.gelu(x)[1])),
        ("the term through the tanh is missing: the product rule has two terms",
         lambda dy, x: dy * F.gelu_tanh(x)[0] / x)])


# ---- silu ----------------------------------------------------------------------------------------

def silu(x):
    s = 1 / (1 + np.exp(-x))
    return x * s


def silu_backward(dy, x):
    s = 1 / (1 + np.exp(-x))
    return dy * (s + x * s * (1 - s))


def silu_backward_in_y(dy, x):
    s = 1 / (1 + np.exp(-x))
    y = x * s
    return dy * (y + s * (1 - y))


def gate(x, beta=1.0):
    return F.sigmoid(beta * x)[0]


pointwise(
    F.silu,
    mistakes=[
        ("the derivative of the gate is missing: the product rule has two terms",
         lambda dy, x: dy * gate(x)),
        ("this is the derivative of the gate only, without x",
         lambda dy, x: dy * gate(x) * (1 - gate(x)))])


# ---- quick_gelu ----------------------------------------------------------------------------------

def quick_gelu(x):
    return x / (1 + np.exp(-1.702 * x))


def quick_gelu_backward(dy, x):
    s = 1 / (1 + np.exp(-1.702 * x))
    return dy * (s + 1.702 * x * s * (1 - s))


pointwise(
    F.quick_gelu,
    mistakes=[
        ("1.702 is missing: this is the gradient of SiLU",
         lambda dy, x: F.silu_backward(dy, F.silu(x)[1]))])


# ---- sigmoid -------------------------------------------------------------------------------------

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sigmoid_backward(dy, x):
    y = 1 / (1 + np.exp(-x))
    return dy * y * (1 - y)


pointwise(
    F.sigmoid,
    mistakes=[
        ("the factor 1 - y is missing: the derivative is y * (1 - y)", lambda dy, x: dy * gate(x)),
        ("the factor y is missing: the derivative is y * (1 - y)",
         lambda dy, x: dy * (1 - gate(x))),
        ("x is used instead of y = sigmoid(x)", lambda dy, x: dy * x * (1 - x)),
        ("1 - y**2 is the derivative of tanh: that of sigmoid is y * (1 - y)",
         lambda dy, x: dy * (1 - gate(x) ** 2))])


# ---- swish ---------------------------------------------------------------------------------------

def swish(x, beta=1.0):
    s = 1 / (1 + np.exp(-beta * x))
    return x * s


def swish_backward(dy, x, beta=1.0):
    s = 1 / (1 + np.exp(-beta * x))
    return dy * (s + x * beta * s * (1 - s))


pointwise(
    F.swish, beta=1.7,
    mistakes=[
        ("the derivative of the gate is missing: the product rule has two terms",
         lambda dy, x, beta=1.0: dy * gate(x, beta)),
        ("beta is missing in the derivative of the gate",
         lambda dy, x, beta=1.0: dy * (gate(x, beta) + x * gate(x, beta) * (1 - gate(x, beta)))),
        ("beta is missing", lambda dy, x, beta=1.0: F.silu_backward(dy, F.silu(x)[1]))])


# ---- gated_linear_unit ---------------------------------------------------------------------------

def gated_linear_unit(g, h, activation="silu"):
    s = 1 / (1 + np.exp(-g))
    a = g * s if activation == "silu" else np.maximum(g, 0)
    return a * h


def gated_linear_unit_backward(dy, g, h, activation="silu"):
    s = 1 / (1 + np.exp(-g))
    a = g * s if activation == "silu" else np.maximum(g, 0)
    slope = s + g * s * (1 - s) if activation == "silu" else (g > 0) * 1.0
    dg = dy * h * slope
    dh = dy * a
    return dg, dh


def gated(**options):
    def make(rng):
        rows, columns = sizes(rng, 2)
        g, h = 1.5 * rng.standard_normal((2, rows, columns))
        return {"g": g, "h": h}, options
    return make


def value(g, activation):
    return F.ACTIVATIONS[activation][0](g)[0]


def slope(g, activation):
    f, f_backward = F.ACTIVATIONS[activation]
    return f_backward(np.ones_like(g), f(g)[1])


specify(
    F.gated_linear_unit, ("g", "h"),
    {"plain": gated(), 'activation="relu"': gated(activation="relu")},
    cases=[*(Pair(f"gated linear unit, {f}", [(3, 4), (3, 4)], after=(f,)) for f in F.ACTIVATIONS)],
    mistakes=[
        ("the derivative of the activation is missing in dg",
         lambda dy, g, h, activation="silu": (dy * h, dy * value(g, activation))),
        ("h is missing in dg: the derivative of f(g) h with respect to g is f'(g) h",
         lambda dy, g, h, activation="silu": (dy * slope(g, activation),
                                              dy * value(g, activation))),
        ("dh is dy * g, but must be dy * f(g)",
         lambda dy, g, h, activation="silu": (dy * h * slope(g, activation), dy * g))],
    last_axes={"g": 0, "h": 0})


# ---- what else is in the table -------------------------------------------------------------------

for name in F.ACTIVATIONS:
    if name not in SPECIFICATIONS:
        pointwise(getattr(F, name))
