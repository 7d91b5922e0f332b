"""Mistakes in BatchNorm, patches and pooling."""

import numpy as np

from numformer import functional as F


def batch_norm(change):
    """A backward of BatchNorm with dx = `change(g, x_hat, r, n)`."""
    def gradients(dy, x, weight, bias, epsilon=1e-5):
        C = x.shape[-1]
        vectors, dvectors = x.reshape(-1, C), dy.reshape(-1, C)
        r = (vectors.var(axis=0) + epsilon) ** -0.5
        x_hat = (vectors - vectors.mean(axis=0)) * r
        dx = change(weight * dvectors, x_hat, r, len(vectors)).reshape(x.shape)
        return dx, (dvectors * x_hat).sum(axis=0), dvectors.sum(axis=0)
    return gradients


def with_padding(gradients):
    """A backward of masked BatchNorm, from one of BatchNorm: only real vectors take part."""
    def masked(dy, x, weight, bias, mask):
        dx = np.zeros_like(x)
        dx[mask], dweight, dbias = gradients(dy[mask], x[mask], weight, bias)
        return dx, dweight, dbias
    return masked


def terms(g, x_hat, n):
    """The terms of the mean and of the variance, each a sum over the vectors divided by n."""
    return g.sum(axis=0) / n, x_hat * ((g * x_hat).sum(axis=0) / n)


def right(g, x_hat, r, n):
    return r * (g - sum(terms(g, x_hat, n)))


def as_layer_norm(dy, x, weight, bias):
    return F.layer_norm_backward(dy, F.layer_norm(x, weight, bias)[1])


def norm_without_weight(dy, x, weight, bias):
    dx, dweight, dbias = batch_norm(right)(dy, x, weight, bias)
    return dx / weight, dweight, dbias


def norm_of_each_sequence(dy, x, weight, bias):
    parts = [F.batch_norm_backward(dy[b], F.batch_norm(x[b], weight, bias)[1])
             for b in range(len(x))]
    dx, dweight, dbias = zip(*parts)
    return np.stack(dx), sum(dweight), sum(dbias)


def norm_with_padding(dy, x, weight, bias, mask):
    return F.batch_norm_backward(dy, F.batch_norm(x, weight, bias)[1])


def inference(change):
    """A backward of BatchNorm at inference with dx = `change(g, x_hat, r, n)`."""
    def gradients(dy, x, weight, bias, statistics, epsilon=1e-5):
        C = x.shape[-1]
        (mean, variance), dvectors = statistics, dy.reshape(-1, C)
        r = (variance + epsilon) ** -0.5
        x_hat = (x.reshape(-1, C) - mean) * r
        dx = change(weight * dvectors, x_hat, r, len(dvectors)).reshape(x.shape)
        return dx, (dvectors * x_hat).sum(axis=0), dvectors.sum(axis=0)
    return gradients


def inference_without_weight(dy, x, weight, bias, statistics):
    dx, dweight, dbias = inference(lambda g, x_hat, r, n: r * g)(dy, x, weight, bias, statistics)
    return dx / weight, dweight, dbias


NORM_MISTAKES = [
    ("the terms of the mean and of the variance are missing: they depend on x too",
     batch_norm(lambda g, x_hat, r, n: r * g)),
    ("the term of the mean is missing: adding a constant to a coordinate changes nothing, so dx "
     "must "
     "sum to 0 over the batch", batch_norm(lambda g, x_hat, r, n: r * (g - terms(g, x_hat, n)[1]))),
    ("the term of the variance is missing: it depends on x too",
     batch_norm(lambda g, x_hat, r, n: r * (g - terms(g, x_hat, n)[0]))),
    ("sums are used instead of means",
     batch_norm(lambda g, x_hat, r, n: r * (g - sum(terms(g, x_hat, 1))))),
    ("the leading factor 1 / sigma is missing",
     batch_norm(lambda g, x_hat, r, n: right(g, x_hat, 1.0, n))),
    ("the weight is missing: dy must be multiplied by it first", norm_without_weight),
]


def patches_reshaped(dy, images, patch_size):
    return dy.reshape(images.shape)


def patches_with_pixels_transposed(dy, images, patch_size):
    B, T, _ = dy.shape
    P = patch_size
    return F.patches_backward(dy.reshape(B, T, P, P, -1).swapaxes(2, 3).reshape(dy.shape),
                              (images.shape, P))


def patches_down_first(dy, images, patch_size):
    B, height, width, _ = images.shape
    grid = dy.reshape(B, width // patch_size, height // patch_size, -1).swapaxes(1, 2)
    return F.patches_backward(grid.reshape(dy.shape), (images.shape, patch_size))


def convolution(dy, images, weight, bias):
    return F.patch_convolution_backward(dy, (images, weight, True))


def convolution_with_filter_flipped(dy, images, weight, bias):
    dimages, dweight, dbias = convolution(dy, images, weight, bias)
    return convolution(dy, images, weight[::-1, ::-1], bias)[0], dweight, dbias


def convolution_with_bias_of_the_batch(dy, images, weight, bias):
    dimages, dweight, dbias = convolution(dy, images, weight, bias)
    return dimages, dweight, dy.sum(axis=0)


def convolution_with_mean_of_weight(dy, images, weight, bias):
    dimages, dweight, dbias = convolution(dy, images, weight, bias)
    return dimages, dweight / len(images), dbias


def everywhere(x, mask):
    return np.ones(x.shape[:2], bool) if mask is None else mask


MISTAKES = {
    "batch_norm_backward": [
        *NORM_MISTAKES,
        ("this is the gradient of LayerNorm: the means of BatchNorm are over the batch, for each "
         "coordinate",
         as_layer_norm),
        ("every sequence is normalized separately: the means are over all vectors of the batch",
         norm_of_each_sequence)],
    "batch_norm_inference_backward": [
        ("given statistics are constants: the terms of the mean and of the variance must be left "
         "out", inference(right)),
        ("the leading factor 1 / sigma is missing", inference(lambda g, x_hat, r, n: g)),
        ("the weight is missing: dy must be multiplied by it first",
         inference_without_weight)],
    "masked_batch_norm_backward": [
        *((cause, with_padding(gradients)) for cause, gradients in NORM_MISTAKES),
        ("padding is counted in the means", norm_with_padding)],
    "patches_backward": [
        ("dy is only reshaped: the pixels of a patch are not contiguous in the image",
         patches_reshaped),
        ("rows and columns inside a patch are exchanged", patches_with_pixels_transposed),
        ("the patches are placed column by column, but their order is row by row",
         patches_down_first)],
    "patch_convolution_backward": [
        ("the filter is flipped: patches do not overlap, so pixel (i, j) belongs to weight[i, j] "
         "in the backward too",
         convolution_with_filter_flipped),
        ("the gradient of the bias is summed over the batch only: the bias was added to every "
         "patch", convolution_with_bias_of_the_batch),
        ("the gradient of the weight is averaged over the batch, but must be summed",
         convolution_with_mean_of_weight)],
    "mean_pooling_backward": [
        ("the factor 1 / n of the mean is missing", lambda dy, x, mask=None:
         np.where(everywhere(x, mask)[..., None], dy[:, None], 0)),
        ("padding is counted in n", lambda dy, x, mask=None:
         np.where(everywhere(x, mask)[..., None], dy[:, None] / x.shape[1], 0)),
        ("padding gets a gradient, which must be 0", lambda dy, x, mask=None:
         np.broadcast_to((dy / everywhere(x, mask).sum(axis=1, keepdims=True))[:, None], x.shape))],
    "max_pooling_backward": [
        ("every position gets the gradient: only the largest must get it", lambda dy, x, mask=None:
         np.broadcast_to(dy[:, None], x.shape)),
        ("one position is chosen for all coordinates: each coordinate has its own maximum",
         lambda dy, x, mask=None:
         dy[:, None]
         * (np.arange(x.shape[1]) == np.where(everywhere(x, mask), x.sum(-1),
                                              -np.inf).argmax(1)[:, None])[..., None]),
        ("padding takes part in the maximum: it must be excluded, whatever its values",
         lambda dy, x, mask=None:
         F.max_pooling_backward(dy, F.max_pooling(x)[1]))],
}
