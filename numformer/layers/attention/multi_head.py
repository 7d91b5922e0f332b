"""Multi-head attention: several attentions in parallel, each in a subspace of its own.

Read `minimal.attention` first: the same without options, caches and positions.
"""

import numpy as np

from numformer.backend import add, head_projections, head_projections_backward_accumulate
from numformer.checks import check_array, check_divides, check_generator, check_number, check_whole
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.functional.dropout_hash import dropout_seed
from numformer.functional.head_projections import join_heads, split_heads
from numformer.layers.attention.encoded_heads import (
    encoded_heads, encoded_heads_backward, projects_at_once)
from numformer.layers.attention.head_width import check_head_width
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
        C, the width of `x`.
    n_heads : int
        H; it divides C unless `d_head` is given.
    rng : numpy.random.Generator or None
    n_kv_heads : int, optional
        G, which divides H; H unless given.
    d_context : int, optional
        The width of the context of cross-attention; C unless given.
    d_head, d_value : int, optional
        D, the width of a head's queries and keys, C / H unless given; D_V, of its values, D unless
        given.
    d_output : int, optional
        The width of the output; C unless given.
    bias : bool
        Whether the four linear maps have biases.
    qkv_bias : bool, optional
        Whether those of queries, keys and values have; as `bias` says unless given.
    positions : AttentionPositions, optional
        `RotaryPositions`, `ALiBi`, `RelativePositionBias` or `ShawPositions`. Where they are
        trained, they are parameters of this layer and of all others that got the same object.
    query_key_norm : bool
        Whether queries and keys pass an `RMSNorm` over D, so that scores cannot grow without bound.
    epsilon, unit_offset : float, bool
        Of these two norms.
    scale, softcap : float above 0, optional
        What q . k is multiplied by, 1 / sqrt(D) unless given (T5 has 1.0 and smaller initial
        weights); the bound of the scaled products, none unless given: see `soft_cap`.
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
    normalization: Henry et al. (2020), with the RMSNorm that later language models use. Heads whose
    widths do not add up to C: Gemma Team (2024), "Gemma", table 1. Biases of queries, keys and
    values alone: Bai et al. (2023), "Qwen Technical Report", section 2.3.

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

    def __init__(self, d_model, n_heads, rng, n_kv_heads=None, d_context=None, d_head=None,
                 bias=True, qkv_bias=None, positions=None, query_key_norm=False, epsilon=1e-5,
                 scale=None, dropout=0.0, std=None, output_std=None, dtype=np.float32,
                 unit_offset=False, softcap=None, d_value=None, d_output=None):
        owner = "MultiHeadAttention"
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        d_context = d_model if d_context is None else d_context
        d_head = check_head_width(owner, d_model, n_heads, d_head)
        d_value = d_head if d_value is None else d_value
        d_output = d_model if d_output is None else d_output
        qkv_bias = bias if qkv_bias is None else qkv_bias
        check_whole(owner, "d_value", d_value)
        check_whole(owner, "d_output", d_output)
        check_divides(owner, "n_heads", n_heads, "n_kv_heads", n_kv_heads)
        check_number(owner, "dropout", dropout, least=0, below=1)
        check_number(owner, "epsilon", epsilon, least=0)
        for name, value in (("scale", scale), ("softcap", softcap)):
            if value is not None:
                check_number(owner, name, value, above=0)
        positions = fitting_positions(owner, positions, n_heads, d_head, d_value, softcap)

        self.query = Linear(d_model, n_heads * d_head, rng, qkv_bias, std, dtype)
        self.key = Linear(d_context, n_kv_heads * d_head, rng, qkv_bias, std, dtype)
        self.value = Linear(d_context, n_kv_heads * d_value, rng, qkv_bias, std, dtype)
        self.output = Linear(n_heads * d_value, d_output, rng, bias, output_std, dtype)
        self.query_norm, self.key_norm = (
            RMSNorm(d_head, epsilon, dtype=dtype, unit_offset=unit_offset) if query_key_norm
            else UNCHANGED for _ in "qk")
        self.positions = positions
        self.scale, self.softcap = (None if x is None else float(x) for x in (scale, softcap))
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.d_head, self.d_value = d_head, d_value
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
        y : ndarray, shape (B, T, d_output)
        saved : tuple
        """
        check_generator("MultiHeadAttention", rng)
        itself, context = context is None, self._check(x, context)
        at_once = itself and projects_at_once(self)
        if at_once:
            (q, k, v), saved_heads = head_projections(                # (B, H, T, D), (B, G, T, D)
                x, *self.query.arrays, *self.key.arrays, *self.value.arrays,
                *self._norm_arrays(), self.d_head,
                self.positions.rotation(0, x.shape[1], x.real.dtype),
                getattr(self.query_norm, "epsilon", 0.0))
        else:
            (q, k, v), saved_heads = self._project(x, context)        # v (B, G, S, D_V)
        seed = None if rng is None else dropout_seed(rng)
        o, saved_attention = self.positions.attend(                   # (B, H, T, D_V)
            q, k, v, pattern, self.scale, self.dropout, seed, self.softcap)
        y, saved_output = self.output.forward(join_heads(o))          # (B, T, d_output)

        saved = (itself, at_once, saved_heads, saved_attention, saved_output, (q, k, v, pattern))
        return y, saved

    def backward(self, dy, saved):
        """Gradient of `x`, or of `x` and `context` where there was one."""
        itself, at_once, saved_heads, saved_attention, saved_output, _ = saved

        # y = output(join_heads(o))
        do = split_heads(self.output.backward(dy, saved_output), self.d_value)

        # o = attend(q, k, v)
        dheads = self.positions.attend_backward(do, saved_attention)

        # q, k, v = head_projections(x), or project(x, context)
        if at_once:
            return head_projections_backward_accumulate(
                dheads, saved_heads, *self.query.gradients, *self.key.gradients,
                *self.value.gradients, *self._norm_arrays("gradients"))
        dx, dcontext = self._project_backward(dheads, saved_heads)
        return add(dx, dcontext) if itself else (dx, dcontext)

    def attention_weights(self, saved):
        """The weights (B, H, T, S) of the forward that saved, before dropout; to look at.

        The kernels never hold all of them at once, so the reference computes them here again.
        """
        *_, (q, k, _, pattern) = saved
        return self.positions.weights(q, k, pattern, self.scale, self.softcap)

    def queries_and_keys(self, saved):
        """q (B, H, T, D), k (B, G, S, D) and the pattern of the forward that saved; to look at.

        Their products are the scores, before the scale and what positions add.
        """
        *_, (q, k, _, pattern) = saved
        return q, k, pattern

    def values(self, saved):
        """v (B, G, S, D_V) of the forward that saved; to look at."""
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
        y : ndarray, shape (B, T, d_output)
        cache : KeyValueCache
            A new value; the old one stays as it was.
        """
        self._check(x, None)
        start = 0 if cache is None else len(cache)
        q, k, v = self._queries(x, start)[0], self._keys(x, start)[0], self._values(x)
        cache = KeyValueCache(k, v) if cache is None else cache.append(k, v)
        o, _ = self.positions.attend(q, cache.k, cache.v, pattern, self.scale, softcap=self.softcap)
        return self.output(join_heads(o)), cache

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
        return KeyValueCache(self._keys(context)[0], self._values(context))

    def cross_attend(self, x, memory, pattern=EVERYWHERE):
        """Attend from new positions x to what `precompute_kv` returned. Inference only."""
        self._check(x, None)
        q, k, v = self._queries(x, 0)[0], memory.k, memory.v
        o, _ = self.positions.attend(q, k, v, pattern, self.scale, softcap=self.softcap)
        return self.output(join_heads(o))

    def _check(self, x, context):
        """Check both, and return what keys and values are computed from."""
        owner, width = "MultiHeadAttention", len(self.key.weight.data)
        sizes = check_array(owner, "x", x, "(B, T, C)", C=len(self.query.weight.data))
        if context is None:
            return x
        check_array(owner, "context", context, "(B, S, C)", B=sizes["B"], C=width)
        return context

    def _norm_arrays(self, name="arrays"):
        """The arrays or gradients of the RMSNorms of queries and keys; None for `Identity`."""
        return [getattr(norm, name, (None,))[0] for norm in (self.query_norm, self.key_norm)]

    def _project(self, x, context):
        """(q, k, v) of any parts, and of cross-attention; the last query is at the last key."""
        q, saved_query = self._queries(x, context.shape[1] - x.shape[1])
        k, saved_key = self._keys(context)
        v, saved_value = self.value.forward(context)
        return (q, k, split_heads(v, self.d_value)), (saved_query, saved_key, saved_value)

    def _project_backward(self, dheads, saved):
        (dq, dk, dv), (saved_query, saved_key, saved_value) = dheads, saved

        # q = queries(x);  k = keys(context);  v = split_heads(value(context))
        dx = encoded_heads_backward(dq, saved_query, self.query, self.query_norm, self.positions)
        dcontext = encoded_heads_backward(dk, saved_key, self.key, self.key_norm, self.positions)
        return dx, add(dcontext, self.value.backward(join_heads(dv), saved_value))

    def _queries(self, x, start):
        return encoded_heads(x, self.query, self.query_norm, self.positions, self.d_head, start)

    def _keys(self, context, start=0):
        return encoded_heads(context, self.key, self.key_norm, self.positions, self.d_head, start)

    def _values(self, context):
        return split_heads(self.value(context), self.d_value)
