"""Unigram tokenizers: Viterbi, forward-backward, expectation maximization and pruning."""

import json
import math
import pickle
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer.data import UnigramTokenizer, load_corpus, tokenizer_from_json
from numformer.data.tokenizers.splitting import split_meta
from numformer.data.tokenizers.unigram import UnigramModel, join_meta, viterbi
from numformer.data.tokenizers.unigram_training import (
    best_cut, expected_counts, learn_tokens, maximize, prune)

TEXT = "the cat sat on the mat; the cats sat, the mats lay. " * 5
TRAINED = UnigramTokenizer.of(TEXT, 30)
SCORES = {token: -1.0 - k % 7 / 3 - len(token) / 5 for k, token in enumerate(
    ["a", "b", "c", "ab", "bc", "abc", "ca", "aa", "bca"])}
WORDS = st.text(st.sampled_from("abc"), min_size=1, max_size=9)


def cuts(word, scores):
    """All ways to cut a word into tokens, found by trying."""
    for n in range(len(word)):
        for borders in combinations(range(1, len(word)), n):
            tokens = [word[i:j] for i, j in zip((0, *borders), (*borders, len(word)))]
            if all(token in scores for token in tokens):
                yield tokens


def score(tokens, scores=SCORES):
    return sum(scores[token] for token in tokens)


@given(WORDS)
def test_the_best_cut_has_the_highest_score_of_all(word):
    best = max(score(tokens) for tokens in cuts(word, SCORES))
    for found in (viterbi(word, SCORES, 3, -99.0), best_cut(word, SCORES)):
        assert "".join(found) == word and math.isclose(score(found), best)
    without = [tokens for tokens in cuts(word, SCORES) if len(tokens) > 1]
    if without:
        assert math.isclose(score(best_cut(word, SCORES, whole=False)), max(map(score, without)))


@given(WORDS)
def test_expected_counts_are_those_of_all_cuts(word):
    counts, log_likelihood = expected_counts(word, SCORES)
    total = sum(math.exp(score(tokens)) for tokens in cuts(word, SCORES))
    assert math.isclose(math.exp(log_likelihood), total)
    wanted = Counter()
    for tokens in cuts(word, SCORES):
        for token in tokens:
            wanted[token] += math.exp(score(tokens)) / total
    assert counts.keys() == wanted.keys()
    assert all(math.isclose(n, wanted[token]) for token, n in counts.items())


def test_each_step_of_expectation_maximization_raises_the_likelihood():
    words = Counter(split_meta(TEXT))
    scores = {token: -5.0 for word in words for i in range(len(word))
              for token in (word[i], word[i:i + 2], word[i:i + 3])}
    steps = []
    for _ in range(6):
        scores, log_likelihood = maximize(words, scores)
        steps.append(log_likelihood)
        assert math.isclose(sum(map(math.exp, scores.values())), 1.0)
    assert steps == sorted(steps) and steps[-1] > steps[0]


def test_pruning_keeps_what_costs_most():
    words = {"▁the": 50, "▁cat": 5, "▁at": 1}
    scores = {token: -3.0 for token in ("▁", "t", "h", "e", "c", "a", "▁the", "▁cat", "at", "▁t")}
    kept = prune(words, scores, 8)
    assert len(kept) == 8 and {"▁the", "▁cat"} < set(kept) and "▁t" not in kept
    assert set(prune(words, scores, 1)) == set("▁thecat"), "characters stay"
    assert all(kept[token] == scores[token] for token in kept)


@pytest.mark.slow
def test_training_finds_words():
    tokens, scores = learn_tokens(split_meta(TEXT), 30)
    characters = set(TEXT.replace(" ", "▁"))
    assert len(tokens) == len(scores) <= 30 and scores == sorted(scores, reverse=True)
    assert characters < set(tokens) and tokens[0] == "▁the"
    assert math.isclose(sum(map(math.exp, scores)), 1.0)
    assert set(learn_tokens(split_meta(TEXT), 1)[0]) == characters
    real = load_corpus().text[:20_000]
    few, many = UnigramTokenizer.of(real, 150), UnigramTokenizer.of(real, 600)
    assert len(many) == 603 and len(many.encode(real)) < len(real) / 2
    assert len(many.encode(real)) < len(few.encode(real)) < len(real)
    assert few.decode(few.encode(real)) == real


@given(st.text(st.sampled_from("the cats\n,é")))
def test_texts_of_known_characters_come_back(text):
    known = UnigramTokenizer.of(TEXT + "é\n", 40)
    assert known.decode(known.encode(text)) == text.removeprefix(" ")


def test_unknown_characters_in_a_row_are_one_token():
    ids = TRAINED.encode("the 漢字 é!")
    unknown = TRAINED.special_id("<unk>")
    assert [i for i in ids if i == unknown] == [unknown] * 2 and ids.dtype == np.int64
    assert TRAINED.decode(ids) == "the <unk> <unk>"
    assert TRAINED.encode("<unk>").min() >= 2 and TRAINED.encode("").tolist() == []
    model = UnigramModel({f"<0x{byte:02X}>": byte for byte in range(256)} | {"a": 256},
                         [-1.0] * 257, None, byte_fallback=True)
    assert model.encode_word("aéa") == [256, 0xc3, 0xa9, 256]
    with pytest.raises(ValueError, match="holds 'b', but there is no token for what is unknown"):
        UnigramModel({"a": 0}, [0.0], None).encode_word("ab")


def test_ties_go_to_the_token_that_begins_first():
    assert viterbi("abc", {"ab": -1.0, "c": -1.0, "a": -1.0, "bc": -1.0}, 2, -9.0) == ["a", "bc"]
    assert viterbi("ab", {"a": -1.0, "b": -1.0, "ab": -2.0}, 2, -9.0) == ["ab"]


def test_meta_symbols_are_spaces():
    assert join_meta(["▁▁a", "▁b"]) == "a b" and join_meta(["▁a"], strip=False) == " a"
    assert join_meta([]) == "" and split_meta("a b", prepend=False) == ["a", "▁b"]
    assert split_meta(" a", split=False) == ["▁a"]


def test_json_and_pickle_keep_it():
    for again in (tokenizer_from_json(json.loads(json.dumps(TRAINED.to_json()))),
                  pickle.loads(pickle.dumps(TRAINED))):
        assert again.to_json() == TRAINED.to_json()
        assert again.encode(TEXT).tolist() == TRAINED.encode(TEXT).tolist()


@pytest.mark.parametrize("tokens, scores, special, words", [
    ([], [], ("<unk>",), "tokens must be"), ("ab", [0, 0], ("<unk>",), "tokens must be"),
    (["a", "a"], [0, 0], ("<unk>",), "tokens must be"), ([""], [0.0], ("<unk>",), "tokens must"),
    (["a"], [], ("<unk>",), "1 finite numbers"), (["a"], [math.inf], ("<unk>",), "1 finite"),
    (["a"], ["x"], ("<unk>",), "1 finite"), (["a"], [True], ("<unk>",), "1 finite"),
    (["a"], [0.0], (), "must hold '<unk>'"), (["a"], [0.0], ("a", "<unk>"), "none of the tokens")])
def test_bad_vocabularies_are_refused(tokens, scores, special, words):
    with pytest.raises(ValueError, match=f"UnigramTokenizer: .*{words}"):
        UnigramTokenizer(tokens, scores, special)


def test_bad_texts_are_refused():
    with pytest.raises(ValueError, match="UnigramTokenizer: the text is empty"):
        UnigramTokenizer.of("", 3)
    for n_tokens in (0, -1, 1.5):
        with pytest.raises(ValueError, match="n_tokens="):
            UnigramTokenizer.of("a", n_tokens)
    for text in (b"a", None):
        with pytest.raises(TypeError, match="UnigramTokenizer: text must be str"):
            UnigramTokenizer.of(text, 3)
        with pytest.raises(TypeError, match="UnigramTokenizer: text must be str"):
            TRAINED.encode(text)
    with pytest.raises(ValueError, match="UnigramTokenizer: ids"):
        TRAINED.decode([len(TRAINED)])
