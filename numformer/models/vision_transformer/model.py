"""The Vision Transformer: self-attention over the patches of an image."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_divides
from numformer.config import option
from numformer.description import Column, costs_of_images, flops_of, images_of
from numformer.functional.attention.masks import AttentionPattern
from numformer.layers import (
    ClassHeads, Dropout, Identity, LearnedPositions2D, Linear, PatchEmbedding, Pooling,
    SinusoidalPositions2D)
from numformer.models.transformer import (
    POSITIONS, CrossEntropyModel, Encoder, TransformerConfig, norm_of, positions_of)
from numformer.parameter import normal


@dataclass(frozen=True, kw_only=True)
class VisionTransformerConfig(TransformerConfig):
    """The config of a `VisionTransformer`; the defaults are the paper's."""

    image_size: int = option("Height and width of the images, in pixels.")
    patch_size: int = option("P, height and width of a patch; P divides the image size.")
    channels: int = option("1 for grayscale images, 3 for RGB.")
    n_classes: int = option("Number of classes.")
    patches: str = option(
        "How patches become vectors: a linear map of flattened patches, or a convolution with "
        "stride P. Both compute the same.", "flatten", choices=("flatten", "convolution"))
    positions: str = option(
        "A trained vector for each patch (learned), trained vectors for its row and its column "
        "(learned_2d), or sinusoids of both. The others take class tokens and patches, row by row, "
        "as one sequence, see `TransformerConfig`; concatenated vectors are those of patches.",
        "learned", choices=("learned", "learned_2d", "sinusoidal_2d", *POSITIONS))
    feedforward: str = "gelu"
    epsilon: float = 1e-6
    pooling: str = option(
        "What the head classifies: the output of a class token that comes first, or the mean or "
        "maximum over the patches.", "class", choices=("class", "mean", "max"))
    n_class_tokens: int = option(
        "Class tokens with pooling='class', each with a head of its own: see `ClassHeads`.", 1)
    n_class_heads: int | None = option(
        "How many class tokens have a head, from the first on; all unless given.", None)
    embedding_norm: bool = option(
        "Apply a norm to tokens and patches, positions included, before the first block.", False)
    patch_bias: bool = option(
        "Give the map of patches a bias, if `bias` gives linear maps one.", True)
    head_bias: bool = option("Give the head a bias, if `bias` gives linear maps one.", True)

    def __post_init__(self):
        super().__post_init__()
        owner = type(self).__name__
        check_divides(owner, "image_size", self.image_size, "patch_size", self.patch_size)
        if self.pooling != "class" and self.n_class_tokens != 1:
            raise ValueError(f"{owner}: n_class_tokens={self.n_class_tokens}, but with pooling="
                             f"{self.pooling!r} there is no class token; leave it out.")
        if self.n_class_heads is not None and self.n_class_heads > self.n_class_tokens:
            raise ValueError(f"{owner}: n_class_heads={self.n_class_heads} must be at most "
                             f"n_class_tokens={self.n_class_tokens}.")
        if self.positions.endswith("_2d") and self.d_model % 2:
            raise ValueError(f"{owner}: positions={self.positions!r} need an even d_model, half "
                             f"for rows and half for columns, but it is {self.d_model}; use "
                             f"{self.d_model + 1}, or other positions.")

    @property
    def side(self):
        """Patches in a row, and in a column."""
        return self.image_size // self.patch_size

    @property
    def first_patch(self):
        """The position of the first patch: how many class tokens come before it."""
        return self.n_class_tokens if self.pooling == "class" else 0


class VisionTransformer(CrossEntropyModel):
    r"""Classify images.

    .. math::

        x^0 = [\, c;\; \mathrm{patches}(\mathrm{image}) + \mathrm{positions} \,], \qquad
        z = \mathrm{pooling}(\mathrm{encoder}(x^0))\, W + b

    The class token c comes first, and exists only with pooling="class";
    there may be several. It needs no position of its own: the sum of two trained vectors is one
    trained vector. T is the number of patches, (image_size / patch_size)^2, K that of class tokens.

    Parameters
    ----------
    config : VisionTransformerConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Dosovitskiy et al. (2021), "An Image Is Worth 16x16 Words", eqs. 1 to 4; mean pooling: appendix
    D.3; positions: appendix D.4. A second class token: Touvron et al. (2021), "DeiT", section 4. A
    norm before the first block: Radford et al. (2021), "CLIP", section 2.4; that their patches and
    head have no bias is in the published code alone.

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

    config_class = VisionTransformerConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.patches = PatchEmbedding(c.image_size, c.patch_size, c.channels, c.d_model, rng,
                                      c.patches, c.bias and c.patch_bias, dtype=dtype)
        self.positions = _positions_of(c, rng)
        self.class_token = None
        if c.pooling == "class":
            shape = (c.d_model,) if c.n_class_tokens == 1 else (c.n_class_tokens, c.d_model)
            self.class_token = normal(rng, shape, c.init_std, dtype)
        self.embedding_norm = norm_of(c) if c.embedding_norm else Identity()
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng)
        head = c.d_model, c.n_classes, rng, c.bias and c.head_bias, c.init_std, dtype
        n_heads = c.n_class_heads or c.n_class_tokens
        if n_heads == 1:
            self.pooling, self.head = Pooling(c.pooling), Linear(*head)
        else:
            self.pooling, self.head = Identity(), ClassHeads(n_heads, *head)

    def forward(self, images, rng=None, mask=None):
        """Logits of the classes.

        Parameters
        ----------
        images : ndarray, shape (B, height, width, channels)
        rng : numpy.random.Generator, optional
            For dropout.
        mask : ndarray of bool, shape (K + T, K + T), (B, 1, K + T, K + T), or with H, optional
            True: this query may attend to this key.

        Returns
        -------
        logits : ndarray, shape (B, n_classes)
        saved : tuple
        """
        x, saved_embedding = self._embed(images)                      # (B, K + T, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        x, saved_encoder = self.encoder.forward(x, AttentionPattern(mask=mask), rng)
        x, saved_pooling = self.pooling.forward(x)                    # (B, C) or (B, K, C)
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

        # x = embedding_norm(concatenate([class_token, x]))
        saved_patches, saved_positions, saved_norm = saved_embedding
        dx, K = self.embedding_norm.backward(dx, saved_norm), self.config.first_patch
        if self.class_token is not None:
            self.class_token.grad += dx[:, :K].sum(axis=0).reshape(self.class_token.data.shape)
            dx = np.ascontiguousarray(dx[:, K:])                      # (B, T, C)

        # x = positions(patches(images))
        dx = self.positions.backward(dx, saved_positions)
        return self.patches.backward(dx, saved_patches)

    def _embed(self, images):
        """The class tokens, if there are any, and the patches with their positions."""
        x, saved_patches = self.patches.forward(images)               # (B, T, C)
        x, saved_positions = self.positions.forward(x)
        if self.class_token is not None:
            shape = len(x), self.config.first_patch, x.shape[-1]
            x = np.concatenate([np.broadcast_to(self.class_token.data, shape), x], axis=1)
        x, saved_norm = self.embedding_norm.forward(x)                # (B, K + T, C)

        saved = (saved_patches, saved_positions, saved_norm)
        return x, saved

    def costs(self):
        """The costs of an image: full attention, and one vector through the head."""
        patches = self.config.side ** 2
        T = patches + self.config.first_patch
        return costs_of_images(self, 2 * patches * self.patches.weight.data.size + T * flops_of(
            self.encoder, T) + flops_of(self.head, 0))

    def describe_model(self, reader):
        c, patches = self.config, self.config.side ** 2
        reader.sizes_of(c)
        C = reader.letter("C", c.d_model)
        shape = "B", reader.letter("T", patches + c.first_patch), C
        before = ("B", patches, C) if c.first_patch else shape
        return reader.architecture(Column(images_of(c), (
            *reader.boxes(before, self.patches, self.positions),
            *reader.boxes(shape, self.class_token, name="Class token, prepended"),
            *reader.boxes(shape, self.embedding_norm),
            *reader.stacks(self.encoder.blocks, shape=shape),
            *reader.boxes(shape, self.encoder.norm), *reader.boxes(("B", C), self.pooling),
            *reader.boxes(("B", c.n_classes), self.head, name="Linear head"))))


def _positions_of(config, rng):
    """The layer that adds positions to the patches, in one or two dimensions."""
    c = config
    if c.positions == "learned_2d":
        return LearnedPositions2D(c.side, c.side, c.d_model, rng, c.init_std, np.dtype(c.dtype))
    if c.positions == "sinusoidal_2d":
        return SinusoidalPositions2D(c.side, c.side, c.d_model)
    return positions_of(c, rng, c.side ** 2)


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
