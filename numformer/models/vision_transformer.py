"""The Vision Transformer: self-attention over the patches of an image."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from numformer.checks import check_choice, check_divides
from numformer.layers import (
    Dropout, Identity, LearnedPositions, LearnedPositions2D, Linear, PatchEmbedding, Pooling,
    SinusoidalPositions2D)
from numformer.models.transformer import CrossEntropyModel, Encoder, TransformerConfig
from numformer.parameter import normal


@dataclass(frozen=True, kw_only=True)
class VisionTransformerConfig(TransformerConfig):
    """The config of a `VisionTransformer`; the defaults are the paper's.

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
    patches : "flatten" or "convolution"
        How patches become vectors: a linear map of flattened patches, or a convolution with stride
        P. Both compute the same.
    positions : "learned", "learned_2d", "sinusoidal_2d" or "none"
        A trained vector for each patch; trained vectors for its row and its column; sinusoids of
        both; or nothing.
    pooling : "class", "mean" or "max"
        What the head classifies: the output of a class token that comes first, or the mean or
        maximum over the patches.
    """

    POSITIONS: ClassVar = ("learned", "learned_2d", "sinusoidal_2d", "none")
    WHOLE: ClassVar = ("channels", "n_classes", *TransformerConfig.WHOLE)

    image_size: int
    patch_size: int
    channels: int
    n_classes: int
    patches: str = "flatten"
    positions: str = "learned"
    feedforward: str = "gelu"
    epsilon: float = 1e-6
    pooling: str = "class"

    def __post_init__(self):
        super().__post_init__()
        owner = type(self).__name__
        check_divides(owner, "image_size", self.image_size, "patch_size", self.patch_size)
        check_choice(owner, "patches", self.patches, ["flatten", "convolution"])
        check_choice(owner, "pooling", self.pooling, ["class", "mean", "max"])
        if self.positions.endswith("_2d") and self.d_model % 2:
            raise ValueError(f"{owner}: positions={self.positions!r} need an even d_model, half "
                             f"for rows and half for columns, but it is {self.d_model}; use "
                             f"{self.d_model + 1}, or other positions.")

    @property
    def side(self):
        """Patches in a row, and in a column."""
        return self.image_size // self.patch_size


class VisionTransformer(CrossEntropyModel):
    r"""Classify images.

    .. math::

        x^0 = [\, c;\; \mathrm{patches}(\mathrm{image}) + \mathrm{positions} \,], \qquad
        z = \mathrm{pooling}(\mathrm{encoder}(x^0))\, W + b

    There is no attention mask. The class token c comes first, and exists only with pooling="class".
    It needs no position of its own: the sum of two trained vectors is one trained vector. T is the
    number of patches, (image_size / patch_size)^2.

    Parameters
    ----------
    config : VisionTransformerConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Dosovitskiy et al. (2021), "An Image Is Worth 16x16 Words", eqs. 1 to 4; mean pooling: appendix
    D.3; positions: appendix D.4.

    Examples
    --------
    >>> sizes = dict(channels=1, n_classes=10, n_layers=2, n_heads=2, d_model=16)
    >>> config = VisionTransformerConfig(image_size=8, patch_size=2, **sizes)
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
        self.patches = PatchEmbedding(c.image_size, c.patch_size, c.channels, c.d_model, rng,
                                      c.patches, c.bias, dtype=dtype)
        self.positions = _positions_of(c, rng)
        self.class_token = None
        if c.pooling == "class":
            self.class_token = normal(rng, (c.d_model,), c.init_std, dtype)
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
            For dropout.

        Returns
        -------
        logits : ndarray, shape (B, n_classes)
        saved : tuple
        """
        x, saved_embedding = self._embed(images)                      # (B, 1 + T, C) or (B, T, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        x, saved_encoder = self.encoder.forward(x, rng=rng)
        x, saved_pooling = self.pooling.forward(x)                    # (B, C)
        logits, saved_head = self.head.forward(x)                     # (B, n_classes)

        saved = (saved_embedding, saved_dropout, saved_encoder, saved_pooling, saved_head)
        return logits, saved

    def backward(self, dlogits, saved):
        """The gradient of the images, (B, height, width, channels)."""
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
        """The class token, if there is one, and the patches with their positions."""
        x, saved_patches = self.patches.forward(images)               # (B, T, C)
        x, saved_positions = self.positions.forward(x)
        if self.class_token is not None:
            token = np.broadcast_to(self.class_token.data, (len(x), 1, x.shape[-1]))
            x = np.concatenate([token, x], axis=1)                    # (B, 1 + T, C)

        saved = (saved_patches, saved_positions)
        return x, saved


def _positions_of(config, rng):
    """The layer that adds positions to the patches, in one or two dimensions."""
    c, dtype = config, np.dtype(config.dtype)
    if c.positions == "learned":
        return LearnedPositions(c.side ** 2, c.d_model, rng, c.init_std, dtype)
    if c.positions == "learned_2d":
        return LearnedPositions2D(c.side, c.side, c.d_model, rng, c.init_std, dtype)
    if c.positions == "sinusoidal_2d":
        return SinusoidalPositions2D(c.side, c.side, c.d_model)
    return Identity()


VISION_CONFIGS = {
    name: VisionTransformerConfig(image_size=224, patch_size=P, channels=3, n_classes=1000,
                                  n_layers=L, n_heads=H, d_model=C)
    for name, L, H, C, P in (
        # Dosovitskiy et al. (2021), table 1: 86 M, 307 M and 632 M
        ("vit-base", 12, 12, 768, 16),
        ("vit-base-32", 12, 12, 768, 32),
        ("vit-large", 24, 16, 1024, 16),
        ("vit-large-32", 24, 16, 1024, 32),
        ("vit-huge", 32, 16, 1280, 14))}
