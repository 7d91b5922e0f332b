"""Scaled dot-product attention, with its T x S weights written out: the truth that every faster form must equal."""

import math

import numpy as np

from numformer.checks import check_array, check_number
from numformer.functional.dropout import attention_dropout_mask, check_seed
from numformer.functional.pattern import EVERYWHERE, AttentionPattern
from numformer.functional.positions import alibi
from numformer.functional.relative_positions import add_by_distance, add_by_distance_backward
from numformer.functional.soft_cap import soft_cap, soft_cap_backward
from numformer.functional.softmax import softmax, softmax_backward

QUIET = np.errstate(invalid="ignore")                                 # no warning of Inf - Inf: it is hidden, or it shows as NaN


@QUIET
def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None, softcap=None, dropout=0.0, seed=None):
    r"""Every query takes the average of the values, weighted by how well its key answers the query.

    .. math:: o_i = \sum_j d_{ij}\, p_{ij} v_j, \qquad p_i = \mathrm{softmax}_j(z_{ij}), \qquad
              z_{ij} = \mathrm{cap}(s\, q_i \cdot k_j) + \beta_{j - i + T - 1} - m\, |i + S - T - j|

    where `j` runs over the keys that the pattern allows. The bias :math:`\beta` and the slope m are the head's, and 0 unless
    given; cap is `soft_cap`, or nothing; :math:`d_{ij}`, 0 or 1 / (1 - dropout), is 1 without dropout. A query that may attend to
    nothing gives 0.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    k, v : ndarray, shape (B, G, S, D)
        G divides H: each key-value head serves H / G query heads in a row. G = H is multi-head, G = 1 multi-query
        attention.
    pattern : AttentionPattern
        Which query may attend to which key. NaN and Inf in keys and values that a query may not attend to do not reach it.
    scale : float above 0, optional
        s; 1 / sqrt(D) unless given: products of D independent unit normals have variance D, and the scale gives it back.
    slopes : ndarray, shape (H,), optional
        ALiBi: takes slope times distance away from every score. Not trained.
    bias : ndarray, shape (H, T + S - 1), optional
        A number for each distance, as `relative_position_bias` makes it. Trained: the backward returns its gradient too.
    softcap : float above 0, optional
        No scaled product leaves -softcap .. softcap.
    dropout : float in [0, 1)
        Rate at which single weights are silenced; needs `seed`.
    seed : int, optional
        For `attention_dropout_mask`. None: no dropout.

    Returns
    -------
    o : ndarray, shape (B, H, T, D)
    saved : tuple
        For `scaled_dot_product_attention_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit together, or G does not divide H.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", eq. 1. Grouped heads: Ainslie et al. (2023), "GQA". The others: see
    `alibi`, `relative_position_bias` and `soft_cap`.

    Examples
    --------
    >>> from numformer.functional import CAUSAL
    >>> q = k = v = np.eye(2)[None, None]                             # two tokens, each its own direction
    >>> scaled_dot_product_attention(q, k, v, CAUSAL)[0][0, 0].round(3)
    array([[1.  , 0.  ],
           [0.33, 0.67]])
    """
    p, saved_weights = _weights(q, k, pattern, scale, slopes, bias, softcap)      # (B, H, T, S)
    check_array("scaled_dot_product_attention", "v", v, "(B, G, S, D)", q.dtype, **dict(zip("BGSD", k.shape)))
    thinned = None
    if drops(dropout, seed):
        thinned = np.where(attention_dropout_mask(seed, p.shape, dropout), 1 / (1 - dropout), 0).astype(p.real.dtype)
    weights = p if thinned is None else p * thinned                   # T x S is written out here anyway: keep what was thinned
    o = masked_product(weights, for_every_head(v, q), saved_weights[-1])    # (B, H, T, D)

    saved = (q, k, v, thinned, saved_weights)
    return o, saved


@QUIET
def scaled_dot_product_attention_backward(do, saved):
    r"""The gradient of `scaled_dot_product_attention`.

    .. math::

        \bar{v}_j = \sum_i d_{ij}\, p_{ij} \bar{o}_i, \qquad \bar{p}_{ij} = d_{ij}\, \bar{o}_i \cdot v_j, \qquad
        \bar{z}_{ij} = p_{ij} \left( \bar{p}_{ij} - \textstyle\sum_k p_{ik} \bar{p}_{ik} \right), \qquad
        \bar{\beta}_r = \sum_{j - i + T - 1 = r} \bar{z}_{ij}

        \bar{q}_i = s \sum_j \mathrm{cap}'_{ij}\, \bar{z}_{ij} k_j, \qquad \bar{k}_j = s \sum_i \mathrm{cap}'_{ij}\, \bar{z}_{ij} q_i

    A key-value head sums the gradients of the query heads that it served.

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dk, dv : ndarray, shape (B, G, S, D)
    dbias : ndarray, shape (H, T + S - 1)
        Only where there was a bias.
    """
    q, k, v, thinned, (p, saved_softmax, saved_bias, saved_cap, scale, mask) = saved
    turned = mask.mT

    # o = masked_product(weights, v)
    weights = p if thinned is None else p * thinned
    dv = masked_product(weights.mT, do, turned)        # (B, H, S, D)
    dweights = do @ for_every_head(v, q).mT            # (B, H, T, S); softmax_backward cuts what is masked

    # weights = p * thinned
    dp = dweights if thinned is None else dweights * thinned

    # p = softmax(scores, mask)
    dscores = softmax_backward(dp, saved_softmax)

    # scores = add_by_distance(alibi(products, slopes), bias), and ALiBi adds a constant
    dbias = ()
    if saved_bias is not None:
        dscores, *dbias = add_by_distance_backward(dscores, saved_bias)

    # products = soft_cap(q @ k.T * scale)
    if saved_cap is not None:
        dscores = np.where(mask, soft_cap_backward(dscores, saved_cap), 0)    # a masked NaN stays out
    dproducts = dscores * scale
    dq = masked_product(dproducts, for_every_head(k, q), mask)      # (B, H, T, D)
    dk = masked_product(dproducts.mT, q, turned)       # (B, H, S, D)
    return dq, for_every_head_backward(dk, k), for_every_head_backward(dv, v), *dbias


@QUIET
def attention_weights(q, k, pattern=EVERYWHERE, scale=None, slopes=None, bias=None, softcap=None):
    """The weights p of `scaled_dot_product_attention`: what a picture of attention shows.

    Parameters
    ----------
    q, k, pattern, scale, slopes, bias, softcap
        As in `scaled_dot_product_attention`.

    Returns
    -------
    ndarray, shape (B, H, T, S)
        Rows sum to 1, or to 0 where a query may attend to nothing.

    Examples
    --------
    >>> from numformer.functional import CAUSAL
    >>> q = k = np.zeros((1, 1, 3, 2))
    >>> attention_weights(q, k, CAUSAL)[0, 0].round(2)
    array([[1.  , 0.  , 0.  ],
           [0.5 , 0.5 , 0.  ],
           [0.33, 0.33, 0.33]])
    """
    return _weights(q, k, pattern, scale, slopes, bias, softcap)[0]


def check_attention(q, k, pattern, scale, slopes=None, bias=None, softcap=None, name="scaled_dot_product_attention"):
    """Check what goes into the scores, and return their scale as a float."""
    sizes = check_array(name, "q", q, "(B, H, T, D)")
    B, H, T, D = sizes["B"], sizes["H"], sizes["T"], sizes["D"]
    sizes = check_array(name, "k", k, "(B, G, S, D)", q.dtype, B=B, D=D)
    G, S = sizes["G"], sizes["S"]
    if not isinstance(pattern, AttentionPattern):
        raise TypeError(f"{name}: pattern must be an AttentionPattern, but is {type(pattern).__name__}; "
                        "a mask of bool goes in as AttentionPattern(mask=mask).")
    if 0 in q.shape or 0 in k.shape or H % G:
        raise ValueError(f"{name}: q of shape {q.shape} and k of shape {k.shape}: no axis may be empty, and the G={G} "
                         f"key-value heads must divide the H={H} query heads.")
    pattern.check(B, H, T, S)
    if slopes is not None:
        check_array(name, "slopes", slopes, "(H,)", H=H)
        if slopes.dtype.kind == "c":
            raise TypeError(f"{name}: slopes are constants and must be real, but are {slopes.dtype}.")
    if bias is not None:
        check_array(name, "bias", bias, "(H, R)", q.dtype, H=H, R=T + S - 1)
    for option, value in (("scale", scale), ("softcap", softcap)):
        if value is not None:
            check_number(name, option, value, above=0)
            if not float(np.finfo(q.dtype).tiny) <= value <= float(np.finfo(q.dtype).max):
                raise ValueError(f"{name}: {option}={value} is out of the range of {q.dtype}.")
    return 1 / math.sqrt(D) if scale is None else float(scale)


def drops(dropout, seed, name="scaled_dot_product_attention"):
    """Whether weights are silenced: a rate alone does nothing without a seed. Both are checked."""
    check_number(name, "dropout", dropout, least=0, below=1)
    if seed is not None:
        check_seed(name, seed)
    return seed is not None and dropout > 0


def _weights(q, k, pattern, scale, slopes, bias, softcap):
    """The weights (B, H, T, S), and what the backward needs of them."""
    scale = check_attention(q, k, pattern, scale, slopes, bias, softcap)
    mask = pattern.dense(q.shape[2], k.shape[2])
    saved_cap = saved_bias = None
    scores = q @ for_every_head(k, q).mT * scale       # (B, H, T, S)
    if softcap is not None:
        scores, saved_cap = soft_cap(scores, softcap)
    if slopes is not None:
        scores, _ = alibi(scores, slopes)
    if bias is not None:
        scores, saved_bias = add_by_distance(scores, bias)
    p, saved_softmax = softmax(scores, mask=mask)

    saved = (p, saved_softmax, saved_bias, saved_cap, scale, mask)
    return p, saved


def for_every_head(x, q):
    """Repeat key-value heads, (B, G, S, D) to (B, H, S, D), so that every query head has one."""
    groups = q.shape[1] // x.shape[1]
    return x if groups == 1 else np.repeat(x, groups, axis=1)


def for_every_head_backward(dx, x):
    """Sum the gradients of the query heads that one key-value head served, (B, H, S, D) to (B, G, S, D)."""
    B, G, S, D = x.shape
    return dx.reshape(B, G, -1, S, D).sum(axis=2)


def masked_product(weights, x, mask):
    """weights @ x, where a masked weight silences even NaN and Inf, although 0 * NaN is NaN.

    weights (B, H, T, S), x (B, H, S, D), mask broadcastable to (B, H, T, S).
    """
    finite = np.isfinite(x)
    if finite.all():
        return weights @ x
    product = weights @ np.where(finite, x, 0)
    mask = np.broadcast_to(mask, weights.shape)
    for j in np.flatnonzero(~finite.all(axis=(0, 1, 3))):             # rare; what is not finite is shown to those who may look
        shown = mask[..., j, None] & ~finite[..., j, None, :]         # (B, H, T, D)
        product = product + np.where(shown, weights[..., j, None] * x[..., j, None, :], 0)
    return product
