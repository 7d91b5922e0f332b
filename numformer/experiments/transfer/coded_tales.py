"""A second language by rule: the words of the tales in code, and in another order.

Sentences of both languages as ids, to restore and to tag; without a model.
"""

from codecs import encode
from collections import Counter
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from numformer.data import tales
from numformer.data.world import TAGS

PRETRAINING_TALES, LABELLED_TALES, HELD_OUT_TALES = 1000, 100, 100
LANGUAGES = "plain", "coded"
PADDING, BOS, EOS, MASK = range(4)                                    # ids before those of words
FIRST_LANGUAGE = 4
FIRST_TAG = FIRST_LANGUAGE + len(LANGUAGES)
FIRST_WORD = FIRST_TAG + len(TAGS)
_SHARED = "PROPN", "PUNCT"
_NOUN_PHRASE = "DET", "ADJ", "NUM", "NOUN"


def coded(words, tags):
    """A sentence in the second language: its words, and their tags.

    All words but names are in ROT13, and those of a noun phrase are in reverse order: articles and
    adjectives come after the noun.

    Parameters
    ----------
    words, tags : sequence of str
        Of a sentence of a tale.

    Returns
    -------
    words, tags : tuple of str

    Examples
    --------
    >>> words, tags = coded(["tom", "had", "a", "red", "ball", "."],
    ...                     ["PROPN", "VERB", "DET", "ADJ", "NOUN", "PUNCT"])
    >>> words
    ('tom', 'unq', 'onyy', 'erq', 'n', '.')
    >>> tags
    ('PROPN', 'VERB', 'NOUN', 'ADJ', 'DET', 'PUNCT')
    """
    pairs = []
    for is_phrase, part in groupby(zip(words, tags), lambda pair: pair[1] in _NOUN_PHRASE):
        pairs += reversed(list(part)) if is_phrase else part
    return (tuple(word if tag in _SHARED else encode(word, "rot13") for word, tag in pairs),
            tuple(tag for _, tag in pairs))


class Data(NamedTuple):
    """Sentences of both languages, as ids.

    Parameters
    ----------
    vocab_size : int
    texts : dict of str to list of ndarray of int
        For each language, sentences to restore, each after the token of its language. The
        languages tell different tales.
    labelled, held_out : dict of str to list of (ndarray, ndarray)
        For each language, pairs of such a sentence and the tags of its words.
    """

    vocab_size: int
    texts: dict
    labelled: dict
    held_out: dict


@lru_cache(maxsize=1)
def data():
    """The `Data` of the experiment."""
    told = {language: _sentences(tales(PRETRAINING_TALES, seed=seed), language)
            for seed, language in enumerate(LANGUAGES)}
    words = sorted({word for part in told.values() for words, _ in part for word in words})
    ids = {word: n for n, word in enumerate(words, FIRST_WORD)}

    def source(words, language):
        first = FIRST_LANGUAGE + LANGUAGES.index(language)
        return np.array([first, *(ids[word] for word in words)])

    def pairs(tales):
        return {language: [
            (source(words, language), np.array([FIRST_TAG + TAGS.index(tag) for tag in tags]))
            for words, tags in _sentences(tales, language)] for language in LANGUAGES}

    texts = {language: [source(words, language) for words, _ in part]
             for language, part in told.items()}
    return Data(FIRST_WORD + len(ids), texts, pairs(tales(LABELLED_TALES, seed=len(LANGUAGES))),
                pairs(tales(HELD_OUT_TALES, held_out=True)))


def _sentences(tales, language):
    """(words, tags) of all sentences of tales."""
    plain = [(told.words[first:last], told.tags[first:last])
             for told in tales for first, last in told.sentences]
    return [coded(*each) for each in plain] if language == "coded" else plain


def right_by_word(labelled, held_out):
    """The fraction of tags that are each word's most frequent one in labelled pairs.

    A word that is not there has the most frequent tag of all.
    """
    counts, whole = {}, Counter()
    for source, tags in labelled:
        for word, tag in zip(source[1:].tolist(), tags.tolist()):
            counts.setdefault(word, Counter())[tag] += 1
            whole[tag] += 1
    return float(np.mean([counts.get(word, whole).most_common(1)[0][0] == tag
                          for source, tags in held_out
                          for word, tag in zip(source[1:].tolist(), tags.tolist())]))
