"""The convolutional language model: each layer sees a few tokens back, a stack of them many."""

from dataclasses import dataclass

import numpy as np

from numformer.config import option
from numformer.layers import GatedConvolution, LayerNorm
from numformer.models.recurrent.language_model import (
    StatefulLanguageModel, StatefulLanguageModelConfig)


@dataclass(frozen=True, kw_only=True)
class ConvolutionLanguageModelConfig(StatefulLanguageModelConfig):
    """The config of a `ConvolutionLanguageModel`."""

    kernel_width: int = option("K, positions that a convolution reads.", 3)
    doublings: int = option(
        "How many times the dilation doubles from layer to layer before it starts again at 1. With "
        "1, dilations are 1, 2, 1, 2, ...", 5)


class ConvolutionLanguageModel(StatefulLanguageModel):
    r"""A stack of causal, gated, dilated convolutions: see `StatefulLanguageModel`.

    .. math::

        x^{\ell+1} = x^\ell + a \odot \sigma(g), \qquad
        [a, g] = \mathrm{conv}_{d_\ell}(\mathrm{norm}(x^\ell)), \qquad d_\ell = 1, 2, 4, \dots

    All positions are computed at once, as in a Transformer, but no prediction depends on tokens
    beyond the receptive field.

    Parameters
    ----------
    config : ConvolutionLanguageModelConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None there are only shapes, for counting.

    References
    ----------
    Dauphin et al. (2017), "Language Modeling with Gated Convolutional Networks", section 2; growing
    dilations: van den Oord et al. (2016), "WaveNet", section 2.1.

    Examples
    --------
    >>> sizes = dict(vocab_size=65, context_length=8, n_layers=3, d_model=16)
    >>> config = ConvolutionLanguageModelConfig(**sizes)
    >>> model = ConvolutionLanguageModel(config, np.random.default_rng(0))
    >>> model(np.array([[1, 2, 3, 4]])).shape                         # logits, (B, T, V)
    (1, 4, 65)
    >>> model.reach                                                   # 2 (1 + 2 + 4)
    14
    """

    config_class = ConvolutionLanguageModelConfig

    residual = True

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        dilations = [2 ** (n % (c.doublings + 1)) for n in range(c.n_layers)]
        layers = [GatedConvolution(c.d_model, c.kernel_width, rng, dilation, dtype)
                  for dilation in dilations]
        super().__init__(config, rng, layers, norm=LayerNorm(c.d_model, dtype=dtype))

    @property
    def reach(self):
        """The receptive field: how many earlier tokens a prediction depends on."""
        return sum(layer.reach for layer in self.layers)
