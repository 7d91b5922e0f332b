"""Pronouns of tales with the mentions that they may refer to."""

from typing import NamedTuple

import numpy as np

from numformer.data.world.cast import PEOPLE

TYPES = {"he": "m", "him": "m", "his": "m", "she": "f", "her": "f", "it": "it"}
_GENDER = {person.words: person.gender for person in PEOPLE}
_PLURAL = {"apples", "pears", "eggs", "shells", "stones", "buttons", "coins", "nuts", "cakes",
           "books", "keys", "gloves", "boots", "skates", "lamps", "tables", "chairs", "doors",
           "trees", "ducks", "fish", "wings", "people", "girls", "boys", "women", "men", "pupils",
           "noises"}


class Pronoun(NamedTuple):
    """A pronoun and the mentions before it of its type.

    Parameters
    ----------
    tale : int
        Row of the tale.
    token : int
        Of the pronoun, in its tale.
    word : str
    candidates : ndarray of int
        The last tokens of the mentions, in their order: people of the pronoun's gender, singular
        nouns for "it".
    right : ndarray of bool
        Which of them are mentions of the referent.
    """

    tale: int
    token: int
    word: str
    candidates: np.ndarray
    right: np.ndarray


def pronouns_of(tales):
    """The pronouns of tales that could refer to different things: a list of `Pronoun`.

    Left out are "they" and "them", which are two people or some things, and pronouns with one
    candidate.

    Examples
    --------
    >>> from numformer.data import tale
    >>> told = tale(3)
    >>> found = pronouns_of([told])
    >>> [(each.word, told.words[each.candidates[each.right][0]]) for each in found][:2]
    [('it', 'whistle'), ('she', 'clara')]
    """
    found = []
    for n, tale in enumerate(tales):
        mentions = _mentions(tale)
        for token, (word, referent) in enumerate(zip(tale.words, tale.referents)):
            if referent < 0 or word not in TYPES:
                continue
            before = [(t, name) for t, name, kind in mentions if t < token and kind == TYPES[word]]
            names = {t: name for t, name in before}
            if referent not in names or len(set(names.values())) < 2:
                continue
            right = np.array([name == names[referent] for _, name in before])
            found.append(Pronoun(n, token, word, np.array([t for t, _ in before]), right))
    return found


EXCHANGED = {"he": "she", "she": "he"}


def exchanged_pairs(tales):
    """Tales, and the same with one pronoun exchanged: "she" for "he", or the other way round.

    The pronoun is the first "he" or "she" that comes after people of both genders. Its candidates
    are all people before it; those of its gender are right, so no answer is right for both.

    Returns
    -------
    texts : list of tuple of str
        The words of a tale, those of the same with the pronoun exchanged, the next tale, ...
    pronouns : list of Pronoun
        Of each text, `tale` its number in `texts`.

    Examples
    --------
    >>> from numformer.data import tale
    >>> texts, pronouns = exchanged_pairs([tale(1)])
    >>> [(each.word, texts[each.tale][each.candidates[each.right][0]]) for each in pronouns]
    [('he', 'max'), ('she', 'grace')]
    """
    texts, pronouns = [], []
    for tale in tales:
        people = [(t, kind) for t, _, kind in _mentions(tale) if kind != "it"]
        for token, word in enumerate(tale.words):
            kinds = [kind for t, kind in people if t < token]
            if word not in EXCHANGED or len(set(kinds)) < 2:
                continue
            candidates = np.array([t for t, _ in people if t < token])
            for each in (word, EXCHANGED[word]):
                pronouns.append(Pronoun(len(texts), token, each, candidates,
                                        np.array([kind == TYPES[each] for kind in kinds])))
                texts.append((*tale.words[:token], each, *tale.words[token + 1:]))
            break
    return texts, pronouns


def _mentions(tale):
    """(last token, name, type) of every person and every singular noun."""
    found = []
    for t, (word, tag, entity) in enumerate(zip(tale.words, tale.tags, tale.entities)):
        if entity.endswith("PERSON"):
            first = t - 1 if entity.startswith("I") else t
            name = tale.words[first : t + 1]
            if name in _GENDER and tale.entities[t + 1 : t + 2] != ("I-PERSON",):
                found.append((t, name, _GENDER[name]))
        elif tag == "NOUN" and word not in _PLURAL and tale.entities[t + 1 : t + 2] != ("I-PLACE",):
            found.append((t, (word,), "it"))
    return found


def nearest_accuracy(pronouns):
    """How often the nearest candidate is right."""
    return float(np.mean([each.right[-1] for each in pronouns]))


def random_accuracy(pronouns):
    """How often a random candidate is right."""
    return float(np.mean([each.right.mean() for each in pronouns]))
