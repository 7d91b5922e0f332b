"""Tasks of encoder-decoders on tales of the small world, and how they are measured."""

import numpy as np
import pytest

from numformer.recipes import TASKS
from numformer.recipes.text_to_text import tales


@pytest.fixture(autouse=True, scope="module")
def few_tales():
    """The tasks as they are, with few tales."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tales, "TRAINING_TALES", 400)
        patch.setattr(tales, "HELD_OUT", 20)
        tales._pairs.cache_clear()
        yield
        tales._pairs.cache_clear()


def test_summaries_are_measured_against_single_sentences(monkeypatch):
    task = TASKS["summarize"]
    dataset = task.load(None)
    known = dict(dataset.held_out)

    def measured(answer):
        monkeypatch.setattr(type(task), "answers", lambda self, model, tokenizer, sources:
                            [answer(source) for source in sources])
        return task.measure(None, None, dataset)

    perfect = measured(known.get)
    assert perfect["exact"] == perfect["rouge_l"] == 1.0
    first = measured(lambda source: tales.sentences_of(source)[0])
    assert first["exact"] == 0.0 and first["rouge_l"] == perfect["rouge_l_of_the_first_sentence"]
    best = measured(lambda source: max(tales.sentences_of(source),
                                       key=lambda each: tales.rouge_of(each, known[source])))
    assert best["rouge_l"] == pytest.approx(perfect["rouge_l_of_the_best_sentence"])
    assert first["rouge_l"] < best["rouge_l"] < 0.8


def test_a_prompt_is_a_tale_and_summaries_have_known_words():
    task = TASKS["summarize"]
    dataset = task.load(None)
    tokenizer = task.tokenizer(dataset)
    for source, target in dataset.held_out:
        assert source.startswith("summarize: ")
        assert tokenizer.decode(tokenizer.encode(source)) == source
        assert tokenizer.decode(tokenizer.encode(target)) == target
        assert "".join(f" {each}" for each in tales.sentences_of(source)) == source[10:]
    assert not {source for source, _ in dataset.training} & set(dict(dataset.held_out))


def test_white_space_is_no_word_of_a_summary():
    assert tales.rouge_of("a b. c", "a b.") == pytest.approx(6 / 7)   # LCS 3 of 4 and of 3
    assert np.isclose(tales.mean_rouge(["a b", "c"], ["a b", "d"]), 0.5)
