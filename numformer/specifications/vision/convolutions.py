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
        height, width, F_ = K + 4, L + 5, C % 6 + 2        # F_ is not C, and small where C is 257
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


def padded_by(mode):
    """The convolution of images that are padded by another rule of `np.pad`."""
    def convolved(images, weight, bias=None, stride=1, padding=0):
        around = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
        return F.convolution_2d(np.pad(images, around, mode), weight, bias, stride)[0]
    return convolved


def padded_on_one_side(*of_two):
    """`of_two` says which part of the padding is before and after the image: (0, 2) or (2, 0)."""
    def convolved(images, weight, bias=None, stride=1, padding=0):
        side = tuple(padding * part for part in of_two)
        return F.convolution_2d(np.pad(images, [(0, 0), side, side, (0, 0)]), weight, bias,
                                stride)[0]
    return convolved


specify(
    F.convolution_2d, ("images", "weight", "bias"),
    {"plain": convolved(), "no bias": left_out(convolved(), "bias"),
     "padding": convolved(padding=2), "stride": convolved(stride=2)},
    cases=[
        Pair("convolution 2-D", [(2, 4, 5, 2), (3, 2, 2, 3), (3,)], options=dict(padding=1)),
        Pair("convolution 2-D, stride",
             [(2, 5, 6, 2), (2, 3, 2, 3), (3,)], options=dict(stride=2))],
    forward_mistakes=[
        ("the padding repeats the pixels at the edge, but must be zeros", padded_by("edge")),
        ("the padding mirrors the image, but must be zeros", padded_by("reflect")),
        ("the padding is the image from its other side, but must be zeros", padded_by("wrap")),
        ("all padding is below and on the right, but half of it belongs on the other sides",
         padded_on_one_side(0, 2)),
        ("all padding is above and on the left, but half of it belongs on the other sides",
         padded_on_one_side(2, 0))],
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
         changed(F.convolution_2d, dweight=lambda dweight, dy, x, *_: dweight / len(x)))],
    hints=(
        "Each output position looks at a window of K x L pixels, multiplies all of it by the same "
        "filters, and sums. The filter is not flipped.",
        "Pad height and width with zeros on both sides; window (r, c) starts at (r stride, c "
        "stride). There are (height + 2 padding - K) // stride + 1 rows.",
        "Sum over i, j: pixels padded[:, i::stride, j::stride], cut to the output's rows and "
        "columns, @ weight[i, j], which is (C, F); then the bias."),
    backward_hints=(
        "A pixel is in several windows and sums over them; a filter is used by all windows of all "
        "images and sums over these; so does the bias.",
        "Offset (i, j) alone is a linear map of a strided slice: the slice gets dy W_ij^T, W_ij "
        "gets slice^T dy, summed over B, rows and columns. Windows overlap, so add.",
        "For each i, j: add dy @ weight[i, j].T to the same strided slice of dpadded that the "
        "forward read; at the end cut the padding off dpadded."))


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
         maximum_of_all_channels)],
    hints=(
        "The largest number of every window, for each channel on its own.",
        "Window (r, c) holds rows r stride ... r stride + size - 1, and the same for columns; "
        "stride is size if it is None. Rows that fill no window are left out.",
        "With the windows as (B, rows, columns, P P, C), take the maximum over axis 3; np.maximum "
        "over the P P strided slices of images does the same."),
    backward_hints=(
        "The maximum passes dy to the pixel that it came from; of equal ones to the first, row by "
        "row. A pixel may win in several windows.",
        "argmax over the P P pixels of a window gives the winner. Overlapping windows (stride < "
        "size) add up; pixels that never win get 0.",
        "np.put_along_axis puts dy at the argmax, in zeros of the windows' shape; then add each "
        "of the P P slices back to images[:, i::stride, j::stride]."))


# ---- mean_pooling_2d -----------------------------------------------------------------------------

specify(
    F.mean_pooling_2d, ("images",),
    {"plain": pooled(False), "overlapping windows": Level(pooled(True), OVERLAP)},
    cases=[
        Pair("mean pooling 2-D", [(2, 4, 5, 3)], after=(2,)),
        Pair("mean pooling 2-D, overlapping", [(2, 5, 4, 2)], after=(3, 2))],
    mistakes=[
        ("the factor 1 / P^2 of the mean is missing", everywhere(lambda P: 1)),
        ("the factor is 1 / P, but a window has P^2 pixels", everywhere(lambda P: 1 / P))],
    hints=(
        "The mean of the pixels of every window, for each channel on its own.",
        "A window has size x size pixels; stride is size if it is None. Incomplete windows at the "
        "edge are left out.",
        "Add the strided slices images[:, i::stride, j::stride] for all i, j below size, each cut "
        "to the output's rows and columns; divide by size ** 2."),
    backward_hints=(
        "Each pixel of a window has the same share in its mean, 1 / size^2. A pixel in several "
        "windows sums over them.",
        "dimages starts as zeros: pixels in no window get 0. The images themselves are not "
        "needed, only their shape.",
        "For all i, j below size: add dy / size ** 2 to the slice of dimages from which the "
        "forward read."))
