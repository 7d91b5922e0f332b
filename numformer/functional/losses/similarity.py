"""Cosine similarity, and the triplet loss on Euclidean distances."""

import numpy as np

from numformer.checks import check_array, check_number
from numformer.functional.scaling import rescaled


def cosine_similarity(a, b):
    r"""The cosine of the angle between every vector of one set and every vector of another.

    .. math:: s_{ij} = \hat{a}_i \cdot \hat{b}_j, \qquad \hat{a} = a / |a|

    Parameters
    ----------
    a : ndarray, shape (N, C)
    b : ndarray, shape (M, C)

    Returns
    -------
    s : ndarray, shape (N, M)
        A zero vector has no direction: its cosines are 0, and so is its gradient.
    saved : tuple
        For `cosine_similarity_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of those shapes.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT", section 3.

    Examples
    --------
    >>> cosine_similarity(np.array([[3.0, 4.0]]), np.array([[6.0, 8.0], [0.0, -5.0]]))[0]
    array([[ 1. , -0.8]])
    """
    C = check_array("cosine_similarity", "a", a, "(N, C)")["C"]
    check_array("cosine_similarity", "b", b, "(M, C)", a.dtype, C=C)
    a_hat, saved_a = normalized(a)                                   # (N, C)
    b_hat, saved_b = normalized(b)                                   # (M, C)
    s = a_hat @ b_hat.T                                              # (N, M)

    saved = (a_hat, saved_a, b_hat, saved_b)
    return s, saved


def cosine_similarity_backward(ds, saved):
    r"""The gradient of `cosine_similarity`: orthogonal to the vector, whose norm does not matter.

    .. math:: \bar{a}_i = \frac{g_i - \hat{a}_i (\hat{a}_i \cdot g_i)}{|a_i|}, \qquad
              g_i = \sum_j \bar{s}_{ij}\, \hat{b}_j

    and the same for b, with the roles exchanged.

    Returns
    -------
    da : ndarray, shape (N, C)
    db : ndarray, shape (M, C)
    """
    a_hat, saved_a, b_hat, saved_b = saved

    # s = a_hat @ b_hat.T
    da_hat, db_hat = ds @ b_hat, ds.T @ a_hat

    # a_hat = a / |a|, and b_hat likewise
    return normalized_backward(da_hat, saved_a), normalized_backward(db_hat, saved_b)


def triplet_loss(anchors, positives, negatives, margin=1.0):
    r"""Each anchor should be closer to its positive than to its negative, by a margin.

    .. math:: L = \langle \max(0,\; |a_i - p_i| - |a_i - n_i| + m) \rangle_i

    Parameters
    ----------
    anchors, positives, negatives : ndarray, shape (B, C)
        a, p and n.
    margin : float above 0
        m, in units of distance.

    Returns
    -------
    loss : scalar of the dtype of the vectors
        NaN if a vector holds NaN or Inf.
    saved : tuple
        For `triplet_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes or dtypes differ, there are no triplets, or the margin is not above 0.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT", section 3, also with Euclidean distance and a
    margin of 1.

    Examples
    --------
    >>> a, p, n = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]]), np.array([[0.0, 5.5]])
    >>> float(triplet_loss(a, p, n)[0])
    0.5
    """
    check_array("triplet_loss", "anchors", anchors, "(B, C)")
    B, C = anchors.shape
    check_array("triplet_loss", "positives", positives, "(B, C)", anchors.dtype, B=B, C=C)
    check_array("triplet_loss", "negatives", negatives, "(B, C)", anchors.dtype, B=B, C=C)
    check_number("triplet_loss", "margin", margin, above=0)
    if not B:
        raise ValueError(f"triplet_loss: anchors have shape {anchors.shape} and hold no triplet; "
                         "give at least one.")
    u, near = direction_and_distance(anchors, positives)             # (B, C), (B, 1)
    v, far = direction_and_distance(anchors, negatives)
    excess = near - far + float(margin)                              # (B, 1)
    kept = excess.real <= 0                      # the real part decides; NaN is not <= 0
    loss = np.where(kept, 0, excess).sum() / B

    saved = (u, v, kept)
    return loss, saved


def triplet_loss_backward(dloss, saved):
    r"""The gradient of `triplet_loss`, which is 0 where the margin is kept.

    .. math:: \bar{p}_i = -w_i\, u_i, \qquad \bar{n}_i = w_i\, v_i, \qquad
              \bar{a}_i = w_i\, (u_i - v_i)

    with the unit vectors :math:`u = (a - p) / |a - p|` and :math:`v = (a - n) / |a - n|`, and
    :math:`w = \bar{L} / B` where the term is above 0, else 0. Where two vectors are equal, their
    distance has no derivative; it is taken as 0.

    Returns
    -------
    danchors, dpositives, dnegatives : ndarray, shape (B, C)
    """
    u, v, kept = saved

    # loss = where(kept, 0, near - far + margin).sum() / B
    w = np.where(kept, 0, float(dloss) / len(kept)).astype(u.real.dtype)               # (B, 1)

    # near = |anchors - positives|, far = |anchors - negatives|; the gradient of |x| is x / |x|
    dnear, dfar = w * u, w * v
    return dnear - dfar, -dnear, dfar


def normalized(x):
    """Vectors of norm 1, 0 for a zero vector, NaN for NaN or Inf; and `saved` for its backward."""
    scaled, power = rescaled(x)                                      # the power is 1, as a rule
    square = (scaled * scaled).sum(axis=-1, keepdims=True)
    square = np.where(np.isfinite(square.real), square, np.nan)      # Inf has no direction
    zero = square.real == 0
    scale = np.where(zero, 0, np.where(zero, 1, square) ** -0.5)
    x_hat = scaled * scale

    saved = (x_hat, scale, power)                                    # 1 / |x| is scale / power
    return x_hat, saved


def normalized_backward(dx_hat, saved):
    """dx of `normalized`."""
    x_hat, scale, power = saved

    # x_hat = x * (x . x) ** -0.5
    return scale * (dx_hat - x_hat * (x_hat * dx_hat).sum(axis=-1, keepdims=True)) / power


def direction_and_distance(x, y):
    """The unit vectors from y to x, and their distances."""
    u, (_, scale, power) = normalized(x - y)
    zero = scale.real == 0
    return u, np.where(zero, 0, 1 / np.where(zero, 1, scale)) * power
