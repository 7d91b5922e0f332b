"""Capture: what layers computed inside a model, recorded while it runs."""

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from numformer.backend import one_blas_thread
from numformer.layers import (
    AttentiveGRU, FeedForward, GatedFeedForward, MixtureOfExperts, MultiHeadAttention,
    ScoreAttention, TransformerBlock)
from numformer.parameter import Layer
from numformer.underflow import underflow_is_zero

ATTENTION = MultiHeadAttention, ScoreAttention, AttentiveGRU
DEAD = 1e-3                                                   # of the root mean square of all units


class Call(NamedTuple):
    """One forward of one layer.

    Parameters
    ----------
    name : str
        Of the layer in the model, such as "blocks.0.attention".
    layer : Layer
    inputs : tuple
        Positional arguments.
    options : dict
        Keyword arguments.
    output : ndarray
    saved : tuple
        For its backward.
    """

    name: str
    layer: Layer
    inputs: tuple
    options: dict
    output: np.ndarray
    saved: tuple


@contextmanager
def capture(model, kinds):
    """Record every forward of a model's layers of some kinds, inside a with statement.

    Calls are recorded in the order in which they end. The layers run as they do otherwise. The maps
    inside a feed-forward, those to queries, keys and values with their norms and rotation, and the
    residual branches of a block run as parts of one function: they are not recorded.

    Parameters
    ----------
    model : Layer
    kinds : class, or tuple of classes

    Yields
    ------
    list of Call
        Empty at first.

    Raises
    ------
    ValueError
        If the model has no layers, as an n-gram model has none.

    Examples
    --------
    >>> from numformer.layers import LayerNorm, ResidualBranch
    >>> feedforward = FeedForward(2, 3, "relu", np.random.default_rng(0))
    >>> branch = ResidualBranch(LayerNorm(2), feedforward)
    >>> with capture(branch, (LayerNorm, FeedForward)) as calls:
    ...     y = branch(np.ones((1, 2), np.float32))
    >>> [(call.name, call.inputs[0].shape, call.output.shape) for call in calls]
    [('input_norm', (1, 2), (1, 2)), ('sublayer', (1, 2), (1, 2))]
    """
    if not isinstance(model, Layer):
        raise ValueError(f"capture: {type(model).__name__} has no layers; give a Layer.")
    calls = []
    captured = [(name, layer) for name, layer in model.named_layers()
                if isinstance(layer, kinds) and hasattr(layer, "forward")]

    def recorded(name, layer, forward):
        def recording_forward(*inputs, **options):
            output, saved = forward(*inputs, **options)
            calls.append(Call(name, layer, inputs, options, output, saved))
            return output, saved
        return recording_forward

    for name, layer in captured:
        layer.forward = recorded(name, layer, layer.forward)    # hides the method of the class
    try:
        yield calls
    finally:
        for _, layer in captured:
            del layer.forward


def attention_by_layer(model, *inputs, **options):
    """The attention weights of every attention in a model, or of one attention layer.

    Parameters
    ----------
    model : Layer
    *inputs, **options
        Of its forward.

    Returns
    -------
    dict of str to ndarray
        By the name of the layer: (B, H, T, S), or (B, T, S) of attention with one head. Empty for a
        model without attention.

    Examples
    --------
    >>> layer = MultiHeadAttention(8, 2, np.random.default_rng(0))
    >>> weights, = attention_by_layer(layer, np.ones((1, 3, 8), np.float32)).values()
    >>> weights[0, 0].round(2)
    array([[0.33, 0.33, 0.33],
           [0.33, 0.33, 0.33],
           [0.33, 0.33, 0.33]], dtype=float32)
    """
    with one_blas_thread(), capture(model, ATTENTION) as calls:
        model(*inputs, **options)
        return {call.name: call.layer.attention_weights(call.saved) for call in calls}


def residual_stream(model, *inputs):
    """The vectors between the blocks of a model: before the first block, and after each.

    Parameters
    ----------
    model : Layer
        With Transformer blocks.
    *inputs
        Of its forward.

    Returns
    -------
    dict of str to list of ndarray, each of shape (B, T, C)
        For every stack of blocks: "blocks", and "encoder.blocks" of an encoder-decoder.

    Raises
    ------
    ValueError
        If the model has no blocks.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=1, d_model=4)
    >>> stream = residual_stream(Decoder(config, np.random.default_rng(0)), np.array([[1, 2, 3]]))
    >>> stream.keys(), len(stream["blocks"])
    (dict_keys(['blocks']), 3)
    """
    with capture(model, TransformerBlock) as calls:
        model(*inputs)
    stacks = {}
    for name, _, (x, *_), _, y, _ in calls:
        stacks.setdefault(name.rpartition(".")[0], [x]).append(y)
    if not stacks:
        raise ValueError(f"residual_stream: {type(model).__name__} has no Transformer blocks.")
    return stacks


def hidden_activations(model, *inputs):
    """The hidden units of every feed-forward, after their nonlinearity.

    Parameters
    ----------
    model : Layer
        With feed-forwards, gated or not. Those of experts are left out: each gets other tokens.
    *inputs
        Of its forward.

    Returns
    -------
    dict of str to ndarray of shape (..., F)
        By the name of the feed-forward.

    Raises
    ------
    ValueError
        If the model has no feed-forwards.
    """
    with capture(model, (FeedForward, GatedFeedForward)) as calls:
        mixtures = tuple(f"{name}." for name, layer in model.named_layers()
                         if isinstance(layer, MixtureOfExperts))
        model(*inputs)
    found = {call.name: call.layer.hidden_units(*call.inputs) for call in calls
             if not call.name.startswith(mixtures)}
    if not found:
        raise ValueError(f"hidden_activations: {type(model).__name__} has no feed-forward that "
                         "every token passes.")
    return found


@underflow_is_zero
def dead_units(activations):
    """The fraction of dead hidden units: nowhere above a thousandth of the root mean square of all.

    With ReLU these are the units that are 0 for every token: no gradient reaches their weights.

    Parameters
    ----------
    activations : ndarray, shape (..., F)

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> dead_units(np.array([[0.0, 1.0], [0.0, 0.0]]))
    0.5
    """
    units = activations.reshape(-1, activations.shape[-1])
    largest = np.abs(units).max(axis=0)                               # (F,)
    typical = float(np.sqrt((units.astype(np.float64) ** 2).mean()))
    return float((largest <= DEAD * typical).mean())
