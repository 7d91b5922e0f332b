"""Patch merging: 2 x 2 neighbours become one vector of four times the width."""

import numpy as np

from numformer.checks import check_array, check_divides


def merge_patches(x):
    r"""Concatenate the vectors of every 2 x 2 neighbours: half the resolution, four times as wide.

    .. math:: y_{rc} = [\, x_{2r,\, 2c};\; x_{2r + 1,\, 2c};\; x_{2r,\, 2c + 1};\;
              x_{2r + 1,\, 2c + 1} \,]

    The order, down before to the right, is that of the published code, and so of its weights.

    Parameters
    ----------
    x : ndarray, shape (B, height, width, C)
        Of even height and width.

    Returns
    -------
    y : ndarray, shape (B, height / 2, width / 2, 4 C)
    saved : tuple
        For `merge_patches_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` is no array of floats with four axes, or its height or width is odd.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", section 3.1.

    Examples
    --------
    >>> merge_patches(np.arange(8.0).reshape(1, 2, 4, 1))[0][0, 0]
    array([[0., 4., 1., 5.],
           [2., 6., 3., 7.]])
    """
    sizes = check_array("merge_patches", "x", x, "(B, height, width, C)")
    for side in ("height", "width"):
        check_divides("merge_patches", side, sizes[side], "merged", 2)
    y = np.concatenate([x[:, i::2, j::2] for j in range(2) for i in range(2)], axis=3)

    saved = (x.shape,)
    return y, saved


def merge_patches_backward(dy, saved):
    r"""The gradient of `merge_patches`: each quarter of a vector returns to its position.

    .. math:: \bar{x}_{2r + i,\, 2c + j} = \bar{y}_{rc,\, (2j + i) C \,\dots\, (2j + i + 1) C - 1}

    Returns
    -------
    dx : ndarray, shape (B, height, width, C)
    """
    shape, = saved
    C = shape[-1]

    # y = concatenate([x[:, i::2, j::2] for j in range(2) for i in range(2)])
    dx = np.empty(shape, dy.dtype)
    for j in range(2):
        for i in range(2):
            n = 2 * j + i
            dx[:, i::2, j::2] = dy[..., n * C:(n + 1) * C]
    return dx
