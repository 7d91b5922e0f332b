"""A linear map and a correction of low rank: few numbers are trained, the large matrix is not."""

import math

from numformer.checks import check_array, check_choice, check_number
from numformer.functional.linear import linear, linear_backward


def low_rank_linear(x, weight, bias, down, up, alpha=1.0, rank_stabilized=False):
    r"""Add a product of two narrow matrices to a linear map.

    .. math:: y = x W + b + s\, (x A) B, \qquad s = \alpha / R \text{ or } \alpha / \sqrt{R}

    It is the linear map of the weight :math:`W + s A B`, whose second term has at most the rank R:
    R (C + F) numbers in place of C F. Where B begins at 0 and A does not, the map is at first that
    of W, and the first gradient of A is 0, but not that of B; if both began at 0, neither would
    ever move.

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight : ndarray, shape (C, F)
        W.
    bias : ndarray, shape (F,), or None
        b.
    down : ndarray, shape (C, R)
        A.
    up : ndarray, shape (R, F)
        B.
    alpha : float
        The scale of the correction, for any rank.
    rank_stabilized : bool
        Whether s is :math:`\alpha / \sqrt{R}`: then the sizes of the correction and of its gradient
        do not fall as R grows.

    Returns
    -------
    y : ndarray, shape (..., F)
    saved : tuple
        For `low_rank_linear_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision that fit, or there is no rank.

    References
    ----------
    Hu et al. (2022), "LoRA: Low-Rank Adaptation of Large Language Models", eq. 3; Kalajdzievski
    (2023), "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", theorem 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> x, weight = np.array([[1.0, 2.0]]), np.eye(2)
    >>> down, up = np.array([[1.0], [1.0]]), np.array([[0.0, 10.0]])
    >>> low_rank_linear(x, weight, None, down, up)[0]
    array([[ 1., 32.]])
    """
    owner = "low_rank_linear"
    sizes = check_array(owner, "weight", weight, "(C, F)")
    R = check_array(owner, "down", down, "(C, R)", weight.dtype, C=sizes["C"])["R"]
    check_array(owner, "up", up, "(R, F)", weight.dtype, R=R, F=sizes["F"])
    s = low_rank_scale(R, alpha, rank_stabilized)
    y, saved_full = linear(x, weight, bias)                          # (..., F)
    h, saved_down = linear(x, down)                                  # (..., R)
    u, saved_up = linear(h, up)                                      # (..., F)
    y = y + s * u

    saved = (saved_full, saved_down, saved_up, s)
    return y, saved


def low_rank_linear_backward(dy, saved):
    r"""The gradients of `low_rank_linear`: x has two paths, and the factor s is in one of them.

    .. math::

        \bar{h} = s\, \bar{y} B^\top, \qquad \bar{B} = s\, h^\top \bar{y}, \qquad
        \bar{A} = x^\top \bar{h}, \qquad \bar{x} = \bar{y} W^\top + \bar{h} A^\top

    with h = x A, :math:`\bar{W} = x^\top \bar{y}` and :math:`\bar{b} = \sum_n \bar{y}_n`. Where W
    is frozen, as in an adapter, a layer leaves these two out.

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight : ndarray, shape (C, F)
    dbias : ndarray, shape (F,), or None where there was no bias
    ddown : ndarray, shape (C, R)
    dup : ndarray, shape (R, F)
    """
    saved_full, saved_down, saved_up, s = saved

    # y = linear(x, weight, bias) + s * u
    dx_full, dweight, dbias = linear_backward(dy, saved_full)

    # u = linear(h, up)
    dh, dup, _ = linear_backward(s * dy, saved_up)

    # h = linear(x, down)
    dx_down, ddown, _ = linear_backward(dh, saved_down)
    return dx_full + dx_down, dweight, dbias, ddown, dup


def low_rank_scale(rank, alpha, rank_stabilized):
    """s: alpha / R, or alpha / sqrt(R).

    Examples
    --------
    >>> low_rank_scale(4, 8.0, False), low_rank_scale(4, 8.0, True)
    (2.0, 4.0)
    """
    check_number("low_rank_linear", "alpha", alpha)
    check_choice("low_rank_linear", "rank_stabilized", rank_stabilized, [True, False])
    if not rank:
        raise ValueError("low_rank_linear: down has no columns; the rank must be at least 1.")
    return float(alpha) / (math.sqrt(rank) if rank_stabilized else rank)
