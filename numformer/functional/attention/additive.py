"""Additive attention scores: the first score function of attention, a small network."""

import numpy as np

from numformer.checks import check_array


def additive_scores(q, k, v):
    r"""Score each query-key pair with a small network: one hidden layer of tanh units.

    .. math:: z_{ij} = v^\top \tanh(q_i + k_j), \qquad q_i = W s_{i-1}, \qquad k_j = U h_j

    The projections by W and U are not part of this function: the projected keys do not change from
    one query to the next, so a decoder computes them once.

    Parameters
    ----------
    q : ndarray, shape (B, T, A)
        Projected queries; A is the width of the hidden layer.
    k : ndarray, shape (B, S, A)
        Projected keys.
    v : ndarray, shape (A,)

    Returns
    -------
    scores : ndarray, shape (B, T, S)
        A softmax over the keys turns them into weights.
    saved : tuple
        For `additive_scores_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or do not fit together.

    References
    ----------
    Bahdanau, Cho, Bengio (2015), "Neural Machine Translation by Jointly Learning to Align and
    Translate", section A.1.2.

    Examples
    --------
    >>> q, k = np.array([[[1.0, 0.0]]]), np.array([[[-1.0, 0.0], [0.0, 5.0]]])
    >>> additive_scores(q, k, np.array([1.0, 2.0]))[0].round(3)
    array([[[0.   , 2.761]]])
    """
    sizes = check_array("additive_scores", "q", q, "(B, T, A)")
    check_array("additive_scores", "k", k, "(B, S, A)", q.dtype, B=sizes["B"], A=sizes["A"])
    check_array("additive_scores", "v", v, "(A,)", q.dtype, A=sizes["A"])
    t = np.tanh(q[:, :, None] + k[:, None])              # (B, T, S, A)
    scores = t @ v                                       # (B, T, S)

    saved = (t, v)                                       # tanh costs more than its memory: keep it
    return scores, saved


def additive_scores_backward(dscores, saved):
    r"""The gradient of `additive_scores`: a query sums over all keys, a key over all queries.

    .. math::

        \bar{v} = \sum_{ij} \bar{z}_{ij} t_{ij}, \qquad
        \bar{u}_{ij} = \bar{z}_{ij}\, v\, (1 - t_{ij}^2), \qquad
        \bar{q}_i = \sum_j \bar{u}_{ij}, \qquad \bar{k}_j = \sum_i \bar{u}_{ij}, \qquad
        t_{ij} = \tanh(q_i + k_j)

    Returns
    -------
    dq : ndarray, shape (B, T, A)
    dk : ndarray, shape (B, S, A)
    dv : ndarray, shape (A,)
    """
    t, v = saved

    # scores = t @ v
    dv = np.tensordot(dscores, t, axes=3)                # (A,)
    dt = dscores[..., None] * v                          # (B, T, S, A)

    # t = tanh(q[:, :, None] + k[:, None])
    du = dt * (1 - t * t)
    return du.sum(axis=2), du.sum(axis=1), dv
