"""Tasks of encoder-decoders on tales of the small world, and how they are measured."""

import numpy as np
import pytest

from numformer.data import tales as tales_of
from numformer.models import EncoderDecoderConfig
from numformer.recipes import TASKS
from numformer.recipes.recipe import EncoderDecoderRecipe
from numformer.recipes.text_to_text import tales

pytestmark = pytest.mark.usefixtures("few_examples")


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


@pytest.mark.parametrize("name", ["tale-spans", "tale-infilling"])
def test_documents_are_whole_tales(name):
    task = TASKS[name]
    dataset = task.load(None)
    tokenizer = task.tokenizer(dataset)
    assert (len(dataset.training), len(dataset.held_out)) == (200, 10)
    for told, document in zip(tales_of(10, held_out=True), dataset.held_out):
        assert "".join(document) == told.text.replace(". ", ".\n") + "\n"
    for source, target in task.noised(dataset.held_out, tokenizer):
        marks = np.isin(source, task.mark_ids(tokenizer)).sum()
        assert 2 <= marks <= 15 and tokenizer.decode(target)
    text = task.sentences(dataset)
    assert len(text) == sum(map(len, dataset.training)) > len(set(text))


def test_tales_are_infilled_only_and_measured_against_copying(monkeypatch):
    task = TASKS["tale-infilling"]
    dataset = task.load(None)
    tokenizer = task.tokenizer(dataset)
    (mask,) = task.mark_ids(tokenizer)
    monkeypatch.setattr(type(task), "replies", lambda self, model, tokenizer, sources:
                        [source[source != mask] for source in sources])
    found = task.measure(None, tokenizer, dataset)
    assert found.keys() == {"restored_infilled", "copied_infilled"}
    assert found["restored_infilled"] == found["copied_infilled"] == pytest.approx(0.7, abs=0.02)


def test_cross_attention_begins_like_to_like():
    config = EncoderDecoderConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    for like_to_like in (True, False):
        recipe = EncoderDecoderRecipe(like_to_like=like_to_like)
        model = recipe.model("EncoderDecoder", config, np.random.default_rng(0))
        for block in model.blocks:
            cross, own = block.cross_attention, block.attention
            assert np.array_equal(cross.key.weight.data, cross.query.weight.data) == like_to_like
            assert not np.array_equal(own.key.weight.data, own.query.weight.data)
    grouped = EncoderDecoderConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2,
                                   d_model=16, n_kv_heads=1)
    with pytest.raises(ValueError, match="like_to_like needs as many key heads as query heads"):
        EncoderDecoderRecipe(like_to_like=True).check(grouped)
