"""T5's relative position bias: a learned number for every distance, added to the scores."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.description import Description, by
from numformer.functional import (
    add_by_distance, add_by_distance_backward, relative_position_bias,
    relative_position_bias_backward, relative_position_buckets)
from numformer.layers.positions.in_attention import AttentionPositions
from numformer.parameter import normal


class RelativePositionBias(AttentionPositions):
    r"""Add a learned number to every attention score (B, H, T, S), by head and bucket of distance.

    .. math:: y_{hij} = z_{hij} + \mathrm{table}_{b(j - i - S + T),\, h}

    T5 has one table for all layers of a stack: pass the same object to the
    `MultiHeadAttention` of each layer, and it is one parameter whose gradients add up.

    Parameters
    ----------
    n_heads : int
        H.
    rng : numpy.random.Generator or None
    n_buckets : int, even
    max_distance : int
        All distances from here on share the last bucket.
    bidirectional : bool
        Whether half of the buckets are for keys after the query, as in an encoder. A decoder masks
        such keys: False.
    std : float
        Of the initial table.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If there are too few buckets for the distance, or scores have other heads.

    References
    ----------
    Raffel et al. (2020), "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", section 2.1.

    Examples
    --------
    >>> layer = RelativePositionBias(2, np.random.default_rng(0))
    >>> layer
    RelativePositionBias(weight=(32, 2), n_heads=2, max_distance=128, bidirectional=True)
    >>> layer(np.zeros((1, 2, 3, 5), np.float32)).shape
    (1, 2, 3, 5)
    """

    scheme = "t5"
    shared = True
    in_words = "relative bias added to scores"
    score_term = "relative bias"

    def __init__(self, n_heads, rng, n_buckets=32, max_distance=128, bidirectional=True, std=0.02,
                 dtype=np.float32):
        check_whole("RelativePositionBias", "n_heads", n_heads)
        if not isinstance(bidirectional, (bool, np.bool_)):
            raise TypeError(f"RelativePositionBias: bidirectional={bidirectional!r} must be True "
                            "or False.")
        relative_position_buckets(0, n_buckets, max_distance, bidirectional)   # checks its options
        self.weight = normal(rng, (n_buckets, n_heads), std, dtype)
        self.n_heads, self.max_distance = n_heads, max_distance
        self.bidirectional = bidirectional

    @classmethod
    def of_config(cls, config, rng, bidirectional=True):
        c = config
        return cls(c.n_heads, rng, c.n_buckets, c.max_distance, bidirectional, c.init_std,
                   np.dtype(c.dtype))

    @classmethod
    def check_config(cls, owner, config):
        relative_position_buckets(0, config.n_buckets, config.max_distance)   # checks them

    def forward(self, scores):
        sizes = check_array("RelativePositionBias", "scores", scores, "(B, H, T, S)",
                            self.weight.data.dtype, H=self.n_heads)
        bias, saved_bias = self.bias(sizes["T"], sizes["S"])          # (H, T + S - 1)
        y, saved_sum = add_by_distance(scores, bias)

        saved = (saved_bias, saved_sum)
        return y, saved

    def backward(self, dy, saved):
        saved_bias, saved_sum = saved

        # y = add_by_distance(scores, bias)
        dscores, dbias = add_by_distance_backward(dy, saved_sum)

        # bias = bias(T, S)
        self.bias_backward(dbias, saved_bias)
        return dscores

    def bias(self, T, S):
        return relative_position_bias(
            self.weight.data, T, S, self.max_distance, self.bidirectional)

    def bias_backward(self, dbias, saved):
        # bias = relative_position_bias(weight, T, S)
        self.weight.grad += relative_position_bias_backward(dbias, saved)

    def describe(self):
        return Description("Relative position bias", by(*self.weight.data.shape),
                           (r"db_{h,n} = \Sigma_{i - j \in n} ds_{hij}",))
