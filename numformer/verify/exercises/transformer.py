"""Exercises on the Transformer's own functions."""

import numpy as np

from numformer import functional as F
from numformer.verify.exercises.exercise import Exercise, one_number, pointwise, sizes


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
        return {"x": rng.standard_normal((B, T, C)), "weight": rng.standard_normal((C, F)), "bias": rng.standard_normal(F)}, {}
    return make


def normed(*more, **options):
    def make(rng):
        B, T, C = sizes(rng, 3)
        C += 2
        arguments = {"x": 2 * rng.standard_normal((B, T, C)) + 0.7, "gain": rng.standard_normal(C)}
        return {**arguments, **{name: rng.standard_normal(C) for name in more}}, options
    return make


def classified(ignored=False, **options):
    def make(rng):
        B, T, V = sizes(rng, 3)
        targets = rng.integers(0, V, (B, T))
        targets[0, 0] = F.IGNORE_INDEX if ignored else targets[0, 0]
        return {"logits": 2 * rng.standard_normal((B, T, V)), "targets": targets}, options
    return make


def attended(grouped=False, causal=False, **options):
    def make(rng):
        B, H, T, S, D = sizes(rng, 5)
        G = H
        if grouped:
            G, H = 2, 4
        T, S = min(T, S), max(T, S)
        arguments = {"q": rng.standard_normal((B, H, T, D)), "k": rng.standard_normal((B, G, S, D)), "v": rng.standard_normal((B, G, S, D))}
        return arguments, {**options, **({"pattern": F.CAUSAL} if causal else {})}
    return make


def looked_up(rng):
    B, T, V, C = sizes(rng, 4)
    ids = rng.integers(0, V, (B, T))
    ids[0, :2] = ids[-1, -1]                                          # the same id in several places
    return {"ids": ids, "weight": rng.standard_normal((V, C))}, {}


def turned(**options):
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
    return {"scores": rng.standard_normal((B, H, T, S)), "bias": rng.standard_normal((H, T + S - 1))}, {}


def by_bucket(rng):
    H, T, S = sizes(rng, 3)
    return {"table": rng.standard_normal((8, H)), "T": T + 8, "S": S + 8, "max_distance": 12}, {}


def gated(**options):
    def make(rng):
        rows, columns = sizes(rng, 2)
        g, h = 1.5 * rng.standard_normal((2, rows, columns))
        return {"g": g, "h": h}, options
    return make


def added(rng):
    (arguments, _), rows = silenced(rng), rng.integers(2, 8)
    branch = rng.standard_normal(arguments["x"].shape)
    return {"x": arguments["x"], "branch": branch, "rate": 0.4, "rng": np.random.default_rng(rows)}, {}


def silenced(rng):
    rows, columns = sizes(rng, 2)
    return {"x": rng.standard_normal((rows + 2, columns + 2)), "rate": 0.4, "rng": np.random.default_rng(rows)}, {}


MASK = "What stays is dropout_mask(dropout_seed(rng), x.shape, rate), both of numformer.functional."
EXERCISES = {
    "linear": Exercise(F.linear, F.linear_backward, ("x", "weight", "bias"),
                       {"as many inputs as outputs": linear(True), "other widths": linear(False)}),
    "softmax": Exercise(F.softmax, F.softmax_backward, ("x",), {
        "plain": pointwise(), "axis=0": pointwise(axis=0), "a mask": masked, "scores near 1000": large}),
    "log_softmax": Exercise(F.log_softmax, F.log_softmax_backward, ("x",), {
        "plain": pointwise(), "axis=0": pointwise(axis=0), "scores near 1000": large}),
    "cross_entropy": Exercise(F.cross_entropy, F.cross_entropy_backward, ("logits",), {
        "plain": classified(), "an ignored target": classified(ignored=True),
        "label_smoothing=0.2": classified(label_smoothing=0.2), "z_loss=0.1": classified(z_loss=0.1)}),
    "relu": one_number(F.relu, F.relu_backward),
    "relu_squared": one_number(F.relu_squared, F.relu_squared_backward),
    "gelu": one_number(F.gelu, F.gelu_backward),
    "gelu_tanh": one_number(F.gelu_tanh, F.gelu_tanh_backward),
    "sigmoid": one_number(F.sigmoid, F.sigmoid_backward),
    "swish": one_number(F.swish, F.swish_backward, beta=1.7),
    "silu": one_number(F.silu, F.silu_backward),
    "layer_norm": Exercise(F.layer_norm, F.layer_norm_backward, ("x", "gain", "shift"), {
        "plain": normed("shift"), "epsilon_inside=False": normed("shift", epsilon=0.3, epsilon_inside=False)}),
    "rms_norm": Exercise(F.rms_norm, F.rms_norm_backward, ("x", "gain"), {
        "plain": normed(), "epsilon_inside=False": normed(epsilon=0.3, epsilon_inside=False)}),
    "scaled_dot_product_attention": Exercise(
        F.scaled_dot_product_attention, F.scaled_dot_product_attention_backward, ("q", "k", "v"), {
            "plain": attended(), "a causal pattern": attended(causal=True), "scale=0.3": attended(scale=0.3),
            "grouped heads": attended(grouped=True)}),
    "embedding": Exercise(F.embedding, F.embedding_backward, ("weight",), {"plain": looked_up}),
    "rotary": Exercise(F.rotary, F.rotary_backward, ("x",), {"plain": turned(), "interleaved": turned(layout="interleaved")}),
    "alibi": Exercise(F.alibi, F.alibi_backward, ("scores",), {"plain": sloped}),
    "soft_cap": Exercise(F.soft_cap, F.soft_cap_backward, ("x",), {"plain": capped}),
    "add_by_distance": Exercise(F.add_by_distance, F.add_by_distance_backward, ("scores", "bias"), {"plain": by_distance}),
    "relative_position_bias": Exercise(F.relative_position_bias, F.relative_position_bias_backward, ("table",), {"plain": by_bucket}),
    "dropout": Exercise(F.dropout, F.dropout_backward, ("x",), {"plain": silenced},
                        MASK),
    "residual_dropout": Exercise(F.residual_dropout, F.residual_dropout_backward, ("x", "branch"), {"plain": added}, MASK),
    "gated_linear_unit": Exercise(F.gated_linear_unit, F.gated_linear_unit_backward, ("g", "h"), {
        "plain": gated(), 'activation="relu"': gated(activation="relu")}),
}
