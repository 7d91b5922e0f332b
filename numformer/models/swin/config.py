"""The config of the Swin Transformer, and its published sizes."""

from dataclasses import dataclass

from numformer.checks import check_divides, check_whole
from numformer.config import Config, like, option, whole_numbers
from numformer.functional.activations.table import ACTIVATIONS
from numformer.models.transformer import TransformerConfig
from numformer.models.vision_transformer.model import VisionTransformerConfig


@dataclass(frozen=True, kw_only=True)
class SwinConfig(Config):
    """The config of a `Swin`; the defaults are those of Swin-T."""

    image_size: int = like(VisionTransformerConfig, "image_size", 224)
    patch_size: int = like(VisionTransformerConfig, "patch_size", 4)
    channels: int = like(VisionTransformerConfig, "channels", 3)
    n_classes: int = like(VisionTransformerConfig, "n_classes", 1000)
    d_model: int = option(
        "C, the width of the first stage; it doubles from stage to stage.", 96)
    depths: str = option(
        "Blocks of each stage, such as '2,2,6,2'; in Python also a tuple.", "2,2,6,2",
        numbers=True)
    heads: str = option(
        "H of each stage, such as '3,6,12,24'; in Python also a tuple.", "3,6,12,24",
        numbers=True)
    window: int = option(
        "M, height and width of a window, in patches. It divides the feature map of every stage "
        "that is larger; a stage whose feature map is not larger has one window.", 7)
    shifted: bool = option(
        "Whether every second block of a stage shifts its windows by half of one.", True)
    mlp_ratio: float = option(
        "The hidden width of the feed-forwards, as a multiple of the width.", 4.0, above=0,
        below=10_000)
    qkv_bias: bool = option(
        "Whether the maps of queries, keys and values have biases.", True)
    patch_norm: bool = option("Apply a LayerNorm to the embedded patches.", True)
    feedforward: str = option(
        "The activation of the feed-forwards.", "gelu", choices=ACTIVATIONS)
    dropout: float = option(
        "Rate for embedded patches, attention weights and residual branches.", 0.0, least=0,
        below=1)
    epsilon: float = like(TransformerConfig, "epsilon")
    init_std: float = like(TransformerConfig, "init_std")
    dtype: str = like(TransformerConfig, "dtype")

    def __post_init__(self):
        super().__post_init__()
        owner = type(self).__name__
        depths, heads = (whole_numbers(owner, name, getattr(self, name))[1]
                         for name in ("depths", "heads"))
        if len(depths) != len(heads):
            raise ValueError(f"{owner}: depths={self.depths!r} are {len(depths)} stages, but heads="
                             f"{self.heads!r} {len(heads)}; give one number for each stage.")
        unit = self.patch_size * self.window * 2 ** (len(depths) - 1)
        advice = f"use image_size={max(1, round(self.image_size / unit)) * unit}"
        if self.image_size % self.patch_size:
            raise ValueError(f"{owner}: image_size={self.image_size} is not divisible by "
                             f"patch_size={self.patch_size}; {advice}.")
        side = self.image_size // self.patch_size
        for n, H in enumerate(heads):
            check_divides(owner, f"the width of stage {n + 1}", self.d_model * 2 ** n, "heads", H)
            check_whole(owner, "hidden width", int(self.mlp_ratio * self.d_model * 2 ** n))
            if n and side % 2:
                raise ValueError(f"{owner}: stage {n} has {side} x {side} vectors, an odd number, "
                                 "so pairs of them cannot be merged; "
                                 f"{advice}, or fewer stages.")
            side = side // 2 if n else side
            if side > self.window and side % self.window:
                raise ValueError(f"{owner}: stage {n + 1} has {side} x {side} vectors, which "
                                 f"windows of {self.window} x {self.window} do not divide; "
                                 f"{advice}, or another window.")

    @property
    def stages(self):
        """(blocks, heads, width, height of the feature map, window) of each stage."""
        (_, depths), (_, heads) = (whole_numbers("", "", text) for text in (self.depths,
                                                                            self.heads))
        sides = [self.image_size // self.patch_size // 2 ** n for n in range(len(depths))]
        return [(L, H, self.d_model * 2 ** n, side, min(side, self.window))
                for n, (L, H, side) in enumerate(zip(depths, heads, sides))]


SWIN_CONFIGS = {
    # Liu et al. (2021), section 3.3; table 1: 29 M, 50 M, 88 M and 197 M parameters
    name: SwinConfig(d_model=C, depths=depths, heads=heads)
    for name, C, depths, heads in (
        ("swin-t", 96, "2,2,6,2", "3,6,12,24"),
        ("swin-s", 96, "2,2,18,2", "3,6,12,24"),
        ("swin-b", 128, "2,2,18,2", "4,8,16,32"),
        ("swin-l", 192, "2,2,18,2", "6,12,24,48"))}
