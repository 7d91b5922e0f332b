"""What a decoder is made of, and the sizes of the published ones."""

from dataclasses import MISSING, asdict, dataclass, fields

from numformer.checks import check_choice, check_divides, check_number, check_whole
from numformer.functional.activations import ACTIVATIONS

GATED = {"swiglu": "silu", "geglu": "gelu"}                           # gated feed-forwards, and the activation of their gate


@dataclass(frozen=True)
class DecoderConfig:
    """The switches of a `Decoder`. The defaults are GPT-2's choices.

    Parameters
    ----------
    vocab_size : int
        V.
    context_length : int
        The longest sequence it is trained on.
    n_layers : int
        Blocks.
    n_heads : int
        H, query heads in a block.
    d_model : int
        C, the width.
    n_kv_heads : int, optional
        G, key-value heads, which divides H; H unless given.
    d_hidden : int, optional
        F; unless given 4 C, or for gated feed-forwards 8/3 C rounded up to a multiple of 8.
    norm : "layer_norm" or "rms_norm"
        How vectors are held in size.
    norm_first : bool
        Pre-norm, with one more norm before the output head; or post-norm.
    feedforward : "relu", "relu_squared", "gelu", "gelu_tanh", "silu", "swiglu" or "geglu"
        The nonlinearity of the feed-forward; the last two are gated.
    positions : "learned", "sinusoidal", "rotary", "alibi" or "none"
        How the model learns the order of its tokens.
    rotary_base : float
        See `RotaryPositions`.
    rotary_layout : "half" or "interleaved"
        See `RotaryPositions`.
    query_key_norm : bool
        Whether queries and keys pass an RMSNorm.
    bias : bool
        Whether linear maps and LayerNorms have one.
    tied : bool
        Whether the output head is the embedding's table.
    embedding_scale : bool
        Whether embeddings are multiplied by sqrt(C).
    ngrams : int
        Up to how many tokens in a row have a vector of their own, which is added to that of the last: see `NGramEmbedding`; 1 for
        single tokens alone.
    ngram_rows : int
        Most rows of a table of n-grams.
    dropout : float in [0, 1)
        For embeddings, attention weights and branches.
    epsilon : float
        Of the norms.
    init_std : float
        Of initial weights.
    zero_branches : bool
        Whether the last matrix of every branch starts at zero, so that a new block changes nothing.
    label_smoothing, z_loss : float
        Of the loss; see `cross_entropy`.
    dtype : "float32" or "float64"
        Of parameters and everything computed from them.

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

    vocab_size: int
    context_length: int
    n_layers: int
    n_heads: int
    d_model: int
    n_kv_heads: int | None = None
    d_hidden: int | None = None
    norm: str = "layer_norm"
    norm_first: bool = True
    feedforward: str = "gelu_tanh"
    positions: str = "learned"
    rotary_base: float = 10000.0
    rotary_layout: str = "half"
    query_key_norm: bool = False
    bias: bool = True
    tied: bool = True
    embedding_scale: bool = False
    ngrams: int = 1
    ngram_rows: int = 16384
    dropout: float = 0.0
    epsilon: float = 1e-5
    init_std: float = 0.02
    zero_branches: bool = False
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    dtype: str = "float32"

    def __post_init__(self):
        owner = "DecoderConfig"
        for name in ("vocab_size", "context_length", "n_layers", "ngrams", "ngram_rows"):
            check_whole(owner, name, getattr(self, name))
        check_divides(owner, "d_model", self.d_model, "n_heads", self.n_heads)
        if self.n_kv_heads is not None:
            check_divides(owner, "n_heads", self.n_heads, "n_kv_heads", self.n_kv_heads)
        if self.d_hidden is not None:
            check_whole(owner, "d_hidden", self.d_hidden)
        check_choice(owner, "norm", self.norm, ["layer_norm", "rms_norm"])
        check_choice(owner, "feedforward", self.feedforward, [*ACTIVATIONS, *GATED])
        check_choice(owner, "positions", self.positions, ["learned", "sinusoidal", "rotary", "alibi", "none"])
        check_choice(owner, "rotary_layout", self.rotary_layout, ["half", "interleaved"])
        check_choice(owner, "dtype", self.dtype, ["float32", "float64"])
        for name in ("norm_first", "query_key_norm", "bias", "tied", "embedding_scale", "zero_branches"):
            check_choice(owner, name, getattr(self, name), [True, False])
        for name in ("dropout", "label_smoothing"):
            check_number(owner, name, getattr(self, name), least=0, below=1)
        for name in ("init_std", "z_loss"):
            check_number(owner, name, getattr(self, name), least=0)
        check_number(owner, "epsilon", self.epsilon, least=1e-12)
        check_number(owner, "rotary_base", self.rotary_base, least=1)
        if self.positions == "rotary" and self.d_model // self.n_heads % 2:
            raise ValueError(f"{owner}: rotary positions need heads of even width, but d_model / n_heads = "
                             f"{self.d_model // self.n_heads}; use another n_heads, or other positions.")

    @property
    def hidden_width(self):
        """F, with its default worked out."""
        if self.d_hidden is not None:
            return self.d_hidden
        return -(-8 * self.d_model // 24) * 8 if self.feedforward in GATED else 4 * self.d_model

    def as_dict(self):
        """All switches, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, switches):
        """The config of `as_dict`.

        Raises
        ------
        ValueError
            If a switch is unknown or a needed one is missing.
        """
        known = {field.name for field in fields(cls)}
        missing = {field.name for field in fields(cls) if field.default is MISSING} - set(switches)
        if set(switches) - known or missing:
            raise ValueError(f"DecoderConfig: the switches do not fit; unknown: {sorted(set(switches) - known)}, "
                             f"missing: {sorted(missing)}.")
        return cls(**switches)


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
