"""Which function of an exercise is which of `minimal.py`, and how it takes that one's place.

The two differ in what a backward gets: in an exercise all inputs of the forward, such as
`linear_backward(dy, x, weight, bias)`, in minimal.py what the forward saved. So a pair in which a
function is the student's saves its inputs.
"""

import numpy as np

from numformer import minimal

LOW = -1e30                                           # a score whose exp is 0, and no Inf
TOP_P = 0.9
IN_A_BLOCK = "norm1", "qkv", "output", "norm2", "mlp1", "mlp2"        # with a weight and a bias


# ---- How a student's function is called ----------------------------------------------------------
# Each takes a function of the student, and returns one that takes what minimal.py gives.

def as_it_is(function):
    """The arguments are the same."""
    return function


def with_a_bias(function):
    """linear: the last layer of minimal.py has none, for which it gives 0."""
    def linear(*arguments):
        *before, weight, bias = arguments             # (dy,) x
        bias = np.zeros(weight.shape[1], weight.dtype) if np.ndim(bias) == 0 else bias
        return function(*before, weight, bias)
    return linear


def of_finite_scores(function):
    """softmax: minimal.py masks with -Inf."""
    return lambda x: function(np.maximum(x, LOW))


def of_weights(function):
    """softmax_backward: minimal.py gives the weights y, whose logarithms are scores of them."""
    return lambda dy, y: function(dy, np.log(np.maximum(y, np.finfo(y.dtype).tiny)))


def with_dloss(function):
    """cross_entropy_backward: minimal.py ends with the loss, whose gradient is 1."""
    return lambda logits, targets: function(1.0, logits, targets)


def in_place(function):
    """AdamW: minimal.py moves all parameters in place, and lets matrices alone decay."""
    def adamw(p, g, mean, square, step, learning_rate):
        for name in p:
            for w, dw, m, v in zip(p[name], g[name], mean[name], square[name]):
                decay = minimal.WEIGHT_DECAY if w.ndim == 2 else 0.0
                w[...], m[...], v[...] = function(w, dw, m, v, step, learning_rate, decay)
    return adamw


def of_layers(function):
    """block: the exercise takes the parameters of its layers."""
    return lambda x, p, i: function(x, *(p[f"{name}.{i}"] for name in IN_A_BLOCK))


def to_layers(function):
    """block_backward: the exercise returns all gradients."""
    def block_backward(dy, saved, g, i):
        dx, *gradients = function(dy, saved)
        for n, name in enumerate(IN_A_BLOCK):
            g[f"{name}.{i}"] = gradients[2 * n:2 * n + 2]
        return dx
    return block_backward


def with_limit(function):
    """Top-p, between the softmax and the random choice of minimal.py."""
    return lambda p: function(p, TOP_P)


def causal(function):
    """Attention: the exercise has no mask, so each position attends to a sequence that it ends."""
    def attention(qkv, heads):
        q, k, v = _heads(qkv, heads)                                  # (B, H, T, D) each
        o = [function(q[:, :, t:t + 1], k[:, :, :t + 1], v[:, :, :t + 1])
             for t in range(q.shape[2])]                              # (B, H, 1, D) each
        return _together(np.concatenate(o, axis=2))
    return attention


def causal_backward(function):
    """The gradients of `causal`: those of a key and a value are sums over later positions."""
    def attention_backward(dy, qkv, heads):
        do, = _heads(dy, heads, parts=1)
        q, k, v = _heads(qkv, heads)
        dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
        for t in range(q.shape[2]):
            one, until = np.s_[:, :, t:t + 1], np.s_[:, :, :t + 1]
            dq_t, dk_t, dv_t = function(do[one], q[one], k[until], v[until])
            dq[one] = dq_t
            dk[until] += dk_t
            dv[until] += dv_t
        return np.concatenate([_together(part) for part in (dq, dk, dv)], axis=-1)
    return attention_backward


def _heads(x, heads, parts=3):
    """(B, T, parts C) to arrays (B, H, T, D), as in minimal.py."""
    B, T, _ = x.shape
    return [part.reshape(B, T, heads, -1).swapaxes(1, 2) for part in np.split(x, parts, axis=-1)]


def _together(x):
    """(B, H, T, D) to (B, T, C)."""
    B, H, T, D = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * D)


# ---- Which exercises, and where ------------------------------------------------------------------

ACTIVATIONS = "gelu_tanh", "silu", "relu_squared"     # of exercises 05 and 06: one, by the seed

# function of an exercise: (function of minimal.py, how it is called), in the order of the output
PARTS = {
    "embedding": ("embedded", as_it_is),
    "embedding_backward": ("embedded_backward", as_it_is),
    "linear": ("linear", with_a_bias),
    "linear_backward": ("linear_backward", with_a_bias),
    "layer_norm": ("layer_norm", as_it_is),
    "layer_norm_backward": ("layer_norm_backward", as_it_is),
    **{name: ("gelu", as_it_is) for name in ACTIVATIONS},
    **{f"{name}_backward": ("gelu_backward", as_it_is) for name in ACTIVATIONS},
    "softmax": ("softmax", of_finite_scores),
    "softmax_backward": ("softmax_backward", of_weights),
    "scaled_dot_product_attention": ("attention", causal),
    "scaled_dot_product_attention_backward": ("attention_backward", causal_backward),
    "block": ("block", of_layers),
    "block_backward": ("block_backward", to_layers),
    "cross_entropy": ("cross_entropy", as_it_is),
    "cross_entropy_backward": ("cross_entropy_backward", with_dloss),
    "adamw": ("adamw", in_place),
    "top_p": ("likely", with_limit),
}
# Of minimal.py, a forward that saves; its backward has the name with _backward
PAIRS = "linear", "layer_norm", "gelu", "attention", "cross_entropy"
# function: a level of its exercise that the model never reaches
UNREACHED = {"cross_entropy": "an ignored target", "cross_entropy_backward": "an ignored target"}
# function: that which calls it in minimal.py, and does not if it is the student's, too
CALLED_BY = {"softmax_backward": "scaled_dot_product_attention_backward"}
