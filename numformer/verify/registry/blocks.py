"""Residual branches in each order of the norm, and the blocks that are made of them."""

import numpy as np

from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import (
    CrossAttentionBranch, FeedForward, LayerNorm, MultiHeadAttention, ParallelBlock, PlainBlock,
    RMSNorm, ResidualBranch, SelfAttentionBranch, SwiGLU, TransformerBlock)
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case

C = 6
PADDED = AttentionPattern(lengths=[4, 2])                     # of a memory of S = 4 positions


def causal():
    return {"pattern": CAUSAL}


def padded_memory():
    return {"pattern": CAUSAL, "memory_pattern": PADDED}


def seeded_causal():
    return {"pattern": CAUSAL, "rng": np.random.default_rng(5)}


def gelu(rng, dtype):
    return FeedForward(C, 9, "gelu", rng, dtype=dtype)


def silu(rng, dtype):
    return FeedForward(C, 9, "silu", rng, dtype=dtype)


def small_silu(rng, dtype):
    return FeedForward(C, 5, "silu", rng, dtype=dtype)


def swiglu(rng, dtype):
    return SwiGLU(C, 5, rng, dtype=dtype)


def branch(kind, sublayer, order, dtype, norm=LayerNorm, dropout=0.0):
    output_norm = norm(C, dtype=dtype) if order == "sandwich" else None
    return kind(norm(C, dtype=dtype), sublayer, order, dropout, output_norm)


def feedforward_branch(order, feedforward, **options):
    return lambda rng, dtype: branch(
        ResidualBranch, feedforward(rng, dtype), order, dtype, **options)


def attention_branch(kind, order, d_context=None, dropout=0.0, **options):
    def build(rng, dtype):
        attention = MultiHeadAttention(
            C, 2, rng, d_context=d_context, dtype=dtype, dropout=dropout)
        return branch(kind, attention, order, dtype, dropout=dropout, **options)
    return build


def block(order, feedforward, norm=LayerNorm, dropout=0.0, d_context=None, kind=TransformerBlock):
    """Self-attention and feed-forward; with a `d_context`, cross-attention between them."""
    def build(rng, dtype):
        options = dict(norm=norm, dropout=dropout)
        attention = attention_branch(SelfAttentionBranch, order, **options)(rng, dtype)
        cross = {} if d_context is None else {
            "cross_attention": attention_branch(
                CrossAttentionBranch, order, d_context, **options)(rng, dtype)}
        return kind(attention=attention, **cross,
                    feedforward=feedforward_branch(order, feedforward, **options)(rng, dtype))
    return build


def block_of_all_orders(rng, dtype):
    """The norm of a pre-norm branch after a sum that is normalized already, and the like."""
    def part(order, norm):
        return feedforward_branch(order, small_silu, norm=norm, dropout=0.3)(rng, dtype)

    return TransformerBlock(first=part("post", LayerNorm), second=part("pre", RMSNorm),
                            third=part("post", RMSNorm), fourth=part("sandwich", LayerNorm))


def block_with_one_norm(rng, dtype):
    """As GPT-J has it: both branches read the same norm."""
    norm = LayerNorm(C, dtype=dtype)
    attention = MultiHeadAttention(C, 2, rng, dtype=dtype, dropout=0.3)
    return ParallelBlock(attention=SelfAttentionBranch(norm, attention, dropout=0.3),
                         feedforward=ResidualBranch(norm, small_silu(rng, dtype), dropout=0.3))


LAYERS = [
    Case("residual branch, pre-norm", feedforward_branch("pre", gelu), [(2, 3, C)],
         wrong=[((floats(2, 3, 7),), ValueError, "C=6")]),
    Case("residual branch, post-norm", feedforward_branch("post", gelu, dropout=0.3),
         [(2, 3, C)], seeded),
    Case("residual branch, sandwich norm",
         feedforward_branch("sandwich", swiglu, norm=RMSNorm, dropout=0.3), [(2, 3, C)], seeded),
    Case("self-attention branch, sandwich norm", attention_branch(SelfAttentionBranch, "sandwich"),
         [(2, 3, C)], causal),
    Case("cross-attention branch", attention_branch(CrossAttentionBranch, "pre", d_context=5),
         [(2, 3, C), (2, 4, 5)], lambda: {"memory_pattern": PADDED},
         wrong=[((floats(2, 3, C),), TypeError, "memory is missing")]),

    Case("pre-norm block", block("pre", gelu), [(2, 3, C)], causal,
         wrong=[((floats(2, 3, C), floats(2, 3, C)), TypeError, "no branch reads a memory")]),
    Case("post-norm block", block("post", silu), [(2, 3, C)]),
    Case("pre-norm block, dropout", block("pre", swiglu, RMSNorm, 0.3), [(2, 3, C)], seeded),
    Case("post-norm block, dropout", block("post", small_silu, dropout=0.3), [(2, 3, C)], seeded),
    Case("sandwich-norm block, dropout", block("sandwich", silu, dropout=0.3), [(2, 3, C)], seeded),
    Case("block of all orders, dropout", block_of_all_orders, [(2, 3, C)], seeded),
    Case("parallel block", block("pre", gelu, kind=ParallelBlock), [(2, 3, C)], causal),
    Case("parallel block, one norm, dropout", block_with_one_norm, [(2, 3, C)], seeded),
    Case("parallel block, sandwich norm", block("sandwich", silu, kind=ParallelBlock), [(1, 3, C)]),

    Case("plain block, pre-norm", block("pre", gelu, kind=PlainBlock), [(2, 3, C)], causal),
    Case("plain block, post-norm, dropout", block("post", silu, dropout=0.3, kind=PlainBlock),
         [(2, 3, C)], seeded),
    Case("plain cross block", block("sandwich", silu, d_context=5, kind=PlainBlock),
         [(1, 3, C), (1, 4, 5)], causal),

    Case("pre-norm cross block", block("pre", silu, d_context=5), [(2, 3, C), (2, 4, 5)],
         padded_memory,
         wrong=[((floats(2, 3, C), floats(2, 4, C)), ValueError, "C=5"),
                ((floats(2, 3, 7), floats(2, 4, 5)), ValueError, "C=6"),
                ((floats(2, 3, C), floats(1, 4, 5)), ValueError, "B=2"),
                ((floats(2, 3, C),), TypeError, "memory is missing")]),
    Case("post-norm cross block", block("post", silu, d_context=5), [(2, 3, C), (2, 4, 5)],
         padded_memory, wrong=[((floats(2, 3, C), floats(2, 4, C)), ValueError, "C=5")]),
    Case("pre-norm cross block, dropout", block("pre", swiglu, RMSNorm, 0.3, d_context=5),
         [(1, 3, C), (1, 2, 5)], seeded_causal),
    Case("post-norm cross block, dropout", block("post", silu, dropout=0.3, d_context=5),
         [(1, 3, C), (1, 2, 5)], seeded_causal),
    Case("parallel cross block", block("pre", silu, d_context=5, kind=ParallelBlock),
         [(1, 3, C), (1, 4, 5)], causal),
]
