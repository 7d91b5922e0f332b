"""Wrong answers: RMS norm, and norms with epsilon outside the root."""

import numpy as np

from answers.corpus import wrong


def mean(x):
    return x.mean(-1, keepdims=True)


def inverse(x, epsilon=1e-5):
    """1 / root mean square of each vector."""
    return 1 / np.sqrt(mean(x * x) + epsilon)


@wrong("rms_norm_backward", "the path through the root mean square is missing")
def rms_b_path(dy, x, weight):
    r = inverse(x)
    return dy * weight * r, (dy * x * r).sum((0, 1))


@wrong("rms_norm_backward", "plus for minus")
def rms_b_plus(dy, x, weight):
    r = inverse(x)
    h, g = x * r, dy * weight
    return r * (g + h * mean(g * h)), (dy * h).sum((0, 1))


@wrong("rms_norm_backward", "the sum for the mean: not divided by C")
def rms_b_sum(dy, x, weight):
    r = inverse(x)
    h, g = x * r, dy * weight
    return r * (g - h * (g * h).sum(-1, keepdims=True)), (dy * h).sum((0, 1))


@wrong("rms_norm_backward", "r**2 for r**3 in the second term")
def rms_b_cube(dy, x, weight, epsilon=1e-5):
    r = inverse(x, epsilon)
    g = dy * weight
    return g * r - x * r**2 * mean(g * x), (dy * x * r).sum((0, 1))


@wrong("rms_norm_backward", "the mean of g is subtracted, too, as in layer norm")
def rms_b_layer(dy, x, weight):
    r = inverse(x)
    h, g = x * r, dy * weight
    return r * (g - mean(g) - h * mean(g * h)), (dy * h).sum((0, 1))


@wrong("rms_norm_backward", "the weight is missing in the second term alone")
def rms_b_weight(dy, x, weight):
    r = inverse(x)
    h = x * r
    return r * (dy * weight - h * mean(dy * h)), (dy * h).sum((0, 1))


@wrong("rms_norm_backward", "dweight lacks the normalisation: dy * x")
def rms_b_dweight(dy, x, weight):
    r = inverse(x)
    h, g = x * r, dy * weight
    return r * (g - h * mean(g * h)), (dy * x).sum((0, 1))


@wrong("rms_norm_backward", "dweight is multiplied by the weight")
def rms_b_gain(dy, x, weight):
    r = inverse(x)
    h, g = x * r, dy * weight
    return r * (g - h * mean(g * h)), (g * h).sum((0, 1))


@wrong("rms_norm_backward", "dweight is the mean over T of the sum over B")
def rms_b_mean(dy, x, weight):
    r = inverse(x)
    h, g = x * r, dy * weight
    return r * (g - h * mean(g * h)), (dy * h).sum(0).mean(0)


@wrong("rms_norm_backward", "dx is right, dweight is 1% too small")
def rms_b_percent(dy, saved):
    x, weight, r = saved
    h, g = x * r, dy * weight
    return r * (g - h * mean(g * h)), 0.99 * (dy * h).sum((0, 1))


@wrong("rms_norm_backward", "the factor r in front is forgotten")
def rms_b_scale(dy, saved):
    x, weight, r = saved
    h, g = x * r, dy * weight
    return g - h * mean(g * h), (dy * h).sum((0, 1))


@wrong("rms_norm_backward", "two mistakes: the sum for the mean, and the weight is forgotten")
def rms_b_two(dy, x, weight):
    r = inverse(x)
    h = x * r
    return r * (dy - h * (dy * h).sum(-1, keepdims=True)), (dy * h).sum((0, 1))


@wrong("rms_norm", "the norm, not the root mean square: not divided by C")
def rms_norm_sum(x, weight, epsilon=1e-5):
    return weight * x / np.sqrt((x * x).sum(-1, keepdims=True) + epsilon)


@wrong("rms_norm", "the mean is subtracted, as in layer norm")
def rms_centred(x, weight, epsilon=1e-5):
    x = x - mean(x)
    return weight * x * inverse(x, epsilon)


@wrong("rms_norm", "the square is averaged over all vectors")
def rms_all(x, weight, epsilon=1e-5):
    return weight * x / np.sqrt(np.mean(x**2) + epsilon)


@wrong("rms_norm", "1 + weight: the scale of another convention")
def rms_plus_one(x, weight, epsilon=1e-5):
    return (1 + weight) * x * inverse(x, epsilon)


def outside(x, epsilon):
    """x - mean, the standard deviation, and 1 / (standard deviation + epsilon)."""
    c = x - mean(x)
    sigma = np.sqrt(mean(c * c))
    return c, sigma, 1 / (sigma + epsilon)


@wrong("layer_norm_outside_backward", "epsilon inside the root: the gradient of layer_norm")
def lno_b_inside(dy, x, weight, bias, epsilon=1e-5):
    c = x - mean(x)
    r = 1 / np.sqrt(mean(c * c) + epsilon)
    h, g = c * r, dy * weight
    return r * (g - mean(g) - h * mean(g * h)), (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_outside_backward", "the factor (sigma + epsilon) / sigma is missing")
def lno_b_kappa(dy, x, weight, bias, epsilon=1e-5):
    c, sigma, r = outside(x, epsilon)
    h, g = c * r, dy * weight
    return r * (g - mean(g) - h * mean(g * h)), (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_outside_backward", "the path through the standard deviation is missing")
def lno_b_deviation(dy, x, weight, bias, epsilon=1e-5):
    c, sigma, r = outside(x, epsilon)
    g = dy * weight
    return r * (g - mean(g)), (dy * c * r).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_outside_backward", "the path through the mean is missing")
def lno_b_mean(dy, x, weight, bias, epsilon=1e-5):
    c, sigma, r = outside(x, epsilon)
    h, g = c * r, dy * weight
    kappa = (sigma + epsilon) / sigma
    return r * (g - kappa * h * mean(g * h)), (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_outside_backward", "the factor is upside down: sigma / (sigma + epsilon)")
def lno_b_upside(dy, x, weight, bias, epsilon=1e-5):
    c, sigma, r = outside(x, epsilon)
    h, g = c * r, dy * weight
    dx = r * (g - mean(g) - sigma * r * h * mean(g * h))
    return dx, (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_outside", "epsilon is added to the variance inside the root")
def lno_inside(x, weight, bias, epsilon=1e-5):
    return weight * (x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) + bias


@wrong("rms_norm_outside_backward", "the path through the root mean square is missing")
def rmso_b_path(dy, x, weight, epsilon=1e-5):
    r = 1 / (np.sqrt(mean(x * x)) + epsilon)
    return dy * weight * r, (dy * x * r).sum((0, 1))


@wrong("rms_norm_outside_backward", "the second term is divided by the mean square: rms missing")
def rmso_b_power(dy, x, weight, epsilon=1e-5):
    r = 1 / (np.sqrt(mean(x * x)) + epsilon)
    g = dy * weight
    return r * g - r**2 * x * mean(g * x), (dy * x * r).sum((0, 1))


@wrong("rms_norm_outside_backward", "the weight is forgotten in dx")
def rmso_b_weight(dy, x, weight, epsilon=1e-5):
    s = np.sqrt(mean(x * x))
    r = 1 / (s + epsilon)
    return r * dy - r**2 * x / s * mean(dy * x), (dy * x * r).sum((0, 1))


@wrong("rms_norm_outside_backward", "sign: the second term is added")
def rmso_b_sign(dy, x, weight, epsilon=1e-5):
    s = np.sqrt(mean(x * x))
    r, g = 1 / (s + epsilon), dy * weight
    return r * g + r**2 * x / s * mean(g * x), (dy * x * r).sum((0, 1))
