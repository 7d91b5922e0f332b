"""Wrong answers: GELU, ReLU, sigmoid, soft capping."""

import math

import numpy as np
from scipy.special import erf, expit
from scipy.stats import norm

from answers.corpus import wrong


@wrong("gelu_backward", "the term x times the density is missing")
def gelu_b_cdf(dy, x):
    return dy * norm.cdf(x)


@wrong("gelu_backward", "the factor x of the density is missing")
def gelu_b_no_x(dy, x):
    return dy * (norm.cdf(x) + norm.pdf(x))


@wrong("gelu_backward", "the density is exp(-x**2), without the one half")
def gelu_b_half(dy, x):
    phi = 0.5 * (1 + erf(x / np.sqrt(2)))
    return dy * (phi + x * np.exp(-x**2) / np.sqrt(2 * np.pi))


@wrong("gelu_backward", "1 / sqrt(pi) for 1 / sqrt(2 pi) in the density")
def gelu_b_pi(dy, x):
    phi = 0.5 * (1 + erf(x / np.sqrt(2)))
    return dy * (phi + x * np.exp(-x**2 / 2) / np.sqrt(np.pi))


@wrong("gelu_backward", "minus for plus between cdf and density")
def gelu_b_minus(dy, x):
    return dy * (norm.cdf(x) - x * norm.pdf(x))


@wrong("gelu_backward", "the gradient of the tanh approximation for that of the exact GELU")
def gelu_b_tanh(dy, x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * c * (1 + 3 * 0.044715 * x**2))


@wrong("gelu_backward", "erf of x, not of x / sqrt(2)")
def gelu_b_erf(dy, x):
    return dy * (0.5 * (1 + erf(x)) + x * norm.pdf(x))


@wrong("gelu_backward", "dy is multiplied by only the first term")
def gelu_b_bracket(dy, x):
    return dy * norm.cdf(x) + x * norm.pdf(x)


@wrong("gelu_backward", "the gradient is 1% too large")
def gelu_b_percent(dy, x):
    return 1.01 * dy * (norm.cdf(x) + x * norm.pdf(x))


@wrong("gelu_tanh_backward", "the derivative of the inner polynomial is missing")
def gelu_tanh_b_no_inner(dy, x):
    t = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2))


@wrong("gelu_tanh_backward", "the 3 of the derivative of x**3 is missing")
def gelu_tanh_b_three(dy, x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * c * (1 + 0.044715 * x**2))


@wrong("gelu_tanh_backward", "1 - t in place of 1 - t**2")
def gelu_tanh_b_square(dy, x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t) * c * (1 + 3 * 0.044715 * x**2))


@wrong("gelu_tanh_backward", "the factor x of the second term is missing")
def gelu_tanh_b_no_x(dy, saved):
    x, t = saved
    c = math.sqrt(2 / math.pi)
    return dy * 0.5 * (1 + t + (1 - t * t) * c * (1 + 0.134145 * x * x))


@wrong("gelu_tanh_backward", "sqrt(2 / pi) is forgotten in the derivative")
def gelu_tanh_b_root(dy, x):
    t = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return dy * 0.5 * (1 + t + x * (1 - t * t) * (1 + 0.134145 * x * x))


@wrong("gelu_tanh_backward", "the one half of the second term is missing")
def gelu_tanh_b_half(dy, x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return dy * (0.5 * (1 + t) + x * (1 - t**2) * c * (1 + 3 * 0.044715 * x**2))


@wrong("gelu_tanh_backward", "the gradient of the exact GELU for that of the tanh approximation")
def gelu_tanh_b_exact(dy, x):
    return dy * norm.cdf(x) + dy * x * norm.pdf(x)


@wrong("sigmoid_backward", "1 - y**2, the derivative of tanh")
def sigmoid_b_tanh(dy, x):
    y = expit(x)
    return dy * (1 - y**2)


@wrong("sigmoid_backward", "x (1 - x): the derivative is evaluated at the input")
def sigmoid_b_input(dy, x):
    return dy * x * (1 - x)


@wrong("sigmoid_backward", "the factor y is missing")
def sigmoid_b_factor(dy, x):
    return dy * (1 - expit(x))


@wrong("sigmoid_backward", "plus for minus: y (1 + y)")
def sigmoid_b_plus(dy, saved):
    y, = saved
    return dy * y * (1 + y)


@wrong("relu_backward", "the mask is the wrong way round")
def relu_b_inverted(dy, x):
    return np.where(x > 0, 0, dy)


@wrong("relu_backward", "relu of the gradient: the mask is of dy, not of x")
def relu_b_of_dy(dy, x):
    return np.maximum(dy, 0)


@wrong("relu_backward", "multiplied by relu(x), not by its slope")
def relu_b_times_x(dy, x):
    return dy * np.maximum(x, 0)


@wrong("relu_squared_backward", "the factor 2 is forgotten")
def relu_squared_b_two(dy, x):
    return dy * np.maximum(x, 0)


@wrong("relu_squared_backward", "negative inputs get a gradient: 2 x everywhere")
def relu_squared_b_mask(dy, x):
    return 2 * x * dy


@wrong("relu_squared_backward", "the slope of relu alone: the outer square is not derived")
def relu_squared_b_outer(dy, x):
    return dy * (x > 0)


@wrong("soft_cap_backward", "the square is missing: 1 - tanh")
def soft_cap_b_square(dy, x, cap):
    return dy * (1 - np.tanh(x / cap))


@wrong("soft_cap_backward", "an additional factor cap: the inner derivative 1 / cap is forgotten")
def soft_cap_b_inner(dy, x, cap):
    return dy * cap * (1 - np.tanh(x / cap) ** 2)


@wrong("soft_cap_backward", "1 - y**2 with the output y, which is cap * tanh")
def soft_cap_b_output(dy, saved):
    y, cap = saved
    return dy * (1 - y**2)


@wrong("soft_cap_backward", "tanh of x, not of x / cap")
def soft_cap_b_argument(dy, x, cap):
    return dy * (1 - np.tanh(x) ** 2)


@wrong("gelu", "erf of x, not of x / sqrt(2)")
def gelu_erf(x):
    return 0.5 * x * (1 + erf(x))


@wrong("gelu", "the tanh approximation, not the exact function")
def gelu_approximate(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@wrong("gelu", "the one half is forgotten")
def gelu_half(x):
    return x * (1 + erf(x / np.sqrt(2)))


@wrong("gelu_tanh", "0.44715 for 0.044715")
def gelu_tanh_constant(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.44715 * x**3)))


@wrong("gelu_tanh", "x**2 for x**3")
def gelu_tanh_square(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**2)))


@wrong("gelu_tanh", "sqrt(2 pi) for sqrt(2 / pi)")
def gelu_tanh_root(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 * np.pi) * (x + 0.044715 * x**3)))


@wrong("sigmoid", "the sign in the exponent is wrong: 1 / (1 + exp(x))")
def sigmoid_sign(x):
    return 1 / (1 + np.exp(x))


@wrong("relu_squared", "squared before relu: negative numbers count")
def relu_squared_order(x):
    return np.maximum(x**2, 0)


@wrong("soft_cap", "the factor cap in front of tanh is forgotten")
def soft_cap_factor(x, cap):
    return np.tanh(x / cap)


@wrong("soft_cap", "clipped instead of bent")
def soft_cap_clipped(x, cap):
    return np.clip(x, -cap, cap)


@wrong("gelu_backward", "two mistakes: minus for plus, and the density lacks the one half")
def gelu_b_two(dy, x):
    return dy * (norm.cdf(x) - x * np.exp(-x**2) / np.sqrt(2 * np.pi))
