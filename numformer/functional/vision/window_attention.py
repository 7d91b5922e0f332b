"""Attention within windows: a number for every pair of positions is added to the scores."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.attention.arguments import check_attention, check_values
from numformer.functional.attention.dropout import drop_weights, drop_weights_backward, uses_dropout
from numformer.functional.attention.masks import EVERYWHERE
from numformer.functional.attention.nonfinite import masked_matmul, quiet
from numformer.functional.embedding import embedding, embedding_backward
from numformer.functional.softmax import softmax, softmax_backward


def window_distances(window):
    """The row of a table of biases for each pair of positions in a window of M x M.

    The row and the column of the key relative to the query are each one of 2 M - 1 numbers; there
    is a row for each pair of them. As in the published code, the distance is that of the query
    from the key.

    Parameters
    ----------
    window : int
        M.

    Returns
    -------
    ndarray of int, shape (M * M, M * M)
        0 .. (2 M - 1)^2 - 1.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", section 3.2, "relative position bias".

    Examples
    --------
    >>> window_distances(2)
    array([[4, 3, 1, 0],
           [5, 4, 2, 1],
           [7, 6, 4, 3],
           [8, 7, 5, 4]])
    """
    check_whole("window_distances", "window", window)
    row, column = np.divmod(np.arange(window * window), window)      # of each position
    rows = row[:, None] - row + window - 1                           # (M M, M M), 0 .. 2 M - 2
    columns = column[:, None] - column + window - 1
    return rows * (2 * window - 1) + columns


def window_position_bias(table, window):
    r"""Look up the bias of every pair of positions in a window, for each head.

    .. math:: \beta_{h,\, ij} = \mathrm{table}_{d(i, j),\, h}, \qquad
              d(i, j) = (r_i - r_j + M - 1)(2M - 1) + c_i - c_j + M - 1

    Parameters
    ----------
    table : ndarray, shape ((2 M - 1)^2, H)
    window : int
        M.

    Returns
    -------
    bias : ndarray, shape (H, M * M, M * M)
        For `window_attention`.
    saved : tuple
        For `window_position_bias_backward`.

    Raises
    ------
    ValueError, TypeError
        If the table is no array of floats with (2 M - 1)^2 rows.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", eq. 4.

    Examples
    --------
    >>> window_position_bias(np.arange(9.0)[:, None], 2)[0][0]
    array([[4., 3., 1., 0.],
           [5., 4., 2., 1.],
           [7., 6., 4., 3.],
           [8., 7., 5., 4.]])
    """
    index = window_distances(window)                                 # (M M, M M)
    check_array("window_position_bias", "table", table, "(R, H)", R=(2 * window - 1) ** 2)
    bias, saved = embedding(index, table)                            # (M M, M M, H)
    return np.ascontiguousarray(bias.transpose(2, 0, 1)), saved


def window_position_bias_backward(dbias, saved):
    r"""The gradient of `window_position_bias`: a row sums over all pairs with its distance.

    .. math:: \overline{\mathrm{table}}_{dh} = \sum_{ij \,:\, d(i, j) = d} \bar{\beta}_{h,\, ij}

    Returns
    -------
    dtable : ndarray, shape ((2 M - 1)^2, H)
    """
    # bias = embedding(index, table).transpose(2, 0, 1)
    return embedding_backward(np.ascontiguousarray(dbias.transpose(1, 2, 0)), saved)


@quiet
def window_attention(q, k, v, bias, pattern=EVERYWHERE, scale=None, dropout=0.0, seed=None):
    r"""Attention with a bias for every pair of positions, the same in all entries of the batch.

    .. math:: o_i = \sum_j d_{ij}\, p_{ij} v_j, \qquad p_i = \mathrm{softmax}_j(z_{ij}), \qquad
              z_{ij} = s\, q_i \cdot k_j + \beta_{h,\, ij}

    where j runs over the keys that the pattern allows. `scaled_dot_product_attention` has a bias
    for each distance along a line; distances in a window have two coordinates.

    Parameters
    ----------
    q, k : ndarray, shape (B, H, T, D)
        B counts windows, T = M * M.
    v : ndarray, shape (B, H, T, D_V)
    bias : ndarray, shape (H, T, T)
        As `window_position_bias` gives it.
    pattern, scale, dropout, seed
        As in `scaled_dot_product_attention`.

    Returns
    -------
    o : ndarray, shape (B, H, T, D_V)
    saved : tuple
        For `window_attention_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit together.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", eq. 4.

    Examples
    --------
    >>> q = k = np.zeros((1, 1, 2, 2))
    >>> v = np.array([0.0, 1.0]).reshape(1, 1, 2, 1)
    >>> window_attention(q, k, v, np.log([[[1.0, 3.0], [1.0, 1.0]]]))[0].ravel()
    array([0.75, 0.5 ])
    """
    owner = "window_attention"
    scale = check_attention(q, k, pattern, scale, name=owner)
    check_values(v, k, owner)
    B, H, T, _ = q.shape
    check_array(owner, "k", k, "(B, H, T, D)", H=H, T=T)
    check_array(owner, "bias", bias, "(H, T, T)", q.dtype, H=H, T=T)
    uses_dropout(dropout, seed)
    mask = pattern.dense(T, T)                                       # broadcasts to (B, H, T, T)

    scores = q @ k.mT * scale + bias                                 # (B, H, T, T)
    p, saved_softmax = softmax(scores, mask=mask)
    weights, saved_dropout = drop_weights(p, dropout, seed)
    o = masked_matmul(weights, v, mask)                              # (B, H, T, D_V)

    saved = (q, k, v, scale, mask, weights, saved_softmax, saved_dropout)
    return o, saved


@quiet
def window_attention_backward(do, saved):
    r"""The gradient of `window_attention`: that of attention, and the bias sums over the windows.

    .. math::

        \bar{v}_j = \sum_i d_{ij}\, p_{ij} \bar{o}_i, \qquad
        \bar{z}_{ij} = p_{ij} \left( \bar{p}_{ij} - \textstyle\sum_l p_{il} \bar{p}_{il} \right),
        \qquad \bar{p}_{ij} = d_{ij}\, \bar{o}_i \cdot v_j

        \bar{q}_i = s \sum_j \bar{z}_{ij} k_j, \qquad \bar{k}_j = s \sum_i \bar{z}_{ij} q_i, \qquad
        \bar{\beta}_{h,\, ij} = \sum_b \bar{z}_{bhij}

    Returns
    -------
    dq, dk : ndarray, shape (B, H, T, D)
    dv : ndarray, shape (B, H, T, D_V)
    dbias : ndarray, shape (H, T, T)
    """
    q, k, v, scale, mask, weights, saved_softmax, saved_dropout = saved

    # o = masked_matmul(weights, v, mask)
    dweights = do @ v.mT                                             # (B, H, T, T)
    dv = masked_matmul(weights.mT, do, mask.mT)                      # (B, H, T, D_V)

    # weights = drop_weights(softmax(scores, mask))
    dp = drop_weights_backward(dweights, saved_dropout)
    dscores = softmax_backward(dp, saved_softmax)                    # 0 where masked
    dscores = np.where(mask, dscores, 0)                             # a masked NaN stays out

    # scores = q @ k.mT * scale + bias
    dbias = dscores.sum(axis=0)                                      # (H, T, T)
    dproducts = dscores * scale
    dq = masked_matmul(dproducts, k, mask)                           # (B, H, T, D)
    dk = masked_matmul(dproducts.mT, q, mask.mT)                     # (B, H, T, D)
    return dq, dk, dv, dbias
