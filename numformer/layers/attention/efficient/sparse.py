"""Sparse attention as a layer: causal, with about two roots of T keys for each query."""

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.functional.attention.efficient.sparse import (
    sparse_attention, sparse_attention_backward)
from numformer.functional.attention.efficient.sparse_patterns import fixed_keys, strided_keys
from numformer.functional.attention.masks import CAUSAL
from numformer.functional.head_projections import join_heads
from numformer.layers.attention.efficient.projected import ProjectedAttention
from numformer.layers.attention.kv_cache import KeyValueCache

KEYS = {"strided": strided_keys, "fixed": fixed_keys}


class SparseAttention(ProjectedAttention):
    r"""Multi-head `sparse_attention`: a query attends to its neighbourhood and to every l-th key.

    .. math:: o_i = \sum_{j \in A_i} p_{ij} v_j

    with the sets A of `strided_keys` or `fixed_keys`, the same for all heads.

    Parameters
    ----------
    d_model, n_heads : int
        C and H, which divides C.
    stride : int
        l; near the root of T the cost is least, about :math:`2 T \sqrt T`.
    rng : numpy.random.Generator or None
    kind : "strided" or "fixed"
    bias, std, output_std, dtype
        As in `LinearAttention`.

    Raises
    ------
    ValueError, TypeError
        If heads do not divide the width, an input does not fit, or the pattern is not `CAUSAL`.

    References
    ----------
    Child et al. (2019), "Generating Long Sequences with Sparse Transformers", section 4.3; both
    sets in one head, as in its eq. 7.

    Examples
    --------
    >>> layer = SparseAttention(8, 2, stride=3, rng=np.random.default_rng(0))
    >>> layer(np.ones((1, 9, 8), np.float32), pattern=CAUSAL).shape
    (1, 9, 8)
    """

    kind_in_words = "few keys each"
    gradient_equations = (r"dp = do\,v^\top", r"ds = p\,(dp - \Sigma\,p\,dp)",
                          r"dq = ds\,k / \sqrt{D}", r"dk = ds^\top q / \sqrt{D}", r"dv = p^\top do")

    causal = True

    def __init__(self, d_model, n_heads, stride, rng, kind="strided", bias=True, std=None,
                 output_std=None, dtype=np.float32):
        check_whole("SparseAttention", "stride", stride)
        check_choice("SparseAttention", "kind", kind, list(KEYS))
        super().__init__(d_model, n_heads, rng, bias, std, output_std, dtype)
        self.stride, self.kind = stride, kind

    def attend(self, q, k, v, causal):
        """`sparse_attention` of the heads; the queries are the last ones."""
        T, S = q.shape[2], k.shape[2]
        return sparse_attention(q, k, v, KEYS[self.kind](S, self.stride)[S - T:])

    def attend_backward(self, do, saved):
        """The gradients of the heads."""
        return sparse_attention_backward(do, saved)

    def step(self, x, cache=None, pattern=CAUSAL):
        """Continue a sequence by new positions, as `MultiHeadAttention.step`. Inference only."""
        self.check(x, pattern)
        q, k, v = self.heads(x)
        cache = KeyValueCache(k, v) if cache is None else cache.append(k, v)
        o, _ = self.attend(q, cache.k, cache.v, True)
        return self.output(join_heads(o)), cache
