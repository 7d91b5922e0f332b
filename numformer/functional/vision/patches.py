"""Images as sequences of square patches: flattened, or mapped by a strided convolution.

A convolution whose stride equals its width uses every pixel once, so with the same weights it
equals a linear map of the flattened patches.
"""

import numpy as np

from numformer.checks import check_array, check_divides


def patches(images, patch_size):
    r"""Cut images into patches, row by row, and flatten each.

    .. math:: y_{t, (iP + j) K + k} = x_{rP + i,\, cP + j,\, k}, \qquad
              t = r \cdot \tfrac{\text{width}}{P} + c

    with K channels. This is a permutation: nothing is computed.

    Parameters
    ----------
    images : ndarray, shape (B, height, width, channels)
    patch_size : int
        P, which divides height and width.

    Returns
    -------
    y : ndarray, shape (B, T, P * P * channels)
        T = (height / P) (width / P).
    saved : tuple
        For `patches_backward`.

    Raises
    ------
    ValueError, TypeError
        If patches do not divide the images, or these are not an array of floats with four axes.

    References
    ----------
    Dosovitskiy et al. (2021), "An Image Is Worth 16x16 Words", section 3.1.

    Examples
    --------
    >>> image = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> patches(image, 2)[0].astype(int)
    array([[[ 0,  1,  4,  5],
            [ 2,  3,  6,  7],
            [ 8,  9, 12, 13],
            [10, 11, 14, 15]]])
    >>> patches(image, 3)
    Traceback (most recent call last):
    ValueError: patches: height=4 is not divisible by patch_size=3; use patch_size=2 or height=6.
    """
    check_images("patches", images, patch_size)
    B, height, width, channels = images.shape
    P, rows, columns = patch_size, height // patch_size, width // patch_size
    y = images.reshape(B, rows, P, columns, P, channels)
    y = y.transpose(0, 1, 3, 2, 4, 5)                           # (B, rows, columns, P, P, channels)
    y = y.reshape(B, rows * columns, P * P * channels).copy()

    saved = (images.shape, P)
    return y, saved


def patches_backward(dy, saved):
    r"""The gradient of `patches`: the inverse permutation, from patches back to an image.

    .. math:: \bar{x}_{rP + i,\, cP + j,\, k} = \bar{y}_{t, (iP + j) K + k}

    Returns
    -------
    dimages : ndarray, shape (B, height, width, channels)
    """
    (B, height, width, channels), P = saved

    # y = images.reshape(...).transpose(0, 1, 3, 2, 4, 5).reshape(...)
    dy = dy.reshape(B, height // P, width // P, P, P, channels)
    dy = dy.transpose(0, 1, 3, 2, 4, 5)              # (B, rows, P, columns, P, channels)
    return dy.reshape(B, height, width, channels).copy()


def patch_convolution(images, weight, bias=None):
    r"""The convolution of images with filters as wide as a patch and a stride of a whole patch.

    .. math:: y_{rc} = \sum_{i=0}^{P-1} \sum_{j=0}^{P-1} x_{rP + i,\, cP + j}\, W_{ij} + b

    Parameters
    ----------
    images : ndarray, shape (B, height, width, channels)
    weight : ndarray, shape (P, P, channels, C)
        One matrix for each pixel of a patch.
    bias : ndarray, shape (C,), optional

    Returns
    -------
    y : ndarray, shape (B, height / P, width / P, C)
    saved : tuple
        For `patch_convolution_backward`.

    Raises
    ------
    ValueError, TypeError
        If patches do not divide the images, or the arrays are not floats of one precision whose
        shapes fit.

    References
    ----------
    Dosovitskiy et al. (2021), "An Image Is Worth 16x16 Words", section 3.1; their published code
    computes the patch embedding as such a convolution.

    Examples
    --------
    >>> image = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> patch_convolution(image, np.ones((2, 2, 1, 1)))[0][0, ..., 0]
    array([[10., 18.],
           [42., 50.]])
    """
    check_patch_convolution(images, weight, bias)
    P = len(weight)
    y = sum(images[:, i::P, j::P] @ weight[i, j]                     # (B, rows, columns, C)
            for i, j in np.ndindex(P, P))
    if bias is not None:
        y = y + bias

    saved = (images, weight, bias is not None)
    return y, saved


def patch_convolution_backward(dy, saved):
    r"""The gradient of `patch_convolution`: that of a linear map for every pixel of a patch.

    .. math:: \bar{x}_{rP + i,\, cP + j} = \bar{y}_{rc} W_{ij}^\top, \qquad
              \bar{W}_{ij} = \sum_{rc} x_{rP + i,\, cP + j}^\top \bar{y}_{rc}, \qquad
              \bar{b} = \sum_{rc} \bar{y}_{rc}

    Returns
    -------
    dimages : ndarray, shape (B, height, width, channels)
    dweight : ndarray, shape (P, P, channels, C)
    dbias : ndarray, shape (C,), or None where there was no bias
    """
    images, weight, biased = saved
    P, vectors = len(weight), tuple(range(dy.ndim - 1))              # every axis but the last

    # y = y + bias
    dbias = dy.sum(axis=vectors) if biased else None

    # y = sum of images[:, i::P, j::P] @ weight[i, j]
    dimages = np.empty(images.shape, np.result_type(dy, weight))
    dweight = np.empty(weight.shape, np.result_type(dy, images))
    for i, j in np.ndindex(P, P):
        dimages[:, i::P, j::P] = dy @ weight[i, j].T
        dweight[i, j] = np.tensordot(images[:, i::P, j::P], dy, axes=(vectors, vectors))
    return dimages, dweight, dbias


def check_images(owner, images, patch_size, dtype=None, **sizes):
    """Check that images are floats with four axes, hold some, and that patches divide them."""
    found = check_array(owner, "images", images, "(B, height, width, channels)", dtype, **sizes)
    if not images.size:
        raise ValueError(f"{owner}: images is empty, shape {images.shape}; give at least one.")
    for side in ("height", "width"):
        check_divides(owner, side, found[side], "patch_size", patch_size)


def check_patch_convolution(images, weight, bias):
    """Check the arguments of `patch_convolution`."""
    sizes = check_array("patch_convolution", "weight", weight, "(P, P', channels, C)")
    P, second, channels, C = sizes.values()
    if P != second:
        raise ValueError("patch_convolution: weight must have shape (P, P, channels, C), as "
                         f"patches are square, but has {weight.shape}.")
    check_images("patch_convolution", images, P, weight.dtype, channels=channels)
    if bias is not None:
        check_array("patch_convolution", "bias", bias, "(C,)", weight.dtype, C=C)
