"""What an encoder-decoder is made of, and the sizes of the published ones."""

from dataclasses import dataclass
from typing import ClassVar

from numformer.checks import check_number
from numformer.functional.relative_positions import relative_position_buckets
from numformer.models.blocks import BlockConfig


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(BlockConfig):
    """The switches of an `EncoderDecoder`: those of `BlockConfig`, and these. The defaults are the choices of 2017.

    Parameters
    ----------
    vocab_size : int
        V, of the one vocabulary of sources and targets.
    context_length : int
        S and T at most, where positions are learned.
    n_layers : int
        Blocks of the encoder, and of the decoder.
    norm_first : bool
        Pre-norm, with one more norm after the last block of each stack; or post-norm.
    feedforward : "relu", "relu_squared", "gelu", "gelu_tanh", "silu", "swiglu" or "geglu"
        The nonlinearity of the feed-forward; the last two are gated.
    positions : "sinusoidal", "learned", "learned_rotary", "rotary", "alibi", "t5" or "none"
        How the model learns the order of its tokens: learned_rotary is both, t5 a bias by distance, see `RelativePositionBias`, one
        table for the encoder and one for the decoder. None of them acts between the decoder and the memory.
    n_buckets, max_distance : int
        Of t5 positions.
    tied : bool
        Whether the output head is the embedding's table.
    embedding_scale : bool
        Whether embeddings are multiplied by sqrt(C).
    label_smoothing : float in [0, 1)
        Of the loss; see `cross_entropy`.

    Raises
    ------
    ValueError
        If a number is out of range, a choice unknown, or heads do not divide the width.

    Examples
    --------
    >>> EncoderDecoderConfig(vocab_size=65, context_length=64, n_layers=2, n_heads=4, d_model=32, norm="batch_norm")
    Traceback (most recent call last):
    ValueError: EncoderDecoderConfig: norm='batch_norm' is unknown; choose from 'layer_norm', 'rms_norm'.
    """

    POSITIONS: ClassVar = ("sinusoidal", "learned", "learned_rotary", "t5", *BlockConfig.POSITIONS)
    WHOLE: ClassVar = ("vocab_size", "context_length", *BlockConfig.WHOLE)

    vocab_size: int
    context_length: int
    norm_first: bool = False
    feedforward: str = "relu"
    positions: str = "sinusoidal"
    n_buckets: int = 32
    max_distance: int = 128
    tied: bool = True
    embedding_scale: bool = True
    label_smoothing: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        check_number("EncoderDecoderConfig", "label_smoothing", self.label_smoothing, least=0, below=1)
        if self.positions == "t5":
            relative_position_buckets(0, self.n_buckets, self.max_distance)


# T5 multiplies by 1 / sqrt(C) before the head instead of by sqrt(C) after the embedding: the same model, with a table sqrt(C) times ours
T5 = dict(vocab_size=32128, context_length=512, norm="rms_norm", norm_first=True, positions="t5", scaled_scores=False, bias=False,
          epsilon=1e-6)
BART = dict(vocab_size=50265, context_length=1024, feedforward="gelu", positions="learned", embedding_scale=False)


def _sizes(choices, n_layers, n_heads, d_model, d_hidden):
    return EncoderDecoderConfig(**choices, n_layers=n_layers, n_heads=n_heads, d_model=d_model, d_hidden=d_hidden)


ENCODER_DECODERS = {
    # Vaswani et al. (2017), table 3, with the "about 37000" tokens of section 5.1: 65 M (as printed; these sizes give 63 M) and 213 M
    "transformer-base": _sizes(dict(vocab_size=37000, context_length=512), 6, 8, 512, 2048),
    "transformer-big": _sizes(dict(vocab_size=37000, context_length=512), 6, 16, 1024, 4096),
    # Raffel et al. (2020), section 3.7: 60 M, 220 M, 770 M. The weights published have 60.5 M, 222.9 M and 737.7 M; the paper's number
    # of the large one is had by counting its table (32.9 M) twice, as embedding and as head
    "t5-small": _sizes(T5, 6, 8, 512, 2048),
    "t5-base": _sizes(T5, 12, 12, 768, 3072),
    "t5-large": _sizes(T5, 24, 16, 1024, 4096),
}
