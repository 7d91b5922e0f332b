"""Score functions of attention."""

import math

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import sizes
from numformer.specifications.specification import specify


# ---- additive_scores -----------------------------------------------------------------------------

def additive_scores(q, k, v):
    t = np.tanh(q[:, :, None] + k[:, None])
    return t @ v


def additive_scores_backward(dscores, q, k, v):
    t = np.tanh(q[:, :, None] + k[:, None])
    slope = 1 - t ** 2
    d = dscores[..., None]
    du = d * v * slope
    dq = du.sum(axis=2)
    dk = du.sum(axis=1)
    dv = (d * t).sum(axis=(0, 1, 2))
    return dq, dk, dv


def draw_additive(rng):
    B, T, S, A = sizes(rng, 4)
    return {"q": rng.standard_normal((B, T, A)), "k": rng.standard_normal((B, S, A)),
            "v": rng.standard_normal(A)}, {}


def wrong_additive(mistake):
    """A backward of the additive scores, written out, with one mistake."""
    def gradients(dscores, q, k, v):
        u = q[:, :, None] + k[:, None]
        t = np.tanh(u)
        bend = {"no derivative": 1, "no square": 1 - t,
                "derivative of the sum": 1 - u * u}.get(mistake, 1 - t * t)
        du = dscores[..., None] * (1 if mistake == "no v" else v) * bend
        dv = (dscores[..., None]
              * (u if mistake == "dv without tanh"
                 else t)).sum(axis=(1, 2) if mistake == "no sum over B" else (0, 1, 2))
        dq, dk = (du.mean(axis=2),
                  du.mean(axis=1)) if mistake == "means" else (du.sum(axis=2), du.sum(axis=1))
        return dq, dk, dv
    return gradients


specify(
    F.additive_scores, ("q", "k", "v"),
    {"plain": draw_additive},
    mistakes=[(cause, wrong_additive(mistake)) for cause, mistake in [
        ("the derivative of tanh, 1 - t * t, is missing", "no derivative"),
        ("the square in the derivative of tanh is missing: it is 1 - t * t", "no square"),
        ("the derivative of tanh is computed from its argument, but must use its value: 1 - t * t",
         "derivative of the sum"),
        ("v is missing in dq and dk", "no v"),
        ("dv is computed without the tanh: v was multiplied by tanh(q + k)", "dv without tanh"),
        ("the sum over the batch is missing in dv", "no sum over B"),
        ("dq and dk are means, but must be sums: every query is combined with every key",
         "means")]],
    hints=(
        "Every pair (i, j) has a hidden layer of its own, tanh(q_i + k_j) with A units; v turns "
        "it into one number.",
        "Broadcast to (B, T, S, A): q needs a new axis for the keys, q[:, :, None], and k one for "
        "the queries, k[:, None].",
        "t is the tanh of that sum; the scores (B, T, S) are the dot product over the last axis, "
        "with v (A,)."),
    backward_hints=(
        "Back through the product with v, then the tanh, then the sum q_i + k_j: a query was used "
        "for all keys, a key for all queries.",
        "dt = dscores[..., None] * v is (B, T, S, A), and du = dt (1 - t^2). v was used for all "
        "pairs of all examples: its gradient is (A,).",
        "dq sums du over the keys (axis 2), dk over the queries (axis 1), and dv sums dscores "
        "times t over B, T and S."))


# ---- dot_scores ----------------------------------------------------------------------------------

def dot_scores(q, k):
    return q @ k.mT


def dot_scores_backward(dscores, q, k):
    dq = dscores @ k
    dk = dscores.mT @ q
    return dq, dk


def dotted(rng):
    B, T, S, D = sizes(rng, 4)
    return {"q": rng.standard_normal((B, T, D)), "k": rng.standard_normal((B, S, D))}, {}


def dot_with_scale(dscores, q, k):
    return F.scaled_dot_scores_backward(dscores, ((q, k), q.shape[-1]))


specify(
    F.dot_scores, ("q", "k"),
    {"plain": dotted},
    mistakes=[("there is a factor 1 / sqrt(D), but these scores are not scaled", dot_with_scale)],
    hints=(
        "All dot products at once are one matrix product: (B, T, D) with (B, D, S).",
        "Transpose the last two axes of k alone: k.mT, or k.swapaxes(-1, -2); k.T would reverse "
        "all axes.",
        "The scores are q @ the transposed k, (B, T, S). Nothing is scaled here."),
    backward_hints=(
        "z_ij = q_i . k_j: a query enters a row of scores, so it sums over the keys; a key enters "
        "a column, so it sums over the queries.",
        "Two products. dq (B, T, D) is dscores (B, T, S) with k (B, S, D); for dk, S must come "
        "first.",
        "dq = dscores @ k, and dk = dscores transposed (its last two axes) @ q."))


# ---- scaled_dot_scores ---------------------------------------------------------------------------

def scaled_dot_scores(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


def scaled_dot_scores_backward(dscores, q, k):
    scale = 1 / math.sqrt(q.shape[-1])
    dq = dscores @ k * scale
    dk = dscores.mT @ q * scale
    return dq, dk


def scaled_dot(power):
    def gradients(dscores, q, k):
        scale = q.shape[-1] ** power
        return scale * dscores @ k, scale * dscores.mT @ q
    return gradients


def scaled_in_dq_only(dscores, q, k):
    return dscores @ k / q.shape[-1] ** 0.5, dscores.mT @ q


specify(
    F.scaled_dot_scores, ("q", "k"),
    {"plain": dotted},
    mistakes=[
        ("the factor 1 / sqrt(D) is missing", scaled_dot(0)),
        ("the factor 1 / sqrt(D) is applied twice", scaled_dot(-1)),
        ("the gradients are multiplied by sqrt(D), but must be divided by it", scaled_dot(0.5)),
        ("the factor 1 / sqrt(D) is missing in dk", scaled_in_dq_only)],
    hints=(
        "Dot products of all pairs, one matrix product, divided so that their variance is 1.",
        "The divisor is sqrt(D), where D is the width, the last size of q; not D, and not the "
        "number of keys.",
        "Take dot_scores(q, k), or q with the last two axes of k transposed, and divide by "
        "math.sqrt(D)."),
    backward_hints=(
        "The division is a factor of every score, so it is a factor of both gradients, once.",
        "Divide dscores (B, T, S) by sqrt(D) first; then a query sums over the keys, and a key "
        "over the queries.",
        "With dz = dscores / math.sqrt(D): dq = dz @ k, and dk = dz.mT @ q."))


# ---- general_scores ------------------------------------------------------------------------------

def general_scores(q, k, weight):
    return q @ weight @ k.mT


def general_scores_backward(dscores, q, k, weight):
    dq = dscores @ k @ weight.T
    dk = dscores.mT @ q @ weight
    dweight = (q.mT @ dscores @ k).sum(axis=0)
    return dq, dk, dweight


def draw_general(square):
    def make(rng):
        B, T, S, C, K = sizes(rng, 5)
        K = C if square else K
        return {"q": rng.standard_normal((B, T, C)), "k": rng.standard_normal((B, S, K)),
                "weight": rng.standard_normal((C, K))}, {}
    return make


def wrong_general(mistake):
    def gradients(dscores, q, k, weight):
        du = dscores @ k
        dq = du @ (weight if mistake == "dq not transposed" else weight.T)
        dk = dscores.mT @ (q if mistake == "dk without weight"
                           else q @ (weight.T if mistake == "dk transposed" else weight))
        dweight = q.mT @ du
        if mistake == "mean over B":
            dweight = dweight.mean(axis=0)
        elif mistake != "no sum over B":
            dweight = dweight.sum(axis=0)
        return dq, dk, dweight.T if mistake == "dweight transposed" else dweight
    return gradients


specify(
    F.general_scores, ("q", "k", "weight"),
    {"keys as wide as queries": draw_general(True), "other widths": draw_general(False)},
    mistakes=[(cause, wrong_general(mistake)) for cause, mistake in [
        ("the weight is not transposed in dq", "dq not transposed"),
        ("the weight is transposed in dk, but must not be", "dk transposed"),
        ("the weight is missing in dk", "dk without weight"),
        ("dweight is transposed", "dweight transposed"),
        ("the sum over the batch is missing in dweight", "no sum over B"),
        ("dweight is averaged over the batch, but must be summed", "mean over B")]],
    hints=(
        "A matrix between query and key: z_ij = q_i^T W k_j. Do it in two products.",
        "u = q @ weight maps queries (B, T, C) to the width K of the keys; then all dot products "
        "of u with the keys.",
        "scores is u times the transposed k: (B, T, K) with (B, K, S). No scale."),
    backward_hints=(
        "Two steps back: z = u k^T, then u = q W. All B examples and T queries share W, so its "
        "gradient sums over both.",
        "du = dz k is (B, T, K), and dk needs u: dz^T (q W). From u = q W: dq = du W^T, and dW "
        "= q^T du, of the shape of W.",
        "dweight = np.tensordot(q, du, axes=((0, 1), (0, 1))), du = dscores @ k, and dq is du @ "
        "weight.T."))
