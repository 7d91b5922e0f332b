"""The public attention function: `core.attention`, with an option at each of its steps.

    k, v    = repeat_kv_heads(k, v)                  grouped heads
    scores  = q @ k' * scale                         core
    scores  = modify_scores(scores, ...)             soft cap, ALiBi, bias by distance
    p       = softmax(scores, mask)                  core
    weights = drop_weights(p, ...)                   dropout
    o       = masked_matmul(weights, v)              core, where all numbers are finite

It writes the T x S weights out, and is the reference for every faster version.
"""

import numpy as np

from numformer.functional.attention.arguments import check_attention, check_values
from numformer.functional.attention.dropout import drop_weights, drop_weights_backward, uses_dropout
from numformer.functional.attention.grouped_heads import repeat_kv_heads, repeat_kv_heads_backward
from numformer.functional.attention.masks import EVERYWHERE
from numformer.functional.attention.modifiers import modify_scores, modify_scores_backward
from numformer.functional.attention.nonfinite import masked_matmul, quiet
from numformer.functional.softmax import softmax, softmax_backward


@quiet
def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None,
                                 softcap=None, dropout=0.0, seed=None):
    r"""Give every query the mean of the values, weighted by how well their keys match the query.

    .. math:: o_i = \sum_j d_{ij}\, p_{ij} v_j, \qquad p_i = \mathrm{softmax}_j(z_{ij}), \qquad
              z_{ij} = \mathrm{cap}(s\, q_i \cdot k_j) - m\, |i + S - T - j| + \beta_{j - i + T - 1}

    where j runs over the keys that the pattern allows. Each option is a function of its own: cap is
    `soft_cap`, the slopes m are those of `alibi`, the bias :math:`\beta` that of `add_by_distance`,
    and :math:`d_{ij}` that of `drop_weights`. Without options this is `attention`.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    k : ndarray, shape (B, G, S, D)
        G divides H: each key-value head serves H / G consecutive query heads. G = H is multi-head,
        G = 1 multi-query attention.
    v : ndarray, shape (B, G, S, D_V)
        D_V = D in most models.
    pattern : AttentionPattern
        Which query may attend to which key. NaN and Inf in masked keys and values do not reach the
        output. A query that may attend to no key has output 0.
    scale : float above 0, optional
        s; 1 / sqrt(D) unless given.
    slopes : ndarray, shape (H,), optional
        ALiBi's slopes. They get no gradient.
    bias : ndarray, shape (H, T + S - 1), optional
        A number for each head and distance, as `relative_position_bias` gives it. The backward
        returns its gradient too.
    softcap : float above 0, optional
        Bound of the scaled products.
    dropout : float in [0, 1)
        Rate at which single weights are dropped; needs `seed`.
    seed : int, optional
        For `attention_dropout_mask`. None: no dropout.

    Returns
    -------
    o : ndarray, shape (B, H, T, D_V)
    saved : tuple
        For `scaled_dot_product_attention_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit together, or G does not divide H.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", eq. 1. The options: see their functions.

    Examples
    --------
    >>> from numformer.functional import CAUSAL
    >>> q = k = v = np.eye(2)[None, None]                # two tokens that point in two directions
    >>> scaled_dot_product_attention(q, k, v, CAUSAL)[0][0, 0].round(3)
    array([[1.  , 0.  ],
           [0.33, 0.67]])
    """
    scale = check_attention(q, k, pattern, scale, slopes, bias, softcap)
    check_values(v, k)
    uses_dropout(dropout, seed)
    mask = pattern.dense(q.shape[2], k.shape[2])                     # broadcasts to (B, H, T, S)

    p, saved_weights = _weights(q, k, mask, scale, slopes, bias, softcap)        # (B, H, T, S)
    weights, saved_dropout = drop_weights(p, dropout, seed)
    v, saved_v = repeat_kv_heads(v, q.shape[1])                      # (B, H, S, D_V)
    o = masked_matmul(weights, v, mask)                              # (B, H, T, D_V)

    saved = (v, weights, mask, saved_v, saved_dropout, saved_weights)
    return o, saved


@quiet
def scaled_dot_product_attention_backward(do, saved):
    r"""The gradient of `scaled_dot_product_attention`: that of `attention`, with each option's own.

    .. math::

        \bar{v}_j = \sum_i d_{ij}\, p_{ij} \bar{o}_i, \qquad
        \bar{p}_{ij} = d_{ij}\, \bar{o}_i \cdot v_j, \qquad
        \bar{z}_{ij} = p_{ij} \left( \bar{p}_{ij} - \textstyle\sum_l p_{il} \bar{p}_{il} \right)

        \bar{\beta}_r = \sum_{j - i + T - 1 = r} \bar{z}_{ij}, \qquad
        \bar{q}_i = s \sum_j \mathrm{cap}'_{ij}\, \bar{z}_{ij} k_j, \qquad
        \bar{k}_j = s \sum_i \mathrm{cap}'_{ij}\, \bar{z}_{ij} q_i

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dk : ndarray, shape (B, G, S, D)
    dv : ndarray, shape (B, G, S, D_V)
    dbias : ndarray, shape (H, T + S - 1)
        Only where there was a bias.
    """
    v, weights, mask, saved_v, saved_dropout, saved_weights = saved
    q, k, scale, saved_k, saved_modifiers, saved_softmax = saved_weights

    # o = masked_matmul(weights, v, mask)
    dweights = do @ v.mT                                             # (B, H, T, S)
    dv = masked_matmul(weights.mT, do, mask.mT)                      # (B, H, S, D_V)

    # weights = drop_weights(p, dropout, seed)
    dp = drop_weights_backward(dweights, saved_dropout)

    # p = softmax(scores, mask)
    dscores = softmax_backward(dp, saved_softmax)                    # 0 where masked

    # scores = modify_scores(products * scale, softcap, slopes, bias)
    dscores, dbias = modify_scores_backward(dscores, saved_modifiers)
    dscores = np.where(mask, dscores, 0)                             # a masked NaN stays out

    # products = q @ k.mT
    dproducts = dscores * scale
    dq = masked_matmul(dproducts, k, mask)                           # (B, H, T, D)
    dk = masked_matmul(dproducts.mT, q, mask.mT)                     # (B, H, S, D)

    # k = repeat_kv_heads(k, H);  v = repeat_kv_heads(v, H)
    dk, dv = repeat_kv_heads_backward(dk, saved_k), repeat_kv_heads_backward(dv, saved_v)
    return (dq, dk, dv) if dbias is None else (dq, dk, dv, dbias)


@quiet
def attention_weights(q, k, pattern=EVERYWHERE, scale=None, slopes=None, bias=None, softcap=None):
    """The weights p of `scaled_dot_product_attention`: what a plot of attention shows.

    Parameters
    ----------
    q, k, pattern, scale, slopes, bias, softcap
        As in `scaled_dot_product_attention`.

    Returns
    -------
    ndarray, shape (B, H, T, S)
        Rows sum to 1, or to 0 where a query may attend to no key.

    Examples
    --------
    >>> from numformer.functional import CAUSAL
    >>> q = k = np.zeros((1, 1, 3, 2))
    >>> attention_weights(q, k, CAUSAL)[0, 0].round(2)
    array([[1.  , 0.  , 0.  ],
           [0.5 , 0.5 , 0.  ],
           [0.33, 0.33, 0.33]])
    """
    scale = check_attention(q, k, pattern, scale, slopes, bias, softcap)
    mask = pattern.dense(q.shape[2], k.shape[2])
    return _weights(q, k, mask, scale, slopes, bias, softcap)[0]


def _weights(q, k, mask, scale, slopes, bias, softcap):
    """The weights p before dropout, (B, H, T, S), and what the backward needs of them."""
    k, saved_k = repeat_kv_heads(k, q.shape[1])                      # (B, H, S, D)
    scores = q @ k.mT * scale                                        # (B, H, T, S)
    scores, saved_modifiers = modify_scores(scores, softcap, slopes, bias)
    p, saved_softmax = softmax(scores, mask=mask)

    saved = (q, k, scale, saved_k, saved_modifiers, saved_softmax)
    return p, saved
