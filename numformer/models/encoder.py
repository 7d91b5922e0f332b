"""The encoder: a stack of blocks in which every vector may attend to every other."""

from dataclasses import dataclass, replace

from numformer.functional.pattern import EVERYWHERE, AttentionPattern
from numformer.models.blocks import BlockConfig, block_of, last_norm_of, relative_bias_of
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(BlockConfig):
    """The switches of an `Encoder` that stands alone: those of `BlockConfig`. The feed-forward is BERT's, exact GELU.

    Parameters
    ----------
    feedforward : "relu", "relu_squared", "gelu", "gelu_tanh", "silu", "swiglu" or "geglu"
        The nonlinearity of the feed-forward; the last two are gated.

    Examples
    --------
    >>> EncoderConfig(n_layers=2, n_heads=2, d_model=16, positions="learned")
    Traceback (most recent call last):
    ValueError: EncoderConfig: positions='learned' is unknown; choose from 'rotary', 'alibi', 'none'.
    """

    feedforward: str = "gelu"


class Encoder(Layer):
    r"""Let a sequence of vectors look at itself, again and again, (B, T, C) to (B, T, C).

    .. math:: x^{\ell+1} = \mathrm{block}_\ell(x^\ell), \qquad y = \mathrm{norm}(x^L)

    The last norm is there with pre-norm blocks alone. Whatever makes vectors of tokens, patches or sounds comes before, and adds
    their positions, unless those go into the attention: so this is the trunk of BERT, of the Vision Transformer and of T5 alike.

    Parameters
    ----------
    config : BlockConfig
        An `EncoderConfig`, or the config of a model that has an encoder.
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds the shapes alone, for counting.
    content_layers : int
        How many of the first blocks do without rotary positions or ALiBi, and so look at what is there, not where.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.1; Devlin et al. (2019), "BERT", section 3.

    Examples
    --------
    >>> import numpy as np
    >>> encoder = Encoder(EncoderConfig(n_layers=2, n_heads=2, d_model=16), np.random.default_rng(0))
    >>> y, saved = encoder.forward(np.ones((1, 5, 16), np.float32))
    >>> encoder.backward(np.ones_like(y), saved).shape
    (1, 5, 16)
    """

    def __init__(self, config, rng, content_layers=0):
        self.config = config
        relative = relative_bias_of(config, rng, bidirectional=True)
        self.blocks = [block_of(replace(config, positions="none") if k < content_layers else config, rng, relative=relative)
                       for k in range(config.n_layers)]
        self.norm = last_norm_of(config)

    def forward(self, x, pattern=EVERYWHERE, rng=None):
        """Run all blocks.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        pattern : AttentionPattern, or a list of them
            Who may attend to whom: one for all blocks, or one for each, as where local and global attention take turns. Padding
            goes in as its lengths.
        rng : numpy.random.Generator, optional
            For dropout; None at inference.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If `x` or a pattern does not fit.
        """
        saved_blocks = []
        for block, its_pattern in zip(self.blocks, self._patterns(pattern)):
            x, saved_block = block.forward(x, its_pattern, rng)
            saved_blocks.append(saved_block)
        y, saved_norm = self.norm.forward(x)

        saved = (saved_blocks, saved_norm)
        return y, saved

    def backward(self, dy, saved):
        """Gradient of `x`."""
        saved_blocks, saved_norm = saved

        # y = norm(x)
        dx = self.norm.backward(dy, saved_norm)

        # x = block(x), L times
        for block, saved_block in zip(reversed(self.blocks), reversed(saved_blocks)):
            dx = block.backward(dx, saved_block)
        return dx

    def attention_weights(self, x, pattern=EVERYWHERE):
        """The attention weights of every block on `x`, for looking at: a list of (B, H, T, T)."""
        weights = []
        for block, its_pattern in zip(self.blocks, self._patterns(pattern)):
            weights.append(block.weights(x, its_pattern))
            x = block(x, its_pattern)
        return weights

    def _patterns(self, pattern):
        """One pattern for each block."""
        patterns = list(pattern) if isinstance(pattern, (list, tuple)) else [pattern] * len(self.blocks)
        if not all(isinstance(each, AttentionPattern) for each in patterns):
            raise TypeError(f"Encoder: pattern must be an AttentionPattern, or a list of them, but is {pattern!r}.")
        if len(patterns) != len(self.blocks):
            raise ValueError(f"Encoder: {len(patterns)} patterns came for {len(self.blocks)} blocks; give one for all, or one for each.")
        return patterns
