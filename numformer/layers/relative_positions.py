"""Layers that tell attention how far apart two tokens stand: T5's learned bias, and Shaw's learned vectors."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.pattern import EVERYWHERE
from numformer.functional.relative_attention import relative_attention, relative_attention_backward, relative_attention_weights
from numformer.functional.relative_positions import (
    add_by_distance, add_by_distance_backward, relative_position_bias, relative_position_bias_backward, relative_position_buckets)
from numformer.parameter import Layer, normal


class RelativePositionBias(Layer):
    r"""Add to every attention score (B, H, T, S) a learned number of the head, by bucket of distance: T5's positions.

    .. math:: y_{hij} = z_{hij} + \mathrm{table}_{b(j - i - S + T),\, h}

    T5 has one table for all layers of a stack: hand the same layer to every `MultiHeadAttention(positions=...)`, and it is one
    parameter, whose gradients add up.

    Parameters
    ----------
    n_heads : int
        H.
    rng : numpy.random.Generator or None
    n_buckets : int, even
    max_distance : int
        From here on all distances share the last bucket.
    bidirectional : bool
        Whether half of the buckets are for keys after the query, as in an encoder. A decoder masks such keys: False.
    std : float
        Of the initial table.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If there are too few buckets for the distance, or scores have other heads.

    References
    ----------
    Raffel et al. (2020), "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", section 2.1.

    Examples
    --------
    >>> layer = RelativePositionBias(2, np.random.default_rng(0))
    >>> layer
    RelativePositionBias(weight=(32, 2), n_heads=2, max_distance=128, bidirectional=True)
    >>> layer(np.zeros((1, 2, 3, 5), np.float32)).shape
    (1, 2, 3, 5)
    """

    def __init__(self, n_heads, rng, n_buckets=32, max_distance=128, bidirectional=True, std=0.02, dtype=np.float32):
        check_whole("RelativePositionBias", "n_heads", n_heads)
        if not isinstance(bidirectional, (bool, np.bool_)):
            raise TypeError(f"RelativePositionBias: bidirectional={bidirectional!r} must be True or False.")
        relative_position_buckets(0, n_buckets, max_distance, bidirectional)      # refuses what makes no buckets
        self.weight = normal(rng, (n_buckets, n_heads), std, dtype)
        self.n_heads, self.max_distance, self.bidirectional = n_heads, max_distance, bidirectional

    def forward(self, scores):
        sizes = check_array("RelativePositionBias", "scores", scores, "(B, H, T, S)", self.weight.data.dtype, H=self.n_heads)
        bias, saved_bias = self.lookup(sizes["T"], sizes["S"])        # (H, T + S - 1)
        y, saved_sum = add_by_distance(scores, bias)

        saved = (saved_bias, saved_sum)
        return y, saved

    def backward(self, dy, saved):
        saved_bias, saved_sum = saved

        # y = add_by_distance(scores, bias)
        dscores, dbias = add_by_distance_backward(dy, saved_sum)

        # bias = lookup(T, S)
        self.lookup_backward(dbias, saved_bias)
        return dscores

    def lookup(self, T, S):
        """The bias (H, T + S - 1) of every distance of T queries and S keys, for `scaled_dot_product_attention`; and `saved`."""
        return relative_position_bias(self.weight.data, T, S, self.max_distance, self.bidirectional)

    def lookup_backward(self, dbias, saved):
        """Add the gradient of a bias that `lookup` gave to the table's."""
        self.weight.grad += relative_position_bias_backward(dbias, saved)


class ShawPositions(Layer):
    """Attention (B, H, T, D) whose keys and values also say how far away they stand: `relative_attention` and its two tables.

    Hand it to `MultiHeadAttention(positions=...)`. Every head of a layer reads the same tables; a stack has one of these for each of its
    layers.

    Parameters
    ----------
    d_head : int
        D.
    max_distance : int
        K: from here on all distances of a side are one, so a table has 2 K + 1 rows.
    rng : numpy.random.Generator or None
    std : float
        Of the initial tables.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a size is not a whole number above 0, or an input does not fit.

    References
    ----------
    Shaw, Uszkoreit, Vaswani (2018), "Self-Attention with Relative Position Representations", eq. 3 and 4; section 3.3 shares the tables
    among heads.

    Examples
    --------
    >>> layer = ShawPositions(4, 16, np.random.default_rng(0))
    >>> layer
    ShawPositions(keys=(33, 4), values=(33, 4), d_head=4)
    >>> q = k = v = np.ones((1, 2, 5, 4), np.float32)
    >>> layer(q, k, v).shape
    (1, 2, 5, 4)
    """

    def __init__(self, d_head, max_distance, rng, std=0.02, dtype=np.float32):
        check_whole("ShawPositions", "d_head", d_head)
        check_whole("ShawPositions", "max_distance", max_distance)
        self.keys = normal(rng, (2 * max_distance + 1, d_head), std, dtype)
        self.values = normal(rng, (2 * max_distance + 1, d_head), std, dtype)
        self.d_head = d_head

    def forward(self, q, k, v, pattern=EVERYWHERE, scale=None, dropout=0.0, seed=None):
        """Options as in `scaled_dot_product_attention`."""
        return relative_attention(q, k, v, self.keys.data, self.values.data, pattern, scale, dropout, seed)

    def backward(self, dy, saved):
        # y = relative_attention(q, k, v, keys, values)
        dq, dk, dv, dkeys, dvalues = relative_attention_backward(dy, saved)
        self.keys.grad += dkeys
        self.values.grad += dvalues
        return dq, dk, dv

    def weights(self, q, k, pattern=EVERYWHERE, scale=None):
        """The attention weights (B, H, T, S), for looking at."""
        return relative_attention_weights(q, k, self.keys.data, pattern, scale)
