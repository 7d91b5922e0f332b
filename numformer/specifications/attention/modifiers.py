"""Scores by distance: ALiBi, bias, and weights of distance alone; the soft cap."""

import numpy as np

from numformer import functional as F
from numformer.functional import AttentionPattern
from numformer.specifications.levels import sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- alibi ---------------------------------------------------------------------------------------

def alibi(scores, slopes):
    T, S = scores.shape[-2:]
    distance = np.abs(np.arange(T)[:, None] + S - T - np.arange(S))
    return scores - slopes[:, None, None] * distance


def alibi_backward(dy, scores, slopes):
    return dy * 1.0


def sloped(rng):
    B, H, T, S = sizes(rng, 4)
    return {"scores": rng.standard_normal((B, H, T, S)), "slopes": F.alibi_slopes(H)}, {}


def distances(T, S, mistake):
    """|i + S - T - j|, or with one mistake, or two."""
    gap = np.arange(T)[:, None] + (0 if "start" in mistake else S - T) - np.arange(S)
    distance = gap if "signed" in mistake else gap ** 2 if "squared" in mistake else np.abs(gap)
    return -distance if "added" in mistake else distance


ADDED = "the penalty is added to the scores, but must be subtracted"
AT_THE_START = ("queries and keys are aligned at the start, but the last query is at the last key: "
                "the distance is |i + S - T - j|")
OF_DISTANCES = [
    (ADDED, "added"), (AT_THE_START, "start"), (f"{ADDED}; and {AT_THE_START}", "added, start"),
    ("the distance has a sign, but its absolute value is meant: keys after the query are raised",
     "signed"),
    ("the distance is squared, but its absolute value is meant", "squared")]

specify(
    F.alibi, ("scores",),
    {"plain": sloped},
    forward_mistakes=[
        (cause, lambda scores, slopes, mistake=mistake: scores - slopes[:, None, None] * distances(
            *scores.shape[-2:], mistake)) for cause, mistake in OF_DISTANCES],
    last_axes={"scores": 3},
    hints=(
        "Begin with the matrix of distances, (T, S). It is the same for all examples and heads.",
        "np.arange(T)[:, None] + S - T are the positions of the queries, np.arange(S) those of "
        "the keys. The slopes (H,) need two more axes.",
        "Subtract slopes[:, None, None] times distance from the scores, with distance the "
        "absolute difference of the two positions."),
    backward_hints=(
        "The penalty does not depend on the scores: they enter y by one path, with derivative 1.",
        "Nothing has to be saved, and the slopes do not occur: they are constants here, and a "
        "constant that is subtracted has no effect.",
        "dscores equals dy, entry by entry. Return a copy, so that nobody writes into dy through "
        "it."))


# ---- soft_cap ------------------------------------------------------------------------------------

def soft_cap(x, cap):
    return cap * np.tanh(x / cap)


def soft_cap_backward(dy, x, cap):
    t = np.tanh(x / cap)
    return dy * (1 - t ** 2)


def capped(rng):
    rows, columns = sizes(rng, 2)
    return {"x": 2 * rng.standard_normal((rows, columns)), "cap": 1.5}, {}


specify(
    F.soft_cap, ("x",),
    {"plain": capped},
    mistakes=[
        ("the square is missing: the derivative is 1 - tanh(x / c)**2",
         lambda dy, x, cap: dy * (1 - np.tanh(x / cap))),
        ("x / c is used instead of tanh(x / c)", lambda dy, x, cap: dy * (1 - (x / cap) ** 2)),
        ("y is not divided by the cap",
         lambda dy, x, cap: dy * (1 - (cap * np.tanh(x / cap)) ** 2))],
    forward_mistakes=[
        ("this is cap * u / (1 + |u|) with u = x / cap, but must be cap * tanh(u)",
         lambda x, cap: x / (1 + np.abs(x / cap))),
        ("the numbers are cut off at the cap, but tanh bends them smoothly",
         lambda x, cap: np.clip(x, -cap, cap))],
    last_axes={"x": 0},
    hints=(
        "tanh squeezes any number into -1 .. 1 and has slope 1 at 0. Scale it so that the limits "
        "are -cap and cap and the slope stays 1.",
        "cap occurs twice: x is divided by it inside the tanh, and the result is multiplied by "
        "it.",
        "With t = np.tanh(x / cap), y is cap times t."),
    backward_hints=(
        "One path, entry by entry: the chain rule through y = cap tanh(x / cap). The two caps "
        "cancel.",
        "The derivative of tanh u is 1 - tanh^2 u, and tanh u is y / cap: only y is saved.",
        "dx is dy times (1 - t * t), with t = y / cap."))


# ---- add_by_distance -----------------------------------------------------------------------------

def add_by_distance(scores, bias):
    T, S = scores.shape[-2:]
    index = np.arange(S) - np.arange(T)[:, None] + T - 1
    return scores + bias[:, index]


def add_by_distance_backward(dy, scores, bias):
    T, S = scores.shape[-2:]
    index = np.arange(S) - np.arange(T)[:, None] + T - 1
    dbias = np.zeros(bias.shape)
    of_heads = dy.sum(axis=0)
    for h in range(len(bias)):
        np.add.at(dbias[h], index, of_heads[h])
    return dy * 1.0, dbias


def draw_by_distance(rng):
    B, H, T, S = sizes(rng, 4)
    return {"scores": rng.standard_normal((B, H, T, S)),
            "bias": rng.standard_normal((H, T + S - 1))}, {}


def bias_not_summed_over_the_batch(dy, scores, bias):
    return dy, F.add_by_distance_backward(dy[:1], (dy.shape[-2], dy.shape[-1]))[1]


def bias_of_the_opposite_distance(dy, scores, bias):
    dscores, dbias = F.add_by_distance_backward(dy, (dy.shape[-2], dy.shape[-1]))
    return dscores, dbias[:, ::-1]


specify(
    F.add_by_distance, ("scores", "bias"),
    {"plain": draw_by_distance},
    mistakes=[
        ("the sum over the batch is missing in the gradient of the bias",
         bias_not_summed_over_the_batch),
        ("the distance has the wrong sign: it is j - i", bias_of_the_opposite_distance)],
    last_axes={"scores": 3},
    hints=(
        "All pairs of one diagonal have the same distance j - i, so they read the same entry of "
        "the bias.",
        "The index of the pair (i, j) is j - i + T - 1, a (T, S) array of integers from 0 to T + "
        "S - 2. bias is (H, T + S - 1).",
        "bias[:, index] is (H, T, S) and broadcasts over the batch; add it to the scores."),
    backward_hints=(
        "The scores enter by a sum, with derivative 1. An entry of bias enters at every pair of "
        "its diagonal, in every example: it sums over these.",
        "First sum dy over the batch, (H, T, S). Then sum each diagonal: row i holds the entries "
        "T - 1 - i to T - 1 - i + S of dbias.",
        "For each i: dbias[:, T - 1 - i:T - 1 - i + S] += of_heads[:, i], where of_heads is dy "
        "summed over all axes before H; dscores is dy."))


# ---- distance_weights ----------------------------------------------------------------------------

def distance_weights(slopes, mask):
    T, S = mask.shape[-2:]
    distance = np.abs(np.arange(T)[:, None] + S - T - np.arange(S))
    e = np.where(mask, np.exp(-slopes[:, None, None] * distance), 0)
    return e / e.sum(axis=-1, keepdims=True)


def distance_weights_backward(dp, slopes, mask):
    T, S = mask.shape[-2:]
    distance = np.abs(np.arange(T)[:, None] + S - T - np.arange(S))
    e = np.where(mask, np.exp(-slopes[:, None, None] * distance), 0)
    p = e / e.sum(axis=-1, keepdims=True)
    dscores = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dslopes = -(dscores * distance).sum(axis=(-2, -1))
    return dslopes if dslopes.ndim == 1 else dslopes.sum(axis=0)


def draw_by_distance(batch):
    def make(rng):
        B, H = sizes(rng, 2)
        T, S = sorted(int(size) for size in rng.permutation([6, 7, 8, 9])[:2])
        mask = np.tri(T, S, S - T, dtype=bool)
        if batch:                                     # padding on the right, but the first key
            mask = mask & (np.arange(S) < rng.integers(1, S + 1, B)[:, None, None, None])
        return {"slopes": rng.standard_normal(H), "mask": mask}, {}
    return make


def wrong_distance_weights(mistake):
    def gradients(dp, slopes, mask):
        p, (distance, _) = F.distance_weights(slopes, mask)
        if mistake == "aligned at the start":
            T, S = mask.shape[-2:]
            distance = np.abs(np.arange(T)[:, None] - np.arange(S))
        dscores = p * (dp - (0 if mistake == "no sum" else (p * dp).sum(axis=-1, keepdims=True)))
        sign = 1 if mistake == "sign" else -1
        dslopes = sign * (dscores * (1 if mistake == "no distance" else distance)).sum((-2, -1))
        return dslopes if dslopes.ndim == 1 else (
            dslopes[0] if mistake == "first example" else dslopes.sum(axis=0))
    return gradients


specify(
    F.distance_weights, ("slopes",),
    {"plain": draw_by_distance(False), "a mask with a batch": draw_by_distance(True)},
    cases=[
        Pair("distance weights", [(2,)], after=(np.tri(3, 5, 2, dtype=bool),)),
        Pair("distance weights, batch, an empty row",
             [(2,)], after=(AttentionPattern(lengths=[4, 3, 0]).dense(3, 4),))],
    mistakes=[(cause, wrong_distance_weights(mistake)) for cause, mistake in [
        ("the sign is wrong: the score is minus the slope times the distance", "sign"),
        ("the factor of the distance is missing", "no distance"),
        ("the sum over all weights is missing in the gradient of the softmax", "no sum"),
        (AT_THE_START, "aligned at the start"),
        ("the gradient is that of the first example only: the whole batch shares the slopes",
         "first example")]],
    forward_mistakes=[
        (cause, lambda slopes, mask, mistake=mistake: F.softmax(np.broadcast_to(
            -slopes[:, None, None] * distances(*mask.shape[-2:], mistake),
            (*mask.shape[:-3], len(slopes), *mask.shape[-2:])), mask=mask)[0])
        for cause, mistake in OF_DISTANCES],
    hints=(
        "It is a softmax over the keys of scores that depend on the distance alone: -s_h d_ij.",
        "distance is (T, S): |i + S - T - j|. The slopes (H,) need two more axes. Where mask is "
        "False, the weight is 0 and not in the sum.",
        "p is the softmax over the last axis of -slopes[:, None, None] times distance, masked "
        "before the softmax; (H, T, S), or (B, H, T, S)."),
    backward_hints=(
        "Two steps back: the softmax over the keys, then the product of a slope with the "
        "distances. A slope is used by all pairs of its head: it sums.",
        "dscores = p (dp - the sum of p dp over the keys). The score is -slope times distance, so "
        "the minus sign stays.",
        "dslopes is minus the sum of dscores * distance over axis=(-2, -1), and over the batch "
        "too, if the mask has one."))
