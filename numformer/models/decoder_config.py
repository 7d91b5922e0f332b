"""What a decoder is made of, and the sizes of the published ones."""

from dataclasses import dataclass
from typing import ClassVar

from numformer.checks import check_number
from numformer.models.blocks import BlockConfig


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(BlockConfig):
    """The switches of a `Decoder`: those of `BlockConfig`, and these. The defaults are GPT-2's choices.

    Parameters
    ----------
    vocab_size : int
        V.
    context_length : int
        The longest sequence it is trained on.
    positions : "learned", "sinusoidal", "rotary", "alibi" or "none"
        How the model learns the order of its tokens.
    tied : bool
        Whether the output head is the embedding's table.
    embedding_scale : bool
        Whether embeddings are multiplied by sqrt(C).
    ngrams : int
        Up to how many tokens in a row have a vector of their own, which is added to that of the last: see `NGramEmbedding`; 1 for
        single tokens alone.
    ngram_rows : int
        Most rows of a table of n-grams.
    label_smoothing, z_loss : float
        Of the loss; see `cross_entropy`.

    Raises
    ------
    ValueError
        If a number is out of range, a choice unknown, or heads do not divide the width.

    Examples
    --------
    >>> DecoderConfig(vocab_size=65, context_length=64, n_layers=4, n_heads=3, d_model=128)
    Traceback (most recent call last):
    ValueError: DecoderConfig: d_model=128 is not divisible by n_heads=3; use n_heads=2 or d_model=129.
    """

    POSITIONS: ClassVar = ("learned", "sinusoidal", *BlockConfig.POSITIONS)
    WHOLE: ClassVar = ("vocab_size", "context_length", *BlockConfig.WHOLE, "ngrams", "ngram_rows")

    vocab_size: int
    context_length: int
    positions: str = "learned"
    tied: bool = True
    embedding_scale: bool = False
    ngrams: int = 1
    ngram_rows: int = 16384
    label_smoothing: float = 0.0
    z_loss: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        check_number("DecoderConfig", "label_smoothing", self.label_smoothing, least=0, below=1)
        check_number("DecoderConfig", "z_loss", self.z_loss, least=0)


# What each paper chose; a named config below adds its sizes.
TRANSFORMER_2017 = dict(norm_first=False, feedforward="relu", positions="sinusoidal", embedding_scale=True)
GPT1 = dict(vocab_size=40478, context_length=512, norm_first=False, feedforward="gelu_tanh", positions="learned")
GPT2 = dict(vocab_size=50257, context_length=1024)
GPT3 = dict(vocab_size=50257, context_length=2048)
LLAMA = dict(vocab_size=32000, context_length=2048, norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False,
             tied=False, epsilon=1e-6)
LLAMA2 = {**LLAMA, "context_length": 4096, "epsilon": 1e-5}
LLAMA3 = {**LLAMA2, "vocab_size": 128256, "context_length": 8192, "rotary_base": 500000.0}


def _sizes(choices, n_layers, n_heads, d_model, **more):
    return DecoderConfig(**choices, n_layers=n_layers, n_heads=n_heads, d_model=d_model, **more)


CONFIGS = {
    # Radford et al. (2018), section 4.1: 117 M
    "gpt1": _sizes(GPT1, 12, 12, 768),
    # Radford et al. (2019), table 2; its parameter counts of the small ones are known to be misprints: 124 M, 355 M, 774 M, 1558 M
    "gpt2": _sizes(GPT2, 12, 12, 768),
    "gpt2-medium": _sizes(GPT2, 24, 16, 1024),
    "gpt2-large": _sizes(GPT2, 36, 20, 1280),
    "gpt2-xl": _sizes(GPT2, 48, 25, 1600),
    # Brown et al. (2020), table 2.1. Where its heads times their width miss the model's width, heads (XL) or width (13B) are set right.
    "gpt3-small": _sizes(GPT3, 12, 12, 768),
    "gpt3-medium": _sizes(GPT3, 24, 16, 1024),
    "gpt3-large": _sizes(GPT3, 24, 16, 1536),
    "gpt3-xl": _sizes(GPT3, 24, 16, 2048),
    "gpt3-2.7b": _sizes(GPT3, 32, 32, 2560),
    "gpt3-6.7b": _sizes(GPT3, 32, 32, 4096),
    "gpt3-13b": _sizes(GPT3, 40, 40, 5120),
    "gpt3": _sizes(GPT3, 96, 96, 12288),
    # Touvron et al. (2023), "LLaMA", table 2
    "llama-7b": _sizes(LLAMA, 32, 32, 4096, d_hidden=11008),
    "llama-13b": _sizes(LLAMA, 40, 40, 5120, d_hidden=13824),
    "llama-33b": _sizes(LLAMA, 60, 52, 6656, d_hidden=17920),
    "llama-65b": _sizes(LLAMA, 80, 64, 8192, d_hidden=22016),
    # Touvron et al. (2023), "Llama 2", table 1
    "llama2-7b": _sizes(LLAMA2, 32, 32, 4096, d_hidden=11008),
    "llama2-13b": _sizes(LLAMA2, 40, 40, 5120, d_hidden=13824),
    "llama2-70b": _sizes(LLAMA2, 80, 64, 8192, d_hidden=28672, n_kv_heads=8),
    # Grattafiori et al. (2024), "The Llama 3 Herd of Models", table 3
    "llama3-8b": _sizes(LLAMA3, 32, 32, 4096, d_hidden=14336, n_kv_heads=8),
    "llama3-70b": _sizes(LLAMA3, 80, 64, 8192, d_hidden=28672, n_kv_heads=8),
    "llama3-405b": _sizes(LLAMA3, 126, 128, 16384, d_hidden=53248, n_kv_heads=8),
}
