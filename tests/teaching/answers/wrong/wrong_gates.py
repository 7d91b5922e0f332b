"""Wrong answers: swish and gated units, dropout."""

import numpy as np
from scipy.special import expit

from answers.corpus import wrong
from numformer import functional as F


@wrong("swish_backward", "the path through the sigmoid is missing")
def swish_b_gate(dy, x, beta=1.0):
    return dy * expit(beta * x)


@wrong("swish_backward", "the path through x is missing")
def swish_b_x(dy, x, beta=1.0):
    s = expit(beta * x)
    return dy * x * beta * s * (1 - s)


@wrong("swish_backward", "the inner derivative beta is forgotten")
def swish_b_beta(dy, x, beta=1.0):
    s = expit(beta * x)
    return dy * (s + x * s * (1 - s))


@wrong("swish_backward", "the sigmoid is of x, beta is ignored in it")
def swish_b_argument(dy, x, beta=1.0):
    s = expit(x)
    return dy * (s + beta * x * s * (1 - s))


@wrong("swish_backward", "beta multiplies the first term, too")
def swish_b_both(dy, x, beta=1.0):
    s = expit(beta * x)
    return dy * beta * (s + x * s * (1 - s))


@wrong("silu_backward", "s + x (1 - s): one factor s is missing")
def silu_b_factor(dy, x):
    s = 1 / (1 + np.exp(-x))
    return dy * (s + x * (1 - s))


@wrong("silu_backward", "minus for plus between the two terms")
def silu_b_minus(dy, x):
    s = 1 / (1 + np.exp(-x))
    return dy * (s - x * s * (1 - s))


@wrong("silu_backward", "the sigmoid's derivative with y = x * s in place of s")
def silu_b_output(dy, x):
    s = 1 / (1 + np.exp(-x))
    y = x * s
    return dy * (s + x * y * (1 - y))


@wrong("silu_backward", "two mistakes: the path through x is missing, and the sign is wrong")
def silu_b_two(dy, x):
    s = 1 / (1 + np.exp(-x))
    return -dy * x * s * (1 - s)


@wrong("gated_linear_unit_backward", "the gradients are returned in the wrong order")
def glu_b_order(dy, g, h):
    s = expit(g)
    return dy * g * s, dy * h * s * (1 + g * (1 - s))


@wrong("gated_linear_unit_backward", "dh is dy * g: the activation is forgotten")
def glu_b_dh(dy, g, h):
    s = expit(g)
    return dy * h * (s + g * s * (1 - s)), dy * g


@wrong("gated_linear_unit_backward", "the factor h is forgotten in dg")
def glu_b_no_h(dy, g, h):
    s = expit(g)
    return dy * (s + g * s * (1 - s)), dy * g * s


@wrong("gated_linear_unit_backward", "the gate's derivative is that of sigmoid, not of silu")
def glu_b_sigmoid(dy, g, h):
    s = expit(g)
    return dy * h * s * (1 - s), dy * g * s


@wrong("gated_linear_unit_backward", "dg has the activation itself, not its derivative")
def glu_b_underived(dy, g, h):
    a = g * expit(g)
    return dy * h * a, dy * a


@wrong("gated_linear_unit_backward", "the second gradient is 1% too small")
def glu_b_percent(dy, g, h):
    s = expit(g)
    return dy * h * (s + g * s * (1 - s)), 0.99 * dy * g * s


@wrong("gated_linear_unit_backward", "for relu, the mask is of h instead of g")
def glu_b_relu(dy, g, h, activation="silu"):
    if activation == "relu":
        return dy * h * (h > 0), dy * np.maximum(g, 0)
    s = expit(g)
    return dy * h * (s + g * s * (1 - s)), dy * g * s


@wrong("gated_linear_unit", "the activation is on the wrong half: g * silu(h)")
def glu_half(g, h):
    return g * h * expit(h)


@wrong("gated_linear_unit", "sigmoid for silu: the original GLU")
def glu_sigmoid(g, h):
    return expit(g) * h


@wrong("swish", "beta is in front, not inside the sigmoid")
def swish_beta(x, beta=1.0):
    return beta * x * expit(x)


@wrong("dropout_backward", "the factor 1 / (1 - rate) is forgotten")
def dropout_b_scale(dy, x, rate, rng):
    return dy * F.dropout_mask(F.dropout_seed(rng), x.shape, rate)


@wrong("dropout_backward", "scaled by 1 - rate instead of its reciprocal")
def dropout_b_product(dy, x, rate, rng):
    return dy * F.dropout_mask(F.dropout_seed(rng), x.shape, rate) * (1 - rate)


@wrong("dropout_backward", "the mask is the wrong way round: dropped entries get the gradient")
def dropout_b_inverted(dy, x, rate, rng):
    return np.where(F.dropout_mask(F.dropout_seed(rng), x.shape, rate), 0, dy / (1 - rate))


@wrong("dropout_backward", "the gradient passes unmasked, only scaled")
def dropout_b_unmasked(dy, saved):
    _, rate = saved
    return dy / (1 - rate)


@wrong("dropout_backward", "divided by rate, not by 1 - rate")
def dropout_b_rate(dy, saved):
    seed, rate = saved
    return dy * F.dropout_mask(seed, dy.shape, rate) / rate


@wrong("dropout", "not scaled by 1 / (1 - rate)")
def dropout_scale(x, rate, rng):
    return np.where(F.dropout_mask(F.dropout_seed(rng), x.shape, rate), x, 0.0)


@wrong("residual_dropout_backward", "the mask is applied to the residual stream, too")
def residual_b_both(dy, x, branch, rate, rng):
    d = dy * F.dropout_mask(F.dropout_seed(rng), x.shape, rate) / (1 - rate)
    return d, d


@wrong("residual_dropout_backward", "the gradients are returned in the wrong order")
def residual_b_order(dy, x, branch, rate, rng):
    d = dy * F.dropout_mask(F.dropout_seed(rng), x.shape, rate) / (1 - rate)
    return d, dy


@wrong("residual_dropout_backward", "dx is dy plus the branch's gradient")
def residual_b_sum(dy, x, branch, rate, rng):
    d = dy * F.dropout_mask(F.dropout_seed(rng), x.shape, rate) / (1 - rate)
    return dy + d, d


@wrong("residual_dropout", "x is dropped out, not the branch")
def residual_other(x, branch, rate, rng):
    return x * F.dropout_mask(F.dropout_seed(rng), x.shape, rate) / (1 - rate) + branch


@wrong("drop_weights_backward", "the factor 1 / (1 - rate) is forgotten")
def drop_weights_b_scale(dw, p, rate, seed):
    return dw * F.attention_dropout_mask(seed, p.shape, rate)


@wrong("drop_weights_backward", "multiplied by the weights p, too")
def drop_weights_b_weights(dw, p, rate, seed):
    return dw * p * F.attention_dropout_mask(seed, p.shape, rate) / (1 - rate)


@wrong("drop_weights_backward", "the mask of rate 1 - rate: the other fraction is kept")
def drop_weights_b_rate(dw, p, rate, seed):
    return dw * F.attention_dropout_mask(seed, p.shape, 1 - rate) / rate


@wrong("gated_linear_unit_backward", "two mistakes: dg lacks h, and dh is of the sigmoid alone")
def glu_b_two(dy, g, h):
    s = expit(g)
    return dy * (s + g * s * (1 - s)), dy * s


@wrong("dropout_backward", "two mistakes: the mask is the wrong way round, and nothing is scaled")
def dropout_b_two(dy, saved):
    seed, rate = saved
    return dy * ~F.dropout_mask(seed, dy.shape, rate)
