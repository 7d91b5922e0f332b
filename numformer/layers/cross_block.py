"""The block of a decoder that also reads: attention to itself, attention to what an encoder made, and feed-forward."""

from numformer.backend import add, residual_dropout, residual_dropout_backward
from numformer.checks import check_number
from numformer.functional.pattern import CAUSAL, EVERYWHERE
from numformer.parameter import Layer


class CrossBlock(Layer):
    """What both orders of the norm share: the parts. Build a `PreNormCrossBlock` or a `PostNormCrossBlock`.

    Parameters
    ----------
    norm1 : Layer
        The norm of the self-attention branch.
    attention : MultiHeadAttention
        From the sequence to itself.
    norm2 : Layer
        The norm of the cross-attention branch.
    cross_attention : MultiHeadAttention
        From the sequence to the memory, without positions: what is written has no distance from what was read.
    norm3 : Layer
        The norm of the feed-forward branch.
    feedforward : FeedForward or GatedFeedForward
    dropout : float in [0, 1)
        Rate for what each branch adds.
    """

    def __init__(self, norm1, attention, norm2, cross_attention, norm3, feedforward, dropout=0.0):
        self.norm1, self.attention = norm1, attention
        self.norm2, self.cross_attention = norm2, cross_attention
        self.norm3, self.feedforward = norm3, feedforward
        check_number("CrossBlock", "dropout", dropout, least=0, below=1)
        self.dropout = float(dropout)


class PreNormCrossBlock(CrossBlock):
    r"""Normalize what a branch reads; leave the sum alone. The memory comes normalized: an encoder ends with a norm.

    .. math::

        h = x + \mathrm{attention}(\mathrm{norm}_1(x)), \qquad g = h + \mathrm{cross}(\mathrm{norm}_2(h), m), \qquad
        y = g + \mathrm{feedforward}(\mathrm{norm}_3(g))

    References
    ----------
    Xiong et al. (2020), "On Layer Normalization in the Transformer Architecture", section 3; Raffel et al. (2020), section 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import FeedForward, LayerNorm, MultiHeadAttention
    >>> rng = np.random.default_rng(0)
    >>> block = PreNormCrossBlock(LayerNorm(8), MultiHeadAttention(8, 2, rng), LayerNorm(8), MultiHeadAttention(8, 2, rng), LayerNorm(8),
    ...                           FeedForward(8, 32, "relu", rng))
    >>> y, saved = block.forward(np.ones((1, 3, 8), np.float32), np.ones((1, 5, 8), np.float32))
    >>> dx, dmemory = block.backward(np.ones_like(y), saved)
    >>> dx.shape, dmemory.shape
    ((1, 3, 8), (1, 5, 8))
    """

    def forward(self, x, memory, pattern=CAUSAL, memory_pattern=EVERYWHERE, rng=None):
        a, saved_norm1 = self.norm1.forward(x)
        a, saved_attention = self.attention.forward(a, pattern=pattern, rng=rng)
        h, saved_sum1 = residual_dropout(x, a, self.dropout, rng)              # (B, T, C)
        c, saved_norm2 = self.norm2.forward(h)
        c, saved_cross = self.cross_attention.forward(c, memory, memory_pattern, rng)
        g, saved_sum2 = residual_dropout(h, c, self.dropout, rng)              # (B, T, C)
        f, saved_norm3 = self.norm3.forward(g)
        f, saved_feedforward = self.feedforward.forward(f)
        y, saved_sum3 = residual_dropout(g, f, self.dropout, rng)              # (B, T, C)

        saved = (saved_norm1, saved_attention, saved_sum1, saved_norm2, saved_cross, saved_sum2, saved_norm3, saved_feedforward, saved_sum3)
        return y, saved

    def backward(self, dy, saved):
        saved_norm1, saved_attention, saved_sum1, saved_norm2, saved_cross, saved_sum2, saved_norm3, saved_feedforward, saved_sum3 = saved

        # y = g + dropout(feedforward(norm3(g)))
        dg, df = residual_dropout_backward(dy, saved_sum3)
        df = self.feedforward.backward(df, saved_feedforward)
        dg = add(dg, self.norm3.backward(df, saved_norm3))

        # g = h + dropout(cross_attention(norm2(h), memory))
        dh, dc = residual_dropout_backward(dg, saved_sum2)
        dc, dmemory = self.cross_attention.backward(dc, saved_cross)
        dh = add(dh, self.norm2.backward(dc, saved_norm2))

        # h = x + dropout(attention(norm1(x)))
        dx, da = residual_dropout_backward(dh, saved_sum1)
        da = self.attention.backward(da, saved_attention)
        return add(dx, self.norm1.backward(da, saved_norm1)), dmemory

    def step(self, x, past, memory, pattern=CAUSAL, memory_pattern=EVERYWHERE):
        """Continue a sequence. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            The new positions alone.
        past : KeyValueCache or None
            What the last call returned.
        memory : KeyValueCache
            What ``cross_attention.remember`` made of the memory.
        pattern, memory_pattern : AttentionPattern

        Returns
        -------
        y : ndarray, shape (B, T, C)
        past : KeyValueCache
        """
        a, past = self.attention.step(self.norm1(x), past, pattern)
        h = x + a
        g = h + self.cross_attention.step_to(self.norm2(h), memory, memory_pattern)
        return g + self.feedforward(self.norm3(g)), past

    def weights(self, x, memory, pattern=CAUSAL, memory_pattern=EVERYWHERE):
        """The attention weights to itself (B, H, T, T) and to the memory (B, H, T, S), for looking at."""
        x1 = self.norm1(x)
        h = x + self.attention(x1, pattern=pattern)
        return self.attention.weights(x1, pattern=pattern), self.cross_attention.weights(self.norm2(h), memory, memory_pattern)


class PostNormCrossBlock(CrossBlock):
    r"""Normalize every sum, as the decoder of the 2017 Transformer does.

    .. math::

        h = \mathrm{norm}_1(x + \mathrm{attention}(x)), \qquad g = \mathrm{norm}_2(h + \mathrm{cross}(h, m)), \qquad
        y = \mathrm{norm}_3(g + \mathrm{feedforward}(g))

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.1 and figure 1.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import FeedForward, LayerNorm, MultiHeadAttention
    >>> rng = np.random.default_rng(0)
    >>> block = PostNormCrossBlock(LayerNorm(8), MultiHeadAttention(8, 2, rng), LayerNorm(8), MultiHeadAttention(8, 2, rng), LayerNorm(8),
    ...                            FeedForward(8, 32, "relu", rng))
    >>> block(np.ones((1, 3, 8), np.float32), np.ones((1, 5, 8), np.float32)).shape
    (1, 3, 8)
    """

    def forward(self, x, memory, pattern=CAUSAL, memory_pattern=EVERYWHERE, rng=None):
        a, saved_attention = self.attention.forward(x, pattern=pattern, rng=rng)
        h, saved_sum1 = residual_dropout(x, a, self.dropout, rng)
        h, saved_norm1 = self.norm1.forward(h)                        # (B, T, C)
        c, saved_cross = self.cross_attention.forward(h, memory, memory_pattern, rng)
        g, saved_sum2 = residual_dropout(h, c, self.dropout, rng)
        g, saved_norm2 = self.norm2.forward(g)                        # (B, T, C)
        f, saved_feedforward = self.feedforward.forward(g)
        y, saved_sum3 = residual_dropout(g, f, self.dropout, rng)
        y, saved_norm3 = self.norm3.forward(y)                        # (B, T, C)

        saved = (saved_attention, saved_sum1, saved_norm1, saved_cross, saved_sum2, saved_norm2, saved_feedforward, saved_sum3, saved_norm3)
        return y, saved

    def backward(self, dy, saved):
        saved_attention, saved_sum1, saved_norm1, saved_cross, saved_sum2, saved_norm2, saved_feedforward, saved_sum3, saved_norm3 = saved

        # y = norm3(g + dropout(feedforward(g)))
        dsum = self.norm3.backward(dy, saved_norm3)
        dg, df = residual_dropout_backward(dsum, saved_sum3)
        dg = add(dg, self.feedforward.backward(df, saved_feedforward))

        # g = norm2(h + dropout(cross_attention(h, memory)))
        dsum = self.norm2.backward(dg, saved_norm2)
        dh, dc = residual_dropout_backward(dsum, saved_sum2)
        dc, dmemory = self.cross_attention.backward(dc, saved_cross)
        dh = add(dh, dc)

        # h = norm1(x + dropout(attention(x)))
        dsum = self.norm1.backward(dh, saved_norm1)
        dx, da = residual_dropout_backward(dsum, saved_sum1)
        return add(dx, self.attention.backward(da, saved_attention)), dmemory

    def step(self, x, past, memory, pattern=CAUSAL, memory_pattern=EVERYWHERE):
        """Continue a sequence; see `PreNormCrossBlock.step`."""
        a, past = self.attention.step(x, past, pattern)
        h = self.norm1(x + a)
        g = self.norm2(h + self.cross_attention.step_to(h, memory, memory_pattern))
        return self.norm3(g + self.feedforward(g)), past

    def weights(self, x, memory, pattern=CAUSAL, memory_pattern=EVERYWHERE):
        """The attention weights to itself (B, H, T, T) and to the memory (B, H, T, S), for looking at."""
        h = self.norm1(x + self.attention(x, pattern=pattern))
        return self.attention.weights(x, pattern=pattern), self.cross_attention.weights(h, memory, memory_pattern)
