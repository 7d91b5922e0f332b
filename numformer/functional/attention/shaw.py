"""Shaw's relative positions: a learned vector for every distance, added to the keys and the values.

The last of T queries is aligned with the last of S keys, so the distance from query i to key j is
j - (i + S - T). It is clipped to -K .. K, so a table has 2 K + 1 rows: row r for distance r - K.
All heads share it. `relative_attention` puts the two terms of this module together.
"""

import numpy as np

from numformer.checks import check_array, check_whole


def relative_scores(q, table, S):
    r"""The dot product of every query with the vectors of its distances: Shaw's term of the scores.

    .. math:: z_{ij} = q_i \cdot a_{r(i, j)}, \qquad
              r(i, j) = \mathrm{clip}(j - i - S + T,\, -K,\, K) + K

    There are only 2 K + 1 vectors, so one small product gives all dot products; each key then
    looks up the one of its distance.

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
        If the arrays are not floats of one precision, do not fit together, or the table has an even
        number of rows.

    References
    ----------
    Shaw, Uszkoreit, Vaswani (2018), "Self-Attention with Relative Position Representations", eq. 4,
    computed as in eq. 5.

    Examples
    --------
    >>> relative_scores(np.ones((1, 1, 2, 1)), np.array([[-1.0], [0.0], [1.0]]), 3)[0][0, 0]
    array([[-1.,  0.,  1.],
           [-1., -1.,  0.]])
    """
    sizes = check_array("relative_scores", "q", q, "(B, H, T, D)")
    check_whole("relative_scores", "S", S)
    check_table("relative_scores", "table", table, q.dtype, D=sizes["D"])
    rows = _rows_of_distances(sizes["T"], S, len(table))             # (T, S)
    products = q @ table.T                                           # (B, H, T, 2 K + 1)
    scores = _look_up(products, rows)                                # (B, H, T, S)

    saved = (q, table, rows)
    return scores, saved


def relative_scores_backward(dscores, saved):
    r"""The gradient of `relative_scores`: a row of the table sums over all pairs at its distance.

    .. math:: \bar{q}_i = \sum_j \bar{z}_{ij}\, a_{r(i, j)}, \qquad
              \bar{a}_r = \sum_{r(i, j) = r} \bar{z}_{ij}\, q_i

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dtable : ndarray, shape (2 K + 1, D)
    """
    q, table, rows = saved

    # scores = look_up(products, rows)
    dproducts = _sum_by_row(dscores, rows, len(table))               # (B, H, T, 2 K + 1)

    # products = q @ table.T
    return dproducts @ table, np.tensordot(dproducts, q, axes=((0, 1, 2), (0, 1, 2)))


def relative_values(p, table):
    r"""The weighted mean of the vectors of the distances: Shaw's term of the output.

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
        If the arrays are not floats of one precision, or the table has an even number of rows.

    References
    ----------
    Shaw et al. (2018), eq. 3.

    Examples
    --------
    >>> relative_values(np.full((1, 1, 1, 4), 0.25), np.array([[1.0], [0.0], [9.0]]))[0]
    array([[[[0.75]]]])
    """
    sizes = check_array("relative_values", "p", p, "(B, H, T, S)")
    check_table("relative_values", "table", table, p.dtype)
    rows = _rows_of_distances(sizes["T"], sizes["S"], len(table))    # (T, S)
    weights = _sum_by_row(p, rows, len(table))                       # (B, H, T, 2 K + 1)
    o = weights @ table                                              # (B, H, T, D)

    saved = (weights, table, rows)
    return o, saved


def relative_values_backward(do, saved):
    r"""The gradient of `relative_values`.

    .. math:: \bar{p}_{ij} = \bar{o}_i \cdot a_{r(i, j)}, \qquad
              \bar{a}_r = \sum_{r(i, j) = r} p_{ij}\, \bar{o}_i

    Returns
    -------
    dp : ndarray, shape (B, H, T, S)
    dtable : ndarray, shape (2 K + 1, D)
    """
    weights, table, rows = saved

    # o = weights @ table
    dtable = np.tensordot(weights, do, axes=((0, 1, 2), (0, 1, 2)))
    dweights = do @ table.T                                          # (B, H, T, 2 K + 1)

    # weights = sum_by_row(p, rows)
    return _look_up(dweights, rows), dtable


def check_table(owner, name, table, dtype, **sizes):
    """Check that a table has rows for K distances before, for 0, and for K after."""
    rows = check_array(owner, name, table, "(R, D)", dtype, **sizes)["R"]
    if rows % 2 == 0:
        raise ValueError(
            f"{owner}: {name} of shape {table.shape} has {rows} rows, but must have 2 K + 1: "
            f"K distances before, 0, and K after; give it {rows + 1}.")


def _rows_of_distances(T, S, n_rows):
    """The row of the table for every query and key, int (T, S); it never falls along the keys."""
    K = n_rows // 2
    return np.clip(np.arange(S) - np.arange(S - T, S)[:, None], -K, K) + K


def _look_up(x, rows):
    """y[..., i, j] = x[..., i, rows[i, j]]: (B, H, T, 2 K + 1) to (B, H, T, S)."""
    return x[:, :, np.arange(len(rows))[:, None], rows]


def _sum_by_row(x, rows, n_rows):
    """y[..., i, r] = sum of x[..., i, j] where rows[i, j] = r: the gradient of `_look_up`."""
    y = np.zeros((*x.shape[:3], n_rows), x.dtype)
    for i, row in enumerate(rows):                                   # equal rows are adjacent
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        y[:, :, i, row[starts]] = np.add.reduceat(x[:, :, i], starts, axis=-1)
    return y
