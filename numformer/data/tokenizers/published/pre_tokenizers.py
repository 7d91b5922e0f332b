"""Pre-tokenizers: how published tokenizers split a text into words."""

import re
from itertools import groupby
from operator import itemgetter
from reprlib import repr as brief

from numformer.data.tokenizers.published.fields import (
    flattened, read_fields, read_pattern, type_of)
from numformer.data.tokenizers.regexes import characters_of
from numformer.data.tokenizers.splitting import (
    META, split_like, split_marks, split_meta, split_spaces)

BYTE_LEVEL = dict(add_prefix_space=[True, False], trim_offsets=[True, False],
                   use_regex=[True, False])
METASPACE = dict(replacement=[META], prepend_scheme=[None, "always", "first", "never"],
                  split=[True, False], add_prefix_space=[None, True, False], str_rep=[META])


def _byte_level(facts):
    space, _, split = read_fields("pre_tokenizer ByteLevel", facts, **BYTE_LEVEL)

    def words(text):
        text = " " + text if space and not text.startswith(" ") else text
        return split_like("gpt2", text) if split else [text]
    return words


def _split(facts):
    pattern, behavior, invert = read_fields(
        "pre_tokenizer Split", facts, pattern=[dict], behavior=["Isolated", "Removed", *_JOINED],
        invert=[False, True])
    search = read_pattern("the pre_tokenizer Split", pattern)

    def words(text):
        parts = search.split(text)                                    # every second is a match
        if behavior == "Isolated":
            return [part for part in parts if part]
        if behavior == "Removed":
            return [part for part in parts[invert::2] if part]
        parts = [(part, i % 2 != invert) for i, part in enumerate(parts) if part]
        return _JOINED[behavior](parts)
    return words


def _with_previous(parts):
    """Each match ends the word before it; another match right behind it is a word.

    Examples
    --------
    >>> _with_previous([("a", False), ("-", True), ("-", True), ("b", False)])
    ['a-', '-', 'b']
    """
    words, was_match = [], False
    for part, is_match in parts:
        if is_match and not was_match and words:
            words[-1] += part
        else:
            words.append(part)
        was_match = is_match
    return words


def _with_next(parts):
    words = _with_previous([(part[::-1], is_match) for part, is_match in parts[::-1]])
    return [word[::-1] for word in words[::-1]]


def _contiguous(parts):
    """Matches in a row are one word."""
    return ["".join([part for part, _ in group]) for _, group in groupby(parts, itemgetter(1))]


_JOINED = {"Contiguous": _contiguous, "MergedWithNext": _with_next,
           "MergedWithPrevious": _with_previous}


def _digits(facts):
    single, = read_fields("pre_tokenizer Digits", facts, individual_digits=[False, True])
    digits = characters_of("N")
    return re.compile(f"[{digits}]{'' if single else '+'}|[^{digits}]+").findall


def prepends(facts, where):
    """(whether Metaspace puts a ▁ before a text, whether it splits); "first" counts as always."""
    _, scheme, split, space, _ = read_fields(where, facts, **METASPACE)
    if space is False and scheme not in (None, "never"):
        raise ValueError(f"tokenizer.json: {where} has add_prefix_space=False, which contradicts "
                         f"prepend_scheme={scheme!r}.")
    return space is not False and scheme != "never", split


def _metaspace(facts):
    prepend, split = prepends(facts, "pre_tokenizer Metaspace")
    return lambda text: split_meta(text, prepend, split)


def _without_options(function):
    def read(facts):
        read_fields(f"pre_tokenizer {facts['type']}", facts)
        return function
    return read


_SPLITS = {"BertPreTokenizer": _without_options(split_marks), "ByteLevel": _byte_level,
           "Digits": _digits, "Metaspace": _metaspace, "Split": _split,
           "WhitespaceSplit": _without_options(split_spaces)}


def read_pre_tokenizer(facts, model, normalizes):
    """The pre-tokenizer of a tokenizer.json.

    ByteLevel, which turns words into bytes, is for byte pairs alone, and their last step. Metaspace
    with the scheme "first" puts a ▁ only before a section that begins the text; after an added
    token there is none.

    Parameters
    ----------
    facts : dict or None
    model : str
        The type of the model.
    normalizes : bool
        Whether there is a normalizer, of which "first" would depend.

    Returns
    -------
    at_start, inside : list
        Functions from a section of a text to its words, for a section that begins the text, and for
        others.
    byte_level, keeps_text : bool
        Whether words are bytes, and whether they join to the section.

    Raises
    ------
    ValueError
        If one of its steps, or an option of one, is not supported.
    """
    steps = flattened("pre_tokenizer", facts, "pretokenizers")
    kinds = [type_of("pre_tokenizer", step, _SPLITS) for step in steps]
    byte_level = kinds[-1:] == ["ByteLevel"]
    if byte_level and model != "BPE" or "ByteLevel" in kinds[:-1]:
        raise ValueError(f"tokenizer.json: the pre_tokenizer {brief(kinds)} does not fit the model "
                         f"{model}; ByteLevel is supported at the end, with BPE.")
    at_start = inside = [_SPLITS[kind](step) for kind, step in zip(kinds, steps)]
    schemes = [step.get("prepend_scheme") for step in steps]
    if "first" in schemes:
        if normalizes or schemes.index("first") or schemes.count("first") > 1:
            raise ValueError("tokenizer.json: the pre_tokenizer Metaspace has prepend_scheme="
                             "'first', which is not supported after a normalizer or another step.")
        inside = [_metaspace(steps[0] | dict(prepend_scheme="never")), *inside[1:]]
    keeps_text = all(kind == "Digits" or kind == "Split" and step.get("behavior") != "Removed"
                     or kind == "ByteLevel" and step.get("add_prefix_space") is False
                     for kind, step in zip(kinds, steps))
    return at_start, inside, byte_level, keeps_text
