"""The convolutional language model: every layer looks a few tokens back, and the layers above each other look far."""

from dataclasses import dataclass

import numpy as np

from numformer.layers import GatedConvolution, LayerNorm
from numformer.models.language_model import LanguageModelConfig, StatefulLanguageModel


@dataclass(frozen=True, kw_only=True)
class ConvolutionLanguageModelConfig(LanguageModelConfig):
    """The switches of a `ConvolutionLanguageModel`: those of `LanguageModelConfig`, and these.

    Parameters
    ----------
    kernel_width : int
        K, how many positions a convolution sees.
    doublings : int
        How many times the distance of these positions doubles, from layer to layer, before it begins anew at 1; at least 1, for
        distances 1, 2, 1, 2, ...
    """

    kernel_width: int = 3
    doublings: int = 5


class ConvolutionLanguageModel(StatefulLanguageModel):
    r"""Predict every next token by causal convolutions, one above the other: see `StatefulLanguageModel`.

    .. math::

        x^{\ell+1} = x^\ell + a \odot \sigma(g), \qquad [a, g] = \mathrm{conv}_{d_\ell}(\mathrm{norm}(x^\ell)), \qquad
        d_\ell = 1, 2, 4, \dots

    All positions are computed at once, as in a Transformer; but what lies further back than all the windows together reach, a token
    never sees.

    Parameters
    ----------
    config : ConvolutionLanguageModelConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds the shapes alone, for counting.

    References
    ----------
    Dauphin et al. (2017), "Language Modeling with Gated Convolutional Networks", section 2; growing distances: van den Oord et al.
    (2016), "WaveNet", section 2.1.

    Examples
    --------
    >>> config = ConvolutionLanguageModelConfig(vocab_size=65, context_length=8, n_layers=3, d_model=16)
    >>> model = ConvolutionLanguageModel(config, np.random.default_rng(0))
    >>> model(np.array([[1, 2, 3, 4]])).shape                         # logits, (B, T, V)
    (1, 4, 65)
    >>> model.reach                                                   # 2 (1 + 2 + 4)
    14
    """

    residual = True

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        layers = [GatedConvolution(c.d_model, c.kernel_width, rng, 2 ** (n % (c.doublings + 1)), dtype) for n in range(c.n_layers)]
        super().__init__(config, rng, layers, norm=LayerNorm(c.d_model, dtype=dtype))

    @property
    def reach(self):
        """How many tokens before a token it can see."""
        return sum(layer.reach for layer in self.layers)
