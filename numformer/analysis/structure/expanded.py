"""The parts of the layers of one block: projections, positions, weights, experts."""

from numformer.analysis.structure.layer_labels import activation_label
from numformer.analysis.structure.parts import Row
from numformer.functional import attention_weights
from numformer.functional.activations.table import ACTIVATIONS as FUNCTIONS
from numformer.layers import (
    FeedForward, GatedConvolution, GatedFeedForward, GatedSwishFeedForward, MixtureOfExperts,
    MultiHeadAttention, PositionedAttention, SwishFeedForward, WindowAttention)

ADDED = {"ALiBi": "ALiBi", "RelativePositionBias": "relative bias",
         "WindowPositionBias": "relative bias", "ShawPositions": "relative positions"}


def expanded(box, layer, reader):
    """The parts of a layer in series, or its box alone.

    Parameters
    ----------
    box : Box
        Its name and its shape.
    layer : Layer
    reader : Reader

    Returns
    -------
    tuple
        Boxes and rows, whose parameters are those of the box.
    """
    for kind, parts in PARTS.items():
        if isinstance(layer, kind):
            return parts(box, layer, reader)
    return box,


def _attention(box, layer, reader):
    B, T, _ = shape = box.shape
    S = "S" if box.reads_memory else T
    H, D = reader.letter("H", layer.n_heads), reader.letter("D", layer.d_head)
    G = H if layer.n_kv_heads == layer.n_heads else reader.letter("G", layer.n_kv_heads)
    added = "of x + positions" if isinstance(layer, PositionedAttention) else ""
    read = dict(reads_input=False, detail="of the memory") if box.reads_memory else {}
    rotary = layer.positions if layer.positions.layout is not None else None
    queries, keys = ((
        reader.box((B, heads, length, D), part, name=f"{name} projection",
                   **{"detail": added} | more),
        *reader.boxes((B, heads, length, D), norm, rotary))
        for heads, length, part, norm, name, more in (
            (H, T, layer.query, layer.query_norm, "Query", {}),
            (G, S, layer.key, layer.key_norm, "Key", read)))
    values = reader.box((B, G, S, reader.letter("D", layer.d_value)), layer.value,
                        name="Value projection", **{"detail": ""} | read),
    masked = " + mask" if box.name.startswith("Masked") else ""
    bias = ADDED.get(type(layer.positions).__name__)
    scores = "q kᵀ / √D" if layer.scale is None else (
        "q kᵀ" if layer.scale == 1 else f"{layer.scale:.3g} q kᵀ")
    weights = reader.function((B, H, T, S), "Attention weights", attention_weights,
                              f"softmax({scores}{f' + {bias}' if bias else ''}{masked})")
    if bias:
        weights = weights._replace(parameters=sum(
            each.data.size for each in layer.positions.parameters()))
    o = reader.method((B, H, T, D), "Weighted sum of values", MultiHeadAttention, "o = p v")
    output = reader.box(shape, layer.output, name="Output projection", detail="")
    return Row(((Row((queries, keys)), weights), values)), o, output


def _windows(box, layer, reader):
    B, height, width, C = box.shape
    side = layer.window
    shifted = f"shifted by {layer.offset}" if layer.offset else ""
    N = reader.letter("N", (height // side) * (width // side))
    inside = f"{B} {N}", side * side, C
    cut = reader.method(inside, "Windows", WindowAttention, f"{side} x {side} {shifted}".strip())
    joined = reader.method(box.shape, "Windows", WindowAttention, "joined again")
    attention = box._replace(name="Self-attention", shape=inside)
    return cut, *_attention(attention, layer.attention, reader), joined


def _activation(layer, shape, reader):
    f, _ = FUNCTIONS[layer.activation]
    return reader.function(shape, activation_label(layer.activation), f)._replace(kind="activation")


def _inner(box, layer, reader):
    return *box.shape[:-1], reader.letter("F", layer.hidden.weight.data.shape[1])


def _feed_forward(box, layer, reader):
    hidden = _inner(box, layer, reader)
    middle = (_activation(layer, hidden, reader) if isinstance(layer, FeedForward)
              else reader.box(hidden, layer.swish))
    return reader.box(hidden, layer.hidden), middle, reader.box(box.shape, layer.output)


def _gated(box, layer, reader):
    hidden = _inner(box, layer, reader)
    middle = (_activation(layer, hidden, reader) if isinstance(layer, GatedFeedForward)
              else reader.box(hidden, layer.swish))
    gate = reader.box(hidden, layer.gate, name="Gate"), middle
    product = reader.method(hidden, "Product", type(layer), "elementwise")
    return (Row((gate, (reader.box(hidden, layer.hidden),))), product,
            reader.box(box.shape, layer.output))


def _experts(box, layer, reader):
    *tokens, C = box.shape
    k, E = layer.k, reader.letter("E", len(layer.experts))
    router = (reader.box((*tokens, E), layer.router, name="Router"),
              reader.method((*tokens, k), "Top-k weights", MixtureOfExperts,
                            f"{k} of {len(layer.experts)} for each token"))
    found = [reader.box(box.shape, expert) for expert in layer.experts]
    experts = found[0]._replace(
        name="Experts", kind="Experts", shape=(*tokens, k, C), path="",
        detail=f"{len(found)} feed-forwards, {found[0].detail}",
        parameters=sum(each.parameters for each in found))
    total = reader.method(box.shape, "Weighted sum of experts", MixtureOfExperts)
    return Row((router, (experts,))), total


def _convolution(box, layer, reader):
    B, T, C = box.shape
    double = B, T, 2 * layer.convolution.weight.data.shape[1]
    half = B, T, C
    return (*reader.boxes(half, layer.norm),
            reader.box(double, layer.convolution, name="Causal convolution", detail=box.detail),
            reader.method(half, "Product", GatedConvolution, "a sigmoid(g)"))


PARTS = {
    WindowAttention: _windows,
    MultiHeadAttention: _attention,
    (FeedForward, SwishFeedForward): _feed_forward,
    (GatedFeedForward, GatedSwishFeedForward): _gated,
    MixtureOfExperts: _experts,
    GatedConvolution: _convolution,
}
