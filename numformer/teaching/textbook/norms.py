"""Normalization, written out."""

import numpy as np


def layer_norm(x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=-1, keepdims=True)
    x_hat = (x - mu) / np.sqrt(var + epsilon)
    return weight * x_hat + bias


def layer_norm_in_sums(x, weight, bias, epsilon=1e-5):
    N = x.shape[-1]
    mu = x.sum(axis=-1, keepdims=True) / N
    var = ((x - mu) ** 2).sum(axis=-1, keepdims=True) / N
    return weight * (x - mu) / np.sqrt(var + epsilon) + bias


def layer_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    N = x.shape[-1]
    mu = x.mean(axis=-1, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=-1, keepdims=True)
    std = np.sqrt(var + epsilon)
    x_hat = (x - mu) / std
    dx_hat = dy * weight
    dx = (N * dx_hat - dx_hat.sum(axis=-1, keepdims=True)
          - x_hat * (dx_hat * x_hat).sum(axis=-1, keepdims=True)) / (N * std)
    dweight = (dy * x_hat).sum(axis=(0, 1))
    dbias = dy.sum(axis=(0, 1))
    return dx, dweight, dbias


def layer_norm_backward_in_steps(dy, x, weight, bias, epsilon=1e-5):
    N = x.shape[-1]
    mu = x.mean(axis=-1, keepdims=True)
    centred = x - mu
    var = (centred ** 2).mean(axis=-1, keepdims=True)
    std = np.sqrt(var + epsilon)
    dx_hat = dy * weight
    dvar = (dx_hat * centred).sum(axis=-1, keepdims=True) * -0.5 * std ** -3
    dmu = -(dx_hat / std).sum(axis=-1, keepdims=True)
    dx = dx_hat / std + dvar * 2 * centred / N + dmu / N
    return dx, (dy * centred / std).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def layer_norm_outside(x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    sigma = np.sqrt(((x - mu) ** 2).mean(axis=-1, keepdims=True))
    return weight * (x - mu) / (sigma + epsilon) + bias


def layer_norm_outside_backward(dy, x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    centred = x - mu
    sigma = np.sqrt((centred ** 2).mean(axis=-1, keepdims=True))
    s = sigma + epsilon
    dx_hat = dy * weight
    m = dx_hat.mean(axis=-1, keepdims=True)
    dx = (dx_hat - m) / s - centred * (dx_hat * centred).mean(axis=-1, keepdims=True) / (
        sigma * s ** 2)
    return dx, (dy * centred / s).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def rms_norm(x, weight, epsilon=1e-5):
    rms = np.sqrt((x ** 2).mean(axis=-1, keepdims=True) + epsilon)
    return weight * x / rms


def rms_norm_backward(dy, x, weight, epsilon=1e-5):
    N = x.shape[-1]
    rms = np.sqrt((x ** 2).mean(axis=-1, keepdims=True) + epsilon)
    g = dy * weight
    dx = g / rms - x * (g * x).sum(axis=-1, keepdims=True) / (N * rms ** 3)
    dweight = (dy * x / rms).sum(axis=(0, 1))
    return dx, dweight


def rms_norm_outside(x, weight, epsilon=1e-5):
    rms = np.sqrt((x ** 2).mean(axis=-1, keepdims=True))
    return weight * x / (rms + epsilon)


def rms_norm_outside_backward(dy, x, weight, epsilon=1e-5):
    N = x.shape[-1]
    rms = np.sqrt((x ** 2).mean(axis=-1, keepdims=True))
    s = rms + epsilon
    g = dy * weight
    dx = g / s - x * (g * x).sum(axis=-1, keepdims=True) / (N * rms * s ** 2)
    return dx, (dy * x / s).sum(axis=(0, 1))


def batch_norm(x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=(0, 1))
    var = ((x - mu) ** 2).mean(axis=(0, 1))
    return weight * (x - mu) / np.sqrt(var + epsilon) + bias


def batch_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    N = x.shape[0] * x.shape[1]
    mu = x.mean(axis=(0, 1))
    std = np.sqrt(((x - mu) ** 2).mean(axis=(0, 1)) + epsilon)
    x_hat = (x - mu) / std
    dx_hat = dy * weight
    dweight = (dy * x_hat).sum(axis=(0, 1))
    dbias = dy.sum(axis=(0, 1))
    dx = (N * dx_hat - dx_hat.sum(axis=(0, 1)) - x_hat * (dx_hat * x_hat).sum(axis=(0, 1))) / (
        N * std)
    return dx, dweight, dbias


def batch_norm_backward_in_means(dy, x, weight, bias, epsilon=1e-5):
    N = x.shape[0] * x.shape[1]
    mu = x.mean(axis=(0, 1), keepdims=True)
    std = np.sqrt(((x - mu) ** 2).mean(axis=(0, 1), keepdims=True) + epsilon)
    x_hat = (x - mu) / std
    g = dy * weight
    dx = (g - g.sum(axis=(0, 1)) / N - x_hat * (g * x_hat).sum(axis=(0, 1)) / N) / std
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def batch_norm_backward_in_parts(dy, x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=(0, 1), keepdims=True)
    std = np.sqrt(((x - mu) ** 2).mean(axis=(0, 1), keepdims=True) + epsilon)
    x_hat = (x - mu) / std
    g = dy * weight
    m = g.mean(axis=(0, 1), keepdims=True)
    dx = (g - m - x_hat * (g * x_hat).mean(axis=(0, 1), keepdims=True)) / std
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def batch_norm_inference(x, weight, bias, statistics, epsilon=1e-5):
    mean, var = statistics
    return weight * (x - mean) / np.sqrt(var + epsilon) + bias


def batch_norm_inference_backward(dy, x, weight, bias, statistics, epsilon=1e-5):
    mean, var = statistics
    std = np.sqrt(var + epsilon)
    x_hat = (x - mean) / std
    return dy * weight / std, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def masked_batch_norm(x, weight, bias, mask, epsilon=1e-5):
    real = x.reshape(-1, x.shape[-1])[mask.reshape(-1)]
    mu = real.mean(axis=0)
    var = ((real - mu) ** 2).mean(axis=0)
    return (weight * (x - mu) / np.sqrt(var + epsilon) + bias) * mask[:, :, None]


def masked_batch_norm_in_sums(x, weight, bias, mask, epsilon=1e-5):
    m = mask[:, :, None]
    n = m.sum()
    mu = (x * m).sum(axis=(0, 1)) / n
    var = ((x - mu) ** 2 * m).sum(axis=(0, 1)) / n
    return (weight * (x - mu) / np.sqrt(var + epsilon) + bias) * m


def masked_batch_norm_backward(dy, x, weight, bias, mask, epsilon=1e-5):
    real = x.reshape(-1, x.shape[-1])[mask.reshape(-1)]
    mu = real.mean(axis=0)
    std = np.sqrt(((real - mu) ** 2).mean(axis=0) + epsilon)
    m = mask[:, :, None]
    n = m.sum()
    x_hat = (x - mu) / std
    dy = dy * m
    g = dy * weight
    dx = (g - g.sum(axis=(0, 1)) / n - x_hat * (g * x_hat).sum(axis=(0, 1)) / n) / std * m
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))
