"""Attention with Shaw's relative positions: the composed function with two learned tables."""

from numformer.functional.attention.arguments import check_attention, check_values
from numformer.functional.attention.dropout import drop_weights, drop_weights_backward, uses_dropout
from numformer.functional.attention.grouped_heads import repeat_kv_heads, repeat_kv_heads_backward
from numformer.functional.attention.masks import EVERYWHERE
from numformer.functional.attention.nonfinite import masked_matmul, quiet
from numformer.functional.attention.shaw import (
    check_table, relative_scores, relative_scores_backward, relative_values,
    relative_values_backward)
from numformer.functional.softmax import softmax, softmax_backward


@quiet
def relative_attention(q, k, v, key_table, value_table, pattern=EVERYWHERE, scale=None, dropout=0.0,
                       seed=None):
    r"""Attention in which a learned vector of the distance is added to every key and every value.

    .. math:: o_i = \sum_j d_{ij}\, p_{ij} (v_j + a^V_{r(i, j)}), \qquad
              p_i = \mathrm{softmax}_j(z_{ij}), \qquad
              z_{ij} = s\, q_i \cdot (k_j + a^K_{r(i, j)})

    with r as in `relative_scores` and d as in `drop_weights`.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    k : ndarray, shape (B, G, S, D)
    v : ndarray, shape (B, G, S, D_V)
        G divides H.
    key_table, value_table : ndarray, shape (2 K + 1, D) and (2 K + 1, D_V)
        :math:`a^K` and :math:`a^V`. Their K may differ.
    pattern, scale, dropout, seed
        As in `scaled_dot_product_attention`.

    Returns
    -------
    o : ndarray, shape (B, H, T, D_V)
        0 for a query that may attend to no key.
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
    >>> import numpy as np
    >>> q = k = v = np.zeros((1, 1, 2, 1))
    >>> relative_attention(q, k, v, np.zeros((3, 1)), np.array([[1.0], [0.0], [3.0]]))[0][0, 0]
    array([[1.5],
           [0.5]])
    """
    scale = _check(q, k, key_table, pattern, scale)
    check_values(v, k, "relative_attention")
    check_table("relative_attention", "value_table", value_table, q.dtype, D=v.shape[-1])
    uses_dropout(dropout, seed, "relative_attention")
    mask = pattern.dense(q.shape[2], k.shape[2])                     # broadcasts to (B, H, T, S)

    p, saved_weights = _weights(q, k, key_table, mask, scale)        # (B, H, T, S)
    weights, saved_dropout = drop_weights(p, dropout, seed)
    v, saved_v = repeat_kv_heads(v, q.shape[1])                      # (B, H, S, D_V)
    from_table, saved_values = relative_values(weights, value_table)
    o = masked_matmul(weights, v, mask) + from_table                 # (B, H, T, D_V)

    saved = (v, weights, mask, saved_v, saved_dropout, saved_values, saved_weights)
    return o, saved


@quiet
def relative_attention_backward(do, saved):
    r"""The gradient of `relative_attention`: that of attention, with a term for each table.

    .. math::

        \bar{p}_{ij} = d_{ij}\, \bar{o}_i \cdot (v_j + a^V_{r(i, j)}), \qquad
        \bar{z}_{ij} = p_{ij} \left( \bar{p}_{ij} - \textstyle\sum_l p_{il} \bar{p}_{il} \right)

        \bar{q}_i = s \sum_j \bar{z}_{ij} (k_j + a^K_{r(i, j)}), \qquad
        \bar{k}_j = s \sum_i \bar{z}_{ij} q_i, \qquad
        \bar{a}^K_r = s \sum_{r(i, j) = r} \bar{z}_{ij} q_i

        \bar{v}_j = \sum_i d_{ij}\, p_{ij} \bar{o}_i, \qquad
        \bar{a}^V_r = \sum_{r(i, j) = r} d_{ij}\, p_{ij} \bar{o}_i

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dk : ndarray, shape (B, G, S, D)
    dv : ndarray, shape (B, G, S, D_V)
    dkey_table, dvalue_table : ndarray, shape (2 K + 1, D) and (2 K + 1, D_V)
    """
    v, weights, mask, saved_v, saved_dropout, saved_values, saved_weights = saved
    q, k, scale, saved_k, saved_scores, saved_softmax = saved_weights

    # o = masked_matmul(weights, v, mask) + relative_values(weights, value_table)
    dv = masked_matmul(weights.mT, do, mask.mT)                      # (B, H, S, D_V)
    dweights, dvalue_table = relative_values_backward(do, saved_values)
    dweights = dweights + do @ v.mT                                  # (B, H, T, S)

    # weights = drop_weights(p, dropout, seed)
    dp = drop_weights_backward(dweights, saved_dropout)

    # p = softmax(scores, mask)
    dscores = softmax_backward(dp, saved_softmax)                    # 0 where masked

    # scores = (q @ k.mT + relative_scores(q, key_table, S)) * scale
    dproducts = dscores * scale
    dq, dkey_table = relative_scores_backward(dproducts, saved_scores)
    dq = dq + masked_matmul(dproducts, k, mask)                      # (B, H, T, D)
    dk = masked_matmul(dproducts.mT, q, mask.mT)                     # (B, H, S, D)

    # k = repeat_kv_heads(k, H);  v = repeat_kv_heads(v, H)
    dk, dv = repeat_kv_heads_backward(dk, saved_k), repeat_kv_heads_backward(dv, saved_v)
    return dq, dk, dv, dkey_table, dvalue_table


@quiet
def relative_attention_weights(q, k, key_table, pattern=EVERYWHERE, scale=None):
    """The weights p of `relative_attention`, (B, H, T, S): what a plot of attention shows.

    Examples
    --------
    >>> import numpy as np
    >>> q = k = np.zeros((1, 1, 2, 1))
    >>> relative_attention_weights(q, k, np.zeros((3, 1)))[0, 0]
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    scale = _check(q, k, key_table, pattern, scale)
    mask = pattern.dense(q.shape[2], k.shape[2])
    return _weights(q, k, key_table, mask, scale)[0]


def _check(q, k, key_table, pattern, scale):
    """Check all that the scores depend on, and return their scale."""
    scale = check_attention(q, k, pattern, scale, name="relative_attention")
    check_table("relative_attention", "key_table", key_table, q.dtype, D=q.shape[-1])
    return scale


def _weights(q, k, key_table, mask, scale):
    """The weights p before dropout, (B, H, T, S), and what the backward needs of them."""
    k, saved_k = repeat_kv_heads(k, q.shape[1])                      # (B, H, S, D_V)
    from_table, saved_scores = relative_scores(q, key_table, k.shape[2])
    scores = (q @ k.mT + from_table) * scale                         # (B, H, T, S)
    p, saved_softmax = softmax(scores, mask=mask)

    saved = (q, k, scale, saved_k, saved_scores, saved_softmax)
    return p, saved
