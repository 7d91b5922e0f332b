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
         "means")]])


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
    mistakes=[("there is a factor 1 / sqrt(D), but these scores are not scaled", dot_with_scale)])


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
        ("the factor 1 / sqrt(D) is missing in dk", scaled_in_dq_only)])


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
        if mistake != "no sum over B":
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
        ("the sum over the batch is missing in dweight", "no sum over B")]])
