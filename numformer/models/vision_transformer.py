"""The Vision Transformer: an image is a sequence of patches, and every patch may attend to every other."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from numformer.checks import check_choice, check_divides, check_number
from numformer.layers import Dropout, Identity, LearnedPositions, LearnedPositions2D, Linear, PatchEmbedding, Pooling, SinusoidalPositions2D
from numformer.models.blocks import BlockConfig
from numformer.models.encoder import Encoder
from numformer.models.predictor import Predictor
from numformer.parameter import normal


@dataclass(frozen=True, kw_only=True)
class VisionTransformerConfig(BlockConfig):
    """The switches of a `VisionTransformer`: those of `BlockConfig`, and these. The defaults are the paper's choices.

    Parameters
    ----------
    image_size : int
        Height and width of the images.
    patch_size : int
        P, which divides the image size.
    channels : int
        1 for grey images, 3 for colours.
    n_classes : int
        What an image may be.
    patches : "flatten" or "convolution"
        How patches become vectors; the numbers are the same.
    positions : "learned", "learned_2d", "sinusoidal_2d" or "none"
        How the model learns where a patch stands: a trained vector for each patch, or one for each row and column, or sinusoids of both.
    pooling : "class", "mean" or "max"
        What of the last vectors is classified: that of a class token that was put first, or the mean or maximum of all.
    label_smoothing : float
        Of the loss; see `cross_entropy`.

    Raises
    ------
    ValueError
        If a number is out of range, a choice unknown, heads do not divide the width, or patches the image.

    Examples
    --------
    >>> VisionTransformerConfig(image_size=28, patch_size=8, channels=1, n_classes=10, n_layers=2, n_heads=2, d_model=16)
    Traceback (most recent call last):
    ValueError: VisionTransformerConfig: image_size=28 is not divisible by patch_size=8; use patch_size=7 or image_size=32.
    """

    POSITIONS: ClassVar = ("learned", "learned_2d", "sinusoidal_2d", "none")
    WHOLE: ClassVar = ("channels", "n_classes", *BlockConfig.WHOLE)

    image_size: int
    patch_size: int
    channels: int
    n_classes: int
    patches: str = "flatten"
    positions: str = "learned"
    feedforward: str = "gelu"
    epsilon: float = 1e-6
    pooling: str = "class"
    label_smoothing: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        owner = type(self).__name__
        check_divides(owner, "image_size", self.image_size, "patch_size", self.patch_size)
        check_choice(owner, "patches", self.patches, ["flatten", "convolution"])
        check_choice(owner, "pooling", self.pooling, ["class", "mean", "max"])
        check_number(owner, "label_smoothing", self.label_smoothing, least=0, below=1)
        if self.positions.endswith("_2d") and self.d_model % 2:
            raise ValueError(f"{owner}: positions={self.positions!r} need an even d_model, one half for the row and one for the column, "
                             f"but it is {self.d_model}; use {self.d_model + 1}, or other positions.")

    @property
    def side(self):
        """Patches in a row, and in a column."""
        return self.image_size // self.patch_size


class VisionTransformer(Predictor):
    r"""Say what an image shows.

    .. math::

        x^0 = [\, c;\; \mathrm{patches}(\mathrm{image}) + \mathrm{positions} \,], \qquad
        z = \mathrm{pooling}(\mathrm{encoder}(x^0))\, W + b

    There is no mask: an image has no before and after. The class token c stands first where it is what is pooled; a vector of its own
    is its position too, for the sum of two trained vectors is one.

    Parameters
    ----------
    config : VisionTransformerConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds the shapes alone, for counting.

    References
    ----------
    Dosovitskiy et al. (2021), "An Image Is Worth 16x16 Words", eqs. 1 to 4; mean pooling: appendix D.3; positions: appendix D.4.

    Examples
    --------
    >>> config = VisionTransformerConfig(image_size=8, patch_size=2, channels=1, n_classes=10, n_layers=2, n_heads=2, d_model=16)
    >>> model = VisionTransformer(config, np.random.default_rng(0))
    >>> images, labels = np.zeros((3, 8, 8, 1), np.float32), np.array([3, 1, 4])
    >>> model(images).shape                                           # logits, (B, n_classes)
    (3, 10)
    >>> loss, saved = model.loss((images, labels))
    >>> model.loss_backward(saved)
    >>> model.patches.weight.grad.shape
    (2, 2, 1, 16)
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.patches = PatchEmbedding(c.image_size, c.patch_size, c.channels, c.d_model, rng, c.patches, c.bias, dtype=dtype)
        self.positions = (LearnedPositions(c.side ** 2, c.d_model, rng, c.init_std, dtype) if c.positions == "learned"
                          else LearnedPositions2D(c.side, c.side, c.d_model, rng, c.init_std, dtype) if c.positions == "learned_2d"
                          else SinusoidalPositions2D(c.side, c.side, c.d_model) if c.positions == "sinusoidal_2d" else Identity())
        self.class_token = normal(rng, (c.d_model,), c.init_std, dtype) if c.pooling == "class" else None
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng)
        self.pooling = Pooling(c.pooling)
        self.head = Linear(c.d_model, c.n_classes, rng, c.bias, c.init_std, dtype)

    def forward(self, images, rng=None):
        """Logits of the classes.

        Parameters
        ----------
        images : ndarray, shape (B, height, width, channels)
        rng : numpy.random.Generator, optional
            For dropout; None at inference.

        Returns
        -------
        logits : ndarray, shape (B, n_classes)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If images are not floats of that shape.
        """
        x, saved_embedding = self._embed(images)                      # (B, T, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        x, saved_encoder = self.encoder.forward(x, rng=rng)
        x, saved_pooling = self.pooling.forward(x)                    # (B, C)
        logits, saved_head = self.head.forward(x)                     # (B, n_classes)

        saved = (saved_embedding, saved_dropout, saved_encoder, saved_pooling, saved_head)
        return logits, saved

    def backward(self, dlogits, saved):
        """Gradient of the images: which pixels speak for a class, and which against it."""
        saved_embedding, saved_dropout, saved_encoder, saved_pooling, saved_head = saved

        # logits = head(pooling(encoder(dropout(x))))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.pooling.backward(dx, saved_pooling)
        dx = self.encoder.backward(dx, saved_encoder)
        dx = self.dropout.backward(dx, saved_dropout)

        # x = concatenate([class_token, x])
        saved_patches, saved_positions = saved_embedding
        if self.class_token is not None:
            self.class_token.grad += dx[:, 0].sum(axis=0)
            dx = np.ascontiguousarray(dx[:, 1:])                      # (B, T, C)

        # x = positions(patches(images))
        dx = self.positions.backward(dx, saved_positions)
        return self.patches.backward(dx, saved_patches)

    def _embed(self, images):
        """Vectors of all patches where they stand, after that of the class token, if there is one."""
        x, saved_patches = self.patches.forward(images)
        x, saved_positions = self.positions.forward(x)
        if self.class_token is not None:
            first = np.broadcast_to(self.class_token.data, (len(x), 1, x.shape[-1]))
            x = np.concatenate([first, x], axis=1)                    # (B, 1 + T, C)

        saved = (saved_patches, saved_positions)
        return x, saved

    def attention_weights(self, images):
        """The attention weights of every block on images, for looking at: a list of (B, H, T, T), the class token first if there is one."""
        return self.encoder.attention_weights(self._embed(images)[0])


def _sizes(n_layers, n_heads, d_model, patch_size):
    return VisionTransformerConfig(image_size=224, patch_size=patch_size, channels=3, n_classes=1000, n_layers=n_layers, n_heads=n_heads,
                                   d_model=d_model)


# Dosovitskiy et al. (2021), table 1: 86 M, 307 M and 632 M
VISION_CONFIGS = {
    "vit-base": _sizes(12, 12, 768, 16),
    "vit-base-32": _sizes(12, 12, 768, 32),
    "vit-large": _sizes(24, 16, 1024, 16),
    "vit-large-32": _sizes(24, 16, 1024, 32),
    "vit-huge": _sizes(32, 16, 1280, 14),
}
