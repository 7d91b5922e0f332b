"""Parts of the experiment second-language: the language by rule, its sentences, noise, measures."""

import numpy as np
import pytest

from numformer.data import infill, tales
from numformer.data.world import TAGS
from numformer.experiments.transfer import coded_tales as tales_of
from numformer.experiments.transfer import second_language as experiment
from numformer.experiments.transfer.coded_tales import (
    FIRST_LANGUAGE, FIRST_TAG, FIRST_WORD, LANGUAGES, MASK, coded, data)
from numformer.models import EncoderDecoder


def plain_sentences():
    return [(told.words[first:last], told.tags[first:last])
            for told in tales(50) for first, last in told.sentences]


def test_the_code_is_another_vocabulary_but_for_names_and_marks():
    known = {word for words, _ in plain_sentences() for word in words}
    shared = {word for words, tags in plain_sentences() for word, tag in zip(words, tags)
              if tag in ("PROPN", "PUNCT")}
    found = {word for words, tags in plain_sentences() for word in coded(words, tags)[0]}
    assert found & known == shared


def test_articles_and_adjectives_come_after_the_noun():
    before = {"plain": 0, "coded": 0}
    for sentence in plain_sentences():
        for language, (words, tags) in (("plain", sentence), ("coded", coded(*sentence))):
            before[language] += sum(first in ("DET", "ADJ") and second == "NOUN"
                                    for first, second in zip(tags, tags[1:]))
        assert coded(*coded(*sentence)) == sentence                   # both rules undo themselves
    assert before["coded"] < 0.05 * before["plain"]


@pytest.mark.slow
def test_languages_tell_different_tales_and_share_the_ids_of_names():
    plain, coded_ = (data().texts[language] for language in LANGUAGES)
    for number, texts in enumerate((plain, coded_)):
        assert {text[0] for text in texts} == {FIRST_LANGUAGE + number}
        assert min(text[1:].min() for text in texts) >= FIRST_WORD
    plain, coded_ = (set(np.concatenate([text[1:] for text in texts])) for texts in (plain, coded_))
    assert 20 < len(plain & coded_) < 50 < len(plain - coded_)
    assert max(plain | coded_) == data().vocab_size - 1


@pytest.mark.slow
def test_labelled_pairs_have_a_tag_for_each_word():
    for pairs in (*data().labelled.values(), *data().held_out.values()):
        for source, tags in pairs:
            assert len(source) == len(tags) + 1
            assert FIRST_TAG <= tags.min() and tags.max() < FIRST_TAG + len(TAGS)


def test_the_most_frequent_tag_of_a_word_and_of_all():
    def pair(words, tags):
        return np.array([FIRST_LANGUAGE, *words]), np.array(tags)

    labelled = [pair([30, 31, 30], [7, 8, 7]), pair([30, 31], [8, 8]), pair([31], [8])]
    assert tales_of.right_by_word(labelled, [pair([30, 31, 40, 40], [7, 8, 8, 7])]) == 3 / 4


def test_noise_infills_words_but_not_the_language():
    text = np.array([FIRST_LANGUAGE, *range(40, 60)])
    for seed in range(20):
        source, target = experiment.noise(text, np.random.default_rng(seed))
        expected = infill(text[1:], MASK, np.random.default_rng(seed), rate=0.3)
        assert source.tolist() == [FIRST_LANGUAGE, *expected] and target is text


def test_accuracy_is_that_of_the_tags_of_words():
    pairs = [(np.array([4, 30, 31]), np.array([6, 7])), (np.array([4, 30]), np.array([6]))]

    def model(inputs, lengths, outputs):
        return np.eye(9)[np.where(outputs == 30, 6, 8)]         # 30 is right, 31 is wrong

    assert experiment.accuracy(model, pairs) == pytest.approx(2 / 3)


@pytest.mark.slow
def test_fine_tuning_begins_with_what_was_pretrained():
    state = experiment.pretrained(["plain"], seed=0, steps=1)
    model = experiment.tuned(state, "plain", seed=0, steps=1)
    assert isinstance(model, EncoderDecoder)
    before, table = experiment.new_model(0).embedding.weight.data, model.embedding.weight.data
    assert np.abs(table - state["embedding.weight"]).max() < np.abs(table - before).max()
