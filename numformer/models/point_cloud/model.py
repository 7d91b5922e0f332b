"""A set in, a class out: a Transformer of points, whatever their order."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_array
from numformer.config import like, option
from numformer.description import Column, costs_per_token
from numformer.layers import Dropout, Linear, Pooling
from numformer.models.transformer import CrossEntropyModel, Encoder, TransformerConfig
from numformer.models.vision_transformer.model import VisionTransformerConfig


@dataclass(frozen=True, kw_only=True)
class PointCloudClassifierConfig(TransformerConfig):
    """The config of a `PointCloudClassifier`."""

    context_length: int = option("Points of a cloud, for counting; the model takes any number.")
    d_point: int = option("Coordinates of a point.", 3)
    n_classes: int = like(VisionTransformerConfig, "n_classes")
    pooling: str = option(
        "What the head classifies: the mean or the maximum over the points.", "max",
        choices=("mean", "max"))
    feedforward: str = "gelu"


class PointCloudClassifier(CrossEntropyModel):
    r"""Classify sets of points.

    .. math::

        x^0_t = p_t W_0 + b_0, \qquad x^{\ell+1} = \mathrm{block}_\ell(x^\ell), \qquad
        z = \mathrm{pooling}_t(\mathrm{norm}(x^L))\, W + b

    A cloud has no first point. With its points in another order, :math:`P x`, the scores of
    attention are :math:`P S P^\top`; the softmax of a row does not depend on the order of its
    keys, and the output is

    .. math:: \mathrm{softmax}(P S P^\top)\, P v = P\, \mathrm{softmax}(S)\, P^\top P v
              = P\, \mathrm{softmax}(S)\, v

    So each block moves its outputs as its inputs move, as do maps of each point alone, and the mean
    and the maximum over points stay: z is a function of the set. Any `positions` but "none" end
    this.

    Parameters
    ----------
    config : PointCloudClassifierConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Guo et al. (2021), "PCT: Point Cloud Transformer", section 3: their naive PCT, whose head reads
    all layers and both poolings, where this one reads the last layer and one; Lee et al. (2019),
    "Set Transformer", section 3.1, for permutations.

    Examples
    --------
    >>> sizes = dict(context_length=32, n_classes=6, n_layers=1, n_heads=2, d_model=16)
    >>> config = PointCloudClassifierConfig(**sizes)
    >>> model = PointCloudClassifier(config, np.random.default_rng(0))
    >>> points = np.random.default_rng(1).standard_normal((2, 32, 3)).astype(np.float32)
    >>> z = model(points)                                             # logits, (B, n_classes)
    >>> z.shape, bool(np.allclose(model(points[:, ::-1].copy()), z, atol=1e-6))
    ((2, 6), True)
    """

    config_class = PointCloudClassifierConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.input = Linear(c.d_point, c.d_model, rng, dtype=dtype)
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng)
        self.pooling = Pooling(c.pooling)
        self.head = Linear(c.d_model, c.n_classes, rng, c.bias, c.init_std, dtype)

    def forward(self, points, rng=None):
        """Logits of the classes.

        Parameters
        ----------
        points : ndarray, shape (B, T, d_point)
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        logits : ndarray, shape (B, n_classes)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If points are no floats of that shape, or there are none.
        """
        sizes = check_array("PointCloudClassifier", "points", points, "(B, T, coordinates)",
                            np.dtype(self.config.dtype), coordinates=self.config.d_point)
        if not sizes["B"] * sizes["T"]:
            raise ValueError("PointCloudClassifier: points are empty, shape "
                             f"{points.shape}; give at least one.")
        x, saved_input = self.input.forward(points)                   # (B, T, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        x, saved_encoder = self.encoder.forward(x, rng=rng)
        x, saved_pooling = self.pooling.forward(x)                    # (B, C)
        logits, saved_head = self.head.forward(x)                     # (B, n_classes)

        saved = (saved_input, saved_dropout, saved_encoder, saved_pooling, saved_head)
        return logits, saved

    def backward(self, dlogits, saved):
        """The gradient of the points, (B, T, d_point)."""
        saved_input, saved_dropout, saved_encoder, saved_pooling, saved_head = saved

        # logits = head(pooling(encoder(dropout(x))))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.pooling.backward(dx, saved_pooling)
        dx = self.encoder.backward(dx, saved_encoder)
        dx = self.dropout.backward(dx, saved_dropout)

        # x = input(points)
        return self.input.backward(dx, saved_input)

    def costs(self):
        return costs_per_token(self)

    def describe_model(self, reader):
        c = self.config
        reader.sizes_of(c)
        reader.letter("T", c.context_length)
        shape = "B", "T", reader.letter("C", c.d_model)
        return reader.architecture(Column(f"points (B, T, {c.d_point})", (
            *reader.boxes(shape, self.input), *reader.stacks(self.encoder.blocks, shape=shape),
            *reader.boxes(shape, self.encoder.norm), *reader.boxes(("B", "C"), self.pooling),
            *reader.boxes(("B", c.n_classes), self.head, name="Linear head"))))
