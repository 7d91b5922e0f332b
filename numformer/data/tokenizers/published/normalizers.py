"""Normalizers: what published tokenizers change in a text before they split it."""

import unicodedata
from functools import partial

from numformer.data.tokenizers.bert_text import bert_normalize, lower
from numformer.data.tokenizers.normal_forms import CharacterTable, normalized
from numformer.data.tokenizers.published.charsmap import Charsmap
from numformer.data.tokenizers.published.fields import (
    flattened, read_fields, read_pattern, type_of)
from numformer.data.tokenizers.published.growth import check_growth, replaced
from numformer.data.tokenizers.regexes import white_space

_NO_MARKS = CharacterTable(lambda c: "" if unicodedata.category(c)[0] == "M" else c)


def _replace(facts):
    pattern, content = read_fields("normalizer Replace", facts, pattern=[dict], content=[str])
    search = read_pattern("normalizer Replace", pattern)
    return lambda text, most: replaced("normalizer Replace", search, content, text, most)


def _strip(facts):
    left, right = read_fields("normalizer Strip", facts, strip_left=[bool], strip_right=[bool])
    spaces = white_space()

    def strip(text):
        text = text.lstrip(spaces) if left else text
        return text.rstrip(spaces) if right else text
    return _bounded("Strip", strip)


def _bert(facts):
    options = read_fields("normalizer BertNormalizer", facts, clean_text=[bool],
                          handle_chinese_chars=[bool], strip_accents=[None, bool],
                          lowercase=[bool])
    return _bounded("BertNormalizer", lambda text: bert_normalize(text, *options))


def _prepend(facts):
    before, = read_fields("normalizer Prepend", facts, prepend=[str])

    def prepend(text, most):
        check_growth("normalizer Prepend", len(before) + len(text), most)
        return before + text if text else text
    return prepend


def _precompiled(facts):
    encoded, = read_fields("normalizer Precompiled", facts, precompiled_charsmap=[None, str])
    if encoded:
        return Charsmap.of_base64(encoded).normalize
    return _bounded("Precompiled", str)


def _without_options(function):
    def read(facts):
        read_fields(f"normalizer {facts['type']}", facts)
        return _bounded(facts["type"], function)
    return read


def _bounded(kind, function):
    """A step of a function that makes at most 18 characters of one."""
    def step(text, most):
        made = function(text)
        check_growth(f"normalizer {kind}", len(made), most)
        return made
    return step


_TYPES = {
    "BertNormalizer": _bert,
    "Lowercase": _without_options(lower),
    **{form: _without_options(partial(normalized, form))
       for form in ("NFC", "NFD", "NFKC", "NFKD")},
    "Precompiled": _precompiled,
    "Prepend": _prepend,
    "Replace": _replace,
    "Strip": _strip,
    "StripAccents": _without_options(lambda text: text.translate(_NO_MARKS)),
}


def read_normalizer(facts):
    """The normalizer of a tokenizer.json: a list of functions from a text and the most characters
    that it may become to a text.

    Raises
    ------
    ValueError
        If one of its steps, or an option of one, is not supported.
    """
    return [_TYPES[type_of("normalizer", step, _TYPES)](step)
            for step in flattened("normalizer", facts, "normalizers")]
