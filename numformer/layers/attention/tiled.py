"""Attention in tiles, as a layer: the T x S weights never exist at once."""

from numformer.backend import tiled_attention, tiled_attention_backward
from numformer.checks import check_number, check_whole
from numformer.description import Description
from numformer.functional.attention.masks import EVERYWHERE
from numformer.parameter import Layer


class TiledAttention(Layer):
    r"""Attention of given heads in O(T) memory: `tiled_attention`, or its compiled kernel.

    A tile of queries walks along the keys, one tile at a time, with an online softmax:

    .. math:: m' = \max(m, \max_j s_j), \qquad \alpha = e^{m - m'}, \qquad
              l' = \alpha l + \sum_j e^{s_j - m'}, \qquad
              \mathrm{acc}' = \alpha\, \mathrm{acc} + \sum_j e^{s_j - m'} v_j

    and :math:`o = \mathrm{acc} / l` at the end. The backward computes the weights of each tile once
    more, from m and l of each query: :math:`p_{ij} = e^{s_{ij} - m_i} / l_i`. The layer has no
    parameters; ``MultiHeadAttention(tile=64)`` attends with it.

    NumPy computes it tile by tile, as it is written in `numformer.functional`, after
    ``use("numpy")`` or without Numba; else the compiled kernel does, whose tiles have sizes of its
    own.

    Parameters
    ----------
    tile : int
        Queries and keys of a tile of the NumPy version.
    scale : float above 0, optional
        What q . k is multiplied by; 1 / sqrt(D) unless given.

    Raises
    ------
    ValueError, TypeError
        If `tile` is not a whole number above 0, the scale not a number above 0, or an input does
        not fit.

    Notes
    -----
    ``numformer experiment three-ways`` measures a layer with one head of width 64, forward and
    backward in NumPy: at T = 1024 in float32 it needs 3.6 MiB in tiles and 23 with all weights.
    Twice as long it needs 2 and 4 times as much. In NumPy, masked keys and values must be finite:
    see `tiled_attention`.

    References
    ----------
    Milakov and Gimelshein (2018), "Online normalizer calculation for softmax", algorithm 3; Dao et
    al. (2022), "FlashAttention", algorithms 1 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.functional import CAUSAL, attention
    >>> q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 7, 4))
    >>> o = TiledAttention(tile=3)(q, k, v, pattern=CAUSAL)
    >>> np.allclose(o, attention(q, k, v, np.tri(7, dtype=bool))[0])
    True
    """

    def __init__(self, tile=64, scale=None):
        check_whole("TiledAttention", "tile", tile)
        if scale is not None:
            check_number("TiledAttention", "scale", scale, above=0)
        self.tile, self.scale = tile, None if scale is None else float(scale)

    def forward(self, q, k, v, pattern=EVERYWHERE):
        """Attend with each head.

        Parameters
        ----------
        q : ndarray, shape (B, H, T, D)
        k : ndarray, shape (B, G, S, D)
        v : ndarray, shape (B, G, S, D_V)
        pattern : AttentionPattern
            Which keys a query may see; tiles without any are skipped.

        Returns
        -------
        o : ndarray, shape (B, H, T, D_V)
        saved : tuple
        """
        return tiled_attention(q, k, v, pattern, self.scale, self.tile)

    def backward(self, do, saved):
        """Gradients of `q`, `k` and `v`."""
        return tiled_attention_backward(do, saved)

    def describe(self):
        return Description("Tiled attention", f"tiles of {self.tile} x {self.tile}", (
            r"p = e^{s - m} / l", r"dv = \Sigma\,p^\top do", r"ds = p\,(do\,v^\top - do \cdot o)",
            r"dq = \Sigma\,ds\,k / \sqrt{D}", r"dk = \Sigma\,ds^\top q / \sqrt{D}"))


def check_tiled(owner, tile, positions, dropout, softcap):
    """Raise ValueError for what would change the scores or the weights of a tile."""
    which = (("positions", positions, positions.only_encodes), ("dropout", dropout, not dropout),
             ("softcap", softcap, softcap is None))
    for name, value, fits in which:
        if not fits:
            raise ValueError(f"{owner}: tile={tile} is for plain attention, but {name}={value!r} "
                             "changes its scores or weights; leave one of them out.")
