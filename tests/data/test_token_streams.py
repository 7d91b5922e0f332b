"""Tokens one at a time, the characters that they are, and short messages about large vocabularies.
"""

import numpy as np
import pytest

from numformer.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer, tokenizer_from_json

TEXT = "To be, or not to be:\nthat is the föx 狗 🐶, the question"
SPECIAL = ("[PAD]", "[UNK]")
TOKENIZERS = [make(TEXT, special=special) for special in ((), SPECIAL) for make in (
    CharacterTokenizer.of, WordTokenizer.of,
    lambda text, special: BytePairTokenizer.of(text, 8, special))]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=repr)
def test_a_stream_of_tokens_joined_is_what_decode_makes_of_them(tokenizer, rng):
    ids = tokenizer.encode(TEXT)
    assert "".join(tokenizer.decode_stream(iter(ids.tolist()))) == TEXT
    for cut in rng.integers(1, len(ids), 8):
        rest = "".join(tokenizer.decode_stream(ids[cut:].tolist(), after=ids[:cut]))
        if not tokenizer.decode(ids[:cut]).endswith("\ufffd"):        # cut within a character
            assert tokenizer.decode(ids[:cut]) + rest == TEXT
    some = rng.integers(0, len(tokenizer), 200)
    assert "".join(tokenizer.decode_stream(some.tolist())) == tokenizer.decode(some)
    assert "".join(tokenizer.decode_stream([])) == ""


def test_a_cut_character_waits_for_its_last_byte():
    tokenizer = BytePairTokenizer([])
    assert list(tokenizer.decode_stream("狗".encode())) == ["", "", "狗", ""]
    assert list(tokenizer.decode_stream("狗a".encode()[1:])) == ["\ufffd", "\ufffd", "a", ""]
    assert list(tokenizer.decode_stream("狗".encode()[:2])) == ["", "", "\ufffd"]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=repr)
def test_tokens_of_a_text_are_its_characters_however_it_is_split(tokenizer, rng):
    ids = tokenizer.encode(TEXT)
    if isinstance(tokenizer, WordTokenizer):
        assert tokenizer.n_characters(ids) is None
        return
    assert tokenizer.n_characters(ids) == len(TEXT) and tokenizer.n_characters([]) == 0
    for cut in range(len(ids)):
        assert tokenizer.n_characters(ids[:cut]) + tokenizer.n_characters(ids[cut:]) == len(TEXT)
    special = np.arange(len(tokenizer.special))
    assert tokenizer.n_characters(np.concatenate([special, ids])) == len(TEXT)
    with pytest.raises(ValueError, match="ids"):
        tokenizer.n_characters([len(tokenizer)])


def test_characters_outside_of_unicode_are_one_each():
    tokenizer = BytePairTokenizer([])
    assert tokenizer.n_characters(tokenizer.encode("a\udcff\ud800b")) == 4


MERGES = [[k % 256, (k * 7) % 256] for k in range(4000)]
CHARACTERS = "".join(map(chr, range(1000, 9000)))


@pytest.mark.parametrize("facts", [
    {"kind": "byte_pair", "merges": MERGES}, {"kind": CHARACTERS}, [CHARACTERS], MERGES,
    {"kind": "words", "merges": MERGES}, {"kind": "words", CHARACTERS: 1, "words": ["a"]},
    {"kind": "byte_pairs", "merges": CHARACTERS}, {"kind": "characters", "characters": MERGES},
    {"kind": "characters", "characters": CHARACTERS + CHARACTERS},
    {"kind": "characters", "characters": "a", "special": CHARACTERS},
    {"kind": "words", "words": ["a b" * 3000]},
    {"kind": "byte_pairs", "merges": [MERGES]}, {"kind": "byte_pairs", "merges": [CHARACTERS]}])
def test_a_message_about_a_large_vocabulary_is_one_short_line(facts):
    with pytest.raises(ValueError) as caught:
        tokenizer_from_json(facts)
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)
