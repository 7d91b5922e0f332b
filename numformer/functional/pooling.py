"""One vector for a whole sequence: the mean or the maximum over its positions."""

import numpy as np

from numformer.checks import check_array, check_mask


def mean_pooling(x, mask=None):
    r"""The mean of a sequence's vectors.

    .. math:: y = \frac{1}{n} \sum_{t \,:\, m_t} x_t, \qquad n = \sum_t m_t

    Parameters
    ----------
    x : ndarray, shape (B, T, C)
    mask : ndarray of bool, shape (B, T), optional
        m. True: a real position. Padding does not count, whatever it holds.

    Returns
    -------
    y : ndarray, shape (B, C)
    saved : tuple
        For `mean_pooling_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` does not have three axes, the mask has another shape, or a sequence has no real
        position.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT", section 3.

    Examples
    --------
    >>> x = np.array([[[1.0, 4.0], [3.0, 0.0], [99.0, 99.0]]])
    >>> mean_pooling(x, np.array([[True, True, False]]))[0]
    array([[2., 2.]])
    """
    real = check_pooling("mean_pooling", x, mask)                    # (B, T, 1)
    n = real.sum(axis=1).astype(x.real.dtype)                        # (B, 1)
    y = np.where(real, x, 0).sum(axis=1) / n

    saved = (real, n)
    return y, saved


def mean_pooling_backward(dy, saved):
    r"""The gradient of `mean_pooling`: equal shares for all real positions, 0 for padding.

    .. math:: \bar{x}_t = m_t\, \bar{y} / n

    Returns
    -------
    dx : ndarray, shape (B, T, C)
    """
    real, n = saved

    # y = where(real, x, 0).sum(axis=1) / n
    return np.where(real, (dy / n)[:, None], 0)


def max_pooling(x, mask=None):
    r"""The maximum of every coordinate over a sequence.

    .. math:: y_c = \max_{t \,:\, m_t} x_{tc}

    Parameters
    ----------
    x : ndarray, shape (B, T, C)
    mask : ndarray of bool, shape (B, T), optional
        m. True: a real position. Padding does not count, whatever it holds.

    Returns
    -------
    y : ndarray, shape (B, C)
    saved : tuple
        For `max_pooling_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` does not have three axes, the mask has another shape, or a sequence has no real
        position.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT", section 3.

    Examples
    --------
    >>> max_pooling(np.array([[[1.0, 4.0], [3.0, 0.0]]]))[0]
    array([[3., 4.]])
    """
    real = check_pooling("max_pooling", x, mask)                     # (B, T, 1)
    x = np.where(real, x, -np.inf)
    largest = x.real.argmax(axis=1)[:, None]         # (B, 1, C); the real part decides
    y = np.take_along_axis(x, largest, axis=1)[:, 0]

    saved = (largest, x.shape)
    return y, saved


def max_pooling_backward(dy, saved):
    r"""The gradient of `max_pooling`: it goes to the maximum; of equal ones, to the first.

    .. math:: \bar{x}_{tc} = \bar{y}_c\, [t = \mathrm{argmax}_s\, x_{sc}]

    Returns
    -------
    dx : ndarray, shape (B, T, C)
    """
    largest, shape = saved

    # y = take_along_axis(x, largest, axis=1)
    dx = np.zeros(shape, dy.dtype)
    np.put_along_axis(dx, largest, dy[:, None], axis=1)
    return dx


def check_pooling(owner, x, mask):
    """Check the arguments of a pooling, and return which positions are real, (B, T, 1)."""
    check_array(owner, "x", x, "(B, T, C)")
    if mask is not None:
        check_mask(owner, mask, x.shape[:2])
    real = np.ones(x.shape[:2], bool) if mask is None else mask
    empty = np.flatnonzero(~real.any(axis=1))
    if empty.size:
        raise ValueError(f"{owner}: sequence {empty[0]} of x, shape {x.shape}, has no real "
                         "position; leave such a sequence out.")
    return real[..., None]
