"""GPT-1's way from the command line: a decoder of the library's texts, and a classifier on it."""

import numpy as np
import pytest

from command import call, content, last_json
from numformer.cli import main
from numformer.data.corpora import library
from numformer.recipes.library import library_task
from numformer.runs import load_run

TINY = ["--n-layers", "1", "--n-heads", "2", "--d-model", "8", "--d-hidden", "12",
        "--context-length", "32", "--batch-size", "8", "--warmup-steps", "2", "--steps", "4",
        "--eval-every", "2", "--eval-blocks", "6", "--save-every", "2"]


@pytest.fixture(scope="module", autouse=True)
def small_library():
    """Half of the library."""
    all_of_it = library._sections
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "_sections", lambda root: all_of_it(root)[::2])
        library_task._tokenizer.cache_clear()
        yield
    library_task._tokenizer.cache_clear()


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    out = tmp_path_factory.mktemp("gpt") / "r"
    assert main(["train", "--preset", "library-gpt", "--out", str(out), *TINY]) == 0
    return out


def test_the_decoder_is_measured_and_writes(decoder, capsys):
    result = last_json(call(capsys, "eval", decoder, "--json")[1])
    assert result["bits_per_character"] > 0 and result["tokens"] > 1000
    status, written, _ = call(capsys, "sample", decoder, "--prompt", "The value", "--tokens", 5)
    assert status == 0 and written.startswith("The value")
    status, _, error = call(capsys, "train", "--preset", "library-gpt", "--data", "some.txt")
    assert status == 1 and "leave --data out" in error


def test_the_classifier_trains_resumes_and_is_measured(capsys, tmp_path):
    one, other = tmp_path / "one" / "r", tmp_path / "other" / "r"
    argv = ["train", "--preset", "gpt-topics", *TINY]
    assert call(capsys, *argv, "--out", one)[0] == 0
    assert call(capsys, *argv, "--out", other, "--stop-at", "3")[0] == 0
    assert call(capsys, "train", "--resume", "--out", other)[0] == 0
    assert content(one) == content(other)
    result = last_json(call(capsys, "eval", one, "--json")[1])
    assert set(result) == {"val_loss", "tokens", "accuracy"} and 0 <= result["accuracy"] <= 1
    assert "->" in call(capsys, "sample", one)[1]
    assert call(capsys, "sample", one, "--prompt", "A list of names.")[0] == 0


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
    (["--n-classes", "3"], "unknown flag --n-classes"),
    (["--lm-weight", "-1"], "lm_weight=-1"),
])
def test_settings_that_do_not_fit_are_refused(argv, words, run, capsys, tmp_path):
    argv = [{"CHARACTERS": str(run)}.get(word, word) for word in argv]
    status, _, err = call(capsys, "train", "--preset", "gpt-topics", *argv, "--out",
                          tmp_path / "r")
    assert status in (1, 2) and words in err
