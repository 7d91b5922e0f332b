"""The convolution of images: the same linear map of every window of pixels."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.linear import linear, linear_backward


def convolution_2d(images, weight, bias=None, stride=1, padding=0):
    r"""Map every window of an image to a vector, with the same weights at every position.

    .. math:: y_{rc} = b + \sum_{i=0}^{K-1} \sum_{j=0}^{L-1} x_{rs + i - p,\, cs + j - p}\, W_{ij}

    with stride s and padding p: x is 0 outside the image. As in all libraries, the filter is not
    flipped.

    Parameters
    ----------
    images : ndarray, shape (B, height, width, C)
    weight : ndarray, shape (K, L, C, F)
        A matrix for each pixel of a window.
    bias : ndarray, shape (F,), optional
    stride : int
        s, how far adjacent windows are apart, in pixels.
    padding : int
        p, rows and columns of zeros on each of the four sides.

    Returns
    -------
    y : ndarray, shape (B, rows, columns, F)
        rows = floor((height + 2 p - K) / s) + 1, and the same with the width and L.
    saved : tuple
        For `convolution_2d_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, their shapes do not fit, or a window is
        larger than the padded image.

    Notes
    -----
    The windows are copied into one array (B, rows, columns, K L C), so that a single product
    computes all of it ("im2col"). The copy is not saved: the backward makes it again.

    References
    ----------
    LeCun et al. (1998), "Gradient-Based Learning Applied to Document Recognition", section II.A; as
    one product: Chellapilla, Puri, Simard (2006), "High Performance Convolutional Neural Networks
    for Document Processing".

    Examples
    --------
    >>> image = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> convolution_2d(image, np.ones((2, 2, 1, 1)), stride=2)[0][0, ..., 0]
    array([[10., 18.],
           [42., 50.]])
    >>> convolution_2d(image, np.ones((3, 3, 1, 1)), padding=1)[0].shape
    (1, 4, 4, 1)
    """
    check_convolution_2d(images, weight, bias, stride, padding)
    K, L, C, F = weight.shape
    columns = windows_2d(pad(images, padding), K, L, stride)         # (B, rows, columns, K L, C)
    columns = columns.reshape(*columns.shape[:3], K * L * C)
    y, _ = linear(columns, weight.reshape(K * L * C, F), bias)       # (B, rows, columns, F)

    saved = (images, weight, bias is not None, stride, padding)
    return y, saved


def convolution_2d_backward(dy, saved):
    r"""The gradient of `convolution_2d`: a pixel adds up what all windows that contain it return.

    .. math::

        \bar{x}_{uv} = \sum_{rs + i - p = u} \; \sum_{cs + j - p = v} \bar{y}_{rc} W_{ij}^\top,
        \qquad \bar{W}_{ij} = \sum_{rc} x_{rs + i - p,\, cs + j - p}^\top\, \bar{y}_{rc}, \qquad
        \bar{b} = \sum_{rc} \bar{y}_{rc}

    Returns
    -------
    dimages : ndarray, shape (B, height, width, C)
    dweight : ndarray, shape (K, L, C, F)
    dbias : ndarray, shape (F,), or None where there was no bias
    """
    images, weight, biased, stride, padding = saved
    K, L, C, F = weight.shape
    padded = pad(images, padding)
    columns = windows_2d(padded, K, L, stride).reshape(*dy.shape[:3], K * L * C)

    # y = linear(columns, weight, bias)
    saved_linear = (columns, weight.reshape(K * L * C, F), biased)
    dcolumns, dweight, dbias = linear_backward(dy, saved_linear)     # (B, rows, columns, K L C)

    # columns = windows_2d(padded)
    dcolumns = dcolumns.reshape(*dy.shape[:3], K * L, C)
    dpadded = windows_2d_backward(dcolumns, padded.shape, K, L, stride)

    # padded = pad(images, padding)
    height, width = images.shape[1:3]
    dimages = dpadded[:, padding:padding + height, padding:padding + width].copy()
    return dimages, dweight.reshape(weight.shape), dbias


def windows_2d(x, K, L, stride):
    """All windows of K x L pixels: (B, height, width, C) to (B, rows, columns, K L, C), a copy."""
    rows, columns = window_counts(x.shape, K, L, stride)
    return np.stack([x[:, i:i + stride * (rows - 1) + 1:stride,
                       j:j + stride * (columns - 1) + 1:stride] for i, j in np.ndindex(K, L)],
                    axis=3)


def windows_2d_backward(dwindows, shape, K, L, stride):
    """The gradient of `windows_2d`: a pixel sums over the windows that contain it."""
    rows, columns = window_counts(shape, K, L, stride)
    dx = np.zeros(shape, dwindows.dtype)
    # windows[:, r, c, i L + j] = x[:, r stride + i, c stride + j]
    for n, (i, j) in enumerate(np.ndindex(K, L)):
        dx[:, i:i + stride * (rows - 1) + 1:stride,
           j:j + stride * (columns - 1) + 1:stride] += dwindows[:, :, :, n]
    return dx


def window_counts(shape, K, L, stride):
    """How many windows fit below each other, and next to each other."""
    return (shape[1] - K) // stride + 1, (shape[2] - L) // stride + 1


def pad(images, padding):
    """Rows and columns of zeros around images."""
    B, height, width, C = images.shape
    padded = np.zeros((B, height + 2 * padding, width + 2 * padding, C), images.dtype)
    padded[:, padding:padding + height, padding:padding + width] = images
    return padded


def check_windows(owner, sizes, K, L, stride, padding=0):
    """Check that at least one window fits into images of these sizes."""
    check_whole(owner, "stride", stride)
    check_whole(owner, "padding", padding, least=0)
    for side, extent in (("height", K), ("width", L)):
        if sizes[side] + 2 * padding < extent:
            raise ValueError(f"{owner}: a window of {K} x {L} pixels is larger than images of "
                             f"{side}={sizes[side]} with padding={padding}; use smaller windows, "
                             "larger images, or more padding.")


def check_convolution_2d(images, weight, bias, stride, padding):
    """Check the arguments of `convolution_2d`."""
    owner = "convolution_2d"
    K, L, C, F = check_array(owner, "weight", weight, "(K, L, C, F)").values()
    sizes = check_array(owner, "images", images, "(B, height, width, C)", weight.dtype, C=C)
    if bias is not None:
        check_array(owner, "bias", bias, "(F,)", weight.dtype, F=F)
    if not weight.size or not images.size:
        raise ValueError(f"{owner}: images and weight must hold something, but have shapes "
                         f"{images.shape} and {weight.shape}.")
    check_windows(owner, sizes, K, L, stride, padding)
