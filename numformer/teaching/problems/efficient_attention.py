"""Problems on linear, low-rank and sparse attention."""

from numformer import functional as F
from numformer.teaching.problems.edges import MORE_QUERIES
from numformer.teaching.problems.problem import FunctionProblem, Level, sizes


def linear(causal):
    def make(rng):
        if causal:
            B, H, T, D, D_V = sizes(rng, 5)
            S = T
        else:
            B, H, T, S, D, D_V = sizes(rng, 6)
        return {"q": rng.standard_normal((B, H, T, D)), "k": rng.standard_normal((B, H, S, D)),
                "v": rng.standard_normal((B, H, S, D_V))}, {"causal": True} if causal else {}
    return make


def low_rank(rng):
    B, H, T, S, D, R = sizes(rng, 6)
    k, v = rng.standard_normal((2, B, H, S, D))
    key_projection, value_projection = rng.standard_normal((2, R, S))
    return {"q": rng.standard_normal((B, H, T, D)), "k": k, "v": v,
            "key_projection": key_projection, "value_projection": value_projection}, {}


def sparse(keys, last=None):
    """`last`: how many queries there are, at the last of all keys."""
    def make(rng):
        B, H, S, D, D_V = sizes(rng, 5)
        table = keys(S)[-(last or S):]
        return {"q": rng.standard_normal((B, H, len(table), D)),
                "k": rng.standard_normal((B, H, S, D)), "v": rng.standard_normal((B, H, S, D_V)),
                "keys": table}, {}
    return make


def longer(rng):
    B, H, D, D_V = sizes(rng, 4)
    shape = B, H, 70, D
    return {"q": rng.standard_normal(shape), "k": rng.standard_normal(shape),
            "v": rng.standard_normal((*shape[:3], D_V))}, {"causal": True}


PROBLEMS = {
    "linear_attention": FunctionProblem(
        F.linear_attention, F.linear_attention_backward, ("q", "k", "v"),
        {"plain": linear(False), "causal=True": linear(True),
         "causal=True, 70 positions": Level(longer, "The sequences are longer here.",
                                            instances=1)}),
    "low_rank_attention": FunctionProblem(
        F.low_rank_attention, F.low_rank_attention_backward,
        ("q", "k", "v", "key_projection", "value_projection"), {"plain": low_rank}),
    "sparse_attention": FunctionProblem(
        F.sparse_attention, F.sparse_attention_backward, ("q", "k", "v"),
        {"strided keys": sparse(lambda S: F.strided_keys(S, 2)),
         "fixed keys": sparse(lambda S: F.fixed_keys(S, 2)),
         "fewer queries than keys": Level(
             sparse(lambda S: F.strided_keys(S, 2), last=1), MORE_QUERIES.replace(
                 "more queries than keys here, T > S", "fewer queries than keys here, T < S"))}),
}
