"""Linear maps, feed-forward networks, projections to heads, and the embedding."""

from functools import partial

import numpy as np

from numformer import functional as F
from numformer.specifications.edges import left_out
from numformer.specifications.levels import Level, sizes, with_activations
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


def flattened_otherwise(dweight, dy, x, *_):
    return np.reshape(x, (-1, x.shape[-1]), order="F").T @ dy.reshape(-1, dy.shape[-1])


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
         changed(F.linear, dweight=lambda dweight, dy, x, *_: np.swapaxes(x, -1, -2) @ dy)),
        ("dweight is averaged over the batch, but must be summed", changed(
            F.linear, dweight=lambda dweight, dy, x, *_: dweight / len(x))),
        ("dweight is averaged over the tokens, but must be summed", changed(
            F.linear, dweight=lambda dweight, dy, x, *_: dweight / (x.size // x.shape[-1]))),
        ("x and dy are flattened in different orders, one of them as with order='F': dweight pairs "
         "vectors of different positions", changed(F.linear, dweight=flattened_otherwise))],
    last_axes={"x": 1},
    hints=(
        "All vectors along the last axis are multiplied by the same matrix.",
        "(..., C) @ (C, F) is (..., F): @ multiplies the last two axes and keeps the others. The "
        "bias (F,) is broadcast.",
        "y is x @ weight, with the matrix on the right; then add the bias, which needs no "
        "reshape."),
    backward_hints=(
        "Each gradient has the shape of its array. For one vector, y_f = sum_c x_c W_cf + b_f: "
        "which entries of y depend on x_c, on W_cf and on b_f?",
        "dx needs no sum over the batch: (..., F) @ (F, C). dweight and dbias are sums over all "
        "vectors: first reshape x to (N, C) and dy to (N, F).",
        "dx = dy @ weight.T, and dweight = vectors.T @ dvectors, with the reshaped x and dy; "
        "dbias sums dvectors over axis 0."))


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
    last_axes={"ids": 0},
    hints=(
        "In NumPy, an array of integers can be the index of another array.",
        "An index of any shape (...) into the rows of a table (V, C) gives (..., C). It is the "
        "product with a one-hot matrix, without the zeros.",
        "Put ids into the brackets of weight: no loop, and no reshape."),
    backward_hints=(
        "Begin with zeros of the shape of weight. Every position adds its dy to the row of its "
        "id; rows that no id names stay 0.",
        "`dweight[ids] += dy` reads, adds and writes each row once, so a repeated id keeps one "
        "gradient alone. np.add.at adds all of them.",
        "With dweight = np.zeros_like(weight): np.add.at takes the array, the index ids, and what "
        "is added, dy."))


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


def hidden_bias_after_the_activation(x, hidden_weight, hidden_bias, output_weight, output_bias,
                                     activation="gelu"):
    hidden = F.ACTIVATIONS[activation][0](x @ hidden_weight)[0] + hidden_bias
    return hidden @ output_weight + output_bias


SLOPE_AT_THE_OUTPUT = ("the derivative of the activation is taken at its output, but must be taken "
                       "at its input")


def with_slope_at_the_output(dy, x, *maps, activation=None):
    """The backward of a feed-forward, or of a gated one, with this mistake."""
    *first, last = zip(maps[::2], maps[1::2])
    f, f_backward = F.ACTIVATIONS[activation or ("gelu" if len(first) == 1 else "silu")]
    units, saved = zip(*(F.linear(x, *each) for each in first))
    a = f(units[0])[0]
    hidden = a if len(first) == 1 else a * units[1]
    dhidden, *of_last = F.linear_backward(dy, F.linear(hidden, *last)[1])
    da = dhidden if len(first) == 1 else dhidden * units[1]
    dunits = [f_backward(da, f(a)[1]), dhidden * a]
    gradients = [F.linear_backward(du, kept) for du, kept in zip(dunits, saved)]
    return (sum(each[0] for each in gradients), *(
        gradient for each in gradients for gradient in each[1:]), *of_last)


specify(
    F.feed_forward, ("x", "hidden_weight", "hidden_bias", "output_weight", "output_bias"),
    {"plain": fed_forward("hidden", "output"), **with_activations(
        partial(fed_forward, "hidden", "output"), F.ACTIVATIONS, "gelu")},
    cases=[Pair(f"feed-forward, {f}", [(2, 3, 4), (4, 5), (5,), (5, 3), (3,)], after=(f,))
           for f in F.ACTIVATIONS],
    forward_mistakes=[("the hidden bias is added after the activation, but must be added before it",
                       hidden_bias_after_the_activation)],
    mistakes=[(SLOPE_AT_THE_OUTPUT, with_slope_at_the_output)],
    last_axes={"x": 1},
    hints=(
        "Two linear maps with an activation between them, applied to every vector on its own.",
        "hidden_weight maps C to F, output_weight F to E. The activation is looked up by its "
        "name: the default is the exact gelu.",
        "h = x @ hidden_weight + hidden_bias, a is the activation of h, and a goes through the "
        "second map in the same way."),
    backward_hints=(
        "Back through the three lines: the second map gives da, the activation dh, the first map "
        "dx. Save h and a, or recompute them.",
        "da = dy W2^T is (..., F), dh = da f'(h). Each weight's gradient is its input's transpose "
        "with its output's gradient: a with dy, x with dh, summed over all vectors.",
        "Two calls of linear_backward with the activation's backward between them; return dx, "
        "then dhidden_weight, dhidden_bias, doutput_weight, doutput_bias."))


# ---- gated_feed_forward --------------------------------------------------------------------------

specify(
    F.gated_feed_forward,
    ("x", "gate_weight", "gate_bias", "hidden_weight", "hidden_bias", "output_weight",
     "output_bias"),
    {"plain": fed_forward("gate", "hidden", "output"), **with_activations(
        partial(fed_forward, "gate", "hidden", "output"), F.ACTIVATIONS, "silu")},
    cases=[Pair(f"gated feed-forward, {f}", [(2, 3, 4), *2 * [(4, 5), (5,)], (5, 3), (3,)],
                after=(f,)) for f in ("silu", "gelu", "gelu_tanh")],
    mistakes=[(SLOPE_AT_THE_OUTPUT, with_slope_at_the_output)],
    last_axes={"x": 1},
    hints=(
        "x is mapped twice, to gates and to hidden units. Only the gates pass through the "
        "activation; the product is mapped back.",
        "g and h are (..., F), from gate_weight and hidden_weight (C, F). The default activation "
        "is silu, of g alone.",
        "a = f(g) * h, entry by entry; y is a @ output_weight plus the output bias."),
    backward_hints=(
        "x has two paths, through g and through h: dx is the sum of what both maps return. At a = "
        "f(g) h use the product rule.",
        "da = dy W3^T, dh = da f(g), dg = da h f'(g), each (..., F). The two first maps share the "
        "input x: their weights get x^T dg and x^T dh.",
        "dx = dx_gate + dx_hidden, from linear_backward of dg and of dh; return dx, then weight "
        "and bias of gate, hidden and output."))


# ---- head_projections ----------------------------------------------------------------------------

specify(
    F.head_projections,
    ("x", *(f"{map}_{kind}" for map in ("query", "key", "value") for kind in ("weight", "bias")),
     "query_norm", "key_norm"),
    cases=[Pair(f"head projections{kind}", [(2, 3, 5), *3 * [(5, 8), (8,)], (4,), (4,)],
                after=(4, rotation, 0.2)) for kind, rotation in (
                    ("", None), (", rotated", (*F.rotary_angles(0, 3, 4), "interleaved")))],
    hints=(
        "Three linear maps of the same x, each cut into heads of width d_head; queries and keys "
        "may be normalized and rotated.",
        "x (B, T, C) times a weight (C, H D) is reshaped to (B, T, H, D) and transposed to (B, H, "
        "T, D). First the norm of each head, then the rotation.",
        "v has neither norm nor rotation. query_norm and key_norm are (d_head,) and the same for "
        "all heads: rms_norm over the last axis."),
    backward_hints=(
        "x has three paths, through q, k and v: dx is the sum of all three. Within a path, go "
        "back in reverse: rotation, norm, heads, linear map.",
        "The rotation is undone by rotary_backward; rms_norm_backward gives the gradient of "
        "query_norm, summed over all heads, too. Then merge the heads: transpose, reshape.",
        "dx = dx_query + dx_key + dx_value, each from linear_backward of the merged heads; the "
        "weights and biases follow, the gradients of the two norms are last."))
