"""The router's functions, mixtures of experts, and decoders with experts."""

import numpy as np

from numformer.layers import (
    LayerNorm, MixtureOfExperts, MultiHeadAttention, ResidualBranch, SelfAttentionBranch,
    TransformerBlock)
from numformer.models import Decoder, DecoderConfig
from numformer.specifications.pair import seeded
from numformer.verify.registry.cases import Case


def experts(*arguments, **options):
    return lambda rng, dtype: MixtureOfExperts(*arguments, rng=rng, dtype=dtype, **options)


def block(order):
    def build(rng, dtype):
        attention = MultiHeadAttention(6, 2, rng, dtype=dtype)
        mixture = MixtureOfExperts(6, 5, 3, 2, "gelu", rng, dtype=dtype)
        return TransformerBlock(
            attention=SelfAttentionBranch(LayerNorm(6, dtype=dtype), attention, order),
            feedforward=ResidualBranch(LayerNorm(6, dtype=dtype), mixture, order))
    return build


def decoder(**options):
    sizes = dict(vocab_size=7, context_length=6, n_layers=2, n_heads=2, d_model=4, d_hidden=3)
    return lambda rng, dtype: Decoder(DecoderConfig(**{**sizes, **options},
                                                    dtype=np.dtype(dtype).name), rng)


IDS = np.array([[3, 1, 4], [1, 5, 1]])                               # with repeats

LAYERS = [
    Case("mixture of experts", experts(3, 5, 4, 2, "gelu"), [(2, 4, 3)],
         wrong=[((np.zeros((2, 4)),), ValueError, "C=3"),
                ((np.zeros((0, 3)),), ValueError, "empty"),
                (([1.0],), TypeError, "array of floats"),
                ((np.zeros((2, 3), np.float32),), TypeError, "float64")]),
    Case("mixture of experts, gated, over all, capacity",
         experts(3, 4, 3, 2, "silu", gated=True, gates_over="all", capacity_factor=0.8, bias=False),
         [(6, 3)], seeded),
    Case("mixture of experts, one for each token",
         experts(3, 4, 3, 1, "relu", gates_over="all", capacity_factor=1.0), [(2, 3, 3)],
         seeded),
    Case("mixture of experts, all for each token", experts(3, 4, 3, 3, "gelu_tanh"), [(3,)]),
    Case("pre-norm block with experts", block("pre"), [(2, 3, 6)]),
    Case("post-norm block with experts", block("post"), [(1, 4, 6)]),
]

MODELS = [
    Case("decoder with experts, Mixtral",
         decoder(norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False, n_experts=3,
                                                  experts_per_token=2, balance_weight=0.5,
                 router_z_weight=0.2), [], ids=(IDS,)),
    Case("decoder with experts, GLaM: every other block",
         decoder(feedforward="geglu", expert_feedforward="gelu", positions="t5", bias=False,
                 n_layers=2, experts_every=2, n_experts=3, experts_per_token=2),
         [], ids=(np.array([[1, 2, 0, 3]]),)),
    Case("decoder with experts, Switch",
         decoder(n_layers=1, feedforward="relu", norm_first=False, n_experts=3, experts_per_token=1,
                 gates_over="all", capacity_factor=1.0, balance_weight=0.3), [], seeded,
         ids=(IDS,)),
]
