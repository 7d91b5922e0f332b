"""Byte pairs as tokens: bytes, and what is made of frequent neighbours, learnt from a text. No text is unknown."""

import re
from collections import Counter, defaultdict
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import chain

import numpy as np

from numformer.checks import check_whole
from numformer.tokenizers.base import Tokenizer, check_text

_WORD = re.compile(rb" ?[A-Za-z\x80-\xff]{1,63}"                      # letters; a byte beyond ASCII is part of one
                   rb"| ?[0-9]{1,63}"
                   rb"| ?[^A-Za-z0-9\x80-\xff\s]{1,63}"               # marks
                   rb"|\s{1,64}(?= [^\s])|\s{1,64}")                  # white space, less the blank that goes with what comes next


def split_bytes(data):
    """Split bytes into the words that no token reaches across.

    A word is a run of letters, of digits or of marks, together with a blank before it; or a run of white space, without the last
    blank if something else follows. All bytes beyond ASCII are letters, so that a character of several bytes stays whole. No word is
    longer than 64 bytes: a longer run is cut. The words one after another are always the bytes that came.

    Examples
    --------
    >>> split_bytes("I'm  48 years old!".encode())
    [b'I', b"'", b'm', b' ', b' 48', b' years', b' old', b'!']
    """
    return _WORD.findall(data)


class BytePairTokenizer(Tokenizer):
    """One id for each of the 256 bytes, and one for each merge: two tokens that often stood side by side, made one.

    Any text has ids and comes back from them as it was, also bytes that are no UTF-8. To encode a word, begin with its bytes and
    carry out the merges in the order in which they were learnt; words are those of `split_bytes`.

    Parameters
    ----------
    merges : sequence of pairs of int
        Merge k makes token 256 + k of two earlier ones; the first 256 are the bytes. The numbers leave the special tokens out.
    special : tuple of str
        Names of special tokens: their ids come before the bytes', and shift all others.

    Raises
    ------
    ValueError
        If a merge is not a pair of earlier tokens, or stands there twice, or a special token does.

    References
    ----------
    Sennrich, Haddow, Birch (2016), "Neural Machine Translation of Rare Words with Subword Units", section 3.2, algorithm 1. Bytes
    instead of characters, and no merge across words: Radford et al. (2019), "Language Models are Unsupervised Multitask Learners",
    section 2.2.

    Examples
    --------
    >>> tokenizer = BytePairTokenizer.of("low lower lowest", n_merges=3)
    >>> [tokenizer.decode([i]) for i in tokenizer.encode("slow lower")], len(tokenizer)
    (['s', 'low', ' low', 'e', 'r'], 259)
    >>> tokenizer.decode_bytes(tokenizer.encode(bytes([0xff, 0x00])))
    b'\\xff\\x00'
    """

    def __init__(self, merges, special=()):
        if not isinstance(merges, (tuple, list)):
            raise ValueError(f"BytePairTokenizer: merges={merges!r} must be a list of pairs.")
        self.merges = tuple(tuple(pair) if isinstance(pair, (tuple, list)) else pair for pair in merges)
        for new, pair in enumerate(self.merges, 256):
            if not isinstance(pair, tuple) or len(pair) != 2 or any(type(part) is not int or not 0 <= part < new for part in pair):
                raise ValueError(f"BytePairTokenizer: merge {new - 256} is {pair!r}, but must be a pair of tokens 0 .. {new - 1}.")
        self._made = {pair: new for new, pair in enumerate(self.merges, 256)}
        if len(self._made) < len(self.merges):
            raise ValueError("BytePairTokenizer: merges hold a pair twice; each makes one token.")
        super().__init__(special, 256 + len(self.merges))
        pieces = [bytes([byte]) for byte in range(256)]
        for left, right in self.merges:
            pieces.append(pieces[left] + pieces[right])
        self._tokens = lru_cache(maxsize=2**16)(self._merged)         # texts have few different words, and many in common
        self._pieces = [name.encode("utf-8", "surrogatepass") for name in self.special] + pieces

    @classmethod
    def of(cls, text, n_merges, special=()):
        """Learn merges from a text: again and again of the pair of tokens that stands side by side most often.

        Of equally frequent pairs the one with the smallest numbers comes first. A pair that stands there once is not merged, so a
        short text may give fewer merges than wanted.

        Parameters
        ----------
        text : str or bytes
        n_merges : int
            How many at most.

        Raises
        ------
        ValueError, TypeError
            If the text is empty, or n_merges is negative.
        """
        check_whole("BytePairTokenizer", "n_merges", n_merges, least=0)
        words = Counter(split_bytes(_as_bytes(text)))
        if not words:
            raise ValueError("BytePairTokenizer: the text is empty; give one to learn merges from.")
        return cls(_learn(words, n_merges), special)

    def encode(self, text):
        """The ids of a text.

        Parameters
        ----------
        text : str or bytes
            A str is read as UTF-8.

        Returns
        -------
        ndarray of int64, shape (number of tokens,)

        Raises
        ------
        TypeError
            If it is neither.
        """
        ids = np.fromiter(chain.from_iterable(map(self._tokens, split_bytes(_as_bytes(text)))), dtype=np.int64)
        return ids + len(self.special)

    def _merged(self, word):
        """Merge what was learnt first, until nothing is left to merge: what is made of a merge was learnt after it."""
        tokens = list(word)
        while len(tokens) > 1:
            first = min(pairs(tokens), key=lambda pair: self._made.get(pair, len(self._pieces)))
            if first not in self._made:
                break
            tokens = merge(tokens, first, self._made[first])
        return tokens

    def decode_bytes(self, ids):
        """The bytes of an array of ids.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        return b"".join([self._pieces[i] for i in self._checked_ids(ids)])

    def decode(self, ids):
        """The text of an array of ids: any str that was encoded, as it was.

        Ids from elsewhere, a model's or a part of a text's, may be no UTF-8; then U+FFFD stands for what is broken. `decode_bytes`
        loses nothing.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        data = self.decode_bytes(ids)
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")

    def __reduce__(self):
        return type(self), (self.merges, self.special)                # the words that it remembers cannot be pickled, and need not

    def to_json(self):
        """What `tokenizer_from_json` reads."""
        return {"kind": "byte_pairs", "special": list(self.special), "merges": [list(pair) for pair in self.merges]}


def pairs(tokens):
    """All neighbours: [1, 2, 3] gives (1, 2), (2, 3)."""
    return zip(tokens, tokens[1:])


def merge(tokens, pair, new):
    """Put `new` in place of a pair, from left to right.

    Examples
    --------
    >>> merge([1, 1, 1, 2, 1, 1], (1, 1), 9)
    [9, 1, 2, 9]
    """
    left, right = pair
    merged = tokens[:1]
    for token in tokens[1:]:
        if token == right and merged[-1] == left:
            merged[-1] = new
        else:
            merged.append(token)
    return merged


def _learn(words, n_merges):
    """The merges of a table of words and how often each stands in the text.

    Counts of pairs are kept from merge to merge: only the words that hold the merged pair are counted again. In the heap the most
    frequent pair is on top; a pair whose count has changed since has a newer entry, and the old one is passed over.
    """
    tokens, counts = [list(word) for word in words], list(words.values())
    total, where = Counter(), defaultdict(set)                        # how often a pair stands in the text, and in which words
    for i, word in enumerate(tokens):
        for pair in pairs(word):
            total[pair] += counts[i]
            where[pair].add(i)
    heap = [(-n, pair) for pair, n in total.items()]
    heapify(heap)

    merges = []
    while heap and len(merges) < n_merges:
        n, best = heappop(heap)
        if -n != total[best]:
            continue
        if -n < 2:
            break
        new = 256 + len(merges)
        merges.append(best)
        change = Counter()
        for i in where.pop(best):
            for pair in pairs(tokens[i]):
                change[pair] -= counts[i]
            tokens[i] = merge(tokens[i], best, new)
            for pair in pairs(tokens[i]):
                change[pair] += counts[i]
                where[pair].add(i)
        for pair, n in change.items():
            if n:
                total[pair] += n
                heappush(heap, (-total[pair], pair))
    return merges


def _as_bytes(text):
    check_text("BytePairTokenizer", text, (str, bytes))
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
