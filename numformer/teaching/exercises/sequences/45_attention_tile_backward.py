"""Attention in tiles, backward: what one tile of weights adds to the gradients.

s_ij = q_i . k_j / sqrt(D),   p_ij = softmax(s_i)_j,   o_i = sum_j p_ij v_j

The softmax runs over all keys up to position i of the query (causal), but the tile has only I
queries, from position `first_query` on, and J keys, from position `first_key` on. So p cannot be
computed from the tile alone. The forward kept a number for each query, lse_i = log sum_j exp(s_ij)
over its keys, and from o and its gradient do comes delta_i = o_i . do_i. The weights of the tile
are computed from lse once more, as `tiled_attention_backward` does. Return what this tile adds to
dq of its queries, and to dk and dv of its keys. Scores of 1000 are allowed. Dao (2023),
"FlashAttention-2", algorithm 2.
"""
# goal: differentiate attention with the weights of one tile at a time
# needs: scaled_dot_product_attention_backward, attention_tile
# lessons: 9
# ideas: weights from lse; a row sum that the tile does not have; a mask by positions in the text
# points: 4
# parts: all or nothing
# returns: dq, dk, dv
# BEGIN HINTS
# 1. A weight is exp(s) divided by the sum of exp over all keys of its query. Which single
#    exponential is that quotient? And which weights are 0, by the positions of query and key?
# 2. The gradient of the softmax is p_ij times (dp_ij minus the sum of p dp over the whole row i),
#    where dp_ij = do_i . v_j. That sum is delta_i: insert dp, and exchange the sums.
# 3. ds = p * (do @ v.T - delta). From it dq = ds @ k, with the factor of s, and dk = ds.T @ q with
#    the same; dv = p.T @ do. In p, np.where(key <= query, ..., 0) with positions as a column and a
#    row.
# END HINTS

import numpy as np


def tile_backward(do, q, k, v, lse, delta, first_query, first_key):
    """do (I, D_V); q (I, D); k (J, D); v (J, D_V); lse and delta (I, 1); two integers: to the parts
    of dq (I, D), dk (J, D) and dv (J, D_V)."""
    # BEGIN SOLUTION
    query = first_query + np.arange(len(q))[:, None]
    key = first_key + np.arange(len(k))
    s = q @ k.T / q.shape[1] ** 0.5
    p = np.exp(np.where(key <= query, s - lse, -np.inf))
    ds = p * (do @ v.T - delta) / q.shape[1] ** 0.5
    return ds @ k, ds.T @ q, p.T @ do
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def arguments(rows, keys, T=9, D=4, D_V=4, score=0):
        q, k, v, do = (rng.normal(size=(T, width)) for width in (D, D, D_V, D_V))
        if score:                                         # all scores are near it
            q[:, 0], k[:, 0] = score * D ** 0.5, 1
        s = np.where(np.tri(T, dtype=bool), q @ k.T / D ** 0.5, -np.inf)
        m = s.max(axis=1, keepdims=True)
        lse = m + np.log(np.exp(s - m).sum(axis=1, keepdims=True))
        delta = (np.exp(s - lse) @ v * do).sum(axis=1, keepdims=True)
        return (do[rows], q[rows], k[keys], v[keys], lse[rows], delta[rows], rows.start, keys.start)

    return {"below the diagonal": arguments(slice(6, 9), slice(0, 4)),
            "on the diagonal": arguments(slice(3, 6), slice(3, 6)),
            "the first tile": arguments(slice(0, 4), slice(0, 4)),
            "crossed by the diagonal": arguments(slice(4, 8), slice(3, 9)),
            "one query and one key": arguments(slice(5, 6), slice(2, 3)),
            "values of another width": arguments(slice(6, 9), slice(2, 4), D=3, D_V=5),
            "scores near 1000": arguments(slice(3, 7), slice(2, 6), score=1000)}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(mistake):
        def backward(do, q, k, v, lse, delta, first_query, first_key):
            query = (0 if mistake == "in the tile" else first_query) + np.arange(len(q))[:, None]
            key = (0 if mistake == "in the tile" else first_key) + np.arange(len(k))
            root = q.shape[1] ** 0.5
            s = q @ k.T / (1 if mistake == "no root in s" else root)
            seen = {"no mask": True, "strict": key < query, "other side": key >= query}.get(
                mistake, key <= query)
            p = np.exp(np.where(seen, s - lse, -np.inf))
            if mistake == "softmax of the tile":
                p = np.exp(np.where(seen, s - s.max(axis=1, keepdims=True), -np.inf))
                p /= p.sum(axis=1, keepdims=True)
            dp = do @ v.T
            of_row = (p * dp).sum(axis=1, keepdims=True) if mistake == "delta" else delta
            ds = p * (dp - (0 if mistake == "no delta" else of_row)) / (
                1 if mistake in ("no root", "no root in s") else root)
            return ds @ k, ds.T @ q, p.T @ do
        return backward

    return {words: wrong(mistake) for words, mistake in (
        ("the causal mask is missing: a query meets the keys up to its own position", "no mask"),
        ("the causal mask is strict, key < query, but a query meets its own position, too",
         "strict"),
        ("the causal mask is on the wrong side: it must keep key <= query", "other side"),
        ("positions are counted from 0 in the tile: they begin at first_query and first_key",
         "in the tile"),
        ("the weights are divided by their sum over the tile: p is exp(s - lse)",
         "softmax of the tile"),
        ("the sum of p dp is over the tile alone: over the whole row it is delta", "delta"),
        ("delta is not subtracted: ds is p (dp - delta)", "no delta"),
        ("the factor 1 / sqrt(D) is missing in dq and dk", "no root"),
        ("the factor 1 / sqrt(D) is missing in the scores, too", "no root in s"))}
# END TEACHER
