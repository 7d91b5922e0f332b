"""Questions about pictures: batches, methods to compare with, and a run from the command line."""

import numpy as np
import pytest

from command import call
from numformer.cli import main
from numformer.data import QUESTIONS, Digits
from numformer.functional import IGNORE_INDEX
from numformer.recipes import PRESETS
from numformer.recipes.vision.questions import (
    asked, held_out, most_frequent_answer, question_batch, simple_answers)
from numformer.models import VisionLanguageModelConfig
from numformer.runs import load_run
from tiny_presets import tiny_flags

TASK = PRESETS["vqa"].task
TOKENIZER = TASK.tokenizer(None)
CONFIG = VisionLanguageModelConfig.from_dict({**PRESETS["vqa"].model, **TASK.options(TOKENIZER)})


def digits_of(rng):
    """Ten pictures without any doubt, and noise on those of the test."""
    images = rng.integers(0, 2, (10, 8, 8, 1)).astype(np.float32)
    noise = 0.1 * rng.standard_normal((20, 8, 8, 1)).astype(np.float32)
    labels = np.arange(10)
    return Digits(images, labels, np.concatenate([images] * 2) + noise, np.tile(labels, 2))


@pytest.fixture(scope="module")
def run(tmp_path_factory, few_examples):
    """A finished run of 4 steps."""
    out = tmp_path_factory.mktemp("questions") / "run"
    assert main(["train", *tiny_flags("vqa"), "--out", str(out)]) == 0
    return out


def test_targets_are_the_answer_and_its_end(rng):
    examples = asked(*digits_of(rng)[:2], 200, rng)
    ids, images, targets = question_batch(examples, TOKENIZER, CONFIG)
    assert ids.shape == targets.shape == (200, 12) and images.shape == (200, 16, 16, 1)
    end = TOKENIZER.special_id("[EOS]")
    for row, target, question, answer in zip(ids, targets, examples.questions, examples.answers):
        counted, asked_ids = target != IGNORE_INDEX, TOKENIZER.encode(question)
        assert target[counted].tolist() == [*TOKENIZER.encode(answer), end]
        assert (row[:len(asked_ids)] == asked_ids).all()
        assert counted.argmax() == len(asked_ids) - 1, "the last token of the question"
        n = counted.sum() - 1
        assert row[len(asked_ids):len(asked_ids) + n].tolist() == target[counted][:n].tolist()


@pytest.mark.slow
def test_nearest_digits_read_clear_pictures_and_the_question_alone_guesses(rng):
    digits = digits_of(rng)
    examples = held_out(digits).some(np.arange(400))
    right = np.array(examples.answers)
    share = {name: (np.array(found) == right).mean()
             for name, found in simple_answers(digits, examples).items()}
    assert share["nearest_digits"] == 1 and share["question_alone"] < 0.2
    assert share["question_alone"] < share["nearest_picture"] < 1
    assert most_frequent_answer(QUESTIONS[-1]) == "9"


@pytest.mark.slow
def test_greedy_answers_are_those_of_whole_forwards(run):
    model, tokenizer, _, task = load_run(run)
    examples = held_out(task.load(None).digits).some(np.arange(6))
    answers = task.answers(model, tokenizer, examples)
    for row, (question, answer) in enumerate(zip(examples.questions, answers)):
        asked_ids, ids = tokenizer.encode(question), tokenizer.encode(answer)
        text = np.concatenate([asked_ids, ids])[None]
        logits = model(text, examples.images[row:row + 1].astype(np.float32))[0]
        found = logits[len(asked_ids) - 1:].argmax(axis=1)
        assert (found[:len(ids)] == ids).all()


def test_a_picture_is_made_for_the_digits_of_a_prompt(run, capsys):
    status, said, _ = call(capsys, "sample", run, "--prompt", "what is 3+7?")
    assert status == 0 and said.strip()
    examples = TASK.shown(QUESTIONS[0], 3, 7)
    assert examples.numbers.tolist() == [[3, 7]] and examples.answers == ["3+7=10"]
    for prompt in ("what is 3+17?", "what is 3/7?", "who is it?"):
        status, _, err = call(capsys, "sample", run, "--prompt", prompt)
        assert status == 2 and "ask 'what is 3+7?'" in err and err.count("\n") == 1


@pytest.mark.parametrize("argv, words", [
    (["--image-size", "20"], "leave --image-size out"),
    (["--context-length", "27"], "use --context-length 28")])
def test_wrong_sizes_are_one_line(capsys, argv, words, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "vqa", "--out", tmp_path / "r", *argv)
    assert status in (1, 2) and words in err and not (tmp_path / "r").exists()
