"""Forms of the input of masked language models: tales in rows, with and without next sentences.

A form is a function of tales (lists of sentences, which are arrays of ids), of the most words in a
row and of the separator's id. It returns what `passage_rows` takes: passages, and which second ones
follow, or None. The capitals are its name in Liu et al. (2019), "RoBERTa: A Robustly Optimized BERT
Pretraining Approach", section 4.2.
"""

import numpy as np

AWAY = 10                                                             # pairs to another tale's


def whole(tales, size, separator):
    """A tale in each row: DOC-SENTENCES."""
    return [(np.concatenate(tale),) for tale in tales], None


def stream(tales, size, separator):
    """Rows of `size` words of all tales, a separator after each: FULL-SENTENCES."""
    ids = np.concatenate([part for tale in tales for part in (*tale, [separator])])
    return [(ids[first : first + size],) for first in range(0, len(ids), size)], None


def halves(tales, size, separator):
    """The two halves of a tale, or the first with another tale's second: SEGMENT-PAIR + NSP."""
    parts = [(tale[:len(tale) // 2], tale[len(tale) // 2:]) for tale in tales]
    return with_others((np.concatenate(first), np.concatenate(second)) for first, second in parts)


def sentences(tales, size, separator):
    """Two sentences of a tale, or the first with another tale's: SENTENCE-PAIR + NSP."""
    return with_others(pair for tale in tales for pair in zip(tale[::2], tale[1::2]))


def with_others(pairs):
    """Every other pair with the second part of one that is `AWAY` pairs on; and which follow."""
    first, second = zip(*pairs)
    follows = [n % 2 == 0 for n in range(len(first))]
    return [(each, second[n if follows[n] else (n + AWAY) % len(second)])
            for n, each in enumerate(first)], follows


FORMS = {"tales": whole, "stream": stream, "halves": halves, "sentences": sentences}
NEXT_SENTENCE = "halves", "sentences"
