"""Positions of a trained model: vectors, biases or rotations."""

import numpy as np

from numformer.analysis.patch_positions import patch_positions
from numformer.layers.positions.schemes import ADDED, IN_ATTENTION
from numformer.models import VisionTransformer
from numformer.plots.pictures import picture_of_run
from numformer.plots.positions.added import position_biases, position_vectors
from numformer.plots.positions.learned import learned_positions
from numformer.plots.positions.rotary import rotary_clocks
from numformer.plots.vision import position_similarity

MOST_POSITIONS = 512                                  # of the vectors that are drawn


@picture_of_run("positions")
def _positions(run):
    """Position vectors, position biases, or rotations."""
    config, model = run.model.config, run.model
    backbone = getattr(model, "backbone", model)
    kind = getattr(config, "positions", "none").removeprefix("concatenated_")
    T = min(getattr(config, "context_length", 64), 64 if kind != "learned" else MOST_POSITIONS)
    has_input_positions = hasattr(backbone, "input_positions")
    layer = getattr(backbone, "input_positions" if has_input_positions else "positions", None)
    layer = getattr(layer, "positions", layer)                        # of concatenated ones
    vectors = kind.removesuffix("_2d") in ADDED
    if vectors and isinstance(model, VisionTransformer):
        return position_similarity(patch_positions(model))
    if vectors:
        found = layer(np.zeros((1, T, config.d_model), config.dtype), start=0)[0]
        draw = learned_positions if kind == "learned" else position_vectors
        return draw(found, title=f"Positions: {kind}")
    if kind in IN_ATTENTION:
        encoder = getattr(backbone, "encoder", backbone)
        layer = encoder.blocks[0].attention.positions
        bias = layer.added_to_scores(T, T)                            # (H, T, T)
        if bias is not None:
            of_encoder = "" if encoder is backbone else " of the encoder"
            return position_biases(bias, title=layer.describe().name + of_encoder)
        if layer.layout is not None:                                  # rotary
            return rotary_clocks(layer.rotated_width, base=layer.base)
    raise ValueError(f"{type(model).__name__} has no positions to draw.")
