"""Convolution and pooling of images."""

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.description import Description, by
from numformer.functional import (
    convolution_2d, convolution_2d_backward, max_pooling_2d, max_pooling_2d_backward,
    mean_pooling_2d, mean_pooling_2d_backward)
from numformer.parameter import Layer, constant, normal

POOLINGS_2D = {"mean": (mean_pooling_2d, mean_pooling_2d_backward),
               "max": (max_pooling_2d, max_pooling_2d_backward)}


class Convolution2D(Layer):
    r"""A learned map of every window of an image, (B, height, width, C) to (B, rows, columns, F).

    .. math:: y_{rc} = b + \sum_{ij} x_{rs + i - p,\, cs + j - p}\, W_{ij}

    Parameters
    ----------
    d_in, d_out : int
        C and F, channels of the input and of the output.
    width : int
        K, height and width of a window, in pixels.
    rng : numpy.random.Generator or None
        Samples the weight; None: only shapes.
    stride, padding : int
        As in `convolution_2d`.
    bias : bool
    std : float, optional
        Of the initial weight; 1 / (K sqrt(C)) unless given, which keeps the scale of coordinates.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a size is not a whole number above 0, or images do not fit.

    References
    ----------
    LeCun et al. (1998), "Gradient-Based Learning Applied to Document Recognition", section II.A.

    Examples
    --------
    >>> layer = Convolution2D(1, 6, 5, np.random.default_rng(0), padding=2)
    >>> layer(np.ones((2, 28, 28, 1), np.float32)).shape
    (2, 28, 28, 6)
    """

    def __init__(self, d_in, d_out, width, rng, stride=1, padding=0, bias=True, std=None,
                 dtype=np.float32):
        for name, value in (("d_in", d_in), ("d_out", d_out), ("width", width),
                            ("stride", stride)):
            check_whole("Convolution2D", name, value)
        check_whole("Convolution2D", "padding", padding, least=0)
        std = (width * width * d_in) ** -0.5 if std is None else std
        self.weight = normal(rng, (width, width, d_in, d_out), std, dtype)
        self.bias = constant(0, (d_out,), dtype) if bias else None
        self.stride, self.padding = stride, padding

    def forward(self, images):
        bias = None if self.bias is None else self.bias.data
        return convolution_2d(images, self.weight.data, bias, self.stride, self.padding)

    def backward(self, dy, saved):
        # y = convolution_2d(images, weight, bias)
        dimages, dweight, dbias = convolution_2d_backward(dy, saved)
        self.weight.grad += dweight
        if self.bias is not None:
            self.bias.grad += dbias
        return dimages

    def describe(self):
        width, _, C, F = self.weight.data.shape
        padding = f", padding {self.padding}" if self.padding else ""
        return Description("Convolution", f"{width} x {width}, {C:,} to {F:,}{padding}", (
            r"dx_{u} = \Sigma_k dy_{u-k}\,W_k^\top", r"dW_k = \Sigma_u x_{u+k}^\top dy_u",
            r"db = \Sigma\,dy"))


class Pooling2D(Layer):
    """The maximum or mean of every window, (B, height, width, C) to (B, rows, columns, C).

    Parameters
    ----------
    kind : "max" or "mean"
    size : int
        P, height and width of a window.
    stride : int, optional
        P unless given.

    Raises
    ------
    ValueError, TypeError
        If the kind is unknown, a size is not a whole number above 0, or no window fits.

    Examples
    --------
    >>> Pooling2D("max", 2)(np.arange(16.0).reshape(1, 4, 4, 1)).ravel()
    array([ 5.,  7., 13., 15.])
    """

    def __init__(self, kind, size, stride=None):
        check_choice("Pooling2D", "kind", kind, list(POOLINGS_2D))
        check_whole("Pooling2D", "size", size)
        if stride is not None:
            check_whole("Pooling2D", "stride", stride)
        self.kind, self.size, self.stride = kind, size, stride

    def forward(self, images):
        return POOLINGS_2D[self.kind][0](images, self.size, self.stride)

    def backward(self, dy, saved):
        return POOLINGS_2D[self.kind][1](dy, saved)

    def describe(self):
        return Description(f"{self.kind.title()} pooling", by(self.size, self.size),
                           (r"max: $dx_{u^*} = dy$", r"mean: $dx_u = dy / n$"))
