"""Right answers: norms, pooling and patches."""

import math

import numpy as np
from scipy import stats

from answers.corpus import right


@right("layer_norm", "two-pass np.var")
def layer_norm_var(x, weight, bias, epsilon=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) \
        * weight + bias


@right("layer_norm", "loop over vectors")
def layer_norm_loop(x, gamma, beta):
    flat = x.reshape(-1, x.shape[-1])
    rows = []
    for vector in flat:
        mu = math.fsum(vector) / len(vector)
        var = math.fsum((t - mu) ** 2 for t in vector) / len(vector)
        rows.append([(t - mu) / math.sqrt(var + 1e-5) * g + b
                     for t, g, b in zip(vector, gamma, beta)])
    return np.array(rows).reshape(x.shape)


@right("layer_norm", "centring matrix, longdouble")
def layer_norm_matrix(x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    centring = np.eye(C, dtype=np.longdouble) - np.longdouble(1) / C
    centred = x @ centring
    std = np.sqrt(np.einsum("...c,...c->...", centred, centred)[..., None] / C + epsilon)
    return (weight * centred / std + bias).astype(x.dtype)


@right("layer_norm_backward", "explicit Jacobian")
def layer_norm_jacobian(dy, x, weight, bias):
    C = x.shape[-1]
    dx = np.zeros_like(x)
    dweight, dbias = np.zeros((2, C), x.dtype)
    for index in np.ndindex(*x.shape[:-1]):
        centred = x[index] - x[index].mean()
        s = np.sqrt(centred @ centred / C + 1e-5)
        jacobian = (np.eye(C) - 1 / C) / s - np.outer(centred, centred) / (C * s**3)
        dx[index] = jacobian.T @ (weight * dy[index])
        dweight += dy[index] * centred / s
        dbias += dy[index]
    return dx, dweight, dbias


@right("layer_norm_backward", "chain by steps")
def layer_norm_steps(dout, x, gamma, beta, epsilon=1e-5):
    N = x.shape[-1]
    mu = x.mean(axis=-1, keepdims=True)
    xmu = x - mu
    var = np.mean(xmu ** 2, axis=-1, keepdims=True)
    sqrtvar = np.sqrt(var + epsilon)
    ivar = 1. / sqrtvar
    vectors = tuple(range(x.ndim - 1))
    dbeta = dout.sum(axis=vectors)
    dgamma = (dout * (xmu * ivar)).sum(axis=vectors)
    dxhat = dout * gamma
    divar = np.sum(dxhat * xmu, axis=-1, keepdims=True)
    dxmu1 = dxhat * ivar
    dsqrtvar = -1. / sqrtvar**2 * divar
    dvar = 0.5 * ivar * dsqrtvar
    dxmu2 = 2 * xmu * dvar / N
    dx1 = dxmu1 + dxmu2
    dmu = -np.sum(dx1, axis=-1, keepdims=True)
    return dx1 + dmu / N, dgamma, dbeta


@right("layer_norm_backward", "saved, multiplied by C")
def layer_norm_saved(dy, saved):
    x, weight, mean, rstd = saved
    C = x.shape[-1]
    x_hat = rstd * (x - mean)
    g = weight * dy
    dx = rstd / C * (C * g - g.sum(-1, keepdims=True) - x_hat * (g * x_hat).sum(-1, keepdims=True))
    return dx, *(np.einsum("nc->c", y.reshape(-1, C)) for y in (dy * x_hat, dy))


@right("layer_norm_outside_backward", "standard deviation explicit")
def layer_norm_outside_std(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    centred = x - x.mean(-1, keepdims=True)
    sigma = np.sqrt((centred**2).mean(-1, keepdims=True))
    safe = np.where(sigma == 0, 1, sigma)
    d = dy * weight
    dsigma = -(d * centred).sum(-1, keepdims=True) / (sigma + epsilon) ** 2
    dcentred = d / (sigma + epsilon) + dsigma * centred / (C * safe)
    dx = dcentred - dcentred.mean(-1, keepdims=True)
    vectors = tuple(range(x.ndim - 1))
    return dx, (dy * centred / (sigma + epsilon)).sum(vectors), np.sum(dy, axis=vectors)


@right("layer_norm_outside", "np.std")
def layer_norm_outside_forward(x, w, b, epsilon=1e-5):
    return w * (x - np.mean(x, -1)[..., None]) / (np.std(x, -1)[..., None] + epsilon) + b


@right("rms_norm", "np.linalg.norm")
def rms_norm_by_norm(x, weight):
    n = np.linalg.norm(x, axis=-1, keepdims=True)
    return weight * x / np.sqrt(n**2 / x.shape[-1] + 1e-5)


@right("rms_norm_backward", "outer products")
def rms_norm_outer(dy, x, weight, epsilon=1e-5):
    C = x.shape[-1]
    s = 1 / np.sqrt(np.square(x).mean(-1, keepdims=True) + epsilon)
    outer = np.einsum("...i,...j->...ij", x, x) * s[..., None] ** 3 / C
    jacobian = s[..., None] * np.eye(C, dtype=x.dtype) - outer
    dweight = np.sum(dy * x * s, axis=tuple(range(x.ndim - 1)))
    return np.einsum("...ij,...j->...i", jacobian, dy * weight), dweight


@right("rms_norm_backward", "other association, view")
def rms_norm_cubed(grad, x, gain, epsilon=1e-5):
    X, G = x.reshape(-1, x.shape[-1]), grad.reshape(-1, x.shape[-1])
    ms = np.mean(X * X, axis=1) + epsilon
    dgain = ((G * X).T * ms ** -0.5).sum(axis=1)
    h = G * gain
    dX = h / np.sqrt(ms)[:, None] - (X.T * ((h * X).sum(1) / X.shape[1] * ms ** -1.5)).T
    return dX.reshape(x.shape), dgain


@right("rms_norm_outside_backward", "chain by steps")
def rms_norm_outside_steps(dy, x, weight, epsilon=1e-5):
    C = x.shape[-1]
    r = np.sqrt(np.mean(x**2, axis=-1, keepdims=True))
    d = 1.0 / (r + epsilon)
    dd = np.sum(dy * weight * x, axis=-1, keepdims=True)
    dr = -dd * d * d
    safe = np.where(r == 0, 1, r)
    return dy * weight * d + dr * x / (safe * C), (dy * x * d).reshape(-1, C).sum(axis=0)


@right("batch_norm", "scipy.stats.zscore")
def batch_norm_zscore(x, weight, bias):
    flat = x.reshape(-1, x.shape[-1])
    shrink = flat.std(axis=0) / np.sqrt(flat.var(axis=0) + 1e-5)
    standard = np.where(shrink == 0, 0, stats.zscore(flat, axis=0))
    return (weight * shrink * standard + bias).reshape(x.shape)


@right("batch_norm_backward", "loop over channels")
def batch_norm_channels(dy, x, weight, bias, epsilon=1e-5):
    dx = np.empty_like(x)
    dweight, dbias = np.empty_like(weight), np.empty_like(bias)
    n = x[..., 0].size
    for c in range(x.shape[-1]):
        v, g = x[..., c], dy[..., c]
        s = np.sqrt(np.sum((v - v.mean())**2) / n + epsilon)
        h = (v - v.mean()) / s
        dweight[c], dbias[c] = np.vdot(g, h), g.sum()
        dx[..., c] = weight[c] / s * (g - dbias[c] / n - h * dweight[c] / n)
    return dx, dweight, dbias


@right("batch_norm_inference_backward", "folded factor")
def batch_norm_folded(dy, x, weight, bias, statistics):
    mean, variance = statistics
    inverse = 1 / np.sqrt(variance + 1e-5)
    g, h = (y.reshape(-1, y.shape[-1]).sum(0) for y in (dy, (x - mean) * dy))
    return dy * (weight * inverse), h * inverse, g


@right("masked_batch_norm", "np.average with weights")
def masked_batch_norm_average(x, weight, bias, mask, epsilon=1e-5):
    w = np.repeat(mask[..., None], x.shape[-1], axis=-1).astype(x.dtype)
    vectors = tuple(range(x.ndim - 1))
    mu = np.average(x, axis=vectors, weights=w)
    var = np.average((x - mu)**2, axis=vectors, weights=w)
    return w * (weight * (x - mu) / np.sqrt(var + epsilon) + bias)


@right("masked_batch_norm_backward", "masked with zeros")
def masked_batch_norm_zeros(dy, x, weight, bias, mask, epsilon=1e-5):
    m, vectors = mask[..., None].astype(x.dtype), tuple(range(mask.ndim))
    n = float(m.sum())
    mu = (x * m).sum(vectors) / n
    centred = (x - mu) * m
    rstd = 1 / np.sqrt((centred**2).sum(vectors) / n + epsilon)
    h, g = centred * rstd, dy * m
    dweight, dbias = (g * h).sum(vectors), g.sum(vectors)
    return weight * rstd * (g - m * dbias / n - h * dweight / n), dweight, dbias


@right("mean_pooling_backward", "np.repeat")
def mean_pooling_repeat(dy, x):
    T = x.shape[1]
    return np.repeat(dy[:, None, :] / T, T, axis=1)


@right("mean_pooling", "einsum with weights")
def mean_pooling_einsum(x, mask=None):
    w = np.ones(x.shape[:2], x.dtype) if mask is None else mask.astype(x.dtype)
    return np.einsum("btc,bt->bc", x, w / w.sum(1, keepdims=True))


@right("max_pooling_backward", "one-hot of argmax")
def max_pooling_one_hot(dy, x, mask=None):
    if mask is not None:
        x = np.where(mask[..., None], x, -np.inf)
    hot = np.arange(x.shape[1])[:, None] == x.argmax(axis=1, keepdims=True)
    return hot * dy[:, np.newaxis]


@right("patches", "loop over patches")
def patches_loop(images, patch_size):
    P = patch_size
    B, H, W, _ = images.shape
    rows = [images[:, i:i + P, j:j + P].reshape(B, -1)
            for i in range(0, H, P) for j in range(0, W, P)]
    return np.stack(rows, axis=1)


@right("patches_backward", "strided assignment")
def patches_backward_strided(dy, images, patch_size):
    P, dimages = patch_size, np.zeros_like(images)
    columns = images.shape[2] // P
    for n in range(dy.shape[1]):
        i, j = divmod(n, columns)
        dimages[:, i * P:(i + 1) * P, j * P:(j + 1) * P] += \
            dy[:, n].reshape(-1, P, P, images.shape[3])
    return dimages


@right("patch_convolution_backward", "einsum on six axes")
def patch_convolution_einsum(dy, images, weight, bias):
    P = weight.shape[0]
    B, H, W, c = images.shape
    cut = images.reshape(B, H // P, P, W // P, P, c)
    dimages = np.einsum("bhwf,ijcf->bhiwjc", dy, weight).reshape(images.shape)
    return dimages, np.einsum("bhiwjc,bhwf->ijcf", cut, dy), dy.sum(axis=(0, 1, 2))
