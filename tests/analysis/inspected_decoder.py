"""The small decoder, and its token ids, that several tests of analysis inspect."""

import numpy as np

from numformer.models import Decoder, DecoderConfig

SIZES = dict(vocab_size=7, context_length=12, n_layers=3, n_heads=2, d_model=8)
IDS = np.array([[1, 2, 3, 4, 5, 6]])


def decoder(**options):
    """A pre-norm decoder of three blocks, with `options` of its config."""
    return Decoder(DecoderConfig(**{**SIZES, "dtype": "float64", "init_std": 0.5, **options}),
                   np.random.default_rng(0))
