"""The options of DETR."""

from dataclasses import dataclass

from numformer.checks import check_choice, check_divides, check_even, check_number, check_whole
from numformer.config import Config
from numformer.layers.attention.head_width import check_head_width


@dataclass(frozen=True, kw_only=True)
class DETRConfig(Config):
    """The config of a `DETR`; weights of costs and losses are the paper's.

    Parameters
    ----------
    image_size : int
        Height and width of the images, in pixels.
    patch_size : int
        P, height and width of a patch; P divides the image size.
    channels : int
        1 for grayscale images, 3 for RGB.
    n_classes : int
        Number of classes, without "no object".
    n_queries : int
        Q, object queries: the most objects that can be found in an image.
    n_heads : int
        H.
    d_model : int
        C, even.
    encoder_layers, decoder_layers : int
        Blocks of encoder and decoder.
    d_hidden : int, optional
        F; 4 C unless given.
    positions : "learned_2d" or "sinusoidal_2d"
        Of patches: trained vectors, or sinusoids, of row and column.
    auxiliary_losses : bool
        Whether every block of the decoder is trained to predict, not the last alone.
    no_object_weight : float
        Of the class "no object" in the loss.
    class_weight, l1_weight, giou_weight : float
        Of the class, the distance and the overlap, in the costs of matching and in the loss.
    dropout : float in [0, 1)
        Rate for attention weights and residual branches.
    epsilon, init_std : float
        The epsilon of norms; the standard deviation of initial weights.
    dtype : "float32" or "float64"
        Of parameters and activations.
    """

    image_size: int
    patch_size: int
    channels: int
    n_classes: int
    n_queries: int
    n_heads: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    d_hidden: int | None = None
    positions: str = "sinusoidal_2d"
    auxiliary_losses: bool = True
    no_object_weight: float = 0.1
    class_weight: float = 1.0
    l1_weight: float = 5.0
    giou_weight: float = 2.0
    dropout: float = 0.0
    epsilon: float = 1e-5
    init_std: float = 0.02
    dtype: str = "float32"

    def __post_init__(self):
        owner = "DETRConfig"
        for name in ("channels", "n_classes", "n_queries", "encoder_layers", "decoder_layers"):
            check_whole(owner, name, getattr(self, name))
        check_divides(owner, "image_size", self.image_size, "patch_size", self.patch_size)
        check_head_width(owner, self.d_model, self.n_heads, None)
        check_even(owner, "d_model", self.d_model)
        if self.d_hidden is not None:
            check_whole(owner, "d_hidden", self.d_hidden)
        check_choice(owner, "positions", self.positions, ["learned_2d", "sinusoidal_2d"])
        check_choice(owner, "auxiliary_losses", self.auxiliary_losses, [True, False])
        check_choice(owner, "dtype", self.dtype, ["float32", "float64"])
        check_number(owner, "no_object_weight", self.no_object_weight, above=0)
        for name in ("class_weight", "l1_weight", "giou_weight", "init_std"):
            check_number(owner, name, getattr(self, name), least=0)
        check_number(owner, "epsilon", self.epsilon, least=1e-12)
        check_number(owner, "dropout", self.dropout, least=0, below=1)

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
