"""Tokenizers: special tokens, words, byte pairs. Characters are in test_text.py."""

import json
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer.data import load_corpus
from numformer.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer, tokenizer_from_json
from numformer.data.tokenizers.byte_merges import merge
from numformer.data.tokenizers.byte_pairs import split_bytes
from numformer.data.tokenizers.words import join_words, split_words

TEXT = 2 * ("the cat sat on the mat; the dog, the other cat's dog, sat on the cat.\n\n"
            "No dog sat on 3 mats, or 33.\n")
SPECIAL = ("[PAD]", "[CLS]", "[UNK]")
ANY_TEXT = st.text(st.characters())                                   # lone surrogates too
TRAINED = BytePairTokenizer.of(TEXT, 60, SPECIAL)


def all_kinds(special=SPECIAL):
    return [CharacterTokenizer.of(TEXT, special), WordTokenizer.of(TEXT, special=special),
            BytePairTokenizer.of(TEXT, 20, special)]


# ---- special tokens and JSON ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", range(3))
def test_special_tokens_have_the_first_ids(kind):
    tokenizer, plain = all_kinds()[kind], all_kinds(())[kind]
    assert [tokenizer.special_id(name) for name in SPECIAL] == [0, 1, 2]
    assert tokenizer.special == SPECIAL
    assert len(tokenizer) == len(plain) + 3 and plain.special == ()
    assert tokenizer.encode(TEXT).tolist() == (plain.encode(TEXT) + 3).tolist()
    assert tokenizer.encode(TEXT).dtype == np.int64
    assert plain.encode(TEXT).min() >= 0 and plain.encode(TEXT).max() < len(plain)
    assert tokenizer.decode([1, *tokenizer.encode("cat")]).replace(" ", "") == "[CLS]cat"
    assert "[CLS]" in repr(tokenizer) and f"{len(tokenizer)} ids" in repr(tokenizer)


def test_text_is_never_encoded_as_a_special_token():
    assert TRAINED.encode("[CLS] cat").min() >= 3
    assert TRAINED.decode(TRAINED.encode("[CLS] cat")) == "[CLS] cat"
    words = WordTokenizer(["[", "]", "PAD", "CLS"], special=("PAD", "[UNK]"))
    assert words.encode("[PAD]").tolist() == [2, 4, 3] and words.encode("UNK").tolist() == [1]
    assert (WordTokenizer(["a", "!"], special=("<>", "/")).decode([0, 2, 2, 0, 0, 1, 3, 2])
            == "<> a a <> <>/!a")


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize("special", [SPECIAL, ()])
def test_json_round_trips(kind, special):
    tokenizer = all_kinds(special)[kind]
    again = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert type(again) is type(tokenizer) and again.special == special
    assert len(again) == len(tokenizer)
    assert again.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()
    assert again.decode(range(len(again))) == tokenizer.decode(range(len(again)))
    assert again.to_json() == tokenizer.to_json()


def test_older_runs_have_no_special_tokens():
    assert tokenizer_from_json({"kind": "characters",
                                "characters": "ab"}).encode("b").tolist() == [1]


@pytest.mark.parametrize("facts, words", [
    ({"kind": "words"}, "'words' needs 'words'"),
    ({"kind": "byte_pairs", "words": []}, "needs 'merges'"),
    ({"kind": ["words"]}, "no tokenizer"),
    ({"kind": "words", "words": "cat"}, "words must be a list"),
    ({"kind": "byte_pairs", "merges": [[300, 1]]}, "merge 0"),
    ({"kind": "byte_pairs", "merges": 7}, "merges=7"),
    ({"kind": "words", "words": ["cat"], "special": "[UNK]"}, "special="),
    ({"kind": "words", "words": ["cat"], "colour": 1}, "has no ['colour']"),
    ({"kind": "byte_pairs", "merges": [[97, 97], *([256 + k, 256 + k] for k in range(60))]},
     "merge 6 makes a token of 128 bytes, but words have at most 64")])
def test_json_that_is_no_tokenizer_is_refused(facts, words):
    with pytest.raises(ValueError) as caught:
        tokenizer_from_json(facts)
    assert words in str(caught.value)


@pytest.mark.parametrize("special", ["[PAD]", None, ("",), ("[PAD]", "[PAD]"), (1,)])
def test_bad_special_tokens_are_refused(special):
    for make in (lambda: CharacterTokenizer("ab", special), lambda: WordTokenizer(["a"], special),
                 lambda: BytePairTokenizer([], special)):
        with pytest.raises(ValueError, match="special=.* must be a tuple of names, each once"):
            make()


@pytest.mark.parametrize("kind", range(3))
def test_bad_input_is_refused(kind):
    tokenizer = all_kinds()[kind]
    owner = type(tokenizer).__name__
    with pytest.raises(ValueError,
                       match=rf"{owner}: name='\[SEP\]' is unknown; choose from '\[PAD\]'"):
        tokenizer.special_id("[SEP]")
    for ids, error in (([0, len(tokenizer)], ValueError), ([-1], ValueError), ([0.0], TypeError),
                       ([[0, 1]], ValueError), (0, ValueError)):
        with pytest.raises(error, match=f"{owner}: ids"):
            tokenizer.decode(ids)
    for text in (None, 3, ["a"], b"a" if kind < 2 else np.zeros(2, np.uint8)):
        with pytest.raises(TypeError, match=f"{owner}: text must be str"):
            tokenizer.encode(text)
    assert tokenizer.encode("").tolist() == [] and tokenizer.decode([]) == ""
    assert tokenizer.encode("").dtype == np.int64
    with pytest.raises(ValueError, match=owner):
        type(tokenizer).of("", *[5] * (kind == 2))


# ---- words ---------------------------------------------------------------------------------------


@given(ANY_TEXT)
def test_split_words_join_to_the_text(text):
    pieces = split_words(text)
    assert join_words(pieces) == text and all(split_words(piece) == [piece] for piece in pieces)


@given(st.text(st.sampled_from("ab ,\n_\u00e9\u3000"), min_size=1))
def test_known_words_round_trip(text):
    if split_words(text):
        tokenizer = WordTokenizer.of(text, special=())
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert len(tokenizer) == len(set(split_words(text)))


def test_words_marks_and_white_space_are_tokens():
    assert split_words("a b") == ["a", "b"] and split_words("a  b") == ["a", " ", " ", "b"]
    assert split_words(" a ") == [" ", "a", " "]
    assert split_words("a, b") == ["a", ",", " ", "b"] and split_words("a\nb") == ["a", "\n", "b"]
    # no blank: another kind of space
    assert split_words("a\u00a0b") == ["a", "\u00a0", "b"]
    assert split_words("it's 3.5_x") == ["it", "'", "s", "3", ".", "5_x"]
    assert split_words("été 漢字") == ["été", "漢字"]


def test_most_frequent_words_come_first():
    tokenizer = WordTokenizer.of("b b a a c , c c d", n_words=3)
    # the blank, a and b occur twice: in this order
    assert tokenizer.words == ("c", " ", "a") and len(tokenizer) == 4
    assert tokenizer.encode("c b a").tolist() == [1, 0, 3]
    assert tokenizer.decode([3, 1, 0]) == "a c [UNK]"
    assert WordTokenizer.of("b b a").words == ("b", "a")
    assert WordTokenizer.of("b a", n_words=9).words == ("a", "b")


def test_unknown_words_are_one_token_or_an_error():
    tokenizer = WordTokenizer(["the", "cat", ","], special=("[PAD]", "[UNK]"))
    assert tokenizer.encode("the dog, the—").tolist() == [2, 1, 4, 1, 2, 1]
    assert tokenizer.decode([2, 1, 4, 2]) == "the [UNK],the"
    words = "holds 'dog' at position 8, which is none of the 3 known words; with .* in special"
    with pytest.raises(ValueError, match=words):
        WordTokenizer(["the", "cat", " "], special=("[PAD]",)).encode("the cat dog")


@pytest.mark.parametrize("words", [[], "cat", None, ["cat", "cat"], ["cat", 3], ["the cat"], [""],
                                   ["a,"]])
def test_bad_words_are_refused(words):
    with pytest.raises(ValueError, match="WordTokenizer: words"):
        WordTokenizer(words)


def test_texts_without_words_are_refused():
    for n_words in (0, -1, 1.5):
        with pytest.raises(ValueError, match="n_words="):
            WordTokenizer.of("cat", n_words)
    with pytest.raises(TypeError, match="WordTokenizer: text must be str, but is bytes"):
        WordTokenizer.of(b"cat")


# ---- byte pairs ----------------------------------------------------------------------------------


@given(st.binary())
def test_any_bytes_come_back(data):
    assert TRAINED.decode_bytes(TRAINED.encode(data)) == data
    assert b"".join(split_bytes(data)) == data


@given(ANY_TEXT)
def test_any_text_comes_back(text):
    assert TRAINED.decode(TRAINED.encode(text)) == text
    if text:
        own = BytePairTokenizer.of(text, 10)
        assert own.decode(own.encode(text)) == text


@given(st.one_of(st.binary(min_size=60, max_size=300),
                 st.text(st.sampled_from("ab é1.\n")).map(str.encode)))
def test_byte_words_concatenate_to_the_bytes(data):
    """No word is long, no token crosses words, and splitting at words changes nothing."""
    words = split_bytes(data)
    assert all(0 < len(word) <= 64 for word in words)
    assert [i for word in words for i in TRAINED.encode(word)] == TRAINED.encode(data).tolist()


def test_byte_words_keep_the_space_before_them():
    assert (split_bytes(b"a cat,  a-b  \n c\n\nd ")
            == [b"a", b" cat", b",", b" ", b" a", b"-", b"b", b"  \n", b" c", b"\n\n", b"d", b" "])
    assert split_bytes("l'été 1984x".encode()) == [b"l", b"'", "été".encode(), b" 1984", b"x"]
    assert [len(word) for word in split_bytes(b" " + b"a" * 130 + b" " * 100 + b"!" * 70 + b"\t"
                                              * 65 + b"7" * 64)] == [
        64, 63, 4, 64, 35, 64, 7, 64, 1, 63, 1]


def plain_training(words, n_merges):
    """Algorithm 1 of Sennrich et al., counting everything anew for each merge."""
    table, merges = Counter(tuple(word) for word in words), []
    for new in range(256, 256 + n_merges):
        counts = Counter()
        for word, n in table.items():
            for pair in zip(word, word[1:]):
                counts[pair] += n
        if not counts or max(counts.values()) < 2:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        table = Counter({tuple(merge(list(word), best, new)): n for word, n in table.items()})
    return merges


@given(st.text(st.sampled_from("aab ca,"), min_size=1, max_size=200), st.integers(0, 30))
def test_incremental_counts_give_the_merges_of_plain_counting(text, n_merges):
    merges = BytePairTokenizer.of(text, n_merges).merges
    assert list(merges) == plain_training(split_bytes(text.encode()), n_merges)


def test_training_on_real_text():
    """Long enough for pairs whose counts fall before they are merged."""
    text = load_corpus().text[:5000]
    assert list(BytePairTokenizer.of(text,
                                     150).merges) == plain_training(split_bytes(text.encode()), 150)


@given(st.text(st.sampled_from("the catsdog,"), max_size=40))
def test_encoding_applies_the_merges_in_their_order(text):
    wanted = []
    for word in split_bytes(text.encode()):
        tokens = list(word)
        for new, pair in enumerate(TRAINED.merges, 256):
            tokens = merge(tokens, pair, new)
        wanted += tokens
    assert (TRAINED.encode(text) - 3).tolist() == wanted


def test_merges_of_short_texts_are_right():
    a, b, c = b"abc"
    assert BytePairTokenizer.of("abab abab", 2).merges == ((a, b), (256, 256))
    # nothing occurs twice
    assert BytePairTokenizer.of("bc ab", 5).merges == ()
    # equally often: the smaller numbers
    assert BytePairTokenizer.of("bc.ab.bc.ab", 1).merges == ((a, b),)
    assert BytePairTokenizer.of("bc.ab.ab.bc.bc", 1).merges == ((b, c),)
    assert BytePairTokenizer.of("aaa", 5).merges == ((a, a),)
    assert BytePairTokenizer.of(b"\xff\xfe." * 2, 1).merges == ((255, 254),)
    assert BytePairTokenizer([(0, 0)]).encode(b"\0\0\0").tolist() == [256, 0]
    assert BytePairTokenizer.of("abab abab", 0).encode("ab").tolist() == [a, b]
    assert BytePairTokenizer.of("abab.abab", 2).encode("ababab").tolist() == [257, 256]


def test_broken_utf_8_decodes_to_replacement_characters():
    assert TRAINED.decode(TRAINED.encode(b"caf\xe9 cat")) == "caf\ufffd cat"
    assert TRAINED.decode(TRAINED.encode("é")[:1]) == "\ufffd"
    assert TRAINED.decode(TRAINED.encode("\ud800")) == "\ud800"
    assert TRAINED.decode_bytes([1, *TRAINED.encode(b"\xff")]) == b"[CLS]\xff"


@pytest.mark.parametrize("merges", [[(97, 256)], [(97,)], [(97, -1)], [97], [(97, 1.0)],
                                    [(97, True)], ["ab"], [(97, 98), (258, 1)]])
def test_bad_merges_are_refused(merges):
    last = len(merges) - 1
    with pytest.raises(ValueError, match=f"merge {last} is .* a pair of tokens 0 .. {255 + last}"):
        BytePairTokenizer(merges)


def test_bad_training_texts_are_refused():
    with pytest.raises(ValueError, match="hold a pair twice"):
        BytePairTokenizer([(97, 98), (97, 98)])
    for n_merges in (-1, 1.5, None):
        with pytest.raises(ValueError, match="n_merges="):
            BytePairTokenizer.of("cat", n_merges)
    with pytest.raises(TypeError,
                       match="BytePairTokenizer: text must be str or bytes, but is list"):
        BytePairTokenizer.of(["cat"], 3)


def test_byte_pairs_can_be_pickled_after_use():
    tokenizer = BytePairTokenizer.of("low lower lowest", n_merges=3, special=("[PAD]",))
    ids = tokenizer.encode("slow lower")
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.to_json() == tokenizer.to_json()
    assert np.array_equal(again.encode("slow lower"), ids)
