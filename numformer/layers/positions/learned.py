"""Learned positions: one trained vector for every position."""

import numpy as np

from numformer.checks import check_whole
from numformer.description import Description, by
from numformer.layers.positions.added import AddedPositions, positions_from
from numformer.parameter import normal


class LearnedPositions(AddedPositions):
    """Add a trained vector for every position, up to the context length.

    Parameters
    ----------
    context_length, d_model : int
        The number of positions, and C.
    rng : numpy.random.Generator or None
    std : float
        Of the initial vectors.
    dtype : float32 or float64

    Raises
    ------
    ValueError
        If `x` goes beyond the context length.

    References
    ----------
    Radford et al. (2018), "Improving Language Understanding by Generative Pre-Training", eq. 2.

    Examples
    --------
    >>> positions = LearnedPositions(8, 4, np.random.default_rng(0))
    >>> positions(np.zeros((1, 9, 4), np.float32))  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: LearnedPositions: the input needs positions 0 .. 8, but only 0 .. 7 have a vector;
                shorten it.
    """

    scheme = "learned"

    def __init__(self, context_length, d_model, rng, std=0.02, dtype=np.float32):
        check_whole("LearnedPositions", "context_length", context_length)
        check_whole("LearnedPositions", "d_model", d_model)
        self.weight = normal(rng, (context_length, d_model), std, dtype)

    @classmethod
    def of_config(cls, config, rng, length):
        return cls(length, config.d_model, rng, config.init_std, np.dtype(config.dtype))

    @property
    def width(self):
        return self.weight.data.shape[1]

    @property
    def dtype(self):
        return self.weight.data.dtype

    def vectors(self, T, start, dtype):
        positions, length = positions_from(start, T), len(self.weight.data)      # (T,) or (B, T)
        if positions.max() >= length:
            raise ValueError(
                f"LearnedPositions: the input needs positions {positions.min()} .. "
                f"{positions.max()}, but only 0 .. {length - 1} have a vector; shorten it.")
        p = self.weight.data[positions]

        saved = (positions,)
        return p, saved

    def vectors_backward(self, dp, saved):
        positions, = saved

        # p = weight[positions]
        if positions.ndim == 1:
            self.weight.grad[positions] += dp.sum(axis=0)
        else:                                                 # sequences may share a position
            np.add.at(self.weight.grad, positions, dp)

    def describe(self):
        return Description("+ Learned positions", by(*self.weight.data.shape),
                           (r"dx = dy", r"dP_t = \Sigma_b dy_{bt}"))
