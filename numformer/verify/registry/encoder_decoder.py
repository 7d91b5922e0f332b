"""Blocks that read a memory, and the encoder-decoders of 2017, T5 and BART."""

import numpy as np

from numformer.functional import AttentionPattern
from numformer.layers import FeedForward, LayerNorm, MultiHeadAttention, PostNormCrossBlock, PreNormCrossBlock, RMSNorm, SwiGLU
from numformer.models import EncoderDecoder, EncoderDecoderConfig
from numformer.verify.cases import Case


def floats(*shape):
    return np.zeros(shape)


def cross_block(kind, feedforward, norm=LayerNorm, dropout=0.0):
    def build(rng, dtype):
        def attention(d_context=None):
            return MultiHeadAttention(8, 2, rng, d_context=d_context, dtype=dtype, dropout=dropout)
        return kind(norm(8, dtype=dtype), attention(), norm(8, dtype=dtype), attention(6), norm(8, dtype=dtype),
                    feedforward(rng, dtype), dropout)
    return build


def encoder_decoder(**switches):
    sizes = dict(vocab_size=7, context_length=6, n_layers=1, n_heads=2, d_model=4, d_hidden=6)
    return lambda rng, dtype: EncoderDecoder(EncoderDecoderConfig(**{**sizes, **switches}, dtype=np.dtype(dtype).name), rng)


def seeded():
    return {"rng": np.random.default_rng(5)}


def silu(rng, dtype):
    return FeedForward(8, 12, "silu", rng, dtype=dtype)


PADDED = AttentionPattern(lengths=[4, 2])
PAIRS_OF_IDS = (np.array([[3, 1, 4], [1, 5, 0]]), np.array([3, 2]), np.array([[1, 5, 1], [2, 6, 2]]))       # inputs, lengths, outputs
WRONG = [
    ((np.array([1, 2]), np.array([2]), np.array([[1]])), ValueError, "inputs must have shape (B, S)"),
    ((np.array([[1, 2]]), np.array([2]), np.array([1])), ValueError, "outputs must have shape (B, T)"),
    ((np.array([[1, 7]]), np.array([2]), np.array([[1]])), ValueError, "0 .. 6"),
    ((np.array([[1, 2]]), np.array([3]), np.array([[1]])), ValueError, "1 .. S=2"),
    ((np.array([[1, 2]]), np.array([0]), np.array([[1]])), ValueError, "1 .. S=2"),
    ((np.array([[1, 2]]), np.array([2, 2]), np.array([[1]])), ValueError, "B=1"),
    ((np.array([[1, 2]]), np.array([2]), np.array([[1], [1]])), ValueError, "an output for each input"),
    ((np.array([[1.0]]), np.array([1]), np.array([[1]])), TypeError, "integers"),
]

LAYERS = [
    Case("pre-norm cross block", cross_block(PreNormCrossBlock, silu), [(2, 3, 8), (2, 4, 6)], lambda: {"memory_pattern": PADDED},
         wrong=[((floats(2, 3, 8), floats(2, 4, 8)), ValueError, "C=6"), ((floats(2, 3, 6), floats(2, 4, 6)), ValueError, "C=8"),
                ((floats(2, 3, 8), floats(1, 4, 6)), ValueError, "B=2")]),
    Case("post-norm cross block", cross_block(PostNormCrossBlock, silu), [(2, 3, 8), (2, 4, 6)], lambda: {"memory_pattern": PADDED},
         wrong=[((floats(2, 3, 8), floats(2, 4, 8)), ValueError, "C=6")]),
    Case("pre-norm cross block, dropout", cross_block(PreNormCrossBlock, lambda rng, dtype: SwiGLU(8, 6, rng, dtype=dtype), RMSNorm, 0.3),
         [(1, 3, 8), (1, 2, 6)], seeded),
    Case("post-norm cross block, dropout", cross_block(PostNormCrossBlock, silu, dropout=0.3), [(1, 3, 8), (1, 2, 6)], seeded),
]

MODELS = [
    Case("encoder-decoder of 2017", encoder_decoder(label_smoothing=0.1), [], ids=PAIRS_OF_IDS, wrong=WRONG),
    Case("encoder-decoder of T5", encoder_decoder(n_layers=2, norm="rms_norm", norm_first=True, positions="t5", scaled_scores=False,
                                                  bias=False, n_buckets=8, max_distance=5), [], ids=PAIRS_OF_IDS),
    Case("encoder-decoder of BART", encoder_decoder(feedforward="gelu", positions="learned", embedding_scale=False, dropout=0.2), [],
         seeded, ids=PAIRS_OF_IDS, wrong=[((np.ones((1, 7), int), np.array([7]), np.array([[1]])), ValueError, "only 0 .. 5")]),
    Case("encoder-decoder, rotary", encoder_decoder(norm_first=True, feedforward="swiglu", positions="rotary", tied=False, n_kv_heads=1),
         [], ids=PAIRS_OF_IDS),
    Case("encoder-decoder, learned and rotary", encoder_decoder(feedforward="gelu", positions="learned_rotary"), [], ids=PAIRS_OF_IDS),
]
