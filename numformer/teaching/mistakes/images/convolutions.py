"""Mistakes in convolutions and pooling of images."""

import numpy as np

from numformer import functional as F
from numformer.functional.vision.convolution2d import windows_2d_backward


def convolution(dy, images, weight, bias, stride=1, padding=0):
    return F.convolution_2d_backward(dy, (images, weight, bias is not None, stride, padding))


def convolution_with_filter_flipped(dy, images, weight, bias=None, stride=1, padding=0):
    _, dweight, dbias = convolution(dy, images, weight, bias, stride, padding)
    flipped = np.ascontiguousarray(weight[::-1, ::-1])
    return convolution(dy, images, flipped, bias, stride, padding)[0], dweight, dbias


def convolution_that_overwrites(dy, images, weight, bias=None, stride=1, padding=0):
    _, dweight, dbias = convolution(dy, images, weight, bias, stride, padding)
    (K, L, *_), (B, height, width, C), (_, rows, columns, _) = weight.shape, images.shape, dy.shape
    dpadded = np.zeros((B, height + 2 * padding, width + 2 * padding, C), dy.dtype)
    for i, j in np.ndindex(K, L):
        dpadded[:, i:i + stride * (rows - 1) + 1:stride,
                j:j + stride * (columns - 1) + 1:stride] = dy @ weight[i, j].T
    return dpadded[:, padding:padding + height, padding:padding + width], dweight, dbias


def convolution_with_mean_of_bias(dy, images, weight, bias=None, stride=1, padding=0):
    dimages, dweight, dbias = convolution(dy, images, weight, bias, stride, padding)
    return dimages, dweight, None if bias is None else dbias / (dy.shape[1] * dy.shape[2])


def convolution_with_mean_of_weight(dy, images, weight, bias=None, stride=1, padding=0):
    dimages, dweight, dbias = convolution(dy, images, weight, bias, stride, padding)
    return dimages, dweight / len(images), dbias


def everywhere(share):
    """A backward of pooling that gives each pixel of a window the gradient times `share(P)`."""
    def gradient(dy, images, size, stride=None):
        shared = np.repeat((dy * share(size))[:, :, :, None], size * size, axis=3)
        return windows_2d_backward(shared, images.shape, size, size, stride or size)
    return gradient


def maximum_of_all_channels(dy, images, size, stride=None):
    total = images.sum(axis=3, keepdims=True)
    _, saved = F.max_pooling_2d(total, size, stride)
    return np.concatenate([F.max_pooling_2d_backward(np.ascontiguousarray(dy[..., k:k + 1]), saved)
                           for k in range(dy.shape[3])], axis=3)


MISTAKES = {
    "convolution_2d_backward": [
        ("the filter is flipped in the gradient of the images: pixel (i, j) of a window met "
         "weight[i, j] in the forward, and meets it again here", convolution_with_filter_flipped),
        ("a pixel keeps the gradient of its last window only: it is in several windows, and their "
         "gradients add up", convolution_that_overwrites),
        ("the gradient of the bias is averaged over the positions, but must be summed: the bias "
         "was added to every window", convolution_with_mean_of_bias),
        ("the gradient of the weight is averaged over the batch, but must be summed",
         convolution_with_mean_of_weight)],
    "max_pooling_2d_backward": [
        ("every pixel of a window gets the gradient: only the largest must get it",
         everywhere(lambda P: 1)),
        ("the gradient is shared by all pixels of a window, as for the mean: only the largest must "
         "get it", everywhere(lambda P: 1 / P ** 2)),
        ("one pixel is chosen for all channels: each channel has its own maximum",
         maximum_of_all_channels)],
    "mean_pooling_2d_backward": [
        ("the factor 1 / P^2 of the mean is missing", everywhere(lambda P: 1)),
        ("the factor is 1 / P, but a window has P^2 pixels", everywhere(lambda P: 1 / P))],
}
