"""The encoder, and what the Vision Transformer adds to it."""

import numpy as np

from numformer.functional import AttentionPattern
from numformer.models import Encoder, EncoderConfig
from numformer.verify.cases import Case
from numformer.verify.registry.transformer import floats, seeded


def encoder(**switches):
    sizes = dict(n_layers=2, n_heads=2, d_model=8, d_hidden=12)
    return lambda rng, dtype: Encoder(EncoderConfig(**{**sizes, **switches}, dtype=np.dtype(dtype).name), rng)


LAYERS = [
    Case("encoder", encoder(), [(2, 3, 8)], lambda: {"pattern": AttentionPattern(lengths=[3, 1])},
         wrong=[((floats(2, 3, 7),), ValueError, "C=8"), ((floats(3, 8),), ValueError, "C=8")]),
    Case("encoder, post-norm, dropout", encoder(norm_first=False, feedforward="relu", dropout=0.3), [(2, 3, 8)], seeded),
    Case("encoder, rotary, rms norm, local and global",
         encoder(positions="rotary", norm="rms_norm", feedforward="geglu", bias=False), [(1, 4, 8)],
         lambda: {"pattern": [AttentionPattern(), AttentionPattern(window=(1, 1))]}),
]
