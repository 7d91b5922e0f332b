"""One vector for a whole sequence: the mean of its vectors, or the largest of every coordinate."""

import numpy as np

from numformer.checks import check_array, check_mask


def mean_pooling(x, mask=None):
    r"""The mean of a sequence's vectors: every position has an equal say.

    .. math:: y = \frac{1}{n} \sum_{t \,:\, m_t} x_t, \qquad n = \sum_t m_t

    Parameters
    ----------
    x : ndarray, shape (B, T, C)
    mask : ndarray of bool, shape (B, T), optional
        m, True: a real position. The others only fill up and do not count, whatever they hold.

    Returns
    -------
    y : ndarray, shape (B, C)
    saved : tuple
        For `mean_pooling_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` has no three axes or no position, the mask another shape, or a sequence no real position.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT", section 3.

    Examples
    --------
    >>> x = np.array([[[1.0, 4.0], [3.0, 0.0], [99.0, 99.0]]])
    >>> mean_pooling(x, np.array([[True, True, False]]))[0]
    array([[2., 2.]])
    """
    real = check_pooling("mean_pooling", x, mask)                     # (B, T, 1)
    n = real.sum(axis=1).astype(x.real.dtype)                         # (B, 1)
    y = np.where(real, x, 0).sum(axis=1) / n

    saved = (real, n)
    return y, saved


def mean_pooling_backward(dy, saved):
    r"""The gradient of `mean_pooling`: an equal share for every position that counted.

    .. math:: \bar{x}_t = m_t\, \bar{y} / n

    Returns
    -------
    dx : ndarray, shape (B, T, C)
    """
    real, n = saved

    # y = where(real, x, 0).sum(axis=1) / n
    return np.where(real, (dy / n)[:, None], 0)


def max_pooling(x, mask=None):
    r"""The largest value of every coordinate over a sequence: whoever speaks loudest is heard.

    .. math:: y_c = \max_{t \,:\, m_t} x_{tc}

    Parameters
    ----------
    x : ndarray, shape (B, T, C)
    mask : ndarray of bool, shape (B, T), optional
        m, True: a real position. The others only fill up and do not count, whatever they hold.

    Returns
    -------
    y : ndarray, shape (B, C)
    saved : tuple
        For `max_pooling_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` has no three axes or no position, the mask another shape, or a sequence no real position.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT", section 3.

    Examples
    --------
    >>> max_pooling(np.array([[[1.0, 4.0], [3.0, 0.0]]]))[0]
    array([[3., 4.]])
    """
    real = check_pooling("max_pooling", x, mask)                      # (B, T, 1)
    x = np.where(real, x, -np.inf)
    winner = x.real.argmax(axis=1)[:, None]                           # (B, 1, C); a complex step must not decide
    y = np.take_along_axis(x, winner, axis=1)[:, 0]

    saved = (winner, x.shape)
    return y, saved


def max_pooling_backward(dy, saved):
    r"""The gradient of `max_pooling`: all of it goes to the position that won; of equal ones, to the first.

    .. math:: \bar{x}_{tc} = \bar{y}_c\, [t = \mathrm{argmax}_s\, x_{sc}]

    Returns
    -------
    dx : ndarray, shape (B, T, C)
    """
    winner, shape = saved

    # y = take_along_axis(x, winner, axis=1)
    dx = np.zeros(shape, dy.dtype)
    np.put_along_axis(dx, winner, dy[:, None], axis=1)
    return dx


def check_pooling(owner, x, mask):
    """Check the arguments of a pooling, and return which positions are real, (B, T, 1)."""
    check_array(owner, "x", x, "(B, T, C)")
    if mask is not None:
        check_mask(owner, mask, x.shape[:2])
    real = np.ones(x.shape[:2], bool) if mask is None else mask
    empty = np.flatnonzero(~real.any(axis=1))
    if empty.size:
        raise ValueError(f"{owner}: sequence {empty[0]} of x, shape {x.shape}, has no real position; leave such a sequence out.")
    return real[..., None]
