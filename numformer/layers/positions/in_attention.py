"""What position schemes share that act inside attention."""

import numpy as np

from numformer.backend import scaled_dot_product_attention, scaled_dot_product_attention_backward
from numformer.description import Description
from numformer.functional import add_by_distance, attention_weights
from numformer.parameter import Layer


class AttentionPositions(Layer):
    r"""How attention depends on positions; the methods of this base class ignore them.

    `MultiHeadAttention` calls the methods below, and a scheme is a subclass that overrides those
    that it needs. Configs choose it by its `scheme`, and `of_config` builds it:

    .. math::

        q'_i, k'_j = \mathrm{encode}(q_i, i), \mathrm{encode}(k_j, j), \qquad
        z_{hij} = \mathrm{cap}(s\, q'_{hi} \cdot k'_{hj}) - m_h |i + S - T - j|
                  + b_{h,\, j - i - S + T}

    ======================  =======================================================================
    `encode`                transforms queries and keys (`RotaryPositions`)
    `slopes`                m, the slopes at which scores fall with distance (`ALiBi`)
    `bias`                  b, added to the scores for each distance (`RelativePositionBias`)
    `attend`, `weights`     all of attention, for what the formula lacks (`ShawPositions`)
    ======================  =======================================================================
    """

    scheme = None                                             # its name in configs
    shared = False                                            # by all blocks of a stack
    in_words = score_term = None                              # for diagrams: what is done, added
    slopes = None                                             # (H,)
    layout = None                                             # of rotated pairs: half, interleaved
    caps_scores = True                                        # `attend` knows the soft cap
    uses_distance = True                                      # q and k must share one sequence

    @classmethod
    def of_config(cls, config, rng, bidirectional=True):
        """The layer of a block, or of a stack if it is `shared`; `rng` draws its parameters.

        `bidirectional`: whether keys come after the query, too, as in an encoder.
        """
        return cls(config.n_heads)

    @classmethod
    def check_config(cls, owner, config):
        """Raise ValueError if the scheme does not fit the other fields of a config."""

    def forward(self, x, start=0):
        """What `encode` does to x; schemes that act elsewhere have another forward."""
        return self.encode(x, start)

    def backward(self, dy, saved):
        """The gradient of `forward`."""
        return self.encode_backward(dy, saved)

    def encode(self, x, start=0):
        """Encode queries or keys x (B, H, T, D), at positions from `start` on; (y, saved)."""
        return x, ()

    def encode_backward(self, dy, saved):
        """The gradient of `encode`."""
        return dy

    @property
    def only_rotates(self):
        """Whether `encode` applies `rotary` with what `rotation` returns; nothing, for None."""
        return type(self).encode is AttentionPositions.encode

    @property
    def only_encodes(self):
        """Whether attention of what `encode` returns is attention without positions."""
        kind = type(self)
        return (self.slopes is None and kind.bias is AttentionPositions.bias
                and kind.attend is AttentionPositions.attend)

    def rotation(self, start, stop, dtype):
        """(cosine, sine, layout) of the positions start .. stop - 1, or None without rotation."""
        return None

    def bias(self, T, S):
        """(b, saved): what is added to the scores for each distance, (H, T + S - 1) or None.

        Distances are those of keys from queries, -(S - 1) to T - 1. The last of T queries is at
        the position of the last of S keys.
        """
        return None, ()

    def bias_backward(self, dbias, saved):
        """Add to the parameters' gradients; dbias (H, T + S - 1), if `bias` is not None."""

    def attend(self, q, k, v, pattern, scale, dropout=0.0, seed=None, softcap=None):
        """Attention of encoded q and k; parameters as in `scaled_dot_product_attention`."""
        bias, saved_bias = self.bias(q.shape[2], k.shape[2])          # (H, T + S - 1)
        o, saved_attention = scaled_dot_product_attention(
            q, k, v, pattern, scale, self.slopes, bias, softcap, dropout, seed)

        saved = (saved_bias, saved_attention)
        return o, saved

    def attend_backward(self, do, saved):
        """Gradients of q, k and v."""
        saved_bias, saved_attention = saved

        # o = scaled_dot_product_attention(q, k, v, bias)
        dq, dk, dv, *dbias = scaled_dot_product_attention_backward(do, saved_attention)

        # bias = bias(T, S)
        if dbias:
            self.bias_backward(*dbias, saved_bias)
        return dq, dk, dv

    def weights(self, q, k, pattern, scale, softcap=None):
        """The attention weights (B, H, T, S) of encoded q and k, without dropout."""
        bias, _ = self.bias(q.shape[2], k.shape[2])
        return attention_weights(q, k, pattern, scale, self.slopes, bias, softcap)

    def added_to_scores(self, T, S, dtype=np.float64):
        """What the scheme adds to the scores, (H, T, S), or None; for plots."""
        bias, _ = self.bias(T, S)
        if bias is None:
            return None
        return add_by_distance(np.zeros((len(bias), T, S), dtype), bias.astype(dtype))[0]


class NoPositions(AttentionPositions):
    """Attention that ignores the order of the keys: q and k, (B, H, T, D), are as they were.

    Like `Identity`, it returns the argument itself, which must not be written to.

    Examples
    --------
    >>> x = np.ones((1, 1, 2, 3))
    >>> NoPositions()(x) is x
    True
    """

    uses_distance = False

    def describe(self):
        return Description("No positions", gradient=(r"dx = dy",))


NO_POSITIONS = NoPositions()


def fitting_positions(owner, positions, n_heads, d_head, d_value, softcap=None):
    """`positions` for H heads of width D, and D_V of values; `NO_POSITIONS` for None."""
    if positions is None:
        return NO_POSITIONS
    if not isinstance(positions, AttentionPositions):
        raise TypeError(f"{owner}: positions must be AttentionPositions, such as RotaryPositions, "
                        f"or None, but is {positions!r}.")
    sizes = dict(n_heads=n_heads, d_head=d_head, d_value=d_value)
    if any(getattr(positions, name, size) != size for name, size in sizes.items()):
        raise ValueError(f"{owner}: {positions!r} does not fit n_heads={n_heads} heads of width "
                         f"{d_head}, and {d_value} of values.")
    if softcap is not None and not positions.caps_scores:
        raise ValueError(f"{owner}: {type(positions).__name__} computes scores of its own, without "
                         f"softcap={softcap}; use softcap=None, or other positions.")
    return positions
