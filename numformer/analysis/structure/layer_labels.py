"""What a layer is called in a diagram, and its sizes."""

from numformer import layers as L
from numformer.models.bert.model import MaskedTokenHead
from numformer.models.detr.heads import BoxHead
from numformer.models.ngram.decoder import TokenAndNGramEmbedding
from numformer.parameter import Parameter

ATTENTION = "Multi-head attention"
ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU", "silu": "SiLU",
               "relu_squared": "ReLU squared", "quick_gelu": "GELU", "tanh": "tanh",
               "sigmoid": "sigmoid"}
GATED = {"silu": "SwiGLU", "gelu": "GEGLU", "gelu_tanh": "GEGLU", "relu": "ReGLU"}
IN_ATTENTION = {
    L.RotaryPositions: "rotary positions at q and k", L.ALiBi: "ALiBi added to scores",
    L.RelativePositionBias: "relative bias added to scores",
    L.WindowPositionBias: "relative bias added to scores",
    L.ShawPositions: "relative positions at k and v"}
SCORES = {"additive": "additive", "general": "bilinear", "dot": "dot-product",
          "scaled_dot": "scaled dot-product"}


def activation_label(name):
    """The name of an activation in a diagram: that of the table, if it has no other."""
    return ACTIVATIONS.get(name, name)


def label_of(layer):
    """The name of a layer in words, and a line about its sizes.

    Parameters
    ----------
    layer : Layer or Parameter

    Returns
    -------
    name, detail : str

    Examples
    --------
    >>> label_of(L.Embedding(65, 16, rng=None))
    ('Token embedding', '65 x 16')
    >>> label_of(L.MultiHeadAttention(16, 4, rng=None, n_kv_heads=2))
    ('Multi-head attention', '4 heads of 4, 2 of keys and values')
    """
    for kind, label in LABELS.items():
        if isinstance(layer, kind):
            return label(layer)
    return type(layer).__name__, ""


def _shape(*sizes):
    return " x ".join(f"{size:,}" for size in sizes)


def _attention(layer):
    detail = f"{layer.n_heads} heads of {layer.d_head}"
    if layer.n_kv_heads != layer.n_heads:
        detail += f", {layer.n_kv_heads} of keys and values"
    positions = IN_ATTENTION.get(type(layer.positions))
    normed = not isinstance(layer.query_norm, L.Identity)
    return ATTENTION, ", ".join(filter(None, [detail, positions, "RMSNorm of q and k" * normed]))


def _windows(layer):
    _, detail = _attention(layer.attention)
    shifted = f", shifted by {layer.offset}" if layer.offset else ""
    return "Window attention", f"{detail}, windows of {layer.window} x {layer.window}{shifted}"


def _fixed(layer):
    kind = {"even": "equal weights", "distance": "weights by distance"}[layer.weights]
    return ATTENTION, f"{layer.n_heads} heads of {layer.d_value}, {kind}, not trained"


def _to(weight, *more):
    C, F = weight.data.shape[-2:]
    return ", ".join([f"{C:,} to {F:,}", *more])


def _experts(layer):
    return ("Mixture of experts", f"{len(layer.experts)} experts, {layer.k} for each token: "
            + label_of(layer.experts[0])[1])


def _embedding(layer):
    V, C = layer.weight.data.shape
    return "+ Segment embedding" if V <= 4 else "Token embedding", _shape(V, C)


def _patches(layer):
    P, _, channels, C = layer.weight.data.shape
    return "Patch embedding", f"{P} x {P} x {channels} to {C:,}"


def _head(name):
    return lambda layer: (name, _shape(*layer.weight.data.shape[::-1]))


def _convolution(layer):
    width, _, C, F = layer.weight.data.shape
    more = [f"padding {layer.padding}"] * bool(layer.padding)
    return "Convolution", ", ".join([f"{width} x {width}, {C:,} to {F:,}", *more])


def _gated_convolution(layer):
    width, C, _ = layer.convolution.weight.data.shape
    return "Gated causal convolution", f"width {width}, dilation {layer.convolution.dilation}"


def _cell(name):
    return lambda layer: (name, f"{len(layer.input.weight.data):,} to {layer.width:,}, "
                          "state to state")


def _both_ways(layer):
    kind = type(layer.forward_layer).__name__
    return (f"Bidirectional {kind}", f"{len(layer.forward_layer.input.weight.data):,} to "
            f"{layer.forward_layer.width:,} + {layer.backward_layer.width:,}")


def _pooling(layer):
    return ("Class token's vector" if layer.kind == "class" else f"{layer.kind.title()} pooling",
            "" if layer.kind == "class" else "over all positions")


def _ngrams(layer):
    tables = layer.ngrams.tables
    return ("Token and n-gram embedding", f"{_shape(*layer.weight.data.shape)}, and "
            f"{len(tables)} tables of up to {len(tables[-1].data):,} rows")


# the first kind that fits
LABELS = {
    Parameter: lambda layer: ("Class token, prepended", ""),
    L.PositionedAttention: lambda layer: (
        ATTENTION, f"{layer.n_heads} heads of {layer.d_head}, positions added to q and k"),
    L.MultiHeadAttention: _attention,
    L.FixedWeightAttention: _fixed,
    L.WindowAttention: _windows,
    L.MixtureOfExperts: _experts,
    L.FeedForward: lambda layer: (
        "Feed-forward", _to(layer.hidden.weight, activation_label(layer.activation))),
    L.GatedFeedForward: lambda layer: (
        "Feed-forward", _to(layer.hidden.weight, GATED.get(layer.activation, "gated"))),
    L.SwishFeedForward: lambda layer: ("Feed-forward", _to(layer.hidden.weight, "trained Swish")),
    L.GatedSwishFeedForward: lambda layer: (
        "Feed-forward", _to(layer.hidden.weight, "gated by trained Swish")),
    TokenAndNGramEmbedding: _ngrams,
    L.Embedding: _embedding,
    L.PatchEmbedding: _patches,
    L.PatchMerging: lambda layer: (
        "Patch merging", _to(layer.reduction.weight, "2 x 2 neighbours")),
    L.SoftCappedLMHead: _head("LM head, soft-capped"),
    L.LMHead: _head("LM head"),
    MaskedTokenHead: lambda layer: ("Masked-token head",
                                    _shape(*layer.lm_head.weight.data.shape[::-1])),
    BoxHead: lambda layer: ("Box head", f"{_to(layer.first.weight)} twice, to 4"),
    L.ClassHeads: lambda layer: ("Class heads", f"mean of {len(layer.heads)}, each "
                                 + _to(layer.heads[0].weight)),
    L.ClassPooler: lambda layer: ("Class pooler", _to(layer.linear.weight, "tanh")),
    L.Pooling: _pooling,
    L.Pooling2D: lambda layer: (f"{layer.kind.title()} pooling", _shape(layer.size, layer.size)),
    L.Linear: lambda layer: ("Linear", _to(layer.weight)),
    L.Convolution2D: _convolution,
    L.GatedConvolution: _gated_convolution,
    L.AttentiveGRU: lambda layer: (
        "GRU with attention", f"{SCORES[layer.attention.score]} scores of states and inputs"),
    L.RNN: _cell("RNN"), L.LSTM: _cell("LSTM"), L.GRU: _cell("GRU"),
    L.Bidirectional: _both_ways,
    L.SinusoidalPositions2D: lambda layer: ("+ Sinusoidal positions", "of row and column"),
    L.SinusoidalPositions: lambda layer: ("+ Sinusoidal positions", ""),
    L.LearnedPositions2D: lambda layer: (
        "+ Learned positions", f"{len(layer.row.data)} rows, {len(layer.column.data)} columns"),
    L.LearnedPositions: lambda layer: ("+ Learned positions", _shape(*layer.weight.data.shape)),
    L.ConcatenatedPositions: lambda layer: ("Concatenated positions", ""),
    L.RotaryPositions: lambda layer: ("Rotary positions", "pairs are rotated"),
    L.Swish: lambda layer: ("Swish", "trained slope"),
    L.RelativePositionBias: lambda layer: ("Relative position bias",
                                           _shape(*layer.weight.data.shape)),
}
