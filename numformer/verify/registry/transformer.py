"""The Transformer's own functions, layers and the decoder."""

import numpy as np

from numformer import functional as F
from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import (
    AdaptiveEmbedding, AdaptiveSoftmax, ALiBi, Dropout, Embedding, FeedForward, GEGLU,
    GatedFeedForward, Identity, LayerNorm, LearnedPositions, Linear, LMHead, LowRankLinear,
    MultiHeadAttention, NGramEmbedding, NoPositions, RMSNorm, RotaryPositions, SinusoidalPositions,
    SoftCappedLMHead, SwiGLU)
from numformer.layers.positions.schemes import ADDED, IN_ATTENTION
from numformer.models import (
    Decoder, DecoderConfig, EncoderConfig, NGramDecoder, NGramDecoderConfig)
from numformer.parameter import Parameter
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case


SHORTER = {"shaw": dict(max_distance=4)}              # positions: tables of fewer vectors


def mha(*arguments, **options):
    return lambda rng, dtype: MultiHeadAttention(*arguments, rng=rng, dtype=dtype, **options)


def adaptive_softmax(*sizes, **options):
    return lambda rng, dtype: AdaptiveSoftmax(
        AdaptiveEmbedding(*sizes, rng, **options, dtype=dtype), rng)


def chosen(kind):
    """Attention with positions as a config builds them."""
    def build(rng, dtype):
        config = EncoderConfig(n_layers=1, n_heads=2, d_model=8, positions=kind.scheme,
                               **SHORTER.get(kind.scheme, {}), dtype=np.dtype(dtype).name)
        return MultiHeadAttention(8, 2, rng, positions=kind.of_config(config, rng), dtype=dtype)

    return build


def decoder(**options):
    """One block; two where the second is another: all models stack blocks in one way."""
    sizes = dict(vocab_size=7, context_length=6, n_layers=1, n_heads=2, d_model=4, d_hidden=5)
    return lambda rng, dtype: Decoder(DecoderConfig(**{**sizes, **options},
                                                    dtype=np.dtype(dtype).name), rng)


def ngram_decoder(**options):
    sizes = dict(vocab_size=7, context_length=6, n_layers=1, n_heads=2, d_model=4, d_hidden=5)
    return lambda rng, dtype: NGramDecoder(
        NGramDecoderConfig(**{**sizes, **options}, dtype=np.dtype(dtype).name), rng)


def trained_with(build, **settings):
    """A model with settings of its training loss, such as label_smoothing."""
    def built(rng, dtype):
        model = build(rng, dtype)
        for name, value in settings.items():
            setattr(model, name, value)
        return model
    return built


IDS = np.array([[3, 1, 4], [1, 5, 1]])                                # with repeats
SHORT = AttentionPattern(lengths=[3, 1])
RAGGED = AttentionPattern(mask=np.random.default_rng(3).random((4, 3)) < 0.6)

LAYERS = [
    Case("linear", lambda rng, dtype: Linear(4, 3, rng, dtype=dtype), [(2, 5, 4)],
         wrong=[((floats(2, 3),), ValueError, "C=4"), (([1.0],), TypeError, "array of floats"),
                ((np.zeros((2, 4), int),), TypeError, "array of floats"),
                ((np.zeros((2, 4), np.float32),), TypeError, "float64")]),
    Case("low-rank linear layer", lambda rng, dtype: LowRankLinear(
        Linear(4, 3, rng, dtype=dtype), 2, rng), [(2, 5, 4)],
         wrong=[((floats(2, 3),), ValueError, "C=4")]),
    Case("low-rank linear layer without bias, rank-stabilized", lambda rng, dtype: LowRankLinear(
        Linear(4, 3, rng, bias=False, dtype=dtype), 3, rng, 2.0, rank_stabilized=True), [(4,)]),
    Case("linear without bias", lambda rng, dtype: Linear(4, 3, rng, bias=False, dtype=dtype),
         [(4,)]),
    Case("language model head",
         lambda rng, dtype: LMHead(Parameter(rng.standard_normal((5, 4)).astype(dtype))),
         [(2, 3, 4)],
         wrong=[((floats(2, 3, 5),), ValueError, "C=4")]),
    Case("language model head, soft-capped", lambda rng, dtype: SoftCappedLMHead(
        Parameter(rng.standard_normal((5, 4)).astype(dtype)), cap=1.5), [(2, 3, 4)],
         wrong=[((floats(2, 3, 5),), ValueError, "C=4")]),
    Case("embedding", lambda rng, dtype: Embedding(6, 4, rng, dtype=dtype), [], ids=(IDS,),
         wrong=[((np.array([6]),), ValueError, "0 .. 5"),
                ((np.array([-1]),), ValueError, "hold -1"),
                ((np.array([1.0]),), TypeError, "integers"),
                ((np.array([], int),), ValueError, "empty")]),
    Case("embedding scaled", lambda rng, dtype: Embedding(6, 4, rng, scale=2.0, dtype=dtype), [],
         ids=(IDS,)),
    Case("adaptive embedding",
         lambda rng, dtype: AdaptiveEmbedding(6, 4, (2, 5), rng, factor=2, dtype=dtype), [],
         ids=(IDS,),
         wrong=[((np.array([6]),), ValueError, "0 .. 5"),
                ((np.array([1.0]),), TypeError, "integers")]),
    Case("adaptive embedding, a cluster without tokens",
         lambda rng, dtype: AdaptiveEmbedding(8, 4, (2, 6), rng, factor=2, dtype=dtype), [],
         ids=(IDS,)),
    Case("adaptive softmax", adaptive_softmax(6, 4, (2, 5), factor=2), [(2, 3, 4)],
         lambda: {"targets": IDS},
         wrong=[((floats(2, 3, 5),), ValueError, "C=4"),
                ((floats(3, 4),), ValueError, "targets of shape (3,)")]),
    Case("adaptive softmax, a cluster without targets", adaptive_softmax(8, 4, (2, 6), factor=2),
         [(2, 3, 4)], lambda: {"targets": IDS}),
    Case("n-gram embedding",
         lambda rng, dtype: NGramEmbedding(6, 4, largest=3, n_rows=50, rng=rng, dtype=dtype), [],
         ids=(IDS,),
         wrong=[((np.array([[6]]),), ValueError, "0 .. 5"),
                ((np.array([[1.0]]),), TypeError, "integers")]),
    Case("sinusoidal positions", lambda rng, dtype: SinusoidalPositions(5), [(2, 3, 5)],
         lambda: {"start": 4},
         wrong=[((floats(2, 3, 4),), ValueError, "C=5")]),
    Case("learned positions", lambda rng, dtype: LearnedPositions(6, 4, rng, dtype=dtype),
         [(2, 3, 4)], lambda: {"start": 2},
         wrong=[((floats(2, 7, 4),), ValueError, "only 0 .. 5")]),
    Case("rotary half", lambda rng, dtype: RotaryPositions(6), [(2, 2, 4, 6)], lambda: {"start": 3},
         wrong=[((floats(2, 2, 4, 8),), ValueError, "D=6")]),
    Case("rotary interleaved", lambda rng, dtype: RotaryPositions(6, layout="interleaved"),
         [(2, 2, 4, 6)]),
    Case("alibi", lambda rng, dtype: ALiBi(3), [(2, 3, 2, 4)],
         wrong=[((floats(2, 2, 2, 4),), ValueError, "H=3")]),
    Case("layer norm", lambda rng, dtype: LayerNorm(5, dtype=dtype), [(2, 3, 5)],
         wrong=[((floats(2, 4),), ValueError, "C=5"), ((floats(),), ValueError, "C=5")]),
    Case("layer norm without bias", lambda rng, dtype: LayerNorm(5, bias=False, dtype=dtype),
         [(5,)]),
    Case("layer norm, epsilon outside",
         lambda rng, dtype: LayerNorm(5, epsilon=0.1, epsilon_inside=False, dtype=dtype), [(3, 5)]),
    Case("rms norm", lambda rng, dtype: RMSNorm(5, dtype=dtype), [(2, 3, 5)],
         wrong=[((floats(2, 4),), ValueError, "C=5")]),
    Case("rms norm, epsilon outside",
         lambda rng, dtype: RMSNorm(5, epsilon=0.1, epsilon_inside=False, dtype=dtype), [(3, 5)]),
    Case("rms norm, unit offset",
         lambda rng, dtype: RMSNorm(5, dtype=dtype, unit_offset=True), [(2, 3, 5)]),
    Case("dropout", lambda rng, dtype: Dropout(0.4), [(3, 7)], seeded),
    Case("dropout at inference", lambda rng, dtype: Dropout(0.4), [(3, 7)]),
    Case("identity", lambda rng, dtype: Identity(), [(3, 2)]),
    Case("no positions", lambda rng, dtype: NoPositions(), [(2, 2, 4, 6)], lambda: {"start": 3}),
    *(Case(f"feed-forward {f}", lambda rng, dtype, f=f: FeedForward(3, 7, f, rng, dtype=dtype),
           [(2, 4, 3)],
           wrong=[((floats(2, 4),), ValueError, "C=3")]) for f in F.ACTIVATIONS),
    Case("swiglu", lambda rng, dtype: SwiGLU(3, 5, rng, bias=False, dtype=dtype), [(2, 4, 3)]),
    Case("geglu", lambda rng, dtype: GEGLU(3, 5, rng, dtype=dtype), [(2, 4, 3)]),
    Case("tanh-geglu", lambda rng, dtype: GatedFeedForward(3, 5, "gelu_tanh", rng, dtype=dtype),
         [(2, 4, 3)]),
    Case("gated relu", lambda rng, dtype: GatedFeedForward(3, 5, "relu", rng, dtype=dtype),
         [(4, 3)]),
    Case("attention", mha(8, 2), [(2, 3, 8)],
         wrong=[((floats(3, 8),), ValueError, "(B, T, C)"),
                ((floats(1, 0, 8),), ValueError, "empty")]),
    Case("attention, causal, grouped", mha(8, 4, n_kv_heads=2, bias=False), [(2, 4, 8)],
         lambda: {"pattern": CAUSAL}),
    Case("attention, multi-query, windowed", mha(8, 4, n_kv_heads=1), [(1, 5, 8)],
         lambda: {"pattern": AttentionPattern(window=(1, 1))}),
    Case("attention, lengths", mha(8, 2), [(2, 3, 8)], lambda: {"pattern": SHORT}),
    Case("attention, rotary", mha(8, 2, positions=RotaryPositions(4)), [(1, 4, 8)],
         lambda: {"pattern": CAUSAL}),
    Case("attention, alibi", mha(8, 2, positions=ALiBi(2)), [(1, 4, 8)],
         lambda: {"pattern": CAUSAL}),
    Case("attention, query-key norm",
         mha(8, 2, query_key_norm=True, positions=RotaryPositions(4, layout="interleaved")),
         [(1, 4, 8)]),
    Case("attention, soft-capped", mha(8, 2, softcap=0.8, scale=0.7, positions=ALiBi(2)),
         [(2, 4, 8)], lambda: {"pattern": CAUSAL}),
    Case("attention, dropout", mha(8, 2, dropout=0.3), [(2, 4, 8)], seeded),
    Case("cross-attention, rotary, T != S", mha(8, 2, positions=RotaryPositions(4)),
         [(1, 2, 8), (1, 5, 8)], lambda: {"pattern": CAUSAL}),
    Case("cross-attention, query-key norm", mha(8, 2, query_key_norm=True), [(2, 4, 8), (2, 3, 8)]),
    Case("cross-attention", mha(8, 2, d_context=5), [(2, 4, 8), (2, 3, 5)],
         lambda: {"pattern": RAGGED},
         wrong=[((floats(2, 4, 8), floats(2, 3, 6)), ValueError,
                 "context must have shape (B, S, C)"),
                ((floats(2, 4, 8), floats(3, 5)), ValueError, "context must have shape (B, S, C)"),
                ((floats(2, 4, 8), floats(3, 3, 5)), ValueError, "B=2")]),
    *(Case(f"attention, {name} positions", chosen(kind), [(2, 4, 8)],
           lambda: {"pattern": CAUSAL}) for name, kind in IN_ATTENTION.items()),
]

MODELS = [
    *(Case(f"decoder, positions={name!r}", decoder(positions=name, **SHORTER.get(name, {})), [],
           ids=(IDS,)) for name in (*ADDED, *IN_ATTENTION)),
    Case("decoder of 2017",
         trained_with(decoder(n_layers=2, norm_first=False, feedforward="relu",
                              positions="sinusoidal", embedding_scale=True),
                      label_smoothing=0.1), [],
         ids=(IDS,),
         wrong=[((np.array([1, 2]),), ValueError, "(B, T)"),
                ((np.array([[7]]),), ValueError, "0 .. 6")]),
    Case("decoder of GPT-2", decoder(n_layers=2, dropout=0.2), [], seeded, ids=(IDS,),
         wrong=[((np.zeros((1, 7), int),), ValueError, "only 0 .. 5")]),
    Case("decoder of LLaMA",
         decoder(n_layers=2, norm="rms_norm", feedforward="swiglu", positions="rotary",
                 n_kv_heads=1, bias=False, tied=False),
         [], ids=(IDS,)),
    Case("decoder, alibi, query-key norm",
         trained_with(decoder(positions="alibi", query_key_norm=True, feedforward="geglu",
                              d_model=6), z_loss=0.1),
         [], ids=(IDS,)),
    Case("decoder with n-grams, squared ReLU",
         ngram_decoder(ngrams=3, ngram_rows=23, feedforward="relu_squared", norm="rms_norm"), [],
         ids=(IDS,)),
    *(Case(f"decoder, {kind} weights", decoder(attention_weights=kind), [], ids=(IDS,),
           wrong=[((np.array([[7]]),), ValueError, "0 .. 6")]) for kind in ("even", "distance")),
    Case("decoder without positions", decoder(positions="none", tied=False, feedforward="silu"), [],
         ids=(IDS,)),
]
