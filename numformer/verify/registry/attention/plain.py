"""Attention with given queries, self-attention with one head, and attention in tiles."""

import numpy as np

from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import (
    Attention, MultiHeadAttention, RotaryPositions, SelfAttention, TiledAttention)
from numformer.specifications.pair import floats
from numformer.verify.registry.cases import Case

RAGGED = AttentionPattern(mask=np.random.default_rng(3).random((2, 1, 3, 4)) < 0.6)
PADDED = AttentionPattern(causal=True, lengths=[5, 0])       # the second has nothing to attend to


def given_queries(rng, dtype):
    return Attention(4, 5, 3, rng, dtype=dtype)


def self_attention(*sizes, **options):
    return lambda rng, dtype: SelfAttention(*sizes, rng, dtype=dtype, **options)


def tiled(**options):
    return lambda rng, dtype: TiledAttention(**options)


def in_tiles(**options):
    return lambda rng, dtype: MultiHeadAttention(8, 2, rng, tile=2, dtype=dtype, **options)


LAYERS = [
    Case("attention, given queries", given_queries, [(2, 3, 4), (2, 4, 5)],
         wrong=[((floats(2, 3, 5), floats(2, 4, 5)), ValueError, "D=4"),
                ((floats(2, 3, 4), floats(2, 4, 4)), ValueError, "C=5"),
                ((floats(2, 3, 4), floats(1, 4, 5)), ValueError, "B=2"),
                ((floats(2, 3, 4), floats(2, 0, 5)), ValueError, "empty"),
                ((np.zeros((2, 3, 4), np.float32), floats(2, 4, 5)), TypeError, "float32"),
                ((floats(2, 3, 4), floats(2, 4, 5), np.ones((3, 4), bool)), TypeError,
                 "AttentionPattern")]),
    Case("attention, given queries, ragged", given_queries, [(2, 3, 4), (2, 4, 5)],
         lambda: {"pattern": RAGGED}),
    Case("self-attention", self_attention(5, 3), [(2, 4, 5)],
         wrong=[((floats(2, 4, 3),), ValueError, "C=5"), ((floats(4, 5),), ValueError, "(B, T, C)"),
                ((floats(2, 0, 5),), ValueError, "empty")]),
    Case("self-attention, causal, padding", self_attention(5, 3, d_query=2), [(2, 5, 5)],
         lambda: {"pattern": PADDED}),
    Case("tiled attention layer", tiled(tile=2), [(1, 2, 5, 3), (1, 2, 7, 3), (1, 2, 7, 4)],
         wrong=[((floats(1, 2, 5, 3), floats(1, 2, 7, 2), floats(1, 2, 7, 4)), ValueError, "D=3"),
                ((floats(1, 2, 5, 3), floats(1, 2, 7, 3), floats(1, 2, 6, 4)), ValueError, "S=7"),
                ((floats(2, 5, 3), floats(2, 7, 3), floats(2, 7, 4)), ValueError,
                 "(B, H, T, D)")]),
    Case("tiled attention layer, causal, grouped, padding", tiled(tile=3, scale=0.7),
         [(2, 4, 5, 3), (2, 2, 5, 3), (2, 2, 5, 3)], lambda: {"pattern": PADDED}),
    Case("multi-head attention in tiles",
         in_tiles(positions=RotaryPositions(4), n_kv_heads=1, bias=False), [(2, 5, 8)],
         lambda: {"pattern": CAUSAL}),
    Case("cross-attention in tiles", in_tiles(d_context=3, query_key_norm=True),
         [(1, 2, 8), (1, 5, 3)]),
]
