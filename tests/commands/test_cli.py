"""Every verb of the command line does what its help says."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from command import SMALL, TEXT, call, last_json
from marks import slow_among
from numformer import backend, commands
from numformer.benchmarks.attention import Case
from numformer.cli import VERBS
from numformer.models import PUBLISHED, Seq2SeqConfig
from numformer.runs import load_run

TABLE = Path(commands.__file__).with_name("COMMANDS.md")


def test_train_writes_checkpoints_config_metrics_and_pictures(run, text):
    assert {path.name for path in run.iterdir()} == {
        "checkpoint.safetensors", "best.safetensors", "config.json", "metrics.jsonl",
        "loss.png", "attention.png"}
    config = json.loads((run / "config.json").read_text())
    assert config["model"]["config"]["d_model"] == 16 and config["training"]["steps"] == 30
    assert config["data"]["argument"] == text
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics if "loss" in line] == list(range(1, 31))
    assert [line["step"] for line in metrics if "val_loss" in line] == [10, 20, 30]
    for picture in ("loss.png", "attention.png"):
        assert (run / picture).read_bytes().startswith(b"\x89PNG")
        assert (run / picture).stat().st_size > 5000


def test_train_prints_its_result_as_json(capsys, text, tmp_path):
    status, out, err = call(capsys, "train", "--data", text, "--out", tmp_path / "r", "--steps", 3,
                            "--json", *SMALL)
    result = last_json(out)
    assert status == 0
    assert {"steps", "tokens", "train_seconds", "train_loss", "val_loss", "parameters",
            "run"} <= set(result)
    assert result["steps"] == 3 and result["tokens"] == 3 * 4 * 16
    assert result["run"] == str(tmp_path / "r")
    assert "numformer sample" in out and "step 3: loss" in err


def test_eval_gives_the_loss_of_training(capsys, run):
    status, out, _ = call(capsys, "eval", run, "--json")
    result = last_json(out)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert status == 0 and result["val_loss"] == lines[-1]["val_loss"]
    assert result["tokens"] == len(TEXT) - int(0.9 * len(TEXT)) - 1
    assert abs(result["bits_per_character"] - result["val_loss"] / np.log(2)) < 1e-12
    best = last_json(call(capsys, "eval", run, "--best", "--json")[1])
    assert best["val_loss"] == min(line["val_loss"] for line in lines if "val_loss" in line)


def test_eval_measures_another_text_or_names_it_in_its_error(capsys, run, tmp_path):
    (tmp_path / "other.txt").write_text(TEXT[::-1])
    assert last_json(call(capsys, "eval", run, "--data", tmp_path / "other.txt",
                          "--json")[1])["val_loss"] > 1
    for other, words in (("short", "the last tenth of other.txt cannot be measured"),
                         ("the Ω " * 200, "'Ω'")):
        (tmp_path / "other.txt").write_text(other)
        status, _, err = call(capsys, "eval", run, "--data", tmp_path / "other.txt")
        assert status == 1 and words in err and "other.txt" in err


def test_sample_repeats_with_the_same_seed(capsys, run):
    status, out, _ = call(capsys, "sample", run, "--prompt", "the", "--tokens", 40, "--seed", 3)
    assert status == 0 and out.startswith("the") and len(out) == 3 + 40 + 1
    result = last_json(call(capsys, "sample", run, "--prompt", "the", "--tokens", 40, "--seed", 3,
                            "--json")[1])
    assert result["text"] + "\n" == out and result["tokens"] == 40 and result["seconds"] > 0
    greedy = [call(capsys, "sample", run, "--tokens", 40, "--temperature", 0, "--seed", seed)[1]
              for seed in (0, 9)]
    assert greedy[0] == greedy[1]
    status, out, _ = call(capsys, "sample", run, "--top-k", 3, "--top-p", 0.9, "--tokens", 0)
    assert (status, out) == (0, "\n\n")


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_sample_reads_smaller_weights_and_eval_tells_their_loss(capsys, run, weights):
    pytest.importorskip("numba")
    options = "sample", run, "--tokens", 20, "--temperature", 0, "--weights", weights
    status, out, _ = call(capsys, *options, "--json")
    assert status == 0 and last_json(out)["weights"] == weights
    assert last_json(out)["text"] + "\n" == call(capsys, *options)[1]
    status, out, _ = call(capsys, "eval", run, "--weights", weights, "--json")
    result, usual = last_json(out), last_json(call(capsys, "eval", run, "--json")[1])
    assert status == 0 and f"with {weights} weights" in out and result["weights"] == weights
    assert usual == {name: result[name] for name in usual}
    assert 0 < abs(result["weights_val_loss"] - usual["val_loss"]) < 0.05
    assert "weights" not in usual


@pytest.mark.parametrize("name, parameters", [
    ("gpt2-xl", 1557611200), ("gpt3", 174604259328), ("gpt1", 116534784)])
def test_count_gives_the_costs_of_published_models(capsys, name, parameters):
    status, out, _ = call(capsys, "count", name, "--json")
    result = last_json(out)
    assert status == 0 and result["parameters"] == parameters and result["flops_per_token"] > 0
    assert result["kv_bytes_per_token"] > 0


def test_count_of_a_run_equals_the_sizes_of_its_arrays(capsys, run):
    model, *_ = load_run(run)
    result = last_json(call(capsys, "count", run, "--json")[1])
    assert result["parameters"] == sum(array.size for array in model.state_dict().values())


@pytest.mark.parametrize("attention, kept", [("additive", "32        32  bytes per source token"),
                                             ("none", "16        16  bytes per sequence")])
def test_count_of_recurrent_networks_says_of_which_tokens(capsys, monkeypatch, attention, kept):
    config = Seq2SeqConfig(vocab_size=9, d_model=3, d_hidden=4, attention=attention)
    monkeypatch.setitem(PUBLISHED, "dates", config)
    status, out, _ = call(capsys, "count", "dates")
    assert status == 0 and kept in out and "bytes per token" not in out
    assert ("KV cache" in out) == (attention != "none")


@pytest.mark.parametrize("memory", slow_among([False, True], [True]))
def test_bench_attention_reports_times_memory_and_share_of_sgemm(capsys, monkeypatch, memory):
    if memory and not os.path.exists("/proc/self/clear_refs"):
        pytest.skip("this system does not report peak memory")
    # The next test covers the time of compilation.
    monkeypatch.setattr("numformer.benchmarks.attention.compile_seconds", lambda: 12.3)
    more = (["--threads", 2, "--case", "1x4x512x16:causal"] if memory
            else ["--no-memory", "--case", "1x2x48x8:window=5"])
    status, out, _ = call(capsys, "bench", "attention", "--seconds", 0, "--json", *more)
    row, = last_json(out)["cases"]
    assert status == 0 and row["case"] == more[-1] and row["case"] in out
    assert row["forward_ms"] > 0 and row["backward_ms"] > 0 and row["numpy_forward_ms"] > 0
    assert row["sgemm_gflops"] > 0
    assert row["forward_of_sgemm"] == pytest.approx(Case.parse(more[-1]).flops / row["forward_ms"]
                                                    / row["sgemm_gflops"] / 1e6)
    assert (row["torch_forward_ms"] is None) == (row["times_torch"] is None) == (
        find_spec("torch") is None)
    if memory:
        assert row["numpy_extra_bytes"] > 4 * 512 * 512 * 4 > row["extra_bytes"] >= 0
    else:
        assert row["extra_bytes"] is row["numpy_extra_bytes"] is None


@pytest.mark.slow
def test_the_time_of_compiling_is_that_of_both_kernels_without_a_cache(monkeypatch):
    pytest.importorskip("numba")
    from numformer import backend
    from numformer.benchmarks.attention import compile_seconds
    from numformer.kernels import activations

    compiled = []
    for name in ("ACTIVATION", "ACTIVATION_BACKWARD"):  # quicker to compile than those of attention
        kernel = getattr(activations, name)
        monkeypatch.setattr(kernel, "compile", lambda *given, at=kernel.compile,
                            **options: compiled.append((given, options)) or at(*given, **options))
    monkeypatch.setattr(backend, "compiled_attention", lambda: SimpleNamespace(
        FORWARD=activations.ACTIVATION, BACKWARD=activations.ACTIVATION_BACKWARD))
    assert compile_seconds() > 0.01
    assert compiled == 2 * [((np.float32,), {"cached": False, "notice": False})]


def test_a_case_takes_4_D_flops_per_attended_pair():
    """One multiplication and one addition per coordinate: for the score, and for the output."""
    assert Case.parse("2x3x5x7:causal").flops == 4 * 2 * 3 * 7 * 15
    assert Case.parse("2x3x5x7:everywhere").flops == 4 * 2 * 3 * 7 * 25
    assert Case.parse("2x3x5x7:window=1").flops == 4 * 2 * 3 * 7 * 9


@pytest.mark.slow
def test_doctor_passes_all_its_checks(capsys):
    status, out, _ = call(capsys, "doctor", "--json")
    result = last_json(out)
    assert status == 0 and result["ok"] and all(check["ok"] for check in result["checks"])
    names = {check["name"] for check in result["checks"]}
    assert {"Python", "packages", "BLAS", "threads", "gradients", "training",
            "checkpoints"} <= names


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(capsys, verb):
    status, out, _ = call(capsys, verb, "--help")
    assert status == 0 and "--json" in out
    assert f"\n| `{verb}" in TABLE.read_text("utf-8"), "a row of its table says what it does"


def test_the_module_runs_like_the_command():
    process = subprocess.run([sys.executable, "-m", "numformer", "--version"], capture_output=True,
                             text=True, check=True)
    assert process.stdout.startswith("numformer 0.")


def test_a_default_folder_is_new_every_time(capsys, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("runs/tiny", "runs/tiny-2"):
        assert last_json(call(capsys, "train", "--data", text, "--steps", 1, "--json",
                              *SMALL)[1])["run"] == name


def test_patience_ends_a_run(capsys, text, tmp_path):
    argv = ["train", "--data", text, "--out", tmp_path / "r", "--steps", 40, "--eval-every", 1,
            "--patience", 2, "--learning-rate", 0, "--min-learning-rate", 0, "--json", *SMALL]
    result = last_json(call(capsys, *argv)[1])
    assert result["ended"] == "out of patience" and result["steps"] == 3
    more = last_json(call(capsys, "train", "--out", tmp_path / "r", "--resume", "--patience", 4,
                          "--json")[1])
    assert more["ended"] == "out of patience" and more["steps"] == 5


@pytest.mark.slow
def test_a_run_records_its_blas_and_a_note_says_where_another_goes_on(
        capsys, text, tmp_path, monkeypatch):
    argv = ["train", "--data", text, "--out", tmp_path / "r", "--steps", 6, *SMALL]
    for step, label, words in ((2, "MKL 1", ""), (4, "MKL 1", ""), (5, "OpenBLAS 2", (
            "was trained with MKL 1, and goes on with OpenBLAS 2")), (6, "OpenBLAS 2", "")):
        monkeypatch.setattr(backend, "blas_label", lambda: label)
        resume = ["--resume"] if step > 2 else []
        stop = ["--stop-at", step] if step < 6 else []
        status, out, err = call(capsys, *argv, *resume, *stop, "--json")
        assert status == 0 and last_json(out)["blas"] == label
        assert json.loads((tmp_path / "r" / "config.json").read_text())["blas"] == label
        assert words in err and ("note: " in err) == bool(words)
