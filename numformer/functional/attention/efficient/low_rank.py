"""Low-rank attention: the S keys and values are mixed down to R, whatever S is."""

from numformer.checks import check_array
from numformer.functional.attention.core import attention, attention_backward


def low_rank_attention(q, k, v, key_projection, value_projection):
    r"""Attend to R learned mixtures of the keys and values, in time linear in S.

    .. math:: o = \mathrm{softmax}\!\left( \frac{q\, (E k)^\top}{\sqrt D} \right) F v

    E and F mix along the sequence: each of their rows is a weighted sum over all S positions. The
    weights T x S become T x R. Every mixture contains all positions, so this attention cannot be
    causal; and E and F have a column for each position, so the length is fixed.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    k : ndarray, shape (B, H, S, D)
    v : ndarray, shape (B, H, S, D_V)
    key_projection, value_projection : ndarray, shape (R, S)
        E and F, the same for all heads.

    Returns
    -------
    o : ndarray, shape (B, H, T, D_V)
    saved : tuple
        For `low_rank_attention_backward`.

    Raises
    ------
    ValueError, TypeError
        If the shapes or dtypes do not fit together.

    References
    ----------
    Wang et al. (2020), "Linformer: Self-Attention with Linear Complexity", eq. 7.

    Examples
    --------
    >>> import numpy as np
    >>> q = k = np.zeros((1, 1, 4, 2))
    >>> v = np.array([[[[1.0], [3.0], [5.0], [7.0]]]])
    >>> halves = np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])      # two means of two
    >>> low_rank_attention(q, k, v, halves, halves)[0].ravel()
    array([4., 4., 4., 4.])
    """
    name = "low_rank_attention"
    B, H, T, D = check_array(name, "q", q, "(B, H, T, D)").values()
    S = check_array(name, "k", k, "(B, H, S, D)", q.dtype, B=B, H=H, D=D)["S"]
    check_array(name, "v", v, "(B, H, S, D_V)", q.dtype, B=B, H=H, S=S)
    R = check_array(name, "key_projection", key_projection, "(R, S)", q.dtype, S=S)["R"]
    check_array(name, "value_projection", value_projection, "(R, S)", q.dtype, R=R, S=S)
    if 0 in q.shape or 0 in v.shape or not R:
        raise ValueError(f"{name}: q of shape {q.shape}, v of shape {v.shape} and R={R}: no axis "
                         "may be empty.")
    mixed_k = key_projection @ k                         # (B, H, R, D)
    mixed_v = value_projection @ v                       # (B, H, R, D_V)
    o, saved_attention = attention(q, mixed_k, mixed_v)

    saved = (k, v, key_projection, value_projection, saved_attention)
    return o, saved


def low_rank_attention_backward(do, saved):
    r"""The gradient of `low_rank_attention`: that of attention, then of two products.

    With :math:`k' = E k` and :math:`v' = F v`, whose gradients are those of `attention`:

    .. math:: \bar{k} = E^\top \bar{k}', \qquad \bar{v} = F^\top \bar{v}', \qquad
              \bar{E} = \sum_{b,h} \bar{k}' k^\top, \qquad \bar{F} = \sum_{b,h} \bar{v}' v^\top

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dk : ndarray, shape (B, H, S, D)
    dv : ndarray, shape (B, H, S, D_V)
    dkey_projection, dvalue_projection : ndarray, shape (R, S)
    """
    k, v, key_projection, value_projection, saved_attention = saved

    # o = attention(q, mixed_k, mixed_v)
    dq, dmixed_k, dmixed_v = attention_backward(do, saved_attention)

    # mixed_k = key_projection @ k
    dk = key_projection.T @ dmixed_k                     # (B, H, S, D)
    dkey_projection = (dmixed_k @ k.mT).sum(axis=(0, 1))             # (R, S)

    # mixed_v = value_projection @ v
    dv = value_projection.T @ dmixed_v
    dvalue_projection = (dmixed_v @ v.mT).sum(axis=(0, 1))
    return dq, dk, dv, dkey_projection, dvalue_projection
