"""The Transformer block: attention and feed-forward, each added to what came in, with the norm before or after."""

from numformer.backend import add, residual_dropout, residual_dropout_backward
from numformer.checks import check_number
from numformer.functional.pattern import CAUSAL, EVERYWHERE
from numformer.parameter import Layer


class TransformerBlock(Layer):
    """What both orders of the norm share: the parts. Build a `PreNormBlock` or a `PostNormBlock`.

    Parameters
    ----------
    norm1 : Layer
        The norm of the attention branch.
    attention : MultiHeadAttention
    norm2 : Layer
        The norm of the feed-forward branch.
    feedforward : FeedForward, GatedFeedForward or MixtureOfExperts
    dropout : float in [0, 1)
        Rate for what each branch adds.
    """

    def __init__(self, norm1, attention, norm2, feedforward, dropout=0.0):
        self.norm1, self.attention, self.norm2, self.feedforward = norm1, attention, norm2, feedforward
        check_number("TransformerBlock", "dropout", dropout, least=0, below=1)
        self.dropout = float(dropout)

    def _feedforward_loss(self, saved_feedforward):
        """What the feed-forward is asked for beside the task, as a mixture of experts is; 0 where it is asked for nothing."""
        return self.feedforward.auxiliary_loss(saved_feedforward) if hasattr(self.feedforward, "auxiliary_loss") else 0.0

    def _feedforward_backward(self, df, saved_feedforward, dauxiliary):
        """The gradient of the feed-forward, and of dauxiliary * `_feedforward_loss`."""
        if hasattr(self.feedforward, "auxiliary_loss"):
            return self.feedforward.backward(df, saved_feedforward, dauxiliary)
        return self.feedforward.backward(df, saved_feedforward)


class PreNormBlock(TransformerBlock):
    r"""Normalize what a branch reads; leave the sum alone. The way from end to beginning is free of norms.

    .. math:: h = x + \mathrm{attention}(\mathrm{norm}_1(x)), \qquad y = h + \mathrm{feedforward}(\mathrm{norm}_2(h))

    References
    ----------
    Xiong et al. (2020), "On Layer Normalization in the Transformer Architecture", figure 1b.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import FeedForward, LayerNorm, MultiHeadAttention
    >>> rng = np.random.default_rng(0)
    >>> block = PreNormBlock(LayerNorm(8), MultiHeadAttention(8, 2, rng), LayerNorm(8), FeedForward(8, 32, "gelu", rng))
    >>> y, saved = block.forward(np.ones((1, 5, 8), np.float32))
    >>> block.backward(np.ones_like(y), saved).shape
    (1, 5, 8)
    """

    def forward(self, x, pattern=EVERYWHERE, rng=None):
        a, saved_norm1 = self.norm1.forward(x)
        a, saved_attention = self.attention.forward(a, pattern=pattern, rng=rng)
        h, saved_sum1 = residual_dropout(x, a, self.dropout, rng)              # (B, T, C)
        f, saved_norm2 = self.norm2.forward(h)
        f, saved_feedforward = self.feedforward.forward(f)
        y, saved_sum2 = residual_dropout(h, f, self.dropout, rng)              # (B, T, C)

        saved = (saved_norm1, saved_attention, saved_sum1, saved_norm2, saved_feedforward, saved_sum2)
        return y, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        saved_norm1, saved_attention, saved_sum1, saved_norm2, saved_feedforward, saved_sum2 = saved

        # y = h + dropout(feedforward(norm2(h)))
        dh, df = residual_dropout_backward(dy, saved_sum2)
        df = self._feedforward_backward(df, saved_feedforward, dauxiliary)
        dh = add(dh, self.norm2.backward(df, saved_norm2))

        # h = x + dropout(attention(norm1(x)))
        dx, da = residual_dropout_backward(dh, saved_sum1)
        da = self.attention.backward(da, saved_attention)
        return add(dx, self.norm1.backward(da, saved_norm1))

    def auxiliary_loss(self, saved):
        """That of the feed-forward in the forward that saved; `backward` adds its gradient, times dauxiliary."""
        *_, saved_feedforward, _ = saved
        return self._feedforward_loss(saved_feedforward)

    def step(self, x, cache=None, pattern=CAUSAL):
        """Continue a sequence; see `MultiHeadAttention.step`."""
        a, cache = self.attention.step(self.norm1(x), cache, pattern)
        h = x + a
        return h + self.feedforward(self.norm2(h)), cache

    def weights(self, x, pattern=EVERYWHERE):
        """The attention weights (B, H, T, S), for looking at."""
        return self.attention.weights(self.norm1(x), pattern=pattern)


class PostNormBlock(TransformerBlock):
    r"""Normalize the sum, as the 2017 Transformer does. Every norm stands in the way of the gradient: warm up slowly.

    .. math:: h = \mathrm{norm}_1(x + \mathrm{attention}(x)), \qquad y = \mathrm{norm}_2(h + \mathrm{feedforward}(h))

    References
    ----------
    Vaswani et al. (2017), section 3.1; Xiong et al. (2020), figure 1a.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import FeedForward, LayerNorm, MultiHeadAttention
    >>> rng = np.random.default_rng(0)
    >>> block = PostNormBlock(LayerNorm(8), MultiHeadAttention(8, 2, rng), LayerNorm(8), FeedForward(8, 32, "relu", rng))
    >>> block(np.ones((1, 5, 8), np.float32)).shape
    (1, 5, 8)
    """

    def forward(self, x, pattern=EVERYWHERE, rng=None):
        a, saved_attention = self.attention.forward(x, pattern=pattern, rng=rng)
        h, saved_sum1 = residual_dropout(x, a, self.dropout, rng)
        h, saved_norm1 = self.norm1.forward(h)                        # (B, T, C)
        f, saved_feedforward = self.feedforward.forward(h)
        y, saved_sum2 = residual_dropout(h, f, self.dropout, rng)
        y, saved_norm2 = self.norm2.forward(y)                        # (B, T, C)

        saved = (saved_attention, saved_sum1, saved_norm1, saved_feedforward, saved_sum2, saved_norm2)
        return y, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        saved_attention, saved_sum1, saved_norm1, saved_feedforward, saved_sum2, saved_norm2 = saved

        # y = norm2(h + dropout(feedforward(h)))
        dsum = self.norm2.backward(dy, saved_norm2)
        dh, df = residual_dropout_backward(dsum, saved_sum2)
        dh = add(dh, self._feedforward_backward(df, saved_feedforward, dauxiliary))

        # h = norm1(x + dropout(attention(x)))
        dsum = self.norm1.backward(dh, saved_norm1)
        dx, da = residual_dropout_backward(dsum, saved_sum1)
        return add(dx, self.attention.backward(da, saved_attention))

    def auxiliary_loss(self, saved):
        """That of the feed-forward in the forward that saved; `backward` adds its gradient, times dauxiliary."""
        *_, saved_feedforward, _, _ = saved
        return self._feedforward_loss(saved_feedforward)

    def step(self, x, cache=None, pattern=CAUSAL):
        """Continue a sequence; see `MultiHeadAttention.step`."""
        a, cache = self.attention.step(x, cache, pattern)
        h = self.norm1(x + a)
        return self.norm2(h + self.feedforward(h)), cache

    def weights(self, x, pattern=EVERYWHERE):
        """The attention weights (B, H, T, S), for looking at."""
        return self.attention.weights(x, pattern=pattern)
