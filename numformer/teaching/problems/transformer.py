"""Problems on the Transformer's functions."""

import numpy as np

from numformer import functional as F
from numformer.teaching.problems.edges import MASKED_ROW, NO_GENERATOR, left_out
from numformer.teaching.problems.problem import (
    FunctionProblem, Level, elementwise, one_array, sizes)


def large(rng):
    rows, columns = sizes(rng, 2)
    return {"x": 800 + 300 * rng.standard_normal((rows, columns))}, {}


def masked(rng):
    rows, columns = sizes(rng, 2)
    mask = rng.random((rows, columns)) < 0.6
    mask[:, 0], mask[0, 1] = True, False
    return {"x": rng.standard_normal((rows, columns))}, {"mask": mask}


def with_zeros(rng):
    arguments, options = one_array()(rng)
    arguments["x"][0] = 0
    return arguments, options


def far_apart(rng):
    """All scores of some rows are far above all scores of the others."""
    arguments, _ = one_array()(rng)
    x = arguments["x"]
    return {"x": x + 1000 * (np.arange(len(x)) % 3 - 1)[:, None]}, {}


def masked_row(rng):
    arguments, options = masked(rng)
    options["mask"][-1] = False
    return arguments, options


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


def offset(*more):
    def make(rng):
        arguments, options = normed(*more)(rng)
        return {**arguments, "x": arguments["x"] + 1e7}, options
    return make


def of_equal_coordinates(*more):
    """One vector of equal coordinates, and one that is 0."""
    def make(rng):
        arguments, options = normed(*more)(rng)
        arguments["x"][0, 0], arguments["x"][-1, -1] = 1.7, 0
        return arguments, options
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


def classified_otherwise(rng):
    """Class 0 is ignored."""
    arguments, _ = classified()(rng)
    arguments["targets"][0, 0], arguments["targets"][-1, -1] = 0, 1
    return arguments, {"ignore_index": 0}


def many_targets(rng):
    """Positions times classes are more than an int8 can count."""
    return {"logits": rng.standard_normal((6, 7, 5)),
            "targets": rng.integers(0, 5, (6, 7)).astype(np.int8)}, {}


def far_logits(rng):
    """Targets that are nearly impossible: the logarithm of their probability is about -1000."""
    arguments, options = classified()(rng)
    logits = arguments["logits"]
    far = rng.permutation(logits.shape[-1]) % 2      # classes that are far above the others
    return {**arguments, "logits": logits + 1000 * far}, options


def looked_up(rng):
    B, T, V, C = sizes(rng, 4)
    ids = rng.integers(0, V, (B, T))
    ids[0, :2] = ids[-1, -1]                                  # an id that occurs several times
    return {"ids": ids, "weight": rng.standard_normal((V, C))}, {}


def looked_up_by_int8(rng):
    return {"ids": rng.integers(0, 100, (3, 50)).astype(np.int8),
            "weight": rng.standard_normal((100, 3))}, {}


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


def classified_by_table(ignored=False):
    """x (B, T, C), a weight (V, C) and targets, some of which may be -100."""
    def make(rng):
        B, T, C, V = sizes(rng, 4)
        targets = rng.integers(0, V, (B, T))
        if ignored:
            targets[0, 0] = F.IGNORE_INDEX
        return {"x": rng.standard_normal((B, T, C)), "weight": rng.standard_normal((V, C)),
                "targets": targets}, {}
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

KINK = "At 0 the slope of ReLU is taken as 0."
ROWS = ("The scores of some rows are far above those of others: subtract the maximum of each row, "
        "not of all.")
LOGARITHM = ("The probability of a target is about exp(-1000) here, which is 0 in float64, but its "
             "logarithm is not -Inf: compute log-softmax directly.")
INT8 = "The ids are int8 here: what is computed from them must not overflow at 127."
OFFSET = ("The mean is 10,000,000 here: E[x^2] - E[x]^2 loses the variance in rounding errors; "
          "subtract the mean first.")
EQUAL = "All coordinates of a vector are equal here, or 0: the variance is 0."


def of_norm(function, gradient, *more):
    """The problem of a norm over the last axis; its arguments after the weight are `more`."""
    return FunctionProblem(function, gradient, ("x", "weight", *more), {
        "plain": normed(*more), "epsilon=0.3": normed(*more, epsilon=0.3),
        "a mean far from 0": Level(offset(*more), OFFSET),
        "equal coordinates": Level(of_equal_coordinates(*more), EQUAL,
                                   required="outside" not in function.__name__)})


PROBLEMS = {
    "linear": FunctionProblem(
        F.linear, F.linear_backward, ("x", "weight", "bias"),
        {"as many inputs as outputs": linear(True), "other widths": linear(False),
         "no bias": left_out(linear(False), "bias")}),
    "softmax": FunctionProblem(F.softmax, F.softmax_backward, ("x",), {
        "plain": one_array(), "axis=0": one_array(axis=0), "a mask": masked,
        "scores near 1000": large, "rows far apart": Level(far_apart, ROWS),
        "a row of the mask is False": Level(masked_row, MASKED_ROW, required=False)}),
    "log_softmax": FunctionProblem(F.log_softmax, F.log_softmax_backward, ("x",), {
        "plain": one_array(), "axis=0": one_array(axis=0), "scores near 1000": large,
        "rows far apart": Level(far_apart, ROWS)}),
    "softmax_cross_entropy": FunctionProblem(
        F.softmax_cross_entropy, F.softmax_cross_entropy_backward, ("logits",), {
            "plain": classified(), "unlikely targets": Level(far_logits, LOGARITHM),
            "targets of int8": Level(many_targets, INT8)}),
    "uniform_cross_entropy": FunctionProblem(
        F.uniform_cross_entropy, F.uniform_cross_entropy_backward, ("logits",), {"plain": scored}),
    "z_loss": FunctionProblem(F.z_loss, F.z_loss_backward, ("logits",), {"plain": scored_rows}),
    "cross_entropy": FunctionProblem(F.cross_entropy, F.cross_entropy_backward, ("logits",), {
        "plain": classified(), "an ignored target": Level(
            classified(ignored=True), needs=("ignore_index",)),
        "label_smoothing=0.2": classified(label_smoothing=0.2),
        "z_loss=0.1": classified(z_loss=0.1), "ignore_index=0": classified_otherwise,
        "unlikely targets": Level(far_logits, LOGARITHM),
        "targets of int8": Level(many_targets, INT8)}),
    **{f: elementwise(getattr(F, f), getattr(F, f"{f}_backward"))
       for f in (*F.ACTIVATIONS, "sigmoid")},
    "relu": elementwise(F.relu, F.relu_backward, Level(with_zeros, KINK, required=False)),
    "swish": elementwise(F.swish, F.swish_backward, beta=1.7),
    "layer_norm": of_norm(F.layer_norm, F.layer_norm_backward, "bias"),
    "layer_norm_outside": of_norm(F.layer_norm_outside, F.layer_norm_outside_backward, "bias"),
    "rms_norm": of_norm(F.rms_norm, F.rms_norm_backward),
    "rms_norm_outside": of_norm(F.rms_norm_outside, F.rms_norm_outside_backward),
    "embedding": FunctionProblem(F.embedding, F.embedding_backward, ("weight",),
                                 {"plain": looked_up, "ids of int8": Level(looked_up_by_int8,
                                                                           INT8)}),
    "rotary": FunctionProblem(F.rotary, F.rotary_backward, ("x",),
                              {"plain": rotated(), "interleaved": rotated(layout="interleaved")}),
    "alibi": FunctionProblem(F.alibi, F.alibi_backward, ("scores",), {"plain": sloped}),
    "soft_cap": FunctionProblem(F.soft_cap, F.soft_cap_backward, ("x",), {"plain": capped}),
    "add_by_distance": FunctionProblem(F.add_by_distance, F.add_by_distance_backward,
                                       ("scores", "bias"), {"plain": by_distance}),
    "relative_position_bias": FunctionProblem(F.relative_position_bias,
                                              F.relative_position_bias_backward, ("table",),
                                              {"plain": by_bucket}),
    "dropout": FunctionProblem(F.dropout, F.dropout_backward, ("x",), {
        "plain": with_dropout,
        "no generator": left_out(with_dropout, "rng", hint=NO_GENERATOR)}, MASK),
    "residual_dropout": FunctionProblem(
        F.residual_dropout, F.residual_dropout_backward, ("x", "branch"), {
            "plain": residual, "no generator": left_out(residual, "rng", hint=NO_GENERATOR)}, MASK),
    "gated_linear_unit": FunctionProblem(
        F.gated_linear_unit, F.gated_linear_unit_backward, ("g", "h"),
        {"plain": gated(), 'activation="relu"': gated(activation="relu")}),
    "feed_forward": FunctionProblem(
        F.feed_forward, F.feed_forward_backward,
        ("x", "hidden_weight", "hidden_bias", "output_weight", "output_bias"),
        {"plain": fed_forward("hidden", "output"),
         'activation="relu"': fed_forward("hidden", "output", activation="relu")}),
    "gated_feed_forward": FunctionProblem(
        F.gated_feed_forward, F.gated_feed_forward_backward,
        ("x", "gate_weight", "gate_bias", "hidden_weight", "hidden_bias", "output_weight",
         "output_bias"),
        {"plain": fed_forward("gate", "hidden", "output"),
         'activation="gelu"': fed_forward("gate", "hidden", "output", activation="gelu")}),
    "linear_cross_entropy": FunctionProblem(
        F.linear_cross_entropy, F.linear_cross_entropy_backward, ("x", "weight"),
        {"plain": classified_by_table(), "ignored targets": classified_by_table(ignored=True)}),
}
