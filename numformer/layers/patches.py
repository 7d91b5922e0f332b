"""Patch embedding: an image becomes a sequence of vectors."""

import numpy as np

from numformer.backend import linear, linear_backward_accumulate
from numformer.checks import check_choice, check_divides, check_whole
from numformer.description import Description
from numformer.functional.vision.patches import (
    check_images, patch_convolution, patch_convolution_backward, patches, patches_backward)
from numformer.parameter import Layer, constant, normal


class PatchEmbedding(Layer):
    r"""Cut images into patches and map each to a vector, (B, height, width, channels) to (B, T, C).

    .. math:: y_t = b + \sum_{ij} x_{rP + i,\, cP + j}\, W_{ij}

    There are two forms of the same computation: the pixels of a patch in one row, times a matrix;
    or a convolution whose stride is the patch size. The weight has the same shape in both, so a
    model of one form can load the weights of the other.

    Parameters
    ----------
    image_size : int
        Height and width.
    patch_size : int
        P, which divides the image size; T = (image_size / P)^2.
    channels : int
    d_model : int
        C.
    rng : numpy.random.Generator or None
    form : "flatten" or "convolution"
    bias : bool
    std : float, optional
        Of the initial weight; 1 / sqrt(P P channels) unless given.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If patches do not divide the images, the form is unknown, or images have another size.

    References
    ----------
    Dosovitskiy et al. (2021), "An Image Is Worth 16x16 Words", eq. 1 and section 3.1.

    Examples
    --------
    >>> layer = PatchEmbedding(8, 2, 3, 16, np.random.default_rng(0))
    >>> layer(np.ones((5, 8, 8, 3), np.float32)).shape
    (5, 16, 16)
    >>> PatchEmbedding(28, 16, 1, 16, np.random.default_rng(0))  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: PatchEmbedding: image_size=28 is not divisible by patch_size=16;
                use patch_size=14 or image_size=32.
    """

    def __init__(self, image_size, patch_size, channels, d_model, rng, form="flatten", bias=True,
                 std=None, dtype=np.float32):
        check_divides("PatchEmbedding", "image_size", image_size, "patch_size", patch_size)
        check_whole("PatchEmbedding", "channels", channels)
        check_whole("PatchEmbedding", "d_model", d_model)
        check_choice("PatchEmbedding", "form", form, ["flatten", "convolution"])
        std = (patch_size * patch_size * channels) ** -0.5 if std is None else std
        self.weight = normal(rng, (patch_size, patch_size, channels, d_model), std, dtype)
        self.bias = constant(0, (d_model,), dtype) if bias else None
        self.image_size, self.patch_size, self.form = image_size, patch_size, form

    def forward(self, images):
        P, _, channels, C = self.weight.data.shape
        check_images("PatchEmbedding", images, P, self.weight.data.dtype,
                     height=self.image_size, width=self.image_size, channels=channels)
        bias = None if self.bias is None else self.bias.data
        if self.form == "flatten":
            x, saved_patches = patches(images, P)                     # (B, T, P * P * channels)
            y, saved_map = linear(x, self.weight.data.reshape(-1, C), bias)       # (B, T, C)
        else:
            saved_patches = None
            # (B, rows, columns, C)
            y, saved_map = patch_convolution(images, self.weight.data, bias)
            y = y.reshape(len(images), -1, C)

        saved = (saved_patches, saved_map)
        return y, saved

    def backward(self, dy, saved):
        """Gradient of the images."""
        saved_patches, saved_map = saved

        if self.form == "flatten":
            # y = linear(x, weight, bias)
            weight_grad = self.weight.grad.reshape(-1, dy.shape[-1])  # (P P channels, C)
            bias_grad = None if self.bias is None else self.bias.grad
            dx = linear_backward_accumulate(dy, saved_map, weight_grad, bias_grad)
            if not np.may_share_memory(weight_grad, self.weight.grad):
                # reshape copied: the gradient is not contiguous
                self.weight.grad[...] = weight_grad.reshape(self.weight.grad.shape)

            # x = patches(images)
            dimages = patches_backward(dx, saved_patches)
        else:
            # y = patch_convolution(images, weight, bias)
            side = self.image_size // self.patch_size
            dy = dy.reshape(len(dy), side, side, -1)                  # (B, rows, columns, C)
            dimages, dweight, dbias = patch_convolution_backward(dy, saved_map)
            self.weight.grad += dweight
            if self.bias is not None:
                self.bias.grad += dbias
        return dimages

    def describe(self):
        P, _, channels, C = self.weight.data.shape
        return Description("Patch embedding", f"{P} x {P} x {channels} to {C:,}", (
            r"dW = \Sigma_t x_t^\top dy_t", r"db = \Sigma\,dy", r"dx_t = dy_t\,W^\top"))
