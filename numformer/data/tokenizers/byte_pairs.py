"""Byte-pair encoding: tokens are bytes and learned merges of tokens, so no text is unknown."""

import re
from codecs import getincrementaldecoder
from collections import Counter
from functools import lru_cache
from itertools import chain
from reprlib import repr as brief

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.data.tokenizers.base import Tokenizer, check_text
from numformer.data.tokenizers.byte_merges import GPT2_ORDER, apply_merges, learn_merges
from numformer.data.tokenizers.splitting import SPLITS, split_like

_WORD = re.compile(rb" ?[A-Za-z\x80-\xff]{1,63}"                      # letters, and all of UTF-8
                   rb"| ?[0-9]{1,63}"
                   rb"| ?[^A-Za-z0-9\x80-\xff\s]{1,63}"               # marks
                   rb"|\s{1,64}(?= [^\s])|\s{1,64}")                  # white space, see below
LONGEST = {"ascii": 64} | dict.fromkeys(SPLITS, 4096)                # bytes of a token


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

    Any text has ids that decode to it, bytes that are no UTF-8 too. A word is encoded by applying
    the merges to its bytes, in the order in which they were learned.

    Parameters
    ----------
    merges : sequence of pairs of int
        Merge k makes token 256 + k from two earlier ones; the first 256 are the bytes. Special
        tokens do not count here.
    special : tuple of str
        Names of special tokens: their ids come first and shift all others.
    split : {"ascii", "gpt2", "llama3", "qwen2"}
        How texts are split into words: by `split_bytes`, or as a published tokenizer, by
        `split_like`.
    order : {"bytes", "gpt2"}
        The order of ids. "bytes": special tokens, bytes by their values, merges. "gpt2": as GPT-2
        has it, bytes that are visible characters, the other bytes, merges, special tokens.

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

    def __init__(self, merges, special=(), split="ascii", order="bytes"):
        check_choice("BytePairTokenizer", "split", split, tuple(LONGEST))
        check_choice("BytePairTokenizer", "order", order, ("bytes", "gpt2"))
        if not isinstance(merges, (tuple, list)):
            raise ValueError(f"BytePairTokenizer: merges={brief(merges)} must be a list of pairs.")
        self.merges = tuple(tuple(pair) if isinstance(pair, (tuple, list)) else pair
                            for pair in merges)
        for new, pair in enumerate(self.merges, 256):
            if (not isinstance(pair, tuple) or len(pair) != 2
                    or any(type(part) is not int or not 0 <= part < new for part in pair)):
                raise ValueError(f"BytePairTokenizer: merge {new - 256} is {brief(pair)}, "
                                 f"but must be a pair of tokens 0 .. {new - 1}.")
        rules = {pair: (new, new) for new, pair in enumerate(self.merges, 256)}
        if len(rules) < len(self.merges):
            raise ValueError("BytePairTokenizer: merges hold a pair twice; each makes one token.")
        super().__init__(special, 256 + len(self.merges), special_last=order == "gpt2")
        self.split, self.order = split, order
        bytes_of = [bytes([byte]) for byte in range(256)]
        for left, right in self.merges:
            bytes_of.append(bytes_of[left] + bytes_of[right])
            if len(bytes_of[-1]) > LONGEST[split]:    # merges of merges would double without end
                raise ValueError(f"BytePairTokenizer: merge {len(bytes_of) - 257} makes a token of "
                                 f"{len(bytes_of[-1])} bytes, but words have at most "
                                 f"{LONGEST[split]}.")
        # Tokens are numbered as in merges: token k has the id self._id_of[k]
        tokens = [*(range(256) if order == "bytes" else GPT2_ORDER), *range(256, len(bytes_of))]
        names = [name.encode("utf-8", "surrogatepass") for name in self.special]
        ordinary = [bytes_of[token] for token in tokens]
        self._bytes_of = ordinary + names if order == "gpt2" else names + ordinary
        self._id_of = np.argsort(tokens) + (0 if order == "gpt2" else len(names))
        # Most words come again
        self._encode_word = lru_cache(maxsize=2**16)(lambda word: apply_merges(word, rules))

    @classmethod
    def of(cls, text, n_merges, special=(), split="ascii", order="bytes"):
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
        check_choice("BytePairTokenizer", "split", split, tuple(LONGEST))
        words = Counter(_words(text, split))
        if not words:
            raise ValueError("BytePairTokenizer: the text is empty; give one to learn merges from.")
        merges = learn_merges(words, n_merges, distinct=split != "ascii")
        return cls(merges, special, split, order)

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
        tokens = chain.from_iterable(map(self._encode_word, _words(text, self.split)))
        return self._id_of[np.fromiter(tokens, dtype=np.int64)]

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
        ordinary = [token for token in self._checked_ids(ids) if token not in self._special_ids]
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
        return type(self), (self.merges, self.special, self.split, self.order)

    def to_json(self):
        """A dict for `tokenizer_from_json`."""
        merges = [list(pair) for pair in self.merges]
        options = {"split": self.split} if self.split != "ascii" else {}
        options |= {"order": self.order} if self.order != "bytes" else {}
        return {"kind": "byte_pairs", "special": list(self.special), "merges": merges, **options}


def _words(text, split):
    check_text("BytePairTokenizer", text, (str, bytes))
    is_text = isinstance(text, str)
    errors = "surrogatepass" if is_text else "surrogateescape"        # bytes that are no UTF-8
    if split == "ascii":
        return split_bytes(text.encode("utf-8", errors) if is_text else text)
    text = text if is_text else text.decode("utf-8", errors)
    return [word.encode("utf-8", errors) for word in split_like(split, text)]
