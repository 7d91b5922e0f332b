"""Functions of single numbers, and the gated linear unit."""

import math
import re

import numpy as np

from numformer import functional as F
from numformer.docstrings import docstring, formulas
from numformer.specifications.levels import (
    Level, elementwise, one_array, sizes, with_activations)
from numformer.specifications.pair import Pair
from numformer.specifications.specification import SPECIFICATIONS, specify


FORWARD = "Each number by itself, in an array of any shape. Nothing may overflow for a large |x|."
BACKWARD = "Each x has one output, so dx is dy times the derivative at x; save what it is made of."


def pointwise(function, at_zero=None, mistakes=(), hints=(), backward_hints=(),
              forward_mistakes=(), names=None, **options):
    """Specify a function of single numbers, with a level for each option.

    Without hints there are those of the docstrings: what they begin with, and their formula.
    """
    gradient = getattr(F, f"{function.__name__}_backward")
    specify(function, ("x",), elementwise(at_zero, **options), (), mistakes, last_axes={"x": 0},
            forward_mistakes=forward_mistakes, names=names or {},
            hints=hints or hints_of_docstring(function, FORWARD),
            backward_hints=backward_hints or hints_of_docstring(gradient, BACKWARD))


def hints_of_docstring(function, of_all):
    """Three hints: the first sentence of a docstring, what holds for all, and the formula."""
    text = docstring(function)
    return text.splitlines()[0], of_all, f"{plain_formula(formulas(text)[0])}."


def plain_formula(formula):
    r"""A formula of LaTeX without its commands.

    Examples
    --------
    >>> plain_formula(r"\bar{x} = \bar{y} \left( g + x\, (1 - g^2)\, \sigma(x) \right)")
    'dx = dy ( g + x (1 - g^2) sigma(x) )'
    """
    formula = re.sub(r"\\(?:left|right|quad|qquad|[,;!])", " ", formula)
    formula = re.sub(r"\\bar\{(\w+)\}", r"d\1", formula)
    formula = re.sub(r"\\(?:mathrm|frac)?|[{}]", "", formula)
    return " ".join(formula.split())


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
    mistakes=[("the mask is dy > 0, but must be x > 0", lambda dy, x: np.where(dy > 0, dy, 0))],
    hints=(
        "Every number is on its own: a positive one passes, any other becomes 0. NumPy compares "
        "all of them at once, without a loop.",
        "Make a mask of the shape of x, True where x > 0. Two arrays are compared entry by entry; "
        "x.max() would return one number.",
        "np.where chooses between two values by that mask: x where it is True, 0 elsewhere."),
    backward_hints=(
        "One path, entry by entry: the slope of max(0, x) is 1 where x > 0 and 0 where x < 0. At "
        "0 it is taken as 0.",
        "Only the signs of x need to be kept. The mask comes from x, never from dy: a negative dy "
        "passes where x is positive.",
        "dx is dy where x > 0, and 0 everywhere else: one np.where, or one product with the mask."))


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
        ("the mask is missing: the derivative is 0 where x is negative", lambda dy, x: dy * 2 * x)],
    hints=(
        "Two steps, entry by entry: first the larger of x and 0, then its square.",
        "np.maximum compares two arrays entry by entry; np.max and x.max() return one number.",
        "With positive = np.maximum(x, 0), y is positive times itself."),
    backward_hints=(
        "Where x is negative, y is 0; where it is positive, y = x^2. Differentiate both pieces.",
        "The square gives the factor 2 positive, where positive is max(0, x). It is 0 wherever "
        "the ReLU is closed, so no second mask is needed.",
        "dx is dy times 2 times the positive part of x, all of one shape."))


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
         * (np.sqrt(2 * np.pi) - 1))],
    names={"below": "Phi(x)", "cdf": "Phi(x)", "density": "phi(x)", "pdf": "phi(x)"},
    hints=(
        "x is weighted by Phi(x), the probability that a standard normal variable is below x. The "
        "weight comes from the error function.",
        "Phi(x) = erfc(-x / sqrt(2)) / 2, with erfc of scipy.special. The form (1 + erf(x / "
        "sqrt(2))) / 2 loses digits for very negative x.",
        "y = x * below, where below is half of erfc at x times -sqrt(0.5). No tanh: that is "
        "gelu_tanh."),
    backward_hints=(
        "y = x Phi(x) is a product, and x enters both factors: the product rule gives two terms.",
        "The derivative of Phi is the normal density, exp(-x^2 / 2) / sqrt(2 pi). The other term "
        "keeps Phi(x) itself: save it, as erfc is expensive.",
        "dx = dy * (below + x * density), with below = Phi(x) from the forward; do not forget 1 / "
        "sqrt(2 pi) in the density."))


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
         lambda dy, x: dy * F.gelu_tanh(x)[0] / x)],
    hints=(
        "The function is elementwise. Give the argument of tanh a name first.",
        "Both factors, sqrt(2 / pi) and (x + 0.044715 x^3), are inside the tanh. The outer factor "
        "x / 2 multiplies the whole bracket, 1 included.",
        "y = 0.5 * x * (1 + t), with t = np.tanh(u) and u = sqrt(2 / pi) (x + 0.044715 x^3)."),
    backward_hints=(
        "y = x (1 + t) / 2 with t = tanh(u) is a product, and t depends on x through u: use the "
        "product rule, then the chain rule.",
        "dt / du = 1 - t^2, and du / dx = sqrt(2 / pi) (1 + 3 * 0.044715 x^2). tanh is the "
        "expensive part: save t.",
        "dx = 0.5 * dy * (1 + t + x * slope), where slope is (1 - t * t) times du / dx."))


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
         lambda dy, x: dy * gate(x) * (1 - gate(x)))],
    hints=(
        "x is multiplied by its own gate, the logistic function of x: y = x sigma(x), entry by "
        "entry.",
        "Check the sign of the exponent, and put the denominator in parentheses: x / 1 + exp(-x) "
        "is another function.",
        "The gate is 1 / (1 + np.exp(-x)), between 0 and 1; y is x times the gate."),
    backward_hints=(
        "With the gate s = 1 / (1 + exp(-x)), y = x s is a product of two factors that both "
        "contain x: use the product rule.",
        "The derivative of s is s (1 - s). The derivative of y has two terms: one from the factor "
        "x and one from s.",
        "dx = dy * (s + x * ds), where ds is the derivative s (1 - s) of the gate, with the gate "
        "s of the forward."))


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
         lambda dy, x: F.silu_backward(dy, F.silu(x)[1]))],
    hints=(
        "GELU with a logistic function in place of Phi: x times sigma of 1.702 x. It is swish "
        "with beta = 1.702.",
        "1.702 multiplies x inside the exponent alone, with a minus sign; the x in front is not "
        "scaled.",
        "y = x * gate, with gate = 1 / (1 + exp(-1.702 x))."),
    backward_hints=(
        "The product rule on x times the gate gives two terms; in the second, 1.702 comes out of "
        "the gate by the chain rule.",
        "The derivative of the gate with respect to x is 1.702 gate (1 - gate). Save the gate, "
        "and x.",
        "dx = dy * (gate + 1.702 * x * d), with d = gate * (1 - gate)."))


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
         lambda dy, x: dy * (1 - gate(x) ** 2))],
    hints=(
        "The function is elementwise. exp(-x) overflows for very negative x, so which exponent is "
        "safe on which side?",
        "exp(-|x|) is at most 1. For x >= 0, y = 1 / (1 + exp(-x)); multiply numerator and "
        "denominator by exp(x) for x < 0.",
        "With decay = exp(-|x|): divide 1 where x >= 0, and decay where x < 0, by 1 + decay."),
    backward_hints=(
        "One path, entry by entry. Differentiate 1 / (1 + exp(-x)), and express the result by y "
        "alone: neither x nor exp is left.",
        "The derivative is exp(-x) / (1 + exp(-x))^2. One factor is y, the other is 1 - y. So "
        "only y is saved.",
        "dx is dy times y times (1 - y). (1 - y^2 would be the derivative of tanh.)"))


# ---- swish ---------------------------------------------------------------------------------------

def swish(x, beta=1.0):
    s = 1 / (1 + np.exp(-beta * x))
    return x * s


def swish_backward(dy, x, beta=1.0):
    s = 1 / (1 + np.exp(-beta * x))
    return dy * (s + x * beta * s * (1 - s))


pointwise(
    F.swish, beta=1.7,
    forward_mistakes=[("beta multiplies the sigmoid, but must multiply x inside it",
                       lambda x, beta=1.0: beta * x * gate(x))],
    mistakes=[
        ("the derivative of the gate is missing: the product rule has two terms",
         lambda dy, x, beta=1.0: dy * gate(x, beta)),
        ("beta is missing in the derivative of the gate",
         lambda dy, x, beta=1.0: dy * (gate(x, beta) + x * gate(x, beta) * (1 - gate(x, beta)))),
        ("beta is missing", lambda dy, x, beta=1.0: F.silu_backward(dy, F.silu(x)[1]))],
    hints=(
        "Every number is multiplied by its own gate, the logistic function of beta x.",
        "beta is inside the gate alone: y = x sigma(beta x). With beta = 1 it is silu, with a "
        "large beta nearly relu.",
        "gate = 1 / (1 + np.exp(-beta * x)); then y is x times this gate."),
    backward_hints=(
        "x enters twice: as the factor in front, and through the gate sigma(beta x). The product "
        "rule adds both paths.",
        "The gate's derivative with respect to its argument is gate (1 - gate); the chain rule "
        "multiplies it by beta, the slope of beta x.",
        "dx = dy * gate + dgate * beta * gate * (1 - gate), with dgate = dy * x."))


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


def without_quick_factor(dy, g, h, activation="silu"):
    dg, dh = dy * h * slope(g, activation), dy * value(g, activation)
    if activation == "quick_gelu":
        s = F.sigmoid(1.702 * g)[0]
        dg = dy * h * (s + g * s * (1 - s))
    return dg, dh


specify(
    F.gated_linear_unit, ("g", "h"),
    {"plain": gated(), **with_activations(gated, F.ACTIVATIONS, "silu")},
    cases=[*(Pair(f"gated linear unit, {f}", [(3, 4), (3, 4)], after=(f,)) for f in F.ACTIVATIONS)],
    mistakes=[
        ("the derivative of the activation is missing in dg",
         lambda dy, g, h, activation="silu": (dy * h, dy * value(g, activation))),
        ("dg has the activation f(g) in place of its derivative f'(g)",
         lambda dy, g, h, activation="silu": (dy * h * value(g, activation),
                                              dy * value(g, activation))),
        ("h is missing in dg: the derivative of f(g) h with respect to g is f'(g) h",
         lambda dy, g, h, activation="silu": (dy * slope(g, activation),
                                              dy * value(g, activation))),
        ("dh is dy * g, but must be dy * f(g)",
         lambda dy, g, h, activation="silu": (dy * h * slope(g, activation), dy * g)),
        ("the derivative of SiLU is s + g s (1 - s); s (1 - s) is that of the sigmoid",
         lambda dy, g, h, activation="silu": (
             dy * h * F.sigmoid(g)[0] * F.sigmoid(-g)[0] if activation == "silu"
             else dy * h * slope(g, activation), dy * value(g, activation))),
        ("the derivative of quick_gelu, g * sigmoid(1.702 g), lacks the factor 1.702 of its second "
         "term", without_quick_factor),
        ("the derivative of the activation is taken at its output, but must be taken at its input",
         lambda dy, g, h, activation="silu": (
             dy * h * slope(value(g, activation), activation), dy * value(g, activation)))],
    last_axes={"g": 0, "h": 0},
    hints=(
        "Only g passes through the activation; h stays linear. The two are multiplied entry by "
        "entry.",
        "f is silu{activation| unless activation names another}: silu(g) = g / (1 + "
        "exp(-g)).{activation| ACTIVATIONS[activation] is a pair, forward and backward.}",
        "a = f(g), of the shape of g; y is the elementwise product of a and h, not a matrix "
        "product."),
    backward_hints=(
        "y = f(g) h is a product: each factor's gradient is dy times the other one. g has a "
        "second step, through f.",
        "dh is dy times the activated gate a = f(g), not times g. For dg, first da = dy h, then "
        "through f: silu(g) = g s has the slope s + g s (1 - s).",
        "dh = dy * a, and dg = dy * h * f'(g), in the order dg, dh; all have the shape of g."))


# ---- what else is in the table -------------------------------------------------------------------

for name in F.ACTIVATIONS:
    if name not in SPECIFICATIONS:
        pointwise(getattr(F, name))
