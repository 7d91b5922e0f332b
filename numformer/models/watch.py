"""A look inside: what layers were given and what they made of it, written down while a model runs."""

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from numformer.layers import FeedForward, GatedFeedForward, Linear, MixtureOfExperts, TransformerBlock
from numformer.layers.cross_block import CrossBlock
from numformer.parameter import Layer

SILENT = 1e-3                                                         # of the root mean square: a unit that is never louder is dead


class Seen(NamedTuple):
    """One forward of one layer.

    Parameters
    ----------
    name : str
        Where the layer stands in the model, such as "blocks.0.attention".
    layer : Layer
    inputs : tuple
    options : dict
        What was given by name.
    output : ndarray
    saved : tuple
        What was kept for its backward.
    """

    name: str
    layer: Layer
    inputs: tuple
    options: dict
    output: np.ndarray
    saved: tuple


@contextmanager
def watch(model, kinds):
    """Inside this with statement, every forward of a layer of some kinds is written down, in the order in which they end.

    The layers themselves know nothing of it, and run on as they did before.

    Parameters
    ----------
    model : Layer
    kinds : class, or tuple of them

    Yields
    ------
    list of Seen
        Empty at first.

    Raises
    ------
    ValueError
        If the model has no layers, as an n-gram model has none.

    Examples
    --------
    >>> from numformer.layers import Linear
    >>> rng = np.random.default_rng(0)
    >>> layer = FeedForward(2, 3, "relu", rng)
    >>> with watch(layer, Linear) as seen:
    ...     y = layer(np.ones((1, 2), np.float32))
    >>> [(each.name, each.inputs[0].shape, each.output.shape) for each in seen]
    [('hidden', (1, 2), (1, 3)), ('output', (1, 3), (1, 2))]
    """
    if not isinstance(model, Layer):
        raise ValueError(f"watch: {type(model).__name__} has no layers to look into.")
    seen, watched = [], [(name, layer) for name, layer in model.named_layers() if isinstance(layer, kinds)]

    def recorded(name, layer, forward):
        def watched_forward(*inputs, **options):
            output, saved = forward(*inputs, **options)
            seen.append(Seen(name, layer, inputs, options, output, saved))
            return output, saved
        return watched_forward

    for name, layer in watched:
        layer.forward = recorded(name, layer, layer.forward)          # hides the class's own
    try:
        yield seen
    finally:
        for _, layer in watched:
            del layer.forward


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
        For every stack of blocks, such as "blocks", or "encoder.blocks" beside it.

    Raises
    ------
    ValueError
        If the model has no blocks.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=1, d_model=4), np.random.default_rng(0))
    >>> stream = residual_stream(model, np.array([[1, 2, 3]]))
    >>> stream.keys(), len(stream["blocks"])
    (dict_keys(['blocks']), 3)
    """
    with watch(model, (TransformerBlock, CrossBlock)) as seen:
        model(*inputs)
    stacks = {}
    for name, _, (x, *_), _, y, _ in seen:
        stacks.setdefault(name.rpartition(".")[0], [x]).append(y)
    if not stacks:
        raise ValueError(f"residual_stream: {type(model).__name__} has no Transformer blocks.")
    return stacks


def hidden_activations(model, *inputs):
    """What the hidden units of every feed-forward say, after their nonlinearity.

    Parameters
    ----------
    model : Layer
        With feed-forwards, gated or not. Those of experts are left out: each sees other tokens.
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
    with watch(model, Linear) as seen:
        layers = list(model.named_layers())
        mixtures = tuple(f"{name}." for name, layer in layers if isinstance(layer, MixtureOfExperts))
        outputs = {id(layer.output): name for name, layer in layers
                   if isinstance(layer, (FeedForward, GatedFeedForward)) and not name.startswith(mixtures)}
        model(*inputs)
    found = {outputs[id(each.layer)]: each.inputs[0] for each in seen if id(each.layer) in outputs}
    if not found:
        raise ValueError(f"hidden_activations: {type(model).__name__} has no feed-forward that every token passes.")
    return found


def dead_units(activations):
    """The part of the hidden units that are never heard: nowhere louder than a thousandth of the root mean square of all.

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
    loudest, usual = np.abs(units).max(axis=0), float(np.sqrt((units.astype(np.float64) ** 2).mean()))
    return float((loudest <= SILENT * usual).mean())
