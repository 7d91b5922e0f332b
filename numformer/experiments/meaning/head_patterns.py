"""Heads of a trained model, named by what they attend to."""

from functools import partial

import numpy as np

from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.meaning.mentions import pronouns_of
from numformer.experiments.meaning.world_bert import (
    FIRST, attention_of, halves, pretrained, tales_of)
from numformer.recipes.preset import more

TALES = 160
PATTERNS = ("previous", "next", "same_word", "separator", "agreement", "referent")
MASKED = ("agreement", "referent")                    # also where the verb or pronoun is masked
ALL = (*PATTERNS, *(f"{name}_masked" for name in MASKED))


def targets_of(tale, pronouns, T):
    """Which keys each pattern wants, for the queries that have some.

    Parameters
    ----------
    tale : Tale
    pronouns : list of Pronoun
        Of this tale.
    T : int
        Columns of its row, with the class token and the separator.

    Returns
    -------
    dict of str to ndarray of bool, shape (T, T)
        By pattern; a query without targets has a row of False.
    """
    n = len(tale.words)
    targets = {name: np.zeros((T, T), bool) for name in PATTERNS}
    tokens = np.arange(FIRST, FIRST + n)
    targets["previous"][tokens[1:], tokens[1:] - 1] = True
    targets["next"][tokens[:-1], tokens[:-1] + 1] = True
    words = np.array(tale.words)
    same = (words[:, None] == words) & ~np.eye(n, dtype=bool)
    targets["same_word"][FIRST : FIRST + n, FIRST : FIRST + n] = same
    targets["separator"][np.ix_(tokens, [0, n + FIRST])] = True
    for verb, subject in enumerate(tale.heads):
        if 0 <= subject < verb - 1:                   # other words are between them
            targets["agreement"][verb + FIRST, subject + FIRST] = True
    for each in pronouns:
        targets["referent"][each.token + FIRST, each.candidates[each.right] + FIRST] = True
    return targets


def scores_of(weights, targets, lengths):
    """The mean weight on the targets of each pattern, and what simple attention would give them.

    The baselines: attention that depends on the distance alone, with the head's own mean weight at
    each distance; for patterns that are distances, equal weights for all tokens.

    Parameters
    ----------
    weights : list of ndarray, each of shape (layers, H, T, T)
        Of each tale, without padding.
    targets : list of dict of str to ndarray of bool, shape (T, T)
    lengths : list of int
        T of each.

    Returns
    -------
    scores, baselines : ndarray, shape (layers, H, patterns)
    """
    longest = max(lengths)
    offsets = [np.arange(T) - np.arange(T)[:, None] + longest - 1 for T in lengths]       # (T, T)
    by_offset, count = 0, np.zeros(2 * longest - 1)
    for p, offset in zip(weights, offsets):
        L, H = p.shape[:2]
        sums = [np.bincount(offset.ravel(), row, 2 * longest - 1)
                for row in p.reshape(L * H, -1)]
        by_offset = by_offset + np.array(sums).reshape(L, H, -1)
        count += np.bincount(offset.ravel(), minlength=2 * longest - 1)
    by_offset = by_offset / np.maximum(count, 1)                      # (layers, H, offsets)
    scores, baselines = [], []
    for name in PATTERNS:
        score = baseline = queries = 0
        for p, offset, wanted in zip(weights, offsets, targets):
            rows = np.flatnonzero(wanted[name].any(axis=1))
            if not len(rows):
                continue
            keys = wanted[name][rows]                                 # (queries, T)
            score = score + (p[:, :, rows] * keys).sum(axis=(2, 3))
            if name in ("previous", "next", "separator"):
                simple = np.full((*p.shape[:2], len(rows), len(keys[0])), 1 / len(keys[0]))
            else:
                simple = by_offset[:, :, offset[rows]]                # (layers, H, queries, T)
                simple = simple / simple.sum(axis=-1, keepdims=True)
            baseline = baseline + (simple * keys).sum(axis=(2, 3))
            queries += len(rows)
        scores.append(score / max(queries, 1))
        baselines.append(baseline / max(queries, 1))
    return np.stack(scores, axis=-1), np.stack(baselines, axis=-1)


def measure(seed, steps=None):
    """Each pattern's head is chosen on one half of the tales and measured on the other."""
    bert, told = pretrained(seed, steps), tales_of(TALES)
    rows, pronouns = bert.rows([each.words for each in told]), pronouns_of(told)
    lengths = [int(n) for n in rows.lengths]
    targets = [targets_of(tale, [each for each in pronouns if each.tale == n], T)
               for n, (tale, T) in enumerate(zip(told, lengths))]
    masked = rows._replace(ids=rows.ids.copy())
    for ids, wanted, T in zip(masked.ids, targets, lengths):
        for name in MASKED:
            ids[:T][wanted[name].any(axis=1)] = bert.tokenizer.special_id("[MASK]")
    seen, hidden = ([p[:, :, :T, :T] for p, T in zip(attention_of(bert.model, each), lengths)]
                    for each in (rows, masked))
    of_masked = [PATTERNS.index(name) for name in MASKED]
    parts = []
    for half in halves(len(told)):
        one, other = (scores_of(*([each[n] for n in np.flatnonzero(half)]
                                  for each in (weights, targets, lengths)))
                      for weights in (seen, hidden))
        parts.append([np.concatenate([x, y[..., of_masked]], axis=-1)
                      for x, y in zip(one, other)])
    (score, baseline), (scores, baselines) = parts
    chosen = score - baseline                                         # (layers, H, patterns)
    figures, lines = {}, []
    for k, name in enumerate(ALL):
        layer, head = np.unravel_index(chosen[..., k].argmax(), chosen.shape[:2])
        figures[name] = float(scores[layer, head, k])
        figures[f"{name}_baseline"] = float(baselines[layer, head, k])
        lines.append(f"{name.replace('_', ' ')}: layer {layer + 1}, head {head + 1}, weight "
                     f"{scores[layer, head, k]:.2f}, baseline {baselines[layer, head, k]:.2f}")
    return Outcome(figures, partial(_drawn, scores), "\n".join(lines))


def _drawn(scores):
    from numformer.plots.meaning import head_scores

    layers, H = scores.shape[:2]
    heads = [f"layer {layer + 1}, head {head + 1}" for layer in range(layers) for head in range(H)]
    names = ["previous\ntoken", "next\ntoken", "same\nword", "class,\nseparator",
             "verb to its\nsubject", "pronoun to\nreferent", "masked verb\nto subject",
             "masked pronoun\nto referent"]
    return head_scores(scores.reshape(-1, len(ALL)), heads, names,
                       "What heads attend to, by the world's labels", "attention weight")


CLAIMED = tuple(name for name in ALL if name != "separator")    # no head attends to those

PATTERNS_EXPERIMENT = Experiment(
    "Which patterns of attention has each head learned?", measure,
    tuple(more(name, beats=f"{name}_baseline") for name in CLAIMED))
