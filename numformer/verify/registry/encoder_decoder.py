"""The encoder-decoders of 2017, T5 and BART."""

import numpy as np

from numformer.layers import RotaryPositions
from numformer.models import EncoderDecoder, EncoderDecoderConfig
from numformer.specifications.pair import seeded
from numformer.verify.registry.cases import Case
from numformer.verify.registry.transformer import trained_with


def encoder_decoder(**options):
    sizes = dict(vocab_size=7, context_length=6, n_layers=1, n_heads=2, d_model=4, d_hidden=3)
    return lambda rng, dtype: EncoderDecoder(EncoderDecoderConfig(**{**sizes, **options},
                                                                  dtype=np.dtype(dtype).name), rng)


def learned_and_rotary(rng, dtype):
    """BART, with rotations of queries and keys in addition to its learned positions."""
    model = encoder_decoder(feedforward="gelu", positions="learned")(rng, dtype)
    for block in (*model.encoder.blocks, *model.blocks):
        block.attention.positions = RotaryPositions(block.attention.d_head)
    return model


PAIRS_OF_IDS = (np.array([[3, 1, 4], [1, 5, 0]]), np.array([3, 2]),
                np.array([[1, 5, 1], [2, 6, 2]]))       # inputs, lengths, outputs
WRONG = [
    ((np.array([1, 2]), np.array([2]), np.array([[1]])), ValueError,
     "inputs must have shape (B, S)"),
    ((np.array([[1, 2]]), np.array([2]), np.array([1])), ValueError,
     "outputs must have shape (B, T)"),
    ((np.array([[1, 7]]), np.array([2]), np.array([[1]])), ValueError, "0 .. 6"),
    ((np.array([[1, 2]]), np.array([3]), np.array([[1]])), ValueError, "1 .. S=2"),
    ((np.array([[1, 2]]), np.array([0]), np.array([[1]])), ValueError, "1 .. S=2"),
    ((np.array([[1, 2]]), np.array([2, 2]), np.array([[1]])), ValueError, "B=1"),
    ((np.array([[1, 2]]), np.array([2]), np.array([[1], [1]])), ValueError,
     "an output for each input"),
    ((np.array([[1.0]]), np.array([1]), np.array([[1]])), TypeError, "integers"),
]

MODELS = [
    Case("encoder-decoder of 2017", trained_with(encoder_decoder(), label_smoothing=0.1), [],
         ids=PAIRS_OF_IDS, wrong=WRONG),
    Case("encoder-decoder of T5",
         encoder_decoder(n_layers=2, norm="rms_norm", norm_first=True, positions="t5",
                         scaled_scores=False,
                                                  bias=False, n_buckets=8, max_distance=5), [],
         ids=PAIRS_OF_IDS),
    Case("encoder-decoder of BART",
         encoder_decoder(feedforward="gelu", positions="learned", embedding_scale=False,
                         embedding_norm=True, dropout=0.2), [],
         seeded, ids=PAIRS_OF_IDS,
         wrong=[((np.ones((1, 7), int), np.array([7]), np.array([[1]])), ValueError,
                 "only 0 .. 5")]),
    Case("encoder-decoder with a deeper encoder, norms of the embeddings",
         encoder_decoder(n_encoder_layers=2, embedding_norm=True), [], ids=PAIRS_OF_IDS),
    Case("encoder-decoder, sinusoids concatenated",
         encoder_decoder(positions="concatenated_sinusoidal"), [], ids=PAIRS_OF_IDS),
    Case("encoder-decoder, rotary",
         encoder_decoder(norm_first=True, feedforward="swiglu", positions="rotary", tied=False,
                         n_kv_heads=1),
         [], ids=PAIRS_OF_IDS),
    Case("encoder-decoder with experts, Switch",
         encoder_decoder(n_layers=2, norm="rms_norm", norm_first=True, feedforward="geglu",
                         positions="t5", bias=False, n_buckets=8, n_experts=3, experts_per_token=1,
                         gates_over="all", experts_every=2, capacity_factor=1.2,
                         balance_weight=0.3), [], seeded, ids=PAIRS_OF_IDS),
    Case("encoder-decoder, learned and rotary", learned_and_rotary, [], ids=PAIRS_OF_IDS),
]
