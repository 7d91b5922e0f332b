"""Score functions, relative and concatenated positions, and the attention layers that use them."""

import numpy as np

from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import (
    ConcatenatedPositions, FixedWeightAttention, LearnedPositions, MultiHeadAttention,
    RelativePositionBias, ScoreAttention, ShawPositions, SinusoidalPositions)
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case

RAGGED = AttentionPattern(mask=np.random.default_rng(3).random((2, 1, 3, 4)) < 0.6)
EMPTY_ROW = AttentionPattern(lengths=[4, 0])        # the second example has nothing to attend to


def scored(score, d_query, d_context, d_hidden=None):
    return lambda rng, dtype: ScoreAttention(score, d_query, d_context, rng, d_hidden, dtype)


def bias(rng, dtype, **options):
    return RelativePositionBias(2, rng, **{**dict(n_buckets=8, max_distance=6), **options},
                                dtype=dtype)


def shaw(rng, dtype):
    return ShawPositions(4, 2, rng, dtype=dtype)


def attention(positions, **options):
    return lambda rng, dtype: MultiHeadAttention(8, 2, rng, positions=positions(rng, dtype),
                                                 dtype=dtype, **options)


def fixed(weights, **options):
    return lambda rng, dtype: FixedWeightAttention(6, 2, rng, weights, dtype=dtype, **options)


LAYERS = [
    Case("attention, even weights", fixed("even", bias=False), [(2, 4, 6)],
         lambda: {"pattern": AttentionPattern(causal=True, lengths=[4, 0])},
         wrong=[((floats(2, 3, 5),), ValueError, "C=6")]),
    Case("attention, weights by distance", fixed("distance"), [(2, 4, 6)],
         lambda: {"pattern": CAUSAL}, wrong=[((floats(2, 3, 5),), ValueError, "C=6")]),
    Case("attention, weights by distance, padding", fixed("distance"), [(2, 4, 6)],
         lambda: {"pattern": AttentionPattern(lengths=[4, 2])}),
    Case("additive attention", scored("additive", 4, 5, 3), [(2, 3, 4), (2, 4, 5)],
         wrong=[((floats(2, 3, 5), floats(2, 4, 5)), ValueError, "C=4"),
                ((floats(2, 3, 4), floats(2, 4, 4)), ValueError, "C=5"),
                ((floats(2, 3, 4), floats(1, 4, 5)), ValueError, "B=1"),
                ((floats(2, 0, 4), floats(2, 4, 5)), ValueError, "T=0"),
                ((np.zeros((2, 3, 4), np.float32), floats(2, 4, 5)), TypeError, "float32")]),
    Case("additive attention, ragged", scored("additive", 4, 5), [(2, 3, 4), (2, 4, 5)],
         lambda: {"pattern": RAGGED}),
    Case("general attention, nothing to attend to", scored("general", 4, 5), [(2, 3, 4), (2, 4, 5)],
         lambda: {"pattern": EMPTY_ROW}),
    Case("dot attention", scored("dot", 4, 4), [(2, 3, 4), (2, 4, 4)], lambda: {"pattern": CAUSAL},
         wrong=[((floats(3, 4), floats(2, 4, 4)), ValueError, "(B, T, C)"),
                ((floats(2, 1, 4), floats(2, 0, 4)), ValueError, "S=0")]),
    Case("scaled dot attention", scored("scaled_dot", 4, 4), [(1, 1, 4), (1, 4, 4)]),
    Case("sinusoidal positions, concatenated",
         lambda rng, dtype: ConcatenatedPositions(SinusoidalPositions(3)), [(2, 3, 4)],
         lambda: {"start": 2}, wrong=[((floats(3, 4),), ValueError, "(B, T, C)")]),
    Case("learned positions, concatenated",
         lambda rng, dtype: ConcatenatedPositions(LearnedPositions(5, 3, rng, dtype=dtype)),
         [(2, 3, 4)], lambda: {"start": np.array([0, 1])},
         wrong=[((floats(2, 6, 4),), ValueError, "only 0 .. 4"),
                ((np.zeros((2, 3, 4), np.float32),), TypeError, "float64")]),
    Case("relative position bias", bias, [(2, 2, 3, 9)],
         wrong=[((floats(2, 3, 3, 3),), ValueError, "H=2")]),
    Case("relative position bias, one way",
         lambda rng, dtype: bias(rng, dtype, bidirectional=False), [(1, 2, 9, 4)]),
    Case("positions of Shaw, values of another width",
         lambda rng, dtype: ShawPositions(4, 2, rng, dtype=dtype, d_value=3),
         [(2, 2, 4, 4), (2, 1, 6, 4), (2, 1, 6, 3)]),
    Case("positions of Shaw", shaw, [(2, 2, 4, 4), (2, 1, 6, 4), (2, 1, 6, 4)],
         lambda: {"pattern": CAUSAL},
         wrong=[((floats(2, 2, 4, 3), floats(2, 2, 4, 3), floats(2, 2, 4, 3)), ValueError, "D=3"),
                ((floats(2, 3, 4, 4), floats(2, 2, 4, 4), floats(2, 2, 4, 4)), ValueError, "G=2")]),
    Case("attention, relative position bias, unscaled", attention(bias, scale=1.0), [(2, 5, 8)]),
    Case("attention, relative position bias, causal, grouped",
         attention(lambda *a: bias(*a, bidirectional=False), n_kv_heads=1),
         [(1, 9, 8)], lambda: {"pattern": CAUSAL}),
    Case("cross-attention, relative position bias, T != S", attention(bias, d_context=3),
         [(1, 2, 8), (1, 5, 3)]),
    Case("attention, positions of Shaw", attention(shaw, query_key_norm=True, scale=0.7),
         [(2, 5, 8)],
         lambda: {"pattern": AttentionPattern(causal=True, lengths=[5, 3])}),
    Case("attention, positions of Shaw, dropout", attention(shaw, dropout=0.3), [(1, 5, 8)],
         seeded),
    Case("cross-attention, positions of Shaw, T != S", attention(shaw, d_context=3, n_kv_heads=1),
         [(1, 5, 8), (1, 3, 3)]),
]
