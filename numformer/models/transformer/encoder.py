"""The encoder: blocks in which every vector may attend to every other."""

from dataclasses import dataclass

from numformer.config import option
from numformer.functional.attention.masks import EVERYWHERE, AttentionPattern
from numformer.models.transformer.batch_norms import BatchNormsOfCall
from numformer.models.transformer.config import NORMS, TransformerConfig
from numformer.models.transformer.experts import feedforwards_of
from numformer.models.transformer.parts import block_of, final_norm_of, shared_positions_of
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(TransformerConfig):
    """The config of an `Encoder` alone: a `TransformerConfig` with exact GELU, as in BERT.

    With ``norm="batch_norm"`` every coordinate is normalized over the texts and positions of a
    batch, without padding. If a batch is cut into shards, each shard has its own statistics.
    """

    norm: str = option("Which normalization.", "layer_norm", choices=(*NORMS, "batch_norm"))
    feedforward: str = "gelu"


class Encoder(Layer):
    r"""Blocks in which every vector may attend to every other, (B, T, C) to (B, T, C).

    .. math:: x^{\ell+1} = \mathrm{block}_\ell(x^\ell), \qquad y = \mathrm{norm}(x^L)

    Only pre-norm stacks have the final norm. The input x is embedded tokens or patches, to which
    absolute positions are already added.

    Attributes
    ----------
    statistics : list of BatchStatistics or None
        With ``norm="batch_norm"``: a setting for inference, from `running_statistics`. With None,
        the initial value, a batch is normalized by its own statistics, as in training. A state
        dict does not hold it.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> config = EncoderConfig(n_layers=2, n_heads=2, d_model=16)
    >>> Encoder(config, np.random.default_rng(0))(np.ones((1, 5, 16), np.float32)).shape
    (1, 5, 16)
    """

    statistics = None

    def __init__(self, config, rng, blocks=None):
        self.config = config
        shared = shared_positions_of(config, rng, bidirectional=True)
        self.blocks = blocks or [block_of(config, rng, shared, feedforward=feedforward)
                                 for feedforward in feedforwards_of(config)]
        self.norm = final_norm_of(config)

    def forward(self, x, pattern=EVERYWHERE, rng=None, batch_norms=None):
        """Run all blocks; `pattern` is an AttentionPattern, or a list with one for each block.

        `batch_norms` is a `BatchNormsOfCall`, of a caller that has BatchNorms of its own or gathers
        statistics.
        """
        patterns, blocks, norm, saved_blocks = self._patterns(pattern), self.blocks, self.norm, []
        if self.config.norm == "batch_norm":
            batch_norms = batch_norms or BatchNormsOfCall(self.statistics)
            batch_norms.of_lengths(patterns[0].lengths, x.shape[1])
            blocks, norm = map(batch_norms.block, blocks), batch_norms.norm(norm)
        for block, block_pattern in zip(blocks, patterns):
            x, saved_block = block.forward(x, pattern=block_pattern, rng=rng)     # (B, T, C)
            saved_blocks.append(saved_block)
        y, saved_norm = norm.forward(x)

        saved = (saved_blocks, saved_norm)
        return y, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        """Gradient of `x`; `dauxiliary` is the gradient of `auxiliary_loss`."""
        saved_blocks, saved_norm = saved

        # y = norm(x)
        dx = self.norm.backward(dy, saved_norm)

        # x = block(x), L times
        for block, saved_block in zip(reversed(self.blocks), reversed(saved_blocks)):
            dx = block.backward(dx, saved_block, dauxiliary)
        return dx

    def auxiliary_loss(self, saved):
        """The sum of the auxiliary losses of the blocks; `saved` is that of `forward`."""
        saved_blocks, _ = saved
        return sum(block.auxiliary_loss(each) for block, each in zip(self.blocks, saved_blocks))

    def _patterns(self, pattern):
        n = len(self.blocks)
        patterns = list(pattern) if isinstance(pattern, (list, tuple)) else [pattern] * n
        if not all(isinstance(each, AttentionPattern) for each in patterns):
            raise TypeError("Encoder: pattern must be an AttentionPattern, or a list of them, but "
                            f"is {pattern!r}.")
        if len(patterns) != n:
            raise ValueError(f"Encoder: {len(patterns)} patterns came for {n} blocks; give one for "
                             "all, or one for each.")
        return patterns

    def keys_seen(self, T):
        """Queries attend to all keys, and there is no cache."""
        return {block.attention: (T, False) for block in self.blocks}
