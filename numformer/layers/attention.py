"""Multi-head attention: several attentions side by side, each with its own view of the vectors."""

import numpy as np

from numformer.backend import scaled_dot_product_attention, scaled_dot_product_attention_backward
from numformer.checks import check_array, check_divides, check_generator, check_number
from numformer.functional.attention import attention_weights
from numformer.functional.dropout import dropout_seed
from numformer.functional.pattern import CAUSAL, EVERYWHERE
from numformer.layers.cache import KeyValueCache
from numformer.layers.dropout import Identity
from numformer.layers.linear import Linear
from numformer.layers.normalization import RMSNorm
from numformer.layers.positions import ALiBi, RotaryPositions
from numformer.layers.relative_positions import RelativePositionBias, ShawPositions
from numformer.parameter import Layer


UNCHANGED = Identity()
POSITIONS = RotaryPositions, ALiBi, RelativePositionBias, ShawPositions


class MultiHeadAttention(Layer):
    r"""Project to queries, keys and values, attend in H subspaces, join the heads, and project back.

    .. math::

        y = \mathrm{concat}(o_1, \dots, o_H)\, W_O, \qquad
        o_h = \mathrm{attention}(x W_Q^h,\; c\, W_K^{g(h)},\; c\, W_V^{g(h)})

    where c = x (self-attention) or another sequence (cross-attention), and H / G query heads share a key-value head g.

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
    positions : RotaryPositions, ALiBi, RelativePositionBias or ShawPositions, optional
        How the scores learn of position. The last two are trained, as parameters of this layer and of all others that were given the same.
    query_key_norm : bool
        Whether queries and keys pass an `RMSNorm` over D, so that scores cannot grow without bound.
    scale : float above 0, optional
        What q . k is multiplied by; 1 / sqrt(D) unless given. T5 takes 1.0: its first weights are that much smaller.
    dropout : float in [0, 1)
        Rate for the attention weights.
    std, output_std : float, optional
        Of the initial weights of the input projections and of the output's.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If heads do not divide the width, or an input does not fit.

    References
    ----------
    Vaswani et al. (2017), section 3.2.2. Grouped heads: Ainslie et al. (2023), "GQA". Query-key normalization: Henry et
    al. (2020), with the RMSNorm that later language models use.

    Examples
    --------
    >>> layer = MultiHeadAttention(8, 2, np.random.default_rng(0))
    >>> layer(np.ones((1, 5, 8), np.float32)).shape
    (1, 5, 8)
    >>> MultiHeadAttention(10, 4, np.random.default_rng(0))
    Traceback (most recent call last):
    ValueError: MultiHeadAttention: d_model=10 is not divisible by n_heads=4; use n_heads=5 or d_model=12.
    """

    def __init__(self, d_model, n_heads, rng, n_kv_heads=None, d_context=None, bias=True, positions=None, query_key_norm=False,
                 scale=None, dropout=0.0, std=None, output_std=None, dtype=np.float32):
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        d_context = d_model if d_context is None else d_context
        check_divides("MultiHeadAttention", "d_model", d_model, "n_heads", n_heads)
        check_divides("MultiHeadAttention", "n_heads", n_heads, "n_kv_heads", n_kv_heads)
        check_number("MultiHeadAttention", "dropout", dropout, least=0, below=1)
        if scale is not None:
            check_number("MultiHeadAttention", "scale", scale, above=0)
        if not isinstance(positions, (*POSITIONS, type(None))):
            raise TypeError(f"MultiHeadAttention: positions must be {', '.join(kind.__name__ for kind in POSITIONS)} or None, "
                            f"but is {positions!r}.")
        d_head = d_model // n_heads
        if getattr(positions, "d_head", d_head) != d_head or getattr(positions, "n_heads", n_heads) != n_heads:
            raise ValueError(f"MultiHeadAttention: {positions!r} does not fit n_heads={n_heads} heads of width {d_head}.")

        self.query = Linear(d_model, d_model, rng, bias, std, dtype)
        self.key = Linear(d_context, n_kv_heads * d_head, rng, bias, std, dtype)
        self.value = Linear(d_context, n_kv_heads * d_head, rng, bias, std, dtype)
        self.output = Linear(d_model, d_model, rng, bias, output_std, dtype)
        self.query_norm = RMSNorm(d_head, dtype=dtype) if query_key_norm else UNCHANGED
        self.key_norm = RMSNorm(d_head, dtype=dtype) if query_key_norm else UNCHANGED
        self.rotary = positions if isinstance(positions, RotaryPositions) else UNCHANGED
        self.slopes = positions.slopes if isinstance(positions, ALiBi) else None
        self.relative = positions if isinstance(positions, (RelativePositionBias, ShawPositions)) else None
        self.scale = None if scale is None else float(scale)
        self.n_heads, self.n_kv_heads, self.d_head, self.dropout = n_heads, n_kv_heads, d_head, float(dropout)

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
        start = context.shape[1] - x.shape[1]                         # S - T: the last query stands at the last key
        q, saved_query = self._project(x, self.query, self.query_norm, self.rotary, start)    # (B, H, T, D)
        k, saved_key = self._project(context, self.key, self.key_norm, self.rotary)           # (B, G, S, D)
        v, saved_value = self._project(context, self.value, UNCHANGED, UNCHANGED)             # (B, G, S, D)
        seed = None if rng is None else dropout_seed(rng)
        o, saved_attention = self._attend(q, k, v, pattern, self.dropout, seed)               # (B, H, T, D)
        y, saved_output = self.output.forward(_join_heads(o))         # (B, T, C)

        saved = (itself, saved_query, saved_key, saved_value, saved_attention, saved_output)
        return y, saved

    def backward(self, dy, saved):
        """Gradient of `x`, or of `x` and `context` where there was one."""
        itself, saved_query, saved_key, saved_value, saved_attention, saved_output = saved

        # y = output(join_heads(o))
        do = _split_heads(self.output.backward(dy, saved_output), self.d_head)

        # o = attend(q, k, v)
        dq, dk, dv = self._attend_backward(do, saved_attention)

        # v = project(context, value);  k = project(context, key, key_norm, rotary)
        dcontext = (self._project_backward(dv, saved_value, self.value, UNCHANGED, UNCHANGED)
                    + self._project_backward(dk, saved_key, self.key, self.key_norm, self.rotary))

        # q = project(x, query, query_norm, rotary)
        dx = self._project_backward(dq, saved_query, self.query, self.query_norm, self.rotary)
        return dx + dcontext if itself else (dx, dcontext)

    def step(self, x, cache=None, pattern=CAUSAL):
        """Continue a sequence: attend from new positions to all positions so far. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            The new positions alone.
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
        q, _ = self._project(x, self.query, self.query_norm, self.rotary, start)
        k, _ = self._project(x, self.key, self.key_norm, self.rotary, start)
        v, _ = self._project(x, self.value, UNCHANGED, UNCHANGED)
        cache = KeyValueCache(k, v) if cache is None else cache.append(k, v)
        o, _ = self._attend(q, cache.k, cache.v, pattern)
        return self.output(_join_heads(o)), cache

    def remember(self, context):
        """Project the context of cross-attention once, for all steps that will attend to it.

        Parameters
        ----------
        context : ndarray, shape (B, S, d_context)

        Returns
        -------
        KeyValueCache
            For `step_to`.

        Raises
        ------
        ValueError, TypeError
            If the context does not fit, or the layer has positions: what is written has no distance from what was read.
        """
        if self.rotary is not UNCHANGED or self.slopes is not None or self.relative is not None:
            raise ValueError("MultiHeadAttention: a query that steps has no distance from the keys of another sequence; "
                             "build the layer of a cross-attention with positions=None.")
        check_array("MultiHeadAttention", "context", context, "(B, S, C)", C=len(self.key.weight.data))
        k, _ = self._project(context, self.key, self.key_norm, UNCHANGED)
        v, _ = self._project(context, self.value, UNCHANGED, UNCHANGED)
        return KeyValueCache(k, v)

    def step_to(self, x, memory, pattern=EVERYWHERE):
        """Attend from new positions x (B, T, C) to what `remember` gave; y (B, T, C). Inference only."""
        self._check(x, None)
        q, _ = self._project(x, self.query, self.query_norm, UNCHANGED)
        o, _ = self._attend(q, memory.k, memory.v, pattern)
        return self.output(_join_heads(o))

    def weights(self, x, context=None, pattern=EVERYWHERE):
        """The attention weights (B, H, T, S) of a forward without dropout, for looking at.

        The kernel never has them all at once, so they are computed anew by the truth, in memory for all T x S of them.
        """
        q, k = self.queries_and_keys(x, context)
        if isinstance(self.relative, ShawPositions):
            return self.relative.weights(q, k, pattern, self.scale)
        return attention_weights(q, k, pattern, self.scale, self.slopes, self._bias(q, k)[0])

    def queries_and_keys(self, x, context=None):
        """What meets in the scores: q (B, H, T, D) and k (B, G, S, D), normalized and turned where the layer has it so."""
        context = self._check(x, context)
        q, _ = self._project(x, self.query, self.query_norm, self.rotary, context.shape[1] - x.shape[1])
        k, _ = self._project(context, self.key, self.key_norm, self.rotary)
        return q, k

    def _attend(self, q, k, v, pattern, dropout=0.0, seed=None):
        """Attention in all heads, with what the positions have to say to it."""
        if isinstance(self.relative, ShawPositions):
            return self.relative.forward(q, k, v, pattern, self.scale, dropout, seed)
        bias, saved_bias = self._bias(q, k)                           # (H, T + S - 1)
        o, saved_attention = scaled_dot_product_attention(
            q, k, v, pattern, self.scale, self.slopes, bias, dropout=dropout, seed=seed)

        saved = (saved_bias, saved_attention)
        return o, saved

    def _attend_backward(self, do, saved):
        if isinstance(self.relative, ShawPositions):
            return self.relative.backward(do, saved)
        saved_bias, saved_attention = saved

        # o = scaled_dot_product_attention(q, k, v, bias)
        dq, dk, dv, *dbias = scaled_dot_product_attention_backward(do, saved_attention)

        # bias = relative.lookup(T, S)
        if dbias:
            self.relative.lookup_backward(*dbias, saved_bias)
        return dq, dk, dv

    def _bias(self, q, k):
        """The learned bias of every distance between these queries and keys, and what its backward needs; (None, None) without one."""
        return (None, None) if self.relative is None else self.relative.lookup(q.shape[2], k.shape[2])

    def _check(self, x, context):
        """Check both, and return what the keys and values are made of."""
        sizes = check_array("MultiHeadAttention", "x", x, "(B, T, C)", C=len(self.query.weight.data))
        if context is None:
            return x
        check_array("MultiHeadAttention", "context", context, "(B, S, C)", B=sizes["B"], C=len(self.key.weight.data))
        return context

    def _project(self, x, linear, norm, rotary, start=0):
        """(B, T, C) to heads (B, heads, T, D), normalized and turned where the layer has it so."""
        h, saved_linear = linear.forward(x)
        h, saved_norm = norm.forward(_split_heads(h, self.d_head))
        h, saved_rotary = rotary.forward(h, start=start)

        saved = (saved_linear, saved_norm, saved_rotary)
        return h, saved

    def _project_backward(self, dh, saved, linear, norm, rotary):
        saved_linear, saved_norm, saved_rotary = saved

        # h = rotary(norm(split_heads(linear(x))))
        dh = rotary.backward(dh, saved_rotary)
        dh = norm.backward(dh, saved_norm)
        return linear.backward(_join_heads(dh), saved_linear)


def _split_heads(x, d_head):
    """(B, T, H D) to (B, H, T, D)."""
    B, T, width = x.shape
    return x.reshape(B, T, width // d_head, d_head).transpose(0, 2, 1, 3)


def _join_heads(x):
    """(B, H, T, D) to (B, T, H D): the inverse of `_split_heads`, and so also its gradient."""
    B, H, T, D = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * D)
