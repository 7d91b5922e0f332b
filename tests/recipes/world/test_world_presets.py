"""Presets of the small world from the command line, from scratch and from a run of world-bert."""

import numpy as np
import pytest

from command import call
from marks import every
from numformer.cli import main
from numformer.data.world import tale, tales
from numformer.recipes import PRESETS
from numformer.recipes.world import tags
from numformer.recipes.world.answers import last_of_kind, text_tokens
from numformer.recipes.world.entailment import missing, naive_bayes
from numformer.recipes.world.tags import entity_spans
from numformer.runs import load_run
from tiny_presets import tiny_flags

pytestmark = pytest.mark.usefixtures("few_examples")


@pytest.fixture(scope="module")
def bert(tmp_path_factory, few_examples):
    out = tmp_path_factory.mktemp("world") / "bert"
    assert main(["train", *tiny_flags("world-bert"), "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize("preset", every(4, ["entities", "pos-tags", "answers", "entailment"]))
def test_a_preset_begins_with_a_run_of_world_bert(preset, bert, capsys, tmp_path):
    run, still = tmp_path / "run", ["--learning-rate", 0, "--min-learning-rate", 0]
    assert call(capsys, "train", *tiny_flags(preset), "--from", bert, "--out", run, *still,
                "--steps", 1)[0] == 0
    ids = np.array([[1, 50, 60, 70, 2]])
    assert np.array_equal(load_run(run)[0].backbone(ids), load_run(bert)[0](ids))


def test_spans_of_labels():
    rows = [["B-PLACE", "I-PLACE", "I-THING", "O"], ["O", "B-PERSON", "B-PERSON"]]
    assert entity_spans(rows) == {(0, 0, 2, "PLACE"), (0, 2, 3, "THING"), (1, 1, 2, "PERSON"),
                                  (1, 2, 3, "PERSON")}


def test_figures_of_known_labels():
    task = tags.EntityTask()
    same = [["B-PLACE", "I-PLACE", "O"]]
    assert task.figures(same, same) == {"entity_f1": 1.0}
    assert task.figures([["B-PLACE", "O", "O"]], same) == {"entity_f1": 0.0}
    both = [["B-PLACE", "I-PLACE", "B-THING"]]
    assert task.figures(both, same)["entity_f1"] == pytest.approx(2 / 3)
    figures = tags.PartOfSpeechTask().figures([["NOUN", "VERB", "NOUN"]], [["NOUN", "NOUN", "ADJ"]])
    # NOUN 1/2, ADJ 0, and VERB, which is found and never expected, 0
    assert figures == {"accuracy": pytest.approx(1 / 3), "macro_f1": pytest.approx(1 / 6)}


def test_the_baselines_are_what_they_say():
    asked = next(each for each in tale(8).questions if each.kind == "PERSON")
    found = last_of_kind(asked, tale(8))
    assert found[-1] not in asked.words and f"B-{asked.kind}" in tale(8).entities
    training = [(("a", "b"), (), 0), (("c",), (), 1), (("d",), (), 2)]
    assert naive_bayes(training, [("b",), ("c",), ("d", "d")]).tolist() == [0, 1, 2]
    assert missing(("a", "b", "b"), ("a", "c")) == 1


def test_the_answer_is_at_its_target():
    """The tokens between the targets of a row are the answer, and an answer may be there."""
    task = PRESETS["answers"].task
    tokenizer = task.tokenizer(None)

    class Config:
        context_length = 144

    examples = task.examples(tokenizer, Config, held_out=True)
    expected = [each.answer for story in tales(8, held_out=True) for each in story.questions]
    allowed = text_tokens(examples.rows)
    for row, (start, end) in enumerate(examples.targets):
        words = [tokenizer.decode([t]) for t in examples.rows.ids[row, start : end + 1]]
        assert tuple(words) == expected[row] and allowed[row, start : end + 1].all()
        assert not allowed[row, :3].any()
    batch = examples.take(np.array([0, 1]))
    assert batch.targets.shape == (2, 2) and batch.ids.shape == batch.segments.shape


@pytest.mark.parametrize("preset, text, message", [
    ("answers", "no question here", "question mark"), ("entailment", "one sentence.", "premise"),
    ("pos-tags", " ", "reads 1 to"), ("pos-tags", "word " * 200, "200 words")])
def test_a_text_that_does_not_fit_is_refused(preset, text, message):
    task = PRESETS[preset].task

    class Model:
        class config:
            context_length = 144

    with pytest.raises(ValueError, match=message):
        task.answer(Model, task.tokenizer(None), text)
