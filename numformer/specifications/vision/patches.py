"""Patches of images, and merged patches."""

import numpy as np

from numformer import functional as F
from numformer.specifications.edges import left_out
from numformer.specifications.levels import sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import changed, specify


# ---- patches -------------------------------------------------------------------------------------

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


def images(rng):
    """A patch size, the number of channels, and images of several patches."""
    B, rows, columns, channels = sizes(rng, 4)
    P = int(rng.integers(2, 4))
    return P, channels, rng.standard_normal((B, P * rows, P * columns, channels))


def cut(rng):
    P, _, x = images(rng)
    return {"images": x, "patch_size": P}, {}


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


specify(
    F.patches, ("images",),
    {"plain": cut},
    cases=[Pair("patches", [(2, 4, 6, 3)], after=(2,))],
    mistakes=[
        ("dy is only reshaped: the pixels of a patch are not contiguous in the image",
         patches_reshaped),
        ("rows and columns inside a patch are exchanged", patches_with_pixels_transposed),
        ("the patches are placed column by column, but their order is row by row",
         patches_down_first)],
    hints=(
        "Nothing is computed: axes are split, reordered and joined. Which axes does a patch "
        "consist of?",
        "Split height into (rows, P) and width into (columns, P): (B, rows, P, columns, P, "
        "channels). A patch needs both P next to each other.",
        "Transpose by (0, 1, 3, 2, 4, 5), then reshape to (B, rows * columns, P * P * channels)."),
    backward_hints=(
        "A permutation moves every number to one place: the gradient moves each back. Undo the "
        "three steps in reverse order.",
        "Reshape dy to (B, rows, columns, P, P, channels), with rows = height // P. The "
        "transposition that exchanges axes 2 and 3 is its own inverse.",
        "dy reshaped so, transposed by (0, 1, 3, 2, 4, 5), and reshaped to the shape of images."))


# ---- patch_convolution ---------------------------------------------------------------------------

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


def convolved(rng):
    P, channels, x = images(rng)
    C = channels + 1
    return {"images": x, "weight": rng.standard_normal((P, P, channels, C)),
            "bias": rng.standard_normal(C)}, {}


def with_filter_flipped(dimages, dy, images, weight, bias=None):
    flipped = weight[::-1, ::-1]
    return F.patch_convolution_backward(dy, F.patch_convolution(images, flipped)[1])[0]


specify(
    F.patch_convolution, ("images", "weight", "bias"),
    {"plain": convolved, "no bias": left_out(convolved, "bias")},
    cases=[Pair("patch convolution", [(2, 4, 6, 3), (2, 2, 3, 5), (5,)])],
    mistakes=[
        ("the filter is flipped: patches do not overlap, so pixel (i, j) belongs to weight[i, j] "
         "in the backward too", changed(F.patch_convolution, dimages=with_filter_flipped)),
        ("the gradient of the bias is summed over the batch only: the bias was added to every "
         "patch", changed(F.patch_convolution, dbias=lambda dbias, dy, *_: dy.sum(axis=0))),
        ("the gradient of the weight is averaged over the batch, but must be summed",
         changed(F.patch_convolution, dweight=lambda dweight, dy, x, *_: dweight / len(x)))],
    hints=(
        "Each patch of P x P pixels is mapped to one vector by a linear map; patches do not "
        "overlap.",
        "images[:, i::P, j::P] are pixels (i, j) of all patches, (B, rows, columns, K). weight is "
        "(P, P, K, C): one matrix for each pixel.",
        "Sum over i and j: images[:, i::P, j::P] @ weight[i, j]; add the bias once at the end."),
    backward_hints=(
        "For each pixel (i, j) of a patch it is a linear map. Patches do not overlap, so every "
        "pixel of the images gets exactly one term.",
        "The slice images[:, i::P, j::P] gets dy W_ij^T. W_ij gets slice^T dy, summed over "
        "images, rows and columns; dbias sums dy over the same axes.",
        "For each i, j: dimages[:, i::P, j::P] = dy @ weight[i, j].T, and dweight[i, j] = "
        "np.tensordot(slice, dy, axes=((0, 1, 2), (0, 1, 2)))."))


# ---- merge_patches -------------------------------------------------------------------------------

def merged(rng):
    B, rows, columns, C = sizes(rng, 4)
    return {"x": rng.standard_normal((B, 2 * rows, 2 * columns, C))}, {}


def merged_right_first(dy, x):
    a, b, c, d = np.split(dy, 4, axis=3)
    return F.merge_patches_backward(np.concatenate([a, c, b, d], axis=3), (x.shape,))


specify(
    F.merge_patches, ("x",),
    {"plain": merged},
    mistakes=[
        ("the quarters are taken to the right before down: the second is the vector below",
         merged_right_first),
        ("dy is only reshaped: the four vectors are neighbours in the image, not in memory",
         lambda dy, x: dy.reshape(x.shape))],
    hints=(
        "Four neighbours become one vector: their four vectors, concatenated.",
        "x[:, i::2, j::2] picks one neighbour of each 2 x 2 block. The order is down before to "
        "the right: (0, 0), (1, 0), (0, 1), (1, 1).",
        "Concatenate these four slices along axis 3, with i as the inner loop and j as the outer "
        "one."),
    backward_hints=(
        "Nothing overlaps: each quarter of the width 4 C of dy returns to the pixel that it came "
        "from.",
        "Quarter n = 2 j + i holds x[:, i::2, j::2]. dx has the shape of x, and every entry is "
        "written once.",
        "dx[:, i::2, j::2] = dy[..., n * C:(n + 1) * C], for i and j in 0, 1."))
