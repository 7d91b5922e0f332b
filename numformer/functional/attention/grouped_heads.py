"""Grouped heads: several query heads share one head of keys and values."""

import numpy as np

from numformer.checks import check_array


def repeat_kv_heads(x, n_heads):
    r"""Repeat every key-value head for the query heads that share it.

    .. math:: y_h = x_{\lfloor h G / H \rfloor}

    With G heads of keys and values for H query heads, a decoder's cache is G / H as large. G = H is
    multi-head attention, G = 1 multi-query attention.

    Parameters
    ----------
    x : ndarray, shape (B, G, S, D)
        Keys or values.
    n_heads : int
        H, a multiple of G. Query heads 0 .. H / G - 1 share the first key-value head, and so on.

    Returns
    -------
    y : ndarray, shape (B, H, S, D)
        `x` itself where H = G.
    saved : tuple
        For `repeat_kv_heads_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` is not such an array, or H is not a multiple of G.

    References
    ----------
    Shazeer (2019), "Fast Transformer Decoding: One Write-Head is All You Need" (multi-query).
    Ainslie et al. (2023), "GQA: Training Generalized Multi-Query Transformer Models".

    Examples
    --------
    >>> x = np.array([1.0, 2.0]).reshape(1, 2, 1, 1)
    >>> repeat_kv_heads(x, 4)[0].ravel()
    array([1., 1., 2., 2.])
    """
    G = check_array("repeat_kv_heads", "x", x, "(B, G, S, D)")["G"]
    if not G or n_heads % G:
        raise ValueError(f"repeat_kv_heads: the G={G} key-value heads must divide the H={n_heads} "
                         "query heads.")
    group = n_heads // G                                 # query heads that share a key-value head
    y = x if group == 1 else np.repeat(x, group, axis=1)             # (B, H, S, D)

    saved = (group,)
    return y, saved


def repeat_kv_heads_backward(dy, saved):
    r"""The gradient of `repeat_kv_heads`: a key-value head sums over the query heads it served.

    .. math:: \bar{x}_g = \sum_{h \,:\, \lfloor h G / H \rfloor = g} \bar{y}_h

    Returns
    -------
    dx : ndarray, shape (B, G, S, D)
    """
    group, = saved
    B, H, S, D = dy.shape

    # y = repeat(x, group, axis=1)
    if group == 1:
        return dy
    return dy.reshape(B, H // group, group, S, D).sum(axis=2)
