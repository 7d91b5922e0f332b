"""Attention itself: a weighted mean of the values, with weights from queries and keys. Start here.

Everything else in this folder is built around these two functions: `masks` says which query may
attend to which key, `modifiers` change the scores, `scaled_dot_product` puts all options together,
and `tiled` computes the same numbers without ever holding all the weights at once.
"""

import math

from numformer.checks import check_array
from numformer.functional.softmax import softmax, softmax_backward


def attention(q, k, v, mask=None):
    r"""Give every query the mean of the values, weighted by how well their keys match the query.

    .. math:: o = \mathrm{softmax}\!\left( \frac{q k^\top}{\sqrt D} \right) v

    The dot product of a query and a key is large where they point in the same direction. With
    independent entries of mean 0 and variance 1 it has variance D; dividing by :math:`\sqrt D`
    brings that back to 1, so that the softmax does not put nearly all weight on one key, where its
    gradient vanishes. The softmax runs over the keys: the weights of each query are positive and
    sum to 1.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
        B sequences, H heads, T queries of width D.
    k : ndarray, shape (B, H, S, D)
        S keys.
    v : ndarray, shape (B, H, S, D_V)
        The S values that belong to them; D_V = D in most models.
    mask : ndarray of bool, broadcastable to (B, H, T, S), optional
        True where a query may attend to a key; by default, everywhere. A masked weight is
        exactly 0. A query that may attend to no key has output 0, and gradients 0.

    Returns
    -------
    o : ndarray, shape (B, H, T, D_V)
    saved : tuple
        What `attention_backward` needs.

    Raises
    ------
    ValueError, TypeError
        If the shapes or dtypes do not fit together.

    Notes
    -----
    A masked key or value must still be finite, because 0 * NaN is NaN.
    `scaled_dot_product_attention` has no such limit.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", eq. 1.

    Examples
    --------
    >>> import numpy as np
    >>> q = k = v = np.eye(2)[None, None]                # two tokens that point in two directions
    >>> causal = np.tri(2, dtype=bool)                   # no query attends to a later key
    >>> attention(q, k, v, causal)[0][0, 0].round(2)
    array([[1.  , 0.  ],
           [0.33, 0.67]])
    """
    # check_array raises an error if a shape or dtype does not fit; it returns a dict of the sizes
    B, H, T, D = check_array("attention", "q", q, "(B, H, T, D)").values()
    S = check_array("attention", "k", k, "(B, H, S, D)", q.dtype, B=B, H=H, D=D)["S"]
    check_array("attention", "v", v, "(B, H, S, D_V)", q.dtype, B=B, H=H, S=S)
    scale = 1 / math.sqrt(D)

    # @ multiplies the last two axes, for each sequence and head; .mT swaps them
    # a masked score counts as -inf: its weight is 0, and so is its gradient
    scores = q @ k.mT * scale                            # (B, H, T, S)
    p, saved_softmax = softmax(scores, mask=mask)        # (B, H, T, S), over the keys
    o = p @ v                                            # (B, H, T, D_V)

    saved = (q, k, v, p, scale, saved_softmax)
    return o, saved


def attention_backward(do, saved):
    r"""The gradient of `attention`: its three lines, in reverse order.

    .. math::

        \bar{v} = p^\top \bar{o}, \qquad \bar{p} = \bar{o} v^\top, \qquad
        \bar{z}_{ij} = p_{ij} \left( \bar{p}_{ij} - \textstyle\sum_l p_{il} \bar{p}_{il} \right),
        \qquad \bar{q} = \frac{\bar{z} k}{\sqrt D}, \qquad \bar{k} = \frac{\bar{z}^\top q}{\sqrt D}

    Here :math:`z` are the scores, :math:`p` the weights, and :math:`\bar{x}` is the gradient of the
    loss with respect to x, named dx in the code. For a matrix product :math:`c = a b` the gradients
    are :math:`\bar{a} = \bar{c}\, b^\top` and :math:`\bar{b} = a^\top \bar{c}`; that gives all but
    the softmax in the middle, whose gradient is `softmax_backward`.

    Parameters
    ----------
    do : ndarray, shape (B, H, T, D_V)
        The gradient of the loss with respect to o.
    saved : tuple
        From `attention`.

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dk : ndarray, shape (B, H, S, D)
    dv : ndarray, shape (B, H, S, D_V)
    """
    q, k, v, p, scale, saved_softmax = saved

    # o = p @ v
    dp = do @ v.mT                                       # (B, H, T, S)
    dv = p.mT @ do                                       # (B, H, S, D_V)

    # p = softmax(scores, mask)
    dscores = softmax_backward(dp, saved_softmax)        # (B, H, T, S)

    # scores = q @ k.mT * scale
    dq = dscores @ k * scale                             # (B, H, T, D)
    dk = dscores.mT @ q * scale                          # (B, H, S, D)
    return dq, dk, dv
