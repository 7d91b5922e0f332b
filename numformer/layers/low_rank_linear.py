"""A linear map with an adapter of low rank."""

import numpy as np

from numformer.backend import add, linear, linear_backward_accumulate
from numformer.checks import check_whole
from numformer.description import Description, to
from numformer.functional.low_rank import low_rank_scale
from numformer.layers.linear import Linear
from numformer.parameter import Parameter, constant, normal


class LowRankLinear(Linear):
    """A `Linear` with a correction of low rank, (..., C) to (..., F): `low_rank_linear`.

    At first the correction is 0: `up` is, and `down` is random. `add_adapters` puts such layers
    into a model and freezes all else. Where the weight is frozen, its gradient costs no product.

    Parameters
    ----------
    linear : Linear
        Its weight and bias become those of this layer: the same parameters, under the same names.
    rank : int
        R, at most the smaller of C and F.
    rng : numpy.random.Generator or None
        Samples `down`, with standard deviation 1 / sqrt(C).
    alpha, rank_stabilized : float, bool
        As in `low_rank_linear`.

    Raises
    ------
    ValueError, TypeError
        If `linear` is something else, or the rank is not a whole number in its range.

    References
    ----------
    Hu et al. (2022), "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> linear = Linear(4, 6, rng)
    >>> layer = LowRankLinear(linear, 2, rng)
    >>> layer.down.data.shape, layer.up.data.shape, layer.scale
    ((4, 2), (2, 6), 4.0)
    >>> x = np.ones((1, 4), np.float32)
    >>> np.array_equal(layer(x), linear(x))
    True
    """

    def __init__(self, linear, rank, rng, alpha=8.0, rank_stabilized=False):
        owner = type(self).__name__
        if type(linear) is not Linear:
            raise TypeError(f"{owner}: linear must be a Linear, but is a {type(linear).__name__}.")
        C, F = linear.weight.data.shape
        check_whole(owner, "rank", rank, most=min(C, F))
        self.weight, self.bias, dtype = linear.weight, linear.bias, linear.weight.data.dtype
        self.down = normal(rng, (C, rank), C ** -0.5, dtype)
        self.up = constant(0, (rank, F), dtype)
        self.alpha, self.rank_stabilized = float(alpha), rank_stabilized
        self.scale = low_rank_scale(rank, alpha, rank_stabilized)

    def forward(self, x):
        y, saved_full = super().forward(x)                            # (..., F)
        h, saved_down = linear(x, self.down.data)                     # (..., R)
        u, saved_up = linear(h, self.up.data)                         # (..., F)

        saved = (saved_full, saved_down, saved_up)
        return y + self.scale * u, saved

    def backward(self, dy, saved):
        saved_full, saved_down, saved_up = saved

        # y = linear(x, weight, bias) + scale * u
        dx = super().backward(dy, saved_full)

        # u = linear(h, up)
        dh = linear_backward_accumulate(self.scale * dy, saved_up, self.up.grad)

        # h = linear(x, down)
        return add(dx, linear_backward_accumulate(dh, saved_down, self.down.grad))

    def merged(self):
        """The `Linear` of the weight W + s A B, which computes the same; the bias is shared."""
        exact = self.down.data.astype(np.float64) @ self.up.data.astype(np.float64)
        plain = object.__new__(Linear)
        plain.weight = Parameter((self.weight.data + self.scale * exact).astype(
            self.weight.data.dtype))
        plain.bias = self.bias
        return plain

    def describe(self):
        R = self.down.data.shape[1]
        return Description("Low-rank linear", f"{to(self.weight.data)}, rank {R}", (
            r"dh = s\,dy\,B^\top", r"dB = s\,h^\top dy", r"dA = x^\top dh",
            r"dx = dy\,W^\top + dh\,A^\top"),
            weights=self.weight.data.size + self.down.data.size + self.up.data.size)
