"""Texts that tokenizers get wrong: all planes, marks, emoji sequences, controls, long runs."""

import random
import unicodedata
from functools import lru_cache
from pydoc_data import topics

ODD = [
    "\0", "\x01", "\x1c", "\x1f", "\x7f", "\x85", "\xa0", "\xad", "\r\n", "\r", "\n", "\n\n",
    "\t", "\v", "\f", " ", "  ", "   ", "\u1680", "\u180e", "\u200b", "\u200c", "\u200d",
    "\u200e", "\u202e", "\u2028", "\u2029", "\u202f", "\u2060", "\u3000", "\ufeff", "\ufffd",
    "\ufffe", "\uffff", "\U0010ffff", "\U000f0000", "'s", "'S", "'\u017f", "'ll", "'LL",
    "\u2019s", "'", "a", "Z", "the", "İ", "ı", "ß", "Σ", "ΌΔΟΣ", "ς", "ﬁ", "ﬃ", "e\u0301", "é",
    "\u0301", "\u0308", "\u20dd", "a\u0300\u0301\u0302", "\u0915\u094d\u0937", "\u0e33",
    "\u0e01\u0e33", "ᄒ", "ᅡ", "ᆫ", "한", "글", "漢", "字", "\u3400", "\U00020000", "\U0002b820",
    "かな", "ｶﾞ", "Ａ", "１", "0", "42", "3.14", "1234567", "٣", "Ⅷ", "½", "②", "一", "שלום",
    "\u05e9\u05bc", "مرحبا", "\u0640", "👩\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "👍🏽", "🇩🇪", "🇩",
    "❤\ufe0f", "©", "®", "©\u200d®", "_", "__init__", "$", "+", "^", "`", "``", "''", "~", "!",
    "?!", "...", "…", "—", "<", ">", "##", "##a", "▁", "▁▁a", "Ġ", "[UNK]", "[MASK]", "<s>",
    "</s>", "<unk>", "<|end|>", "\u0600", "\u06dd", "\ue000", "ǅ", "ª", "ʰ"]


def prose():
    """One megabyte of English and Python."""
    return "\n\n".join(topics.topics.values()) * 2


@lru_cache
def characters(old=False):
    """All characters that this Python knows; `old`: that were the same in Unicode 3.2, too.

    Of the many ideographs, syllables and private ones it is every 23rd.
    """
    ucd = unicodedata.ucd_3_2_0
    return [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs")
            and (unicodedata.category(c) not in ("Co", "Lo") or ord(c) % 23 == 0)
            and (not old or ucd.category(c) == unicodedata.category(c)
                 and ucd.decomposition(c) == unicodedata.decomposition(c))]


def texts(old=False):
    """Hostile texts, each of them a case."""
    known, mix = characters(old), random.Random(5)
    odd = [part for part in ODD if set(part) <= {*known}] if old else ODD
    yield ""
    yield from odd
    yield " ".join(known)
    yield "".join(known)
    for between in ("a", "\u0301", " e\u0301", "1'"):
        yield between.join(mix.sample(known, 5_000))
    for n in (2, 3, 5, 50, 1000):
        for _ in range(100 if n < 50 else 5):
            yield "".join(mix.choices(odd, k=n))
    for part in ("a", " ", "\n", "7", "!", "é", "e\u0301", "漢", "👩\u200d", "ab", "\0", "\r\n "):
        yield part * 4_000
        yield "x " + part * 101 + " y"
    yield "".join(mix.choices("abcdefgh", k=30_000))
