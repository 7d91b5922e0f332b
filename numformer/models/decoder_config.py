"""What a decoder is made of, and the sizes of the published ones."""

from dataclasses import dataclass
from typing import ClassVar

from numformer.checks import check_choice, check_number
from numformer.functional.router import check_k
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
    n_experts : int
        E, feed-forwards in a block, of which a router chooses for every token: see `MixtureOfExperts`; 1 for a plain feed-forward,
        to which the next five settings mean nothing.
    experts_per_token : int
        k.
    gates_over : "chosen" or "all"
        Whose logits share the softmax that weighs the experts; with one expert per token it must be "all".
    capacity_factor : float
        How many times its even share of a batch's tokens an expert takes at most; 0 for all that are sent.
    balance_weight, router_z_weight : float
        Of the auxiliary losses of every block, which are added to the loss.
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
    WHOLE: ClassVar = ("vocab_size", "context_length", *BlockConfig.WHOLE, "ngrams", "ngram_rows", "n_experts", "experts_per_token")

    vocab_size: int
    context_length: int
    n_experts: int = 1
    experts_per_token: int = 2
    gates_over: str = "chosen"
    capacity_factor: float = 0.0
    balance_weight: float = 0.01
    router_z_weight: float = 0.0
    positions: str = "learned"
    tied: bool = True
    embedding_scale: bool = False
    ngrams: int = 1
    ngram_rows: int = 16384
    label_smoothing: float = 0.0
    z_loss: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        owner = "DecoderConfig"
        check_number(owner, "label_smoothing", self.label_smoothing, least=0, below=1)
        for name in ("z_loss", "capacity_factor", "balance_weight", "router_z_weight"):
            check_number(owner, name, getattr(self, name), least=0)
        check_choice(owner, "gates_over", self.gates_over, ["chosen", "all"])
        if self.n_experts > 1:
            check_k(owner, "experts_per_token", self.experts_per_token, self.n_experts)
            if self.experts_per_token == 1 and self.gates_over == "chosen":
                raise ValueError(f"{owner}: with experts_per_token=1 and gates_over='chosen' every weight is 1, and the router learns "
                                 "nothing of the loss; use gates_over='all' or experts_per_token=2.")


# What each paper chose; a named config below adds its sizes.
TRANSFORMER_2017 = dict(norm_first=False, feedforward="relu", positions="sinusoidal", embedding_scale=True)
GPT1 = dict(vocab_size=40478, context_length=512, norm_first=False, feedforward="gelu_tanh", positions="learned")
GPT2 = dict(vocab_size=50257, context_length=1024)
GPT3 = dict(vocab_size=50257, context_length=2048)
LLAMA = dict(vocab_size=32000, context_length=2048, norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False,
             tied=False, epsilon=1e-6)
LLAMA2 = {**LLAMA, "context_length": 4096, "epsilon": 1e-5}
MIXTRAL = {**LLAMA2, "context_length": 32768, "rotary_base": 1000000.0, "n_experts": 8, "experts_per_token": 2}
LLAMA3 = {**LLAMA2, "vocab_size": 128256, "context_length": 8192, "rotary_base": 500000.0}


def _sizes(choices, n_layers, n_heads, d_model, **more):
    return DecoderConfig(**choices, n_layers=n_layers, n_heads=n_heads, d_model=d_model, **more)


DECODERS = {
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
    # Jiang et al. (2024), "Mixtral of Experts", table 1: 47 B, of which 13 B work for a token; its code release has the rotary base
    "mixtral-8x7b": _sizes(MIXTRAL, 32, 32, 4096, d_hidden=14336, n_kv_heads=8),
}
