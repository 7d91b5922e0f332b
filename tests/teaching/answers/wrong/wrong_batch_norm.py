"""Wrong answers: batch normalization, pooling and patches."""

import numpy as np

from answers.corpus import wrong

BOTH = (0, 1)


def parts(x, epsilon=1e-5):
    """x_hat, 1 / standard deviation of each channel, and the number of vectors."""
    rstd = 1 / np.sqrt(x.var(BOTH) + epsilon)
    return (x - x.mean(BOTH)) * rstd, rstd, x.shape[0] * x.shape[1]


@wrong("batch_norm_backward", "the path through the variance is missing")
def bn_b_variance(dy, x, weight, bias):
    h, rstd, n = parts(x)
    dbias = dy.sum(BOTH)
    return weight * rstd * (dy - dbias / n), (dy * h).sum(BOTH), dbias


@wrong("batch_norm_backward", "the path through the mean is missing")
def bn_b_mean(dy, x, weight, bias):
    h, rstd, n = parts(x)
    dweight = (dy * h).sum(BOTH)
    return weight * rstd * (dy - h * dweight / n), dweight, dy.sum(BOTH)


@wrong("batch_norm_backward", "statistics are held constant, as at inference")
def bn_b_constant(dy, x, weight, bias):
    h, rstd, _ = parts(x)
    return weight * rstd * dy, (dy * h).sum(BOTH), dy.sum(BOTH)


@wrong("batch_norm_backward", "the sums are not divided by the number of vectors")
def bn_b_number(dy, x, weight, bias):
    h, rstd, _ = parts(x)
    dweight, dbias = (dy * h).sum(BOTH), dy.sum(BOTH)
    return weight * rstd * (dy - dbias - h * dweight), dweight, dbias


@wrong("batch_norm_backward", "divided by B, not by B * T")
def bn_b_batch(dy, x, weight, bias):
    h, rstd, _ = parts(x)
    n, dweight, dbias = len(x), (dy * h).sum(BOTH), dy.sum(BOTH)
    return weight * rstd * (dy - dbias / n - h * dweight / n), dweight, dbias


@wrong("batch_norm_backward", "n - 1 for n, as the running variance has it")
def bn_b_unbiased(dy, x, weight, bias):
    h, rstd, n = parts(x)
    dweight, dbias = (dy * h).sum(BOTH), dy.sum(BOTH)
    return weight * rstd * (dy - dbias / n - h * dweight / (n - 1)), dweight, dbias


@wrong("batch_norm_backward", "the means run over the last axis, as in layer norm")
def bn_b_layer(dy, x, weight, bias):
    h, rstd, _ = parts(x)
    g = dy * weight
    dx = rstd * (g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True))
    return dx, (dy * h).sum(BOTH), dy.sum(BOTH)


@wrong("batch_norm_backward", "dx lacks the weight")
def bn_b_weight(dy, x, weight, bias):
    h, rstd, n = parts(x)
    dweight, dbias = (dy * h).sum(BOTH), dy.sum(BOTH)
    return rstd * (dy - dbias / n - h * dweight / n), dweight, dbias


@wrong("batch_norm_backward", "two mistakes: the weight is forgotten in dx, dbias is a mean")
def bn_b_two(dy, x, weight, bias):
    h, rstd, n = parts(x)
    dweight, dbias = (dy * h).sum(BOTH), dy.sum(BOTH)
    return rstd * (dy - dbias / n - h * dweight / n), dweight, dbias / n


@wrong("batch_norm_inference_backward", "differentiated as in training, through the statistics")
def bni_b_training(dy, x, weight, bias, statistics):
    mean, variance = statistics
    rstd = 1 / np.sqrt(variance + 1e-5)
    h, n = (x - mean) * rstd, x[..., 0].size
    dweight, dbias = (dy * h).sum(BOTH), dy.sum(BOTH)
    return weight * rstd * (dy - dbias / n - h * dweight / n), dweight, dbias


@wrong("batch_norm_inference_backward", "divided by the variance, not by its root")
def bni_b_root(dy, x, weight, bias, statistics):
    mean, variance = statistics
    h = (x - mean) / np.sqrt(variance + 1e-5)
    return dy * weight / (variance + 1e-5), (dy * h).sum(BOTH), dy.sum(BOTH)


@wrong("batch_norm_inference_backward", "dweight does not subtract the mean")
def bni_b_mean(dy, x, weight, bias, statistics):
    rstd = 1 / np.sqrt(statistics[1] + 1e-5)
    return dy * weight * rstd, (dy * x * rstd).sum(BOTH), dy.sum(BOTH)


@wrong("masked_batch_norm_backward", "n counts the padding, too")
def mbn_b_number(dy, x, weight, bias, mask):
    m = mask[..., None]
    h, rstd, _ = parts(x[mask][None])
    g = dy[mask]
    dweight, dbias, n = (g * h[0]).sum(0), g.sum(0), mask.size
    dx = np.zeros_like(x)
    dx[mask] = weight * rstd * (g - dbias / n - h[0] * dweight / n)
    return dx * m, dweight, dbias


@wrong("masked_batch_norm_backward", "the padding's dy takes part in dweight and dbias")
def mbn_b_padding(dy, x, weight, bias, mask):
    v = x[mask]
    mu, rstd = v.mean(0), 1 / np.sqrt(v.var(0) + 1e-5)
    h, n = (x - mu) * rstd, mask.sum()
    dweight, dbias = (dy * h).sum(BOTH), dy.sum(BOTH)
    dx = weight * rstd * (dy - dbias / n - h * dweight / n)
    return dx * mask[..., None], dweight, dbias


@wrong("masked_batch_norm_backward", "padding gets a gradient: dx is not masked at the end")
def mbn_b_unmasked(dy, x, weight, bias, mask):
    v, g = x[mask], dy[mask]
    mu, rstd, n = v.mean(0), 1 / np.sqrt(v.var(0) + 1e-5), len(v)
    h = (x - mu) * rstd
    dweight, dbias = (g * h[mask]).sum(0), g.sum(0)
    return weight * rstd * (dy - dbias / n - h * dweight / n), dweight, dbias


@wrong("batch_norm", "statistics over the batch alone: each position by itself")
def bn_positions(x, weight, bias, epsilon=1e-5):
    return weight * (x - x.mean(0)) / np.sqrt(x.var(0) + epsilon) + bias


@wrong("batch_norm", "normalized with the unbiased variance")
def bn_unbiased(x, weight, bias, epsilon=1e-5):
    return weight * (x - x.mean(BOTH)) / np.sqrt(x.var(BOTH, ddof=1) + epsilon) + bias


@wrong("batch_norm_inference", "the given standard deviation: the variance is not rooted")
def bni_root(x, weight, bias, statistics, epsilon=1e-5):
    return weight * (x - statistics[0]) / (statistics[1] + epsilon) + bias


@wrong("masked_batch_norm", "the mask is ignored in mean and variance")
def mbn_mask(x, weight, bias, mask, epsilon=1e-5):
    y = weight * (x - x.mean(BOTH)) / np.sqrt(x.var(BOTH) + epsilon) + bias
    return y * mask[..., None]


@wrong("mean_pooling_backward", "not divided by the number of positions")
def mean_b_number(dy, x):
    return np.repeat(dy[:, None], x.shape[1], axis=1)


@wrong("mean_pooling_backward", "divided by T, also where there is padding")
def mean_b_padding(dy, x, mask=None):
    m = np.ones(x.shape[:2]) if mask is None else mask
    return m[..., None] * dy[:, None] / x.shape[1]


@wrong("mean_pooling_backward", "the padding gets a gradient, too")
def mean_b_mask(dy, x, mask=None):
    n = x.shape[1] if mask is None else mask.sum(1)[:, None, None]
    return np.broadcast_to(dy[:, None] / n, x.shape).copy()


@wrong("max_pooling_backward", "one position for all channels: that of the largest sum")
def max_b_channels(dy, x):
    dx = np.zeros_like(x)
    best = x.sum(-1).argmax(1)
    dx[np.arange(len(x)), best] = dy
    return dx


@wrong("max_pooling_backward", "shared by all positions, as a mean's gradient")
def max_b_mean(dy, x):
    return np.repeat(dy[:, None] / x.shape[1], x.shape[1], axis=1)


@wrong("max_pooling", "padding takes part: the mask is ignored")
def max_mask(x, mask=None):
    return x.max(axis=1)


@wrong("mean_pooling", "the sum of the real positions divided by T")
def mean_padding(x, mask=None):
    m = np.ones(x.shape[:2]) if mask is None else mask
    return (x * m[..., None]).mean(axis=1)
