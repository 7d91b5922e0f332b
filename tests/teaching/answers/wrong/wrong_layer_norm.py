"""Wrong answers: layer normalization."""

import numpy as np

from answers.corpus import wrong


def parts(x, epsilon=1e-5):
    """x_hat and 1 / standard deviation of each vector."""
    centred = x - x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return centred * rstd, rstd


def mean(x):
    return x.mean(-1, keepdims=True)


@wrong("layer_norm_backward", "the path through the variance is missing")
def ln_b_variance(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    return rstd * (g - mean(g)), (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "the path through the mean is missing")
def ln_b_mean(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    return rstd * (g - h * mean(g * h)), (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "the paths through mean and variance are both missing")
def ln_b_statistics(dy, x, weight, bias):
    h, rstd = parts(x)
    return dy * weight * rstd, (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "dx lacks the weight: dy in place of dy * weight")
def ln_b_weight(dy, x, weight, bias):
    h, rstd = parts(x)
    return rstd * (dy - mean(dy) - h * mean(dy * h)), (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "the factor 1 / standard deviation is forgotten")
def ln_b_rstd(dy, x, weight, bias):
    h, _ = parts(x)
    g = dy * weight
    return g - mean(g) - h * mean(g * h), (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "plus for minus before the variance's term")
def ln_b_plus(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    return rstd * (g - mean(g) + h * mean(g * h)), (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "sums for means in both terms: the division by C is forgotten")
def ln_b_sums(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    dx = rstd * (g - g.sum(-1, keepdims=True) - h * (g * h).sum(-1, keepdims=True))
    return dx, (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "divided by C - 1, as an unbiased variance would be")
def ln_b_unbiased(dy, x, weight, bias):
    h, rstd = parts(x)
    g, n = dy * weight, x.shape[-1] - 1
    dx = rstd * (g - g.sum(-1, keepdims=True) / n - h * (g * h).sum(-1, keepdims=True) / n)
    return dx, (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "x_hat has an additional factor: multiplied by rstd twice")
def ln_b_twice(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    dx = rstd * (g - mean(g) - h * rstd * mean(g * h))
    return dx, (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "dweight has x in place of the normalized x")
def ln_b_dweight(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    return rstd * (g - mean(g) - h * mean(g * h)), (dy * x).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "dweight and dbias are means over the vectors, not sums")
def ln_b_means(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    return rstd * (g - mean(g) - h * mean(g * h)), (dy * h).mean((0, 1)), dy.mean((0, 1))


@wrong("layer_norm_backward", "dweight and dbias are returned in the wrong order")
def ln_b_order(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    return rstd * (g - mean(g) - h * mean(g * h)), dy.sum((0, 1)), (dy * h).sum((0, 1))


@wrong("layer_norm_backward", "dbias is multiplied by the weight")
def ln_b_dbias(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    return rstd * (g - mean(g) - h * mean(g * h)), (dy * h).sum((0, 1)), g.sum((0, 1))


@wrong("layer_norm_backward", "dweight is 1% too large")
def ln_b_percent(dy, saved):
    x, weight, mu, rstd = saved
    h, g = (x - mu) * rstd, dy * weight
    dx = rstd * (g - mean(g) - h * mean(g * h))
    return dx, 1.01 * (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "the means run over T, the wrong axis")
def ln_b_axis(dy, saved):
    x, weight, mu, rstd = saved
    h, g = (x - mu) * rstd, dy * weight
    dx = rstd * (g - g.mean(1, keepdims=True) - h * (g * h).mean(1, keepdims=True))
    return dx, (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "two mistakes: the mean's path is missing, dbias is of dy * weight")
def ln_b_two(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    return rstd * (g - h * mean(g * h)), (dy * h).sum((0, 1)), g.sum((0, 1))


@wrong("layer_norm_backward", "two mistakes: sums for means, and plus for minus at the variance")
def ln_b_two_more(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    dx = rstd * (g - g.sum(-1, keepdims=True) + h * (g * h).sum(-1, keepdims=True))
    return dx, (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "epsilon is fixed at 1e-5: the option is ignored")
def ln_b_epsilon(dy, x, weight, bias, epsilon=1e-5):
    h, rstd = parts(x)
    g = dy * weight
    return rstd * (g - mean(g) - h * mean(g * h)), (dy * h).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "by steps: dvar has the power -1/2 for -3/2")
def ln_b_power(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    c = x - mean(x)
    var = mean(c**2)
    g = dy * weight
    dvar = (g * c * -0.5 * (var + epsilon) ** -0.5).sum(-1, keepdims=True)
    dc = g / np.sqrt(var + epsilon) + dvar * 2 * c / C
    return dc - mean(dc), (dy * c / np.sqrt(var + epsilon)).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "by steps: the 2 of the derivative of the square is forgotten")
def ln_b_square(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    c = x - mean(x)
    var = mean(c**2)
    g = dy * weight
    dvar = (g * c * -0.5 * (var + epsilon) ** -1.5).sum(-1, keepdims=True)
    dc = g / np.sqrt(var + epsilon) + dvar * c / C
    return dc - mean(dc), (dy * c / np.sqrt(var + epsilon)).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "by steps: the gradient of the mean is not divided by C")
def ln_b_spread(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    c = x - mean(x)
    var = mean(c**2)
    g = dy * weight
    dvar = (g * c * -0.5 * (var + epsilon) ** -1.5).sum(-1, keepdims=True)
    dc = g / np.sqrt(var + epsilon) + dvar * 2 * c / C
    dmean = -dc.sum(-1, keepdims=True)
    return dc + dmean, (dy * c / np.sqrt(var + epsilon)).sum((0, 1)), dy.sum((0, 1))


@wrong("layer_norm_backward", "dweight is summed over the last axis, too, and broadcast")
def ln_b_keepdims(dy, x, weight, bias):
    h, rstd = parts(x)
    g = dy * weight
    dweight = np.full(weight.shape, (dy * h).sum())
    return rstd * (g - mean(g) - h * mean(g * h)), dweight, dy.sum((0, 1))


@wrong("layer_norm", "the standard deviation is not divided by, the variance is")
def ln_root(x, weight, bias, epsilon=1e-5):
    return weight * (x - mean(x)) / (x.var(-1, keepdims=True) + epsilon) + bias


@wrong("layer_norm", "unbiased variance: divided by C - 1")
def ln_unbiased(x, weight, bias, epsilon=1e-5):
    return weight * (x - mean(x)) / np.sqrt(x.var(-1, ddof=1, keepdims=True) + epsilon) + bias


@wrong("layer_norm", "the mean is not subtracted: RMS norm with a bias")
def ln_uncentred(x, weight, bias, epsilon=1e-5):
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) + bias


@wrong("layer_norm", "the bias is scaled by the weight: weight * (x_hat + bias)")
def ln_bias(x, weight, bias, epsilon=1e-5):
    return weight * ((x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) + bias)


@wrong("layer_norm", "epsilon is outside the root: added to the standard deviation")
def ln_epsilon(x, weight, bias, epsilon=1e-5):
    return weight * (x - mean(x)) / (x.std(-1, keepdims=True) + epsilon) + bias


@wrong("layer_norm", "statistics over T and C together")
def ln_axes(x, weight, bias, epsilon=1e-5):
    mu, var = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    return weight * (x - mu) / np.sqrt(var + epsilon) + bias
