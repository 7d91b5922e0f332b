"""Shaw's relative positions: learned vectors of distance, added to keys and values."""

import numpy as np

from numformer.checks import check_whole
from numformer.description import Description
from numformer.functional import (
    relative_attention, relative_attention_backward, relative_attention_weights)
from numformer.functional.attention.masks import EVERYWHERE
from numformer.layers.positions.in_attention import AttentionPositions
from numformer.parameter import normal


class ShawPositions(AttentionPositions):
    """Attention, (B, H, T, D), with learned vectors of distance in the keys and in the values.

    The mathematics is that of `relative_attention`; here are its two tables. Pass the layer to
    `MultiHeadAttention(positions=...)`. All heads of a layer share the tables; each layer of a
    stack has its own.

    Parameters
    ----------
    d_head : int
        D, the width of queries and keys.
    max_distance : int
        K: from here on all distances of a side are one, so a table has 2 K + 1 rows.
    rng : numpy.random.Generator or None
    std : float
        Of the initial tables.
    dtype : float32 or float64
    d_value : int, optional
        The width of values; D unless given.

    Raises
    ------
    ValueError, TypeError
        If a size is not a whole number above 0, or an input does not fit.

    References
    ----------
    Shaw, Uszkoreit, Vaswani (2018), "Self-Attention with Relative Position Representations", eq. 3
    and 4. The tables are those of the big model of section 4.1; in the base model each head has its
    own.

    Examples
    --------
    >>> layer = ShawPositions(4, 16, np.random.default_rng(0))
    >>> layer
    ShawPositions(keys=(33, 4), values=(33, 4), d_head=4, d_value=4)
    >>> q = k = v = np.ones((1, 2, 5, 4), np.float32)
    >>> layer(q, k, v).shape
    (1, 2, 5, 4)
    """

    scheme = "shaw"
    in_words = "relative positions at k and v"
    score_term = "relative positions"
    caps_scores = False

    def __init__(self, d_head, max_distance, rng, std=0.02, dtype=np.float32, d_value=None):
        d_value = d_head if d_value is None else d_value
        for name, size in (("d_head", d_head), ("max_distance", max_distance),
                           ("d_value", d_value)):
            check_whole("ShawPositions", name, size)
        self.keys = normal(rng, (2 * max_distance + 1, d_head), std, dtype)
        self.values = normal(rng, (2 * max_distance + 1, d_value), std, dtype)
        self.d_head, self.d_value = d_head, d_value

    @classmethod
    def of_config(cls, config, rng, bidirectional=True):
        c = config
        return cls(c.head_width, c.max_distance, rng, c.init_std, np.dtype(c.dtype))

    def forward(self, q, k, v, pattern=EVERYWHERE, scale=None, dropout=0.0, seed=None):
        """Options as in `scaled_dot_product_attention`."""
        return relative_attention(q, k, v, self.keys.data, self.values.data, pattern, scale,
                                  dropout, seed)

    def backward(self, dy, saved):
        # y = relative_attention(q, k, v, keys, values)
        dq, dk, dv, dkeys, dvalues = relative_attention_backward(dy, saved)
        self.keys.grad += dkeys
        self.values.grad += dvalues
        return dq, dk, dv

    def attend(self, q, k, v, pattern, scale, dropout=0.0, seed=None, softcap=None):
        return self.forward(q, k, v, pattern, scale, dropout, seed)

    def attend_backward(self, do, saved):
        return self.backward(do, saved)

    def weights(self, q, k, pattern, scale, softcap=None):
        return relative_attention_weights(q, k, self.keys.data, pattern, scale)

    def describe(self):
        return Description("ShawPositions", gradient=(r"da_{j-i} = \Sigma\,ds_{ij}\,q_i",))
