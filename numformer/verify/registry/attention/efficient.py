"""Linear, low-rank and sparse attention."""

import numpy as np

from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import LinearAttention, LowRankAttention, SparseAttention
from numformer.specifications.pair import floats
from numformer.verify.registry.cases import Case


def linear(rng, dtype):
    return LinearAttention(8, 2, rng, dtype=dtype)


def low_rank(rng, dtype):
    return LowRankAttention(6, 3, 5, 2, rng, dtype=dtype)


def sparse(kind, stride):
    return lambda rng, dtype: SparseAttention(8, 2, stride, rng, kind, bias=False, dtype=dtype)


def causal():
    return {"pattern": CAUSAL}


LAYERS = [
    Case("linear attention layer", linear, [(2, 5, 8)],
         wrong=[((floats(2, 5, 7),), ValueError, "C=8"),
                ((floats(2, 0, 8),), ValueError, "empty"),
                ((floats(2, 5, 8), AttentionPattern(window=(1, 1))), ValueError, "rule window"),
                ((floats(2, 5, 8), np.ones((5, 5), bool)), TypeError, "AttentionPattern")]),
    Case("linear attention layer, causal", linear, [(2, 5, 8)], causal),
    Case("low-rank attention layer", low_rank, [(2, 5, 6)],
         wrong=[((floats(2, 4, 6),), ValueError, "length=5"),
                ((floats(2, 5, 6), CAUSAL), ValueError, "cannot be causal")]),
    Case("sparse attention layer", sparse("strided", 2), [(2, 7, 8)], causal,
         wrong=[((floats(2, 7, 7),), ValueError, "C=8"),
                ((floats(7, 8),), ValueError, "(B, T, C)")]),
    Case("sparse attention layer, fixed", sparse("fixed", 3), [(1, 8, 8)], causal),
]
