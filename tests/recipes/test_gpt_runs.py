"""GPT-1's way from the command line: a decoder of the library's texts, and a classifier on it."""

import numpy as np
import pytest

from command import call
from numformer.cli import main
from numformer.runs import load_run
from tiny_presets import tiny_flags


@pytest.fixture(scope="module")
def decoder(tmp_path_factory, few_examples):
    out = tmp_path_factory.mktemp("gpt") / "r"
    assert main(["train", *tiny_flags("library-gpt"), "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_a_classifier_begins_with_a_decoder(decoder, capsys, tmp_path):
    flags = ["--steps", "2", "--batch-size", "8", "--eval-blocks", "6", "--learning-rate", "0",
             "--min-learning-rate", "0", "--out", tmp_path / "r"]
    assert call(capsys, "train", "--preset", "gpt-topics", "--from", decoder, *flags)[0] == 0
    begun, tokenizer, facts, task = load_run(tmp_path / "r")
    start, start_tokenizer, *_ = load_run(decoder)
    assert facts["from"] == str(decoder.resolve()) and begun.lm_weight == 0.5
    assert tokenizer.to_json() == start_tokenizer.to_json() and begun.config.d_model == 8
    ids = np.array([[1, 50, 60, 70, 2]])
    assert np.array_equal(begun.backbone(ids), start(ids)), "a learning rate of 0 leaves it"


@pytest.mark.parametrize("argv, words", [
    (["--from", "CHARACTERS"], "special tokens [PAD] [CLS] [SEP] [MASK]"),
    (["--lm-weight", "-1"], "lm_weight=-1"),
])
def test_settings_that_do_not_fit_are_refused(argv, words, run, capsys, tmp_path):
    argv = [{"CHARACTERS": str(run)}.get(word, word) for word in argv]
    status, _, err = call(capsys, "train", "--preset", "gpt-topics", *argv, "--out",
                          tmp_path / "r")
    assert status in (1, 2) and words in err
