"""Pooling of images: one number for the pixels of a window, each channel alone."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.vision.convolution2d import (
    check_windows, windows_2d, windows_2d_backward)


def max_pooling_2d(images, size, stride=None):
    r"""The maximum of every window: a feature is kept, wherever in the window it is.

    .. math:: y_{rck} = \max_{0 \le i, j < P} x_{rs + i,\, cs + j,\, k}

    Parameters
    ----------
    images : ndarray, shape (B, height, width, C)
    size : int
        P, height and width of a window.
    stride : int, optional
        s; P unless given: windows side by side.

    Returns
    -------
    y : ndarray, shape (B, rows, columns, C)
        rows = floor((height - P) / s) + 1; rows and columns of pixels that fill no window are left
        out.
    saved : tuple
        For `max_pooling_2d_backward`.

    Raises
    ------
    ValueError, TypeError
        If the images are no array of floats with four axes, or no window fits into them.

    References
    ----------
    Scherer, Mueller, Behnke (2010), "Evaluation of Pooling Operations in Convolutional
    Architectures for Object Recognition".

    Examples
    --------
    >>> image = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> max_pooling_2d(image, 2)[0][0, ..., 0]
    array([[ 5.,  7.],
           [13., 15.]])
    """
    stride = check_pooling_2d("max_pooling_2d", images, size, stride)
    windows = windows_2d(images, size, size, stride)                 # (B, rows, columns, P P, C)
    largest = windows.real.argmax(axis=3)[:, :, :, None]             # the real part decides
    y = np.take_along_axis(windows, largest, axis=3)[:, :, :, 0]     # (B, rows, columns, C)

    saved = (largest, images.shape, size, stride)
    return y, saved


def max_pooling_2d_backward(dy, saved):
    r"""The gradient of `max_pooling_2d`: it goes to the maximum; of equal ones, to the first.

    .. math:: \bar{x}_{uvk} = \sum_{rc} \bar{y}_{rck}\, [(u, v) = \mathrm{argmax}_{ij}\,
              x_{rs + i,\, cs + j,\, k}]

    Where windows overlap, a pixel may be the maximum of several: their gradients add up.

    Returns
    -------
    dimages : ndarray, shape (B, height, width, C)
    """
    largest, shape, size, stride = saved
    B, rows, columns, C = dy.shape

    # y = take_along_axis(windows, largest, axis=3)
    dwindows = np.zeros((B, rows, columns, size * size, C), dy.dtype)
    np.put_along_axis(dwindows, largest, dy[:, :, :, None], axis=3)

    # windows = windows_2d(images)
    return windows_2d_backward(dwindows, shape, size, size, stride)


def mean_pooling_2d(images, size, stride=None):
    r"""The mean of every window.

    .. math:: y_{rck} = \frac{1}{P^2} \sum_{0 \le i, j < P} x_{rs + i,\, cs + j,\, k}

    Parameters
    ----------
    images, size, stride
        As in `max_pooling_2d`.

    Returns
    -------
    y : ndarray, shape (B, rows, columns, C)
    saved : tuple
        For `mean_pooling_2d_backward`.

    Raises
    ------
    ValueError, TypeError
        As `max_pooling_2d`.

    References
    ----------
    LeCun et al. (1998), "Gradient-Based Learning Applied to Document Recognition", section II.B,
    where the mean also has a trained factor and bias.

    Examples
    --------
    >>> image = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> mean_pooling_2d(image, 2)[0][0, ..., 0]
    array([[ 2.5,  4.5],
           [10.5, 12.5]])
    """
    stride = check_pooling_2d("mean_pooling_2d", images, size, stride)
    y = windows_2d(images, size, size, stride).mean(axis=3)          # (B, rows, columns, C)

    saved = (images.shape, size, stride)
    return y, saved


def mean_pooling_2d_backward(dy, saved):
    r"""The gradient of `mean_pooling_2d`: equal shares for all pixels of a window.

    .. math:: \bar{x}_{uvk} = \frac{1}{P^2} \sum_{(u, v) \,\in\, \text{window}\, rc} \bar{y}_{rck}

    Returns
    -------
    dimages : ndarray, shape (B, height, width, C)
    """
    shape, size, stride = saved

    # y = windows.mean(axis=3)
    share = (dy / size ** 2)[:, :, :, None]                          # (B, rows, columns, 1, C)
    dwindows = np.broadcast_to(share, (*dy.shape[:3], size * size, dy.shape[3]))

    # windows = windows_2d(images)
    return windows_2d_backward(dwindows, shape, size, size, stride)


def check_pooling_2d(owner, images, size, stride):
    """Check the arguments of a pooling, and return the stride."""
    sizes = check_array(owner, "images", images, "(B, height, width, C)")
    check_whole(owner, "size", size)
    stride = size if stride is None else stride
    check_windows(owner, sizes, size, size, stride)
    return stride
