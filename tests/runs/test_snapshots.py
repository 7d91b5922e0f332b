"""Snapshots of a training: which steps, no effect on the run, the same after a resumption."""

import shutil

import numpy as np
import pytest

from command import SMALL, call
from marks import slow_among
from numformer.models import Decoder
from numformer.parameter import part_of
from numformer.runs import Snapshots, load_checkpoint, load_run, snapshot_steps

ARGV = ["--steps", "30", "--eval-every", "10", "--save-every", "10", *SMALL]


def contents(folder):
    """{path inside a folder: its bytes}, of files in subfolders too."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def filmed(tmp_path_factory, text):
    """A run like the fixture `run`, with five snapshots."""
    from numformer.cli import main

    out = tmp_path_factory.mktemp("filmed") / "fox"
    assert main(["train", "--data", text, "--out", str(out), "--snapshots", "5", *ARGV]) == 0
    return out


@pytest.mark.parametrize("count", [2, 3, 7, 40])
@pytest.mark.parametrize("steps", [1, 2, 6, 30, 640, 5000])
def test_steps_rise_from_0_to_the_last_with_growing_gaps(count, steps):
    chosen = snapshot_steps(count, steps)
    assert chosen[0] == 0 and chosen[-1] == steps and len(chosen) == min(count, steps + 1)
    gaps = np.diff(chosen)
    assert (gaps >= 1).all() and gaps[-1] == gaps.max()


@pytest.mark.parametrize("count, steps, words", [
    (1, 30, "count=1"), (5, 0, "steps=0"), (2.5, 30, "count=2.5")])
def test_steps_refuse_bad_numbers(count, steps, words):
    with pytest.raises((ValueError, TypeError), match=words):
        snapshot_steps(count, steps)


@pytest.mark.slow
def test_snapshots_leave_the_run_as_it_is(run, filmed):
    expected, found = contents(run), contents(filmed)
    steps = snapshot_steps(5, 30)
    assert {name: found.pop(name) for name in expected} == expected
    assert set(found) == {"snapshots/plan.json",
                          *(f"snapshots/{step}.safetensors" for step in steps)}


def test_snapshots_hold_the_weights_from_the_first_to_the_last(filmed):
    files = Snapshots(filmed).files()
    assert list(files) == snapshot_steps(5, 30)
    checkpoint, facts = load_checkpoint(filmed / "checkpoint.safetensors")
    last, its_facts = load_checkpoint(files[30])
    assert its_facts == {"step": 30} and last.keys() == {
        name for name in checkpoint if name.startswith("model.")}
    assert all(np.array_equal(last[name], checkpoint[name]) for name in last)
    model, *_ = load_run(filmed)
    initial = Decoder(model.config, np.random.default_rng([facts["training"]["seed"], 0]))
    first = part_of(load_checkpoint(files[0])[0], "model.")
    state = initial.state_dict()
    assert first.keys() == state.keys() and all(np.array_equal(first[k], state[k]) for k in state)


@pytest.mark.slow
@pytest.mark.parametrize("stop", slow_among([1, 7, 29], [1, 29]))
def test_a_resumed_run_has_the_same_snapshots(capsys, filmed, text, tmp_path, stop):
    out = tmp_path / filmed.name
    assert call(capsys, "train", "--data", text, "--out", out, "--snapshots", 5, "--stop-at", stop,
                *ARGV)[0] == 0
    (out / "snapshots" / f"{stop + 1}.safetensors").write_bytes(b"of a process that was killed")
    (out / "snapshots" / ".3.safetensors.77.tmp").write_bytes(b"of the same")
    assert call(capsys, "train", "--out", out, "--resume")[0] == 0
    assert contents(out) == contents(filmed)


@pytest.mark.slow
def test_a_new_run_removes_snapshots_of_a_killed_one(capsys, run, text, tmp_path):
    """Which died before its first checkpoint."""
    out = tmp_path / run.name
    Snapshots(out).path.mkdir(parents=True)
    Snapshots(out).begin(9)
    (out / "snapshots" / "0.safetensors").write_bytes(b"left by a kill")
    assert call(capsys, "train", "--data", text, "--out", out, *ARGV)[0] == 0
    assert contents(out) == contents(run) and Snapshots(out).count() is None


@pytest.mark.slow
def test_a_run_out_of_patience_keeps_its_last_state(capsys, text, tmp_path):
    out = tmp_path / "patient"
    status, printed, _ = call(capsys, "train", "--data", text, "--out", out, "--snapshots", 3,
                              "--steps", 40, "--eval-every", 1, "--patience", 1, *SMALL,
                              "--learning-rate", 3.0, "--warmup-steps", 0)
    ended = list(Snapshots(out).files())[-1]
    assert status == 0 and f"out of patience at step {ended}:" in printed and ended < 40


@pytest.mark.parametrize("argv, words", [
    (["--snapshots", 1], "--snapshots 1 must be 2 to 1000"),
    (["--snapshots", 1001], "--snapshots 1001 must be 2 to 1000"),
    (["--snapshots", 5, "--preset", "ngram"], "counts n-grams and has no weights")])
def test_snapshots_that_cannot_be_are_refused(capsys, text, tmp_path, argv, words):
    status, _, err = call(capsys, "train", "--data", text, "--out", tmp_path / "run", *argv)
    assert status == 2 and words in err and len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_resumed_run_keeps_its_number_of_snapshots(capsys, run, filmed):
    for folder, planned in ((filmed, "5"), (run, "none")):
        status, _, err = call(capsys, "train", "--out", folder, "--resume", "--snapshots", 6)
        assert status == 2 and f"--snapshots 6 differs from that of {folder}, {planned};" in err
    assert call(capsys, "train", "--out", filmed, "--resume", "--snapshots", 5)[0] == 0


@pytest.mark.parametrize("plan", [b"", b"[]", b'{"snapshots": 1}', b'{"snapshots": true}',
                                  b'{"snapshots": "5"}', b'{"steps": 5}', b"\xff"])
def test_a_broken_plan_is_an_error_in_one_line(capsys, filmed, tmp_path, plan):
    out = tmp_path / "copy"
    shutil.copytree(filmed, out)
    Snapshots(out).plan.write_bytes(plan)
    status, _, err = call(capsys, "train", "--out", out, "--resume")
    assert status == 1 and "plan.json must hold the number of snapshots" in err
    assert len(err.splitlines()) == 1
