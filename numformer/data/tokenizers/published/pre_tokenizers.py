"""Pre-tokenizers: how published tokenizers split a text into words."""

import re
from functools import partial
from reprlib import repr as brief

from numformer.data.tokenizers.published.fields import flattened, read_fields, type_of
from numformer.data.tokenizers.splitting import (
    META, REGEX_OF, characters_of, split_like, split_marks, split_meta, split_spaces)

BYTE_LEVEL = dict(add_prefix_space=[True, False], trim_offsets=[True, False],
                   use_regex=[True, False])
METASPACE = dict(replacement=[META], prepend_scheme=[None, "always", "never"],
                  split=[True, False], add_prefix_space=[None, True, False], str_rep=[META])


def _byte_level(facts):
    space, _, split = read_fields("pre_tokenizer ByteLevel", facts, **BYTE_LEVEL)

    def words(text):
        text = " " + text if space and not text.startswith(" ") else text
        return split_like("gpt2", text) if split else [text]
    return words


def _split(facts):
    names = {regex: name for name, regex in REGEX_OF.items()}
    pattern, _, _ = read_fields("pre_tokenizer Split", facts, pattern=[dict],
                                behavior=["Isolated"], invert=[False])
    regex, = read_fields("pattern of the pre_tokenizer Split", pattern, Regex=[str])
    if regex not in names:
        raise ValueError("tokenizer.json: the pattern of the pre_tokenizer Split is not supported; "
                         "supported are those of GPT-2, Llama 3 and Qwen 2.")
    return partial(split_like, names[regex])


def _digits(facts):
    single, = read_fields("pre_tokenizer Digits", facts, individual_digits=[False, True])
    digits = characters_of("N")
    return re.compile(f"[{digits}]{'' if single else '+'}|[^{digits}]+").findall


def prepends(facts, where):
    """(whether Metaspace puts a ▁ before a text, whether it splits)."""
    _, scheme, split, space, _ = read_fields(where, facts, **METASPACE)
    return (space is not False if scheme is None else scheme == "always" and space is not False,
            split)


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


def read_pre_tokenizer(facts, model):
    """The pre-tokenizer of a tokenizer.json: a list of functions from a text to its words.

    Byte pairs need a last step ByteLevel, which turns words into bytes; no other model may have it.

    Raises
    ------
    ValueError
        If one of its steps, or an option of one, is not supported.
    """
    steps = flattened("pre_tokenizer", facts, "pretokenizers")
    kinds = [type_of("pre_tokenizer", step, _SPLITS) for step in steps]
    if (model == "BPE") != (kinds[-1:] == ["ByteLevel"]) or "ByteLevel" in kinds[:-1]:
        raise ValueError(f"tokenizer.json: the pre_tokenizer {brief(kinds)} does not fit the model "
                         f"{model}; supported are BPE with ByteLevel at the end, and others "
                         "without it.")
    return [_SPLITS[kind](step) for kind, step in zip(kinds, steps)]
