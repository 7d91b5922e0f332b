"""Layers built from a config.

`rng` draws their initial weights; with None they have only shapes. vocab_size, context_length,
embedding_scale and n_buckets are fields that a model's config adds.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from numformer.functional.activations.table import GATED
from numformer.layers import (
    BatchNorm, ConcatenatedPositions, CrossAttentionBranch, Embedding, FeedForward,
    FixedWeightAttention, GatedFeedForward, GatedSwishFeedForward, Identity, LayerNorm, Linear,
    LocalAttentionBranch, MultiHeadAttention, ParallelBlock, ResidualBranch, RMSNorm,
    SelfAttentionBranch, SwishFeedForward, TransformerBlock)
from numformer.layers.blocks.local import FULL, SLIDING
from numformer.layers.positions.schemes import ADDED, IN_ATTENTION


def embedding_of(config, rng):
    """The token embedding. If outputs are multiplied by sqrt(C), weights start at std 1/sqrt(C)."""
    c, std, scale = config, config.init_std, 1.0
    if c.embedding_scale:
        std, scale = c.d_model ** -0.5, math.sqrt(c.d_model)
    return Embedding(c.vocab_size, c.d_model, rng, std, scale, np.dtype(c.dtype))


def positions_of(config, rng, length=None):
    """The layer that adds positions to embeddings, or appends them and maps both back to width C.

    The identity if attention handles positions. `length` is the context's unless given.
    """
    c, dtype = config, np.dtype(config.dtype)
    kind = c.positions.removeprefix("concatenated_")
    if kind not in ADDED:
        return Identity()
    vectors = ADDED[kind].of_config(c, rng, length or c.context_length)
    if kind == c.positions:
        return vectors
    return ConcatenatedPositions(vectors, Linear(2 * c.d_model, c.d_model, rng, False, dtype=dtype))


def norm_of(config):
    """A LayerNorm, RMSNorm or BatchNorm of width C."""
    c, dtype = config, np.dtype(config.dtype)
    if c.norm == "batch_norm":
        return BatchNorm(c.d_model, c.bias, c.epsilon, dtype=dtype)
    if c.norm == "layer_norm":
        return LayerNorm(c.d_model, c.bias, c.epsilon, dtype=dtype)
    return RMSNorm(c.d_model, c.epsilon, dtype=dtype, unit_offset=c.unit_offset)


def final_norm_of(config):
    """The norm after the last pre-norm block; the identity for post-norm blocks."""
    return norm_of(config) if config.norm_first else Identity()


def shared_positions_of(config, rng, bidirectional):
    """Positions that all blocks of a stack share, such as T5's bias; None for others."""
    kind = IN_ATTENTION.get(config.positions)
    return kind.of_config(config, rng, bidirectional) if kind and kind.shared else None


def attention_of(config, initial, positions=None):
    """The multi-head attention of a block; `initial`: rng, bias, std, output_std and dtype."""
    c = config
    return MultiHeadAttention(
        c.d_model, c.n_heads, n_kv_heads=c.n_kv_heads, d_head=c.d_head, qkv_bias=c.qkv_bias,
        positions=positions, dropout=c.dropout, query_key_norm=c.query_key_norm, epsilon=c.epsilon,
        unit_offset=c.unit_offset, scale=c.score_scale if c.scaled_scores else 1.0,
        softcap=c.score_softcap, **initial)


def fixed_attention_of(config, initial, positions=None):
    """An attention without queries and keys; parameters as in `attention_of`."""
    c = config
    return FixedWeightAttention(c.d_model, c.n_heads, weights=c.attention_weights, **initial)


def feedforward_of(config, initial):
    """The feed-forward of a block, gated or not; `initial` as in `attention_of`."""
    c = config
    if c.feedforward in GATED:
        return GatedFeedForward(c.d_model, c.hidden_width, GATED[c.feedforward], **initial)
    if c.feedforward in ("swish", "gated_swish"):
        kind = SwishFeedForward if c.feedforward == "swish" else GatedSwishFeedForward
        return kind(c.d_model, c.hidden_width, **initial)
    return FeedForward(c.d_model, c.hidden_width, c.feedforward, **initial)


def block_of(config, rng, shared=None, reads_memory=False, feedforward=feedforward_of,
             first_norm=None, kind=FULL, attention=attention_of):
    """A block: self-attention, cross-attention to the encoder's output (optional), feed-forward.

    `shared` is from `shared_positions_of`; `feedforward(config, initial)` builds the last sublayer,
    `attention(config, initial, positions)` the first; `first_norm` is that of self-attention,
    `norm_of` the config unless given; `kind` is the layer's, of `LAYER_TYPES`.
    """
    c, branches, branch = config, 3 if reads_memory else 2, SelfAttentionBranch
    if kind == SLIDING:
        reach = c.sliding_window - 1                  # the right side is for what is not causal
        branch = partial(LocalAttentionBranch, window=(reach, reach))
        if c.local_rotary_base is not None:
            c = replace(c, rotary_base=c.local_rotary_base, rotary_scaling=None)
    # Output matrices start at std / sqrt(number of residual branches): GPT-2, section 2.3.
    initial = dict(rng=rng, bias=c.bias, std=c.init_std, dtype=np.dtype(c.dtype),
                   output_std=c.init_std * (branches * c.n_layers) ** -0.5)
    positions = shared
    if positions is None and c.positions in IN_ATTENTION:
        positions = IN_ATTENTION[c.positions].of_config(c, rng)
    attention, norm = attention(c, initial, positions), first_norm or norm_of(c)
    parts = {"attention": branch_of(c, branch, norm, attention)}
    if reads_memory:
        attention = attention_of(c, initial)
        parts["cross_attention"] = branch_of(c, CrossAttentionBranch, norm_of(c), attention)
    parts["feedforward"] = branch_of(c, ResidualBranch, norm_of(c), feedforward(c, initial))
    return (ParallelBlock if c.parallel_residual else TransformerBlock)(**parts)


def branch_of(config, kind, norm, sublayer):
    """A residual branch of a class, in the order of the config."""
    c = config
    if c.sandwich_norm:
        return kind(norm, sublayer, "sandwich", c.dropout, norm_of(c))
    return kind(norm, sublayer, "pre" if c.norm_first else "post", c.dropout)
