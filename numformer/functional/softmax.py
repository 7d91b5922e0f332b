"""Softmax: from scores to probabilities; its logarithm; and the classes that have most of it."""

import numpy as np

from numformer.checks import check_array, check_number, check_whole


def softmax(x, axis=-1, mask=None):
    r"""Turn scores into positive weights that sum to one.

    .. math:: p_i = \frac{e^{x_i - m}}{\sum_j e^{x_j - m}}, \qquad m = \max_j x_j

    Subtracting the maximum changes nothing, because softmax is invariant to a constant, and keeps
    the exponentials from overflowing.

    Parameters
    ----------
    x : ndarray, any shape
        Scores (logits), in nats.
    axis : int
        The axis along which the weights sum to one.
    mask : ndarray of bool, broadcastable to `x`, optional
        True where a weight may be nonzero. Elsewhere it is exactly 0, whatever value `x` has there;
        where a whole row is masked, all its weights are 0.

    Returns
    -------
    p : ndarray, shape of `x`
    saved : tuple
        For `softmax_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` is not an array of floats, or the mask does not broadcast to it.

    References
    ----------
    Bridle (1990), "Probabilistic Interpretation of Feedforward Classification Network Outputs",
    eq. 2.

    Examples
    --------
    >>> softmax(np.array([0.0, np.log(3.0)]))[0]
    array([0.25, 0.75])
    >>> softmax(np.array([0.0, np.log(3.0)]), mask=np.array([True, False]))[0]
    array([1., 0.])
    """
    check_array("softmax", "x", x, "(...)")
    if x.size == 0:
        raise ValueError(f"softmax: x of shape {x.shape} is empty.")
    if mask is not None:
        mask = broadcast_mask(mask, x.shape)
        x = hide(x, mask, axis)

    weights = np.exp(x - x.real.max(axis=axis, keepdims=True))       # the maximum is a constant
    p = weights / weights.sum(axis=axis, keepdims=True)

    if mask is not None:
        p = np.where(mask, p, 0)                     # 0 even where an attended NaN spoils the row
    saved = (p, axis, mask)
    return p, saved


def softmax_backward(dp, saved):
    r"""The gradient of `softmax`.

    The Jacobian is :math:`\mathrm{diag}(p) - p p^\top`; it is never formed.

    .. math:: \bar{x} = p \left( \bar{p} - \textstyle\sum_j p_j \bar{p}_j \right)

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    p, axis, mask = saved
    if mask is not None:
        dp = np.where(mask, dp, 0)                   # a masked NaN must not reach the sum

    # p = weights / sum(weights), with weights = exp(x - max)
    dx = p * (dp - (p * dp).sum(axis=axis, keepdims=True))
    return dx if mask is None else np.where(mask, dx, 0)


def log_softmax(x, axis=-1):
    r"""The logarithm of `softmax`, without the underflow of a logarithm taken afterwards.

    .. math:: y_i = (x_i - m) - \log \sum_j e^{x_j - m}, \qquad m = \max_j x_j

    Parameters
    ----------
    x : ndarray, any shape
    axis : int

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `log_softmax_backward`.

    Raises
    ------
    TypeError
        If `x` is not an array of floats.

    Examples
    --------
    >>> log_softmax(np.array([0.0, 1000.0]))[0]
    array([-1000.,     0.])
    """
    check_array("log_softmax", "x", x, "(...)")
    shifted = x - x.real.max(axis=axis, keepdims=True)               # before the small logarithm
    y = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))

    saved = (y, axis)
    return y, saved


def log_softmax_backward(dy, saved):
    r"""The gradient of `log_softmax`.

    .. math:: \bar{x} = \bar{y} - p \textstyle\sum_j \bar{y}_j, \qquad p = e^y

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    y, axis = saved

    # y = shifted - log(sum(exp(shifted))); the gradient of that logarithm is softmax(x) = exp(y)
    return dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)


def check_top(owner, top_k, top_p):
    """Check a number of most likely classes, and a sum of their probabilities; each may be None.

    Examples
    --------
    >>> check_top("demo", None, 1.5)
    Traceback (most recent call last):
    ValueError: demo: top_p=1.5 must be above 0 and at most 1.
    """
    if top_k is not None:
        check_whole(owner, "top_k", top_k)
    if top_p is not None:
        check_number(owner, "top_p", top_p)
        if not 0 < top_p <= 1:
            raise ValueError(f"{owner}: top_p={top_p!r} must be above 0 and at most 1.")


def count_of_top_p(p, top_p, dtype=np.float64):
    r"""The size of the smallest set of classes whose probabilities sum to `top_p` or more.

    The sums are rounded: 0.5 + 0.3 may be 0.7999999. So they may lack what the rounding of the
    logits and of the sum can make.

    Parameters
    ----------
    p : ndarray of float64, shape (..., V)
        Probabilities, the largest first.
    top_p : float in (0, 1]
        At 1 all classes are in the set.
    dtype : dtype
        Of the logits from which the probabilities were computed.

    Returns
    -------
    ndarray of int, shape (..., 1)

    References
    ----------
    Holtzman et al. (2020), "The Curious Case of Neural Text Degeneration", section 3.1.

    Examples
    --------
    >>> count_of_top_p(np.array([0.5, 0.3, 0.1, 0.1]), 0.8)
    array([2])
    """
    V = p.shape[-1]
    if top_p == 1:
        return np.full((*p.shape[:-1], 1), V)
    rounding = max(V * np.finfo(p.dtype).eps, 4 * np.finfo(dtype).eps)
    return (p.cumsum(axis=-1) < top_p - rounding).sum(axis=-1, keepdims=True) + 1


def hide(x, mask, axis):
    """The scores with -inf where they are masked; a fully masked row is all 0, to avoid NaN."""
    x = np.where(mask, x, -np.inf)
    return np.where(mask.any(axis=axis, keepdims=True), x, 0)


def broadcast_mask(mask, shape):
    """The mask in the shape of `x`."""
    if not isinstance(mask, np.ndarray) or mask.dtype != bool:
        raise TypeError("softmax: mask must be an array of bool, True = may have weight, but is "
                        f"{getattr(mask, 'dtype', type(mask).__name__)}.")
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise ValueError(f"softmax: mask of shape {mask.shape} does not broadcast to x of shape "
                         f"{shape}.") from None
