"""What Transformers share: the config, blocks built from it, the encoder, and the loss.

Together with this page, the file of a model is complete: config, class and published sizes.
"""

import math
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_choice, check_divides, check_number, check_whole
from numformer.config import Config
from numformer.functional.activations.table import ACTIVATIONS, GATED
from numformer.functional.attention.masks import EVERYWHERE, AttentionPattern
from numformer.layers import (
    ALiBi, CrossAttentionBranch, Embedding, FeedForward, GatedFeedForward, Identity, LayerNorm,
    LearnedPositions, MultiHeadAttention, RelativePositionBias, ResidualBranch, RMSNorm,
    RotaryPositions, SelfAttentionBranch, SinusoidalPositions, TransformerBlock)
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """The config of a stack of blocks; a model's config inherits it and adds its own fields.

    Parameters
    ----------
    n_layers : int
        Number of blocks.
    n_heads : int
        H, query heads of a block.
    d_model : int
        C, the width.
    n_kv_heads : int, optional
        G, key-value heads; G must divide H. By default, H.
    d_hidden : int, optional
        F; by default 4 C, or for gated feed-forwards 8/3 C rounded up to a multiple of 8.
    norm : "layer_norm" or "rms_norm"
        Which normalization.
    norm_first : bool
        True: pre-norm, with a final norm after the last block. False: post-norm.
    feedforward : "relu", "relu_squared", "gelu", "gelu_tanh", "silu", "swiglu" or "geglu"
        The activation of the feed-forward; the last two are gated.
    positions : "rotary", "alibi" or "none", and more in some models
        How attention depends on the order of the tokens.
    rotary_base, rotary_layout : float; "half" or "interleaved"
        See `RotaryPositions`.
    query_key_norm, scaled_scores : bool
        Apply an RMSNorm to queries and keys; divide scores by sqrt(D), as all but T5 do.
    bias : bool
        Give linear maps and LayerNorms a bias.
    dropout : float in [0, 1)
        Rate for embeddings, attention weights and residual branches.
    epsilon, init_std : float
        The epsilon of norms; the standard deviation of initial weights.
    dtype : "float32" or "float64"
        Of parameters and activations.
    """

    POSITIONS: ClassVar = ("rotary", "alibi", "none")
    WHOLE: ClassVar = ("n_layers",)                                   # whole numbers, 1 or more

    n_layers: int
    n_heads: int
    d_model: int
    n_kv_heads: int | None = None
    d_hidden: int | None = None
    norm: str = "layer_norm"
    norm_first: bool = True
    feedforward: str = "gelu_tanh"
    positions: str = "none"
    rotary_base: float = 10000.0
    rotary_layout: str = "half"
    query_key_norm: bool = False
    scaled_scores: bool = True
    bias: bool = True
    dropout: float = 0.0
    epsilon: float = 1e-5
    init_std: float = 0.02
    dtype: str = "float32"

    def __post_init__(self):
        owner = type(self).__name__
        for name in self.WHOLE:
            check_whole(owner, name, getattr(self, name))
        check_divides(owner, "d_model", self.d_model, "n_heads", self.n_heads)
        if self.n_kv_heads is not None:
            check_divides(owner, "n_heads", self.n_heads, "n_kv_heads", self.n_kv_heads)
        if self.d_hidden is not None:
            check_whole(owner, "d_hidden", self.d_hidden)
        for name, choices in (
                ("norm", ["layer_norm", "rms_norm"]), ("feedforward", [*ACTIVATIONS, *GATED]),
                ("positions", self.POSITIONS), ("rotary_layout", ["half", "interleaved"]),
                ("dtype", ["float32", "float64"]),
                *((field.name, [True, False]) for field in fields(self) if field.type is bool)):
            check_choice(owner, name, getattr(self, name), choices)
        check_number(owner, "dropout", self.dropout, least=0, below=1)
        for name, least in (("init_std", 0), ("epsilon", 1e-12), ("rotary_base", 1)):
            check_number(owner, name, getattr(self, name), least=least)
        if self.positions == "rotary" and self.d_model // self.n_heads % 2:
            raise ValueError(
                f"{owner}: rotary positions need heads of even width, but d_model / n_heads = "
                f"{self.d_model // self.n_heads}; use another n_heads, or other positions.")

    @property
    def hidden_width(self):
        """F, with its default."""
        if self.d_hidden is not None:
            return self.d_hidden
        return -(-8 * self.d_model // 24) * 8 if self.feedforward in GATED else 4 * self.d_model


# ---- layers built from a config. rng draws their initial weights; with None they have only shapes.
# vocab_size, context_length, embedding_scale, n_buckets are fields that a model's config adds.


def embedding_of(config, rng):
    """The token embedding. If outputs are multiplied by sqrt(C), weights start at std 1/sqrt(C)."""
    c, std, scale = config, config.init_std, 1.0
    if c.embedding_scale:
        std, scale = c.d_model ** -0.5, math.sqrt(c.d_model)
    return Embedding(c.vocab_size, c.d_model, rng, std, scale, np.dtype(c.dtype))


def positions_of(config, rng):
    """The layer that adds positions to embeddings; the identity if attention handles positions."""
    c = config
    if c.positions == "learned":
        return LearnedPositions(c.context_length, c.d_model, rng, c.init_std, np.dtype(c.dtype))
    return SinusoidalPositions(c.d_model) if c.positions == "sinusoidal" else Identity()


def norm_of(config):
    """A LayerNorm or RMSNorm of width C."""
    c, dtype = config, np.dtype(config.dtype)
    if c.norm == "layer_norm":
        return LayerNorm(c.d_model, c.bias, c.epsilon, dtype=dtype)
    return RMSNorm(c.d_model, c.epsilon, dtype=dtype)


def final_norm_of(config):
    """The norm after the last pre-norm block; the identity for post-norm blocks."""
    return norm_of(config) if config.norm_first else Identity()


def relative_bias_of(config, rng, bidirectional):
    """T5's relative position bias, shared by all blocks of a stack; None for other positions."""
    c = config
    if c.positions != "t5":
        return None
    return RelativePositionBias(c.n_heads, rng, c.n_buckets, c.max_distance, bidirectional,
                                c.init_std, np.dtype(c.dtype))


def attention_of(config, initial, positions=None):
    """The multi-head attention of a block; `initial`: rng, bias, std, output_std and dtype."""
    c = config
    return MultiHeadAttention(
        c.d_model, c.n_heads, n_kv_heads=c.n_kv_heads, positions=positions, dropout=c.dropout,
        query_key_norm=c.query_key_norm, epsilon=c.epsilon,
        scale=None if c.scaled_scores else 1.0, **initial)


def feedforward_of(config, initial):
    """The feed-forward of a block, gated or not; `initial` as in `attention_of`."""
    c = config
    if c.feedforward in GATED:
        return GatedFeedForward(c.d_model, c.hidden_width, GATED[c.feedforward], **initial)
    return FeedForward(c.d_model, c.hidden_width, c.feedforward, **initial)


def block_of(config, rng, relative=None, reads_memory=False, feedforward=feedforward_of,
             first_norm=None):
    """A block: self-attention, cross-attention to the encoder's output (optional), feed-forward.

    `relative` is from `relative_bias_of`; `feedforward(config, initial)` builds the last sublayer;
    `first_norm` is that of self-attention, `norm_of` the config unless given.
    """
    c, branches = config, 3 if reads_memory else 2
    # Output matrices start at std / sqrt(number of residual branches): GPT-2, section 2.3.
    initial = dict(rng=rng, bias=c.bias, std=c.init_std, dtype=np.dtype(c.dtype),
                   output_std=c.init_std * (branches * c.n_layers) ** -0.5)
    residual = dict(order="pre" if c.norm_first else "post", dropout=c.dropout)
    positions = relative
    if c.positions == "rotary":
        positions = RotaryPositions(c.d_model // c.n_heads, c.rotary_base, c.rotary_layout)
    elif c.positions == "alibi":
        positions = ALiBi(c.n_heads)

    attention, norm = attention_of(c, initial, positions), first_norm or norm_of(c)
    parts = {"attention": SelfAttentionBranch(norm, attention, **residual)}
    if reads_memory:
        attention = attention_of(c, initial)
        parts["cross_attention"] = CrossAttentionBranch(norm_of(c), attention, **residual)
    parts["feedforward"] = ResidualBranch(norm_of(c), feedforward(c, initial), **residual)
    return TransformerBlock(**parts)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(TransformerConfig):
    """The config of an `Encoder` alone: a `TransformerConfig` with exact GELU, as in BERT."""

    feedforward: str = "gelu"


class Encoder(Layer):
    r"""Blocks in which every vector may attend to every other, (B, T, C) to (B, T, C).

    .. math:: x^{\ell+1} = \mathrm{block}_\ell(x^\ell), \qquad y = \mathrm{norm}(x^L)

    Only pre-norm stacks have the final norm. The input x is embedded tokens or patches, to which
    absolute positions are already added.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.1.

    Examples
    --------
    >>> config = EncoderConfig(n_layers=2, n_heads=2, d_model=16)
    >>> Encoder(config, np.random.default_rng(0))(np.ones((1, 5, 16), np.float32)).shape
    (1, 5, 16)
    """

    def __init__(self, config, rng, blocks=None):
        self.config = config
        relative = relative_bias_of(config, rng, bidirectional=True)
        self.blocks = blocks or [block_of(config, rng, relative) for _ in range(config.n_layers)]
        self.norm = final_norm_of(config)

    def forward(self, x, pattern=EVERYWHERE, rng=None):
        """Run all blocks; `pattern` is an AttentionPattern, or a list with one for each block."""
        saved_blocks = []
        for block, block_pattern in zip(self.blocks, self._patterns(pattern)):
            x, saved_block = block.forward(x, pattern=block_pattern, rng=rng)     # (B, T, C)
            saved_blocks.append(saved_block)
        y, saved_norm = self.norm.forward(x)

        saved = (saved_blocks, saved_norm)
        return y, saved

    def backward(self, dy, saved):
        saved_blocks, saved_norm = saved

        # y = norm(x)
        dx = self.norm.backward(dy, saved_norm)

        # x = block(x), L times
        for block, saved_block in zip(reversed(self.blocks), reversed(saved_blocks)):
            dx = block.backward(dx, saved_block)
        return dx

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


class CrossEntropyModel(Layer):
    r"""A model with ``forward(*inputs, rng)`` to logits z, trained with cross-entropy.

    .. math:: L = \langle -\log \mathrm{softmax}(z_n)_{y_n} \rangle_n

    A batch is ``(*inputs, targets)``. Targets are classes (B,), or the next token at every position
    (B, T); `IGNORE_INDEX` excludes one. The attributes `label_smoothing` and `z_loss`, 0 unless
    set, affect the training loss only: see `cross_entropy`.
    """

    label_smoothing = z_loss = 0.0

    def loss(self, batch, rng=None):
        """(loss, saved): mean cross-entropy over a batch's targets, in nats; `rng` for dropout."""
        *inputs, targets = batch
        logits, saved_forward = self.forward(*inputs, rng=rng)
        loss, saved_loss = cross_entropy(logits, targets, label_smoothing=self.label_smoothing,
                                         z_loss=self.z_loss)

        saved = (saved_forward, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_forward, saved_loss = saved

        # loss = cross_entropy(forward(*inputs), targets)
        self.backward(cross_entropy_backward(dloss, saved_loss), saved_forward)

    def evaluation_loss(self, batch):
        """The mean cross-entropy of a batch, without dropout, label smoothing or z-loss."""
        *inputs, targets = batch
        return cross_entropy(self(*inputs), targets)[0]
