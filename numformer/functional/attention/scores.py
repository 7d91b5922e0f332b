"""Dot-product scores: plain, scaled, and with a learned matrix between query and key.

Each takes queries (B, T, .) and keys (B, S, .) and gives a score for every pair, (B, T, S). A
softmax over the keys turns the scores into weights. The oldest score function is in `additive`.
"""

import math

import numpy as np

from numformer.checks import check_array


def dot_scores(q, k):
    r"""Score each query-key pair by their dot product.

    .. math:: z_{ij} = q_i \cdot k_j

    Parameters
    ----------
    q : ndarray, shape (B, T, D)
    k : ndarray, shape (B, S, D)

    Returns
    -------
    scores : ndarray, shape (B, T, S)
    saved : tuple
        For `dot_scores_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or differ in width.

    References
    ----------
    Luong, Pham, Manning (2015), "Effective Approaches to Attention-based Neural Machine
    Translation", section 3.1, "dot".

    Examples
    --------
    >>> dot_scores(np.array([[[1.0, 2.0]]]), np.array([[[3.0, 0.0], [0.0, 1.0]]]))[0]
    array([[[3., 2.]]])
    """
    _check_dot("dot_scores", q, k)
    scores = q @ k.mT                                    # (B, T, S)

    saved = (q, k)
    return scores, saved


def dot_scores_backward(dscores, saved):
    r"""The gradient of `dot_scores`.

    .. math:: \bar{q}_i = \sum_j \bar{z}_{ij} k_j, \qquad \bar{k}_j = \sum_i \bar{z}_{ij} q_i

    Returns
    -------
    dq : ndarray, shape (B, T, D)
    dk : ndarray, shape (B, S, D)
    """
    q, k = saved

    # scores = q @ k.mT
    return dscores @ k, dscores.mT @ q


def scaled_dot_scores(q, k):
    r"""`dot_scores` divided by the root of the width, so that the softmax does not saturate.

    .. math:: z_{ij} = \frac{q_i \cdot k_j}{\sqrt D}

    If the D entries of a query and of a key are independent with mean 0 and variance 1, their dot
    product has variance D; divided by the root of D, it has variance 1.

    Parameters
    ----------
    q : ndarray, shape (B, T, D)
    k : ndarray, shape (B, S, D)

    Returns
    -------
    scores : ndarray, shape (B, T, S)
    saved : tuple
        For `scaled_dot_scores_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or differ in width.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.2.1 and its footnote 4.

    Examples
    --------
    >>> scaled_dot_scores(np.full((1, 1, 4), 1.0), np.full((1, 1, 4), 3.0))[0]
    array([[[6.]]])
    """
    D = _check_dot("scaled_dot_scores", q, k)
    scores, saved_products = dot_scores(q, k)
    scores = scores / math.sqrt(D)

    saved = (saved_products, D)
    return scores, saved


def scaled_dot_scores_backward(dscores, saved):
    r"""The gradient of `scaled_dot_scores`.

    .. math:: \bar{q}_i = \frac{1}{\sqrt D} \sum_j \bar{z}_{ij} k_j, \qquad
              \bar{k}_j = \frac{1}{\sqrt D} \sum_i \bar{z}_{ij} q_i

    Returns
    -------
    dq : ndarray, shape (B, T, D)
    dk : ndarray, shape (B, S, D)
    """
    saved_products, D = saved

    # scores = dot_scores(q, k) / sqrt(D)
    return dot_scores_backward(dscores / math.sqrt(D), saved_products)


def general_scores(q, k, weight):
    r"""Score each pair by a dot product with a learned matrix in between; the widths may differ.

    .. math:: z_{ij} = q_i^\top W k_j

    Parameters
    ----------
    q : ndarray, shape (B, T, C)
    k : ndarray, shape (B, S, K)
    weight : ndarray, shape (C, K)

    Returns
    -------
    scores : ndarray, shape (B, T, S)
    saved : tuple
        For `general_scores_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or do not fit together.

    References
    ----------
    Luong, Pham, Manning (2015), section 3.1, "general".

    Examples
    --------
    >>> general_scores(np.array([[[1.0, 2.0]]]), np.array([[[3.0]]]), np.array([[0.0], [1.0]]))[0]
    array([[[6.]]])
    """
    sizes = check_array("general_scores", "weight", weight, "(C, K)")
    sizes = check_array("general_scores", "q", q, "(B, T, C)", weight.dtype, **sizes)
    check_array("general_scores", "k", k, "(B, S, K)", weight.dtype, B=sizes["B"], K=sizes["K"])
    u = q @ weight                                       # (B, T, K)
    scores = u @ k.mT                                    # (B, T, S)

    saved = (q, k, weight)                               # u is one product away: recompute it
    return scores, saved


def general_scores_backward(dscores, saved):
    r"""The gradient of `general_scores`.

    .. math::

        \bar{u}_i = \sum_j \bar{z}_{ij} k_j, \qquad \bar{k}_j = \sum_i \bar{z}_{ij} W^\top q_i,
        \qquad \bar{q}_i = W \bar{u}_i, \qquad \bar{W} = \sum_i q_i \bar{u}_i^\top

    Returns
    -------
    dq : ndarray, shape (B, T, C)
    dk : ndarray, shape (B, S, K)
    dweight : ndarray, shape (C, K)
        Summed over the batch too.
    """
    q, k, weight = saved

    # scores = u @ k.mT
    du = dscores @ k                                     # (B, T, K)
    dk = dscores.mT @ (q @ weight)                       # (B, S, K)

    # u = q @ weight
    return du @ weight.T, dk, np.tensordot(q, du, axes=((0, 1), (0, 1)))


def _check_dot(name, q, k):
    """Check queries and keys of one width, and return it."""
    sizes = check_array(name, "q", q, "(B, T, D)")
    check_array(name, "k", k, "(B, S, D)", q.dtype, B=sizes["B"], D=sizes["D"])
    if not sizes["D"]:
        raise ValueError(
            f"{name}: q of shape {q.shape} has no coordinates; D must be 1 or more.")
    return sizes["D"]
