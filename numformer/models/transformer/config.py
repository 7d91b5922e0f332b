"""The options that all Transformers share."""

from dataclasses import dataclass

from numformer.checks import check_divides
from numformer.config import DTYPES, Config, option
from numformer.functional.activations.table import ACTIVATIONS, GATED
from numformer.functional.positions.rotary_scaling import scaled_frequencies
from numformer.layers.attention.head_width import check_head_width
from numformer.layers.positions.rotary import check_d_rotary
from numformer.layers.positions.schemes import ADDED, IN_ATTENTION
from numformer.shapes_only import MOST_ARRAYS

NORMS = "layer_norm", "rms_norm"
FEEDFORWARDS = (*ACTIVATIONS, *GATED, "swish", "gated_swish")
# What every stack can have; absolute positions, which a model adds to its input, come before these
POSITIONS = (*IN_ATTENTION, *(f"concatenated_{name}" for name in ADDED), "none")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """The config of a stack of blocks; a model's config inherits it and adds its own fields."""

    n_layers: int = option("Number of blocks.", most=MOST_ARRAYS)
    n_heads: int = option("H, query heads of a block.")
    d_model: int = option("C, the width.")
    n_kv_heads: int | None = option("G, key-value heads; G must divide H. By default, H.", None)
    d_head: int | None = option(
        "D, the width of a head; by default C / H, and then H must divide C.", None)
    d_hidden: int | None = option(
        "F, the hidden width of the feed-forward; by default 4 C, or for gated feed-forwards 8/3 C "
        "rounded up to a multiple of 8.", None)
    norm: str = option("Which normalization.", "layer_norm", choices=NORMS)
    unit_offset: bool = option(
        "Whether the factors of RMSNorms are 1 + weight: see `RMSNorm`.", False)
    norm_first: bool = option(
        "True: pre-norm, with a final norm after the last block. False: post-norm.", True)
    sandwich_norm: bool = option(
        "Whether pre-norm branches also have a norm after the sublayer: see `ResidualBranch`.",
        False)
    parallel_residual: bool = option(
        "Whether the branches of a block run in parallel: see `ParallelBlock`.", False)
    feedforward: str = option(
        "The activation of the feed-forward. Those of `GATED` and gated_swish are gated; the beta "
        "of swish and gated_swish is trained: see `SwishFeedForward`, `GatedSwishFeedForward`.",
        "gelu_tanh", choices=FEEDFORWARDS)
    positions: str = option(
        "How attention depends on the order of the tokens: see the layers of `positions`. t5 is a "
        "bias by distance, one table for a stack; shaw has vectors of distance; concatenated "
        "vectors and tokens are mapped to width C.", "none", choices=POSITIONS)
    n_buckets: int = option("Rows of T5's table of distances.", 32)
    max_distance: int = option("T5's and Shaw's distances from here on are one.", 128)
    rotary_base: float = option(
        "The slowest rotary angle is about 1 / rotary_base: see `RotaryPositions`.", 10000.0,
        least=1)
    rotary_layout: str = option(
        "Which coordinates are rotated as a pair: see `RotaryPositions`.", "half",
        choices=("half", "interleaved"))
    d_rotary: int | None = option(
        "R, even: the first coordinates of a head, which are rotated; by default all D.", None)
    rotary_scaling: dict | None = option(
        "For longer texts than those of pretraining: see `scaled_frequencies`.", None)
    query_key_norm: bool = option("Apply an RMSNorm to queries and keys.", False)
    scaled_scores: bool = option("Divide scores by sqrt(D), as all but T5 do.", True)
    score_scale: float | None = option(
        "The scale of the scores, if it is not 1 / sqrt(D).", None, above=0)
    score_softcap: float | None = option(
        "The bound of the scaled scores: see `soft_cap`.", None, above=0)
    bias: bool = option("Give linear maps and LayerNorms a bias.", True)
    qkv_bias: bool | None = option(
        "Give the linear maps of queries, keys and values a bias; by default as `bias` says.", None)
    dropout: float = option(
        "Rate for embeddings, attention weights and residual branches.", 0.0, least=0, below=1)
    epsilon: float = option("The epsilon of norms.", 1e-5, least=1e-12)
    init_std: float = option("The standard deviation of initial weights.", 0.02, least=0)
    dtype: str = option("Of parameters and activations.", "float32", choices=DTYPES)

    def __post_init__(self):
        super().__post_init__()
        owner = type(self).__name__
        check_head_width(owner, self.d_model, self.n_heads, self.d_head)
        if self.n_kv_heads is not None:
            check_divides(owner, "n_heads", self.n_heads, "n_kv_heads", self.n_kv_heads)
        if self.positions in IN_ATTENTION:
            IN_ATTENTION[self.positions].check_config(owner, self)
        for name in ("sandwich_norm", "parallel_residual"):
            if getattr(self, name) and not self.norm_first:
                raise ValueError(f"{owner}: {name}=True is a form of pre-norm blocks, but "
                                 "norm_first=False; use norm_first=True.")
        if self.score_scale is not None and not self.scaled_scores:
            raise ValueError(f"{owner}: scaled_scores=False is a scale of 1, but score_scale="
                             f"{self.score_scale}; leave one of the two out.")
        if self.unit_offset and self.norm != "rms_norm":
            raise ValueError(f"{owner}: unit_offset=True is an option of RMSNorm, but norm="
                             f"{self.norm!r}; use norm='rms_norm'.")
        if self.d_rotary is not None:
            check_d_rotary(owner, self.head_width, self.d_rotary)
        scaled_frequencies(self.d_rotary or 2, self.rotary_base, self.rotary_scaling)

    @property
    def head_width(self):
        """D, with its default."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head

    @property
    def hidden_width(self):
        """F, with its default."""
        if self.d_hidden is not None:
            return self.d_hidden
        gated = self.feedforward in (*GATED, "gated_swish")
        return -(-8 * self.d_model // 24) * 8 if gated else 4 * self.d_model

    @property
    def optional_sizes(self):
        """Widths and numbers of layers that may be left out, by name, with their defaults."""
        return {"d_hidden": self.hidden_width}
