"""Positions, norm and residual sum as the lecture notes misprint them (CONVENTIONS, Equations)."""

import numpy as np

from numformer.functional.positions.sinusoidal import sinusoidal_positions
from numformer.layers import RMSNorm, SinusoidalPositions
from numformer.layers.blocks.block import TransformerBlock
from numformer.layers.positions.added import positions_from


class WrittenSinusoids(SinusoidalPositions):
    """Sinusoids from a table of their own."""

    def __init__(self, d_model, table):
        super().__init__(d_model)
        self.table = table

    def vectors(self, T, start, dtype):
        positions = positions_from(start, T)
        p = self.table(positions.reshape(-1), self.d_model).astype(dtype)

        saved = ()
        return p.reshape(*positions.shape, self.d_model), saved


def two_sines(positions, width):
    """D, eq. 7 and 8: the sine for even and for odd coordinates."""
    return np.repeat(sinusoidal_positions(positions, width)[:, 0::2], 2, axis=1)[:, :width]


def cosine_first(positions, width):
    """E, one slide: the cosine for 2i, the sine for 2i + 1, with the exponent (2i + 1)/p."""
    i = np.arange(0, width, 2)
    t = np.asarray(positions)[:, None]
    table = np.empty((len(t), width))
    table[:, 0::2] = np.cos(t * 10000.0 ** (-i / width))
    table[:, 1::2] = np.sin(t * 10000.0 ** (-(i + 1) / width))[:, :width // 2]
    return table


def width_of_a_head(n_heads):
    """E: 10000^(2i/p) with p the width of a head. i runs over the embedding all the same."""
    def table(positions, width):
        angles = np.asarray(positions)[:, None] * 10000.0 ** (
            -np.arange(0, width, 2) * n_heads / width)                # (T, C/2)
        return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(angles), width)

    return table


class RMSNormOverVectors(RMSNorm):
    r"""A: the mean of x_i² over N, which is the number of vectors in that deck.

    .. math:: y_{tc} = \gamma_c x_{tc} r_c, \qquad
              r_c = (\langle x_{tc}^2 \rangle_t + \epsilon)^{-1/2}

    .. math:: \bar{x}_{tc} = r_c (g_{tc} - x_{tc} r_c \langle g_{tc} x_{tc} r_c \rangle_t), \qquad
              g = \gamma \bar{y}
    """

    def forward(self, x):
        weight, = self.arrays
        rrms = ((x * x).mean(axis=1, keepdims=True) + self.epsilon) ** -0.5    # (B, 1, C)
        y = weight * (x * rrms)

        saved = (x, rrms)
        return y, saved

    def backward(self, dy, saved):
        x, rrms = saved
        x_hat = x * rrms

        # y = weight * x_hat
        self.weight.grad += (dy * x_hat).sum(axis=(0, 1))
        dx_hat = dy * self.arrays[0]

        # x_hat = x * rrms(x)
        return rrms * (dx_hat - x_hat * (dx_hat * x_hat).mean(axis=1, keepdims=True))


class SumNotNormalized(TransformerBlock):
    r"""E, encoder: the second addition is to X + Z, not to its norm.

    .. math:: s = x + \mathrm{attention}(x), \qquad
              y = \mathrm{norm}_2(s + \mathrm{feedforward}(\mathrm{norm}_1(s)))

    Parameters
    ----------
    block : TransformerBlock
        A post-norm block; its parts become those of this one.
    """

    def __init__(self, block):
        super().__init__(**block.branches)

    def forward(self, x, memory=None, pattern=None, memory_pattern=None, rng=None):
        a, saved_attention = self.attention.forward(x, pattern=pattern, rng=rng)
        s = x + a
        h, saved_norm1 = self.norm1.forward(s)
        f, saved_feedforward = self.feedforward.forward(h)
        y, saved_norm2 = self.norm2.forward(s + f)

        saved = (saved_attention, saved_norm1, saved_feedforward, saved_norm2)
        return y, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        saved_attention, saved_norm1, saved_feedforward, saved_norm2 = saved

        # y = norm2(s + feedforward(norm1(s)))
        dsum = self.norm2.backward(dy, saved_norm2)
        df = self.feedforward.backward(dsum, saved_feedforward)
        ds = dsum + self.norm1.backward(df, saved_norm1)

        # s = x + attention(x)
        return ds + self.attention.backward(ds, saved_attention)

    def auxiliary_loss(self, saved):
        return 0.0
