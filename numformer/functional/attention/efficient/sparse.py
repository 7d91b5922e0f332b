"""Sparse attention: scores of the pairs in a table of keys alone, column by column of the table."""

import math

import numpy as np

from numformer.checks import check_array
from numformer.functional.softmax import softmax, softmax_backward


def sparse_attention(q, k, v, keys):
    r"""Attend to the few keys that a table lists for each query, in time and memory T x M.

    .. math:: o_i = \sum_m p_{im}\, v_{\kappa(i, m)}, \qquad
              p_i = \mathrm{softmax}_m\!\left( \frac{q_i \cdot k_{\kappa(i, m)}}{\sqrt D} \right)

    where :math:`\kappa(i, m)` is entry m of row i. The same numbers as `attention` with the mask
    `mask_of_keys`, of which nearly all is False.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    k : ndarray, shape (B, H, S, D)
    v : ndarray, shape (B, H, S, D_V)
    keys : ndarray of int, shape (T, M)
        The keys of each query, each once; -1 for none. A query without any key has output 0, and
        gradients 0. From `strided_keys`, `fixed_keys`, or any other.

    Returns
    -------
    o : ndarray, shape (B, H, T, D_V)
    saved : tuple
        For `sparse_attention_backward`.

    Raises
    ------
    ValueError, TypeError
        If the shapes or dtypes do not fit together, or a key is out of range.

    References
    ----------
    Child et al. (2019), "Generating Long Sequences with Sparse Transformers", eq. 2 to 4.

    Examples
    --------
    >>> q = k = np.zeros((1, 1, 3, 2))
    >>> v = np.array([[[[1.0], [2.0], [6.0]]]])
    >>> sparse_attention(q, k, v, np.array([[0, -1], [1, 0], [2, 0]]))[0].ravel()
    array([1. , 1.5, 3.5])
    """
    check_sparse(q, k, v, keys)
    scale = 1 / math.sqrt(q.shape[-1])

    # one column of the table at a time: T keys, gathered in the order of their queries
    scores = np.stack([(q * k[:, :, column]).sum(axis=-1) for column in keys.T], axis=-1) * scale
    p, saved_softmax = softmax(scores, mask=keys >= 0)   # (B, H, T, M)
    o = sum(p[..., m, None] * v[:, :, column] for m, column in enumerate(keys.T))

    saved = (q, k, v, keys, p, scale, saved_softmax)
    return o, saved


def sparse_attention_backward(do, saved):
    r"""The gradient of `sparse_attention`: a key sums over all queries that list it.

    .. math::

        \bar{p}_{im} = \bar{o}_i \cdot v_{\kappa(i, m)}, \qquad
        \bar{z}_{im} = p_{im} \left( \bar{p}_{im} - \textstyle\sum_l p_{il} \bar{p}_{il} \right)

        \bar{q}_i = \frac{1}{\sqrt D} \sum_m \bar{z}_{im} k_{\kappa(i, m)}, \qquad
        \bar{k}_j = \frac{1}{\sqrt D} \sum_{\kappa(i, m) = j} \bar{z}_{im} q_i, \qquad
        \bar{v}_j = \sum_{\kappa(i, m) = j} p_{im} \bar{o}_i

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dk : ndarray, shape (B, H, S, D)
    dv : ndarray, shape (B, H, S, D_V)
    """
    q, k, v, keys, p, scale, saved_softmax = saved
    dtype = np.result_type(do, p)
    dk, dv = np.zeros(k.shape, dtype), np.zeros(v.shape, dtype)

    # o = sum of p[..., m] * v[column m]
    dp = np.stack([(do * v[:, :, column]).sum(axis=-1) for column in keys.T], axis=-1)
    for m, column in enumerate(keys.T):
        add_rows(dv, column, p[..., m, None] * do)

    # p = softmax(scores, mask)
    dscores = softmax_backward(dp, saved_softmax) * scale            # (B, H, T, M)

    # scores = q . k[column m] * scale
    dq = sum(dscores[..., m, None] * k[:, :, column] for m, column in enumerate(keys.T))
    for m, column in enumerate(keys.T):
        add_rows(dk, column, dscores[..., m, None] * q)
    return dq, dk, dv


def add_rows(total, rows, values):
    """total[:, :, rows[i]] += values[:, :, i] for all i; rows that repeat are summed, -1 left out.
    """
    order = np.argsort(rows, kind="stable")
    order = order[rows[order] >= 0]
    if len(order):
        found = rows[order]                              # sorted
        starts = np.flatnonzero(np.diff(found, prepend=-1))
        total[:, :, found[starts]] += np.add.reduceat(values[:, :, order], starts, axis=2)


def check_sparse(q, k, v, keys):
    """Check all arguments of sparse attention."""
    name = "sparse_attention"
    B, H, T, D = check_array(name, "q", q, "(B, H, T, D)").values()
    S = check_array(name, "k", k, "(B, H, S, D)", q.dtype, B=B, H=H, D=D)["S"]
    check_array(name, "v", v, "(B, H, S, D_V)", q.dtype, B=B, H=H, S=S)
    if 0 in q.shape or 0 in v.shape:
        raise ValueError(f"{name}: q of shape {q.shape} and v of shape {v.shape}: no axis may be "
                         "empty.")
    if not isinstance(keys, np.ndarray) or keys.dtype.kind not in "iu":
        raise TypeError(f"{name}: keys must be an array of integers, but is "
                        f"{getattr(keys, 'dtype', type(keys).__name__)}; see strided_keys.")
    if keys.ndim != 2 or len(keys) != T or not keys.shape[1]:
        raise ValueError(f"{name}: keys must have shape (T, M) with T={T} and M at least 1, but "
                         f"has shape {keys.shape}.")
    if keys.min() < -1 or keys.max() >= S:
        raise ValueError(f"{name}: keys must be 0 .. S - 1 = {S - 1}, or -1 for none, but go from "
                         f"{keys.min()} to {keys.max()}.")
    ordered = np.sort(keys, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        raise ValueError(f"{name}: keys lists a key twice for one query; list each once.")
