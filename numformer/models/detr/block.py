"""The block of DETR: self-attention, maybe cross-attention, feed-forward; positions in each."""

import numpy as np

from numformer.backend import add
from numformer.description import Residual
from numformer.layers import Dropout, FeedForward, LayerNorm
from numformer.layers.attention.positioned import PositionedAttention
from numformer.models.detr.deformable import ReferenceAttention
from numformer.parameter import Layer


class DETRBlock(Layer):
    r"""Residual branches with positions in every attention, (B, T, C) to (B, T, C).

    .. math::

        h = x + \mathrm{self}(n_1, n_1, p, p), \qquad
        u = h + \mathrm{cross}(n_2, m, p, r), \qquad y = u + f(n_3)

    where n is the norm of what a branch adds to, m the output of the encoder, and p and r are the
    positions of x and m. A block of the encoder has no cross-attention: u is h. The paper has
    post-norm; these are the pre-norm blocks of its code, which train without a long warm-up. With
    `n_points`, all attention to patches is deformable.

    Parameters
    ----------
    config : DETRConfig
    rng : numpy.random.Generator or None
    reads_memory : bool
        Whether there is a cross-attention.

    References
    ----------
    Carion et al. (2020), "End-to-End Object Detection with Transformers", appendix A.3, figure 10;
    Zhu et al. (2021), "Deformable DETR", section 4.1.
    """

    def __init__(self, config, rng, reads_memory):
        c, dtype = config, np.dtype(config.dtype)
        n_branches = 2 * c.encoder_layers + 3 * c.decoder_layers
        initial = dict(rng=rng, std=c.init_std, output_std=c.init_std * n_branches ** -0.5,
                       dtype=dtype)
        self.norm1 = LayerNorm(c.d_model, True, c.epsilon, dtype=dtype)

        def attention(to_patches):
            if to_patches and c.n_points:
                return ReferenceAttention(c.d_model, c.n_heads, c.n_points, c.side,
                                          of_patches=not reads_memory, **initial)
            return PositionedAttention(c.d_model, c.n_heads, dropout=c.dropout, **initial)

        self.attention = attention(to_patches=not reads_memory)
        self.norm2 = self.cross_attention = None
        if reads_memory:
            self.norm2 = LayerNorm(c.d_model, True, c.epsilon, dtype=dtype)
            self.cross_attention = attention(to_patches=True)
        self.norm3 = LayerNorm(c.d_model, True, c.epsilon, dtype=dtype)
        self.feedforward = FeedForward(c.d_model, c.hidden_width, "relu", **initial)
        self.dropout = Dropout(c.dropout)

    def forward(self, x, positions, memory=None, memory_positions=None, rng=None):
        """Run the branches.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        positions : ndarray, shape (T, C)
        memory : ndarray, shape (B, S, C), optional
        memory_positions : ndarray, shape (S, C), optional
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : tuple
        """
        if (memory is None) != (self.cross_attention is None):
            raise TypeError("DETRBlock: memory is " + (
                "missing; give what the encoder made." if memory is None else
                "given, but this block has no cross-attention; leave it out."))
        n, saved_norm1 = self.norm1.forward(x)
        a, saved_self = self.attention.forward(n, n, positions, positions, rng=rng)
        a, saved_dropout1 = self.dropout.forward(a, rng)
        x, saved_cross = x + a, None                                  # (B, T, C)
        if memory is not None:
            n, saved_norm2 = self.norm2.forward(x)
            a, saved_attention = self.cross_attention.forward(n, memory, positions,
                                                              memory_positions, rng=rng)
            a, saved_dropout2 = self.dropout.forward(a, rng)
            x, saved_cross = x + a, (saved_norm2, saved_attention, saved_dropout2)
        n, saved_norm3 = self.norm3.forward(x)
        f, saved_feedforward = self.feedforward.forward(n)
        f, saved_dropout3 = self.dropout.forward(f, rng)
        y = x + f

        saved = ((saved_norm1, saved_self, saved_dropout1), saved_cross,
                 (saved_norm3, saved_feedforward, saved_dropout3))
        return y, saved

    def backward(self, dy, saved):
        """Gradients of x and positions; and of memory and its positions where there was one."""
        saved_self, saved_cross, saved_feedforward = saved

        # y = x + dropout(feedforward(norm3(x)))
        saved_norm3, saved_feedforward, saved_dropout3 = saved_feedforward
        df = self.dropout.backward(dy, saved_dropout3)
        dn = self.feedforward.backward(df, saved_feedforward)
        dx = add(dy, self.norm3.backward(dn, saved_norm3))

        # x = x + dropout(cross_attention(norm2(x), memory, positions, memory_positions))
        dpositions, of_memory = 0.0, ()
        if saved_cross is not None:
            saved_norm2, saved_attention, saved_dropout2 = saved_cross
            da = self.dropout.backward(dx, saved_dropout2)
            dn, dmemory, dpositions, dmemory_positions = self.cross_attention.backward(
                da, saved_attention)
            dx, of_memory = add(dx, self.norm2.backward(dn, saved_norm2)), (dmemory,
                                                                            dmemory_positions)

        # x = x + dropout(attention(n, n, positions, positions)), with n = norm1(x)
        saved_norm1, saved_attention, saved_dropout1 = saved_self
        da = self.dropout.backward(dx, saved_dropout1)
        dqueries, dcontext, dp, dr = self.attention.backward(da, saved_attention)
        dx = add(dx, self.norm1.backward(add(dqueries, dcontext), saved_norm1))
        return dx, dpositions + dp + dr, *of_memory

    def describe_block(self, reader, shape, attention):
        parts = []
        for norm, layer, changes in (
                (self.norm1, self.attention, {"name": attention}),
                (self.norm2, self.cross_attention,
                 {"name": "Cross-attention", "reads_memory": True}),
                (self.norm3, self.feedforward, {})):
            if layer is not None:
                box = reader.box(shape, layer, **changes)
                parts.append(Residual((*reader.boxes(shape, norm), *reader.parts(box, layer))))
        return tuple(parts)
