"""SentencePiece's map of characters: the double array read, graphemes cut, broken maps refused."""

import base64
import random
import struct
import unicodedata

import pytest

from odd_texts import ODD, characters
from numformer.data.tokenizers.published.charsmap import Charsmap


def charsmap(pairs):
    """The bytes of a map of strings: a trie as a double array, written for tests."""
    trie, values = {}, b""
    for key, value in pairs.items():
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = len(values)
        values += value.encode() + b"\0"
    units, used = {0: 0}, {0}
    waiting = [(trie, 0)]
    while waiting:
        node, at = waiting.pop()
        labels = [0 if byte is None else byte for byte in node]
        # as Darts-clone: far offsets are multiples of 256
        offset = next(o for o in range(1, 2**21) if all((at ^ o ^ b) not in used for b in labels)
                      and (o < 2**21))
        units[at] |= offset << 10
        for byte, child in node.items():
            place = at ^ offset ^ (byte or 0)
            used.add(place)
            if byte is None:
                units[at] |= 0x100
                units[place] = 1 << 31 | child
            else:
                units[place] = byte
                waiting.append((child, place))
    size = max(units) + 256
    array = struct.pack(f"<{size}I", *(units.get(i, 0x7f) for i in range(size)))
    return struct.pack("<I", len(array)) + array + values


NFKC = {c: unicodedata.normalize("NFKC", c) for c in characters(old=True)
        if unicodedata.normalize("NFKC", c) != c and ord(c) not in (0xa9, 0xae)}
PAIRS = (dict(random.Random(3).sample(sorted(NFKC.items()), 600))
         | {"e\u0301": "é", "a": "b", "xy": "z", "x": "", "\t": " ", "\u3000": " ", "Ａ": "A",
            "ﬁ": "fi", "\u0e33": "\u0e4d\u0e32", "1": "one", "\u200b": "", "\u094d": "!"})
MAP = charsmap(PAIRS)


def test_the_shortest_key_replaces_a_short_grapheme():
    normalize = Charsmap(MAP).normalize
    assert normalize("Ａ\tﬁ e\u0301 e\u0302 \u3000") == "A fi é e\u0302  "
    assert normalize("a\u0301a") == "bb", "the mark goes with its letter"
    assert normalize("a\u0301\u0301\u0301a") == "b\u0301\u0301\u0301b", "more than five bytes"
    assert normalize("xy") == "y", "two graphemes"
    assert normalize("") == "" and normalize("\0\ud800") == "\0\ud800"
    assert normalize("ﬁ" * 50_000) == "fi" * 50_000


@pytest.mark.parametrize("data, words", [
    (b"", "is broken"), (b"\4", "is broken"), (struct.pack("<II", 8, 0), "is broken"),
    (struct.pack("<II", 3, 0), "is broken"), (charsmap({"©": "c"}), "maps '©'"),
    (charsmap({"®": "r"}), "maps '©' or '®'"),
    (struct.pack("<II", 4, 7 << 10), "leads out of its 1 entries")])
def test_broken_maps_are_refused(data, words):
    with pytest.raises(ValueError, match=words):
        Charsmap(data).normalize("abc")
    with pytest.raises(ValueError, match=words):
        Charsmap.of_base64(base64.b64encode(data).decode()).normalize("abc")


def test_what_is_no_base64_is_refused():
    for text in ("!", "é", "a"):
        with pytest.raises(ValueError, match="no base64"):
            Charsmap.of_base64(text)


def test_the_witness_maps_hostile_texts_alike():
    normalizers = pytest.importorskip("tokenizers").normalizers
    theirs, ours = normalizers.Precompiled(MAP), Charsmap(MAP)
    mix = random.Random(4)
    known = characters(old=True)
    marks = [c for c in known if unicodedata.category(c)[0] == "M"]
    for c in known:
        for text in ("a" + c, c + "a", "e\u0301" + c, c + "\u0301", "1" + c + "1"):
            assert ours.normalize(text) == theirs.normalize_str(text), ascii(text)
    for _ in range(3000):
        text = "".join(mix.choices([*ODD, *PAIRS, *marks], k=mix.choice([2, 3, 4, 9])))
        assert ours.normalize(text) == theirs.normalize_str(text), ascii(text)
