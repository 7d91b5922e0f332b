"""An image as a sequence: cut into square patches, each becomes one vector. Both forms: flatten and project, and a strided convolution.

With the same weights they are the same numbers: a convolution whose stride is its width never looks at a pixel twice.
"""

import numpy as np

from numformer.checks import check_array, check_divides


def patches(images, patch_size):
    r"""Cut images into patches, row by row, and lay the pixels of each in a row.

    .. math:: y_{t, (iP + j) K + k} = x_{rP + i,\, cP + j,\, k}, \qquad t = r \cdot \tfrac{\text{width}}{P} + c

    with K channels. Nothing is computed: every number has its one place.

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
        If patches do not divide the images, or these are no array of floats of four axes.

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
    y = y.transpose(0, 1, 3, 2, 4, 5)                                 # (B, rows, columns, P, P, channels)
    y = y.reshape(B, rows * columns, P * P * channels).copy()

    saved = (images.shape, P)
    return y, saved


def patches_backward(dy, saved):
    r"""The gradient of `patches`: every pixel gets that of its one place, so the patches are laid out as an image again.

    .. math:: \bar{x}_{rP + i,\, cP + j,\, k} = \bar{y}_{t, (iP + j) K + k}

    Returns
    -------
    dimages : ndarray, shape (B, height, width, channels)
    """
    (B, height, width, channels), P = saved

    # y = images.reshape(...).transpose(0, 1, 3, 2, 4, 5).reshape(...)
    dy = dy.reshape(B, height // P, width // P, P, P, channels)
    dy = dy.transpose(0, 1, 3, 2, 4, 5)                               # (B, rows, P, columns, P, channels): its own inverse
    return dy.reshape(B, height, width, channels).copy()


def patch_convolution(images, weight, bias=None):
    r"""The convolution of images with filters as wide as a patch, moved on by a whole patch each time.

    .. math:: y_{rc} = \sum_{i=0}^{P-1} \sum_{j=0}^{P-1} x_{rP + i,\, cP + j}\, W_{ij} + b

    Parameters
    ----------
    images : ndarray, shape (B, height, width, channels)
    weight : ndarray, shape (P, P, channels, C)
        One matrix for each place in a patch.
    bias : ndarray, shape (C,), optional

    Returns
    -------
    y : ndarray, shape (B, height / P, width / P, C)
    saved : tuple
        For `patch_convolution_backward`.

    Raises
    ------
    ValueError, TypeError
        If patches do not divide the images, or the arrays are not floats of one precision that fit together.

    References
    ----------
    Dosovitskiy et al. (2021), section 3.1: a patch embedding is such a convolution, and their published code has it so.

    Examples
    --------
    >>> patch_convolution(np.arange(16.0).reshape(1, 4, 4, 1), np.ones((2, 2, 1, 1)))[0][0, ..., 0]
    array([[10., 18.],
           [42., 50.]])
    """
    check_patch_convolution(images, weight, bias)
    P = len(weight)
    y = sum(images[:, i::P, j::P] @ weight[i, j] for i, j in np.ndindex(P, P))    # (B, rows, columns, C): place (i, j) of every patch
    if bias is not None:
        y = y + bias

    saved = (images, weight, bias is not None)
    return y, saved


def patch_convolution_backward(dy, saved):
    r"""The gradient of `patch_convolution`: for every place in a patch, that of one linear map.

    .. math:: \bar{x}_{rP + i,\, cP + j} = \bar{y}_{rc} W_{ij}^\top, \qquad
              \bar{W}_{ij} = \sum_{rc} x_{rP + i,\, cP + j}^\top \bar{y}_{rc}, \qquad \bar{b} = \sum_{rc} \bar{y}_{rc}

    Returns
    -------
    dimages : ndarray, shape (B, height, width, channels)
    dweight : ndarray, shape (P, P, channels, C)
    dbias : ndarray, shape (C,), or None where there was no bias
    """
    images, weight, biased = saved
    P, places = len(weight), tuple(range(dy.ndim - 1))

    # y = y + bias
    dbias = dy.sum(axis=places) if biased else None

    # y = sum of images[:, i::P, j::P] @ weight[i, j]
    dimages, dweight = np.empty(images.shape, np.result_type(dy, weight)), np.empty(weight.shape, np.result_type(dy, images))
    for i, j in np.ndindex(P, P):
        dimages[:, i::P, j::P] = dy @ weight[i, j].T
        dweight[i, j] = np.tensordot(images[:, i::P, j::P], dy, axes=(places, places))
    return dimages, dweight, dbias


def check_images(owner, images, patch_size, dtype=None, **sizes):
    """Check that images are floats of four axes, and that patches divide them."""
    found = check_array(owner, "images", images, "(B, height, width, channels)", dtype, **sizes)
    for side in ("height", "width"):
        check_divides(owner, side, found[side], "patch_size", patch_size)


def check_patch_convolution(images, weight, bias):
    """Check the arguments of `patch_convolution`."""
    P, second, channels, C = check_array("patch_convolution", "weight", weight, "(P, P', channels, C)").values()
    if P != second:
        raise ValueError(f"patch_convolution: weight must have shape (P, P, channels, C), for patches are square, but has {weight.shape}.")
    check_images("patch_convolution", images, P, weight.dtype, channels=channels)
    if bias is not None:
        check_array("patch_convolution", "bias", bias, "(C,)", weight.dtype, C=C)
