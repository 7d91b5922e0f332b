"""Convolutions and pooling of images."""

import numpy as np

from numformer import functional as F
from numformer.functional.vision.convolution2d import windows_2d_backward
from numformer.specifications.edges import left_out
from numformer.specifications.levels import Level, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import changed, specify


# ---- convolution_2d ------------------------------------------------------------------------------

def convolved(**options):
    def make(rng):
        B, C, K, L = sizes(rng, 4)
        height, width, F_ = K + 4, L + 5, C + 1
        return {"images": rng.standard_normal((B, height, width, C)),
                "weight": rng.standard_normal((K, L, C, F_)), "bias": rng.standard_normal(F_)}, {
                    **options}
    return make


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


specify(
    F.convolution_2d, ("images", "weight", "bias"),
    {"plain": convolved(), "no bias": left_out(convolved(), "bias"),
     "padding": convolved(padding=2), "stride": convolved(stride=2)},
    cases=[
        Pair("convolution 2-D", [(2, 4, 5, 2), (3, 2, 2, 3), (3,)], options=dict(padding=1)),
        Pair("convolution 2-D, stride",
             [(2, 5, 6, 2), (2, 3, 2, 3), (3,)], options=dict(stride=2))],
    mistakes=[
        ("the filter is flipped in the gradient of the images: pixel (i, j) of a window met "
         "weight[i, j] in the forward, and meets it again here", convolution_with_filter_flipped),
        ("a pixel keeps the gradient of its last window only: it is in several windows, and their "
         "gradients add up", convolution_that_overwrites),
        ("the gradient of the bias is averaged over the positions, but must be summed: the bias "
         "was added to every window",
         changed(F.convolution_2d, dbias=lambda dbias, dy, *_:
                 dbias / (dy.shape[1] * dy.shape[2]))),
        ("the gradient of the weight is averaged over the batch, but must be summed",
         changed(F.convolution_2d, dweight=lambda dweight, dy, x, *_: dweight / len(x)))])


# ---- max_pooling_2d ------------------------------------------------------------------------------

OVERLAP = "Windows overlap here: a pixel is in several of them, and their gradients add up."


def pooled(overlapping):
    def make(rng):
        B, C, rows, columns = sizes(rng, 4)
        P = int(rng.integers(2, 4))
        images = rng.standard_normal((B, P * rows + 1, P * columns, C))
        return {"images": images, "size": P}, {"stride": P - 1} if overlapping else {}
    return make


def pooled_with_equal_maxima(rng):
    arguments, options = pooled(False)(rng)
    arguments["images"] = np.round(arguments["images"])
    return arguments, options


TIES = "Of equal maxima, the gradient goes to the first."


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


specify(
    F.max_pooling_2d, ("images",),
    {"plain": pooled(False), "overlapping windows": Level(pooled(True), OVERLAP),
     "equal maxima": Level(pooled_with_equal_maxima, TIES, required=False)},
    cases=[
        Pair("max pooling 2-D", [(2, 4, 5, 3)], after=(2,)),
        Pair("max pooling 2-D, overlapping", [(2, 5, 4, 2)], after=(3, 1))],
    mistakes=[
        ("every pixel of a window gets the gradient: only the largest must get it",
         everywhere(lambda P: 1)),
        ("the gradient is shared by all pixels of a window, as for the mean: only the largest must "
         "get it", everywhere(lambda P: 1 / P ** 2)),
        ("one pixel is chosen for all channels: each channel has its own maximum",
         maximum_of_all_channels)])


# ---- mean_pooling_2d -----------------------------------------------------------------------------

specify(
    F.mean_pooling_2d, ("images",),
    {"plain": pooled(False), "overlapping windows": Level(pooled(True), OVERLAP)},
    cases=[
        Pair("mean pooling 2-D", [(2, 4, 5, 3)], after=(2,)),
        Pair("mean pooling 2-D, overlapping", [(2, 5, 4, 2)], after=(3, 2))],
    mistakes=[
        ("the factor 1 / P^2 of the mean is missing", everywhere(lambda P: 1)),
        ("the factor is 1 / P, but a window has P^2 pixels", everywhere(lambda P: 1 / P))])
