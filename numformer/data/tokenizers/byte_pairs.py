"""Byte-pair encoding: tokens are bytes and learned merges of tokens, so no text is unknown."""

import re
from codecs import getincrementaldecoder
from collections import Counter, defaultdict
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import chain
from reprlib import repr as brief

import numpy as np

from numformer.checks import check_whole
from numformer.data.tokenizers.base import Tokenizer, check_text

_WORD = re.compile(rb" ?[A-Za-z\x80-\xff]{1,63}"                      # letters, and all of UTF-8
                   rb"| ?[0-9]{1,63}"
                   rb"| ?[^A-Za-z0-9\x80-\xff\s]{1,63}"               # marks
                   rb"|\s{1,64}(?= [^\s])|\s{1,64}")                  # white space, see below
LONGEST = 64                                                          # bytes of a word


def split_bytes(data):
    """Split bytes into words; no token crosses their borders.

    A word is a run of letters, of digits or of marks, with the space before it; or a run of white
    space, without its last space if another word follows. All bytes beyond ASCII are letters, so
    that a character of several bytes stays whole. Words have at most 64 bytes: a longer run is cut.
    The concatenated words are the bytes that came in.

    Examples
    --------
    >>> split_bytes("I'm  48 years old!".encode())
    [b'I', b"'", b'm', b' ', b' 48', b' years', b' old', b'!']
    """
    return _WORD.findall(data)


class BytePairTokenizer(Tokenizer):
    """One id for each of the 256 bytes, and one for each merge of two frequent neighbours.

    Any text has ids that decode to it, bytes that are no UTF-8 too. A word of `split_bytes` is
    encoded by applying the merges to its bytes, in the order in which they were learned.

    Parameters
    ----------
    merges : sequence of pairs of int
        Merge k makes token 256 + k from two earlier ones; the first 256 are the bytes. Special
        tokens do not count here.
    special : tuple of str
        Names of special tokens: their ids come first and shift all others.

    Raises
    ------
    ValueError
        If a merge is not a pair of earlier tokens, it or a special token is given twice, or a token
        would be longer than the longest word.

    References
    ----------
    Sennrich, Haddow, Birch (2016), "Neural Machine Translation of Rare Words with Subword Units",
    section 3.2, algorithm 1. Bytes instead of characters, and no merge across words: Radford et al.
    (2019), "Language Models are Unsupervised Multitask Learners", section 2.2.

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
            raise ValueError(f"BytePairTokenizer: merges={brief(merges)} must be a list of pairs.")
        self.merges = tuple(tuple(pair) if isinstance(pair, (tuple, list)) else pair
                            for pair in merges)
        for new, pair in enumerate(self.merges, 256):
            if (not isinstance(pair, tuple) or len(pair) != 2
                    or any(type(part) is not int or not 0 <= part < new for part in pair)):
                raise ValueError(f"BytePairTokenizer: merge {new - 256} is {brief(pair)}, "
                                 f"but must be a pair of tokens 0 .. {new - 1}.")
        self._token_of = {pair: new for new, pair in enumerate(self.merges, 256)}
        if len(self._token_of) < len(self.merges):
            raise ValueError("BytePairTokenizer: merges hold a pair twice; each makes one token.")
        super().__init__(special, 256 + len(self.merges))
        bytes_of = [bytes([byte]) for byte in range(256)]
        for left, right in self.merges:
            bytes_of.append(bytes_of[left] + bytes_of[right])
            if len(bytes_of[-1]) > LONGEST:           # merges of merges would double without end
                raise ValueError(f"BytePairTokenizer: merge {len(bytes_of) - 257} makes a token of "
                                 f"{len(bytes_of[-1])} bytes, but words have at most {LONGEST}.")
        self._bytes_of = [name.encode("utf-8", "surrogatepass") for name in self.special] + bytes_of
        self._encode_word = lru_cache(maxsize=2**16)(self._merged)    # most words come again

    @classmethod
    def of(cls, text, n_merges, special=()):
        """Learn merges from a text: repeatedly merge the most frequent pair of adjacent tokens.

        Of equally frequent pairs the one with the smallest ids is merged first. A pair that occurs
        once is not merged, so a short text may give fewer merges than requested.

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
        tokens = chain.from_iterable(map(self._encode_word, split_bytes(_as_bytes(text))))
        return np.fromiter(tokens, dtype=np.int64) + len(self.special)

    def _merged(self, word):
        """Apply the earliest merge that fits, until none does."""
        tokens, no_merge = list(word), len(self._bytes_of)
        while len(tokens) > 1:
            first = min(pairs(tokens), key=lambda pair: self._token_of.get(pair, no_merge))
            if first not in self._token_of:
                break
            tokens = merge(tokens, first, self._token_of[first])
        return tokens

    def decode_bytes(self, ids):
        """The bytes of an array of ids.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        return b"".join([self._bytes_of[i] for i in self._checked_ids(ids)])

    def decode(self, ids):
        """The text of an array of ids; restores any str that was encoded.

        Other ids, such as generated ones or a part of a text's, may be no UTF-8: U+FFFD replaces
        what is broken. `decode_bytes` loses nothing.

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

    def n_characters(self, ids):
        """How many characters of a text these ids are; one cut in two belongs to its first byte.

        So the tokens of a text have as many as the text, however its ids are split.

        Examples
        --------
        >>> tokenizer = BytePairTokenizer([])
        >>> ids = tokenizer.encode("für")                             # ü has two bytes
        >>> len(ids), tokenizer.n_characters(ids), tokenizer.n_characters(ids[2:])
        (4, 3, 1)
        """
        ordinary = [token for token in self._checked_ids(ids) if token >= len(self.special)]
        data = np.frombuffer(self.decode_bytes(ordinary), np.uint8)
        return int(((data & 0xc0) != 0x80).sum())                     # the rest: 10......

    def decode_stream(self, ids, after=()):
        """As `Tokenizer.decode_stream`; a character that is cut in two waits for its last byte.

        A lone surrogate, which is no UTF-8, becomes U+FFFD here.
        """
        decoder = getincrementaldecoder("utf-8")("replace")
        for token in ids:
            yield decoder.decode(self.decode_bytes([token]))
        yield decoder.decode(b"", final=True)

    def __reduce__(self):
        return type(self), (self.merges, self.special)                # not the cache of words

    def to_json(self):
        """A dict for `tokenizer_from_json`."""
        merges = [list(pair) for pair in self.merges]
        return {"kind": "byte_pairs", "special": list(self.special), "merges": merges}


def pairs(tokens):
    """All pairs of adjacent tokens: [1, 2, 3] gives (1, 2), (2, 3)."""
    return zip(tokens, tokens[1:])


def merge(tokens, pair, new):
    """Replace a pair by `new`, from left to right.

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
    """The merges of words, given how often each occurs in the text.

    Counts of pairs persist from merge to merge: only the words that hold the merged pair are
    counted again. The most frequent pair is on top of the heap. A pair whose count has changed gets
    a new entry, and its old one is skipped.
    """
    tokens, counts = [list(word) for word in words], list(words.values())
    total, where = Counter(), defaultdict(set)                        # of a pair: count, words
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
