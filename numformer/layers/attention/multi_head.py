"""Multi-head attention: several attentions in parallel, each in a subspace of its own."""

import numpy as np

from numformer.backend import projections, projections_backward_accumulate
from numformer.checks import check_array, check_divides, check_generator, check_number
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.functional.dropout_hash import dropout_seed
from numformer.layers.attention.kv_cache import KeyValueCache
from numformer.layers.dropout import Identity
from numformer.layers.linear import Linear
from numformer.layers.normalization import RMSNorm
from numformer.layers.positions.in_attention import fitting_positions
from numformer.parameter import Layer

UNCHANGED = Identity()


class MultiHeadAttention(Layer):
    r"""Project to queries, keys and values, attend in H subspaces, join the heads, project back.

    .. math::

        y = \mathrm{concat}(o_1, \dots, o_H)\, W_O, \qquad
        o_h = \mathrm{attention}(x W_Q^h,\; c\, W_K^{g(h)},\; c\, W_V^{g(h)})

    where c = x (self-attention) or another sequence (cross-attention), and H / G query heads share
    a key-value head g.

    Parameters
    ----------
    d_model : int
        C, the width of `x` and of the output.
    n_heads : int
        H; it divides C, and D = C / H.
    rng : numpy.random.Generator or None
    n_kv_heads : int, optional
        G, which divides H; H unless given.
    d_context : int, optional
        The width of the context of cross-attention; C unless given.
    bias : bool
    positions : AttentionPositions, optional
        `RotaryPositions`, `ALiBi`, `RelativePositionBias` or `ShawPositions`. Where they are
        trained, they are parameters of this layer and of all others that got the same object.
    query_key_norm : bool
        Whether queries and keys pass an `RMSNorm` over D, so that scores cannot grow without bound.
    scale : float above 0, optional
        What q . k is multiplied by; 1 / sqrt(D) unless given. T5 has 1.0 and smaller initial
        weights.
    dropout : float in [0, 1)
        Rate for the attention weights.
    std, output_std : float, optional
        Of the initial weights of the input projections and of the output projection.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If heads do not divide the width, or positions or an input do not fit.

    References
    ----------
    Vaswani et al. (2017), section 3.2.2. Grouped heads: Ainslie et al. (2023), "GQA". Query-key
    normalization: Henry et al. (2020), with the RMSNorm that later language models use.

    Examples
    --------
    >>> layer = MultiHeadAttention(8, 2, np.random.default_rng(0))
    >>> layer(np.ones((1, 5, 8), np.float32)).shape
    (1, 5, 8)
    >>> MultiHeadAttention(10, 4, np.random.default_rng(0))  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: MultiHeadAttention: d_model=10 is not divisible by n_heads=4;
                use n_heads=5 or d_model=12.
    """

    def __init__(self, d_model, n_heads, rng, n_kv_heads=None, d_context=None, bias=True,
                 positions=None, query_key_norm=False, scale=None, dropout=0.0, std=None,
                 output_std=None, dtype=np.float32):
        owner = "MultiHeadAttention"
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        d_context = d_model if d_context is None else d_context
        check_divides(owner, "d_model", d_model, "n_heads", n_heads)
        check_divides(owner, "n_heads", n_heads, "n_kv_heads", n_kv_heads)
        check_number(owner, "dropout", dropout, least=0, below=1)
        if scale is not None:
            check_number(owner, "scale", scale, above=0)
        d_head = d_model // n_heads
        positions = fitting_positions(owner, positions, n_heads, d_head)

        self.query = Linear(d_model, d_model, rng, bias, std, dtype)
        self.key = Linear(d_context, n_kv_heads * d_head, rng, bias, std, dtype)
        self.value = Linear(d_context, n_kv_heads * d_head, rng, bias, std, dtype)
        self.output = Linear(d_model, d_model, rng, bias, output_std, dtype)
        self.query_norm = RMSNorm(d_head, dtype=dtype) if query_key_norm else UNCHANGED
        self.key_norm = RMSNorm(d_head, dtype=dtype) if query_key_norm else UNCHANGED
        self.positions = positions
        self.scale = None if scale is None else float(scale)
        self.n_heads, self.n_kv_heads, self.d_head = n_heads, n_kv_heads, d_head
        self.dropout = float(dropout)

    def forward(self, x, context=None, pattern=EVERYWHERE, rng=None):
        """Attend from `x` to `context`, or to `x` itself.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        context : ndarray, shape (B, S, d_context), optional
        pattern : AttentionPattern
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : tuple
        """
        check_generator("MultiHeadAttention", rng)
        itself, context = context is None, self._check(x, context)
        if itself:
            (q, k, v), saved_maps = projections(                      # (B, T, C), (B, T, G D)
                x, *self.query.arrays, *self.key.arrays, *self.value.arrays)
        else:
            q, saved_x = self.query.forward(x)                        # (B, T, C)
            (k, v), saved_context = projections(                      # (B, S, G D)
                context, *self.key.arrays, *self.value.arrays)
            saved_maps = saved_x, saved_context
        start = context.shape[1] - x.shape[1]             # S - T: the last query is at the last key
        q, saved_query = self._encoded(q, self.query_norm, start)     # (B, H, T, D)
        k, saved_key = self._encoded(k, self.key_norm, 0)             # (B, G, S, D)
        v = _split_heads(v, self.d_head)                              # (B, G, S, D)
        seed = None if rng is None else dropout_seed(rng)
        o, saved_attention = self.positions.attend(                   # (B, H, T, D)
            q, k, v, pattern, self.scale, self.dropout, seed)
        y, saved_output = self.output.forward(_join_heads(o))         # (B, T, C)

        saved = (itself, saved_maps, saved_query, saved_key, saved_attention, saved_output,
                 (q, k, v, pattern))
        return y, saved

    def backward(self, dy, saved):
        """Gradient of `x`, or of `x` and `context` where there was one."""
        itself, saved_maps, saved_query, saved_key, saved_attention, saved_output, _ = saved

        # y = output(join_heads(o))
        do = _split_heads(self.output.backward(dy, saved_output), self.d_head)

        # o = attend(q, k, v)
        dq, dk, dv = self.positions.attend_backward(do, saved_attention)

        # v = split_heads(v);  k = encoded(k);  q = encoded(q)
        dv = _join_heads(dv)                                          # (B, S, G D)
        dk = self._encoded_backward(dk, saved_key, self.key_norm)
        dq = self._encoded_backward(dq, saved_query, self.query_norm) # (B, T, C)

        # q, k, v = projections(x), or q = query(x) and k, v = projections(context)
        if itself:
            return projections_backward_accumulate(
                (dq, dk, dv), saved_maps,
                *self.query.gradients, *self.key.gradients, *self.value.gradients)
        saved_x, saved_context = saved_maps
        dcontext = projections_backward_accumulate(
            (dk, dv), saved_context, *self.key.gradients, *self.value.gradients)
        return self.query.backward(dq, saved_x), dcontext

    def attention_weights(self, saved):
        """The weights (B, H, T, S) of the forward that saved, before dropout; to look at.

        The kernels never hold all of them at once, so the reference computes them here again.
        """
        *_, (q, k, _, pattern) = saved
        return self.positions.weights(q, k, pattern, self.scale)

    def queries_and_keys(self, saved):
        """q (B, H, T, D), k (B, G, S, D) and the pattern of the forward that saved; to look at.

        Their products are the scores, before the scale and what positions add.
        """
        *_, (q, k, _, pattern) = saved
        return q, k, pattern

    def values(self, saved):
        """v (B, G, S, D) of the forward that saved; to look at."""
        *_, (_, _, v, _) = saved
        return v

    def step(self, x, cache=None, pattern=CAUSAL):
        """Continue a sequence: attend from new positions to all positions so far. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            Only the new positions.
        cache : KeyValueCache, optional
            What the last call returned; None at the start.
        pattern : AttentionPattern
            For T queries at the last of all S positions.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        cache : KeyValueCache
            A new value; the old one stays as it was.
        """
        self._check(x, None)
        start = 0 if cache is None else len(cache)
        q, k, v = self._queries(x, start), self._keys(x, start), self._values(x)
        cache = KeyValueCache(k, v) if cache is None else cache.append(k, v)
        o, _ = self.positions.attend(q, cache.k, cache.v, pattern, self.scale)
        return self.output(_join_heads(o)), cache

    def precompute_kv(self, context):
        """Project the context of cross-attention once, for all steps that will attend to it.

        Parameters
        ----------
        context : ndarray, shape (B, S, d_context)

        Returns
        -------
        KeyValueCache
            For `cross_attend`.

        Raises
        ------
        ValueError, TypeError
            If the context does not fit, or the layer has positions: there is no distance between
            two sequences.
        """
        if self.positions.uses_distance:
            raise ValueError("MultiHeadAttention: a query that steps has no distance from the keys "
                             "of another sequence; build the layer of a cross-attention with "
                             "positions=None.")
        check_array("MultiHeadAttention", "context", context, "(B, S, C)",
                    C=len(self.key.weight.data))
        return KeyValueCache(self._keys(context), self._values(context))

    def cross_attend(self, x, memory, pattern=EVERYWHERE):
        """Attend from new positions x (B, T, C) to what `precompute_kv` returned. Inference only.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        """
        self._check(x, None)
        q = self._queries(x, 0)
        o, _ = self.positions.attend(q, memory.k, memory.v, pattern, self.scale)
        return self.output(_join_heads(o))

    def _check(self, x, context):
        """Check both, and return what keys and values are computed from."""
        owner, C = "MultiHeadAttention", len(self.query.weight.data)
        sizes = check_array(owner, "x", x, "(B, T, C)", C=C)
        if context is None:
            return x
        check_array(owner, "context", context, "(B, S, C)", B=sizes["B"],
                    C=len(self.key.weight.data))
        return context

    def _queries(self, x, start):
        return self._encoded(self.query(x), self.query_norm, start)[0]

    def _keys(self, context, start=0):
        return self._encoded(self.key(context), self.key_norm, start)[0]

    def _values(self, context):
        return _split_heads(self.value(context), self.d_head)

    def _encoded(self, h, norm, start):
        """(B, T, heads D) to heads (B, heads, T, D), normalized, positions from `start` on."""
        h, saved_norm = norm.forward(_split_heads(h, self.d_head))
        h, saved_positions = self.positions.encode(h, start)

        saved = (saved_norm, saved_positions)
        return h, saved

    def _encoded_backward(self, dh, saved, norm):
        saved_norm, saved_positions = saved

        # h = encode(norm(split_heads(h)))
        dh = self.positions.encode_backward(dh, saved_positions)
        return _join_heads(norm.backward(dh, saved_norm))


def _split_heads(x, d_head):
    """(B, T, H D) to (B, H, T, D)."""
    B, T, width = x.shape
    return x.reshape(B, T, width // d_head, d_head).transpose(0, 2, 1, 3)


def _join_heads(x):
    """(B, H, T, D) to (B, T, H D): the inverse of `_split_heads`, and so also its gradient."""
    B, H, T, D = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * D)
