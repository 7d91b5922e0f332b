"""The activations that a feed-forward can have, by the names that configs use."""

from numformer.functional.activations.gelu import (
    gelu, gelu_backward, gelu_tanh, gelu_tanh_backward)
from numformer.functional.activations.relu import (
    relu, relu_backward, relu_squared, relu_squared_backward)
from numformer.functional.activations.swish import silu, silu_backward

ACTIVATIONS = {
    "relu": (relu, relu_backward),
    "relu_squared": (relu_squared, relu_squared_backward),
    "gelu": (gelu, gelu_backward),
    "gelu_tanh": (gelu_tanh, gelu_tanh_backward),
    "silu": (silu, silu_backward),
}
GATED = {"swiglu": "silu", "geglu": "gelu"}        # gated feed-forwards: the activation of the gate
