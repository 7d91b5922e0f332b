"""The senses of ambiguous words, in the embedding and in the vectors of every layer."""

from functools import partial

import numpy as np

from numformer.data.world import SENSES
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.meaning.same_word import same_word_differences
from numformer.experiments.meaning.world_bert import (
    FIRST, halves, hidden_states, pretrained, tales_of)
from numformer.recipes.preset import Claim, more

TALES = 800
AMBIGUOUS = tuple(word for word, senses in SENSES.items() if len(senses) > 1)
MAPPED = "bank", "bat", "ran", "key"                                  # words of the picture


def occurrences(tales):
    """All ambiguous words of tales: (tale, token, word, sense), each an array."""
    found = [(n, t, *sense.split(".")) for n, tale in enumerate(tales)
             for t, sense in enumerate(tale.senses) if sense.partition(".")[0] in AMBIGUOUS]
    return tuple(map(np.array, zip(*found)))


def sense_is_right(vectors, senses):
    """Leave-one-out: whether the nearest other vector by cosine has the same sense, (N,) of bool.

    Where several are equally near, their most frequent sense is predicted: with equal vectors this
    is the majority.

    Examples
    --------
    >>> vectors = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    >>> sense_is_right(vectors, np.array(["river", "river", "money", "river"]))
    array([ True,  True, False, False])
    """
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T                                           # (N, N)
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines >= cosines.max(axis=1, keepdims=True) - 1e-6
    names = np.unique(senses)
    votes = nearest @ (senses[:, None] == names).astype(np.float64)   # (N, senses)
    return names[votes.argmax(axis=1)] == senses


def accuracy_by_word(vectors, words, senses):
    """Whether each occurrence's sense is found among those of its word, (N,) of float."""
    right = np.zeros(len(words))
    for word in np.unique(words):
        own = words == word
        right[own] = sense_is_right(vectors[own], senses[own])
    return right


def without_frames(vectors, frames):
    """Vectors (N, C) minus the mean of those with the same frame, (N,) of str.

    The frame of an occurrence, the words next to it, makes most of the difference between vectors,
    but says nothing about the sense.
    """
    centred = vectors.astype(np.float64)
    for frame in np.unique(frames):
        own = frames == frame
        centred[own] -= centred[own].mean(axis=0)
    return centred


def measure(seed, steps=None):
    """Accuracy by layer; the best layer is chosen on one half of the occurrences."""
    bert, told = pretrained(seed, steps), tales_of(TALES)
    tale, token, words, senses = occurrences(told)
    rows = bert.rows([each.words for each in told])
    states = [layer[tale, token + FIRST] for layer in hidden_states(bert.model, rows)]
    chosen, measured = halves(len(words))
    by_layer = np.array([accuracy_by_word(x, words, senses) for x in states])     # (L + 1, N)
    best = 1 + int(by_layer[1:, chosen].mean(axis=1).argmax())
    majority = np.mean([_majority(senses[words == word]) for word in words])
    figures = {"embedding": by_layer[0, measured].mean(), "majority": majority,
               **{f"layer_{n}": by_layer[n, measured].mean() for n in range(1, len(states))},
               "best_layer": by_layer[best, measured].mean()}
    differences = same_word_differences(seed)
    figures |= {"same_word_without_positions": differences["none"],
                "same_word_least_with_positions": min(
                    value for kind, value in differences.items() if kind != "none")}
    table = "\n".join([*_by_word(by_layer, words, senses), *(
        f"\"big\" twice, positions {kind}: outputs differ by {value:.2g}"
        for kind, value in differences.items())])
    figures = {name: float(value) for name, value in figures.items()}
    frames = np.array([" ".join(told[n].words[max(t - 1, 0) : t + 2]) for n, t in zip(tale, token)])
    layers = [without_frames(layer, frames) for layer in states]
    return Outcome(figures, partial(_drawn, layers, by_layer, words, senses), table)


def _by_word(by_layer, words, senses):
    """A table: how often the sense of each word is found, in all its occurrences."""
    names = ["embedding", *(f"block {n}" for n in range(1, len(by_layer)))]
    yield f"{'word':9}{'number':>7}{'majority':>10}" + "".join(f"{name:>11}" for name in names)
    for word in np.unique(words):
        own = words == word
        yield f"{word:9}{own.sum():7}{_majority(senses[own]):10.2f}" + "".join(
            f"{right:11.2f}" for right in by_layer[:, own].mean(axis=1))


def _majority(senses):
    """The share of the most frequent sense."""
    return np.unique(senses, return_counts=True)[1].max() / len(senses)


def _drawn(layers, by_layer, words, senses):
    """Each word twice: its embeddings, and the block in which its senses are best apart."""
    from numformer.plots.meaning import labelled_maps

    before, after = {}, {}
    for word in (each for each in MAPPED if (words == each).any()):
        own = words == word
        right = by_layer[:, own].mean(axis=1)                         # (L + 1,)
        best = 1 + int(right[1:].argmax())
        before[word, "embedding"] = layers[0][own], senses[own]
        after[word, f"block {best}, {right[best]:.2f}"] = layers[best][own], senses[own]
    return labelled_maps(
        before | after, len(before), "Ambiguous words by sense: each vector minus the mean of "
        "those\nof the same word between the same two words. The number: how often\nthe nearest "
        "vector has the same sense")


SENSES_EXPERIMENT = Experiment(
    "Do the vectors of an ambiguous word depend on its sense?", measure,
    (more("best_layer", beats="embedding"), more("best_layer", beats="majority"),
     Claim("same_word_without_positions", 1e-10), more("same_word_least_with_positions", 1e-3)))
