"""Windows of an image: cut, put back, and moved by half a window, each a permutation."""

import numpy as np

from numformer.checks import check_array, check_divides, check_whole


def window_partition(x, window):
    r"""Cut a feature map into windows, row by row: each becomes an entry of the batch.

    .. math:: y_{n,\, iM + j} = x_{b,\, rM + i,\, cM + j}, \qquad
              n = \left( b \cdot \tfrac{\text{height}}{M} + r \right) \tfrac{\text{width}}{M} + c

    Attention within a batch entry is then attention within a window.

    Parameters
    ----------
    x : ndarray, shape (B, height, width, C)
    window : int
        M, height and width of a window; it divides height and width.

    Returns
    -------
    y : ndarray, shape (B * N, M * M, C)
        N = (height / M) (width / M).
    saved : tuple
        For `window_partition_backward`.

    Raises
    ------
    ValueError, TypeError
        If windows do not divide the feature map, or it is no array of floats with four axes.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", section 3.2.

    Examples
    --------
    >>> x = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> window_partition(x, 2)[0][..., 0].astype(int)
    array([[ 0,  1,  4,  5],
           [ 2,  3,  6,  7],
           [ 8,  9, 12, 13],
           [10, 11, 14, 15]])
    """
    sizes = check_array("window_partition", "x", x, "(B, height, width, C)")
    for side in ("height", "width"):
        check_divides("window_partition", side, sizes[side], "window", window)
    B, height, width, C = x.shape
    y = x.reshape(B, height // window, window, width // window, window, C)
    y = y.transpose(0, 1, 3, 2, 4, 5)                                # (B, rows, columns, M, M, C)
    y = y.reshape(-1, window * window, C).copy()                     # (B N, M M, C)

    saved = (x.shape, window)
    return y, saved


def window_partition_backward(dy, saved):
    r"""The gradient of `window_partition`: the inverse permutation.

    .. math:: \bar{x}_{b,\, rM + i,\, cM + j} = \bar{y}_{n,\, iM + j}

    Returns
    -------
    dx : ndarray, shape (B, height, width, C)
    """
    (B, height, width, C), M = saved

    # y = x.reshape(...).transpose(0, 1, 3, 2, 4, 5).reshape(...)
    dy = dy.reshape(B, height // M, width // M, M, M, C)
    dy = dy.transpose(0, 1, 3, 2, 4, 5)                              # (B, rows, M, columns, M, C)
    return dy.reshape(B, height, width, C).copy()


def window_reverse(windows, height, width):
    r"""Put windows back to a feature map: the inverse of `window_partition`.

    .. math:: y_{b,\, rM + i,\, cM + j} = x_{n,\, iM + j}

    Parameters
    ----------
    windows : ndarray, shape (B * N, M * M, C)
    height, width : int
        Of the feature map.

    Returns
    -------
    y : ndarray, shape (B, height, width, C)
    saved : tuple
        For `window_reverse_backward`.

    Raises
    ------
    ValueError, TypeError
        If windows are not square, do not divide the feature map, or do not fill whole ones.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", section 3.2.

    Examples
    --------
    >>> x = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> bool((window_reverse(window_partition(x, 2)[0], 4, 4)[0] == x).all())
    True
    """
    owner = "window_reverse"
    count, area, C = check_array(owner, "windows", windows, "(BN, MM, C)").values()
    M = round(area ** 0.5)
    if M * M != area or not area:
        raise ValueError(f"{owner}: windows must be square, of M x M vectors, but have {area}.")
    for name, side in (("height", height), ("width", width)):
        check_divides(owner, name, side, "M", M)
    N = (height // M) * (width // M)
    if count % N:
        raise ValueError(f"{owner}: {count} windows do not fill whole feature maps of {height} x "
                         f"{width}, each of N={N} windows; give a multiple of {N}.")
    saved = ((count // N, height, width, C), M)
    return window_partition_backward(windows, saved), saved


def window_reverse_backward(dy, saved):
    r"""The gradient of `window_reverse`: the partition into windows.

    .. math:: \bar{x}_{n,\, iM + j} = \bar{y}_{b,\, rM + i,\, cM + j}

    Returns
    -------
    dwindows : ndarray, shape (B * N, M * M, C)
    """
    _, M = saved

    # y = the inverse permutation of window_partition(windows)
    return window_partition(dy, M)[0]


def cyclic_roll(x, offset):
    r"""Move a feature map up and to the left; what leaves it comes back on the other side.

    .. math:: y_{r,\, c} = x_{(r + o) \bmod \text{height},\; (c + o) \bmod \text{width}}

    With o of half a window, fixed windows of y are the shifted windows of x.

    Parameters
    ----------
    x : ndarray, shape (B, height, width, C)
    offset : int
        o; a negative one moves down and to the right, and undoes the positive one.

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `cyclic_roll_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` is no array of floats with four axes, or the offset no whole number.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", section 3.2, "efficient batch computation for shifted
    configuration", and figure 4.

    Examples
    --------
    >>> cyclic_roll(np.arange(9.0).reshape(1, 3, 3, 1), 1)[0][0, ..., 0]
    array([[4., 5., 3.],
           [7., 8., 6.],
           [1., 2., 0.]])
    """
    check_array("cyclic_roll", "x", x, "(B, height, width, C)")
    if isinstance(offset, bool) or not isinstance(offset, (int, np.integer)):
        raise TypeError(f"cyclic_roll: offset={offset!r} must be a whole number.")
    y = np.roll(x, (-offset, -offset), axis=(1, 2))

    saved = (offset,)
    return y, saved


def cyclic_roll_backward(dy, saved):
    r"""The gradient of `cyclic_roll`: the same roll in the other direction.

    .. math:: \bar{x}_{r,\, c} = \bar{y}_{(r - o) \bmod \text{height},\; (c - o) \bmod \text{width}}

    Returns
    -------
    dx : ndarray, shape of `dy`
    """
    offset, = saved

    # y = roll(x, -offset)
    return np.roll(dy, (offset, offset), axis=(1, 2))


def shifted_window_mask(height, width, window, offset):
    """Which vectors of a window were neighbours before the feature map was rolled.

    After `cyclic_roll`, the windows of the last row and column hold parts that come from opposite
    sides of the image. A vector may attend to those of its own part alone.

    Parameters
    ----------
    height, width : int
    window : int
        M, which divides both.
    offset : int
        Of `cyclic_roll`, 0 <= offset < M. With 0, all may attend to all.

    Returns
    -------
    ndarray of bool, shape (N, M * M, M * M)
        True: may attend. The windows are in the order of `window_partition`.

    Raises
    ------
    ValueError
        If windows do not divide the feature map, or the offset is out of range.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", section 3.2 and figure 4.

    Examples
    --------
    >>> mask = shifted_window_mask(4, 4, 2, 1)
    >>> mask.shape, mask[0].all(), mask[1].astype(int)
    ((4, 4, 4), np.True_, array([[1, 0, 1, 0],
           [0, 1, 0, 1],
           [1, 0, 1, 0],
           [0, 1, 0, 1]]))
    """
    for name, side in (("height", height), ("width", width)):
        check_divides("shifted_window_mask", name, side, "window", window)
    check_whole("shifted_window_mask", "offset", offset, least=0)
    if offset >= window:
        raise ValueError(f"shifted_window_mask: offset={offset} must be below window={window}.")
    # the last `offset` rows and columns came from the other side
    row = (np.arange(height) >= height - offset)[:, None]
    column = np.arange(width) >= width - offset
    part = (2.0 * row + column)[None, :, :, None]                    # (1, height, width, 1)
    part = window_partition(part, window)[0][..., 0]                 # (N, M M)
    return part[:, :, None] == part[:, None, :]
