"""The activations that a feed-forward can have, by the names that configs use."""

from numformer.functional.activations.gelu import (
    gelu, gelu_backward, gelu_tanh, gelu_tanh_backward)
from numformer.functional.activations.relu import (
    relu, relu_backward, relu_squared, relu_squared_backward)
from numformer.functional.activations.swish import (
    quick_gelu, quick_gelu_backward, silu, silu_backward)
from numformer.underflow import underflow_is_zero

ACTIVATIONS = {
    "relu": (relu, relu_backward),
    "relu_squared": (relu_squared, relu_squared_backward),
    "gelu": (gelu, gelu_backward),
    "gelu_tanh": (gelu_tanh, gelu_tanh_backward),
    "silu": (silu, silu_backward),
    "quick_gelu": (quick_gelu, quick_gelu_backward),
}
ACTIVATIONS = {name: tuple(map(underflow_is_zero, pair)) for name, pair in ACTIVATIONS.items()}
# Gated feed-forwards: the activation of the gate
GATED = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}
# How papers spell them
_SPELLED = {"relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU", "silu": "SiLU",
            "relu_squared": "ReLU squared", "quick_gelu": "GELU",
            "swiglu": "SwiGLU", "geglu": "GEGLU", "geglu_tanh": "GEGLU"}


def spelled(name):
    """An activation, or a gated unit, as papers spell it; or its name.

    Examples
    --------
    >>> spelled("relu"), spelled("tanh")
    ('ReLU', 'tanh')
    """
    return _SPELLED.get(name, name)
