"""Convolutions of images, pooling, and the convolutional network."""

import numpy as np

from numformer.layers import Convolution2D, Pooling2D
from numformer.models import ConvolutionClassifier, ConvolutionClassifierConfig
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case


def network(**options):
    sizes = dict(image_size=4, channels=2, n_classes=3, widths="3,2", kernel_width=3, padding=1,
                 hidden="4", activation="gelu")
    return lambda rng, dtype: ConvolutionClassifier(
        ConvolutionClassifierConfig(**{**sizes, **options}, dtype=np.dtype(dtype).name), rng)


def labelled():
    return np.random.default_rng(7).standard_normal((2, 4, 4, 2)), np.array([2, 0])


LAYERS = [
    Case("convolution 2-D", lambda rng, dtype: Convolution2D(2, 3, 3, rng, padding=1, dtype=dtype),
         [(2, 4, 3, 2)],
         wrong=[((floats(2, 4, 4, 3),), ValueError, "C=2"),
                ((floats(4, 4, 2),), ValueError, "(B, height, width, C)"),
                ((floats(0, 4, 4, 2),), ValueError, "must hold something")]),
    Case("convolution 2-D, stride 2, no bias",
         lambda rng, dtype: Convolution2D(2, 3, 2, rng, stride=2, bias=False, dtype=dtype),
         [(1, 5, 4, 2)],
         wrong=[((floats(1, 1, 4, 2),), ValueError, "larger than images of height=1")]),
    *(Case(f"pooling 2-D, {kind}", lambda rng, dtype, kind=kind: Pooling2D(kind, 2), [(2, 4, 5, 2)],
           wrong=[((floats(2, 1, 4, 2),), ValueError, "larger than images of height=1"),
                  ((floats(4, 4, 2),), ValueError, "(B, height, width, C)")])
      for kind in ("max", "mean")),
    Case("pooling 2-D, overlapping", lambda rng, dtype: Pooling2D("max", 3, stride=1),
         [(1, 5, 4, 2)]),
]

MODELS = [
    Case("convolution classifier", network(), [(2, 4, 4, 2)], batch=labelled,
         wrong=[((floats(2, 4, 4, 3),), ValueError, "channels=2"),
                ((floats(2, 6, 4, 2),), ValueError, "height=4"),
                ((floats(4, 4, 2),), ValueError, "(B, height, width, channels)")]),
    Case("convolution classifier, mean pooling, dropout, two hidden layers",
         network(pooling="mean", hidden="4,3", dropout=0.3, activation="silu"), [(2, 4, 4, 2)],
         seeded, batch=labelled),
]
