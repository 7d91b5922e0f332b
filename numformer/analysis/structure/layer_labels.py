"""What a layer is called in a diagram, and its sizes."""

from numformer.layers import (
    ALiBi, ClassPooler, ConcatenatedPositions, Embedding, FeedForward, GatedFeedForward,
    LayerNorm, LearnedPositions, Linear, LMHead, MixtureOfExperts, MultiHeadAttention,
    PatchEmbedding, Pooling, RelativePositionBias, RMSNorm, RotaryPositions, ShawPositions,
    SinusoidalPositions, SoftCappedLMHead)
from numformer.models.bert import MaskedTokenHead
from numformer.parameter import Parameter

ATTENTION = "Multi-head attention"
ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU", "silu": "SiLU",
               "relu_squared": "ReLU squared", "quick_gelu": "GELU"}
GATED = {"silu": "SwiGLU", "gelu": "GEGLU", "gelu_tanh": "GEGLU", "relu": "ReGLU"}
IN_ATTENTION = {RotaryPositions: "rotary positions", ALiBi: "ALiBi",
                RelativePositionBias: "relative bias", ShawPositions: "relative positions"}


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
    >>> label_of(Embedding(65, 16, rng=None))
    ('Token embedding', '65 x 16')
    >>> label_of(MultiHeadAttention(16, 4, rng=None, n_kv_heads=2))
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
    return ATTENTION, detail + (f", {positions}" if positions else "")


def _feed_forward(layer):
    C, F = layer.hidden.weight.data.shape
    return "Feed-forward", f"{C:,} to {F:,}, {ACTIVATIONS[layer.activation]}"


def _gated(layer):
    C, F = layer.hidden.weight.data.shape
    return "Feed-forward", f"{C:,} to {F:,}, {GATED.get(layer.activation, 'gated')}"


def _linear(layer):
    return "Linear", " to ".join(f"{size:,}" for size in layer.weight.data.shape)


def _experts(layer):
    return ("Mixture of experts", f"{len(layer.experts)}, {layer.k} for a token: "
            + label_of(layer.experts[0])[1])


def _embedding(layer):
    V, C = layer.weight.data.shape
    return "+ Segment embedding" if V <= 4 else "Token embedding", _shape(V, C)


def _patches(layer):
    P, _, channels, C = layer.weight.data.shape
    return "Patch embedding", f"{P} x {P} x {channels} to {C:,}"


# the first kind that fits
LABELS = {
    Parameter: lambda layer: ("Class token, prepended", ""),
    MultiHeadAttention: _attention,
    MixtureOfExperts: _experts,
    FeedForward: _feed_forward,
    GatedFeedForward: _gated,
    Embedding: _embedding,
    PatchEmbedding: _patches,
    SoftCappedLMHead: lambda layer: ("LM head, soft-capped",
                                     _shape(*layer.weight.data.shape[::-1])),
    LMHead: lambda layer: ("LM head", _shape(*layer.weight.data.shape[::-1])),
    MaskedTokenHead: lambda layer: ("Masked-token head",
                                    _shape(*layer.lm_head.weight.data.shape[::-1])),
    ClassPooler: lambda layer: ("Class pooler", _linear(layer.linear)[1]),
    Pooling: lambda layer: ("Class token's vector" if layer.kind == "class"
                            else f"Pooling, {layer.kind}", ""),
    Linear: _linear,
    LayerNorm: lambda layer: ("LayerNorm", ""),
    RMSNorm: lambda layer: ("RMSNorm", ""),
    SinusoidalPositions: lambda layer: ("+ Sinusoidal positions", ""),
    LearnedPositions: lambda layer: ("+ Learned positions", _shape(*layer.weight.data.shape)),
    ConcatenatedPositions: lambda layer: ("Concatenated positions", ""),
    RelativePositionBias: lambda layer: ("Relative position bias",
                                         _shape(*layer.weight.data.shape)),
}
