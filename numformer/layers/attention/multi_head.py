"""Multi-head attention: several attentions in parallel, each in a subspace of its own.

Read `minimal.attention` first: the same without options. Here are the parameters, the forward and
its mirror, the backward. `inference` continues a sequence with a cache and shows the weights;
`at_once` computes the projections of the usual parts faster; `described` has what diagrams and
counts need.
"""

import numpy as np

from numformer.backend import add
from numformer.checks import check_array, check_divides, check_generator, check_number, check_whole
from numformer.functional.attention.masks import EVERYWHERE
from numformer.functional.dropout_hash import dropout_seed
from numformer.functional.head_projections import join_heads, split_heads
from numformer.layers.attention.at_once import (
    project_at_once, project_at_once_backward, projects_at_once)
from numformer.layers.attention.described import DescribedAttention
from numformer.layers.attention.head_width import check_head_width
from numformer.layers.attention.inference import InferenceAttention
from numformer.layers.attention.tiled import TiledAttention, check_tiled
from numformer.layers.dropout import Identity
from numformer.layers.linear import Linear
from numformer.layers.normalization import RMSNorm
from numformer.layers.positions.in_attention import fitting_positions

UNCHANGED = Identity()


class MultiHeadAttention(InferenceAttention, DescribedAttention):
    r"""Project to queries, keys and values, attend in H subspaces, join the heads, project back.

    .. math::

        q_h = x W_Q^h, \quad k_g = c\, W_K^g, \quad v_g = c\, W_V^g, \qquad
        s_h = q_h k_g^\top / \sqrt{D} + \mathrm{mask}, \quad A_h = \mathrm{softmax}(s_h), \quad
        o_h = A_h v_g

    .. math:: y = \mathrm{concat}(o_0, \dots, o_{H-1})\, W_O

    where c is x (self-attention) or another sequence, the context (cross-attention). The mask is
    -Inf where a query must not see a key, such as a later one, and 0 elsewhere. The root of D, the
    width of a head, keeps the spread of the scores from growing with it. With G < H (grouped-query
    attention), H / G heads in a row share a key-value head, g = floor(h G / H): of H = 4 and G = 2,
    heads 0 and 1 share the first. The biases of the four maps are left out here.

    The backward goes the same way in reverse order. A bar denotes the gradient of the loss, in code
    a d: :math:`\bar{y}` is dy.

    .. math::

        (\bar{o}_0, \dots, \bar{o}_{H-1}) = \bar{y}\, W_O^\top, \qquad
        \bar{v}_g = \sum_h A_h^\top \bar{o}_h, \qquad
        \bar{A}_h = \bar{o}_h v_g^\top, \qquad
        \bar{s}_h = A_h \odot \left( \bar{A}_h - \mathrm{rowsum}(A_h \odot \bar{A}_h) \right)

    .. math::

        \bar{q}_h = \bar{s}_h k_g / \sqrt{D}, \qquad
        \bar{k}_g = \sum_h \bar{s}_h^\top q_h / \sqrt{D}, \qquad
        \bar{x} = \sum_h \bar{q}_h W_Q^{h\top}, \qquad
        \bar{c} = \sum_g \left( \bar{k}_g W_K^{g\top} + \bar{v}_g W_V^{g\top} \right)

    where a sum over h at one g is over the heads that share it. In self-attention c is x, and its
    gradient is the sum of these two. `scaled_dot_product_attention` derives the
    steps through the softmax; the weights of the four maps get theirs in `Linear.backward`.

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
        Of the `RMSNorm` of queries and that of keys.
    scale, softcap : float above 0, optional
        What q . k is multiplied by, 1 / sqrt(D) unless given (T5 has 1.0 and smaller initial
        weights); the bound of the scaled products, none unless given: see `soft_cap`.
    dropout : float in [0, 1)
        Rate for the attention weights.
    std, output_std : float, optional
        Of the initial weights of the input projections and of the output projection.
    tile : int, optional
        Attend with `TiledAttention` in tiles of this size. Without it, the NumPy version holds all
        T x S weights; the compiled kernel never does. With it there is no soft cap, no dropout, and
        positions act on queries and keys alone, as `RotaryPositions` do.
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
    >>> from numformer.functional import CAUSAL, softmax
    >>> rng, D = np.random.default_rng(0), 4
    >>> layer = MultiHeadAttention(8, 2, rng, dtype=np.float64)       # H = 2 heads of D = 4
    >>> x, dy = rng.standard_normal((2, 1, 5, 8))                     # (B, T, C)
    >>> y, saved = layer.forward(x, pattern=CAUSAL)
    >>> dx = layer.backward(dy, saved)

    The same without options, line by line; ``layer(x)`` is ``layer.forward(x)[0]``:

    >>> q, k, v = (split_heads(part(x), D) for part in (layer.query, layer.key, layer.value))
    >>> s = q @ k.mT / np.sqrt(D)                                     # (B, H, T, T)
    >>> A, _ = softmax(s, mask=np.tri(5, dtype=bool))                 # no query sees a later key
    >>> o = A @ v                                                     # (B, H, T, D)
    >>> np.allclose(y, layer.output(join_heads(o)))
    True
    >>> do = split_heads(dy @ layer.output.weight.data.T, D)
    >>> dv, dA = A.mT @ do, do @ v.mT
    >>> ds = A * (dA - (A * dA).sum(axis=-1, keepdims=True))
    >>> dq, dk = ds @ k / np.sqrt(D), ds.mT @ q / np.sqrt(D)
    >>> parts = (dq, layer.query), (dk, layer.key), (dv, layer.value)
    >>> np.allclose(dx, sum(join_heads(dh) @ part.weight.data.T for dh, part in parts))
    True

    >>> MultiHeadAttention(10, 4, np.random.default_rng(0))  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: MultiHeadAttention: d_model=10 is not divisible by n_heads=4;
                use n_heads=5 or d_model=12.
    """

    def __init__(self, d_model, n_heads, rng, n_kv_heads=None, d_context=None, d_head=None,
                 bias=True, qkv_bias=None, positions=None, query_key_norm=False, epsilon=1e-5,
                 scale=None, dropout=0.0, std=None, output_std=None, dtype=np.float32,
                 unit_offset=False, softcap=None, d_value=None, d_output=None, tile=None):
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
        if tile is not None:
            check_tiled(owner, tile, positions, dropout, softcap)

        self.query = Linear(d_model, n_heads * d_head, rng, qkv_bias, std, dtype)
        self.key = Linear(d_context, n_kv_heads * d_head, rng, qkv_bias, std, dtype)
        self.value = Linear(d_context, n_kv_heads * d_value, rng, qkv_bias, std, dtype)
        self.output = Linear(n_heads * d_value, d_output, rng, bias, output_std, dtype)
        self.query_norm = self.key_norm = UNCHANGED
        if query_key_norm:
            self.query_norm = RMSNorm(d_head, epsilon, dtype=dtype, unit_offset=unit_offset)
            self.key_norm = RMSNorm(d_head, epsilon, dtype=dtype, unit_offset=unit_offset)
        self.positions = positions
        self.scale, self.softcap = (None if x is None else float(x) for x in (scale, softcap))
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.d_head, self.d_value = d_head, d_value
        self.dropout = float(dropout)
        self.tiled = None if tile is None else TiledAttention(tile, scale)

    def forward(self, x, context=None, pattern=EVERYWHERE, rng=None):
        """Attend from `x` to `context`, or to `x` itself.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            B sequences of T positions, each with a query.
        context : ndarray, shape (B, S, d_context), optional
            S positions, each with a key and a value; x unless given.
        pattern : AttentionPattern
            Which keys a query may see: all of them by default, the earlier ones with `CAUSAL`.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        y : ndarray, shape (B, T, d_output)
        saved : tuple
        """
        check_generator("MultiHeadAttention", rng)
        itself = context is None                                      # self-attention: S = T
        context = self._check(x, context)
        at_once = itself and projects_at_once(self)

        if at_once:                                           # all of `else` in one compiled call
            (q, k, v), saved_heads = project_at_once(self, x)
        else:
            start = context.shape[1] - x.shape[1]             # the last query is at the last key
            q, saved_query = self.project(x, self.query, self.query_norm, start)     # (B, H, T, D)
            k, saved_key = self.project(context, self.key, self.key_norm)    # (B, G, S, D)
            v, saved_value = self.value.forward(context)              # (B, S, G D_V)
            v = split_heads(v, self.d_value)                          # (B, G, S, D_V)
            saved_heads = saved_query, saved_key, saved_value
        seed = None if rng is None else dropout_seed(rng)             # the backward drops the same
        # o = softmax(q k^T / sqrt(D) + mask) v
        o, saved_attention = self.attend(q, k, v, pattern, seed)      # (B, H, T, D_V)
        y, saved_output = self.output.forward(join_heads(o))          # (B, T, d_output)

        saved = (itself, at_once, saved_heads, saved_attention, saved_output,
                 (q, k, v, pattern))                                  # what `inference` looks at
        return y, saved

    def backward(self, dy, saved):
        """Gradient of `x`, or of `x` and `context` where there was one."""
        itself, at_once, saved_heads, saved_attention, saved_output, _ = saved

        # y = output(join_heads(o))
        do = split_heads(self.output.backward(dy, saved_output), self.d_value)

        # o = softmax(q k^T / sqrt(D) + mask) v
        dq, dk, dv = self.attend_backward(do, saved_attention)

        # q, k, v = project_at_once(x)
        if at_once:
            return project_at_once_backward(self, (dq, dk, dv), saved_heads)
        saved_query, saved_key, saved_value = saved_heads

        # q = project(x, query);  k = project(context, key);  v = split_heads(value(context))
        dx = self.project_backward(dq, saved_query, self.query, self.query_norm)
        dcontext = add(self.project_backward(dk, saved_key, self.key, self.key_norm),
                       self.value.backward(join_heads(dv), saved_value))
        return add(dx, dcontext) if itself else (dx, dcontext)

    def attend(self, q, k, v, pattern, seed=None):
        """o = softmax(scores) v, with scores = scale * q k^T where the pattern allows them.

        It is `scaled_dot_product_attention`, to which `positions` give what they add to the scores,
        as ALiBi does; or `tiled_attention`.
        """
        if self.tiled is not None:
            return self.tiled.forward(q, k, v, pattern)
        return self.positions.attend(
            q, k, v, pattern, self.scale, self.dropout, seed, self.softcap)

    def attend_backward(self, do, saved):
        """Gradients of q, k and v."""
        attention = self.positions.attend_backward if self.tiled is None else self.tiled.backward
        return attention(do, saved)

    def project(self, x, linear, norm, start=0):
        r"""Queries or keys of x: normalized heads that carry their positions.

        .. math:: h = \mathrm{encode}(\mathrm{norm}(\mathrm{split}(x W + b)))

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        linear, norm : Layer
            A map to (B, T, heads D), and a norm over D or `Identity`.
        start : int
            The position of the first vector.

        Returns
        -------
        h : ndarray, shape (B, heads, T, D)
        saved : tuple
            For `project_backward`.
        """
        h, saved_linear = linear.forward(x)                           # (B, T, heads D)
        h = split_heads(h, self.d_head)                               # (B, heads, T, D)
        h, saved_norm = norm.forward(h)
        h, saved_positions = self.positions.encode(h, start)

        saved = (saved_linear, saved_norm, saved_positions)
        return h, saved

    def project_backward(self, dh, saved, linear, norm):
        """The gradient of x; those of the parameters are added."""
        saved_linear, saved_norm, saved_positions = saved

        # h = encode(h, start)
        dh = self.positions.encode_backward(dh, saved_positions)

        # h = norm(h)
        dh = norm.backward(dh, saved_norm)

        # h = split_heads(linear(x))
        return linear.backward(join_heads(dh), saved_linear)

    def _check(self, x, context):
        """Check both, and return what keys and values are computed from."""
        owner, width = "MultiHeadAttention", len(self.key.weight.data)
        sizes = check_array(owner, "x", x, "(B, T, C)", C=len(self.query.weight.data))
        if context is None:
            return x
        check_array(owner, "context", context, "(B, S, C)", B=sizes["B"], C=width)
        return context
