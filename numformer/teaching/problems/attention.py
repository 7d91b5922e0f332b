"""Problems on attention: its function, its patterns, grouped heads and dropout of weights."""

from numformer import functional as F
from numformer.teaching.problems.edges import (
    MASKED_ROW, MORE_QUERIES, NO_GENERATOR, left_out)
from numformer.teaching.problems.problem import FunctionProblem, Level, sizes


def attended(grouped=False, causal=False, more_queries=False, more_keys=0, **options):
    def make(rng):
        B, H, T, S, D = sizes(rng, 5)
        G = H
        if grouped:
            G, H = 2, 4
        T, S = min(T, S), max(T, S) + more_keys
        if more_queries:
            T, S = S, T
        arguments = {"q": rng.standard_normal((B, H, T, D)), "k": rng.standard_normal((B, G, S, D)),
                     "v": rng.standard_normal((B, G, S, D))}
        return arguments, {**options, **({"pattern": F.CAUSAL} if causal else {})}
    return make


def attended_with_mask(rng):
    arguments, _ = attended()(rng)
    T, S = arguments["q"].shape[2], arguments["k"].shape[2]
    return arguments, {"mask": F.CAUSAL.dense(T, S)}


def attended_with_masked_row(rng):
    arguments, options = attended_with_mask(rng)
    mask = options["mask"].copy()
    mask[0] = False
    return arguments, {"mask": mask}


def attended_with_padding(rng):
    arguments, _ = attended()(rng)
    B, _, S, _ = arguments["k"].shape
    return arguments, {"pattern": F.AttentionPattern(lengths=rng.integers(1, S + 1, B))}


def grouped(rng):
    B, G, S, D = sizes(rng, 4)
    return {"x": rng.standard_normal((B, G, S, D)), "n_heads": 3 * G}, {}


def dropped_weights(rng):
    return {"p": rng.random(tuple(sizes(rng, 4))), "rate": 0.4, "seed": int(rng.integers(100))}, {}


TILES = "There are several tiles here, and the last one may be shorter."
PATTERNS = {
    "grouped heads": Level(attended(grouped=True), needs=("pattern", "scale")),
    "a window": attended(pattern=F.AttentionPattern(window=(2, 1))), "padding": Level(
        attended_with_padding, "Only the first lengths[b] keys of example b are real here."),
    "more queries than keys": Level(attended(more_queries=True), MORE_QUERIES),
    "a query without keys": Level(attended(causal=True, more_queries=True), MASKED_ROW,
                                  required=False)}


def of_attention(function, gradient, levels):
    """The problem of attention with a pattern."""
    return FunctionProblem(function, gradient, ("q", "k", "v"), {
        "plain": attended(), **levels, **PATTERNS})


PROBLEMS = {
    "attention": FunctionProblem(F.attention, F.attention_backward, ("q", "k", "v"), {
        "plain": attended(), "a mask": attended_with_mask,
        "more queries than keys": Level(attended(more_queries=True), MORE_QUERIES),
        "a row of the mask is False": Level(attended_with_masked_row, MASKED_ROW,
                                            required=False)}),
    "tiled_attention": of_attention(F.tiled_attention, F.tiled_attention_backward,
                                    {"tile=3": attended(tile=3), "tile=4, more keys": Level(
                                        attended(tile=4, more_keys=10), TILES)}),
    "repeat_kv_heads": FunctionProblem(F.repeat_kv_heads, F.repeat_kv_heads_backward, ("x",),
                                       {"plain": grouped}),
    "drop_weights": FunctionProblem(
        F.drop_weights, F.drop_weights_backward, ("p",), {
            "plain": dropped_weights, "no seed": left_out(dropped_weights, "seed",
                                                          hint=NO_GENERATOR)},
        "The dropout mask must be attention_dropout_mask(seed, p.shape, rate)."),
    "scaled_dot_product_attention": of_attention(
        F.scaled_dot_product_attention, F.scaled_dot_product_attention_backward, {
            "a causal pattern": attended(causal=True), "scale=0.3": attended(scale=0.3)}),
}
