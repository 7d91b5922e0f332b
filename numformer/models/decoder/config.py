"""The options of a decoder, and those of published ones by name."""

from dataclasses import dataclass

from numformer.config import option
from numformer.layers.positions.schemes import ADDED, IN_ATTENTION
from numformer.models.transformer import POSITIONS, ExpertsConfig, LocalLayersConfig


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(LocalLayersConfig, ExpertsConfig):
    """The config of a `Decoder`; the defaults are GPT-2's.

    Examples
    --------
    >>> DecoderConfig(vocab_size=65, context_length=64, n_layers=4, n_heads=3, d_model=8)
    Traceback (most recent call last):
    ValueError: DecoderConfig: d_model=8 is not divisible by n_heads=3; use n_heads=2 or d_model=9.
    """

    vocab_size: int = option("V, the number of tokens.")
    context_length: int = option("Longest sequence in training.")
    positions: str = option(
        "How the model depends on the order of its tokens: absolute positions that are added to "
        "the embeddings, or what attention can have, see `TransformerConfig`.", "learned",
        choices=(*ADDED, *POSITIONS))
    attention_weights: str = option(
        "Learned from queries and keys; or without them: even, the same for all keys, or by "
        "distance with a trained slope for each head. See `FixedWeightAttention`.", "learned",
        choices=("learned", "even", "distance"))
    tied: bool = option("Use the token embedding as the output head, too.", True)
    lm_head_bias: bool = option("Add a learned number to the logit of every token.", False)
    logit_softcap: float | None = option(
        "The bound of the logits: see `SoftCappedLMHead`.", None, above=0)
    embedding_scale: bool = option("Multiply embeddings by sqrt(C).", False)
    embedding_norm: bool = option(
        "Apply a norm to embeddings, positions included, before the first block.", False)

    def __post_init__(self):
        super().__post_init__()
        self._check_fixed_weights(type(self).__name__)

    def _check_fixed_weights(self, owner):
        """Without queries and keys, no option of theirs may be given."""
        unused = {"n_kv_heads": None, "d_head": None, "query_key_norm": False, "qkv_bias": None,
                  "score_scale": None, "score_softcap": None, "scaled_scores": True}
        given = [name for name, unset in unused.items() if getattr(self, name) != unset]
        given += ["positions"] * (self.positions in IN_ATTENTION)
        if self.attention_weights != "learned" and given:
            raise ValueError(
                f"{owner}: attention_weights={self.attention_weights!r} has no queries and keys, "
                f"for which {given[0]}={getattr(self, given[0])!r} is; leave one of them out.")


# Each paper's options; Mixtral's rotary base is that of its code.
TRANSFORMER_2017 = dict(norm_first=False, feedforward="relu", positions="sinusoidal",
                        embedding_scale=True)
GPT1 = dict(vocab_size=40478, context_length=512, norm_first=False)
GPT2 = dict(vocab_size=50257, context_length=1024)
GPT3 = dict(vocab_size=50257, context_length=2048)
GPT3_WIDE = {**GPT3, "d_head": 128}                           # H D is not C
LLAMA = dict(vocab_size=32000, context_length=2048, norm="rms_norm", feedforward="swiglu",
             positions="rotary", bias=False, tied=False, epsilon=1e-6)
LLAMA2 = {**LLAMA, "context_length": 4096, "epsilon": 1e-5}
LLAMA3 = {**LLAMA2, "vocab_size": 128256, "context_length": 8192, "rotary_base": 500000.0}
MIXTRAL = {**LLAMA2, "context_length": 32768, "rotary_base": 1000000.0, "n_experts": 8,
           "experts_per_token": 2}
# Chowdhery et al. (2022), section 2: one key-value head, parallel branches, no biases, SwiGLU with
# F = 4 C, and heads of width 256. Their LayerNorms have no bias: they are RMSNorms in size.
PALM = dict(vocab_size=256000, context_length=2048, norm="rms_norm", parallel_residual=True,
            feedforward="swiglu", positions="rotary", bias=False, d_head=256)
# Du et al. (2022), section 4: a bias by distance in place of positions (Transformer-XL's, here
# T5's), every other block with experts, of which a token uses two; a gate in the other blocks alone
GLAM = dict(vocab_size=256000, context_length=1024, norm="rms_norm", feedforward="geglu",
            expert_feedforward="gelu", positions="t5", bias=False, d_head=128, n_experts=64,
            experts_every=2, experts_per_token=2)

_SIZES = (                                                    # L, H, C; F and G where they differ
    # Radford et al. (2018), section 4.1
    ("gpt1", GPT1, 12, 12, 768),
    # Radford et al. (2019), table 2, whose parameter counts of the small ones are known misprints
    ("gpt2", GPT2, 12, 12, 768), ("gpt2-medium", GPT2, 24, 16, 1024),
    ("gpt2-large", GPT2, 36, 20, 1280), ("gpt2-xl", GPT2, 48, 25, 1600),
    # Brown et al. (2020), table 2.1 as printed. Section 2.1 alternates dense layers with layers of
    # "locally banded sparse attention"; it gives no width of the band, and here all are dense
    ("gpt3-small", GPT3, 12, 12, 768), ("gpt3-medium", GPT3, 24, 16, 1024),
    ("gpt3-large", GPT3, 24, 16, 1536), ("gpt3-xl", GPT3_WIDE, 24, 24, 2048),
    ("gpt3-2.7b", GPT3, 32, 32, 2560), ("gpt3-6.7b", GPT3, 32, 32, 4096),
    ("gpt3-13b", GPT3_WIDE, 40, 40, 5140), ("gpt3", GPT3, 96, 96, 12288),
    # Touvron et al. (2023), "LLaMA", table 2
    ("llama-7b", LLAMA, 32, 32, 4096, 11008), ("llama-13b", LLAMA, 40, 40, 5120, 13824),
    ("llama-33b", LLAMA, 60, 52, 6656, 17920), ("llama-65b", LLAMA, 80, 64, 8192, 22016),
    # Touvron et al. (2023), "Llama 2", table 1
    ("llama2-7b", LLAMA2, 32, 32, 4096, 11008), ("llama2-13b", LLAMA2, 40, 40, 5120, 13824),
    ("llama2-70b", LLAMA2, 80, 64, 8192, 28672, 8),
    # Grattafiori et al. (2024), "The Llama 3 Herd of Models", table 3
    ("llama3-8b", LLAMA3, 32, 32, 4096, 14336, 8), ("llama3-70b", LLAMA3, 80, 64, 8192, 28672, 8),
    ("llama3-405b", LLAMA3, 126, 128, 16384, 53248, 8),
    # Jiang et al. (2024), "Mixtral of Experts", table 1: 13 B of 47 B parameters are active
    ("mixtral-8x7b", MIXTRAL, 32, 32, 4096, 14336, 8),
    # Chowdhery et al. (2022), table 1: 8.63 B, 62.50 B and 540.35 B
    ("palm-8b", PALM, 32, 16, 4096, 16384, 1), ("palm-62b", PALM, 64, 32, 8192, 32768, 1),
    ("palm-540b", PALM, 118, 48, 18432, 73728, 1),
    # Du et al. (2022): 143 B with 9.8 B active, and 1.2 T with 96.6 B
    ("glam-8b-64e", GLAM, 32, 32, 4096, 16384), ("glam-64b-64e", GLAM, 64, 128, 8192, 32768))
_NAMES = "n_layers", "n_heads", "d_model", "d_hidden", "n_kv_heads"
DECODERS = {name: DecoderConfig(**choices, **dict(zip(_NAMES, sizes)))
            for name, choices, *sizes in _SIZES}
