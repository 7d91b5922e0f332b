"""Problems on score functions of attention and on relative positions."""

import numpy as np

from numformer import functional as F
from numformer.teaching.problems.edges import MORE_QUERIES
from numformer.teaching.problems.problem import FunctionProblem, Level, sizes


def additive(rng):
    B, T, S, A = sizes(rng, 4)
    return {"q": rng.standard_normal((B, T, A)), "k": rng.standard_normal((B, S, A)),
            "v": rng.standard_normal(A)}, {}


def dotted(rng):
    B, T, S, D = sizes(rng, 4)
    return {"q": rng.standard_normal((B, T, D)), "k": rng.standard_normal((B, S, D))}, {}


def general(square):
    def make(rng):
        B, T, S, C, K = sizes(rng, 5)
        K = C if square else K
        return {"q": rng.standard_normal((B, T, C)), "k": rng.standard_normal((B, S, K)),
                "weight": rng.standard_normal((C, K))}, {}
    return make


def sizes_and_reach(rng, more_queries):
    """Sizes (B, H, T, S, D), and the reach of a table: shorter than the largest distance."""
    B, H, D = sizes(rng, 3)
    T, S = sorted(int(size) for size in rng.permutation([6, 7, 8, 9])[:2])
    if more_queries:
        T, S = S, T
    return B, H, T, S, D, int(rng.integers(1, 4))


def more_queries(make):
    """The level with T > S."""
    def turned(rng):
        return make(rng, more_queries=True)
    return Level(turned, MORE_QUERIES)


def relative_scores(rng, more_queries=False):
    B, H, T, S, D, reach = sizes_and_reach(rng, more_queries)
    return {"q": rng.standard_normal((B, H, T, D)),
            "table": rng.standard_normal((2 * reach + 1, D)), "S": S}, {}


def relative_values(rng, more_queries=False):
    B, H, T, S, D, reach = sizes_and_reach(rng, more_queries)
    return {"p": rng.random((B, H, T, S)), "table": rng.standard_normal((2 * reach + 1, D))}, {}


def relative_attention(**options):
    def make(rng, more_queries=False):
        B, H, T, S, D, reach = sizes_and_reach(rng, more_queries)
        k, v = rng.standard_normal((2, B, H, S, D))
        key_table, value_table = rng.standard_normal((2, 2 * reach + 1, D))
        return {"q": rng.standard_normal((B, H, T, D)), "k": k, "v": v, "key_table": key_table,
                "value_table": value_table}, options
    return make


def rotated_in_part(**options):
    def make(rng):
        B, T, half, rest = sizes(rng, 4)
        cosine, sine = F.rotary_angles(3, 3 + T, 2 * half)
        return {"x": rng.standard_normal((B, T, 2 * half + rest)), "cosine": cosine,
                "sine": sine}, options
    return make


def by_distance(batch):
    def make(rng):
        B, H = sizes(rng, 2)
        T, S = sorted(int(size) for size in rng.permutation([6, 7, 8, 9])[:2])
        mask = np.tri(T, S, S - T, dtype=bool)
        if batch:                                     # padding on the right, but the first key
            mask = mask & (np.arange(S) < rng.integers(1, S + 1, B)[:, None, None, None])
        return {"slopes": rng.standard_normal(H), "mask": mask}, {}
    return make


PROBLEMS = {
    "distance_weights": FunctionProblem(
        F.distance_weights, F.distance_weights_backward, ("slopes",),
        {"plain": by_distance(False), "a mask with a batch": by_distance(True)}),
    "partial_rotary": FunctionProblem(
        F.partial_rotary, F.partial_rotary_backward, ("x",),
        {"plain": rotated_in_part(), "interleaved": rotated_in_part(layout="interleaved")}),
    "additive_scores": FunctionProblem(F.additive_scores, F.additive_scores_backward,
                                       ("q", "k", "v"), {"plain": additive}),
    "dot_scores": FunctionProblem(F.dot_scores, F.dot_scores_backward, ("q", "k"),
                                  {"plain": dotted}),
    "scaled_dot_scores": FunctionProblem(F.scaled_dot_scores, F.scaled_dot_scores_backward,
                                         ("q", "k"), {"plain": dotted}),
    "general_scores": FunctionProblem(
        F.general_scores, F.general_scores_backward, ("q", "k", "weight"),
        {"keys as wide as queries": general(True), "other widths": general(False)}),
    "relative_scores": FunctionProblem(
        F.relative_scores, F.relative_scores_backward, ("q", "table"), {
            "plain": relative_scores, "more queries than keys": more_queries(relative_scores)}),
    "relative_values": FunctionProblem(
        F.relative_values, F.relative_values_backward, ("p", "table"), {
            "plain": relative_values, "more queries than keys": more_queries(relative_values)}),
    "relative_attention": FunctionProblem(
        F.relative_attention, F.relative_attention_backward,
        ("q", "k", "v", "key_table", "value_table"),
        {"plain": relative_attention(), "a causal pattern": relative_attention(pattern=F.CAUSAL),
         "scale=0.3": relative_attention(scale=0.3),
         "more queries than keys": more_queries(relative_attention())}),
}
