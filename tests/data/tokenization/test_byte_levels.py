"""Byte pairs as published: GPT-2's splitting and order of ids, merges in a heap."""

import json
import pickle
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odd_texts import characters
from numformer.data import BytePairTokenizer, load_corpus, tokenizer_from_json
from numformer.data.tokenizers.byte_merges import (
    BYTE_OF, CHARACTER_OF, GPT2_ORDER, apply_merges, written)
from numformer.data.tokenizers.regexes import characters_of
from numformer.data.tokenizers.splitting import SPLITS, split_like

TEXT = load_corpus().text[:5000]
TRAINED = {split: BytePairTokenizer.of(TEXT, 100, ("<end>", "<x>"), split=split, order="gpt2")
           for split in SPLITS}


@given(st.sampled_from(SPLITS), st.text(st.characters()))
def test_words_join_to_the_text_and_texts_come_back(split, text):
    assert "".join(split_like(split, text)) == text
    assert TRAINED[split].decode(TRAINED[split].encode(text)) == text


@given(st.sampled_from(SPLITS), st.binary())
def test_bytes_come_back(split, data):
    assert TRAINED[split].decode_bytes(TRAINED[split].encode(data)) == data


def test_classes_are_those_of_unicode():
    for c in characters():
        kind = unicodedata.category(c)[0]
        one = [len(split_like("gpt2", first + c)) == 1 for first in "a1+"]
        assert one == ([True, False, False] if kind == "L" else [False, True, False] if kind == "N"
                       else [False, False, not c.isspace() or c in "\x1c\x1d\x1e\x1f"]), ascii(c)
    assert characters_of("Zl") == "\u2028-\u2028"


def test_words_of_each_pattern():
    text = "We'LL we'll 'tis\t2024x  \n\n (x)\r\n---\n  é\u0301"
    assert split_like("gpt2", text) == [
        "We", "'", "LL", " we", "'ll", " '", "tis", "\t", "2024", "x", "  \n\n", " (", "x", ")",
        "\r", "\n", "---", "\n ", " é", "\u0301"]
    assert split_like("llama3", text) == [
        "We", "'LL", " we", "'ll", " '", "tis", "\t", "202", "4", "x", "  \n\n", " (", "x", ")\r\n",
        "---\n", " ", " é", "\u0301"]
    assert split_like("qwen2", "2024") == list("2024") and split_like("llama3", " 'tis") == [
        " '", "tis"]


def test_ids_in_the_order_of_gpt2():
    own = BytePairTokenizer.of("abab abab", 2, ("<end>",), split="gpt2", order="gpt2")
    assert GPT2_ORDER[:3] == tuple(b'!"#') and GPT2_ORDER[188:191] == (0, 1, 2)
    assert GPT2_ORDER[-1] == 0xad and sorted(GPT2_ORDER) == list(range(256))
    assert own.encode(b"! \x00\xadab").tolist() == [0, 220, 188, 255, 256]
    assert own.special_id("<end>") == 258 and own.decode([258, 257, 0]) == "<end>abab!"
    assert own.n_characters([258, 257, 0]) == 5
    plain = BytePairTokenizer.of("abab abab", 2, ("<end>",), split="gpt2")
    assert plain.encode("! abab").tolist() == [34, 33, 258] and plain.special_id("<end>") == 0


def test_bytes_are_written_as_visible_characters():
    assert [CHARACTER_OF[byte] for byte in b" \n\t\0\x7f\xad"] == list("ĠĊĉĀġŃ")
    assert len(BYTE_OF) == 256 and all(BYTE_OF[CHARACTER_OF[byte]] == byte for byte in range(256))
    assert written("é!".encode()) == "Ã©!"


def plainly_merged(tokens, rules):
    """One merge at a time: the smallest rank, then the leftmost."""
    tokens = list(tokens)
    while True:
        fitting = [(*rules[pair], i) for i, pair in enumerate(zip(tokens, tokens[1:]))
                   if pair in rules]
        if not fitting:
            return tokens
        _, new, i = min(fitting, key=lambda rule: (rule[0], rule[2]))
        tokens[i:i + 2] = [new]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True, max_size=8),
       st.lists(st.integers(0, 2), max_size=40))
def test_the_heap_merges_in_the_order_of_ranks(found, tokens):
    rules = {pair: (rank, 3 + rank) for rank, pair in enumerate(found)}
    assert apply_merges(tokens, rules) == plainly_merged(tokens, rules)


@pytest.mark.slow
def test_a_word_without_end_takes_no_time_without_end():
    ids = TRAINED["gpt2"].encode("the" * 100_000)
    assert TRAINED["gpt2"].decode(ids) == "the" * 100_000


def test_no_two_tokens_spell_the_same_bytes():
    """(ab, c) and (a, bc) would: the second is left alone where files hold tokens as text."""
    text = "abc " * 9 + "ab " * 99 + "xbc " * 50 + "abc" * 9
    for split in SPLITS:
        tokens = BytePairTokenizer.of(text, 30, split=split)
        spelled = [tokens.decode_bytes([i]) for i in range(len(tokens))]
        assert len(set(spelled)) == len(spelled)


@pytest.mark.parametrize("split", SPLITS)
def test_json_and_pickle_keep_the_options(split):
    own = TRAINED[split]
    assert own.to_json()["split"] == split and own.to_json()["order"] == "gpt2"
    for again in (tokenizer_from_json(json.loads(json.dumps(own.to_json()))),
                  pickle.loads(pickle.dumps(own))):
        assert again.to_json() == own.to_json() and again.special_id("<x>") == len(own) - 1
        assert np.array_equal(again.encode(TEXT), own.encode(TEXT))
    assert set(BytePairTokenizer([]).to_json()) == {"kind", "special", "merges"}


def test_bad_options_are_refused():
    for options in (dict(split="gpt3"), dict(order="random"), dict(split=None), dict(order=[])):
        name, = options
        for make in (lambda: BytePairTokenizer([], **options),
                     lambda: BytePairTokenizer.of("ab", 1, **options)):
            with pytest.raises(ValueError, match=f"BytePairTokenizer: {name}=.* is unknown"):
                make()
    merges = [[97, 97], *([256 + k, 256 + k] for k in range(60))]
    with pytest.raises(ValueError, match="makes a token of 8192 bytes, but words have at most"):
        BytePairTokenizer(merges, split="gpt2")
    with pytest.raises(ValueError, match=r"has no \['colour'\]; it has 'merges', 'special'"):
        tokenizer_from_json({"kind": "byte_pairs", "merges": [], "colour": 1})
