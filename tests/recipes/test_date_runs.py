"""Runs of sequence to sequence on written dates: pictures, measures, resuming, and mistakes."""

import datetime

import pytest

from command import call
from numformer.models import Seq2SeqConfig
from numformer.recipes import PRESETS, TASKS
from numformer.recipes.text_to_text.seq2seq import LENGTHS

TINY = ["--d-model", "8", "--d-hidden", "8", "--batch-size", "16", "--warmup-steps", "2",
        "--eval-blocks", "100"]
STEPS = ["--preset", "seq2seq", "--steps", "6", "--eval-every", "3", "--save-every", "2", *TINY]


@pytest.mark.slow
def test_without_attention_there_is_no_picture(capsys, tmp_path):
    argv = ["train", "--preset", "seq2seq", "--attention", "none", "--out", tmp_path / "r"]
    assert call(capsys, *argv, "--steps", 1, *TINY)[0] == 0
    assert (not (tmp_path / "r" / "alignment.png").exists()
            and (tmp_path / "r" / "loss.png").exists())


@pytest.mark.slow
def test_the_measure_counts_what_is_right():
    """A stand-in that writes every other date right: by lengths as over all."""
    task = TASKS["dates"]
    material = task.pairs()
    tokenizer, wrong = task.tokenizer(material), {source for source, _ in material.held_out[::2]}

    class Half(type(task)):
        def answers(self, model, tokenizer, sources):
            targets = dict(material.held_out)
            return [targets[source] + "!" * (source in wrong) for source in sources]

    measured = Half().measure(None, tokenizer, material)
    sizes = [sum(least <= len(source) < below for source, _ in material.held_out)
             for least, below in zip(LENGTHS, LENGTHS[1:])]
    assert measured.pop("exact") == 0.5 and sum(sizes) == 1000 and min(sizes) > 100
    assert sum(size * part for size, part in zip(sizes, measured.values())) == pytest.approx(500)


@pytest.mark.slow
def test_dates_held_out_are_not_trained_on():
    material = TASKS["dates"].pairs()
    trained, held_out = ({target for _, target in pairs}
                         for pairs in (material.training, material.held_out))
    assert not trained & held_out
    assert len(material.training) == 20000 and len(set(material.held_out)) == 1000
    assert all(datetime.date.fromisoformat(target) for _, target in material.held_out)


@pytest.mark.parametrize("argv, words", [
    (["--attention", "loud"], "attention='loud' is unknown; choose from 'additive'"),
    (["--d-hidden", "7"], "d_hidden=7 must be even")])
def test_mistakes_are_one_line(capsys, argv, words, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "seq2seq", "--out", tmp_path / "r", *argv)
    assert status in (1, 2) and words in err and not (tmp_path / "r").exists()


def test_the_preset_is_a_model_of_its_task():
    preset = PRESETS["seq2seq"]
    assert Seq2SeqConfig(vocab_size=50, **preset.model).attention == "additive"
