"""The encoder: blocks in which every vector may attend to every other."""

from dataclasses import dataclass

from numformer.config import option
from numformer.functional.attention.masks import EVERYWHERE, AttentionPattern
from numformer.models.transformer.batch_norms import BatchNormsOfCall
from numformer.models.transformer.config import NORMS
from numformer.models.transformer.local_layers import LocalLayersConfig
from numformer.models.transformer.parts import final_norm_of
from numformer.models.transformer.stack import Stack, stack_of
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(LocalLayersConfig):
    """The config of an `Encoder` alone: a `LocalLayersConfig` with exact GELU, as in BERT.

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

    def __init__(self, config, rng, first_norm=None):
        self.config = config
        self.blocks = stack_of(config, rng, bidirectional=True, first_norm=first_norm)
        self.norm = final_norm_of(config)

    def forward(self, x, pattern=EVERYWHERE, rng=None, batch_norms=None):
        """Run all blocks within an `AttentionPattern`, which local layers narrow.

        `batch_norms` is a `BatchNormsOfCall`, of a caller that has BatchNorms of its own or gathers
        statistics.
        """
        if not isinstance(pattern, AttentionPattern):
            raise TypeError(f"Encoder: pattern must be an AttentionPattern, but is {pattern!r}.")
        blocks, norm = self.blocks, self.norm
        if self.config.norm == "batch_norm":
            batch_norms = batch_norms or BatchNormsOfCall(self.statistics)
            batch_norms.of_lengths(pattern.lengths, x.shape[1])
            blocks, norm = Stack(map(batch_norms.block, blocks)), batch_norms.norm(norm)
        x, saved_blocks = blocks.forward(x, pattern=pattern, rng=rng)             # (B, T, C)
        y, saved_norm = norm.forward(x)

        saved = (saved_blocks, saved_norm)
        return y, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        """Gradient of `x`; `dauxiliary` is the gradient of `auxiliary_loss`."""
        saved_blocks, saved_norm = saved

        # y = norm(blocks(x))
        dx = self.norm.backward(dy, saved_norm)
        return self.blocks.backward(dx, saved_blocks, dauxiliary)

    def auxiliary_loss(self, saved):
        """The sum of the auxiliary losses of the blocks; `saved` is that of `forward`."""
        saved_blocks, _ = saved
        return self.blocks.auxiliary_loss(saved_blocks)

    def keys_seen(self, T):
        """Queries attend to all keys, or to those in the window of a local block; without cache."""
        seen = {}
        for block in self.blocks:
            first, last = block.branches["attention"].narrowed(EVERYWHERE).intervals(T, T)
            seen[block.attention] = float((last - first).mean()), False
        return seen
