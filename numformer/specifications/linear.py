"""Linear maps, feed-forward networks, projections to heads, and the embedding."""

import numpy as np

from numformer import functional as F
from numformer.specifications.edges import left_out
from numformer.specifications.levels import Level, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import changed, specify


# ---- linear --------------------------------------------------------------------------------------

def linear(x, weight, bias):
    return x @ weight + bias


def linear_backward(dy, x, weight, bias):
    vectors = x.reshape(-1, x.shape[-1])
    dvectors = dy.reshape(-1, dy.shape[-1])
    dx = dy @ weight.T
    dweight = vectors.T @ dvectors
    dbias = dy.sum(axis=(0, 1))
    return dx, dweight, dbias


def draw_linear(square):
    def make(rng):
        B, T, C, F = sizes(rng, 4)
        F = C if square else F
        return {"x": rng.standard_normal((B, T, C)), "weight": rng.standard_normal((C, F)),
                "bias": rng.standard_normal(F)}, {}
    return make


specify(
    F.linear, ("x", "weight", "bias"),
    {"as many inputs as outputs": draw_linear(True), "other widths": draw_linear(False),
     "no bias": left_out(draw_linear(False), "bias")},
    mistakes=[
        ("the weight is not transposed: dx is dy @ weight.T",
         changed(F.linear, dx=lambda dx, dy, x, weight, *_: dy @ weight)),
        ("dweight is transposed: it must be x.T @ dy",
         changed(F.linear, dweight=lambda dweight, *_: dweight.T)),
        ("the sum over all tokens is missing in the gradient of the bias: the bias was broadcast, "
         "so its gradient is summed", changed(F.linear, dbias=lambda dbias, dy, *_: dy)),
        ("the gradient of the bias is summed over the first axis only: the bias was broadcast "
         "over all axes but the last",
         changed(F.linear, dbias=lambda dbias, dy, *_: dy.sum(axis=0))),
        ("the gradient of the bias is averaged over the tokens, but must be summed",
         changed(F.linear, dbias=lambda dbias, dy, *_: dy.mean(axis=(0, 1)))),
        ("the sum over the batch is missing in the gradient of the weight",
         changed(F.linear, dweight=lambda dweight, dy, x, *_: np.swapaxes(x, -1, -2) @ dy))],
    last_axes={"x": 1})


# ---- embedding -----------------------------------------------------------------------------------

def embedding(ids, weight):
    return weight[ids]


def embedding_backward(dy, ids, weight):
    dweight = np.zeros(weight.shape)
    np.add.at(dweight, ids, dy)
    return dweight


def looked_up(rng):
    B, T, V, C = sizes(rng, 4)
    ids = rng.integers(0, V, (B, T))
    ids[0, :2] = ids[-1, -1]                                  # an id that occurs several times
    return {"ids": ids, "weight": rng.standard_normal((V, C))}, {}


def looked_up_by_int8(rng):
    return {"ids": rng.integers(0, 100, (3, 50)).astype(np.int8),
            "weight": rng.standard_normal((100, 3))}, {}


INT8 = "The ids are int8 here: what is computed from them must not overflow at 127."


def embedding_with_overwriting(dy, ids, weight):
    dweight = np.zeros_like(weight)
    dweight[ids] = dy
    return dweight


specify(
    F.embedding, ("weight",),
    {"plain": looked_up, "ids of int8": Level(looked_up_by_int8, INT8)},
    mistakes=[
        ("the gradients of repeated ids must be summed, but only the last is kept: np.add.at sums "
         "them, `dweight[ids] += dy` does not",
         embedding_with_overwriting)],
    last_axes={"ids": 0})


# ---- feed_forward --------------------------------------------------------------------------------

def fed_forward(*maps, **options):
    """x (B, T, C), and the weights and biases of maps: the last from F to E, the others C to F."""
    def make(rng):
        B, T, C, F, E = sizes(rng, 5)
        arguments = {"x": rng.standard_normal((B, T, C))}
        for name in maps:
            width = (F, E) if name == maps[-1] else (C, F)
            arguments[f"{name}_weight"] = rng.standard_normal(width)
            arguments[f"{name}_bias"] = rng.standard_normal(width[1])
        return arguments, options
    return make


specify(
    F.feed_forward, ("x", "hidden_weight", "hidden_bias", "output_weight", "output_bias"),
    {"plain": fed_forward("hidden", "output"),
     'activation="relu"': fed_forward("hidden", "output", activation="relu")},
    cases=[Pair(f"feed-forward, {f}", [(2, 3, 4), (4, 5), (5,), (5, 3), (3,)], after=(f,))
           for f in F.ACTIVATIONS],
    last_axes={"x": 1})


# ---- gated_feed_forward --------------------------------------------------------------------------

specify(
    F.gated_feed_forward,
    ("x", "gate_weight", "gate_bias", "hidden_weight", "hidden_bias", "output_weight",
     "output_bias"),
    {"plain": fed_forward("gate", "hidden", "output"),
     'activation="gelu"': fed_forward("gate", "hidden", "output", activation="gelu")},
    cases=[Pair(f"gated feed-forward, {f}", [(2, 3, 4), *2 * [(4, 5), (5,)], (5, 3), (3,)],
                after=(f,)) for f in ("silu", "gelu", "gelu_tanh")],
    last_axes={"x": 1})


# ---- head_projections ----------------------------------------------------------------------------

specify(
    F.head_projections,
    ("x", *(f"{map}_{kind}" for map in ("query", "key", "value") for kind in ("weight", "bias")),
     "query_norm", "key_norm"),
    cases=[Pair(f"head projections{kind}", [(2, 3, 5), *3 * [(5, 8), (8,)], (4,), (4,)],
                after=(4, rotation, 0.2)) for kind, rotation in (
                    ("", None), (", rotated", (*F.rotary_angles(0, 3, 4), "interleaved")))])
