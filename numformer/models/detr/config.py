"""The options of DETR."""

from dataclasses import dataclass

from numformer.checks import check_divides, check_even
from numformer.config import Config, like, option
from numformer.layers.attention.head_width import check_head_width
from numformer.models.transformer import TransformerConfig
from numformer.models.vision_transformer.model import VisionTransformerConfig
from numformer.shapes_only import MOST_ARRAYS


@dataclass(frozen=True, kw_only=True)
class DETRConfig(Config):
    """The config of a `DETR`; weights of costs and losses are the paper's."""

    image_size: int = like(VisionTransformerConfig, "image_size")
    patch_size: int = like(VisionTransformerConfig, "patch_size")
    channels: int = like(VisionTransformerConfig, "channels")
    n_classes: int = option("Number of classes, without 'no object'.")
    n_queries: int = option(
        "Q, object queries: the most objects that can be found in an image. Time grows with Q^2.",
        most=2**12)
    n_heads: int = option("H, heads of a block.")
    d_model: int = option("C, the width; even.")
    encoder_layers: int = option("Blocks of the encoder.", most=MOST_ARRAYS)
    decoder_layers: int = option("Blocks of the decoder.", most=MOST_ARRAYS)
    n_points: int = option(
        "K, the points near a reference that a head attends to, in place of all patches; 4 in "
        "Deformable DETR, 0 for all patches.", 0, least=0, most=2**8)
    d_hidden: int | None = option(
        "F, the hidden width of the feed-forward; 4 C unless given.", None)
    positions: str = option(
        "Of patches: trained vectors, or sinusoids, of row and column.", "sinusoidal_2d",
        choices=("learned_2d", "sinusoidal_2d"))
    auxiliary_losses: bool = option(
        "Whether every block of the decoder is trained to predict, not the last alone.", True)
    no_object_weight: float = option(
        "Of the class 'no object' in the loss.", 0.1, above=0)
    class_weight: float = option(
        "Of the class, in the costs of matching and in the loss.", 1.0, least=0)
    l1_weight: float = option(
        "Of the distance of boxes, in the costs of matching and in the loss.", 5.0, least=0)
    giou_weight: float = option(
        "Of the overlap of boxes, in the costs of matching and in the loss.", 2.0, least=0)
    dropout: float = option(
        "Rate for attention weights and residual branches.", 0.0, least=0, below=1)
    epsilon: float = like(TransformerConfig, "epsilon")
    init_std: float = like(TransformerConfig, "init_std")
    dtype: str = like(TransformerConfig, "dtype")

    def __post_init__(self):
        super().__post_init__()
        owner = "DETRConfig"
        check_divides(owner, "image_size", self.image_size, "patch_size", self.patch_size)
        check_head_width(owner, self.d_model, self.n_heads, None)
        check_even(owner, "d_model", self.d_model)

    @property
    def side(self):
        """Patches in a row, and in a column."""
        return self.image_size // self.patch_size

    @property
    def hidden_width(self):
        """F, with its default."""
        return 4 * self.d_model if self.d_hidden is None else self.d_hidden

    @property
    def optional_sizes(self):
        """Widths that may be left out, by name, with their defaults."""
        return {"d_hidden": self.hidden_width}
