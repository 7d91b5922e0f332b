"""Which words are near each other in the embedding of a trained model."""

from functools import partial

import numpy as np

from numformer.data import world_tokens
from numformer.data.world.cast import ADJECTIVES, COUNTED, HOLDERS, PEOPLE, THINGS
from numformer.data.world.telling import NUMBERS
from numformer.data.world.words import LEXICON, SENSES
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.meaning.world_bert import pretrained
from numformer.experiments.training import trainer_of
from numformer.recipes.preset import more

NEIGHBOURS, FEWEST, TEXT = 5, 20, 1500                # least occurrences of a word; number of tales
NAMED = ("person", "thing", "number", "place", "adjective", "pronoun", "verb")
COUNTING = NUMBERS[2:]                                # "one" opens tales: "one morning"
_SPECIAL = {
    **{word: "person" for person in PEOPLE for word in person.words},
    **{thing.noun: "thing" for thing in THINGS + COUNTED + HOLDERS},
    **{word: "adjective" for word in ADJECTIVES}}


def category_of(word):
    """A word's category: person, thing, place, number, or its part of speech; None if ambiguous.

    Examples
    --------
    >>> [category_of(word) for word in ("anna", "kite", "seven", "gave", "bank")]
    ['person', 'thing', 'number', 'verb', None]
    """
    if word in SENSES:
        return None
    if word in _SPECIAL:
        return _SPECIAL[word]
    if word not in LEXICON:
        return None
    tag, entity = LEXICON[word]
    names = {"B-PLACE": "place", "B-NUMBER": "number", "B-THING": "thing"}
    parts = {"PRON": "pronoun", "VERB": "verb", "NOUN": "noun", "ADJ": "adjective"}
    return names.get(entity, parts.get(tag, "other"))


def same_category(vectors, categories):
    """The fraction of the nearest neighbours, by cosine, of the same category: one a word.

    Examples
    --------
    >>> vectors = np.repeat(np.eye(2), 6, axis=0)
    >>> same_category(vectors, np.repeat(["a", "b"], 6)).mean()
    np.float64(1.0)
    """
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :NEIGHBOURS]         # (N, k)
    return (categories[nearest] == categories[:, None]).mean(axis=1)


def in_line(vectors):
    """How well distances between the vectors of numbers follow their differences.

    Spearman's rank correlation of |i - j| and one minus the cosine, over all pairs.
    """
    from scipy.stats import spearmanr

    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    i, j = np.triu_indices(len(vectors), 1)
    return float(spearmanr(j - i, 1 - (unit @ unit.T)[i, j]).statistic)


def measure(seed, steps=None):
    """Neighbours in the trained embedding, in the one it started from, and by chance."""
    bert = pretrained(seed, steps)
    counts = dict(zip(*np.unique(world_tokens(TEXT), return_counts=True)))
    words = [word for word in bert.tokenizer.words
             if counts.get(word, 0) >= FEWEST and category_of(word) is not None]
    categories = np.array([category_of(word) for word in words])
    ids = bert.rows([words[n : n + 50] for n in range(0, len(words), 50)])
    ids = np.concatenate([row[1 : n - 1] for row, n in zip(ids.ids, ids.lengths)])
    start = trainer_of("world-bert", seed, 1)[0].model
    table, first = (model.backbone.embedding.weight.data[ids].astype(np.float64)
                    for model in (bert.model, start))
    shares = same_category(table, categories)
    numbers = [words.index(word) for word in COUNTING if word in words]
    sizes = np.array([(categories == each).sum() for each in categories])
    figures = {"same_category": shares.mean(), "untrained": same_category(first, categories).mean(),
               "chance": ((sizes - 1) / (len(words) - 1)).mean(),
               "numbers_in_line": in_line(table[numbers]),
               "numbers_in_line_untrained": in_line(first[numbers])}
    lines = [f"{name}: {(categories == name).sum()} words, of the same category "
             f"{shares[categories == name].mean():.2f}"
             for name in sorted(set(categories))]
    return Outcome({name: float(value) for name, value in figures.items()},
                   partial(_drawn, table, np.array(words), categories), "\n".join(lines))


def _drawn(table, words, categories):
    from numformer.plots.meaning import labelled_maps

    shown = np.isin(categories, NAMED)
    numbers = np.isin(words, COUNTING)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    maps = {("words by category", ""): (unit[shown], categories[shown]),
            ("numbers", ""): (unit[numbers], categories[numbers])}
    names = {("numbers", ""): list(words[numbers])}
    return labelled_maps(maps, 2, "The embedding of a masked language model", names)


NEIGHBOURS_EXPERIMENT = Experiment(
    "Are words of one kind near each other in the embedding?", measure,
    (more("same_category", beats="chance"), more("same_category", beats="untrained"),
     more("numbers_in_line", beats="numbers_in_line_untrained")))
