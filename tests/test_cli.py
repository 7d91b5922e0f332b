"""The command line as a user meets it: every verb, every mistake, in processes of their own where that matters."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from command import SMALL, TEXT, call, content, last_json
from numformer.benchmarks.attention import Case
from numformer.cli import VERBS
from numformer.commands.runs import load_run
from numformer.training import CheckpointError, RunFolder, load_checkpoint, save_checkpoint

# ---- what works -----------------------------------------------------------------------------------------------------


def test_train_leaves_a_run_behind(run, text):
    assert {path.name for path in run.iterdir()} == {
        "checkpoint.safetensors", "best.safetensors", "config.json", "metrics.jsonl", "loss.png", "attention.png"}
    config = json.loads((run / "config.json").read_text())
    assert config["model"]["config"]["d_model"] == 16 and config["training"]["steps"] == 30 and config["data"]["argument"] == text
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics if "loss" in line] == list(range(1, 31))
    assert [line["step"] for line in metrics if "val_loss" in line] == [10, 20, 30]
    for picture in ("loss.png", "attention.png"):
        assert (run / picture).read_bytes().startswith(b"\x89PNG") and (run / picture).stat().st_size > 5000


def test_train_prints_json(capsys, text, tmp_path):
    status, out, err = call(capsys, "train", "--data", text, "--out", tmp_path / "r", "--steps", 3, "--json", *SMALL)
    result = last_json(out)
    assert status == 0 and {"steps", "tokens", "train_seconds", "train_loss", "val_loss", "parameters", "run"} <= set(result)
    assert result["steps"] == 3 and result["tokens"] == 3 * 4 * 16 and result["run"] == str(tmp_path / "r")
    assert "numformer sample" in out and "validation loss" in err


def test_eval_gives_the_loss_of_training(capsys, run):
    status, out, _ = call(capsys, "eval", run, "--json")
    result = last_json(out)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert status == 0 and result["val_loss"] == lines[-1]["val_loss"] and result["tokens"] == len(TEXT) - int(0.9 * len(TEXT)) - 1
    assert abs(result["bits_per_character"] - result["val_loss"] / np.log(2)) < 1e-12
    best = last_json(call(capsys, "eval", run, "--best", "--json")[1])
    assert best["val_loss"] == min(line["val_loss"] for line in lines if "val_loss" in line)


def test_eval_on_another_text(capsys, run, tmp_path):
    (tmp_path / "other.txt").write_text(TEXT[::-1])
    assert last_json(call(capsys, "eval", run, "--data", tmp_path / "other.txt", "--json")[1])["val_loss"] > 1
    for other, words in (("short", "the last tenth of other.txt cannot be measured"), ("the Ω " * 200, "'Ω'")):
        (tmp_path / "other.txt").write_text(other)
        status, _, err = call(capsys, "eval", run, "--data", tmp_path / "other.txt")
        assert status == 1 and words in err and "other.txt" in err


def test_sample_streams_and_repeats(capsys, run):
    status, out, _ = call(capsys, "sample", run, "--prompt", "the", "--tokens", 40, "--seed", 3)
    assert status == 0 and out.startswith("the") and len(out) == 3 + 40 + 1
    result = last_json(call(capsys, "sample", run, "--prompt", "the", "--tokens", 40, "--seed", 3, "--json")[1])
    assert result["text"] + "\n" == out and result["tokens"] == 40 and result["seconds"] > 0
    greedy = [call(capsys, "sample", run, "--tokens", 40, "--temperature", 0, "--seed", seed)[1] for seed in (0, 9)]
    assert greedy[0] == greedy[1]
    assert call(capsys, "sample", run, "--top-k", 3, "--top-p", 0.9, "--tokens", 0)[:2] == (0, "\n\n")


@pytest.mark.parametrize("name, parameters", [("gpt2-xl", 1557611200), ("gpt3", 174604259328), ("gpt1", 116534784)])
def test_count(capsys, name, parameters):
    status, out, _ = call(capsys, "count", name, "--json")
    result = last_json(out)
    assert status == 0 and result["parameters"] == parameters and result["flops_per_token"] > 0 and result["kv_bytes_per_token"] > 0


def test_count_of_a_run(capsys, run):
    model, *_ = load_run(run)
    assert last_json(call(capsys, "count", run, "--json")[1])["parameters"] == sum(a.size for a in model.state_dict().values())


@pytest.mark.parametrize("memory", [False, True])
def test_bench_attention(capsys, monkeypatch, memory):
    if memory and not os.path.exists("/proc/self/clear_refs"):
        pytest.skip("this system does not tell a process its peak of memory")
    monkeypatch.setattr("numformer.benchmarks.attention.compile_seconds", lambda: 12.3)      # its own test follows
    more = ["--threads", 2, "--case", "1x4x512x16:causal"] if memory else ["--no-memory", "--case", "1x2x48x8:window=5"]
    status, out, _ = call(capsys, "bench", "attention", "--seconds", 0, "--json", *more)
    row, = last_json(out)["cases"]
    assert status == 0 and row["case"] == more[-1] and row["case"] in out
    assert row["forward_ms"] > 0 and row["backward_ms"] > 0 and row["numpy_forward_ms"] > 0 and row["sgemm_gflops"] > 0
    assert row["forward_of_sgemm"] == pytest.approx(Case.parse(more[-1]).flops / row["forward_ms"] / row["sgemm_gflops"] / 1e6)
    assert (row["torch_forward_ms"] is None) == (row["times_torch"] is None) == (find_spec("torch") is None)
    if memory:
        assert row["numpy_extra_bytes"] > 4 * 512 * 512 * 4 > row["extra_bytes"] >= 0
    else:
        assert row["extra_bytes"] is row["numpy_extra_bytes"] is None


def test_the_time_of_compiling_is_that_of_both_kernels_without_a_cache(monkeypatch):
    pytest.importorskip("numba")
    from numformer import backend
    from numformer.benchmarks.attention import compile_seconds
    from numformer.kernels import activations

    asked = []
    for name in ("ACTIVATION", "ACTIVATION_BACKWARD"):                # quicker to compile than those of attention
        kernel = getattr(activations, name)
        monkeypatch.setattr(kernel, "compile", lambda *given, at=kernel.compile, **options: asked.append((given, options)) or at(
            *given, **options))
    monkeypatch.setattr(backend, "compiled_attention", lambda: SimpleNamespace(
        FORWARD=activations.ACTIVATION, BACKWARD=activations.ACTIVATION_BACKWARD))
    assert compile_seconds() > 0.01
    assert asked == 2 * [((np.float32,), {"cached": False, "notice": False})]


def test_flops_of_a_case():
    """4 D for every pair that may attend: a product and a sum for the score, and for the output."""
    assert Case.parse("2x3x5x7:causal").flops == 4 * 2 * 3 * 7 * 15
    assert Case.parse("2x3x5x7:everywhere").flops == 4 * 2 * 3 * 7 * 25
    assert Case.parse("2x3x5x7:window=1").flops == 4 * 2 * 3 * 7 * 9


def test_doctor(capsys):
    status, out, _ = call(capsys, "doctor", "--json")
    result = last_json(out)
    assert status == 0 and result["ok"] and all(check["ok"] for check in result["checks"])
    names = {check["name"] for check in result["checks"]}
    assert {"Python", "packages", "BLAS", "threads", "gradients", "training", "checkpoints"} <= names


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb(capsys, verb):
    status, out, _ = call(capsys, verb, "--help")
    assert status == 0 and "--json" in out


def test_the_module_runs_like_the_command():
    process = subprocess.run([sys.executable, "-m", "numformer", "--version"], capture_output=True, text=True, check=True)
    assert process.stdout.startswith("numformer 0.")


def test_a_default_folder_is_new_every_time(capsys, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("runs/tiny", "runs/tiny-2"):
        assert last_json(call(capsys, "train", "--data", text, "--steps", 1, "--json", *SMALL)[1])["run"] == name


def test_patience_ends_a_run(capsys, text, tmp_path):
    argv = ["train", "--data", text, "--out", tmp_path / "r", "--steps", 40, "--eval-every", 1, "--patience", 2, "--learning-rate", 0,
            "--min-learning-rate", 0, "--json", *SMALL]
    result = last_json(call(capsys, *argv)[1])
    assert result["ended"] == "out of patience" and result["steps"] == 3
    more = last_json(call(capsys, "train", "--out", tmp_path / "r", "--resume", "--patience", 4, "--json")[1])
    assert more["ended"] == "out of patience" and more["steps"] == 5


# ---- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv, words", [
    (["train", "--preset", "huge"], "--preset huge is unknown; choose from tiny, nanogpt-cpu, nanogpt"),
    (["train", "--colour", "red"], "unrecognized arguments: --colour red"),
    (["train", "--n-layers", "two"], "invalid int value: 'two'"),
    (["train", "--n-heads", "5"], "d_model=96 is not divisible by n_heads=5; use n_heads=4"),
    (["train", "--steps", "0"], "steps=0 must be a whole number, 1 or more"),
    (["train", "--dropout", "1.5"], "dropout=1.5"),
    (["train", "--threads", "0"], "--threads 0"),
    (["train", "--optimizer", "lion"], "choose from 'sgd', 'adam', 'adamw'"),
    (["train", "--resume"], "--out RUN"),
    (["train", "--seed", "-1"], "seed=-1"),
    (["fly"], "invalid choice: 'fly'"),
    ([], "required: VERB"),
    (["count", "gpt9"], "gpt9 is neither a model nor a run"),
    (["bench"], "subject"), (["bench", "attention", "--case", "1x2x3:causal"], "must read BxHxTxD:PATTERN"),
    (["bench", "attention", "--case", "1x0x3x4:causal"], "must read BxHxTxD:PATTERN"),
    (["bench", "attention", "--threads", "0"], "--threads=0"), (["bench", "attention", "--seconds", "nan"], "--seconds=nan"),
    (["bench", "attention", "--case", "1x1x8x257:causal"], "D up to 256"),
    (["eval", "nowhere"], "there is no nowhere/checkpoint.safetensors"),
    (["sample", "nowhere"], "there is no nowhere/checkpoint.safetensors"),
    (["sample", "x", "--prompt", ""], "--prompt is empty"),
    (["sample", "x", "--seed", "-1"], "--seed=-1"),
    (["sample", "x", "--temperature", "-1"], "temperature=-1.0"),
    (["sample", "x", "--top-k", "0"], "top_k=0"),
    (["sample", "x", "--top-p", "2"], "top_p=2.0"),
    (["sample", "x", "--tokens", "-1"], "--tokens=-1"),
    (["train", "--step", "5"], "unrecognized arguments: --step 5"),
    (["train", "--data", "typo.txt"], "typo.txt cannot be read: No such file"),
    (["train", "--data", "."], "cannot be read: Is a directory"),
    (["train", "--data", ""], "cannot be read: Is a directory"),
    (["train", "--stop-at", "0"], "--stop-at 0 must come after step 0"),
    (["train", "--stop-at", "641"], "not after the last, 640"),
    (["train", "--resume", "--out", "typo", "--steps", "9"], "there is no run in typo"),
    (["train", "--epsilon", "0"], "epsilon=0.0"),
    (["train", "--learning-rate", "1e-5"], "min_learning_rate=0.0002 must not be above learning_rate=1e-05; lower it too"),
    (["train", "--d-model", "1000000007"], "not divisible by n_heads=4; use n_heads=1"),
])
def test_wrong_usage_is_one_line_and_status_2(capsys, argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err = call(capsys, *argv)
    assert status == 2 and words in err and err.strip().splitlines()[-1].startswith("numformer")
    assert not list(tmp_path.iterdir()), "nothing was made"


@pytest.mark.parametrize("content, words", [
    (b"", "is empty"),
    (b"ten chars " * 11, "its last tenth, to validate on, are 11 characters, but a block of context_length=16"),
    (b"\0\1\2" * 100, "binary file"),
    (b"caf\xe9" * 100, "not text in UTF-8")])
def test_texts_that_cannot_be_trained_on(capsys, content, words, tmp_path):
    (tmp_path / "f.txt").write_bytes(content)
    status, _, err = call(capsys, "train", "--data", tmp_path / "f.txt", "--out", tmp_path / "r", *SMALL)
    assert status == 1 and words in err and len(err.strip().splitlines()) == 1 and not (tmp_path / "r").exists()


def test_a_folder_with_another_run_in_it(capsys, run, text):
    before = content(run)
    status, _, err = call(capsys, "train", "--data", text, "--out", run, *SMALL)
    assert status == 2 and "holds a run already; add --resume" in err and content(run) == before


@pytest.mark.parametrize("argv, words", [
    (["--steps", "0"], "steps=0"), (["--steps", "29"], "is at step 30"), (["--stop-at", "30"], "after step 30"),
    (["--d-model", "32"], "--d-model 32 is not what"), (["--learning-rate", "0.5"], "begun with, 0.004"),
    (["--preset", "nanogpt"], "leave it out")])
def test_resuming_with_other_settings(capsys, run, argv, words):
    status, _, err = call(capsys, "train", "--resume", "--out", run, *argv)
    assert status == 2 and words in err


def test_an_out_that_is_a_file(capsys, text, tmp_path):
    (tmp_path / "f").write_text("mine")
    status, _, err = call(capsys, "train", "--data", text, "--out", tmp_path / "f", *SMALL)
    assert status == 2 and "cannot be made a folder" in err and (tmp_path / "f").read_text() == "mine"


def test_every_flag_of_train_is_explained(capsys):
    out = " ".join(call(capsys, "train", "--help")[1].split())
    for words in ('"layer_norm" or "rms_norm"', '"cosine", "linear", "inverse_sqrt" or "constant"',
                  "--patience N int: Stop after this many",
                  "H, query heads"):
        assert words in out


def test_an_estimate_says_so(capsys, text, tmp_path):
    status, out, err = call(capsys, "train", "--data", text, "--out", tmp_path / "r", "--steps", 2, "--eval-blocks", 3, "--json", *SMALL)
    assert status == 0 and "an estimate, over 3 blocks" in err and last_json(out)["val_blocks"] == 3


def test_resuming_with_another_text(capsys, run, tmp_path):
    (tmp_path / "other.txt").write_text(TEXT + "!")
    status, _, err = call(capsys, "train", "--resume", "--out", run, "--data", tmp_path / "other.txt")
    assert status == 2 and "not the text" in err and "fox.txt" in err


def broken(run, tmp_path, change):
    """A run whose checkpoint went through `change(arrays, facts)`, or bytes in its place."""
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
    (lambda arrays, facts: facts["model"]["config"].update(d_model=32), "another shape than its config"),
    (lambda arrays, facts: arrays.pop("model.norm.gain"), "missing: norm.gain"),
    (lambda arrays, facts: facts["model"].update(kind="Encoder"), "its model is called 'Encoder'"),
    (lambda arrays, facts: facts["model"]["config"].update(n_heads=5), "not divisible"),
    (lambda arrays, facts: facts["data"].pop("sha256"), "data is without sha256"),
    (lambda arrays, facts: facts.pop("training"), "does not describe a run"),
    (lambda arrays, facts: facts.pop("tokenizer"), "does not describe a run")])
@pytest.mark.parametrize("verb", ["eval", "sample", "train"])
def test_broken_checkpoints(capsys, run, tmp_path, change, words, verb):
    out = broken(run, tmp_path, change)
    status, _, err = call(capsys, *(["train", "--resume", "--out", out] if verb == "train" else [verb, out]))
    assert status == 1 and words in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("change, words", [
    (lambda arrays, facts: arrays.pop("optimizer.mean.norm.gain"), "another optimizer"),
    (lambda arrays, facts: facts.pop("progress"), "progress must hold"),
    (lambda arrays, facts: facts["training"].update(optimizer="lion"), "'adamw'"),
    (lambda arrays, facts: facts["training"].update(colour=1), "colour")])
def test_checkpoints_that_cannot_be_resumed(capsys, run, tmp_path, change, words):
    status, _, err = call(capsys, "train", "--resume", "--out", broken(run, tmp_path, change))
    assert status == 1 and words in err and len(err.strip().splitlines()) == 1


def test_nan_in_a_checkpoints_parameters(capsys, run, tmp_path):
    def poison(arrays, facts):
        arrays["model.blocks.0.attention.key.weight"][1, 2] = np.nan
        facts["progress"]["step"] = 20

    out = broken(run, tmp_path, poison)
    status, _, err = call(capsys, "train", "--resume", "--out", out)
    assert status == 1 and "parameter blocks.0.attention.key.weight holds nan at (1, 2)" in err
    status, _, err = call(capsys, "sample", out)
    assert status == 1 and "largest of the logits is nan" in err
    status, printed, err = call(capsys, "eval", out, "--json")
    assert status == 1 and not printed and "parameter blocks.0.attention.key.weight holds nan at (1, 2)" in err


def test_an_unknown_character_in_the_prompt(capsys, run):
    status, out, err = call(capsys, "sample", run, "--prompt", "the Ω")
    assert status == 2 and "--prompt: " in err and "'Ω' (U+03A9) at position 4" in err and not out


def test_eval_notices_that_the_text_has_changed(capsys, tmp_path):
    (tmp_path / "f.txt").write_text(TEXT)
    call(capsys, "train", "--data", tmp_path / "f.txt", "--out", tmp_path / "r", "--steps", 1, *SMALL)
    (tmp_path / "f.txt").write_text(TEXT + "the end")
    status, _, err = call(capsys, "eval", tmp_path / "r")
    assert status == 2 and "not the text that the run was begun with" in err


def test_metrics_on_a_full_disk(capsys, text, tmp_path):
    """/dev/full has room for nothing; the checkpoint lies elsewhere and stays."""
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
    assert status == 1 and f"{out / 'metrics.jsonl'}: No space left on device" in err and "numformer train --resume" in err
    assert call(capsys, "train", "--resume", "--out", out)[0] == 0


def test_a_full_disk_is_one_line_and_keeps_the_last_checkpoint(capsys, text, tmp_path, monkeypatch):
    out = tmp_path / "r"
    call(capsys, "train", "--data", text, "--out", out, "--steps", 30, "--save-every", 10, "--stop-at", 10, *SMALL)
    before = (out / "checkpoint.safetensors").read_bytes()
    real = os.replace

    def full(source, target):
        if str(target).endswith("checkpoint.safetensors"):
            raise OSError(28, "No space left on device", str(target))
        return real(source, target)

    monkeypatch.setattr(os, "replace", full)
    status, _, err = call(capsys, "train", "--resume", "--out", out)
    assert status == 1 and "checkpoint.safetensors: No space left on device" in err and f"numformer train --resume --out {out}" in err
    assert (out / "checkpoint.safetensors").read_bytes() == before and not list(out.glob(".*.tmp"))


def test_a_reader_that_goes_away_is_no_error(run):
    command = f"{sys.executable} -m numformer sample {run} --tokens 2000 | head -c 5"
    process = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert len(process.stdout) == 5 and "Error" not in process.stderr


def test_load_run_from_a_notebook(run):
    model, tokenizer, facts, task = load_run(run)
    assert tokenizer.decode(tokenizer.encode("fox")) == "fox" and facts["preset"] == "tiny" and task.name == "text"
    with pytest.raises(CheckpointError):
        (run.parent / "empty").mkdir()
        (run.parent / "empty" / "checkpoint.safetensors").write_bytes(b"")
        load_run(run.parent / "empty")
