"""Every mistake on the command line is one line with a cure, never a traceback."""

import os
import subprocess
import sys

import numpy as np
import pytest

from command import SMALL, TEXT, call, content, last_json
from numformer.runs import CheckpointError, RunFolder, load_checkpoint, load_run, save_checkpoint
from numformer.terminal import shell_word


@pytest.mark.parametrize("argv, words", [
    (["train", "--preset", "huge"],
     "--preset huge is unknown; choose from tiny, browser, nanogpt-cpu, nanogpt"),
    (["train", "--colour", "red"], "numformer train: unknown flag --colour; leave it out"),
    (["train", "--n-layers", "two"], "--n-layers: 'two' must be a whole number in digits"),
    (["train", "--n-heads", "5"], "d_model=96 is not divisible by n_heads=5; use n_heads=4"),
    (["train", "--steps", "0"], "steps=0 must be a whole number, 1 or more"),
    (["train", "--shards", "13", "--batch-size", "12"], "--shards 13 must be at most --batch-size"),
    (["figures", "attentoin"], "there is no attentoin (did you mean attention?)"),
    (["train", "--dropout", "1.5"], "dropout=1.5"), (["train", "--threads", "0"], "--threads 0"),
    (["train", "--optimizer", "lion"], "choose from 'sgd', 'adam', 'adamw'"),
    (["train", "--resume"], "--out RUN"), (["train", "--seed", "-1"], "seed=-1"),
    (["train", "--rotary-scaling", "linear"], "'linear' must be an object of JSON"),
    (["train", "--rotary-scaling", "[2]"], "'[2]' must be an object of JSON"),
    (["train", "--rotary-scaling", '{"kind": "ntk"}'], "kind of scaling='ntk' is unknown"),
    (["fly"], "VERB: 'fly' is unknown; choose from train"),
    ([], "VERB is missing; see numformer --help"),
    (["trian"], "'trian' is unknown (did you mean train?)"),
    (["train", "--preset", "nanogtp"], "--preset nanogtp is unknown (did you mean nanogpt?)"),
    (["train", "--optimizer", "adamv"], "'adamv' is unknown (did you mean adam?)"),
    (["train", "--steps", "1e9"], "'1e9' must be a whole number in digits, such as 1000"),
    (["train", "--steps", "\uff11\uff12"], "must be a whole number in digits"),
    (["train", "--steps", "9" * 5000], "a number of 5000 digits is too long"),
    (["train", "--steps"], "--steps needs a value"),
    (["train", "--resume=yes"], "--resume takes no value, but got 'yes'"),
    (["train", "--learning-rate", "0x10"], "'0x10' must be a number, such as 0.1"),
    (["eval", "a", "b"], "'b' is one argument too many"),
    (["eval"], "RUN is missing; see numformer eval --help"),
    (["eval", "\x1b[2J\u202e"], "there is no \\x1b[2J\\u202e/checkpoint.safetensors"),
    (["train", "--\x1b[2J"], "unknown flag --\\x1b[2J"),
    (["count", "gpt9"], "gpt9 is neither a model nor a run"), (["bench"], "subject"),
    (["bench", "attention", "--case", "1x2x3:causal"], "must read BxHxTxD:PATTERN"),
    (["bench", "attention", "--case", "1x0x3x4:causal"], "must read BxHxTxD:PATTERN"),
    (["bench", "attention", "--threads", "0"], "--threads=0"),
    (["bench", "attention", "--seconds", "nan"], "--seconds=nan"),
    (["bench", "attention", "--case", "1x1x8x257:causal"], "D up to 256"),
    (["eval", "nowhere"], "there is no nowhere/checkpoint.safetensors"),
    (["sample", "nowhere"], "there is no nowhere/checkpoint.safetensors"),
    (["sample", "x", "--prompt", ""], "--prompt is empty"),
    (["sample", "x", "--seed", "-1"], "--seed=-1"),
    (["sample", "x", "--temperature", "-1"], "temperature=-1.0"),
    (["sample", "x", "--top-k", "0"], "top_k=0"), (["sample", "x", "--top-p", "2"], "top_p=2.0"),
    (["sample", "x", "--tokens", "-1"], "--tokens=-1"),
    (["train", "--step", "5"], "unknown flag --step; did you mean --steps?"),
    (["train", "--data", "typo.txt"], "typo.txt cannot be read: No such file"),
    (["train", "--data", "."], "cannot be read: Is a directory"),
    (["train", "--data", ""], "cannot be read: Is a directory"),
    (["train", "--stop-at", "0"], "--stop-at 0 must be greater than the current step, 0"),
    (["train", "--stop-at", "641"], "at most the last, 640"),
    (["train", "--resume", "--out", "typo", "--steps", "9"], "there is no run in typo"),
    (["train", "--epsilon", "0"], "epsilon=0.0"),
    (["train", "--learning-rate", "1e-5"],
     "min_learning_rate=0.0002 must not be above learning_rate=1e-05; lower it too"),
    (["train", "--d-model", "1000000007"], "not divisible by n_heads=4; use n_heads=1")])
def test_wrong_usage_is_one_line_and_status_2(capsys, argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err = call(capsys, *argv)
    assert status == 2 and words in err and err.startswith("numformer")
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir()), "no file was made"


@pytest.mark.parametrize("content, words", [
    (b"", "is empty"),
    (b"ten chars " * 11,
     "its last tenth, to validate on, are 11 characters, but a block of context_length=16"),
    (b"\0\1\2" * 100, "binary file"), (b"caf\xe9" * 100, "not text in UTF-8")])
def test_a_text_that_cannot_be_trained_on_makes_no_run(capsys, content, words, tmp_path):
    (tmp_path / "f.txt").write_bytes(content)
    status, _, err = call(capsys, "train", "--data", tmp_path / "f.txt", "--out", tmp_path / "r",
                          *SMALL)
    assert status == 1 and words in err and len(err.strip().splitlines()) == 1
    assert not (tmp_path / "r").exists()


def test_train_does_not_overwrite_another_run(capsys, run, text):
    before = content(run)
    status, _, err = call(capsys, "train", "--data", text, "--out", run, *SMALL)
    assert status == 2 and "contains a run already; add --resume" in err and content(run) == before


@pytest.mark.parametrize("argv, words", [
    (["--steps", "0"], "steps=0"), (["--steps", "29"], "is at step 30"),
    (["--stop-at", "30"], "the current step, 30"),
    (["--d-model", "32"], "--d-model 32 differs from that of"),
    (["--learning-rate", "0.5"], ", 0.004; leave it out"),
    (["--preset", "nanogpt"], "leave it out")])
def test_resuming_with_other_settings_is_an_error(capsys, run, argv, words):
    status, _, err = call(capsys, "train", "--resume", "--out", run, *argv)
    assert status == 2 and words in err


def test_an_out_that_is_a_file_is_an_error_and_keeps_the_file(capsys, text, tmp_path):
    (tmp_path / "f").write_text("mine")
    status, _, err = call(capsys, "train", "--data", text, "--out", tmp_path / "f", *SMALL)
    assert status == 2 and "cannot be created" in err and (tmp_path / "f").read_text() == "mine"


def test_an_estimated_loss_names_its_number_of_blocks(capsys, text, tmp_path):
    status, out, err = call(capsys, "train", "--data", text, "--out", tmp_path / "r", "--steps", 2,
                            "--eval-blocks", 3, "--json", *SMALL)
    assert status == 0 and " targets (--eval-blocks 3); run" in " ".join(err.split())
    assert last_json(out)["val_blocks"] == 3


def test_resuming_with_another_text_is_an_error(capsys, run, tmp_path):
    (tmp_path / "other.txt").write_text(TEXT + "!")
    status, _, err = call(capsys, "train", "--resume", "--out", run, "--data",
                          tmp_path / "other.txt")
    assert status == 2 and "not the text" in err and "fox.txt" in err


def broken(run, tmp_path, change):
    """A run whose checkpoint went through `change(arrays, facts)`, or replaced by bytes."""
    out = tmp_path / "broken"
    out.mkdir()
    arrays, facts = load_checkpoint(run / "checkpoint.safetensors")
    if callable(change):
        change(arrays, facts)
        save_checkpoint(out / "checkpoint.safetensors", arrays, facts)
    else:
        (out / "checkpoint.safetensors").write_bytes(change)
    return out


@pytest.mark.parametrize("change, words", [
    (b"not a checkpoint", "is no checkpoint"),
    (lambda arrays, facts: facts["model"]["config"].update(d_model=32),
     "shapes do not match its config"),
    (lambda arrays, facts: arrays.pop("model.norm.weight"), "missing: norm.weight"),
    (lambda arrays, facts: facts["model"].update(kind="Encoder"), "its model is called 'Encoder'"),
    (lambda arrays, facts: facts["model"]["config"].update(n_heads=5), "not divisible"),
    (lambda arrays, facts: facts["data"].pop("sha256"), "data is without sha256"),
    (lambda arrays, facts: facts.pop("training"), "does not describe a run"),
    (lambda arrays, facts: facts.pop("tokenizer"), "does not describe a run")])
@pytest.mark.parametrize("verb", ["eval", "sample", "train"])
def test_a_broken_checkpoint_is_one_line(capsys, run, tmp_path, change, words, verb):
    out = broken(run, tmp_path, change)
    status, _, err = call(capsys,
                          *(["train", "--resume", "--out", out] if verb == "train"
                            else [verb, out]))
    assert status == 1 and words in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("change, words", [
    (lambda arrays, facts: arrays.pop("optimizer.mean.norm.weight"), "another optimizer"),
    (lambda arrays, facts: facts.pop("progress"), "progress must hold"),
    (lambda arrays, facts: facts["training"].update(optimizer="lion"), "'adamw'"),
    (lambda arrays, facts: facts["training"].update(colour=1), "colour")])
def test_a_checkpoint_that_cannot_be_resumed_is_one_line(capsys, run, tmp_path, change, words):
    status, _, err = call(capsys, "train", "--resume", "--out", broken(run, tmp_path, change))
    assert status == 1 and words in err and len(err.strip().splitlines()) == 1


def test_nan_in_a_checkpoint_names_its_parameter(capsys, run, tmp_path):
    def poison(arrays, facts):
        arrays["model.blocks.0.attention.key.weight"][1, 2] = np.nan
        facts["progress"].update(step=20, evaluated_at=20, best_step=20)

    out = broken(run, tmp_path, poison)
    status, _, err = call(capsys, "train", "--resume", "--out", out)
    assert status == 1 and "parameter blocks.0.attention.key.weight holds nan at (1, 2)" in err
    status, _, err = call(capsys, "sample", out)
    assert status == 1 and "parameter blocks.0.attention.key.weight holds nan at (1, 2)" in err
    status, printed, err = call(capsys, "eval", out, "--json")
    assert status == 1 and not printed
    assert "parameter blocks.0.attention.key.weight holds nan at (1, 2)" in err


def test_an_unknown_character_in_the_prompt_is_named_with_its_position(capsys, run):
    status, out, err = call(capsys, "sample", run, "--prompt", "the Ω")
    assert status == 2 and "--prompt: " in err and "'Ω' (U+03A9) at position 4" in err and not out


def test_eval_notices_that_the_text_has_changed(capsys, tmp_path):
    (tmp_path / "f.txt").write_text(TEXT)
    call(capsys, "train", "--data", tmp_path / "f.txt", "--out", tmp_path / "r", "--steps", 1,
         *SMALL)
    (tmp_path / "f.txt").write_text(TEXT + "the end")
    status, _, err = call(capsys, "eval", tmp_path / "r")
    assert status == 2 and "is not the text of this run" in err


@pytest.mark.slow
def test_a_full_disk_for_the_metrics_is_one_line_and_the_run_resumes(capsys, text, tmp_path):
    """/dev/full cannot be written to; the checkpoint is elsewhere and stays."""
    out = tmp_path / "r"
    call(capsys, "train", "--data", text, "--out", out, "--steps", 30, "--stop-at", 10, *SMALL)
    real = RunFolder.open

    def full(self, *state):
        real(self, *state)
        self._file.close()
        self._file = open("/dev/full", "ab", buffering=0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "open", full)
        status, _, err = call(capsys, "train", "--resume", "--out", out)
    assert status == 1 and f"{out / 'metrics.jsonl'}: No space left on device" in err
    assert "numformer train --resume" in err
    assert call(capsys, "train", "--resume", "--out", out)[0] == 0


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_keeps_the_last_checkpoint(capsys, text, tmp_path, monkeypatch):
    out = tmp_path / "r"
    call(capsys, "train", "--data", text, "--out", out, "--steps", 30, "--save-every", 10,
         "--stop-at", 10, *SMALL)
    before = (out / "checkpoint.safetensors").read_bytes()
    real = os.replace

    def full(source, target):
        if str(target).endswith("checkpoint.safetensors"):
            raise OSError(28, "No space left on device", str(target))
        return real(source, target)

    monkeypatch.setattr(os, "replace", full)
    status, _, err = call(capsys, "train", "--resume", "--out", out)
    assert status == 1 and "checkpoint.safetensors: No space left on device" in err
    assert f"numformer train --resume --out {shell_word(out)}" in err
    assert (out / "checkpoint.safetensors").read_bytes() == before and not list(out.glob(".*.tmp"))


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(run):
    command = (f"{shell_word(sys.executable)} -m numformer sample {shell_word(run)} --tokens 2000 "
               "| head -c 5")
    process = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert len(process.stdout) == 5 and "Error" not in process.stderr


def test_load_run_gives_model_tokenizer_facts_and_task(run):
    model, tokenizer, facts, task = load_run(run)
    assert tokenizer.decode(tokenizer.encode("fox")) == "fox" and facts["preset"] == "tiny"
    assert task.name == "text"
    with pytest.raises(CheckpointError):
        (run.parent / "empty").mkdir()
        (run.parent / "empty" / "checkpoint.safetensors").write_bytes(b"")
        load_run(run.parent / "empty")
