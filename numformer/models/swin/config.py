"""The config of the Swin Transformer, and its published sizes."""

from dataclasses import dataclass

from numformer.checks import check_choice, check_divides, check_number, check_whole
from numformer.config import Config, whole_numbers
from numformer.functional.activations.table import ACTIVATIONS


@dataclass(frozen=True, kw_only=True)
class SwinConfig(Config):
    """The config of a `Swin`; the defaults are those of Swin-T.

    Parameters
    ----------
    image_size : int
        Height and width of the images, in pixels.
    patch_size : int
        P, height and width of a patch; P divides the image size.
    channels : int
        1 for grayscale images, 3 for RGB.
    n_classes : int
        Number of classes.
    d_model : int
        C, the width of the first stage; it doubles from stage to stage.
    depths : str
        Blocks of each stage, such as "2,2,6,2"; in Python also a tuple.
    heads : str
        H of each stage, such as "3,6,12,24"; in Python also a tuple.
    window : int
        M, height and width of a window, in patches. It divides the feature map of every stage that
        is larger; a stage whose feature map is not larger has one window.
    shifted : bool
        Whether every second block of a stage shifts its windows by half of one.
    mlp_ratio : float
        The hidden width of the feed-forwards, as a multiple of the width.
    qkv_bias : bool
        Whether the maps of queries, keys and values have biases.
    patch_norm : bool
        Apply a LayerNorm to the embedded patches.
    feedforward : "gelu", "relu", "relu_squared", "gelu_tanh", "quick_gelu" or "silu"
        The activation of the feed-forwards.
    dropout : float in [0, 1)
        Rate for embedded patches, attention weights and residual branches.
    epsilon, init_std : float
        The epsilon of norms; the standard deviation of initial weights.
    dtype : "float32" or "float64"
        Of parameters and activations.
    """

    image_size: int = 224
    patch_size: int = 4
    channels: int = 3
    n_classes: int = 1000
    d_model: int = 96
    depths: str = "2,2,6,2"
    heads: str = "3,6,12,24"
    window: int = 7
    shifted: bool = True
    mlp_ratio: float = 4.0
    qkv_bias: bool = True
    patch_norm: bool = True
    feedforward: str = "gelu"
    dropout: float = 0.0
    epsilon: float = 1e-5
    init_std: float = 0.02
    dtype: str = "float32"

    def __post_init__(self):
        owner = type(self).__name__
        for name in ("channels", "n_classes", "d_model", "window"):
            check_whole(owner, name, getattr(self, name))
        check_divides(owner, "image_size", self.image_size, "patch_size", self.patch_size)
        for name in ("depths", "heads"):
            object.__setattr__(self, name, whole_numbers(owner, name, getattr(self, name))[0])
        for name, choices in (("feedforward", list(ACTIVATIONS)), ("shifted", [True, False]),
                              ("qkv_bias", [True, False]), ("patch_norm", [True, False]),
                              ("dtype", ["float32", "float64"])):
            check_choice(owner, name, getattr(self, name), choices)
        check_number(owner, "dropout", self.dropout, least=0, below=1)
        check_number(owner, "mlp_ratio", self.mlp_ratio, above=0)
        for name, least in (("init_std", 0), ("epsilon", 1e-12)):
            check_number(owner, name, getattr(self, name), least=least)
        depths, heads = (whole_numbers(owner, name, getattr(self, name))[1]
                         for name in ("depths", "heads"))
        if len(depths) != len(heads):
            raise ValueError(f"{owner}: depths={self.depths!r} are {len(depths)} stages, but heads="
                             f"{self.heads!r} {len(heads)}; give one number for each stage.")
        side = self.image_size // self.patch_size
        for n, H in enumerate(heads):
            check_divides(owner, f"the width of stage {n + 1}", self.d_model * 2 ** n, "heads", H)
            check_whole(owner, "hidden width", int(self.mlp_ratio * self.d_model * 2 ** n))
            if n and side % 2:
                raise ValueError(f"{owner}: stage {n} has {side} x {side} vectors, an odd number, "
                                 "so pairs of them cannot be merged; use another image_size, or "
                                 "fewer stages.")
            side = side // 2 if n else side
            if side > self.window and side % self.window:
                raise ValueError(f"{owner}: stage {n + 1} has {side} x {side} vectors, which "
                                 f"windows of {self.window} x {self.window} do not divide; use "
                                 "another window or image_size.")

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
