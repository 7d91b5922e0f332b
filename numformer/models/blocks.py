"""The Transformer block from switches: what the models that stack such blocks have in common."""

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from numformer.checks import check_choice, check_divides, check_number, check_whole
from numformer.functional.activations import ACTIVATIONS
from numformer.layers import (
    ALiBi, FeedForward, GatedFeedForward, Identity, LayerNorm, LearnedPositions, MultiHeadAttention, PostNormBlock, PostNormCrossBlock,
    PreNormBlock, PreNormCrossBlock, RMSNorm, RelativePositionBias, RotaryPositions, SinusoidalPositions)
from numformer.models.switches import Switches

GATED = {"swiglu": "silu", "geglu": "gelu"}                           # gated feed-forwards, and the activation of their gate
LEARNED, ROTARY = ("learned", "learned_rotary"), ("rotary", "learned_rotary")         # the last is both at once


@dataclass(frozen=True, kw_only=True)
class BlockConfig(Switches):
    """The switches of a stack of blocks; a model's config inherits them and adds its own.

    Parameters
    ----------
    n_layers : int
        Blocks.
    n_heads : int
        H, query heads in a block.
    d_model : int
        C, the width.
    n_kv_heads : int, optional
        G, key-value heads, which divides H; H unless given.
    d_hidden : int, optional
        F; unless given 4 C, or for gated feed-forwards 8/3 C rounded up to a multiple of 8.
    norm : "layer_norm" or "rms_norm"
        How vectors are held in size.
    norm_first : bool
        Pre-norm, with one more norm after the last block; or post-norm.
    feedforward : "relu", "relu_squared", "gelu", "gelu_tanh", "silu", "swiglu" or "geglu"
        The nonlinearity of the feed-forward; the last two are gated.
    positions : "rotary", "alibi" or "none", and what else a model knows
        How attention learns the order of the vectors.
    rotary_base : float
        See `RotaryPositions`.
    rotary_layout : "half" or "interleaved"
        See `RotaryPositions`.
    query_key_norm : bool
        Whether queries and keys pass an RMSNorm.
    scaled_scores : bool
        Whether attention's scores are divided by sqrt(D); those of T5 are not.
    bias : bool
        Whether linear maps and LayerNorms have one.
    dropout : float in [0, 1)
        For embeddings, attention weights and branches.
    epsilon : float
        Of the norms.
    init_std : float
        Of initial weights.
    zero_branches : bool
        Whether the last matrix of every branch starts at zero, so that a new block changes nothing.
    dtype : "float32" or "float64"
        Of parameters and everything computed from them.

    Raises
    ------
    ValueError
        If a number is out of range, a choice unknown, or heads do not divide the width.
    """

    POSITIONS: ClassVar = ("rotary", "alibi", "none")                 # those that a model of this config knows
    WHOLE: ClassVar = ("n_layers",)                                   # what must be a whole number, 1 or more

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
    zero_branches: bool = False
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
        check_choice(owner, "norm", self.norm, ["layer_norm", "rms_norm"])
        check_choice(owner, "feedforward", self.feedforward, [*ACTIVATIONS, *GATED])
        check_choice(owner, "positions", self.positions, self.POSITIONS)
        check_choice(owner, "rotary_layout", self.rotary_layout, ["half", "interleaved"])
        check_choice(owner, "dtype", self.dtype, ["float32", "float64"])
        for field in fields(self):
            if field.type is bool:
                check_choice(owner, field.name, getattr(self, field.name), [True, False])
        check_number(owner, "dropout", self.dropout, least=0, below=1)
        check_number(owner, "init_std", self.init_std, least=0)
        check_number(owner, "epsilon", self.epsilon, least=1e-12)
        check_number(owner, "rotary_base", self.rotary_base, least=1)
        if self.positions in ROTARY and self.d_model // self.n_heads % 2:
            raise ValueError(f"{owner}: rotary positions need heads of even width, but d_model / n_heads = "
                             f"{self.d_model // self.n_heads}; use another n_heads, or other positions.")

    @property
    def hidden_width(self):
        """F, with its default worked out."""
        if self.d_hidden is not None:
            return self.d_hidden
        return -(-8 * self.d_model // 24) * 8 if self.feedforward in GATED else 4 * self.d_model


def norm_of(config):
    """A norm of vectors of the model's width, as the switches of a `BlockConfig` have it."""
    c, dtype = config, np.dtype(config.dtype)
    return LayerNorm(c.d_model, c.bias, c.epsilon, dtype=dtype) if c.norm == "layer_norm" else RMSNorm(c.d_model, c.epsilon, dtype=dtype)


def last_norm_of(config):
    """What stands after the last block: with pre-norm nothing else has normalized the sum of all branches."""
    return norm_of(config) if config.norm_first else Identity()


def positions_of(config, rng):
    """What adds positions to embedded tokens; nothing where positions go into the attention alone."""
    c = config
    return (LearnedPositions(c.context_length, c.d_model, rng, c.init_std, np.dtype(c.dtype)) if c.positions in LEARNED
            else SinusoidalPositions(c.d_model) if c.positions == "sinusoidal" else Identity())


def feedforward_of(config, initial):
    """The feed-forward of a block, gated or not; `initial` are the options of its first weights."""
    c = config
    if c.feedforward in GATED:
        return GatedFeedForward(c.d_model, c.hidden_width, GATED[c.feedforward], **initial)
    return FeedForward(c.d_model, c.hidden_width, c.feedforward, **initial)


def relative_bias_of(config, rng, bidirectional):
    """T5's bias by distance, one table for all blocks of a stack; None for a config of other positions."""
    c = config
    return RelativePositionBias(c.n_heads, rng, c.n_buckets, c.max_distance, bidirectional, c.init_std,
                                np.dtype(c.dtype)) if c.positions == "t5" else None


def block_of(config, rng, feedforward=feedforward_of, relative=None):
    """One block, as the switches of a `BlockConfig` have it, with a feed-forward that `feedforward` makes of them.

    `relative` is the `RelativePositionBias` that all blocks of a stack share, where there is one.
    """
    c, initial = config, _initial(config, rng, branches=2)
    block = PreNormBlock if c.norm_first else PostNormBlock
    return block(norm_of(c), _self_attention(c, initial, relative), norm_of(c), feedforward(c, initial), c.dropout)


def cross_block_of(config, rng, relative=None):
    """One block of a decoder that reads what an encoder made; as `block_of` otherwise."""
    c, initial = config, _initial(config, rng, branches=3)
    block = PreNormCrossBlock if c.norm_first else PostNormCrossBlock
    return block(norm_of(c), _self_attention(c, initial, relative), norm_of(c), _attention(c, initial), norm_of(c),
                 feedforward_of(c, initial), c.dropout)


def _initial(config, rng, branches):
    """The options of a block's first weights. Every branch adds to the residual stream: its last matrix starts smaller the more
    branches there are (GPT-2, section 2.3)."""
    c = config
    return dict(rng=rng, bias=c.bias, std=c.init_std, dtype=np.dtype(c.dtype),
                output_std=0.0 if c.zero_branches else c.init_std * (branches * c.n_layers) ** -0.5)


def _self_attention(config, initial, relative):
    c, d_head = config, config.d_model // config.n_heads
    return _attention(c, initial, RotaryPositions(d_head, c.rotary_base, c.rotary_layout) if c.positions in ROTARY
                      else ALiBi(c.n_heads) if c.positions == "alibi" else relative)


def _attention(config, initial, positions=None):
    c = config
    return MultiHeadAttention(c.d_model, c.n_heads, n_kv_heads=c.n_kv_heads, positions=positions, query_key_norm=c.query_key_norm,
                              scale=None if c.scaled_scores else 1.0, dropout=c.dropout, **initial)
