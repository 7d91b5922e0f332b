"""T5's relative positions: a learned bias for every head and bucket of distances.

The last of T queries is aligned with the last of S keys, so the distance from query i to key j is
j - (i + S - T). It runs from -(S - 1) to T - 1. The T x S biases of a head are constant along
diagonals: T + S - 1 numbers say it all, and `add_by_distance` adds them to the scores.
"""

import math

import numpy as np

from numformer.checks import check_array, check_even, check_whole
from numformer.functional.embedding import embedding, embedding_backward


def relative_position_buckets(distance, n_buckets=32, max_distance=128, bidirectional=True):
    r"""Sort distances into buckets: one for each small distance, wider ones further away.

    With n buckets for one direction, half of them hold a single distance each, and the rest grow
    logarithmically up to `max_distance`:

    .. math:: b(d) = d \text{ if } d < n/2, \text{ else } \min\!\left(n - 1,\; \tfrac n2 +
              \left\lfloor \tfrac n2 \frac{\ln (2 d / n)}{\ln (2\, \mathrm{max} / n)}
              \right\rfloor\right)

    Parameters
    ----------
    distance : ndarray of int, any shape
        Position of the key minus position of the query.
    n_buckets : int, even
    max_distance : int
        All distances from here on share the last bucket.
    bidirectional : bool
        Whether half of the buckets are for keys after the query. If not, such keys share bucket 0
        (a decoder masks them).

    Returns
    -------
    ndarray of int, shape of `distance`
        In 0 .. n_buckets - 1.

    Raises
    ------
    ValueError
        If there are too few buckets for the distance.

    References
    ----------
    Raffel et al. (2020), "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", section 2.1; the formula is that of their published code.

    Examples
    --------
    >>> relative_position_buckets(np.array([-200, -9, -8, -2, 0, 2, 200]))
    array([15,  8,  8,  2,  0, 18, 31])
    """
    check_even("relative_position_buckets", "n_buckets", n_buckets)
    check_whole("relative_position_buckets", "max_distance", max_distance)
    distance = np.asarray(distance)
    n = n_buckets // 2 if bidirectional else n_buckets
    exact = n // 2                                       # buckets of a single distance
    if exact < 1 or max_distance <= exact:
        raise ValueError(
            f"relative_position_buckets: n_buckets={n_buckets} and max_distance={max_distance}: "
            "a direction needs 2 buckets or more, and max_distance must be above half of their "
            "number.")
    side = np.where(distance > 0, n, 0) if bidirectional else 0
    d = np.abs(distance) if bidirectional else np.maximum(-distance, 0)
    far = np.log(np.maximum(d, exact) / exact) / math.log(max_distance / exact) * (n - exact)
    far = np.minimum(exact + far.astype(int), n - 1)
    return side + np.where(d < exact, d, far)


def relative_position_bias(table, T, S, max_distance=128, bidirectional=True):
    r"""Look up the bias of every distance that T queries and S keys can have.

    .. math:: \beta_{h, d + S - 1} = \mathrm{table}_{b(d), h}, \qquad d = -(S - 1) \dots T - 1

    Parameters
    ----------
    table : ndarray, shape (n_buckets, H)
    T, S : int
    max_distance, bidirectional
        As in `relative_position_buckets`.

    Returns
    -------
    bias : ndarray, shape (H, T + S - 1)
        For `scaled_dot_product_attention`.
    saved : tuple
        For `relative_position_bias_backward`.

    Raises
    ------
    ValueError, TypeError
        If the table is no matrix of floats, or T or S is not above 0.

    References
    ----------
    Raffel et al. (2020), section 2.1.

    Examples
    --------
    >>> relative_position_bias(np.arange(8.0)[:, None], 2, 3)[0]     # distances -2 .. 1
    array([[2., 1., 0., 5.]])
    """
    name = "relative_position_bias"
    n_buckets = check_array(name, "table", table, "(n_buckets, H)")["n_buckets"]
    check_whole(name, "T", T)
    check_whole(name, "S", S)
    distance = np.arange(1 - S, T)                       # (T + S - 1,)
    buckets = relative_position_buckets(distance, n_buckets, max_distance, bidirectional)
    bias, saved = embedding(buckets, table)              # (T + S - 1, H)
    return np.ascontiguousarray(bias.T), saved


def relative_position_bias_backward(dbias, saved):
    r"""The gradient of `relative_position_bias`: every bucket sums over its distances.

    .. math:: \overline{\mathrm{table}}_{b h} = \sum_{d \,:\, b(d) = b} \bar{\beta}_{h, d + S - 1}

    Returns
    -------
    dtable : ndarray, shape (n_buckets, H)
    """
    # bias = embedding(buckets, table).T
    return embedding_backward(np.ascontiguousarray(dbias.T), saved)
