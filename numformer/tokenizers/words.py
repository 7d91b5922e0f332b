"""Words as tokens: the most frequent of a text, and one token for all others."""

import re
from collections import Counter

import numpy as np

from numformer.checks import check_whole
from numformer.tokenizers.base import UNKNOWN, Tokenizer, check_text

_WORD = re.compile(r"\w+|[^\w\s]|(?!(?<=\w) (?=\w))\s")               # the last: white space, but not a single blank between two words


def split_words(text):
    r"""Split a text into words, marks and white space.

    A word is a run of letters, digits and underscores, in any script; every other character is a piece by itself, also white space.
    The one exception makes sequences short: a single blank between two words is no piece, for words next to each other can only
    have been apart by one.

    Examples
    --------
    >>> split_words("To be, or not to be:\n")
    ['To', 'be', ',', ' ', 'or', 'not', 'to', 'be', ':', '\n']
    """
    return _WORD.findall(text)


def join_words(pieces):
    """The text that `split_words` split: a blank between two words, nothing between others.

    Examples
    --------
    >>> join_words(["To", "be", ",", " ", "or", "not"])
    'To be, or not'
    """
    parts, blank = [], False
    for piece in pieces:
        word = len(piece) > 1 or _is_word(piece)                      # what is longer than a character is a word, or a special token
        parts += [" ", piece] if blank and word else [piece]
        blank = word
    return "".join(parts)


def _is_word(character):
    return re.match(r"\w", character) is not None


class WordTokenizer(Tokenizer):
    """One id for every known word, mark and character of white space, as `split_words` splits a text. Case is kept.

    A text of known words comes back from `decode` as it was. All unknown words are one token, ``[UNK]``, and come back as its name.

    Parameters
    ----------
    words : sequence of str
        What is known, in the order of the ids.
    special : tuple of str
        Names of special tokens: their ids come before the words'. Without ``[UNK]`` among them, an unknown word is an error.

    Raises
    ------
    ValueError
        If there are no words, one stands there twice or is not one piece of text, or a special token stands there twice.

    Examples
    --------
    >>> tokenizer = WordTokenizer.of("the cat and the dog", n_words=2)
    >>> tokenizer.words, tokenizer.encode("the dog and the cat"), tokenizer.decode(np.array([1, 2, 0]))
    (('the', 'and'), array([1, 0, 2, 1, 0]), 'the and [UNK]')
    >>> WordTokenizer(["the", "cat"], special=()).encode("the dog")
    Traceback (most recent call last):
    ValueError: WordTokenizer: the text holds 'dog' at position 4, which is none of the 2 known words; with '[UNK]' in special it has an id.
    """

    def __init__(self, words, special=(UNKNOWN,)):
        fit = isinstance(words, (tuple, list)) and words and all(isinstance(word, str) for word in words)
        if not fit or len(set(words)) < len(words):
            raise ValueError("WordTokenizer: words must be a list of texts, each once, at least one.")
        for word in words:
            if split_words(word) != [word]:
                raise ValueError(f"WordTokenizer: words hold {word!r}, which `split_words` splits into {split_words(word)}; "
                                 "each must be one piece of text.")
        super().__init__(special, len(words))
        self.words = tuple(words)
        self._ids = {word: i for i, word in enumerate(words, len(self.special))}

    @classmethod
    def of(cls, text, n_words=None, special=(UNKNOWN,)):
        """The tokenizer of a text's most frequent words.

        Parameters
        ----------
        text : str
        n_words : int, optional
            How many of them at most (all, if not given). The most frequent has the first id; equally frequent ones stand in the order of
            their characters.

        Raises
        ------
        ValueError, TypeError
            If the text is empty, or n_words is not at least 1.
        """
        check_text("WordTokenizer", text)
        if n_words is not None:
            check_whole("WordTokenizer", "n_words", n_words)
        counts = Counter(split_words(text))
        if not counts:
            raise ValueError("WordTokenizer: the text is empty; give one with words in it.")
        return cls(sorted(counts, key=lambda word: (-counts[word], word))[:n_words], special)

    def encode(self, text):
        """The ids of a text.

        Parameters
        ----------
        text : str

        Returns
        -------
        ndarray of int64, shape (number of pieces,)

        Raises
        ------
        ValueError, TypeError
            If a word is unknown and there is no ``[UNK]``: the word is shown, with its place. If the text is no str.
        """
        check_text("WordTokenizer", text)
        pieces = split_words(text)
        if UNKNOWN in self.special:
            unknown = self.special.index(UNKNOWN)
            return np.array([self._ids.get(piece, unknown) for piece in pieces], dtype=np.int64)
        for match in _WORD.finditer(text):
            if match.group() not in self._ids:
                raise ValueError(f"WordTokenizer: the text holds {match.group()!r} at position {match.start()}, which is none of the "
                                 f"{len(self.words)} known words; with '{UNKNOWN}' in special it has an id.")
        return np.array([self._ids[piece] for piece in pieces], dtype=np.int64)

    def decode(self, ids):
        """The text of an array of ids. Special tokens stand apart from words like words.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        pieces = [*self.special, *self.words]
        return join_words([pieces[i] for i in self._checked_ids(ids)])

    def to_json(self):
        """What `tokenizer_from_json` reads."""
        return {"kind": "words", "special": list(self.special), "words": list(self.words)}
