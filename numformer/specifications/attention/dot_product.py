"""Dot-product attention: its core, patterns, tiles, grouped heads and dropped weights."""

import math
from dataclasses import fields, replace
from itertools import combinations

import numpy as np

from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.specifications.edges import MASKED_ROW, MORE_QUERIES, NO_GENERATOR, left_out
from numformer.specifications.levels import Level, also, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.softmax import (
    LOW, LOW_SCORES, MASK_ADDED, MASK_MULTIPLIED, low_scores_show)
from numformer.specifications.specification import specify


# ---- attention -----------------------------------------------------------------------------------

def attention(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v


def attention_in_rows(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    m = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(m == -np.inf, 0, m))             # 0 in a row without any key
    total = e.sum(axis=-1, keepdims=True)
    p = e / np.where(total == 0, 1, total)                        # there 0 / 1, not 0 / 0
    return p @ v


def attention_backward(do, q, k, v, mask=None):
    scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.mT * scale
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dq = ds @ k * scale
    dk = ds.mT @ q * scale
    dv = p.mT @ do
    return dq, dk, dv


def attended(grouped=False, causal=False, more_queries=False, more_keys=0, other_width=False,
             **options):
    def make(rng):
        B, H, T, S, D = sizes(rng, 5)
        G = H
        if grouped:
            G, H = 2, 4
        T, S = min(T, S), max(T, S) + more_keys
        if more_queries:
            T, S = S, T
        arguments = {"q": rng.standard_normal((B, H, T, D)), "k": rng.standard_normal((B, G, S, D)),
                     "v": rng.standard_normal((B, G, S, D + 3 * other_width))}
        return arguments, {**options, **({"pattern": F.CAUSAL} if causal else {})}
    return make


def low_scores(make):
    """The maker of the same arguments with all scores about LOW: only their differences matter."""
    def changed(rng):
        arguments, options = make(rng)
        q, k = arguments["q"], arguments["k"]
        D = q.shape[-1]
        e = np.full(D, D ** -0.5)                        # of length 1
        far = (-LOW * D ** 0.5) ** 0.5 * e
        return {**arguments, "q": q + far, "k": k - (k @ e)[..., None] * e - far}, options
    return changed


def nan_shows(found, reference):
    """What NaN shows among plain numbers."""
    if not np.isnan(found):
        return ""
    return ("NaN comes of 0 / 0, Inf - Inf or 0 * Inf. Is every key of a row masked, as True hides "
            "a key in yours and lets it be seen here? Or does a loop over keys multiply by "
            "exp(m_new - m), which is Inf while m is -Inf, and not by exp(m - m_new)?")


def attended_with_mask(rng):
    arguments, _ = attended()(rng)
    T, S = arguments["q"].shape[2], arguments["k"].shape[2]
    return arguments, {"mask": F.CAUSAL.dense(T, S)}


def attended_with_masked_row(rng):
    arguments, options = attended_with_mask(rng)
    mask = options["mask"].copy()
    mask[0] = False
    return arguments, {"mask": mask}


def grouped(rng):
    B, G, S, D = sizes(rng, 4)
    return {"x": rng.standard_normal((B, G, S, D)), "n_heads": 3 * G}, {}


def wrong_attention(mistake):
    """A backward of attention, written out, with one mistake."""
    def gradients(do, q, k, v, pattern=F.EVERYWHERE, scale=None):
        groups, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5 if scale is None else scale
        k_all, v_all = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
        mask = pattern.dense(q.shape[2], k.shape[2])
        scores = q @ k_all.mT * (1 if mistake == "no scale in the forward" else scale)
        p = F.softmax(scores, mask=mask)[0]
        if mistake == "mask after the softmax":
            p = F.softmax(scores)[0] * mask
        if mistake in MASKED_SCORES:
            p = F.softmax(MASKED_SCORES[mistake](scores, mask))[0]
        dv, dp = p.mT @ do, do @ v_all.mT
        if mistake == "dv from dp":
            dv = dp.mT @ do
        if mistake == "no softmax":
            ds = dp * mask
        elif mistake == "no sum":
            ds = p * dp
        else:
            ds = p * (dp - (p * dp).sum(axis=-2 if mistake == "wrong axis" else -1, keepdims=True))
        factor = {"no scale": 1, "no scale in the forward": 1, "scale twice": scale * scale}.get(
            mistake, scale)
        dq, dk = factor * ds @ k_all, factor * ds.mT @ q
        if mistake == "no scale of dk":
            dk = ds.mT @ q
        dk, dv = (x.reshape(len(x), -1, groups, *x.shape[2:]) for x in (dk, dv))
        if mistake == "no sum over the group":
            return dq, *(x.reshape(len(x), -1, *x.shape[3:]) for x in (dk, dv))
        if mistake == "first of the group":
            return dq, dk[:, :, 0], dv[:, :, 0]
        if mistake == "mean over the group":
            return dq, dk.mean(axis=2), dv.mean(axis=2)
        if mistake == "interleaved heads":
            return dq, *(x.reshape(len(x), groups, -1, *x.shape[3:]).sum(axis=1) for x in (dk, dv))
        return dq, dk.sum(axis=2), dv.sum(axis=2)
    return gradients


MASKED_SCORES = {"no mask": lambda scores, mask: scores,
                 "mask added": lambda scores, mask: scores + mask,
                 "mask multiplied": lambda scores, mask: scores * mask}


def attention_with_scores(mistake):
    """Attention with one mistake in how its scores are masked."""
    def outputs(q, k, v, mask=None):
        scores = q @ k.mT * q.shape[-1] ** -0.5
        return F.softmax(scores if mask is None else MASKED_SCORES[mistake](scores, mask))[0] @ v
    return outputs


def with_pattern_in_scores(mistake):
    """The same with grouped heads, and the mask of a pattern."""
    def outputs(q, k, v, pattern=F.EVERYWHERE, scale=None):
        k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
        if scale is not None:                             # attention divides by sqrt(D)
            q = q * scale * q.shape[-1] ** 0.5
        return attention_with_scores(mistake)(q, k, v, pattern.dense(q.shape[2], k.shape[2]))
    return outputs


def masked_after_the_softmax(q, k, v, mask=None):
    p = F.softmax(q @ k.mT * q.shape[-1] ** -0.5)[0]
    return (p if mask is None else p * mask) @ v


def attention_with_mask(mistake):
    """The same for `attention`, whose mask is an array."""
    def gradients(do, q, k, v, mask=None):
        return wrong_attention(mistake)(do, q, k, v, F.AttentionPattern(mask=mask))
    return gradients


def with_documents_of_the_first_keys(q, k, v, pattern=F.EVERYWHERE, **options):
    """The documents of the queries are those of the first T keys."""
    T, S = q.shape[2], k.shape[2]
    if pattern.documents is not None and T <= S:
        same = pattern.documents[:, None, :T, None] == pattern.documents[:, None, None]
        pattern = replace(pattern, documents=None, mask=same if pattern.mask is None
                          else same & pattern.mask)
    return F.scaled_dot_product_attention(q, k, v, pattern, **options)[0]


IN_SCORES = [("the mask is missing", "no mask"), (MASK_ADDED, "mask added"),
             (MASK_MULTIPLIED, "mask multiplied")]
IN_ATTENTION = [
    ("the factor 1 / sqrt(D) is missing in dq and dk", "no scale"),
    ("the factor 1 / sqrt(D) is missing in dk", "no scale of dk"),
    ("the factor 1 / sqrt(D) is missing in the scores too", "no scale in the forward"),
    ("the factor 1 / sqrt(D) is applied twice", "scale twice"),
    ("the Jacobian of the softmax is missing: ds = p * (dp - sum(p * dp))", "no softmax"),
    ("the Jacobian of the softmax lacks its sum: ds = p * (dp - sum(p * dp))",
     "no sum"),
    ("the Jacobian of the softmax uses the wrong axis: its sum is over the keys", "wrong axis"),
    ("the mask is applied after the softmax: masked scores must be -inf before it, or the "
     "weights do not sum to 1",
     "mask after the softmax"),
    *IN_SCORES,
    ("dv is computed from dp, but must be p.T @ do", "dv from dp")]


# in tiles of keys: m, l and a are the maximum, the sum of the weights and that of the values so far
RESCALED = "where a tile raises the maximum, {} so far must be multiplied by exp(m - m_new): {} not"
WRONG_TILES = [
    (RESCALED.format("the output a", "it is"), "no rescaling of a"),
    (RESCALED.format("the sum l", "it is"), "no rescaling of l"),
    (RESCALED.format("the output a and the sum l", "they are"), "no rescaling"),
    ("the weights of each tile are divided by their own sum: divide by l once, after the last tile",
     "weights divided"),
    ("the softmax is over the keys of each tile alone, and the outputs of tiles are added: the "
     "weights of all tiles must have one sum", "softmax of each tile"),
    ("m is not updated after a tile: then exp(m - m_new) is 0 for m = -Inf, and all tiles but the "
     "last are forgotten", "m not updated"),
    ("the keys behind the last whole tile are left out: the last tile may be shorter",
     "last keys left out"),
    ("the last tile of keys is left out", "last tile left out"),
    ("the first key is left out", "first key left out")]
WRONG_TILES_BACKWARD = [
    ("delta is the sum of p * dp over the keys of each tile, but must be over all keys: it is the "
     "sum of do * o over D", "delta of each tile"),
    ("dq is that of the last tile of keys alone, as by `=` in place of `+=`: a query adds up over "
     "the tiles of keys", "dq of the last"),
    ("dk is that of the last tile of queries alone, as by `=` in place of `+=`: a key adds up over "
     "the tiles of queries", "dk of the last"),
    ("dv is that of the last tile of queries alone, as by `=` in place of `+=`: a value adds up "
     "over the tiles of queries", "dv of the last"),
    ("dk and dv are those of the last tile of queries alone, as by `=` in place of `+=`: keys and "
     "values add up over the tiles of queries", "dk, dv of the last"),
    ("dq is that of the last tile of keys alone, and dk and dv are those of the last tile of "
     "queries, as by `=` in place of `+=`: all of them add up over the tiles", "all of the last"),
    ("the weights of each tile are divided by their own sum: p is exp(s - m) / l, with m and l of "
     "the whole row", "weights divided"),
    ("the keys behind the last whole tile are left out: the last tile may be shorter",
     "last keys left out")]
TRIED = (2, 3, 4, 5, 8, 16, 32, 64)                     # sizes of tiles


def of_any_size(mistakes, made):
    """(cause, functions) of each mistake: one for each of some sizes of tiles; 1 is no tile."""
    return [each for cause, mistake in mistakes for each in (
        (cause, [made(mistake, tile) for tile in TRIED]),
        (one_by_one(cause), [made(mistake, 1)]))]


def one_by_one(cause):
    """The same words of a loop over single queries or keys."""
    for several, one in (("tile of queries", "query"), ("tile of keys", "key"),
                         ("tiles of queries", "queries"), ("tiles of keys", "keys"),
                         ("over the tiles", "over queries and keys"), ("each tile", "each key"),
                         ("a tile", "a key"), ("last tile", "last key"), ("all tiles", "all keys")):
        cause = cause.replace(several, one)
    return cause


def tiled_with(mistake, size):
    """Attention in tiles of keys with one mistake; the size is that of an option, if it is given.

    """
    def outputs(q, k, v, mask=None, scale=None, tile=None):
        tile, S = tile or size, k.shape[2]
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
        s = q @ k.mT * scale
        s = s if mask is None else np.where(dense(mask, q, k), s, -np.inf)
        m, l, a = np.full((*q.shape[:3], 1), -np.inf), 0.0, 0.0                      # noqa: E741
        end = {"last keys left out": S - S % tile, "last tile left out": S - tile}.get(mistake, S)
        s[..., 0] = -np.inf if mistake == "first key left out" else s[..., 0]
        for j in range(0, end, tile):
            keys = np.s_[:, :, j:j + tile]
            s_j = s[:, :, :, j:j + tile]
            m_new = np.maximum(m, s_j.max(axis=-1, keepdims=True))
            alpha, p = np.exp(m - m_new), np.exp(s_j - m_new)
            if mistake in ("weights divided", "softmax of each tile"):
                p = p / p.sum(axis=-1, keepdims=True)
                alpha = 1 if mistake == "softmax of each tile" else alpha
            rescaled = mistake in ("no rescaling", "no rescaling of l")
            l = (1 if rescaled else alpha) * l + np.exp(s_j - m_new).sum(            # noqa: E741
                axis=-1, keepdims=True)
            a = (1 if mistake in ("no rescaling", "no rescaling of a") else alpha) * a + p @ v[keys]
            m = m if mistake == "m not updated" else m_new
        return a if mistake == "softmax of each tile" else a / l
    return outputs


def tiled_backward_with(mistake, size):
    """The backward of attention in tiles of queries and keys, with one mistake."""
    def gradients(do, q, k, v, mask=None, scale=None, tile=None):
        (T, S), tile, group = (q.shape[2], k.shape[2]), tile or size, q.shape[1] // k.shape[1]
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        k_all, v_all = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        s = q @ k_all.mT * scale
        p = F.softmax(s, mask=None if mask is None else dense(mask, q, k))[0]
        dp = do @ v_all.mT

        def of_tiles(x):
            sums = np.add.reduceat(x, np.arange(0, S, tile), axis=-1)
            return np.repeat(sums, tile, axis=-1)[..., :S]

        delta = of_tiles(p * dp) if mistake == "delta of each tile" else (p * dp).sum(
            axis=-1, keepdims=True)
        p = p / of_tiles(p) if mistake == "weights divided" else p
        p = p * (np.arange(S) < S - S % tile) if mistake == "last keys left out" else p
        ds = p * (dp - delta) * scale
        every = np.ones((T, S))
        last_keys = every * (np.arange(S) >= (S - 1) // tile * tile)
        last_queries = every * (np.arange(T) >= (T - 1) // tile * tile)[:, None]
        dq = ds * (last_keys if mistake in ("dq of the last", "all of the last") else every) @ k_all
        dk = (ds * (last_queries if mistake in (
            "dk of the last", "dk, dv of the last", "all of the last") else every)).mT @ q
        dv = (p * (last_queries if mistake in (
            "dv of the last", "dk, dv of the last", "all of the last") else every)).mT @ do
        return dq, *(x.reshape(len(x), -1, group, *x.shape[2:]).sum(axis=2) for x in (dk, dv))
    return gradients


def dense(mask, q, k):
    """The mask of a pattern, or one that is an array."""
    return mask.dense(q.shape[2], k.shape[2]) if isinstance(mask, AttentionPattern) else mask


specify(
    F.attention, ("q", "k", "v"),
    {"plain": Level(attended(), shows=nan_shows), "a mask": attended_with_mask,
     "a mask, low scores": Level(
         low_scores(attended_with_mask), LOW_SCORES, low_scores_show),
     "values of another width": attended(other_width=True),
     "more queries than keys": Level(attended(more_queries=True), MORE_QUERIES),
     "a row of the mask is False": Level(attended_with_masked_row, MASKED_ROW,
                                         required=False)},
    cases=[
        Pair("attention core", [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)]),
        Pair("attention core, a mask with an empty row",
             [(2, 2, 4, 3), (2, 2, 3, 3), (2, 2, 3, 3)], after=(np.tri(4, 3, -1, dtype=bool),))],
    mistakes=[(cause, attention_with_mask(mistake)) for cause, mistake in IN_ATTENTION],
    sized_mistakes=(of_any_size(WRONG_TILES, tiled_with),
                    of_any_size(WRONG_TILES_BACKWARD, tiled_backward_with)),
    names={"scores": "z", "dscores": "dz", "ds": "dz", "scale": "(1 / sqrt(D))"},
    forward_mistakes=[
        ("the mask multiplies the weights after the softmax: masked scores must be left out of its "
         "sum, or the weights do not sum to 1", masked_after_the_softmax),
        *((cause, attention_with_scores(mistake)) for cause, mistake in IN_SCORES)],
    hints=(
        "Three steps: scores between every query and every key, a softmax over the keys, and a "
        "weighted mean of the values.",
        "The scores are (B, H, T, S): q @ k.mT, divided by sqrt(D), D the last size of q.{mask| "
        "A masked score counts as -inf, before the softmax.}",
        "p is the softmax of scores over the last axis{mask|, 0 where mask is False (a row "
        "without any key is all 0)}; the output is p times v."),
    backward_hints=(
        "Go backward through the three lines: o = p v gives dv and dp, the softmax gives dscores, "
        "and the scores give dq and dk.",
        "dp = do v^T is (B, H, T, S), dv = p^T do. dscores = p (dp - the sum of p dp over the "
        "keys). Both dq and dk get the factor 1 / sqrt(D).",
        "dq is dscores @ k * scale, dk the same with dscores transposed and q; dv = p.mT @ do. "
        "{mask| p is 0 where masked, so dscores is too.}"))


# ---- scaled_dot_product_attention ----------------------------------------------------------------

def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None):
    group = q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    mask = pattern.dense(q.shape[2], k.shape[2])
    k = np.repeat(k, group, axis=1)
    v = np.repeat(v, group, axis=1)
    scores = np.where(mask, q @ k.mT * scale, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v


def scaled_dot_product_attention_backward(do, q, k, v, pattern=EVERYWHERE, scale=None):
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    group = H // G
    scale = 1 / math.sqrt(D) if scale is None else scale
    mask = pattern.dense(T, S)
    k = np.repeat(k, group, axis=1)
    v = np.repeat(v, group, axis=1)
    scores = np.where(mask, q @ k.mT * scale, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    dq = ds @ k
    dk = ds.mT @ q
    dv = p.mT @ do
    dk = dk.reshape(B, G, group, S, D).sum(axis=2)
    dv = dv.reshape(B, G, group, S, D).sum(axis=2)
    return dq, dk, dv


def with_all_rules(rng):
    """Grouped heads, causal, in a window, with padding, and a mask of their own."""
    arguments, _ = attended(grouped=True)(rng)
    (B, H, T, _), S = arguments["q"].shape, arguments["k"].shape[2]
    mask = rng.random((B, H, T, S)) < 0.7
    return arguments, {"pattern": F.AttentionPattern(
        causal=True, window=(S - 1, 0), lengths=np.full(B, S - 1) if S > T else None,
        mask=mask | (np.arange(S) < 1))}


RULES = list(combinations([rule.name for rule in fields(AttentionPattern)], 2))


def with_two_rules(rng):
    """A pattern of two rules, by the seed other ones. Every query has a key left."""
    arguments, _ = attended()(rng)
    (B, H, T, _), S = arguments["q"].shape, arguments["k"].shape[2]
    position, key = np.arange(S - T, S)[:, None], np.arange(S)
    near = (key == position) | (key == position - 1)
    documents = np.sort(rng.integers(0, 3, (B, S)), axis=1)
    documents[:, -1] = documents[:, max(0, S - 2)]
    rules = dict(causal=True, window=(1, 1), lengths=np.full(B, max(1, S - 1)),
                 documents=documents, mask=(rng.random((B, H, T, S)) < 0.5) | near)
    chosen = RULES[rng.bit_generator.seed_seq.entropy % len(RULES)]
    return arguments, {"pattern": F.AttentionPattern(**{rule: rules[rule] for rule in chosen})}


def packed(rng):
    """Sequences packed into one: causal within each document."""
    arguments, _ = attended()(rng)
    B, _, S, _ = arguments["k"].shape
    documents = np.sort(rng.integers(0, 3, (B, S)), axis=1)
    return arguments, {"pattern": F.AttentionPattern(causal=True, documents=documents)}


def slopes_of_heads(arguments, rng):
    return 0.1 + rng.random(arguments["q"].shape[1])


def bias_of_distances(arguments, rng):
    (_, H, T, _), S = arguments["q"].shape, arguments["k"].shape[2]
    return rng.standard_normal((H, T + S - 1))


DROPPED = dict(dropout=0.4, seed=7)


def attended_with_padding(rng):
    arguments, _ = attended()(rng)
    B, _, S, _ = arguments["k"].shape
    return arguments, {"pattern": F.AttentionPattern(lengths=rng.integers(1, S + 1, B))}


PATTERNS = {
    "grouped heads": Level(attended(grouped=True), needs=("pattern", "scale")),
    "a window": attended(pattern=F.AttentionPattern(window=(2, 1))), "padding": Level(
        attended_with_padding, "Only the first lengths[b] keys of example b are real here."),
    "packed documents": packed,
    "all rules at once": Level(with_all_rules, needs=("pattern", "scale")),
    "two rules": Level(with_two_rules, instances=len(RULES)),
    "values of another width": attended(other_width=True),
    "more queries than keys": Level(attended(more_queries=True), MORE_QUERIES),
    "a query without keys": Level(attended(causal=True, more_queries=True), MASKED_ROW,
                                  required=False)}


def with_patterns(levels):
    """The levels of attention with a pattern."""
    return {"plain": Level(attended(), shows=nan_shows), **levels, **PATTERNS}


IN_GROUPED_HEADS = [
    ("the sum over grouped heads is missing: a key-value head gets the gradients of all query "
     "heads that share it",
     "no sum over the group"),
    ("only the first query head of each group contributes to its key-value head: all "
     "gradients of the group must be summed", "first of the group"),
    ("the gradients of grouped heads are averaged, but must be summed", "mean over the group"),
    ("the heads of a group are adjacent (0 0 1 1), but were taken as interleaved (0 1 0 1)",
     "interleaved heads")]


RAGGED = AttentionPattern(mask=np.random.default_rng(3).random((4, 3)) < 0.6)
THIN = dict(dropout=0.4, seed=11)


def with_bias(q, k, v, bias, **options):
    return F.scaled_dot_product_attention(q, k, v, bias=bias, **options)


specify(
    F.scaled_dot_product_attention, ("q", "k", "v", "bias"),
    with_patterns({
        "a causal pattern": attended(causal=True), "scale=0.3": attended(scale=0.3),
        "a causal pattern, low scores": Level(
            low_scores(attended(causal=True)), LOW_SCORES, low_scores_show),
        "slopes": also(attended(), slopes=slopes_of_heads),
        "a bias": also(attended(), bias=bias_of_distances),
        "causal, a bias, slopes": also(attended(causal=True), bias=bias_of_distances,
                                       slopes=slopes_of_heads),
        "softcap=0.8": attended(softcap=0.8), "dropout": attended(**DROPPED)}),
    cases=[
        Pair("attention", [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)]),
        Pair("attention, one query", [(1, 1, 1, 2), (1, 1, 1, 2), (1, 1, 1, 2)]),
        Pair("attention, grouped, causal",
             [(2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 2)], after=(CAUSAL,),
             options=dict(scale=0.7, slopes=F.alibi_slopes(4))),
        Pair("attention, more queries than keys",
             [(1, 2, 5, 2), (1, 2, 3, 2), (1, 2, 3, 2)], after=(CAUSAL,)),
        Pair("attention, values of another width",
             [(2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 3)], after=(CAUSAL,)),
        Pair("attention, soft-capped",
             [(2, 2, 4, 3), (2, 2, 3, 3), (2, 2, 3, 3)], after=(RAGGED,),
             options=dict(softcap=0.9, **THIN)),
        Pair("attention, packed documents",
             [(1, 2, 4, 3), (1, 2, 6, 3), (1, 2, 6, 3)],
             after=(AttentionPattern(causal=True, documents=[[7, 7, 7, 2, 2, 5]]),)),
        Pair("attention, relative position bias",
             [(2, 2, 3, 2), (2, 1, 5, 2), (2, 1, 5, 2), (2, 7)],
             options=dict(pattern=AttentionPattern(causal=True, lengths=[5, 4]), softcap=2.0,
                          slopes=F.alibi_slopes(2), scale=0.9), function=with_bias),
        Pair("attention, mask, dropout",
             [(2, 2, 4, 3), (2, 2, 3, 3), (2, 2, 3, 3)], after=(RAGGED,), options=THIN)],
    mistakes=[
        (cause, wrong_attention(mistake)) for cause, mistake in IN_ATTENTION + IN_GROUPED_HEADS],
    forward_mistakes=[
        *((cause, with_pattern_in_scores(mistake)) for cause, mistake in IN_SCORES),
        ("the queries have the documents of the first T keys, but must have those of the last T: "
         "the last query is at the last key", with_documents_of_the_first_keys)],
    hints=(
        "The core has three steps: scores of all queries with all keys, a softmax over the keys, "
        "a mean of the values.{pattern,scale| Each option changes one of them.}",
        "Scores (B, H, T, S) are q k^T / sqrt(D){scale|, or times scale if it is given}.{pattern| "
        "G key-value heads are repeated, each for H / G neighbours. Mask before the softmax.} The "
        "softmax is over the last axis.",
        "e = exp(scores - the maximum of their row), p is e over its sum; the output is p @ v."
        "{pattern| The mask is pattern.dense(T, S).}{softcap,slopes,dropout| Order: scale, "
        "softcap, slopes, bias, mask, softmax, dropout.}"),
    backward_hints=(
        "Recompute p, then go backward: o = p v, the softmax, the scores.{pattern| A shared "
        "key-value head is used several times: it sums.}{bias| So does a bias.}",
        "dp = do v^T, (B, H, T, S); dscores = p (dp - the sum of p dp over the keys). dq and dk "
        "get the factor 1 / sqrt(D){scale|, or scale}.{pattern| dk, dv sum over the H / G query "
        "heads of their group.}",
        "With scale = 1 / sqrt(D): dq = dscores @ k * scale, dk = dscores.mT @ q * scale, dv = "
        "p.mT @ do.{pattern| For groups, reshape heads to (G, H / G) and sum axis 2.}"))


# ---- tiled_attention -----------------------------------------------------------------------------

def tiled_attention(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    return scaled_dot_product_attention(q, k, v, pattern, scale)


def tiled_attention_in_tiles(q, k, v, pattern=EVERYWHERE, scale=None, tile=2):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    v = np.repeat(v, q.shape[1] // v.shape[1], axis=1)
    m = np.full((*q.shape[:3], 1), -np.inf)
    l = np.zeros((*q.shape[:3], 1))                                     # noqa: E741
    acc = np.zeros((*q.shape[:3], v.shape[3]))
    for j in range(0, k.shape[2], tile):
        s = q @ k[:, :, j:j + tile].mT * scale
        m_new = np.maximum(m, s.max(axis=-1, keepdims=True))
        alpha = np.exp(m - m_new)
        p = np.exp(s - m_new)
        l = alpha * l + p.sum(axis=-1, keepdims=True)                   # noqa: E741
        acc = alpha * acc + p @ v[:, :, j:j + tile]
        m = m_new
    return acc / l


def tiled_attention_backward(do, q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    return scaled_dot_product_attention_backward(do, q, k, v, pattern, scale)


TILES = "There are several tiles here, and the last one may be shorter."


def without_tiles(function):
    """A mistake that does not depend on the size of a tile."""
    def with_any_tile(*arguments, tile=None, **options):
        return function(*arguments, **options)
    return with_any_tile


def by_pattern(function):
    """A mistake of `attention`, for a function whose mask is a pattern."""
    def with_pattern(*arguments, pattern=EVERYWHERE, scale=None, tile=None):
        return function(*arguments, pattern, scale, tile)
    return with_pattern


specify(
    F.tiled_attention, ("q", "k", "v"),
    with_patterns({"tile=3": attended(tile=3), "scale=0.3": attended(scale=0.3),
                   "tile=4, more keys": Level(attended(tile=4, more_keys=10), TILES)}),
    cases=[
        Pair("tiled attention", [(1, 2, 5, 3), (1, 2, 7, 3), (1, 2, 7, 3)], options=dict(tile=2)),
        Pair("tiled attention, causal, grouped, padding",
             [(2, 4, 5, 2), (2, 2, 5, 2), (2, 2, 5, 2)],
             after=(AttentionPattern(causal=True, lengths=[4, 0]),),
             options=dict(scale=0.7, tile=2)),
        Pair("tiled attention, ragged mask",
             [(2, 2, 4, 3), (2, 2, 3, 3), (2, 2, 3, 3)], after=(RAGGED,), options=dict(tile=3))],
    mistakes=[(cause, without_tiles(wrong_attention(mistake)))
              for cause, mistake in IN_ATTENTION + IN_GROUPED_HEADS],
    forward_mistakes=[(cause, without_tiles(with_pattern_in_scores(mistake)))
                      for cause, mistake in IN_SCORES],
    sized_mistakes=tuple(
        [(cause, list(map(by_pattern, functions))) for cause, functions in of_any_size(*each)]
        for each in ((WRONG_TILES, tiled_with), (WRONG_TILES_BACKWARD, tiled_backward_with))),
    hints=(
        "The result is that of attention. For a block of queries, go through tiles of keys, and "
        "keep a running maximum m, a running sum l, an output o.",
        "A new tile may raise m. Then what was summed before must be multiplied by exp(m_old - "
        "m_new), the sum l and the output alike.",
        "For each tile: p = exp(s - m), l = alpha * l + p.sum(axis=-1, keepdims=True), and the "
        "output alike with p @ v_j; divide by l at the end."),
    backward_hints=(
        "Nothing of size T x S was saved: m and l are enough to compute a tile of weights once "
        "more, p = exp(s - m) / l.",
        "The softmax needs sum_j p_ij dp_ij over ALL keys. It equals delta = sum over D of do * "
        "o, so it is known before the first tile.",
        "For each tile: ds = p * (dp - delta); then dq[rows] += ds @ k_j * scale, dk[keys] += "
        "ds.mT @ q_i * scale, dv[keys] += p.mT @ do_i."))


# ---- repeat_kv_heads -----------------------------------------------------------------------------

def repeat_kv_heads(x, n_heads):
    group = n_heads // x.shape[1]
    return np.repeat(x, group, axis=1)


def repeat_kv_heads_backward(dy, x, n_heads):
    B, G, S, D = x.shape
    group = n_heads // G
    return dy.reshape(B, G, group, S, D).sum(axis=2)


def wrong_sum_of_group(mistake):
    def gradients(dy, x, n_heads):
        (B, G, S, D), group = x.shape, n_heads // x.shape[1]
        if mistake == "interleaved":
            return dy.reshape(B, group, G, S, D).sum(axis=1)
        heads = dy.reshape(B, G, group, S, D)
        return heads.mean(axis=2) if mistake == "mean" else heads[:, :, -1 if mistake == "last"
                                                                  else 0]
    return gradients


specify(
    F.repeat_kv_heads, ("x",),
    {"plain": grouped},
    mistakes=[(cause, wrong_sum_of_group(mistake)) for cause, mistake in [
        ("the heads of a group must be summed, but only the last one is kept, as by `=` in place "
         "of `+=`", "last"),
        ("the heads of a group must be summed, but only the first one is kept", "first"),
        ("the heads of a group must be summed, but are averaged", "mean"),
        ("the heads of a group are adjacent (0 0 1 1), but were taken as interleaved (0 1 0 1)",
         "interleaved")]],
    forward_mistakes=[
        ("the heads of a group must be adjacent (0 0 1 1), but are interleaved (0 1 0 1), as by "
         "np.tile", lambda x, n_heads: np.concatenate([x] * (n_heads // x.shape[1]), axis=1))],
    hints=(
        "H query heads share G key-value heads: each of them is needed H / G times, next to "
        "itself.",
        "The order is 0 0 1 1, not 0 1 0 1: query head h reads head floor(h G / H). Only axis 1 "
        "of x (B, G, S, D) grows.",
        "np.repeat repeats each entry of an axis in place (np.tile would interleave): group = "
        "n_heads // G times along axis 1."),
    backward_hints=(
        "A head that is read by several query heads sums their gradients. Nothing but the group "
        "size has to be saved.",
        "The H / G copies of a head are adjacent: split the head axis of dy (B, H, S, D) into (G, "
        "H / G), G first.",
        "Reshape dy to (B, G, group, S, D), with group = H // G, and sum over axis 2."))


# ---- drop_weights --------------------------------------------------------------------------------

def drop_weights(p, rate, seed):
    from numformer.functional import attention_dropout_mask
    kept = attention_dropout_mask(seed, p.shape, rate)
    return p * kept / (1 - rate)


def drop_weights_backward(dw, p, rate, seed):
    from numformer.functional import attention_dropout_mask
    kept = attention_dropout_mask(seed, p.shape, rate)
    return dw * kept / (1 - rate)


def dropped_weights(rng):
    return {"p": rng.random(tuple(sizes(rng, 4))), "rate": 0.4, "seed": int(rng.integers(100))}, {}


specify(
    F.drop_weights, ("p",),
    {"plain": dropped_weights, "no seed": left_out(dropped_weights, "seed", hint=NO_GENERATOR)},
    note="The dropout mask must be attention_dropout_mask(seed, p.shape, rate).",
    hints=(
        "Each weight is kept with probability 1 - rate, or set to 0; the kept ones grow so that "
        "the mean stays.",
        "The mask is attention_dropout_mask(seed, p.shape, rate), True where kept. Without seed "
        "or with rate 0, p stays as it is.",
        "d is 1 / (1 - rate) where kept and 0 elsewhere; w is p times d. Rows are not normalized "
        "again."),
    backward_hints=(
        "Each w_ij = d_ij p_ij depends on one p_ij alone, and d is a constant: no sum, no second "
        "path.",
        "The same mask as in the forward: from the same seed, shape and rate. The factor 1 / (1 - "
        "rate) is in the gradient, too.",
        "dp is dw times d, where d is the forward's array of 0 and 1 / (1 - rate)."))
