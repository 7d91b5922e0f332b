"""The convolutional network: windows of pixels, pooled again and again, then a classifier."""

from dataclasses import dataclass

import numpy as np

from numformer.backend import ACTIVATIONS
from numformer.checks import check_array
from numformer.config import Config, like, option, whole_numbers
from numformer.description import Column, costs_of_images, images_of
from numformer.functional.activations.table import spelled
from numformer.layers import Convolution2D, Dropout, Linear, Pooling2D
from numformer.models.transformer import CrossEntropyModel, TransformerConfig
from numformer.models.vision_transformer.model import VisionTransformerConfig


@dataclass(frozen=True, kw_only=True)
class ConvolutionClassifierConfig(Config):
    """The config of a `ConvolutionClassifier`."""

    image_size: int = like(VisionTransformerConfig, "image_size")
    channels: int = like(VisionTransformerConfig, "channels")
    n_classes: int = like(VisionTransformerConfig, "n_classes")
    widths: str = option(
        "Channels after each convolution, such as '6,16'; in Python also a tuple.", "6,16",
        numbers=True)
    kernel_width: int = option("K, height and width of a convolution's windows.", 5)
    padding: int = option(
        "Rows and columns of zeros around the input of a convolution.", 0, least=0)
    pooling: str = option(
        "What is kept of each window of 2 x 2 pixels after a convolution.", "max",
        choices=("max", "mean"))
    hidden: str = option(
        "Widths of the hidden layers of the classifier, such as '120,84'; in Python also a "
        "tuple.", "120,84", numbers=True)
    activation: str = option(
        "After each convolution and hidden layer.", "relu", choices=ACTIVATIONS)
    dropout: float = option(
        "Rate for the input of the classifier's maps.", 0.0, least=0, below=1)
    dtype: str = like(TransformerConfig, "dtype")

    def __post_init__(self):
        super().__post_init__()
        if min(self.sides) < 1:
            raise ValueError(
                f"{type(self).__name__}: image_size={self.image_size} is too small for "
                f"{len(self.sides)} convolutions with kernel_width={self.kernel_width}, padding="
                f"{self.padding}, each followed by pooling of 2 x 2 pixels; use fewer widths, or "
                "more padding.")

    @property
    def sides(self):
        """Height and width of the feature map after each pooling."""
        side, sides = self.image_size, []
        for _ in whole_numbers("", "widths", self.widths)[1]:
            side = (side + 2 * self.padding - self.kernel_width + 1) // 2
            sides.append(side)
        return sides


class ConvolutionClassifier(CrossEntropyModel):
    r"""Classify images with convolutions: nearby pixels alone, with the same weights everywhere.

    .. math::

        x^{\ell+1} = \mathrm{pooling}(f(\mathrm{convolution}(x^\ell))), \qquad
        z = \mathrm{classifier}(\mathrm{flatten}(x^L))

    Locality and shared weights are what it has of images before training. An image that moves by a
    pixel moves its feature maps.

    Parameters
    ----------
    config : ConvolutionClassifierConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    LeCun et al. (1998), "Gradient-Based Learning Applied to Document Recognition", section II and
    figure 2. The form is that of today: every filter reads all channels, pooling has no parameters,
    and the output is a linear map for the softmax; the paper has a table of connections, trained
    subsampling, tanh, and radial basis functions. Initial weights: He et al. (2015), "Delving Deep
    into Rectifiers", eq. 10.

    Examples
    --------
    >>> config = ConvolutionClassifierConfig(image_size=8, channels=1, n_classes=10,
    ...                                      widths=(4, 8), kernel_width=3, padding=1, hidden=(16,))
    >>> model = ConvolutionClassifier(config, np.random.default_rng(0))
    >>> images, labels = np.zeros((3, 8, 8, 1), np.float32), np.array([3, 1, 4])
    >>> model(images).shape                                           # logits, (B, n_classes)
    (3, 10)
    >>> loss, saved = model.loss((images, labels))
    >>> model.loss_backward(saved)
    """

    config_class = ConvolutionClassifierConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        owner = "ConvolutionClassifierConfig"
        widths = [c.channels, *whole_numbers(owner, "widths", c.widths)[1]]
        self.convolutions = [
            Convolution2D(C, F, c.kernel_width, rng, padding=c.padding, dtype=dtype,
                          std=(2 / (c.kernel_width ** 2 * C)) ** 0.5)
            for C, F in zip(widths, widths[1:])]
        self.pooling = Pooling2D(c.pooling, 2)
        self.dropout = Dropout(c.dropout)
        sizes = [c.sides[-1] ** 2 * widths[-1], *whole_numbers(owner, "hidden", c.hidden)[1]]
        self.hidden = [Linear(C, F, rng, std=(2 / C) ** 0.5, dtype=dtype)
                       for C, F in zip(sizes, sizes[1:])]
        self.head = Linear(sizes[-1], c.n_classes, rng, dtype=dtype)

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
        c, (f, _) = self.config, ACTIVATIONS[self.config.activation]
        check_array("ConvolutionClassifier", "images", images, "(B, height, width, channels)",
                    height=c.image_size, width=c.image_size, channels=c.channels)
        x, saved_convolutions, saved_hidden = images, [], []
        for convolution in self.convolutions:
            x, saved_map = convolution.forward(x)                     # (B, side, side, C)
            x, saved_activation = f(x)
            x, saved_pooling = self.pooling.forward(x)                # both halved
            saved_convolutions.append((saved_map, saved_activation, saved_pooling))
        shape, x = x.shape, x.reshape(len(x), -1)                     # (B, side side C)
        for linear in self.hidden:
            x, saved_dropout = self.dropout.forward(x, rng)
            x, saved_map = linear.forward(x)                          # (B, hidden)
            x, saved_activation = f(x)
            saved_hidden.append((saved_dropout, saved_map, saved_activation))
        x, saved_dropout = self.dropout.forward(x, rng)
        logits, saved_head = self.head.forward(x)                     # (B, n_classes)

        saved = (saved_convolutions, shape, saved_hidden, saved_dropout, saved_head)
        return logits, saved

    def backward(self, dlogits, saved):
        """The gradient of the images, (B, height, width, channels)."""
        saved_convolutions, shape, saved_hidden, saved_dropout, saved_head = saved
        _, f_backward = ACTIVATIONS[self.config.activation]

        # logits = head(dropout(x))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.dropout.backward(dx, saved_dropout)

        # x = f(linear(dropout(x)))
        for linear, saved_layer in zip(reversed(self.hidden), reversed(saved_hidden)):
            saved_dropout, saved_map, saved_activation = saved_layer
            dx = linear.backward(f_backward(dx, saved_activation), saved_map)
            dx = self.dropout.backward(dx, saved_dropout)

        # x = x.reshape(len(x), -1)
        dx = dx.reshape(shape)                                        # (B, height, width, C)

        # x = pooling(f(convolution(x)))
        for convolution, saved_layer in zip(reversed(self.convolutions),
                                            reversed(saved_convolutions)):
            saved_map, saved_activation, saved_pooling = saved_layer
            dx = self.pooling.backward(dx, saved_pooling)
            dx = convolution.backward(f_backward(dx, saved_activation), saved_map)
        return dx

    def flops_per_image(self):
        """Two for each multiplication of a forward pass, as in `numformer.analysis.count`."""
        c, products, side = self.config, 0, self.config.image_size
        for convolution, pooled in zip(self.convolutions, c.sides):
            windows = (side + 2 * c.padding - c.kernel_width + 1) ** 2
            products, side = products + windows * convolution.weight.data.size, pooled
        return 2 * (products + sum(linear.weight.data.size for linear in (*self.hidden, self.head)))

    def costs(self):
        return costs_of_images(self, self.flops_per_image())

    def describe_model(self, reader):
        """Convolutions, each with a nonlinearity and pooling; then a feed-forward network."""
        c, parts, size = self.config, [], self.config.image_size
        for convolution, side in zip(self.convolutions, c.sides):
            size, F = size + 2 * c.padding - c.kernel_width + 1, convolution.weight.data.shape[3]
            parts += (self._activated(reader, ("B", size, size, F), convolution),
                      reader.box(("B", side, side, F), self.pooling))
            size = side
        parts.append(reader.function(("B", size * size * F), "Flatten", ConvolutionClassifier,
                                     "the feature maps become one vector",
                                     (r"dx = dy\;\mathrm{in\ the\ shape\ of}\;x",)))
        parts += [self._activated(reader, ("B", linear.weight.data.shape[1]), linear)
                  for linear in self.hidden]
        parts += reader.boxes(("B", c.n_classes), self.head, name="Linear head")
        return reader.architecture(Column(images_of(c), tuple(parts)))

    def _activated(self, reader, shape, layer):
        box = reader.box(shape, layer)
        return box._replace(detail=f"{box.detail}, then {spelled(self.config.activation)}")


CONVOLUTION_CONFIGS = {
    # LeCun et al. (1998), figure 2, in the form of today
    "lenet-5": ConvolutionClassifierConfig(image_size=32, channels=1, n_classes=10,
                                           pooling="mean")}
