"""The task of music: its split, and shares of melodies that keep the rules."""

from types import SimpleNamespace

import numpy as np
import pytest

from numformer.data import melody_text, read_melody
from numformer.data.corpora.melodies import RULES
from numformer.recipes import PRESETS
from numformer.recipes.text.music import shares, written

pytestmark = pytest.mark.usefixtures("few_examples")
TASK = PRESETS["music"].task


class Writer:
    """Writes the texts given, one after the other, whatever is drawn."""

    def __init__(self, tokenizer, texts):
        self.config = SimpleNamespace(vocab_size=len(tokenizer), context_length=200)
        self.ids = [tokenizer.encode(text + 200 * "\n") for text in texts]

    def step(self, ids, cache=None, left_padding=None):
        end = (0 if cache is None else len(cache)) + ids.shape[1]
        logits = np.full((*ids.shape, self.config.vocab_size), -1e9)
        for row in range(len(ids)):
            logits[row, -1, self.ids[row % len(self.ids)][end]] = 0
        return logits, range(end)                     # as many tokens are behind


@pytest.fixture
def corpus():
    return TASK.load(None)


def texts_of(part):
    return [f"{text}\n" for text in part.removesuffix("\n\n").split("\n\n")]


def test_the_parts_are_whole_melodies_and_no_held_out_one_is_in_training(corpus):
    training, held_out = map(texts_of, corpus.split())
    assert (len(training), len(held_out)) == (50, 5)
    assert all(map(read_melody, training + held_out)) and not set(training) & set(held_out)


def test_a_text_ends_with_its_melody(corpus):
    tokenizer, (_, held_out) = TASK.tokenizer(corpus), corpus.split()
    first, second, *_ = texts_of(held_out)
    rngs = [np.random.default_rng(0), np.random.default_rng(1)]
    assert written(Writer(tokenizer, [first, second]), tokenizer, rngs) == [first, second]
    endless = first.replace("]", "")
    (text,) = written(Writer(tokenizer, [endless]), tokenizer, rngs[:1])
    assert text.startswith(endless) and len(text) > len(endless)


def test_shares_of_rules_and_of_copies(corpus):
    training, held_out = corpus.split()
    right, seen = texts_of(held_out)[0], texts_of(training)[0]
    melody = read_melody(right)
    elsewhere = melody_text(melody._replace(key="B" if melody.key != "B" else "C"))
    found = shares([right, seen, elsewhere, right[:-9]], training)
    assert found == {"form": 0.75, "bars": 0.75, "second_phrase": 0.75, "returns": 0.75,
                     "tonic": 0.5, "all_rules": 0.5, "copied": 0.25}


@pytest.mark.slow
def test_measures_are_those_of_the_model_and_of_an_n_gram(corpus):
    tokenizer, (_, held_out) = TASK.tokenizer(corpus), corpus.split()
    figures = TASK.measure(Writer(tokenizer, texts_of(held_out)[:2]), tokenizer, corpus)
    assert figures["all_rules"] == 1 > figures["n_gram_all_rules"] and figures["copied"] == 0
    assert {f"n_gram_{name}" for name in (*RULES, "all_rules", "copied")} < figures.keys()
    assert 0 < figures["n_gram_loss"] < np.log(len(tokenizer))
    few = TASK.measure(Writer(tokenizer, texts_of(held_out)[:1] + ["X:1\n"]), tokenizer, corpus)
    assert few["all_rules"] == 0.5
    assert all(few[name] == figures[name] for name in figures if name.startswith("n_gram"))


def test_a_sample_names_the_rules_that_it_breaks(corpus):
    tokenizer, (_, held_out) = TASK.tokenizer(corpus), corpus.split()
    right, rng = texts_of(held_out)[0], np.random.default_rng(0)
    assert TASK.sample(Writer(tokenizer, [right]), tokenizer, rng).endswith("rules: none")
    wrong = right.replace("M:4/4", "M:3/4") if "4/4" in right else right.replace(
        right[4:9], "M:4/4")
    assert TASK.sample(Writer(tokenizer, [wrong]), tokenizer, rng).endswith("rules: bars")
