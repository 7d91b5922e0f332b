"""Attention of one input, layer by layer, with labels: what the pictures and the explorer show."""

from typing import NamedTuple

import numpy as np

from numformer.analysis.capture import ATTENTION, capture
from numformer.backend import one_blas_thread
from numformer.layers import MultiHeadAttention


class Reading(NamedTuple):
    """One input for a model, with the labels of its parts.

    Parameters
    ----------
    inputs : tuple
        Of the model's forward, with B = 1.
    read : list of str
        Labels of the input: tokens, or patches of an image.
    written : list of str, optional
        Labels of the output, from BOS to EOS; of models alone that read one sequence and write
        another.
    image : ndarray of shape (height, width, channels), optional
    """

    inputs: tuple
    read: list
    written: list | None = None
    image: np.ndarray | None = None


class AttentionView(NamedTuple):
    """One stack of attentions: a weight for every layer, head, query and key.

    Parameters
    ----------
    name : str
        "self" of a model with one stack; "encoder", "decoder" or "cross" of the others.
    weights : list of ndarray, each of shape (H, T, S)
        Of every layer.
    masks : list of ndarray of bool, each of shape (T, S)
        True where a query may attend to a key.
    queries, keys : list of str
        Labels. The queries of "cross" have the label of the token that is predicted there, as in
        an alignment.
    q, k : list of ndarray, shapes (H, T, D) and (H, S, D), or None
        Queries and keys whose products are the scores. None where scores are no products.
    scales : list of float
        What q . k is multiplied by.
    biases : list of (ndarray of shape (H, T, S) or None)
        What positions add to the scores.
    v : list of ndarray, each of shape (H, S, D_V), or None
        Values, where there are q and k.
    """

    name: str
    weights: list
    masks: list
    queries: list
    keys: list
    q: list | None = None
    k: list | None = None
    scales: tuple = ()
    biases: tuple = ()
    v: list | None = None


def attention_views(model, reading):
    """All attention of a model in one forward.

    Parameters
    ----------
    model : Layer
    reading : Reading

    Returns
    -------
    list of AttentionView

    Raises
    ------
    ValueError
        If the model has no attention, the batch has more than one sequence, there are too few or
        too many labels, or weights are NaN.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=2, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> (view,) = attention_views(model, Reading((np.array([[1, 2, 3]]),), ["a", "b", "c"]))
    >>> view.name, len(view.weights), view.weights[0].shape, view.masks[0].sum()
    ('self', 2, (2, 3, 3), np.int64(6))
    """
    if len(reading.inputs[0]) != 1:
        raise ValueError("attention_views: reading must hold one sequence, "
                         f"but {len(reading.inputs[0])} came.")
    with one_blas_thread(), capture(model, ATTENTION) as calls:
        model(*reading.inputs)
    if not calls:
        raise ValueError(f"attention_views: {type(model).__name__} has no attention.")
    stacks = {}
    for call in calls:
        stacks.setdefault(_stack_of(call, reading), []).append(call)
    return [_view(name, stack, reading) for name, stack in stacks.items()]


def _stack_of(call, reading):
    """The name of the view that an attention belongs to."""
    if reading.written is None:
        return "self"
    if call.name.endswith("cross_attention") or not isinstance(call.layer, MultiHeadAttention):
        return "cross"
    return "encoder" if call.name.startswith("encoder.") else "decoder"


def _view(name, calls, reading):
    """The view of a stack, with labels and numbers checked."""
    weights = [call.layer.attention_weights(call.saved)[0] for call in calls]
    queries, keys = _labels(name, reading)
    if isinstance(calls[0].layer, MultiHeadAttention):
        details = [_details(call) for call in calls]
        masks, *details = map(list, zip(*details))
    else:                                                     # of a recurrent decoder: one head
        weights = [p[None] for p in weights]                          # (1, T, S)
        real = np.arange(weights[0].shape[2]) < reading.inputs[1][0]
        masks, details = [np.broadcast_to(real, p.shape[1:]) for p in weights], ()
    _, T, S = weights[0].shape
    for side, labels, size in (("queries", queries, T), ("keys", keys, S)):
        if len(labels) != size:
            raise ValueError(f"attention_views: {len(labels)} labels came for {size} {side} of "
                             f"{name}; give one for each.")
    if not all(np.isfinite(p).all() for p in weights):
        raise ValueError(f"attention_views: weights of {name} are NaN; the model has diverged.")
    return AttentionView(name, weights, masks, queries, keys, *details)


def _labels(name, reading):
    """Those of the queries and of the keys."""
    if name == "decoder":
        return reading.written[:-1], reading.written[:-1]
    return (reading.written[1:] if name == "cross" else reading.read), reading.read


def _details(call):
    """(mask, q, k, scale, bias, v) of a multi-head attention, without the axis of the batch."""
    layer = call.layer
    q, k, pattern = layer.queries_and_keys(call.saved)                # (1, H, T, D), (1, G, S, D)
    (_, H, T, D), S = q.shape, k.shape[2]
    mask = np.broadcast_to(pattern.dense(T, S), (1, H, T, S))[0, 0]
    if layer.softcap is not None:
        raise ValueError(f"attention_views: the scores of {call.name} are soft-capped, which views "
                         "do not hold; give a model without score_softcap.")
    scale = D ** -0.5 if layer.scale is None else layer.scale
    of_group = H // k.shape[1]
    return (mask, q[0], np.repeat(k[0], of_group, axis=0), scale,
            layer.positions.added_to_scores(T, S, q.dtype),
            np.repeat(layer.values(call.saved)[0], of_group, axis=0))
