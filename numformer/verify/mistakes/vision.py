"""Mistakes in BatchNorm, patches and pooling."""

import numpy as np

from numformer import functional as F


def batch_norm(change):
    """A backward of BatchNorm in which `change(g, x_hat, r, n, given)` says what dx is; n vectors count."""
    def gradients(dy, x, gain, shift, statistics=None, mask=None):
        real = np.ones(x.shape[:-1], bool) if mask is None else mask
        vectors, dvectors, n = x[real], dy[real], real.sum()
        mean, variance = (vectors.mean(axis=0), vectors.var(axis=0)) if statistics is None else statistics
        r = (variance + 1e-5) ** -0.5
        x_hat = (vectors - mean) * r
        dx = np.zeros_like(x)
        dx[real] = change(gain * dvectors, x_hat, r, n, statistics is not None)
        return dx, (dvectors * x_hat).sum(axis=0), dvectors.sum(axis=0)
    return gradients


def terms(g, x_hat, n):
    """What the mean and the variance take back, each summed over n vectors."""
    return g.sum(axis=0) / n, x_hat * ((g * x_hat).sum(axis=0) / n)


def right(g, x_hat, r, n, given):
    return r * (g if given else g - sum(terms(g, x_hat, n)))


def as_layer_norm(dy, x, gain, shift, statistics=None, mask=None):
    return F.layer_norm_backward(dy, F.layer_norm(x, gain, shift)[1])


def norm_without_gain(dy, x, gain, shift, **options):
    dx, dgain, dshift = batch_norm(right)(dy, x, gain, shift, **options)
    return dx / gain, dgain, dshift


def norm_of_each_sequence(dy, x, gain, shift, statistics=None, mask=None):
    parts = [F.batch_norm_backward(dy[b], F.batch_norm(x[b], gain, shift)[1]) for b in range(len(x))]
    dx, dgain, dshift = zip(*parts)
    return np.stack(dx), sum(dgain), sum(dshift)


def norm_with_padding(dy, x, gain, shift, statistics=None, mask=None):
    return F.batch_norm_backward(dy, F.batch_norm(x, gain, shift)[1])


def patches_in_a_row(dy, images, patch_size):
    return dy.reshape(images.shape)


def patches_with_pixels_turned(dy, images, patch_size):
    B, T, _ = dy.shape
    P = patch_size
    return F.patches_backward(dy.reshape(B, T, P, P, -1).swapaxes(2, 3).reshape(dy.shape), (images.shape, P))


def patches_down_first(dy, images, patch_size):
    B, height, width, _ = images.shape
    grid = dy.reshape(B, width // patch_size, height // patch_size, -1).swapaxes(1, 2)
    return F.patches_backward(grid.reshape(dy.shape), (images.shape, patch_size))


def convolution(dy, images, weight, bias):
    return F.patch_convolution_backward(dy, (images, weight, True))


def convolution_with_filter_turned(dy, images, weight, bias):
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
        ("the terms of the mean and of the variance are missing: they depend on x too",
         batch_norm(lambda g, x_hat, r, n, given: r * g)),
        ("the term of the mean is missing: adding a constant to a coordinate changes nothing, so dx must sum to 0 over the batch",
         batch_norm(lambda g, x_hat, r, n, given: r * (g if given else g - terms(g, x_hat, n)[1]))),
        ("the term of the variance is missing: it depends on x too",
         batch_norm(lambda g, x_hat, r, n, given: r * (g if given else g - terms(g, x_hat, n)[0]))),
        ("sums stand where means belong", batch_norm(lambda g, x_hat, r, n, given: r * (g if given else g - sum(terms(g, x_hat, 1))))),
        ("statistics that are given are constants: their terms do not belong here",
         batch_norm(lambda g, x_hat, r, n, given: r * (g - sum(terms(g, x_hat, n))))),
        ("the factor 1 / sigma in front is missing", batch_norm(lambda g, x_hat, r, n, given: right(g, x_hat, 1.0, n, given))),
        ("the gain is missing: dy must be multiplied by it first", norm_without_gain),
        ("this is LayerNorm's gradient: BatchNorm's means run over the batch, down every coordinate", as_layer_norm),
        ("every sequence is normalized by itself: the means run over all vectors of the batch", norm_of_each_sequence),
        ("what only fills up is counted in the means", norm_with_padding)],
    "patches_backward": [
        ("dy is only given another shape: the pixels of a patch are not side by side in the image", patches_in_a_row),
        ("rows and columns inside a patch are exchanged", patches_with_pixels_turned),
        ("the patches are laid out column by column: they come row by row", patches_down_first)],
    "patch_convolution_backward": [
        ("the filter is turned around: each patch stands alone here, so place (i, j) meets weight[i, j] again",
         convolution_with_filter_turned),
        ("the bias's gradient is summed over the batch alone: bias was added to every patch", convolution_with_bias_of_the_batch),
        ("the weight's gradient is a mean over the batch, but must be the sum", convolution_with_mean_of_weight)],
    "mean_pooling_backward": [
        ("the factor 1 / n is missing: a mean was taken", lambda dy, x, mask=None:
         np.where(everywhere(x, mask)[..., None], dy[:, None], 0)),
        ("what only fills up is counted in n", lambda dy, x, mask=None:
         np.where(everywhere(x, mask)[..., None], dy[:, None] / x.shape[1], 0)),
        ("what only fills up gets a gradient, which must be 0", lambda dy, x, mask=None:
         np.broadcast_to((dy / everywhere(x, mask).sum(axis=1, keepdims=True))[:, None], x.shape))],
    "max_pooling_backward": [
        ("every position gets the gradient: only the largest was let through", lambda dy, x, mask=None:
         np.broadcast_to(dy[:, None], x.shape)),
        ("one position is chosen for all coordinates: each coordinate has a largest of its own", lambda dy, x, mask=None:
         dy[:, None] * (np.arange(x.shape[1]) == np.where(everywhere(x, mask), x.sum(-1), -np.inf).argmax(1)[:, None])[..., None]),
        ("what only fills up takes part: it must lose whatever it holds", lambda dy, x, mask=None:
         F.max_pooling_backward(dy, F.max_pooling(x)[1]))],
}
