"""What ModernBERT has between its encoder and a linear map to logits: a map, GELU and a norm."""

import numpy as np

from numformer.backend import gelu, gelu_backward
from numformer.description import Description
from numformer.layers import Identity, LayerNorm, Linear, Pooling
from numformer.parameter import Layer


class PredictionHead(Layer):
    r"""Vectors for a linear map to logits, (..., C) to (..., C).

    .. math:: y = \mathrm{norm}(\mathrm{gelu}(h)), \qquad h = x W + b

    .. math:: \bar{h} = \mathrm{gelu}'(h)\,\mathrm{norm}'(\bar{y}), \qquad
              \bar{x} = \bar{h}\,W^\top

    Without `bias`, neither the linear map nor the norm has one.

    Raises
    ------
    ValueError, TypeError
        If the last axis of `x` is not C.

    References
    ----------
    Devlin et al. (2019), "BERT", whose published code has it before the logits of masked tokens;
    Warner et al. (2024), "ModernBERT", whose published code has it before all logits.

    Examples
    --------
    >>> PredictionHead(4, np.random.default_rng(0))(np.ones((2, 3, 4), np.float32)).shape
    (2, 3, 4)
    """

    def __init__(self, d_model, rng, std=0.02, epsilon=1e-5, bias=True, dtype=np.float32):
        self.linear = Linear(d_model, d_model, rng, bias, std, dtype=dtype)
        self.norm = LayerNorm(d_model, bias, epsilon, dtype=dtype)

    def forward(self, x):
        h, saved_linear = self.linear.forward(x)                      # (..., C)
        h, saved_gelu = gelu(h)
        y, saved_norm = self.norm.forward(h)

        saved = (saved_linear, saved_gelu, saved_norm)
        return y, saved

    def backward(self, dy, saved):
        saved_linear, saved_gelu, saved_norm = saved

        # y = norm(gelu(linear(x)))
        dh = gelu_backward(self.norm.backward(dy, saved_norm), saved_gelu)
        return self.linear.backward(dh, saved_linear)

    def describe(self):
        return Description("Prediction head", self.linear.describe().sizes, (
            r"dh = f'(h)\,\mathrm{norm}'(dy)", r"dx = dh\,W^\top", r"dW = x^\top dh"))


class PooledHead(Layer):
    r"""One vector for a text, (B, T, C) to (B, C): its vectors pooled, and a `PredictionHead`.

    .. math:: y = \mathrm{head}(p), \qquad p = \mathrm{pooling}(x)

    .. math:: \bar{x} = \mathrm{pooling}'(\bar{p}), \qquad \bar{p} = \mathrm{head}'(\bar{y})

    Parameters
    ----------
    kind : "class", "mean" or "max"
        Of the `Pooling`; the others are those of the head.

    Raises
    ------
    ValueError, TypeError
        As `Pooling`, or if the last axis of `x` is not C.

    References
    ----------
    Warner et al. (2024), "ModernBERT"; it is in the published code alone.

    Examples
    --------
    >>> head = PooledHead("mean", 4, np.random.default_rng(0))
    >>> head(np.ones((2, 3, 4), np.float32)).shape
    (2, 4)
    """

    def __init__(self, kind, d_model, rng, std=0.02, epsilon=1e-5, bias=True, dtype=np.float32):
        self.pooling = Pooling(kind)
        self.head = PredictionHead(d_model, rng, std, epsilon, bias, dtype)

    def forward(self, x, mask=None):
        """The vector of each text; `mask` as in `Pooling.forward`."""
        p, saved_pooling = self.pooling.forward(x, mask)              # (B, C)
        y, saved_head = self.head.forward(p)

        saved = (saved_pooling, saved_head)
        return y, saved

    def backward(self, dy, saved):
        saved_pooling, saved_head = saved

        # y = head(pooling(x))
        return self.pooling.backward(self.head.backward(dy, saved_head), saved_pooling)

    def describe(self):
        head = self.head.describe()
        return Description(f"{self.pooling.describe().name}, prediction head", head.sizes,
                           head.gradient)


def head_of(config, rng):
    """The `PredictionHead` of a config, or the identity without `prediction_head`."""
    c = config
    if not c.prediction_head:
        return Identity()
    return PredictionHead(c.d_model, rng, c.init_std, c.epsilon, c.bias, np.dtype(c.dtype))
