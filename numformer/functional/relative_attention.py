"""Attention with a learned vector for every distance, in the keys and in the values: Shaw's relative positions.

Distance is where the key stands, seen from the query: j - (i + S - T), for the last query stands at the last key. Beyond K steps all
distances of a side are one, so a table has 2 K + 1 rows: row r for distance r - K. All heads share it.
"""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.attention import QUIET, check_attention, drops, for_every_head, for_every_head_backward, masked_product
from numformer.functional.dropout import attention_dropout_mask
from numformer.functional.pattern import EVERYWHERE
from numformer.functional.softmax import softmax, softmax_backward


def relative_scores(q, table, S):
    r"""What every query has to say to the distances of the S keys: the term that Shaw's positions add to q . k.

    .. math:: z_{ij} = q_i \cdot a_{r(i, j)}, \qquad r(i, j) = \mathrm{clip}(j - i - S + T,\, -K,\, K) + K

    A query meets only 2 K + 1 vectors, so one small product does it; its results are then dealt out to the keys.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    table : ndarray, shape (2 K + 1, D)
        a.
    S : int
        Number of keys.

    Returns
    -------
    scores : ndarray, shape (B, H, T, S)
    saved : tuple
        For `relative_scores_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, do not fit together, or the table's rows have no middle.

    References
    ----------
    Shaw, Uszkoreit, Vaswani (2018), "Self-Attention with Relative Position Representations", eq. 4, in the form of eq. 5.

    Examples
    --------
    >>> relative_scores(np.ones((1, 1, 2, 1)), np.array([[-1.0], [0.0], [1.0]]), 3)[0][0, 0]
    array([[-1.,  0.,  1.],
           [-1., -1.,  0.]])
    """
    sizes = check_array("relative_scores", "q", q, "(B, H, T, D)")
    check_whole("relative_scores", "S", S)
    _check_table("relative_scores", "table", table, q.dtype, D=sizes["D"])
    places = _places(sizes["T"], S, len(table))
    by_place = q @ table.T                                            # (B, H, T, 2 K + 1)
    scores = _deal_out(by_place, places)                              # (B, H, T, S)

    saved = (q, table, places)
    return scores, saved


def relative_scores_backward(dscores, saved):
    r"""The gradient of `relative_scores`: a row of the table collects from all pairs at its distance, in all heads and examples.

    .. math:: \bar{q}_i = \sum_j \bar{z}_{ij}\, a_{r(i, j)}, \qquad \bar{a}_r = \sum_{r(i, j) = r} \bar{z}_{ij}\, q_i

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dtable : ndarray, shape (2 K + 1, D)
    """
    q, table, places = saved

    # scores = deal_out(by_place, places)
    dby_place = _collect(dscores, places, len(table))                 # (B, H, T, 2 K + 1)

    # by_place = q @ table.T
    return dby_place @ table, np.tensordot(dby_place, q, axes=((0, 1, 2), (0, 1, 2)))


def relative_values(p, table):
    r"""What every query takes from the distances alone: the term that Shaw's positions add to the average of the values.

    .. math:: o_i = \sum_j p_{ij}\, a_{r(i, j)}

    Parameters
    ----------
    p : ndarray, shape (B, H, T, S)
        Attention weights.
    table : ndarray, shape (2 K + 1, D)
        a, with r as in `relative_scores`.

    Returns
    -------
    o : ndarray, shape (B, H, T, D)
    saved : tuple
        For `relative_values_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or the table's rows have no middle.

    References
    ----------
    Shaw et al. (2018), eq. 3.

    Examples
    --------
    >>> relative_values(np.full((1, 1, 1, 4), 0.25), np.array([[1.0], [0.0], [9.0]]))[0]
    array([[[[0.75]]]])
    """
    sizes = check_array("relative_values", "p", p, "(B, H, T, S)")
    _check_table("relative_values", "table", table, p.dtype)
    places = _places(sizes["T"], sizes["S"], len(table))
    by_place = _collect(p, places, len(table))                        # (B, H, T, 2 K + 1): the weight of each distance
    o = by_place @ table                                              # (B, H, T, D)

    saved = (by_place, table, places)
    return o, saved


def relative_values_backward(do, saved):
    r"""The gradient of `relative_values`.

    .. math:: \bar{p}_{ij} = \bar{o}_i \cdot a_{r(i, j)}, \qquad \bar{a}_r = \sum_{r(i, j) = r} p_{ij}\, \bar{o}_i

    Returns
    -------
    dp : ndarray, shape (B, H, T, S)
    dtable : ndarray, shape (2 K + 1, D)
    """
    by_place, table, places = saved

    # o = by_place @ table
    dtable = np.tensordot(by_place, do, axes=((0, 1, 2), (0, 1, 2)))
    dby_place = do @ table.T                                          # (B, H, T, 2 K + 1)

    # by_place = collect(p, places)
    return _deal_out(dby_place, places), dtable


@QUIET
def relative_attention(q, k, v, key_table, value_table, pattern=EVERYWHERE, scale=None, dropout=0.0, seed=None):
    r"""`scaled_dot_product_attention` in which every key and every value also says how far away it stands.

    .. math:: o_i = \sum_j d_{ij}\, p_{ij} (v_j + a^V_{r(i, j)}), \qquad p_i = \mathrm{softmax}_j(z_{ij}), \qquad
              z_{ij} = s\, q_i \cdot (k_j + a^K_{r(i, j)})

    with r as in `relative_scores` and d the dropout of weights. A query that may attend to nothing gives 0.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    k, v : ndarray, shape (B, G, S, D)
        G divides H.
    key_table, value_table : ndarray, shape (2 K + 1, D)
    pattern, scale, dropout, seed
        As in `scaled_dot_product_attention`.

    Returns
    -------
    o : ndarray, shape (B, H, T, D)
    saved : tuple
        For `relative_attention_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or do not fit together.

    References
    ----------
    Shaw et al. (2018), eq. 3 and 4; tables shared by the heads: section 3.3.

    Examples
    --------
    >>> q = k = v = np.zeros((1, 1, 2, 1))
    >>> relative_attention(q, k, v, np.zeros((3, 1)), np.array([[1.0], [0.0], [3.0]]))[0][0, 0]
    array([[1.5],
           [0.5]])
    """
    p, saved_weights = _weights(q, k, key_table, pattern, scale)      # (B, H, T, S)
    check_array("relative_attention", "v", v, "(B, G, S, D)", q.dtype, **dict(zip("BGSD", k.shape)))
    _check_table("relative_attention", "value_table", value_table, q.dtype, D=q.shape[-1])
    thinned = 1.0
    if drops(dropout, seed, "relative_attention"):
        thinned = np.where(attention_dropout_mask(seed, p.shape, dropout), 1 / (1 - dropout), 0).astype(p.real.dtype)
    weights = p * thinned
    from_places, saved_places = relative_values(weights, value_table)
    o = masked_product(weights, for_every_head(v, q), saved_weights[-1]) + from_places    # (B, H, T, D)

    saved = (q, k, v, p, thinned, saved_weights, saved_places)
    return o, saved


@QUIET
def relative_attention_backward(do, saved):
    r"""The gradient of `relative_attention`: that of attention, with both tables on the way.

    .. math::

        \bar{p}_{ij} = d_{ij}\, \bar{o}_i \cdot (v_j + a^V_{r(i, j)}), \qquad
        \bar{z}_{ij} = p_{ij} \left( \bar{p}_{ij} - \textstyle\sum_k p_{ik} \bar{p}_{ik} \right), \qquad
        \bar{q}_i = s \sum_j \bar{z}_{ij} (k_j + a^K_{r(i, j)})

        \bar{k}_j = s \sum_i \bar{z}_{ij} q_i, \qquad \bar{a}^K_r = s \sum_{r(i, j) = r} \bar{z}_{ij} q_i, \qquad
        \bar{v}_j = \sum_i d_{ij}\, p_{ij} \bar{o}_i, \qquad \bar{a}^V_r = \sum_{r(i, j) = r} d_{ij}\, p_{ij} \bar{o}_i

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dk, dv : ndarray, shape (B, G, S, D)
    dkey_table, dvalue_table : ndarray, shape (2 K + 1, D)
    """
    q, k, v, p, thinned, (saved_softmax, saved_scores, scale, mask), saved_places = saved
    turned, weights = mask.mT, p * thinned

    # o = masked_product(weights, v) + relative_values(weights, value_table)
    dv = masked_product(weights.mT, do, turned)                       # (B, H, S, D)
    dweights, dvalue_table = relative_values_backward(do, saved_places)
    dweights = dweights + do @ for_every_head(v, q).mT                # (B, H, T, S); softmax_backward cuts what is masked

    # weights = p * thinned;  p = softmax(scores, mask)
    dscores = softmax_backward(dweights * thinned, saved_softmax)

    # scores = (q @ k.T + relative_scores(q, key_table)) * scale
    dproducts = dscores * scale
    dq, dkey_table = relative_scores_backward(dproducts, saved_scores)
    dq = dq + masked_product(dproducts, for_every_head(k, q), mask)   # (B, H, T, D)
    dk = masked_product(dproducts.mT, q, turned)                      # (B, H, S, D)
    return dq, for_every_head_backward(dk, k), for_every_head_backward(dv, v), dkey_table, dvalue_table


@QUIET
def relative_attention_weights(q, k, key_table, pattern=EVERYWHERE, scale=None):
    """The weights p of `relative_attention`, (B, H, T, S): what a picture of attention shows.

    Examples
    --------
    >>> nothing = np.zeros((1, 1, 2, 1))
    >>> relative_attention_weights(nothing, nothing, np.zeros((3, 1)))[0, 0]
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    return _weights(q, k, key_table, pattern, scale)[0]


def _weights(q, k, key_table, pattern, scale):
    """The weights (B, H, T, S), and what the backward needs of them."""
    scale = check_attention(q, k, pattern, scale, name="relative_attention")
    _check_table("relative_attention", "key_table", key_table, q.dtype, D=q.shape[-1])
    mask = pattern.dense(q.shape[2], k.shape[2])
    to_places, saved_scores = relative_scores(q, key_table, k.shape[2])
    scores = (q @ for_every_head(k, q).mT + to_places) * scale        # (B, H, T, S)
    p, saved_softmax = softmax(scores, mask=mask)

    saved = (saved_softmax, saved_scores, scale, mask)
    return p, saved


def _check_table(owner, name, table, dtype, **sizes):
    """Check that a table has rows for K distances before, for 0, and for K after."""
    rows = check_array(owner, name, table, "(R, D)", dtype, **sizes)["R"]
    if rows % 2 == 0:
        raise ValueError(f"{owner}: {name} of shape {table.shape} has {rows} rows, but must have 2 K + 1: K distances before, 0, and K "
                         f"after; give it {rows + 1}.")


def _places(T, S, rows):
    """The row of the table for every query and key, int (T, S); from key to key it never falls."""
    reach = rows // 2
    return np.clip(np.arange(S) - np.arange(S - T, S)[:, None], -reach, reach) + reach


def _deal_out(by_place, places):
    """A number of every place (B, H, T, 2 K + 1) to all keys that stand there, (B, H, T, S)."""
    return by_place[:, :, np.arange(len(places))[:, None], places]


def _collect(x, places, n):
    """Sum what the keys of one place have, (B, H, T, S) to (B, H, T, n): the gradient of `_deal_out`."""
    by_place = np.zeros((*x.shape[:3], n), x.dtype)
    for i, row in enumerate(places):                                  # keys of one place stand side by side
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        by_place[:, :, i, row[starts]] = np.add.reduceat(x[:, :, i], starts, axis=-1)
    return by_place
