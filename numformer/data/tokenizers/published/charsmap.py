"""SentencePiece's map of characters, which T5 and ALBERT carry in their files.

It maps short strings to others, most of them as NFKC does. The strings are the keys of a trie over
their UTF-8 bytes, stored as a double array: the child of node s by byte b is node offset(s) XOR b,
if the entry there has the label b (Aoe, 1989; the 32 bits of an entry are those of Darts-clone).
"""

import re
from base64 import b64decode
from functools import lru_cache
from math import inf

import numpy as np

from numformer.data.tokenizers.published.growth import check_growth
from numformer.data.tokenizers.regexes import characters_of

# What Unicode's annex 29 joins to the character before it, as far as general categories tell, and
# the exceptions in both directions
_SPACING = "\u102b\u102c\u1038\u1062-\u1064\u1067-\u106d\u1083\u1087-\u108c\u108f\u109a-\u109c" \
           "\u1a61\u1a63\u1a64\uaa7b\uaa7d\U00011720\U00011721"
_JOINING = "\u0e33\u0eb3\u200c\u200d\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
_PREPENDED = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd" \
             "\U000111c2\U000111c3\U0001193f\U00011941\U00011a3a\U00011a84-\U00011a89\U00011d46"
_LEADING, _VOWELS, _TRAILING = "\u1100-\u115f\ua960-\ua97c", "\u1160-\u11a7\ud7b0-\ud7c6", \
                               "\u11a8-\u11ff\ud7cb-\ud7fb"           # Hangul's
_OPEN = "".join(map(chr, range(0xac00, 0xd7a4, 28)))                  # syllables without the last


@lru_cache
def _graphemes():
    """Graphemes (annex 29, extended) as far as they matter to strings of at most 5 bytes."""
    joining = f"(?:(?![{_SPACING}])[{characters_of('M')}{_JOINING}])"
    control = f"(?:(?![{_PREPENDED}]|{joining})[{characters_of('Cc', 'Cf', 'Zl', 'Zp')}])"
    hangul = (f"[{_LEADING}]*(?:[{_OPEN}]?[{_VOWELS}]+|[\uac00-\ud7a3])[{_TRAILING}]*"
              f"|[{_LEADING}]+|[{_TRAILING}]+")
    return re.compile(f"\r\n|{control}|[{_PREPENDED}]*(?:{hangul}|(?!{control}).){joining}*"
                      f"|[{_PREPENDED}]+", re.DOTALL)


class Charsmap:
    """A map of strings of characters, read from the bytes of a file.

    `normalize` cuts a text into graphemes (a character and the marks that join it). One of at most
    five bytes that begins with a key becomes the value of its shortest such key, whole; in all
    others each character does that on its own. What has no key stays.

    Parameters
    ----------
    data : bytes
        The size of the array in bytes (4 bytes, little-endian), the array, and the values, each
        ended by a byte 0. A leaf of the trie holds the position of its value.

    Raises
    ------
    ValueError
        If the sizes do not fit, or the trie leads out of its array.

    References
    ----------
    Kudo, Richardson (2018), "SentencePiece", section 3.3.
    """

    def __init__(self, data):
        size = int.from_bytes(data[:4], "little")
        if len(data) < 4 or size % 4 or not 4 <= size <= len(data) - 4:
            raise ValueError("tokenizer.json: precompiled_charsmap is broken: its trie is said to "
                             f"have {size} bytes, of {len(data)}.")
        self._array = np.frombuffer(data[4:4 + size], "<u4").tolist()
        self._values = data[4 + size:]
        self._changed = lru_cache(maxsize=2**16)(self._change)
        if any(self._value(sign) is not None for sign in "©®"):
            raise ValueError("tokenizer.json: precompiled_charsmap maps '©' or '®', which is not "
                             "supported: their graphemes with emoji are not known here.")

    @classmethod
    def of_base64(cls, text):
        """The map that a tokenizer.json holds."""
        try:
            data = b64decode(text, validate=True)
        except ValueError:
            raise ValueError("tokenizer.json: precompiled_charsmap is no base64.") from None
        return cls(data)

    def normalize(self, text, most=inf):
        """The text with its graphemes replaced; ValueError if it gets longer than `most`."""
        parts = list(map(self._changed, _graphemes().findall(text)))
        check_growth("precompiled_charsmap", sum(map(len, parts)), most)
        return "".join(parts)

    def _change(self, grapheme):
        if len(grapheme.encode("utf-8", "surrogatepass")) < 6:
            whole = self._value(grapheme)
            if whole is not None:
                return whole
        values = [(self._value(character), character) for character in grapheme]
        return "".join([character if value is None else value for value, character in values])

    def _value(self, text):
        """The value of the shortest key that a text begins with, or None."""
        node = _offset(self._entry(0))
        for byte in text.encode("utf-8", "surrogatepass"):
            node ^= byte
            entry = self._entry(node)
            if byte == 0 or entry & 0x800000ff != byte:               # another label
                return None
            node ^= _offset(entry)
            if entry & 0x100:                                         # a key ends here
                start = self._entry(node) & 0x7fffffff
                end = self._values.find(b"\0", start)
                value = self._values[start:end if end >= 0 else None]
                return value.decode("utf-8", "replace")
        return None

    def _entry(self, node):
        if node >= len(self._array):
            raise ValueError("tokenizer.json: precompiled_charsmap is broken: its trie leads out "
                             f"of its {len(self._array)} entries.")
        return self._array[node]


def _offset(entry):
    return entry >> 10 << ((entry & 0x200) >> 6)
