"""Presets of the small world from the command line, from scratch and from a run of world-bert."""

import numpy as np
import pytest

from command import call, last_json
from numformer.data.world import tale, tales
from numformer.recipes import PRESETS
from numformer.recipes.world import answers, entailment, tags, world_task
from numformer.recipes.world.answers import last_of_kind, text_tokens
from numformer.recipes.world.entailment import missing, naive_bayes
from numformer.recipes.world.tags import entity_spans

TINY = ["--n-layers", "1", "--n-heads", "2", "--d-model", "8", "--d-hidden", "12", "--batch-size",
        "8", "--warmup-steps", "1", "--steps", "2", "--eval-every", "2", "--eval-blocks", "6",
        "--save-every", "2"]
MEASURED = {
    "pos-tags": {"accuracy", "macro_f1", "accuracy_of_the_baseline", "macro_f1_of_the_baseline"},
    "entities": {"entity_f1", "entity_f1_of_the_baseline"},
    "answers": {"exact", "token_f1", "exact_of_the_baseline", "token_f1_of_the_baseline"},
    "entailment": {"accuracy", "majority_accuracy", "hypothesis_accuracy", "overlap_accuracy"},
}
PROMPTS = {"pos-tags": "mark saw a mark.", "entities": "mr reed saw miss hill near the old mill.",
           "answers": "who had a ball? tom had a ball.",
           "entailment": "tom gave a ball to anna. anna has the ball now."}


@pytest.fixture(scope="module", autouse=True)
def few_tales():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world_task, "VOCABULARY_TALES", 300)
        patch.setattr(world_task, "HELD_OUT_TALES", 8)
        for kind in (answers.AnswerTask, entailment.EntailmentTask):
            patch.setattr(kind, "n_tales", 20)
        patch.setattr(type(PRESETS["world-bert"].task), "n_tales", 30)
        world_task._tokenizer.cache_clear()
        yield
    world_task._tokenizer.cache_clear()


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    from numformer.cli import main

    out = tmp_path_factory.mktemp("world") / "bert"
    assert main(["train", "--preset", "world-bert", "--out", str(out), *TINY]) == 0
    return out


def test_the_language_model_fills_masks(bert, capsys):
    status, said, _ = call(capsys, "eval", bert, "--json")
    assert status == 0 and {"masked_accuracy", "most_frequent_accuracy"} <= last_json(said).keys()
    status, said, _ = call(capsys, "sample", bert, "--prompt", "tom had a [MASK].")
    assert status == 0 and said.startswith("tom had a [")


@pytest.mark.parametrize("preset", MEASURED)
def test_a_preset_trains_is_measured_and_answers(preset, bert, capsys, tmp_path):
    run = tmp_path / "run"
    status, _, err = call(capsys, "train", "--preset", preset, "--from", bert, "--out", run, *TINY)
    assert status == 0 and "validation loss" in err
    status, said, _ = call(capsys, "eval", run, "--json")
    assert status == 0 and MEASURED[preset] <= last_json(said).keys()
    assert all(0 <= last_json(said)[name] <= 1 for name in MEASURED[preset])
    status, said, _ = call(capsys, "sample", run, "--prompt", PROMPTS[preset])
    assert status == 0 and said.strip()


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
