"""DETR: its layers, boxes, and losses."""

import numpy as np

from numformer import functional as F
from numformer.layers import PositionedAttention
from numformer.models import DETR, BoxHead, DETRBlock, DETRConfig
from numformer.verify.registry.cases import Case, Pair, floats, seeded


def config(dtype, **options):
    sizes = dict(image_size=4, patch_size=2, channels=1, n_classes=3, n_queries=4, n_heads=2,
                 d_model=4, d_hidden=3, encoder_layers=1, decoder_layers=2, init_std=0.3)
    return DETRConfig(**{**sizes, **options}, dtype=np.dtype(dtype).name)


def detr(**options):
    return lambda rng, dtype: DETR(config(dtype, **options), rng)


def block(reads_memory, **options):
    return lambda rng, dtype: DETRBlock(config(dtype, **options), rng, reads_memory)


def scenes():
    rng = np.random.default_rng(7)
    labels = np.array([[0, 2, 1], [1, F.IGNORE_INDEX, F.IGNORE_INDEX]])
    return rng.standard_normal((2, 4, 4, 1)), 0.1 + 0.8 * rng.random((2, 3, 4)), labels


def corners(a, b):
    """Boxes that overlap, contain each other, or do not meet; from any numbers."""
    return tuple(np.concatenate([x[:, :2], x[:, :2] + 0.5 + x[:, 2:] ** 2], axis=1)
                 for x in (a, b))


def widths_above_zero(boxes):
    return np.concatenate([boxes[:, :2], 0.2 + boxes[:, 2:] ** 2], axis=1),


TARGETS = np.array([[0.5, 0.4, 0.3, 0.2], [0.1, 0.9, 0.6, 0.5], [0.3, 0.3, 1.0, 0.7]])

LAYERS = [
    Case("attention with positions", lambda rng, dtype: PositionedAttention(4, 2, rng, dtype=dtype),
         [(2, 3, 4), (2, 5, 4), (3, 4), (5, 4)],
         wrong=[((floats(2, 3, 4), floats(2, 5, 4), floats(4, 4), floats(5, 4)), ValueError, "T=3"),
                ((floats(2, 3, 4), floats(1, 5, 4), floats(3, 4), floats(5, 4)), ValueError,
                 "B=2")]),
    Case("attention with positions, dropout",
         lambda rng, dtype: PositionedAttention(4, 2, rng, dropout=0.3, dtype=dtype),
         [(2, 3, 4), (2, 5, 4), (3, 4), (5, 4)], seeded),
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
]

PAIRS = [
    Pair("box corners", F.box_corners, F.box_corners_backward, [(3, 2, 4)]),
    Pair("generalized IoU", F.generalized_iou, F.generalized_iou_backward, [(6, 4), (6, 4)],
         prepare=corners),
    Pair("weighted cross-entropy", F.weighted_cross_entropy, F.weighted_cross_entropy_backward,
         [(3, 4)], after=(np.array([2, 0, 3]), np.array([1.0, 2.0, 0.5, 0.1]))),
    Pair("box loss", F.box_loss, F.box_loss_backward, [(3, 4)], after=(TARGETS,),
         prepare=widths_above_zero),
]
