"""How well a key answers a query: the score functions of attention, from the first (additive) to that of the Transformer.

Each takes queries (B, T, .) and keys (B, S, .) and gives a score for every pair of them, (B, T, S). A softmax over the keys then
makes weights of the scores.
"""

import math

import numpy as np

from numformer.checks import check_array


def additive_scores(q, k, v):
    r"""A small network looks at query and key together: score by one hidden layer of tanh.

    .. math:: z_{ij} = v^\top \tanh(q_i + k_j), \qquad q_i = W s_{i-1}, \qquad k_j = U h_j

    The paper's W and U act on queries and keys alone, so their products come in ready made: those of the keys do not change from
    one query to the next, and are computed once.

    Parameters
    ----------
    q : ndarray, shape (B, T, A)
        Projected queries.
    k : ndarray, shape (B, S, A)
        Projected keys.
    v : ndarray, shape (A,)

    Returns
    -------
    scores : ndarray, shape (B, T, S)
    saved : tuple
        For `additive_scores_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or do not fit together.

    References
    ----------
    Bahdanau, Cho, Bengio (2015), "Neural Machine Translation by Jointly Learning to Align and Translate", section A.1.2.

    Examples
    --------
    >>> q, k = np.array([[[1.0, 0.0]]]), np.array([[[-1.0, 0.0], [0.0, 5.0]]])
    >>> additive_scores(q, k, np.array([1.0, 2.0]))[0].round(3)
    array([[[0.   , 2.761]]])
    """
    sizes = check_array("additive_scores", "q", q, "(B, T, A)")
    check_array("additive_scores", "k", k, "(B, S, A)", q.dtype, B=sizes["B"], A=sizes["A"])
    check_array("additive_scores", "v", v, "(A,)", q.dtype, A=sizes["A"])
    t = np.tanh(q[:, :, None] + k[:, None])                           # (B, T, S, A)
    scores = t @ v                                                    # (B, T, S)

    saved = (t, v)                                                    # tanh costs more than its memory: keep it
    return scores, saved


def additive_scores_backward(dscores, saved):
    r"""The gradient of `additive_scores`: a query collects from all keys that it met, a key from all queries.

    .. math::

        \bar{v} = \sum_{ij} \bar{z}_{ij} t_{ij}, \qquad \bar{u}_{ij} = \bar{z}_{ij}\, v\, (1 - t_{ij}^2), \qquad
        \bar{q}_i = \sum_j \bar{u}_{ij}, \qquad \bar{k}_j = \sum_i \bar{u}_{ij}, \qquad t_{ij} = \tanh(q_i + k_j)

    Returns
    -------
    dq : ndarray, shape (B, T, A)
    dk : ndarray, shape (B, S, A)
    dv : ndarray, shape (A,)
    """
    t, v = saved

    # scores = t @ v
    dv = np.tensordot(dscores, t, axes=3)                             # (A,)
    dt = dscores[..., None] * v                                       # (B, T, S, A)

    # t = tanh(q[:, :, None] + k[:, None])
    du = dt * (1 - t * t)
    return du.sum(axis=2), du.sum(axis=1), dv


def dot_scores(q, k):
    r"""Score by direction: a key answers a query that points where it points.

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
    Luong, Pham, Manning (2015), "Effective Approaches to Attention-based Neural Machine Translation", section 3.1, "dot".

    Examples
    --------
    >>> dot_scores(np.array([[[1.0, 2.0]]]), np.array([[[3.0, 0.0], [0.0, 1.0]]]))[0]
    array([[[3., 2.]]])
    """
    _check_dot("dot_scores", q, k)
    scores = q @ k.mT                                                 # (B, T, S)

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

    # scores = q @ k.T
    return dscores @ k, dscores.mT @ q


def scaled_dot_scores(q, k):
    r"""`dot_scores`, brought back to the size of one coordinate, so that the softmax behind it does not saturate.

    .. math:: z_{ij} = \frac{q_i \cdot k_j}{\sqrt D}

    The product of D independent unit normals with D others has variance D; divided by the root of D, it has variance 1.

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

    .. math:: \bar{q}_i = \frac{1}{\sqrt D} \sum_j \bar{z}_{ij} k_j, \qquad \bar{k}_j = \frac{1}{\sqrt D} \sum_i \bar{z}_{ij} q_i

    Returns
    -------
    dq : ndarray, shape (B, T, D)
    dk : ndarray, shape (B, S, D)
    """
    saved_products, D = saved

    # scores = dot_scores(q, k) / sqrt(D)
    return dot_scores_backward(dscores / math.sqrt(D), saved_products)


def general_scores(q, k, weight):
    r"""A dot product after a learned map, which says what in a key answers what in a query; their widths may differ.

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
    u = q @ weight                                                    # (B, T, K)
    scores = u @ k.mT                                                 # (B, T, S)

    saved = (q, k, weight)                                            # u is one product away: recompute it
    return scores, saved


def general_scores_backward(dscores, saved):
    r"""The gradient of `general_scores`.

    .. math::

        \bar{u}_i = \sum_j \bar{z}_{ij} k_j, \qquad \bar{k}_j = \sum_i \bar{z}_{ij} W^\top q_i, \qquad
        \bar{q}_i = W \bar{u}_i, \qquad \bar{W} = \sum_i q_i \bar{u}_i^\top

    Returns
    -------
    dq : ndarray, shape (B, T, C)
    dk : ndarray, shape (B, S, K)
    dweight : ndarray, shape (C, K)
        Summed over the batch too.
    """
    q, k, weight = saved

    # scores = u @ k.T
    du = dscores @ k                                                  # (B, T, K)
    dk = dscores.mT @ (q @ weight)

    # u = q @ weight
    return du @ weight.T, dk, np.tensordot(q, du, axes=((0, 1), (0, 1)))


def _check_dot(name, q, k):
    """Check queries and keys of one width, and return it."""
    sizes = check_array(name, "q", q, "(B, T, D)")
    check_array(name, "k", k, "(B, S, D)", q.dtype, B=sizes["B"], D=sizes["D"])
    if not sizes["D"]:
        raise ValueError(f"{name}: q of shape {q.shape} has no coordinates; D must be 1 or more.")
    return sizes["D"]
