"""Small inputs with which one layer of a run can be run by itself."""

import numpy as np

from numformer.layers import Embedding, Linear, PatchEmbedding

T = 4                                                 # tokens of the input


def inputs_of(layer):
    """Inputs and options of a layer's forward: one sequence of random vectors, or of ids.

    Parameters
    ----------
    layer : Layer

    Returns
    -------
    inputs : tuple
    options : dict

    Raises
    ------
    ValueError
        If its width cannot be read from its parameters.

    Examples
    --------
    >>> from numformer.layers import LayerNorm
    >>> inputs_of(LayerNorm(3))[0][0].shape
    (1, 4, 3)
    """
    rng = np.random.default_rng(0)
    if isinstance(layer, Embedding):
        return (rng.integers(0, len(layer.weight.data), (1, T)),), {}
    if isinstance(layer, PatchEmbedding):
        side, channels = layer.image_size, layer.weight.data.shape[2]
        dtype = layer.weight.data.dtype
        return (rng.standard_normal((1, side, side, channels)).astype(dtype),), {}
    shapes = [part.weight.data.shape for _, part in layer.named_layers()
              if isinstance(part, Linear) or getattr(getattr(part, "weight", None), "data",
                                                     np.ones((1, 1))).ndim == 1]
    if not shapes:
        raise ValueError(f"the width of {type(layer).__name__} is not known")
    x = rng.standard_normal((1, T, shapes[0][0])).astype(layer.parameters()[0].data.dtype)
    return (x,), {"memory": x} if getattr(layer, "reads_memory", False) else {}
