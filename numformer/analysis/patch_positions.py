"""The position vectors of a Vision Transformer."""

import numpy as np


def patch_positions(model):
    """The position vectors that a Vision Transformer gives to its patches.

    Parameters
    ----------
    model : VisionTransformer

    Returns
    -------
    ndarray, shape (patches, C)
    """
    c, layer = model.config, getattr(model.positions, "positions", model.positions)
    return layer(np.zeros((1, c.side ** 2, c.d_model), c.dtype))[0]
