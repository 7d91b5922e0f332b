"""Problems on the Transformer's functions."""

import numpy as np

from numformer import functional as F
from numformer.teaching.problems.problem import FunctionProblem, elementwise, one_array, sizes


def large(rng):
    rows, columns = sizes(rng, 2)
    return {"x": 800 + 300 * rng.standard_normal((rows, columns))}, {}


def masked(rng):
    rows, columns = sizes(rng, 2)
    mask = rng.random((rows, columns)) < 0.6
    mask[:, 0], mask[0, 1] = True, False
    return {"x": rng.standard_normal((rows, columns))}, {"mask": mask}


def linear(square):
    def make(rng):
        B, T, C, F = sizes(rng, 4)
        F = C if square else F
        return {"x": rng.standard_normal((B, T, C)), "weight": rng.standard_normal((C, F)),
                "bias": rng.standard_normal(F)}, {}
    return make


def normed(*more, **options):
    def make(rng):
        B, T, C = sizes(rng, 3)
        C += 2
        arguments = {"x": 2 * rng.standard_normal((B, T, C)) + 0.7,
                     "weight": rng.standard_normal(C)}
        return {**arguments, **{name: rng.standard_normal(C) for name in more}}, options
    return make


def classified(ignored=False, **options):
    def make(rng):
        B, T, V = sizes(rng, 3)
        targets = rng.integers(0, V, (B, T))
        targets[0, 0] = F.IGNORE_INDEX if ignored else targets[0, 0]
        return {"logits": 2 * rng.standard_normal((B, T, V)), "targets": targets}, options
    return make


def scored(rng):
    B, T, V = sizes(rng, 3)
    return {"logits": 2 * rng.standard_normal((B, T, V))}, {}


def scored_rows(rng):
    N, V = sizes(rng, 2)
    return {"logits": 2 * rng.standard_normal((N, V))}, {}


def attended(grouped=False, causal=False, **options):
    def make(rng):
        B, H, T, S, D = sizes(rng, 5)
        G = H
        if grouped:
            G, H = 2, 4
        T, S = min(T, S), max(T, S)
        arguments = {"q": rng.standard_normal((B, H, T, D)), "k": rng.standard_normal((B, G, S, D)),
                     "v": rng.standard_normal((B, G, S, D))}
        return arguments, {**options, **({"pattern": F.CAUSAL} if causal else {})}
    return make


def attended_with_mask(rng):
    arguments, _ = attended()(rng)
    T, S = arguments["q"].shape[2], arguments["k"].shape[2]
    return arguments, {"mask": F.CAUSAL.dense(T, S)}


def grouped(rng):
    B, G, S, D = sizes(rng, 4)
    return {"x": rng.standard_normal((B, G, S, D)), "n_heads": 3 * G}, {}


def dropped_weights(rng):
    return {"p": rng.random(tuple(sizes(rng, 4))), "rate": 0.4, "seed": int(rng.integers(100))}, {}


def looked_up(rng):
    B, T, V, C = sizes(rng, 4)
    ids = rng.integers(0, V, (B, T))
    ids[0, :2] = ids[-1, -1]                                  # an id that occurs several times
    return {"ids": ids, "weight": rng.standard_normal((V, C))}, {}


def rotated(**options):
    def make(rng):
        B, T, half = sizes(rng, 3)
        cosine, sine = F.rotary_angles(3, 3 + T, 2 * half)
        return {"x": rng.standard_normal((B, T, 2 * half)), "cosine": cosine, "sine": sine}, options
    return make


def sloped(rng):
    B, H, T, S = sizes(rng, 4)
    return {"scores": rng.standard_normal((B, H, T, S)), "slopes": F.alibi_slopes(H)}, {}


def capped(rng):
    rows, columns = sizes(rng, 2)
    return {"x": 2 * rng.standard_normal((rows, columns)), "cap": 1.5}, {}


def by_distance(rng):
    B, H, T, S = sizes(rng, 4)
    return {"scores": rng.standard_normal((B, H, T, S)),
            "bias": rng.standard_normal((H, T + S - 1))}, {}


def by_bucket(rng):
    H, T, S = sizes(rng, 3)
    return {"table": rng.standard_normal((8, H)), "T": T + 8, "S": S + 8, "max_distance": 12}, {}


def gated(**options):
    def make(rng):
        rows, columns = sizes(rng, 2)
        g, h = 1.5 * rng.standard_normal((2, rows, columns))
        return {"g": g, "h": h}, options
    return make


def residual(rng):
    (arguments, _), rows = with_dropout(rng), rng.integers(2, 8)
    branch = rng.standard_normal(arguments["x"].shape)
    return {"x": arguments["x"], "branch": branch, "rate": 0.4,
            "rng": np.random.default_rng(rows)}, {}


def with_dropout(rng):
    rows, columns = sizes(rng, 2)
    return {"x": rng.standard_normal((rows + 2, columns + 2)), "rate": 0.4,
            "rng": np.random.default_rng(rows)}, {}


MASK = ("The dropout mask must be dropout_mask(dropout_seed(rng), x.shape, rate); both are in "
        "numformer.functional.")

PROBLEMS = {
    "linear": FunctionProblem(
        F.linear, F.linear_backward, ("x", "weight", "bias"),
        {"as many inputs as outputs": linear(True), "other widths": linear(False)}),
    "softmax": FunctionProblem(F.softmax, F.softmax_backward, ("x",), {
        "plain": one_array(), "axis=0": one_array(axis=0), "a mask": masked,
        "scores near 1000": large}),
    "log_softmax": FunctionProblem(F.log_softmax, F.log_softmax_backward, ("x",), {
        "plain": one_array(), "axis=0": one_array(axis=0), "scores near 1000": large}),
    "softmax_cross_entropy": FunctionProblem(
        F.softmax_cross_entropy, F.softmax_cross_entropy_backward, ("logits",), {
            "plain": classified()}),
    "uniform_cross_entropy": FunctionProblem(
        F.uniform_cross_entropy, F.uniform_cross_entropy_backward, ("logits",), {"plain": scored}),
    "z_loss": FunctionProblem(F.z_loss, F.z_loss_backward, ("logits",), {"plain": scored_rows}),
    "cross_entropy": FunctionProblem(F.cross_entropy, F.cross_entropy_backward, ("logits",), {
        "plain": classified(), "an ignored target": classified(ignored=True),
        "label_smoothing=0.2": classified(label_smoothing=0.2),
        "z_loss=0.1": classified(z_loss=0.1)}),
    "relu": elementwise(F.relu, F.relu_backward),
    "relu_squared": elementwise(F.relu_squared, F.relu_squared_backward),
    "gelu": elementwise(F.gelu, F.gelu_backward),
    "gelu_tanh": elementwise(F.gelu_tanh, F.gelu_tanh_backward),
    "sigmoid": elementwise(F.sigmoid, F.sigmoid_backward),
    "swish": elementwise(F.swish, F.swish_backward, beta=1.7),
    "silu": elementwise(F.silu, F.silu_backward),
    "layer_norm": FunctionProblem(F.layer_norm, F.layer_norm_backward, ("x", "weight", "bias"), {
        "plain": normed("bias"), "epsilon=0.3": normed("bias", epsilon=0.3)}),
    "layer_norm_outside": FunctionProblem(
        F.layer_norm_outside, F.layer_norm_outside_backward, ("x", "weight", "bias"), {
            "plain": normed("bias"), "epsilon=0.3": normed("bias", epsilon=0.3)}),
    "rms_norm": FunctionProblem(F.rms_norm, F.rms_norm_backward, ("x", "weight"), {
        "plain": normed(), "epsilon=0.3": normed(epsilon=0.3)}),
    "rms_norm_outside": FunctionProblem(
        F.rms_norm_outside, F.rms_norm_outside_backward, ("x", "weight"), {
            "plain": normed(), "epsilon=0.3": normed(epsilon=0.3)}),
    "attention": FunctionProblem(F.attention, F.attention_backward, ("q", "k", "v"), {
        "plain": attended(), "a mask": attended_with_mask}),
    "tiled_attention": FunctionProblem(
        F.tiled_attention, F.tiled_attention_backward, ("q", "k", "v"), {
            "plain": attended(), "tile=3": attended(tile=3),
            "grouped heads": attended(grouped=True)}),
    "repeat_kv_heads": FunctionProblem(F.repeat_kv_heads, F.repeat_kv_heads_backward, ("x",),
                                       {"plain": grouped}),
    "drop_weights": FunctionProblem(
        F.drop_weights, F.drop_weights_backward, ("p",), {"plain": dropped_weights},
        "The dropout mask must be attention_dropout_mask(seed, p.shape, rate)."),
    "scaled_dot_product_attention": FunctionProblem(
        F.scaled_dot_product_attention, F.scaled_dot_product_attention_backward, ("q", "k", "v"), {
            "plain": attended(), "a causal pattern": attended(causal=True),
            "scale=0.3": attended(scale=0.3),
            "grouped heads": attended(grouped=True)}),
    "embedding": FunctionProblem(F.embedding, F.embedding_backward, ("weight",),
                                 {"plain": looked_up}),
    "rotary": FunctionProblem(F.rotary, F.rotary_backward, ("x",),
                              {"plain": rotated(), "interleaved": rotated(layout="interleaved")}),
    "alibi": FunctionProblem(F.alibi, F.alibi_backward, ("scores",), {"plain": sloped}),
    "soft_cap": FunctionProblem(F.soft_cap, F.soft_cap_backward, ("x",), {"plain": capped}),
    "add_by_distance": FunctionProblem(F.add_by_distance, F.add_by_distance_backward,
                                       ("scores", "bias"), {"plain": by_distance}),
    "relative_position_bias": FunctionProblem(F.relative_position_bias,
                                              F.relative_position_bias_backward, ("table",),
                                              {"plain": by_bucket}),
    "dropout": FunctionProblem(F.dropout, F.dropout_backward, ("x",), {"plain": with_dropout},
                               MASK),
    "residual_dropout": FunctionProblem(F.residual_dropout, F.residual_dropout_backward,
                                        ("x", "branch"), {"plain": residual}, MASK),
    "gated_linear_unit": FunctionProblem(
        F.gated_linear_unit, F.gated_linear_unit_backward, ("g", "h"),
        {"plain": gated(), 'activation="relu"': gated(activation="relu")}),
}
