"""Words as tokens: the most frequent words of a text, and one token for all others."""

import re
from collections import Counter
from reprlib import repr as brief

import numpy as np

from numformer.checks import check_whole
from numformer.data.tokenizers.base import UNKNOWN, Tokenizer, check_text

# A word, a mark, or white space that is no single space between two words
_WORD = re.compile(r"\w+|[^\w\s]|(?!(?<=\w) (?=\w))\s")


def split_words(text):
    r"""Split a text into words, marks and white space.

    A word is a run of letters, digits and underscores, in any script; every other character is a
    token of its own, white space too. There is one exception, which makes sequences short: a single
    space between two words is no token, since two words in a row imply it.

    Examples
    --------
    >>> split_words("To be, or not to be:\n")
    ['To', 'be', ',', ' ', 'or', 'not', 'to', 'be', ':', '\n']
    """
    return _WORD.findall(text)


def join_words(tokens):
    """The text that `split_words` split: a space between two words, nothing between others.

    Examples
    --------
    >>> join_words(["To", "be", ",", " ", "or", "not"])
    'To be, or not'
    """
    parts, after_word = [], False
    for token in tokens:
        is_word = len(token) > 1 or _is_word(token)                   # special tokens do, too
        parts += [" ", token] if after_word and is_word else [token]
        after_word = is_word
    return "".join(parts)


def _is_word(character):
    return re.match(r"\w", character) is not None


class WordTokenizer(Tokenizer):
    """One id for every known word, mark and white-space character of `split_words`. Case matters.

    `decode` restores a text of known words exactly. All unknown words are one token, ``[UNK]``, and
    come back as its name.

    Parameters
    ----------
    words : sequence of str
        The known words, in the order of their ids.
    special : tuple of str
        Names of special tokens: their ids come before the words'. Without ``[UNK]`` among them, an
        unknown word is an error.

    Raises
    ------
    ValueError
        If there are no words, one is given twice or is not a single token of `split_words`, or a
        special token is given twice.

    Examples
    --------
    >>> tokenizer = WordTokenizer.of("the cat and the dog", n_words=2)
    >>> tokenizer.words, tokenizer.encode("the dog and the cat")
    (('the', 'and'), array([1, 0, 2, 1, 0]))
    >>> tokenizer.decode(np.array([1, 2, 0]))
    'the and [UNK]'
    >>> WordTokenizer(["the", "cat"], special=()).encode("the dog")     # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: WordTokenizer: the text holds 'dog' at position 4, which is none ...
    """

    def __init__(self, words, special=(UNKNOWN,)):
        is_list = isinstance(words, (tuple, list)) and words
        if (not is_list or not all(isinstance(word, str) for word in words)
                or len(set(words)) < len(words)):
            raise ValueError("WordTokenizer: words must be a list of str, each once, at least one.")
        for word in words:
            if split_words(word) != [word]:
                raise ValueError(f"WordTokenizer: words hold {brief(word)}, which `split_words` "
                                 f"splits into {brief(split_words(word))}; each must be a single "
                                 "token.")
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
            How many of them at most; all by default. The most frequent has the first id; equally
            frequent ones are sorted by their characters.

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
        ndarray of int64, shape (number of tokens,)

        Raises
        ------
        ValueError, TypeError
            If a word is unknown and there is no ``[UNK]`` (the error shows the word and its
            position), or the text is no str.
        """
        check_text("WordTokenizer", text)
        words = split_words(text)
        if UNKNOWN in self.special:
            unknown = self.special.index(UNKNOWN)
            return np.array([self._ids.get(word, unknown) for word in words], dtype=np.int64)
        for match in _WORD.finditer(text):
            if match.group() not in self._ids:
                raise ValueError(f"WordTokenizer: the text holds {match.group()!r} at position "
                                 f"{match.start()}, which is none of the {len(self.words)} known "
                                 f"words; with '{UNKNOWN}' in special it has an id.")
        return np.array([self._ids[word] for word in words], dtype=np.int64)

    def decode(self, ids):
        """The text of an array of ids. Special tokens are set apart by spaces, as words are.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        tokens = [*self.special, *self.words]
        return join_words([tokens[i] for i in self._checked_ids(ids)])

    def to_json(self):
        """A dict for `tokenizer_from_json`."""
        return {"kind": "words", "special": list(self.special), "words": list(self.words)}
