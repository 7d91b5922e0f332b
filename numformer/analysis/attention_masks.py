"""Which token may attend to which: the mask of a whole model, from the patterns of its layers."""

import numpy as np

from numformer.analysis.capture import capture
from numformer.layers import MultiHeadAttention
from numformer.parameter import Layer


def attention_mask_of(model, *inputs):
    """The mask of a model's first blocks, over all of its tokens.

    It is taken from the attention layers while they run. For an encoder-decoder with S inputs and T
    outputs it has four parts: encoder (S, S), nothing (S, T), cross-attention (T, S), decoder
    (T, T).

    Parameters
    ----------
    model : Layer
        With `MultiHeadAttention` layers; nothing else in it depends on other positions.
    *inputs
        Of its forward, for one sequence.

    Returns
    -------
    ndarray of bool, shape (T, T) or (S + T, S + T)
        True: this query may attend to this key.

    Raises
    ------
    TypeError, ValueError
        If the model is no layer, or has no attention.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=9, context_length=4, n_layers=1, n_heads=1, d_model=4)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> attention_mask_of(model, np.array([[1, 2, 3]])).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    if not isinstance(model, Layer):
        raise TypeError(f"attention_mask_of: model must be a Layer, but is {model!r}.")
    with capture(model, MultiHeadAttention) as calls:
        model(*inputs)
    found = {}
    for call in calls:
        q, k, pattern = call.layer.queries_and_keys(call.saved)
        mask = pattern.dense(q.shape[2], k.shape[2])
        mask = mask.reshape(-1, *mask.shape[-2:])[0]
        part = ("cross" if "cross_attention" in call.name
                else "encoder" if call.name.startswith("encoder.") else "own")
        found.setdefault(part, mask)
    if not found:
        raise ValueError(f"attention_mask_of: {type(model).__name__} has no attention.")
    if "cross" not in found:
        return next(iter(found.values()))
    S = len(found["encoder"])
    return np.block([[found["encoder"], np.zeros((S, len(found["own"])), bool)],
                     [found["cross"], found["own"]]])
