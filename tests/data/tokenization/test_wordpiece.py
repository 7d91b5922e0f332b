"""WordPiece: BERT's text, greedy matching, decoding, training by the likelihood."""

import json
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer.data import WordPieceTokenizer, tokenizer_from_json
from numformer.data.tokenizers.bert_text import bert_normalize, lower
from numformer.data.tokenizers.byte_merges import merge
from numformer.data.tokenizers.splitting import split_marks, split_spaces
from numformer.data.tokenizers.wordpiece import SPECIAL, join_wordpieces, longest_match

TEXT = "the cat sat on the mat; the cats sat, the mats lay. " * 2
TRAINED = WordPieceTokenizer.of(TEXT, 30)


def test_bert_cleans_text_before_it_splits():
    text = "A\tB\x00C\u200bD\ue000E\ufffd\u3000\ud800\u0085F"
    assert bert_normalize(text, lowercase=False) == "A BCDE F"
    assert bert_normalize(text, clean=False, lowercase=False) == text
    assert bert_normalize("x漢y\u3040", lowercase=False) == "x 漢 y\u3040"
    assert bert_normalize("x漢y", ideographs=False) == "x漢y"
    assert bert_normalize("ÉCOLE\u0301 İ") == "ecole i" and lower("ΣΑΣ") == "σασ"
    assert bert_normalize("École", lowercase=False) == "École"
    assert bert_normalize("École", lowercase=False, accents=True) == "Ecole"
    assert bert_normalize("École", accents=False) == "école"


def test_marks_are_words_of_their_own():
    assert split_marks("a.b$c `d`\u2014\n^_") == ["a", ".", "b", "$", "c", "`", "d", "`", "—", "^",
                                                  "_"]
    assert split_marks(" \u3000\t") == [] and split_spaces("a.b\u2003c\x1cd") == ["a.b", "c\x1cd"]


def all_matches(word, ids):
    """Greedy matching, as its definition says."""
    found, rest = [], word
    while rest:
        before = "##" if found else ""
        fitting = [n for n in range(1, len(rest) + 1) if before + rest[:n] in ids]
        if not fitting:
            return None
        found.append(ids[before + rest[:max(fitting)]])
        rest = rest[max(fitting):]
    return found


@given(st.text(st.sampled_from("abc"), max_size=9))
def test_the_longest_token_is_taken_first(word):
    ids = {token: i for i, token in enumerate(
        ["a", "b", "ab", "##a", "##b", "##bc", "##abc", "abca", "##ca", "aab"])}
    assert longest_match(word, ids) == longest_match(word, ids, longest=5) == all_matches(word, ids)


def test_words_that_do_not_fit_are_unknown():
    tokenizer = WordPieceTokenizer(["a", "##b"], special=("[UNK]",))
    assert tokenizer.encode("ab a ba abb A-").tolist() == [1, 2, 1, 0, 1, 2, 2, 1, 0]
    assert tokenizer.encode("a" + 99 * "b").tolist() == [1] + [2] * 99
    assert tokenizer.encode("a" + 100 * "b").tolist() == [0], "more than 100 characters"
    assert tokenizer.encode("[UNK]").tolist() == [0, 0, 0] and tokenizer.encode("").size == 0
    assert tokenizer.encode("").dtype == np.int64
    cased = WordPieceTokenizer(["a"], special=("[UNK]",), lowercase=False)
    assert cased.encode("A a").tolist() == [0, 1]


def test_decoding_joins_words_and_marks():
    assert TRAINED.decode(TRAINED.encode("The cat, SAT.")) == "the cat, sat."
    assert TRAINED.decode([2, *TRAINED.encode("the mat"), 3]) == "[CLS] the mat [SEP]"
    assert join_wordpieces(["##a", "##b", "c"]) == "##ab c" and join_wordpieces([]) == ""
    assert join_wordpieces(["a", "."], cleanup=False) == "a ."
    assert join_wordpieces(["it", "'s", "n't", "a", "+b"], prefix="+") == "it'sn't ab"


def plain_training(words, n_tokens):
    """Everything counted anew for each merge."""
    table = Counter({(w[0], *("##" + c for c in w[1:])): n for w, n in words.items()})
    tokens = sorted({token for word in table for token in word})
    while len(tokens) < n_tokens:
        single, pairs = Counter(), Counter()
        for word, n in table.items():
            for token in word:
                single[token] += n
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        often = [pair for pair, n in pairs.items() if n > 1]
        if not often:
            break
        best = min(often, key=lambda p: (-pairs[p] / (single[p[0]] * single[p[1]]), -pairs[p], p))
        new = best[0] + best[1][2:]
        tokens += [new] * (new not in tokens)
        table = Counter({tuple(merge(list(word), best, new)): n for word, n in table.items()})
    return tokens


@given(st.text(st.sampled_from("aab cd,"), max_size=150), st.integers(1, 40))
def test_incremental_counts_give_the_tokens_of_plain_counting(text, n_tokens):
    words = Counter(split_marks(text))
    if words:
        found = WordPieceTokenizer.of(text, n_tokens).tokens
        assert list(found) == plain_training(words, n_tokens)


def test_training_merges_what_occurs_together():
    assert WordPieceTokenizer.of("qu qu ae be ae ce be ce", 7).tokens[-1] == "qu"


def test_json_and_pickle_keep_it():
    cased = WordPieceTokenizer.of(TEXT, 20, special=("[UNK]", "<x>"), lowercase=False)
    for tokenizer in (TRAINED, cased):
        for again in (tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json()))),
                      pickle.loads(pickle.dumps(tokenizer))):
            assert again.to_json() == tokenizer.to_json()
            assert again.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()
    assert cased.special_id("<x>") == 1 and TRAINED.special == SPECIAL


@pytest.mark.parametrize("tokens, options, words", [
    ([], {}, "tokens must be"), ("ab", {}, "tokens must be"), (["a", "a"], {}, "tokens must be"),
    ([""], {}, "tokens must be"), (["##"], {}, "tokens must be"), ([3], {}, "tokens must be"),
    (["a"], dict(special=()), r"must hold '\[UNK\]'"),
    (["[UNK]"], dict(special=("[UNK]",)), "among the tokens"),
    (["a"], dict(lowercase=1), "lowercase=1 must be True or False")])
def test_bad_vocabularies_are_refused(tokens, options, words):
    with pytest.raises(ValueError, match=f"WordPieceTokenizer: .*{words}"):
        WordPieceTokenizer(tokens, **options)


def test_bad_texts_are_refused():
    with pytest.raises(ValueError, match="WordPieceTokenizer: the text has no words"):
        WordPieceTokenizer.of(" \n", 3)
    for n_tokens in (0, 1.5):
        with pytest.raises(ValueError, match="n_tokens="):
            WordPieceTokenizer.of("a", n_tokens)
    for text in (b"a", None):
        with pytest.raises(TypeError, match="WordPieceTokenizer: text must be str"):
            WordPieceTokenizer.of(text, 3)
        with pytest.raises(TypeError, match="WordPieceTokenizer: text must be str"):
            TRAINED.encode(text)


def test_characters_of_words_that_are_too_long_are_tokens():
    """All characters are, as the docstring says; a merge is learned from other words alone."""
    tokenizer = WordPieceTokenizer.of("ab ab " + "xy" * 51, n_tokens=20)
    assert tokenizer.tokens == ("##b", "##x", "##y", "a", "x", "ab")
    assert tokenizer.encode("xy" * 51).tolist() == [tokenizer.special_id("[UNK]")]
    assert WordPieceTokenizer.of("z" * 101, n_tokens=9).tokens == ("##z", "z")
