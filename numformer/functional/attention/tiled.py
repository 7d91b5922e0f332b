r"""Attention in tiles: the same numbers as `attention`, without ever holding the T x S weights.

The forward walks along the keys, one tile at a time. It keeps three things for each query: the
largest score so far, the sum of the exponentials, and the sum of the values weighted with them.
When a tile raises the maximum, both sums are rescaled:

.. math:: m' = \max(m, \max_j s_j), \qquad \alpha = e^{m - m'}, \qquad
          l' = \alpha l + \sum_j e^{s_j - m'}, \qquad
          \mathrm{acc}' = \alpha\, \mathrm{acc} + \sum_j e^{s_j - m'} v_j

At the end :math:`o = \mathrm{acc} / l`, and the log-sum-exp :math:`L = m + \log l` is all that the
backward needs to compute the weights of any tile again:

.. math:: p_{ij} = e^{s_{ij} - L_i}, \qquad \bar{v}_j = \sum_i p_{ij} \bar{o}_i, \qquad
          \bar{s}_{ij} = p_{ij} (\bar{o}_i \cdot v_j - \delta_i), \qquad
          \delta_i = \sum_j p_{ij}\, \bar{o}_i \cdot v_j = \bar{o}_i \cdot o_i

The last equation is what makes tiles possible: the sum over all keys in the gradient of the softmax
is a dot product of two vectors of width D_V. The compiled kernel is this module, made fast.

References: Milakov and Gimelshein (2018), "Online normalizer calculation for softmax", algorithm 3;
Dao et al. (2022), "FlashAttention"; Dao (2023), "FlashAttention-2", algorithms 1 and 2.
"""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_whole
from numformer.functional.attention.arguments import check_attention, check_values
from numformer.functional.attention.grouped_heads import repeat_kv_heads, repeat_kv_heads_backward
from numformer.functional.attention.masks import EVERYWHERE
from numformer.functional.attention.scaled_dot_product import scaled_dot_product_attention


@dataclass(frozen=True, eq=False)
class TileStep:
    """What is known about a tile of I queries after one more tile of keys.

    Attributes
    ----------
    rows, keys : slice
        Which queries, and which keys.
    skipped : bool
        Whether no query of the tile may attend to any key of it: nothing is computed.
    m : ndarray, shape (B, H, I, 1)
        The largest score of each query so far; -Inf before the first.
    l : ndarray, shape (B, H, I, 1)
        The sum of exp(score - m) so far.
    acc : ndarray, shape (B, H, I, D_V)
        The sum of exp(score - m) v so far.
    alpha : ndarray, shape (B, H, I, 1)
        The factor by which the earlier l and acc were rescaled: 1 where the maximum did not rise.
    """

    rows: slice
    keys: slice
    skipped: bool
    m: np.ndarray
    l: np.ndarray
    acc: np.ndarray
    alpha: np.ndarray

    @property
    def o(self):
        """The output if there were no more keys: acc / l, and 0 for a query without any key."""
        return self.acc / np.where(self.l == 0, 1, self.l)

    @property
    def log_sum_exp(self):
        """L = m + log(l); -Inf for a query without any key."""
        return self.m + np.log(np.where(self.l == 0, 1, self.l))


def tiled_attention_steps(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    """Walk through the forward of `tiled_attention`, one tile at a time: for lectures and plots.

    Parameters
    ----------
    q, k, v, pattern, scale, tile
        As in `tiled_attention`.

    Yields
    ------
    TileStep

    Raises
    ------
    ValueError, TypeError
        As `tiled_attention`, at the first step.

    Examples
    --------
    >>> from numformer.functional import CAUSAL
    >>> q = k = v = np.ones((1, 1, 4, 2))
    >>> for step in tiled_attention_steps(q, k, v, CAUSAL, tile=2):
    ...     l = "skipped" if step.skipped else step.l[0, 0, :, 0]
    ...     print(step.rows.start, step.keys.start, l)
    0 0 [1. 2.]
    0 2 skipped
    2 0 [2. 2.]
    2 2 [3. 4.]
    """
    scale = check_attention(q, k, pattern, scale, name="tiled_attention")
    check_values(v, k, "tiled_attention")
    check_whole("tiled_attention", "tile", tile)
    (B, H, T, _), S = q.shape, k.shape[2]
    k, _ = repeat_kv_heads(k, H)                         # (B, H, S, D)
    v, _ = repeat_kv_heads(v, H)                         # (B, H, S, D_V)
    for rows, keys, allowed in _tiles(pattern, T, S, tile):
        if keys.start == 0:                              # new queries
            I = rows.stop - rows.start
            m = np.full((B, H, I, 1), -np.inf, q.real.dtype)
            l, acc = np.zeros_like(m), np.zeros((B, H, I, v.shape[-1]), m.dtype)
        if not allowed.any():
            yield TileStep(rows, keys, True, m, l, acc, np.ones_like(m))
            continue
        s = q[:, :, rows] @ k[:, :, keys].mT * scale     # (B, H, I, J)
        s = np.where(allowed, s, -np.inf)
        risen = np.maximum(m, s.real.max(axis=-1, keepdims=True))    # (B, H, I, 1)
        shift = np.where(risen == -np.inf, 0, risen)     # no key yet: exp(-Inf - 0) = 0
        alpha = np.where(risen == m, 1, np.exp(m - shift))
        p = np.exp(s - shift)                            # (B, H, I, J), not yet divided by l
        m, l = risen, alpha * l + p.sum(axis=-1, keepdims=True)
        acc = alpha * acc + p @ v[:, :, keys]            # (B, H, I, D_V)
        yield TileStep(rows, keys, False, m, l, acc, alpha)


def tiled_attention(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    """`scaled_dot_product_attention` in tiles: at no time are there more than tile x tile weights.

    This version is for reading. Unlike the reference and the kernel, it does not keep out NaN and
    Inf in masked keys and values, and a query whose scores are all -Inf gets 0, not NaN.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    k : ndarray, shape (B, G, S, D)
    v : ndarray, shape (B, G, S, D_V)
    pattern, scale
        As in `scaled_dot_product_attention`.
    tile : int
        Queries and keys of a tile; the last may be smaller.

    Returns
    -------
    o : ndarray, shape (B, H, T, D_V)
    saved : tuple
        For `tiled_attention_backward`. Of the weights, it holds only m and l of each query.

    Raises
    ------
    ValueError, TypeError
        As in `scaled_dot_product_attention`, or if `tile` is not a whole number above 0.

    Examples
    --------
    >>> q = k = v = np.eye(3)[None, None]
    >>> tiled_attention(q, k, v, scale=1.0, tile=2)[0][0, 0].round(2)
    array([[0.58, 0.21, 0.21],
           [0.21, 0.58, 0.21],
           [0.21, 0.21, 0.58]])
    """
    scale = check_attention(q, k, pattern, scale, name="tiled_attention")
    check_values(v, k, "tiled_attention")
    dtype = np.result_type(q, k, v)
    o = np.zeros((*q.shape[:3], v.shape[-1]), dtype)     # (B, H, T, D_V)
    m, l = np.zeros((2, *q.shape[:3], 1), dtype)         # (B, H, T, 1)
    for step in tiled_attention_steps(q, k, v, pattern, scale, tile):
        o[:, :, step.rows] = step.o                      # that of the last tile of keys stays
        m[:, :, step.rows], l[:, :, step.rows] = step.m, step.l

    saved = (q, k, v, o, m, l, pattern, scale, tile)
    return o, saved


# A picture of the mathematics shows this in its place
tiled_attention.same_as = scaled_dot_product_attention


def tiled_attention_backward(do, saved):
    """The gradient of `tiled_attention`: every tile of weights is computed once more, and dropped.

    Returns
    -------
    dq : ndarray, shape (B, H, T, D)
    dk : ndarray, shape (B, G, S, D)
    dv : ndarray, shape (B, G, S, D_V)
    """
    q, k, v, o, m, l, pattern, scale, tile = saved
    (_, H, T, _), S = q.shape, k.shape[2]
    k, saved_k = repeat_kv_heads(k, H)                   # (B, H, S, D)
    v, saved_v = repeat_kv_heads(v, H)
    delta = (do * o).sum(axis=-1, keepdims=True)         # (B, H, T, 1): sum_j p_ij dp_ij
    # a query without any key has p = 0. m and l, not m + log(l), which is rounded: scores of 1e8
    shift, total = np.where(m.real == -np.inf, 0, m), np.where(l == 0, 1, l)
    dq, dk, dv = (np.zeros(x.shape, np.result_type(do, o)) for x in (q, k, v))
    for rows, keys, allowed in _tiles(pattern, T, S, tile):
        if not allowed.any():
            continue
        q_i, do_i = q[:, :, rows], do[:, :, rows]        # (B, H, I, D), (B, H, I, D_V)
        k_j, v_j = k[:, :, keys], v[:, :, keys]          # (B, H, J, D), (B, H, J, D_V)
        s = q_i @ k_j.mT * scale                         # (B, H, I, J)
        p = np.exp(np.where(allowed, s, -np.inf) - shift[:, :, rows]) / total[:, :, rows]

        # o = p @ v
        dv[:, :, keys] += p.mT @ do_i
        dp = do_i @ v_j.mT                               # (B, H, I, J)

        # p = softmax(s), whose gradient is p * (dp - sum(p * dp))
        # a weight of 1 is the only one of its row, which has no gradient
        ds = np.where(p == 1, 0, p) * (dp - delta[:, :, rows])

        # s = q @ k.mT * scale
        dq[:, :, rows] += ds @ k_j * scale
        dk[:, :, keys] += ds.mT @ q_i * scale

    # k = repeat_kv_heads(k, H);  v = repeat_kv_heads(v, H)
    return dq, repeat_kv_heads_backward(dk, saved_k), repeat_kv_heads_backward(dv, saved_v)


def _tiles(pattern, T, S, tile):
    """(rows, keys, mask of the tile) in the order of the walk: a tile of queries, all its keys.

    The mask broadcasts to (B, H, I, J). It is made from the pattern's intervals, not from T x S.
    """
    first, last = pattern.intervals(T, S)                # (1, T) or (B, T)
    for i in range(0, T, tile):
        rows = slice(i, min(i + tile, T))
        for j in range(0, S, tile):
            keys = slice(j, min(j + tile, S))
            key = np.arange(keys.start, keys.stop)       # (J,)
            allowed = first[:, None, rows, None] <= key
            allowed = allowed & (key < last[:, None, rows, None])    # (1 or B, 1, I, J)
            if pattern.mask is not None:
                allowed = allowed & pattern.mask[..., rows, keys]
            yield rows, keys, allowed
