"""The options that all Transformers share."""

from dataclasses import dataclass, fields
from typing import ClassVar

from numformer.checks import check_choice, check_divides, check_number, check_whole
from numformer.config import Config
from numformer.functional.activations.table import ACTIVATIONS, GATED
from numformer.functional.positions.relative_bias import relative_position_buckets
from numformer.functional.positions.rotary_scaling import scaled_frequencies
from numformer.layers.attention.head_width import check_head_width
from numformer.layers.positions.rotary import check_d_rotary
from numformer.shapes_only import MOST_ARRAYS


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """The config of a stack of blocks; a model's config inherits it and adds its own fields.

    Parameters
    ----------
    n_layers : int
        Number of blocks.
    n_heads : int
        H, query heads of a block.
    d_model : int
        C, the width.
    n_kv_heads : int, optional
        G, key-value heads; G must divide H. By default, H.
    d_head : int, optional
        D, the width of a head; by default C / H, and then H must divide C.
    d_hidden : int, optional
        F; by default 4 C, or for gated feed-forwards 8/3 C rounded up to a multiple of 8.
    norm : "layer_norm" or "rms_norm", and "batch_norm" in encoders
        Which normalization.
    unit_offset : bool
        Whether the factors of RMSNorms are 1 + weight: see `RMSNorm`.
    norm_first : bool
        True: pre-norm, with a final norm after the last block. False: post-norm.
    sandwich_norm : bool
        Whether pre-norm branches also have a norm after the sublayer: see `ResidualBranch`.
    parallel_residual : bool
        Whether the branches of a block run in parallel: see `ParallelBlock`.
    feedforward : "relu", "relu_squared", "gelu", "gelu_tanh", "quick_gelu", "silu", "swiglu", \
"geglu", "geglu_tanh", "swish" or "gated_swish"
        The activation of the feed-forward; "swiglu", "geglu", "geglu_tanh" and the last are
        gated, and the last two are trained: see `SwishFeedForward`, `GatedSwishFeedForward`.
    positions : "rotary", "alibi", "t5", "shaw", "concatenated_learned", \
"concatenated_sinusoidal" or "none", and more in some models
        How attention depends on the order of the tokens. "t5" is a bias by distance, one table for
        a stack: see `RelativePositionBias`. "shaw" has vectors of distance: see `ShawPositions`.
        Concatenated vectors and tokens are mapped to width C: see `ConcatenatedPositions`.
    n_buckets, max_distance : int
        Rows of T5's table; T5's and Shaw's distances from here on are one.
    rotary_base, rotary_layout : float; "half" or "interleaved"
        See `RotaryPositions`.
    d_rotary : int, optional
        R, even: the first coordinates of a head, which are rotated; by default all D.
    rotary_scaling : dict, optional
        For longer texts than those of pretraining: see `scaled_frequencies`.
    query_key_norm, scaled_scores : bool
        Apply an RMSNorm to queries and keys; divide scores by sqrt(D), as all but T5 do.
    score_scale, score_softcap : float, optional
        The scale of the scores, if it is not that; the bound of the scaled scores: see `soft_cap`.
    bias : bool
        Give linear maps and LayerNorms a bias.
    qkv_bias : bool, optional
        Give the linear maps of queries, keys and values a bias; by default as `bias` says.
    dropout : float in [0, 1)
        Rate for embeddings, attention weights and residual branches.
    epsilon, init_std : float
        The epsilon of norms; the standard deviation of initial weights.
    dtype : "float32" or "float64"
        Of parameters and activations.
    """

    NORMS: ClassVar = ("layer_norm", "rms_norm")
    POSITIONS: ClassVar = ("rotary", "alibi", "t5", "shaw", "concatenated_learned",
                           "concatenated_sinusoidal", "none")
    WHOLE: ClassVar = ("n_layers",)                                   # whole numbers, 1 or more
    ABOVE_ZERO: ClassVar = ("score_scale", "score_softcap")           # numbers, or None

    n_layers: int
    n_heads: int
    d_model: int
    n_kv_heads: int | None = None
    d_head: int | None = None
    d_hidden: int | None = None
    norm: str = "layer_norm"
    unit_offset: bool = False
    norm_first: bool = True
    sandwich_norm: bool = False
    parallel_residual: bool = False
    feedforward: str = "gelu_tanh"
    positions: str = "none"
    n_buckets: int = 32
    max_distance: int = 128
    rotary_base: float = 10000.0
    rotary_layout: str = "half"
    d_rotary: int | None = None
    rotary_scaling: dict | None = None
    query_key_norm: bool = False
    scaled_scores: bool = True
    score_scale: float | None = None
    score_softcap: float | None = None
    bias: bool = True
    qkv_bias: bool | None = None
    dropout: float = 0.0
    epsilon: float = 1e-5
    init_std: float = 0.02
    dtype: str = "float32"

    def __post_init__(self):
        owner = type(self).__name__
        for name in self.WHOLE:
            check_whole(owner, name, getattr(self, name))
        for field in fields(self):
            if field.name.endswith("layers") and getattr(self, field.name) is not None:
                check_whole(owner, field.name, getattr(self, field.name), most=MOST_ARRAYS)
        check_head_width(owner, self.d_model, self.n_heads, self.d_head)
        if self.n_kv_heads is not None:
            check_divides(owner, "n_heads", self.n_heads, "n_kv_heads", self.n_kv_heads)
        if self.d_hidden is not None:
            check_whole(owner, "d_hidden", self.d_hidden)
        for name, choices in (
                ("norm", self.NORMS),
                ("feedforward", [*ACTIVATIONS, *GATED, "swish", "gated_swish"]),
                ("positions", self.POSITIONS), ("rotary_layout", ["half", "interleaved"]),
                ("dtype", ["float32", "float64"]), ("qkv_bias", [None, True, False]),
                *((field.name, [True, False]) for field in fields(self) if field.type is bool)):
            check_choice(owner, name, getattr(self, name), choices)
        if self.positions == "t5":
            relative_position_buckets(0, self.n_buckets, self.max_distance)           # checks them
        check_whole(owner, "max_distance", self.max_distance)
        for name in self.ABOVE_ZERO:
            if getattr(self, name) is not None:
                check_number(owner, name, getattr(self, name), above=0)
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
        check_number(owner, "dropout", self.dropout, least=0, below=1)
        for name, least in (("init_std", 0), ("epsilon", 1e-12), ("rotary_base", 1)):
            check_number(owner, name, getattr(self, name), least=least)
        if self.d_rotary is not None:
            check_d_rotary(owner, self.head_width, self.d_rotary)
        elif self.positions == "rotary" and self.head_width % 2:
            name = "d_model / n_heads" if self.d_head is None else "d_head"
            raise ValueError(
                f"{owner}: rotary positions need heads of even width, but {name} = "
                f"{self.head_width}; use another n_heads or d_head, or other positions.")
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
