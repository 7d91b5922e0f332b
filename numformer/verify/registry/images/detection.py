"""DETR: its layers, boxes, and losses."""

import numpy as np

from numformer import functional as F
from numformer.layers import PositionedAttention
from numformer.models import DETR, BoxHead, DETRBlock, DETRConfig, ReferenceAttention
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case


def config(dtype, **options):
    sizes = dict(image_size=4, patch_size=2, channels=1, n_classes=3, n_queries=4, n_heads=2,
                 d_model=4, d_hidden=2, encoder_layers=1, decoder_layers=2, init_std=0.3)
    return DETRConfig(**{**sizes, **options}, dtype=np.dtype(dtype).name)


def detr(**options):
    return lambda rng, dtype: DETR(config(dtype, **options), rng)


def block(reads_memory, **options):
    return lambda rng, dtype: DETRBlock(config(dtype, **options), rng, reads_memory)


def reference(of_patches):
    return lambda rng, dtype: ReferenceAttention(4, 2, 2, 2, rng, of_patches, dtype=dtype)


def scenes():
    rng = np.random.default_rng(7)
    labels = np.array([[0, 2, 1], [1, F.IGNORE_INDEX, F.IGNORE_INDEX]])
    return rng.standard_normal((2, 4, 4, 1)), 0.1 + 0.8 * rng.random((2, 3, 4)), labels


LAYERS = [
    Case("attention with positions", lambda rng, dtype: PositionedAttention(4, 2, rng, dtype=dtype),
         [(2, 3, 4), (2, 5, 4), (3, 4), (5, 4)],
         wrong=[((floats(2, 3, 4), floats(2, 5, 4), floats(4, 4), floats(5, 4)), ValueError, "T=3"),
                ((floats(2, 3, 4), floats(1, 5, 4), floats(3, 4), floats(5, 4)), ValueError,
                 "B=2")]),
    Case("attention with positions, dropout",
         lambda rng, dtype: PositionedAttention(4, 2, rng, dropout=0.3, dtype=dtype),
         [(2, 3, 4), (2, 5, 4), (3, 4), (5, 4)], seeded),
    Case("deformable attention near trained references", reference(False),
         [(2, 3, 4), (2, 4, 4), (3, 4), (4, 4)],
         wrong=[((floats(2, 3, 4), floats(2, 5, 4), floats(3, 4), floats(5, 4)), ValueError, "S=5"),
                ((floats(2, 3, 4), floats(2, 4, 4), floats(2, 4), floats(4, 4)), ValueError,
                 "T=3")]),
    Case("deformable attention near the centres of patches", reference(True),
         [(2, 4, 4), (2, 4, 4), (4, 4), (4, 4)]),
    Case("block of DETR's encoder, dropout", block(False, dropout=0.3), [(2, 3, 4), (3, 4)], seeded,
         wrong=[((floats(2, 3, 5), floats(3, 4)), ValueError, "C=4")]),
    Case("block of DETR's decoder", block(True), [(2, 3, 4), (3, 4), (2, 5, 4), (5, 4)],
         wrong=[((floats(2, 3, 4), floats(3, 4)), TypeError, "memory is missing")]),
    Case("box head", lambda rng, dtype: BoxHead(4, rng, dtype=dtype), [(2, 3, 4)],
         wrong=[((floats(2, 3, 5),), ValueError, "C=4")]),
]

MODELS = [
    Case("DETR", detr(), [(2, 4, 4, 1)], batch=scenes,
         wrong=[((floats(2, 4, 4, 3),), ValueError, "channels=1"),
                ((floats(4, 4, 1),), ValueError, "(B, height, width, channels)")]),
    Case("DETR, learned positions, the last block alone, dropout",
         detr(positions="learned_2d", auxiliary_losses=False, dropout=0.2), [(2, 4, 4, 1)], seeded,
         batch=scenes),
    Case("DETR, deformable attention", detr(n_points=2), [(2, 4, 4, 1)], batch=scenes),
]
