"""Machines without Numba, threads, processes, forks or a BLAS that can be held: the same results,
and `doctor` says what is missing."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import machines
from command import call, content, last_json
from numformer import backend, functional
from numformer.commands import doctor
from numformer.models import Decoder
from numformer.runs import folder_lock
from numformer.teaching import grading, isolation


@pytest.fixture(scope="module")
def here(tmp_path_factory, text):
    """(results, files of the run) of this machine on the NumPy reference."""
    folder = tmp_path_factory.mktemp("here")
    with backend.using("numpy"):
        return machines.work(folder, text), folder


@pytest.mark.slow
@pytest.mark.parametrize("name, notes", [
    ("browser", {"BLAS", "threads", "processes", "limits", "locks", "kernels"}),
    ("windows", {"processes", "limits", "locks"})])
def test_a_machine_without_gives_the_same_results(name, notes, here, text, tmp_path):
    expected, folder = here
    program = Path(machines.__file__)
    paths = os.pathsep.join([str(program.parents[3]), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run([sys.executable, "-W", "error", program, name, tmp_path, text],
                           capture_output=True, text=True, timeout=600,
                           env={**os.environ, "PYTHONPATH": paths})
    assert ended.returncode == 0 and ended.stderr == "", ended.stderr[-2000:]
    found = last_json(ended.stdout)
    status, said = found.pop("doctor")
    for verb in ("train", "resume", "eval", "sample", "exercises", "grade"):
        assert found[verb][0] == expected[verb][0] == 0
        assert expected[verb][1].replace(str(folder), str(tmp_path)) == found[verb][1]
    for part in ("right", "wrong", "gradcheck"):
        assert found[part] == expected[part]
    assert found["right"] and not found["wrong"] and found["gradcheck"]
    assert all(found["audit"]) and len(found["audit"]) > 2
    files = content(folder / "run")
    assert files == content(tmp_path / "run") and "checkpoint.safetensors" in files
    assert status == 0
    assert {check["name"] for check in last_json(said)["checks"] if check["note"]} >= notes


@pytest.mark.parametrize("lacks, name, note", [
    (lambda patch: patch.setattr(backend, "blas_libraries", list), "BLAS",
     "its threads cannot be held: training may be slower, results are as usual"),
    (lambda patch: patch.setattr(np, "show_config", lambda mode: {
        "Build Dependencies": {"blas": {"name": "auto"}}}), "BLAS",
     "products are slow: its own loops stand in for a BLAS"),
    (lambda patch: patch.setattr(backend, "can_start_threads", lambda: False), "threads",
     "loops stand in for them: slower, with the same results"),
    (lambda patch: patch.setattr(grading, "has_processes", lambda: False), "processes",
     "what they run can end or change it"),
    (lambda patch: patch.setattr(doctor, "stops", lambda: None), "limits",
     "an endless loop in `check` never ends: press Ctrl-C"),
    (lambda patch: patch.setattr(doctor, "stops", lambda: "steps of Python"), "limits",
     "a loop is stopped; one long call of NumPy is not"),
    (lambda patch: patch.setattr(isolation, "may_fork", lambda: False), "processes",
     "`check` calls functions in this process"),
    (lambda patch: [patch.setattr(folder_lock, kind, None) for kind in ("fcntl", "msvcrt")],
     "locks", "two trainers in one folder would not notice each other"),
    (lambda patch: patch.setattr(folder_lock.fcntl, "flock", lambda *_: None), "locks",
     "two trainers in one folder would not notice each other"),
    (lambda patch: patch.setattr(backend, "compiled_attention", lambda: None), "kernels",
     "the NumPy reference runs: slower"),
    (lambda patch: patch.setattr(doctor.shutil, "which", lambda name: None), "MPI",
     "training runs in one process; for several machines install")])
def test_what_a_healthy_machine_lacks_is_a_note(lacks, name, note, monkeypatch):
    lacks(monkeypatch)
    found = doctor.checked(getattr(doctor, name.lower()))
    assert found["ok"] and found["name"] == name and note in found["note"]


def test_kernels_without_a_cache_are_a_note(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setenv("NUMFORMER_CACHE", "")
    folder, note = doctor.cache()
    assert folder is None and "in every process" in note and "NUMFORMER_CACHE is empty" in note


def diagnosis(capsys, monkeypatch, *checks):
    """(exit status, lines, JSON) of `doctor` with these checks alone."""
    for name in ("python", "packages", "extras", "blas", "threads", "processes", "limits", "locks",
                 "kernels", "gradients", "training", "checkpoints"):
        if name not in checks:
            monkeypatch.setattr(doctor, name, lambda: doctor.result("other", "as usual"))
    status, out, _ = call(capsys, "doctor", "--json")
    return status, out.splitlines(), last_json(out)


def test_a_note_passes(capsys, monkeypatch):
    monkeypatch.setattr(backend, "can_start_threads", lambda: False)
    status, lines, found = diagnosis(capsys, monkeypatch, "threads")
    assert status == 0 and found["ok"] and "all checks passed" in lines
    line = next(n for n, line in enumerate(lines) if line.startswith("note  threads"))
    assert lines[line + 1].strip().startswith("loops stand in for them")


@pytest.mark.parametrize("kind, words", [("Haswell", "OPENBLAS_CORETYPE=Haswell"), (None, "")])
def test_blas_says_for_which_processor_it_computes_and_who_decided(kind, words, monkeypatch):
    library = {"internal_api": "openblas", "version": "0.3", "num_threads": 2}
    monkeypatch.setattr(backend, "blas_libraries",
                        lambda: [{**library, "architecture": "Zen"}, library])
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if kind:
        monkeypatch.setenv("OPENBLAS_CORETYPE", kind)
    found = doctor.blas()
    assert found["found"].startswith("openblas 0.3 Zen, 2 threads; openblas 0.3, 2 threads; ")
    assert found["ok"] and bool(found["note"]) == bool(kind) and words in found["note"]


@pytest.mark.parametrize("name, breaks, words", [
    ("packages", lambda patch: patch.setattr(doctor, "PACKAGES", ("numpy", "numformer-missing")),
     "numformer-missing not installed"),
    ("gradients", lambda patch: patch.setattr(doctor, "Decoder", wrong_decoder), "relative error"),
    ("kernels", lambda patch: patch.setattr(doctor, "run_attention", unequal), "largest diff"),
    ("training", lambda patch: patch.setattr(doctor, "small_trainer", another_trainer),
     "not the same on 1, 2 and 4 threads"),
    ("checkpoints", lambda patch: patch.setattr(doctor, "load_checkpoint", dict),
     "it raised TypeError")])
def test_wrong_numbers_and_missing_packages_fail(name, breaks, words, capsys, monkeypatch):
    if name == "kernels":
        pytest.importorskip("numba")
    breaks(monkeypatch)
    status, lines, found = diagnosis(capsys, monkeypatch, name)
    assert status == 1 and not found["ok"] and "some checks failed: see FAIL above" in lines
    line, = (line for line in lines if line.startswith("FAIL"))
    assert name in line and words in line


def wrong_decoder(config, rng):
    model = Decoder(config, rng)
    backward = model.loss_backward
    model.loss_backward = lambda saved: (backward(saved), model.parameters()[0].grad.fill(1.0))
    return model


def unequal(functions, *arguments):
    return [np.full(2, float(functions is functional))]


def another_trainer(rng=np.random.default_rng(0)):
    return SimpleNamespace(train_step=lambda: {"loss": rng.random()})


def test_training_without_a_blas_that_can_be_held_may_differ_by_rounding(monkeypatch):
    losses = iter(np.linspace(3.0, 2.0, 20).tolist() * 3)
    monkeypatch.setattr(backend, "blas_libraries", list)
    monkeypatch.setattr(doctor, "small_trainer", lambda: SimpleNamespace(
        train_step=lambda: {"loss": next(losses) * (1 + 1e-14 * backend.get_threads())}))
    found = doctor.training()
    assert found["ok"] and "last digits depend on the number of threads" in found["note"]
    monkeypatch.setattr(doctor, "small_trainer", another_trainer)
    assert not doctor.training()["ok"]
