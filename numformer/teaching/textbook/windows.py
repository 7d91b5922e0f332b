"""Convolution, patches, pooling and dropout, written out."""

import numpy as np

from numformer.functional import dropout_mask, dropout_seed


def causal_convolution(x, weight, bias, dilation=1):
    B, T, C = x.shape
    K, _, F = weight.shape
    y = np.zeros((B, T, F))
    for k in range(K):
        back = (K - 1 - k) * dilation
        for t in range(back, T):
            y[:, t] += x[:, t - back] @ weight[k]
    return y + bias


def causal_convolution_backward(dy, x, weight, bias, dilation=1):
    B, T, C = x.shape
    K, _, F = weight.shape
    dx = np.zeros(x.shape)
    dweight = np.zeros(weight.shape)
    for k in range(K):
        back = (K - 1 - k) * dilation
        for t in range(back, T):
            dx[:, t - back] += dy[:, t] @ weight[k].T
            dweight[k] += x[:, t - back].T @ dy[:, t]
    dbias = dy.sum(axis=(0, 1))
    return dx, dweight, dbias


def patches(images, patch_size):
    B, height, width, channels = images.shape
    P = patch_size
    rows, columns = height // P, width // P
    y = images.reshape(B, rows, P, columns, P, channels)
    y = y.transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(B, rows * columns, P * P * channels)


def patches_in_loops(images, patch_size):
    B, height, width, channels = images.shape
    P = patch_size
    found = []
    for i in range(0, height, P):
        for j in range(0, width, P):
            patch = images[:, i:i + P, j:j + P]
            found.append(patch.reshape(B, P * P * channels))
    return np.stack(found, axis=1)


def patches_backward(dy, images, patch_size):
    B, height, width, channels = images.shape
    P = patch_size
    rows, columns = height // P, width // P
    dimages = dy.reshape(B, rows, columns, P, P, channels)
    dimages = dimages.transpose(0, 1, 3, 2, 4, 5)
    return dimages.reshape(B, height, width, channels)


def patch_convolution(images, weight, bias):
    P = len(weight)
    C = weight.shape[-1]
    B, height, width, channels = images.shape
    y = images.reshape(B, height // P, P, width // P, P, channels)
    y = y.transpose(0, 1, 3, 2, 4, 5)
    y = y.reshape(B, height // P, width // P, P * P * channels)
    return y @ weight.reshape(P * P * channels, C) + bias


def patch_convolution_backward(dy, images, weight, bias):
    P = len(weight)
    C = weight.shape[-1]
    B, height, width, channels = images.shape
    x = images.reshape(B, height // P, P, width // P, P, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5)
    x = x.reshape(-1, P * P * channels)
    d = dy.reshape(-1, C)
    dweight = (x.T @ d).reshape(weight.shape)
    dx = d @ weight.reshape(P * P * channels, C).T
    dx = dx.reshape(B, height // P, width // P, P, P, channels)
    dimages = dx.transpose(0, 1, 3, 2, 4, 5).reshape(images.shape)
    dbias = d.sum(axis=0)
    return dimages, dweight, dbias


def mean_pooling(x, mask=None):
    m = np.ones(x.shape[:2], bool) if mask is None else mask
    n = m.sum(axis=1, keepdims=True)
    return (x * m[:, :, None]).sum(axis=1) / n


def mean_pooling_backward(dy, x, mask=None):
    m = np.ones(x.shape[:2], bool) if mask is None else mask
    n = m.sum(axis=1, keepdims=True)
    return (dy / n)[:, None] * m[:, :, None]


def max_pooling(x, mask=None):
    m = np.ones(x.shape[:2], bool) if mask is None else mask
    return np.where(m[:, :, None], x, -np.inf).max(axis=1)


def max_pooling_backward(dy, x, mask=None):
    m = np.ones(x.shape[:2], bool) if mask is None else mask
    x = np.where(m[:, :, None], x, -np.inf)
    largest = x.argmax(axis=1)
    dx = np.zeros(x.shape)
    for b in range(x.shape[0]):
        for c in range(x.shape[2]):
            dx[b, largest[b, c], c] = dy[b, c]
    return dx


def dropout(x, rate, rng):
    kept = dropout_mask(dropout_seed(rng), x.shape, rate)
    return x * kept / (1 - rate)


def dropout_backward(dy, x, rate, rng):
    kept = dropout_mask(dropout_seed(rng), x.shape, rate)
    return dy * kept / (1 - rate)


def residual_dropout(x, branch, rate, rng):
    kept = dropout_mask(dropout_seed(rng), x.shape, rate)
    return x + branch * kept / (1 - rate)


def residual_dropout_backward(dy, x, branch, rate, rng):
    kept = dropout_mask(dropout_seed(rng), x.shape, rate)
    return dy * 1.0, dy * kept / (1 - rate)
