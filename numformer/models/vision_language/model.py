"""Image and text in, text out: the patches of an image are a prefix of the decoder's text."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_divides, check_rows
from numformer.config import like, option
from numformer.description import MASKED, TOKENS, Column, costs_of_images, flops_of, images_of
from numformer.functional.attention.masks import AttentionPattern
from numformer.layers import Dropout, LMHead, PatchEmbedding
from numformer.models.decoder.config import DecoderConfig
from numformer.models.transformer import (
    CrossEntropyModel, Encoder, TransformerConfig, embedding_of, positions_of)
from numformer.models.vision_transformer.model import VisionTransformerConfig


@dataclass(frozen=True, kw_only=True)
class VisionLanguageModelConfig(TransformerConfig):
    """The config of a `VisionLanguageModel`.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, channels=1, n_layers=1, n_heads=2, d_model=16)
    >>> config = VisionLanguageModelConfig(image_size=8, patch_size=2, context_length=20, **sizes)
    >>> config.n_patches
    16
    """

    image_size: int = like(VisionTransformerConfig, "image_size")
    patch_size: int = like(VisionTransformerConfig, "patch_size")
    channels: int = like(VisionTransformerConfig, "channels")
    vocab_size: int = like(DecoderConfig, "vocab_size")
    context_length: int = option("Most patches and tokens together.")
    positions: str = like(DecoderConfig, "positions")
    embedding_scale: bool = like(DecoderConfig, "embedding_scale")

    def __post_init__(self):
        super().__post_init__()
        owner = type(self).__name__
        check_divides(owner, "image_size", self.image_size, "patch_size", self.patch_size)
        if self.context_length <= self.n_patches:
            raise ValueError(f"{owner}: context_length={self.context_length} must be above the "
                             f"{self.n_patches} patches of image_size={self.image_size} and "
                             f"patch_size={self.patch_size}.")

    @property
    def n_patches(self):
        """P, patches of an image."""
        return (self.image_size // self.patch_size) ** 2


class VisionLanguageModel(CrossEntropyModel):
    r"""Predict every next token of a text from an image and the tokens before it.

    .. math::

        x^0 = [\, \mathrm{patches}(\mathrm{image});\; E_{\mathrm{ids}} \,] + \mathrm{positions},
        \qquad x^{\ell+1} = \mathrm{block}_\ell(x^\ell), \qquad
        z_t = \mathrm{norm}(x^L)_{P + t}\, E^\top

    A patch becomes a vector of width C by a linear map, and from there on it is a token like any
    other. The P patches are a prefix: each attends to all of them, since an image has no first
    pixel; a token attends to all patches, and to the tokens up to itself. See `prefix_mask`. Only
    tokens have logits. A batch of the loss is (ids, images, targets), where targets (B, T) are the
    next tokens: those of the answer, and `IGNORE_INDEX` in the question.

    Parameters
    ----------
    config : VisionLanguageModelConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Bavishi et al. (2023), "Fuyu-8B", for a decoder that reads patches through a linear map, without
    an image encoder; Wang et al. (2022), "SimVLM", section 3.1, for the prefix.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=20, n_layers=1, n_heads=2, d_model=16)
    >>> config = VisionLanguageModelConfig(image_size=8, patch_size=2, channels=1, **sizes)
    >>> model = VisionLanguageModel(config, np.random.default_rng(0))
    >>> ids, images = np.array([[1, 2, 3]]), np.zeros((1, 8, 8, 1), np.float32)
    >>> model(ids, images).shape                                      # logits, (B, T, V)
    (1, 3, 9)
    >>> loss, saved = model.loss((ids, images, np.array([[-100, 3, 4]])))
    >>> model.loss_backward(saved)
    """

    config_class = VisionLanguageModelConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.patches = PatchEmbedding(c.image_size, c.patch_size, c.channels, c.d_model, rng,
                                      bias=c.bias, dtype=dtype)
        self.embedding = embedding_of(c, rng)
        self.positions = positions_of(c, rng)
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng)
        self.head = LMHead(self.embedding.weight)                 # tied: the same Parameter

    def forward(self, ids, images, rng=None):
        """Logits (B, T, V) for the token after each of the ids.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
        images : ndarray, shape (B, height, width, channels)
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If ids or images do not fit, or there are not as many of both.
        """
        check_rows("VisionLanguageModel", "ids", ids)
        image, saved_patches = self.patches.forward(images)           # (B, P, C)
        if len(ids) != len(image):
            raise ValueError(f"VisionLanguageModel: {len(ids)} rows of ids came with {len(image)} "
                             "images; give an image for each row.")
        text, saved_embedding = self.embedding.forward(ids)           # (B, T, C)
        x, P = np.concatenate([image, text], axis=1), image.shape[1]  # (B, P + T, C)
        x, saved_positions = self.positions.forward(x)
        x, saved_dropout = self.dropout.forward(x, rng)
        pattern = AttentionPattern(mask=prefix_mask(P, text.shape[1]))
        x, saved_encoder = self.encoder.forward(x, pattern, rng)
        logits, saved_head = self.head.forward(np.ascontiguousarray(x[:, P:]))

        saved = (P, saved_patches, saved_embedding, saved_positions, saved_dropout, saved_encoder,
                 saved_head)
        return logits, saved

    def backward(self, dlogits, saved):
        """The gradient of the images, (B, height, width, channels)."""
        (P, saved_patches, saved_embedding, saved_positions, saved_dropout, saved_encoder,
         saved_head) = saved

        # logits = head(x[:, P:]): the outputs of patches have no gradient
        dtext = self.head.backward(dlogits, saved_head)               # (B, T, C)
        dx = np.pad(dtext, ((0, 0), (P, 0), (0, 0)))                  # (B, P + T, C)

        # x = encoder(dropout(positions(x)))
        dx = self.encoder.backward(dx, saved_encoder)
        dx = self.dropout.backward(dx, saved_dropout)
        dx = self.positions.backward(dx, saved_positions)

        # x = concatenate([patches(images), embedding(ids)])
        self.embedding.backward(np.ascontiguousarray(dx[:, P:]), saved_embedding)
        return self.patches.backward(np.ascontiguousarray(dx[:, :P]), saved_patches)

    def costs(self):
        """The costs of an image with its text, at the full context."""
        P, C = self.config.n_patches, self.config.context_length
        T = C - P
        # a patch attends to P keys, token t = 1, 2, ... to P + t
        keys = P + T * (T + 1) / 2 / C
        return costs_of_images(self, round(
            2 * P * self.patches.weight.data.size + C * flops_of(self.encoder, keys)
            + T * flops_of(self.head, 0)))

    def describe_model(self, reader):
        c = self.config
        reader.sizes_of(c)
        reader.at_most("T", c.context_length - c.n_patches)
        P, C = c.n_patches, reader.letter("C", c.d_model)
        both, logits = ("B", f"{P} + T", C), ("B", "T", reader.letter("V", c.vocab_size))
        image = Column(images_of(c), tuple(reader.boxes(("B", P, C), self.patches)))
        text = Column(TOKENS, tuple(reader.boxes(("B", "T", C), self.embedding)))
        return reader.architecture(image, text, joint=(
            *reader.boxes(both, self.positions),
            *reader.stacks(self.encoder.blocks, MASKED, both),
            *reader.boxes(both, self.encoder.norm), *reader.boxes(logits, self.head)))


def prefix_mask(P, T):
    """Which query may attend to which key, bool (P + T, P + T), after a prefix of P keys.

    Examples
    --------
    >>> prefix_mask(2, 2).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 0],
           [1, 1, 1, 1]])
    """
    return np.tri(P + T, dtype=bool) | (np.arange(P + T) < P)
