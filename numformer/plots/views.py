"""What a model looked at when it read something: weights, queries and keys of all its attentions, with the labels of both sides."""

from typing import NamedTuple

import numpy as np

from numformer.backend import one_blas_thread
from numformer.functional.pattern import EVERYWHERE
from numformer.functional.positions import alibi
from numformer.functional.relative_positions import add_by_distance
from numformer.layers import MultiHeadAttention, RelativePositionBias
from numformer.models import Seq2Seq, watch


class Reading(NamedTuple):
    """Something that a model is given to read, for looking at it.

    Parameters
    ----------
    inputs : tuple
        Of the model's forward, with B = 1.
    read : list of str
        What is read, piece by piece: tokens, or patches of an image.
    written : list of str, optional
        What is written after it, with the begin before it and the end after it; only of models that read one sequence and write another.
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
        "self" where there is one stack alone; or "encoder", "decoder" and "cross".
    weights : list of ndarray, each of shape (H, T, S)
        Of every layer.
    masks : list of ndarray of bool, each of shape (T, S)
        True where a query may look.
    queries, keys : list of str
        Labels. Of "cross" the queries are labelled with what is written at that place, as in an alignment.
    q, k : list of ndarray, shapes (H, T, D) and (H, S, D), or None
        What meets in the scores. None where scores are no products.
    scales : list of float
        What q . k is multiplied by.
    biases : list of (ndarray of shape (H, T, S) or None)
        What positions add to the scores.
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
        If the model has no attention, more than one sequence is read, labels are too few or too many, or weights are NaN.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=2, d_model=8), np.random.default_rng(0))
    >>> (view,) = attention_views(model, Reading((np.array([[1, 2, 3]]),), ["a", "b", "c"]))
    >>> view.name, len(view.weights), view.weights[0].shape, view.masks[0].sum()
    ('self', 2, (2, 3, 3), np.int64(6))
    """
    if len(reading.inputs[0]) != 1:
        raise ValueError(f"attention_views: one sequence is looked at, but {len(reading.inputs[0])} came.")
    if isinstance(model, Seq2Seq) and model.config.attention != "none":
        with one_blas_thread():
            weights = model.attention_weights(*reading.inputs)        # (1, T, S)
        mask = np.broadcast_to(np.arange(weights.shape[2]) < reading.inputs[1][0], weights.shape[1:])
        return [_labelled(AttentionView("cross", [weights], [mask], reading.written[1:], reading.read))]
    with one_blas_thread(), watch(model, MultiHeadAttention) as seen:
        model(*reading.inputs)
    if not seen:
        raise ValueError(f"{type(model).__name__} has no attention to look at.")
    stacks = {}
    for each in seen:
        stacks.setdefault(_stack_of(each.name, reading), []).append(_looked(each))
    return [_labelled(AttentionView(name, *map(list, zip(*((weights, mask) for weights, mask, *_ in layers))), *_labels(name, reading),
                                    *map(list, zip(*(rest for _, _, *rest in layers))))) for name, layers in stacks.items()]


def _stack_of(name, reading):
    """Which view an attention of that name belongs to."""
    if reading.written is None:
        return "self"
    return "cross" if name.endswith("cross_attention") else "encoder" if name.startswith("encoder.") else "decoder"


def _labels(name, reading):
    """Those of the queries and of the keys."""
    if name == "decoder":
        return reading.written[:-1], reading.written[:-1]
    return (reading.written[1:] if name == "cross" else reading.read), reading.read


def _labelled(view):
    """A view whose labels and numbers were checked."""
    _, T, S = view.weights[0].shape
    for name, labels, size in (("queries", view.queries, T), ("keys", view.keys, S)):
        if len(labels) != size:
            raise ValueError(f"attention_views: {len(labels)} labels came for {size} {name} of {view.name}; give one each.")
    if not all(np.isfinite(weights).all() for weights in view.weights):
        raise ValueError(f"attention_views: weights of {view.name} are NaN; the model has gone astray.")
    return view


def _looked(seen):
    """(weights, mask, q, k, scale, bias) of one attention in the forward that was seen, without its axis of the batch."""
    layer, x = seen.layer, seen.inputs[0]
    context = seen.inputs[1] if len(seen.inputs) > 1 else seen.options.get("context")
    pattern = seen.inputs[2] if len(seen.inputs) > 2 else seen.options.get("pattern", EVERYWHERE)
    q, k = layer.queries_and_keys(x, context)                         # (1, H, T, D), (1, G, S, D)
    (_, H, T, D), S = q.shape, k.shape[2]
    bias, nothing = None, np.zeros((1, H, T, S), x.dtype)
    if layer.slopes is not None:
        bias = alibi(nothing, layer.slopes)[0][0]
    elif isinstance(layer.relative, RelativePositionBias):
        bias = add_by_distance(nothing, layer.relative.lookup(T, S)[0])[0][0]
    mask = np.broadcast_to(pattern.dense(T, S), (1, H, T, S))[0, 0]
    return (layer.weights(x, context, pattern)[0], mask, q[0], np.repeat(k[0], H // k.shape[1], axis=0),
            D ** -0.5 if layer.scale is None else layer.scale, bias)
