"""The options of an encoder-decoder, and those of published ones by name."""

from dataclasses import dataclass

from numformer.config import like, option
from numformer.models.decoder.config import DecoderConfig
from numformer.models.transformer import ExpertsConfig
from numformer.shapes_only import MOST_ARRAYS


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(ExpertsConfig):
    """The config of an `EncoderDecoder`; the defaults are those of Vaswani et al. (2017).

    Both stacks have the same positions; cross-attention has none.

    Examples
    --------
    >>> EncoderDecoderConfig(vocab_size=65, context_length=64, n_layers=2, n_heads=4, d_model=32,
    ...                      norm="batch")
    Traceback (most recent call last):
    ValueError: EncoderDecoderConfig: norm='batch' is unknown; choose from 'layer_norm', 'rms_norm'.
    """

    vocab_size: int = option("V, the number of tokens, shared by sources and targets.")
    context_length: int = option("Longest source or target, in tokens, if positions are learned.")
    n_layers: int = option("Blocks of the decoder.", most=MOST_ARRAYS)
    norm_first: bool = False
    feedforward: str = "relu"
    positions: str = like(DecoderConfig, "positions", "sinusoidal")
    tied: bool = like(DecoderConfig, "tied")
    embedding_scale: bool = like(DecoderConfig, "embedding_scale", True)
    embedding_norm: bool = like(DecoderConfig, "embedding_norm")
    n_encoder_layers: int | None = option(
        "Blocks of the encoder; as many as in the decoder unless given.", None, most=MOST_ARRAYS)


# T5 multiplies by 1 / sqrt(C) before the head, we by sqrt(C) after the embedding: the same model,
# if its embedding table is sqrt(C) times ours.
T5 = dict(vocab_size=32128, context_length=512, norm="rms_norm", norm_first=True, positions="t5",
          scaled_scores=False, bias=False, epsilon=1e-6)
# T5 1.1, as FLAN-T5 and mT5 are: a gate, a head of its own, no scale. The sizes are those of the
# published weights; the small one has heads that are narrower than C / H.
T5_V1_1 = dict(T5, feedforward="geglu_tanh", tied=False, embedding_scale=False)
BART = dict(vocab_size=50265, context_length=1024, feedforward="gelu", positions="learned",
            embedding_scale=False, embedding_norm=True)
MBART = dict(BART, vocab_size=250027, norm_first=True, embedding_scale=True)
# Fedus et al. (2022), section 5.6: T5 1.1 with experts, one for each token, tied as T5 is; in
# Switch-C all blocks have experts, which have no gate.
SWITCH = dict(T5, feedforward="geglu_tanh", n_experts=128, experts_per_token=1, gates_over="all",
              experts_every=2, capacity_factor=1.25)
_VASWANI = dict(vocab_size=37000, context_length=512)                 # "about 37000": section 5.1

ENCODER_DECODERS = {
    name: EncoderDecoderConfig(**choices, n_layers=L, n_heads=H, d_model=C, d_hidden=F)
    for name, choices, L, H, C, F in (
        # Vaswani et al. (2017), table 3: 65 M as printed (these sizes give 63 M), and 213 M
        ("transformer-base", _VASWANI, 6, 8, 512, 2048),
        ("transformer-big", _VASWANI, 6, 16, 1024, 4096),
        # Raffel et al. (2020), section 3.7: 60 M, 220 M, 770 M. The published weights have 60.5 M,
        # 222.9 M and 737.7 M; counting the table (32.9 M) twice gives the paper's last number.
        ("t5-small", T5, 6, 8, 512, 2048),
        ("t5-base", T5, 12, 12, 768, 3072),
        ("t5-large", T5, 24, 16, 1024, 4096),
        # Fedus et al. (2022), table 9: 7 B, 26 B, 395 B and 1571 B. With the 64 experts that it
        # prints, the third would have 201 B; the published weights have 128, and 395 B.
        ("switch-base", SWITCH, 12, 12, 768, 2048), ("switch-large", SWITCH, 24, 16, 1024, 2816),
        ("switch-xxl", SWITCH, 24, 64, 4096, 10240),
        ("switch-c", dict(SWITCH, feedforward="relu", experts_every=1, n_experts=2048, d_head=64),
         15, 32, 2080, 6144),
        *((f"{family}-{size}", dict(T5_V1_1, vocab_size=V, d_head=D), L, H, C, F)
          for family, V in (("t5-v1_1", 32128), ("flan-t5", 32128), ("mt5", 250112))
          for size, D, L, H, C, F in (
              ("small", 64, 8, 6, 512, 1024), ("base", None, 12, 12, 768, 2048),
              ("large", None, 24, 16, 1024, 2816), ("xl", None, 24, 32, 2048, 5120))),
        # Lewis et al. (2020), section 4 and appendix A; the published weights
        ("bart-base", BART, 6, 12, 768, 3072), ("bart-large", BART, 12, 16, 1024, 4096),
        # Liu et al. (2020), section 2.2: BART pre-norm with 25 languages, 680 M; the published
        # weights, cc25, have 610.9 M
        ("mbart-large", MBART, 12, 16, 1024, 4096))}
