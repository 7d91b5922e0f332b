"""Options of published decoders, and the layers that they bring."""

from numformer.layers import GatedSwishFeedForward, Swish, SwishFeedForward
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case
from numformer.verify.registry.transformer import IDS, decoder

LAYERS = [
    Case("swish, trained", lambda rng, dtype: Swish(7, dtype), [(2, 4, 7)],
         wrong=[((floats(2, 6),), ValueError, "F=7")]),
    Case("feed-forward, trained swish",
         lambda rng, dtype: SwishFeedForward(3, 7, rng, dtype=dtype), [(2, 4, 3)],
         wrong=[((floats(2, 4),), ValueError, "C=3")]),
    Case("feed-forward, gated by a trained swish",
         lambda rng, dtype: GatedSwishFeedForward(3, 5, rng, dtype=dtype), [(2, 4, 3)],
         wrong=[((floats(2, 4),), ValueError, "C=3")]),
]

MODELS = [
    Case("decoder of Gemma 2", decoder(
        norm="rms_norm", unit_offset=True, feedforward="geglu_tanh", positions="rotary",
        n_kv_heads=1, bias=False, embedding_scale=True, score_scale=0.3, score_softcap=1.5,
        logit_softcap=2.0, sandwich_norm=True), [], ids=(IDS,)),
    Case("decoder of GPT-NeoX", decoder(
        positions="rotary", parallel_residual=True, tied=False, feedforward="gelu"), [],
         ids=(IDS,)),
    Case("decoder of BLOOM, dropout", decoder(positions="alibi", embedding_norm=True, dropout=0.2),
         [], seeded, ids=(IDS,)),
    Case("decoder, relative bias of T5",
         decoder(n_layers=2, positions="t5", n_buckets=6, max_distance=4), [], ids=(IDS,)),
    Case("decoder, positions of Shaw", decoder(positions="shaw", max_distance=1), [], ids=(IDS,)),
    Case("decoder, trained swish", decoder(feedforward="swish"), [], ids=(IDS,)),
    Case("decoder, gated by a trained swish, learned positions concatenated",
         decoder(feedforward="gated_swish", positions="concatenated_learned", bias=False), [],
         ids=(IDS,)),
]
