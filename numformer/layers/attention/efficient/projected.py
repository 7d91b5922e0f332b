"""What the efficient attention layers share: projections to heads and back."""

import numpy as np

from numformer.checks import check_array, check_generator
from numformer.description import Description
from numformer.functional.attention.masks import EVERYWHERE, AttentionPattern
from numformer.functional.head_projections import join_heads, split_heads
from numformer.layers.attention.head_width import check_head_width
from numformer.layers.linear import Linear
from numformer.parameter import Layer


class ProjectedAttention(Layer):
    """Self-attention of H heads; a subclass defines `attend` and `attend_backward` on heads.

    It takes the place of a `MultiHeadAttention` in a block, with the same names of parameters, but
    knows no positions in attention, no dropout of weights and no grouped heads.
    """

    causal = None                                     # the only value that it can do; None: both

    def __init__(self, d_model, n_heads, rng, bias=True, std=None, output_std=None,
                 dtype=np.float32):
        self.d_head = check_head_width(type(self).__name__, d_model, n_heads, None)
        self.n_heads = n_heads
        self.query, self.key, self.value = (
            Linear(d_model, d_model, rng, bias, std, dtype) for _ in "qkv")
        self.output = Linear(d_model, d_model, rng, bias, output_std, dtype)

    def forward(self, x, pattern=EVERYWHERE, rng=None):
        """Attend from `x` to `x`.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        pattern : AttentionPattern
            `CAUSAL` or `EVERYWHERE`, as far as the layer can be either; no other rules.
        rng : numpy.random.Generator, optional
            Without effect; blocks pass it to their attention.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : tuple
        """
        self.check(x, pattern)
        check_generator(type(self).__name__, rng)
        q, saved_query = self.query.forward(x)                        # (B, T, C)
        k, saved_key = self.key.forward(x)
        v, saved_value = self.value.forward(x)
        q, k, v = (split_heads(part, self.d_head) for part in (q, k, v))   # (B, H, T, D)
        o, saved_attention = self.attend(q, k, v, bool(pattern.causal))
        y, saved_output = self.output.forward(join_heads(o))          # (B, T, C)

        saved = (saved_query, saved_key, saved_value, saved_attention, saved_output)
        return y, saved

    def backward(self, dy, saved):
        """Gradient of `x`."""
        saved_query, saved_key, saved_value, saved_attention, saved_output = saved

        # y = output(join_heads(o))
        do = split_heads(self.output.backward(dy, saved_output), self.d_head)

        # o = attend(q, k, v)
        dq, dk, dv = map(join_heads, self.attend_backward(do, saved_attention))

        # q = query(x);  k = key(x);  v = value(x)
        return (self.query.backward(dq, saved_query) + self.key.backward(dk, saved_key)
                + self.value.backward(dv, saved_value))

    def heads(self, x):
        """q, k and v (B, H, T, D) of x; inference only."""
        return [split_heads(part(x), self.d_head) for part in (self.query, self.key, self.value)]

    def check(self, x, pattern):
        """Check both arguments of a call."""
        owner = type(self).__name__
        T = check_array(owner, "x", x, "(B, T, C)", C=len(self.query.weight.data))["T"]
        if not x.size:
            raise ValueError(f"{owner}: x is empty, shape {x.shape}; give at least one sequence of "
                             f"at least one position, not T={T}.")
        if not isinstance(pattern, AttentionPattern):
            raise TypeError(f"{owner}: pattern must be an AttentionPattern, but is "
                            f"{type(pattern).__name__}.")
        for name in ("window", "lengths", "documents", "mask"):
            if getattr(pattern, name) is not None:
                raise ValueError(f"{owner}: the pattern has a rule {name}, which this attention "
                                 "cannot follow; use MultiHeadAttention.")
        if self.causal is not None and bool(pattern.causal) != self.causal:
            raise ValueError(f"{owner}: it {'is always' if self.causal else 'cannot be'} causal, "
                             f"but the pattern has causal={pattern.causal}; use pattern="
                             f"{'CAUSAL' if self.causal else 'EVERYWHERE'}, or another layer.")

    def describe(self):
        return Description("Multi-head attention", f"{self.n_heads} heads of {self.d_head}, "
                           f"{self.kind_in_words}", self.gradient_equations)
