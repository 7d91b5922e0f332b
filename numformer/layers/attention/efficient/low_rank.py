"""Low-rank attention as a layer, for encoders of a fixed length."""

import numpy as np

from numformer.checks import check_whole
from numformer.functional.attention.efficient.low_rank import (
    low_rank_attention, low_rank_attention_backward)
from numformer.layers.attention.efficient.projected import ProjectedAttention
from numformer.parameter import normal


class LowRankAttention(ProjectedAttention):
    r"""Multi-head `low_rank_attention`: keys and values are mixed along the sequence, down to R.

    .. math:: o = \mathrm{softmax}\!\left( \frac{q\, (E k)^\top}{\sqrt D} \right) F v

    The heads share E and F. Every mixture contains all positions: the layer cannot be causal, and
    serves encoders alone. Sequences must have exactly the length for which E and F were made.

    Parameters
    ----------
    d_model, n_heads : int
        C and H, which divides C.
    length, rank : int
        S, positions of a sequence, and R, mixtures of them.
    rng : numpy.random.Generator or None
    bias, std, output_std, dtype
        As in `LinearAttention`.

    Raises
    ------
    ValueError, TypeError
        If heads do not divide the width, an input does not fit, or the pattern has rules.

    References
    ----------
    Wang et al. (2020), "Linformer", section 4; "headwise sharing" of E and F.

    Examples
    --------
    >>> layer = LowRankAttention(8, 2, length=6, rank=3, rng=np.random.default_rng(0))
    >>> layer(np.ones((1, 6, 8), np.float32)).shape
    (1, 6, 8)
    >>> layer(np.ones((1, 5, 8), np.float32))
    Traceback (most recent call last):
    ValueError: LowRankAttention: x has T=5 positions, but the layer is for length=6; pad x.
    """

    kind_in_words = "keys projected to few"
    gradient_equations = (r"dv = F^\top p^\top do", r"dp = do\,(F v)^\top",
                          r"ds = p\,(dp - \Sigma\,p\,dp)",
                          r"dk = E^\top ds^\top q / \sqrt{D}", r"dE = ds^\top q\,k^\top / \sqrt{D}")

    causal = False

    def __init__(self, d_model, n_heads, length, rank, rng, bias=True, std=None, output_std=None,
                 dtype=np.float32):
        check_whole("LowRankAttention", "length", length)
        check_whole("LowRankAttention", "rank", rank)
        super().__init__(d_model, n_heads, rng, bias, std, output_std, dtype)
        self.key_projection, self.value_projection = (         # keep the scale of keys and values
            normal(rng, (rank, length), length ** -0.5, dtype) for _ in "kv")

    def check(self, x, pattern):
        super().check(x, pattern)
        length = self.key_projection.data.shape[1]
        if x.shape[1] != length:
            raise ValueError(f"LowRankAttention: x has T={x.shape[1]} positions, but the layer is "
                             f"for length={length}; pad x.")

    def attend(self, q, k, v, causal):
        """`low_rank_attention` of the heads."""
        return low_rank_attention(q, k, v, self.key_projection.data, self.value_projection.data)

    def attend_backward(self, do, saved):
        """The gradients of the heads; those of E and F are added to theirs."""
        *dheads, dkey_projection, dvalue_projection = low_rank_attention_backward(do, saved)
        self.key_projection.grad += dkey_projection
        self.value_projection.grad += dvalue_projection
        return dheads
