"""Attention in tiles, in NumPy: the kernel's algorithm at the pace of a lecture, one step at a time."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.attention import check_attention
from numformer.functional.pattern import EVERYWHERE


@dataclass(frozen=True, eq=False)
class TileStep:
    """What is known of some queries once a tile of keys was seen, or skipped because none of them may attend there.

    Attributes
    ----------
    rows, keys : slice
        Which queries, and which keys.
    skipped : bool
    m : ndarray, shape (B, H, I, 1)
        The largest score of each query so far; -Inf before the first.
    l : ndarray, shape (B, H, I, 1)
        The sum of exp(score - m) so far.
    acc : ndarray, shape (B, H, I, D)
        The sum of exp(score - m) v so far.
    alpha : ndarray, shape (B, H, I, 1)
        By what l and acc of before were rescaled: 1 where the maximum did not rise.
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
        """The output if these were all keys: acc / l, and 0 for a query that has seen none."""
        return self.acc / np.where(self.l == 0, 1, self.l)


def tiled_attention_steps(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    r"""Walk through attention tile by tile: the weights of one tile are all that there ever is of the T x S.

    .. math:: m' = \max(m, \max_j s_j), \qquad \alpha = e^{m - m'}, \qquad
              l' = \alpha l + \sum_j e^{s_j - m'}, \qquad \mathrm{acc}' = \alpha\, \mathrm{acc} + \sum_j e^{s_j - m'} v_j

    A maximum that rises shrinks what was summed before; so it does not matter in which order the keys come.

    This is for looking at: unlike the truth and the kernel, it does not keep NaN and Inf of hidden values out, and a query whose
    scores are all -Inf gets 0, not NaN.

    Parameters
    ----------
    q : ndarray, shape (B, H, T, D)
    k, v : ndarray, shape (B, G, S, D)
    pattern, scale
        As in `scaled_dot_product_attention`.
    tile : int
        Queries and keys of a tile; the last may be smaller.

    Yields
    ------
    TileStep

    Raises
    ------
    ValueError, TypeError
        As in `scaled_dot_product_attention`, at the first step.

    References
    ----------
    Milakov and Gimelshein (2018), "Online normalizer calculation for softmax", algorithm 3; Dao (2023), "FlashAttention-2",
    algorithm 1.

    Examples
    --------
    >>> from numformer.functional import CAUSAL
    >>> q = k = v = np.ones((1, 1, 4, 2))
    >>> for step in tiled_attention_steps(q, k, v, CAUSAL, tile=2):
    ...     print(step.rows.start, step.keys.start, "skipped" if step.skipped else step.l[0, 0, :, 0])
    0 0 [1. 2.]
    0 2 skipped
    2 0 [2. 2.]
    2 2 [3. 4.]
    """
    scale = check_attention(q, k, pattern, scale, None, None, None)
    check_array("tiled_attention_steps", "v", v, "(B, G, S, D)", q.dtype, **dict(zip("BGSD", k.shape)))
    check_whole("tiled_attention_steps", "tile", tile)
    (B, H, T, D), S = q.shape, k.shape[2]
    k, v = np.repeat(k, H // k.shape[1], axis=1), np.repeat(v, H // v.shape[1], axis=1)        # (B, H, S, D)
    mask = np.broadcast_to(pattern.dense(T, S), (B, H, T, S))
    for i in range(0, T, tile):
        rows = slice(i, min(i + tile, T))
        m = np.full((B, H, rows.stop - i, 1), -np.inf, q.dtype)
        l, acc = np.zeros_like(m), np.zeros((B, H, rows.stop - i, D), q.dtype)
        for j in range(0, S, tile):
            keys = slice(j, min(j + tile, S))
            allowed = mask[:, :, rows, keys]
            if not allowed.any():
                yield TileStep(rows, keys, True, m, l, acc, np.ones_like(m))
                continue
            s = q[:, :, rows] @ k[:, :, keys].mT * scale                         # (B, H, I, J)
            s = np.where(allowed, s, -np.inf)
            risen = np.maximum(m, s.max(axis=-1, keepdims=True))
            base = np.where(risen == -np.inf, 0, risen)                                        # no key yet: exp(-Inf - 0) = 0
            alpha = np.where(risen == m, 1, np.exp(m - base))
            p = np.exp(s - base)
            m, l = risen, alpha * l + p.sum(axis=-1, keepdims=True)
            acc = alpha * acc + p @ v[:, :, keys]
            yield TileStep(rows, keys, False, m, l, acc, alpha)


def tiled_attention(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    """The output of `scaled_dot_product_attention` by `tiled_attention_steps`; the arguments are the same.

    Returns
    -------
    ndarray, shape (B, H, T, D)

    Examples
    --------
    >>> q = k = v = np.eye(3)[None, None]
    >>> tiled_attention(q, k, v, scale=1.0, tile=2)[0, 0].round(2)
    array([[0.58, 0.21, 0.21],
           [0.21, 0.58, 0.21],
           [0.21, 0.21, 0.58]])
    """
    o = np.zeros_like(q)
    for step in tiled_attention_steps(q, k, v, pattern, scale, tile):
        o[:, :, step.rows] = step.o                                   # the last step of these rows stays
    return o
