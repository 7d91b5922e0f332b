"""Linear attention: positive features in place of the softmax, so that the order of products can
change."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.attention.efficient.features import (
    chunks_of_one_scale, key_scales, query_scales, scaled_features, slopes)


def linear_attention(q, k, v, causal=False):
    r"""Average the values with weights that are products of features, in time linear in S.

    .. math::

        o_i = \frac{\phi(q_i)^\top \sum_j \phi(k_j)\, v_j^\top}
                   {\phi(q_i)^\top \sum_j \phi(k_j)}, \qquad
        \phi(x) = \mathrm{elu}(x) + 1 =
        \begin{cases} x + 1 & x > 0 \\ e^x & x \le 0 \end{cases}

    The weight of key j is :math:`\phi(q_i) \cdot \phi(k_j)`, divided by the sum over the keys. The
    sums over j do not depend on i: they are computed once, and no T x S weights. If causal, they
    run over j up to i: prefix sums, here in chunks of 64 positions, within which weights are
    written out. A query whose features are orthogonal to those of all its keys gets 0.

    Features of queries and keys far below 0 would underflow, and o with them. They are scaled by
    what cancels in the quotient; see `numformer.functional.attention.efficient.features`.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    k : ndarray, shape (B, H, S, D)
    v : ndarray, shape (B, H, S, D_V)
    causal : bool
        Whether query i attends to the keys 0 .. i alone; then T = S.

    Returns
    -------
    o : ndarray, shape (B, H, T, D_V)
    saved : tuple
        For `linear_attention_backward`.

    Raises
    ------
    ValueError, TypeError
        If the shapes or dtypes do not fit together, or T differs from S with `causal`.

    References
    ----------
    Katharopoulos et al. (2020), "Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention", eq. 5, 7 and 9.

    Examples
    --------
    >>> q = k = np.zeros((1, 1, 3, 2))                   # all weights are equal
    >>> v = np.array([[[[1.0], [2.0], [6.0]]]])
    >>> linear_attention(q, k, v)[0].ravel(), linear_attention(q, k, v, causal=True)[0].ravel()
    (array([3., 3., 3.]), array([1. , 1.5, 3. ]))
    """
    check_linear("linear_attention", q, k, v, causal)
    c = key_scales(k, causal)                            # (B, H, S, D), or (B, H, 1, D)
    q0, c0 = query_scales(q, c)                          # (B, H, T, 1)
    a = scaled_features(q, c - c0, q0)                   # (B, H, T, D)
    b = scaled_features(k, -c)                           # (B, H, S, D)
    w = with_ones(v)                                     # (B, H, S, D_V + 1)
    chunks = chunks_of_one_scale(c, b, w) if causal else None
    n = product(a, b, w, chunks)                         # (B, H, T, D_V + 1)
    total = n[..., -1:]                                  # (B, H, T, 1): the sum of the weights
    o = n[..., :-1] / np.where(total == 0, 1, total)

    saved = (q, k, c, q0, c0, a, b, w, o, total, chunks)
    return o, saved


def linear_attention_backward(do, saved):
    r"""The gradient of `linear_attention`: three products of the same form.

    With :math:`n_i = \sum_j (a_i \cdot b_j)\, w_j`, where a and b are the features and w is v with
    a column of ones, whose sum is the denominator :math:`s_i`:

    .. math::

        \bar{n}_i = \left[ \frac{\bar{o}_i}{s_i},\; -\frac{\bar{o}_i \cdot o_i}{s_i} \right], \qquad
        \bar{a}_i = \sum_j (\bar{n}_i \cdot w_j)\, b_j, \qquad
        \bar{b}_j = \sum_i (w_j \cdot \bar{n}_i)\, a_i, \qquad
        \bar{w}_j = \sum_i (b_j \cdot a_i)\, \bar{n}_i

    If causal, the sums over j run to i, and those over i begin at j: prefix sums of the reversed
    sequences. The derivative of the features is 1 or :math:`e^x`.

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dk : ndarray, shape (B, H, S, D)
    dv : ndarray, shape (B, H, S, D_V)
    """
    q, k, c, q0, c0, a, b, w, o, total, chunks = saved

    # o = n[..., :-1] / n[..., -1:], and 0 where that is 0
    dn = np.concatenate([do, -(do * o).sum(axis=-1, keepdims=True)], axis=-1)
    dn = np.where(total == 0, 0, dn / np.where(total == 0, 1, total))    # (B, H, T, D_V + 1)

    # n = product(a, b, w), where query i takes part with keys j, and key j with queries i
    da = product(dn, w, b, chunks, scaled="w")           # (B, H, T, D)
    db = product(w, dn, a, chunks, scaled="w", from_the_end=True)    # (B, H, S, D)
    dw = product(b, a, dn, chunks, from_the_end=True)    # (B, H, S, D_V + 1)

    # a = scaled_features(q, c - c0, q0);  b = scaled_features(k, -c);  w = with_ones(v)
    dq = da * slopes(q, a, c - c0, q0)
    dk = db * slopes(k, b, -c)
    return dq, dk, dw[..., :-1].copy()


def linear_attention_step(q, k, v, state=None):
    r"""Continue causal linear attention by a position: a recurrent network with a matrix as state.

    .. math:: S_i = S_{i-1} + \phi(k_i) [v_i, 1]^\top, \qquad
              [n_i, s_i] = \phi(q_i)^\top S_i, \qquad o_i = n_i / s_i

    Inference only. The state has the same size after any number of positions. Its last column holds
    the logarithms by which the rows are scaled (`features.key_scales`).

    Parameters
    ----------
    q, k : ndarray, shape (B, H, 1, D)
    v : ndarray, shape (B, H, 1, D_V)
    state : ndarray, shape (B, H, D, D_V + 2), optional
        What the last call returned; None at the start.

    Returns
    -------
    o : ndarray, shape (B, H, 1, D_V)
    state : ndarray, shape (B, H, D, D_V + 2)
        A new value; the old one stays as it was.

    Raises
    ------
    ValueError, TypeError
        If the arrays or the state do not fit together.

    References
    ----------
    Katharopoulos et al. (2020), section 3.4, eq. 16 to 20.

    Examples
    --------
    >>> q = k = np.zeros((1, 1, 1, 2))
    >>> o, state = linear_attention_step(q, k, np.array([[[[1.0]]]]))
    >>> linear_attention_step(q, k, np.array([[[[2.0]]]]), state)[0].item()
    1.5
    """
    name = "linear_attention_step"
    check_linear(name, q, k, v, True)
    (B, H, T, D), D_V = q.shape, v.shape[-1]
    if T != 1:
        raise ValueError(f"{name}: q has T={T} positions, but must have one; use "
                         "linear_attention(causal=True) for several.")
    c = key_scales(k, True)                              # (B, H, 1, D)
    sums = 0
    if state is not None:
        check_array(name, "state", state, "(B, H, D, W)", q.dtype, B=B, H=H, D=D, W=D_V + 2)
        before = state[..., -1:].real.mT                 # (B, H, 1, D)
        c = np.fmax(c, before)
        sums = state[..., :-1] * np.exp(before - c).mT
    sums = sums + scaled_features(k, -c).mT @ with_ones(v)           # (B, H, D, D_V + 1)
    q0, c0 = query_scales(q, c)
    n = scaled_features(q, c - c0, q0) @ sums            # (B, H, 1, D_V + 1)
    total = n[..., -1:]
    o = n[..., :-1] / np.where(total == 0, 1, total)
    return o, np.concatenate([sums, c.mT], axis=-1)


def with_ones(v):
    """v with a column of ones, whose average is the sum of the weights."""
    return np.concatenate([v, np.ones((*v.shape[:-1], 1), v.dtype)], axis=-1)


def product(a, b, w, chunks=None, scaled="b", from_the_end=False):
    """sum_j (a_i . b_j) w_j over all j; never all T x S products at once.

    With `chunks` of positions, j runs up to i, or from i to the end. From one chunk to the next the
    scales of the keys change, and with them the rows of the state (`scaled="b"`), or its columns.
    """
    if chunks is None:
        return a @ (b.mT @ w)
    n = np.empty((*a.shape[:3], w.shape[-1]), np.result_type(a, b, w))
    state, last = np.zeros((*a.shape[:2], b.shape[-1], w.shape[-1]), n.dtype), None
    triangle = np.triu if from_the_end else np.tril
    for rows, c in chunks[::-1] if from_the_end else chunks:         # c: (B, H, 1, D)
        if last is not None and not np.array_equal(c, last):
            decay = np.exp(-abs(c - last))
            state = state * (decay.mT if scaled == "b" else decay)
        a_i, b_i, w_i = a[:, :, rows], b[:, :, rows], w[:, :, rows]
        within = triangle(a_i @ b_i.mT)                  # (B, H, I, I)
        n[:, :, rows] = a_i @ state + within @ w_i       # the chunks before, and this one
        state, last = state + b_i.mT @ w_i, c
    return n


def check_linear(name, q, k, v, causal):
    """Check queries, keys and values of linear attention."""
    B, H, T, D = check_array(name, "q", q, "(B, H, T, D)").values()
    S = check_array(name, "k", k, "(B, H, S, D)", q.dtype, B=B, H=H, D=D)["S"]
    check_array(name, "v", v, "(B, H, S, D_V)", q.dtype, B=B, H=H, S=S)
    if 0 in q.shape or 0 in v.shape:
        raise ValueError(f"{name}: q of shape {q.shape} and v of shape {v.shape}: no axis may be "
                         "empty.")
    if not isinstance(causal, (bool, np.bool_)):
        raise TypeError(f"{name}: causal={causal!r} must be True or False.")
    if causal and T != S:
        raise ValueError(f"{name}: causal attention needs as many queries as keys, but T={T} and "
                         f"S={S}; use causal=False.")
