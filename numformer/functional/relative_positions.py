"""A learned number for every distance between query and key, added to the scores: T5's positions.

Distance is where the key stands, seen from the query: j - (i + S - T), for the last query stands at the last key. For T
queries and S keys it runs from -(S - 1) to T - 1, so a bias for every distance and head has the shape (H, T + S - 1), and
the T x S biases of a head, constant along diagonals, need never be written out.
"""

import math

import numpy as np

from numformer.checks import check_array, check_even, check_whole
from numformer.functional.embedding import embedding, embedding_backward


def relative_position_buckets(distance, n_buckets=32, max_distance=128, bidirectional=True):
    r"""Sort distances into buckets: small ones each to its own, larger ones by their logarithm.

    With n buckets for one direction, half of them are exact, and the rest grow up to `max_distance`:

    .. math:: b(d) = d \text{ if } d < n/2, \text{ else } \min\!\left(n - 1,\;
              \tfrac n2 + \left\lfloor \tfrac n2 \frac{\ln (2 d / n)}{\ln (2\, \mathrm{max} / n)} \right\rfloor\right)

    Parameters
    ----------
    distance : ndarray of int, any shape
        Where the key stands, seen from the query.
    n_buckets : int, even
    max_distance : int
        From here on all distances share the last bucket.
    bidirectional : bool
        Whether half of the buckets are for keys after the query. If not, such keys share bucket 0 (a decoder masks them).

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
    Raffel et al. (2020), "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", section 2.1;
    the formula is that of their published code.

    Examples
    --------
    >>> relative_position_buckets(np.array([-200, -9, -8, -2, 0, 2, 200]))
    array([15,  8,  8,  2,  0, 18, 31])
    """
    check_even("relative_position_buckets", "n_buckets", n_buckets)
    check_whole("relative_position_buckets", "max_distance", max_distance)
    distance = np.asarray(distance)
    n = n_buckets // 2 if bidirectional else n_buckets
    exact = n // 2
    if exact < 1 or max_distance <= exact:
        raise ValueError(f"relative_position_buckets: n_buckets={n_buckets} and max_distance={max_distance}: a direction needs 2 "
                         "buckets or more, and max_distance must be above half of their number.")
    side = np.where(distance > 0, n, 0) if bidirectional else 0
    d = np.abs(distance) if bidirectional else np.maximum(-distance, 0)
    growing = exact + (np.log(np.maximum(d, exact) / exact) / math.log(max_distance / exact) * (n - exact)).astype(int)
    return side + np.where(d < exact, d, np.minimum(growing, n - 1))


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
    >>> relative_position_bias(np.arange(8.0)[:, None], 2, 3)[0]              # distances -2 .. 1
    array([[2., 1., 0., 5.]])
    """
    sizes = check_array("relative_position_bias", "table", table, "(n_buckets, H)")
    check_whole("relative_position_bias", "T", T)
    check_whole("relative_position_bias", "S", S)
    buckets = relative_position_buckets(np.arange(1 - S, T), sizes["n_buckets"], max_distance, bidirectional)
    bias, saved = embedding(buckets, table)                           # (T + S - 1, H)
    return np.ascontiguousarray(bias.T), saved


def relative_position_bias_backward(dbias, saved):
    r"""The gradient of `relative_position_bias`: every bucket collects from all distances that it served.

    .. math:: \overline{\mathrm{table}}_{b h} = \sum_{d \,:\, b(d) = b} \bar{\beta}_{h, d + S - 1}

    Returns
    -------
    dtable : ndarray, shape (n_buckets, H)
    """
    # bias = embedding(buckets, table).T
    return embedding_backward(np.ascontiguousarray(dbias.T), saved)


def add_by_distance(scores, bias):
    r"""Add to every score the bias of its distance.

    .. math:: z_{hij} \leftarrow z_{hij} + \beta_{h,\, j - i + T - 1}

    Parameters
    ----------
    scores : ndarray, shape (..., H, T, S)
    bias : ndarray, shape (H, T + S - 1)

    Returns
    -------
    y : ndarray, shape of `scores`
    saved : tuple
        For `add_by_distance_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one dtype, or do not fit.

    Examples
    --------
    >>> add_by_distance(np.zeros((1, 2, 3)), np.array([[-2.0, -1.0, 0.0, 1.0]]))[0]
    array([[[-1.,  0.,  1.],
            [-2., -1.,  0.]]])
    """
    sizes = check_array("add_by_distance", "scores", scores, "(..., H, T, S)")
    T, S = sizes["T"], sizes["S"]
    check_array("add_by_distance", "bias", bias, "(H, R)", scores.dtype, H=sizes["H"], R=T + S - 1)
    index = np.arange(S) - np.arange(T)[:, None] + (T - 1)            # (T, S)
    y = scores + bias[:, index]

    saved = (T, S)
    return y, saved


def add_by_distance_backward(dy, saved):
    r"""The gradient of `add_by_distance`: a bias collects along its diagonal, and over the batch.

    .. math:: \bar{z} = \bar{y}, \qquad \bar{\beta}_{hr} = \sum_{i} \bar{y}_{h, i, r + i - T + 1}

    Returns
    -------
    dscores : ndarray, shape of `dy`
    dbias : ndarray, shape (H, T + S - 1)
    """
    T, S = saved

    # y = scores + bias[:, index]
    of_heads = dy.reshape(-1, *dy.shape[-3:]).sum(axis=0)             # (H, T, S)
    dbias = np.zeros((len(of_heads), T + S - 1), dy.dtype)
    for i in range(T):
        dbias[:, T - 1 - i:T - 1 - i + S] += of_heads[:, i]
    return dy.copy(), dbias
