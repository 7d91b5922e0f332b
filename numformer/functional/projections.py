"""Several linear maps of the same vectors, such as those to queries, keys and values."""

from numformer.functional.linear import linear, linear_backward


def projections(x, *maps):
    r"""Map every vector by several weights at once.

    .. math:: y_k = x W_k + b_k, \qquad k = 1 \dots K

    Parameters
    ----------
    x : ndarray, shape (..., C)
    *maps : ndarray, shape (C, F_k), and ndarray, shape (F_k,), or None
        W_1, b_1, W_2, b_2 and so on; None for a map without bias.

    Returns
    -------
    ys : tuple of ndarray, shape (..., F_k)
    saved : tuple
        For `projections_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or their widths do not fit.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> projections(np.ones((1, 2)), np.eye(2), None, np.ones((2, 1)), np.ones(1))[0]
    (array([[1., 1.]]), array([[3.]]))
    """
    ys, saved = zip(*(linear(x, weight, bias) for weight, bias in zip(maps[::2], maps[1::2])))
    return ys, saved


def projections_backward(dys, saved):
    r"""The gradient of `projections`: x has a path through each map.

    .. math:: \bar{x} = \sum_k \bar{y}_k W_k^\top, \qquad \bar{W}_k = x^\top \bar{y}_k, \qquad
              \bar{b}_k = \sum_n \bar{y}_{kn}

    Parameters
    ----------
    dys : tuple of ndarray, shape (..., F_k)

    Returns
    -------
    dx : ndarray, shape (..., C)
    *dmaps : ndarray
        Of the weights and biases, in their order; None for a bias that was None.
    """
    # y_k = linear(x, W_k, b_k)
    dxs, *dmaps = zip(*(linear_backward(dy, saved_k) for dy, saved_k in zip(dys, saved)))
    return sum(dxs), *(gradient for pair in zip(*dmaps) for gradient in pair)
