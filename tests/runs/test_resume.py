"""A run that was stopped, killed or resumed equals one that was not, byte for byte."""

import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from command import SMALL, call, content, last_json
from marks import every
from numformer.runs import load_checkpoint
from numformer.terminal import shell_word


@pytest.mark.parametrize("stops", every(9, [
    [10], [3, 20, 29], [1], [7], [13, 14]]))
def test_a_resumed_run_equals_the_uninterrupted_one_byte_for_byte(
        capsys, run, text, tmp_path, stops):
    out = tmp_path / run.name
    for stop in stops:
        begin = ["--resume"] if out.exists() else ["--data", text, "--steps", "30", "--eval-every",
                                                   "10", "--save-every", "10", *SMALL]
        status, said, _ = call(capsys, "train", "--out", out, "--stop-at", stop, *begin)
        assert status == 0 and f"numformer train --resume --out {shell_word(out)}" in said
    assert call(capsys, "train", "--out", out, "--resume")[0] == 0
    assert content(out) == content(run)
    assert call(capsys, "train", "--out", out,
                "--resume")[0] == 0, "a finished run can be resumed: nothing is left to do"
    assert content(out) == content(run)


@pytest.mark.slow
def test_a_resumed_run_keeps_its_settings(capsys, run, text, tmp_path, monkeypatch):
    from numformer.recipes import PRESETS

    out = tmp_path / run.name
    call(capsys, "train", "--data", text, "--out", out, "--steps", 30, "--eval-every", 10,
         "--save-every", 10, "--stop-at", 12, *SMALL)
    changed = PRESETS["tiny"]._replace(
        model=dict(context_length=4, n_layers=7, n_heads=1, d_model=4),
        training=dict(steps=3, seed=4))
    monkeypatch.setitem(PRESETS, "tiny", changed)
    assert call(capsys, "train", "--out", out, "--resume", "--threads", 1)[0] == 0
    assert content(out) == content(run)


@pytest.mark.slow
def test_a_resumed_run_may_have_more_steps(capsys, text, tmp_path):
    call(capsys, "train", "--data", text, "--out", tmp_path / "r", "--steps", 2, *SMALL)
    assert last_json(call(capsys, "train", "--out", tmp_path / "r", "--resume", "--steps", 4,
                          "--json")[1])["steps"] == 4


@pytest.mark.slow
def test_stopping_at_the_last_step_is_finishing(capsys, text, run, tmp_path):
    out = tmp_path / run.name
    status, said, _ = call(capsys, "train", "--data", text, "--out", out, "--steps", 30,
                           "--eval-every", 10, "--save-every", 10,
                           "--stop-at", 30, *SMALL)
    assert status == 0 and "finished at step 30" in said and content(out) == content(run)


def test_a_folder_without_a_checkpoint_holds_no_run(capsys, text, run, tmp_path):
    """As a kill in the first moment may leave it."""
    out = tmp_path / run.name
    out.mkdir()
    (out / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0}\n')
    argv = ["train", "--data", text, "--out", out, "--steps", 30, "--eval-every", 10,
            "--save-every", 10, *SMALL]
    assert call(capsys, *argv)[0] == 0 and content(out) == content(run)


def test_resuming_a_missing_run_is_an_error(capsys, tmp_path):
    status, _, err = call(capsys, "train", "--out", tmp_path / "typo", "--resume")
    assert status == 2 and "there is no run in" in err and not (tmp_path / "typo").exists()


def test_broken_metrics_are_repaired(capsys, run, tmp_path):
    out = tmp_path / run.name
    shutil.copytree(run, out)
    (out / "metrics.jsonl").write_bytes(content(run)["metrics.jsonl"]
                                        + b'3\n{"a": 1}\n{"step": 31, "loss": 1.0}\n{"step": 3')
    (out / ".checkpoint.safetensors.1.tmp").write_bytes(b"left by a kill")
    (out / ".notes.tmp").write_bytes(b"the user's own")
    assert call(capsys, "train", "--out", out, "--resume")[0] == 0
    (out / ".notes.tmp").unlink()
    assert content(out) == content(run)


LONG = ["--steps", "400", "--eval-every", "100", "--save-every", "20", *SMALL]


def start(out, *argv):
    command = [sys.executable, "-m", "numformer", "train", "--out", str(out), *argv]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def wait_for_steps(out, steps, before, process):
    """Wait until the process has metrics of so many steps, in another file than `before`."""
    metrics, deadline = out / "metrics.jsonl", time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if inode(metrics) != before and metrics.read_bytes().count(b'"loss"') >= steps:
                return True
        except FileNotFoundError:
            pass
        time.sleep(0.002)
    return False


def inode(path):
    return path.stat().st_ino if path.exists() else None


def steps_saved(out):
    checkpoint = out / "checkpoint.safetensors"
    return load_checkpoint(checkpoint)[1]["progress"]["step"] if checkpoint.exists() else 0


@pytest.fixture(scope="module")
def long_run(tmp_path_factory, text):
    out = tmp_path_factory.mktemp("long") / "fox"
    finish(start(out, "--data", text, *LONG))
    return out


PAUSES = """
import sys
from numformer.__main__ import command
from numformer.training import Trainer
take_step = Trainer.train_step
def train_step(self):
    if self.step == 15:
        print("15 steps", flush=True)
        sys.stdin.readline()
    return take_step(self)
Trainer.train_step = train_step
sys.exit(command())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_names_the_command_to_resume(capsys, number, run, text, tmp_path):
    """It comes in the middle of a step; then the step ends."""
    out = tmp_path / run.name
    process = subprocess.Popen(
        [sys.executable, "-c", PAUSES, "train", "--data", text, "--out", str(out), "--steps", "30",
         "--eval-every", "10", "--save-every", "10", *SMALL],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert any(line == "15 steps\n" for line in process.stdout)
    process.send_signal(number)
    _, err = process.communicate("go on\n")
    assert process.returncode == 1 and f"numformer train --resume --out {shell_word(out)}" in err
    assert "Traceback" not in err
    assert load_checkpoint(out / "checkpoint.safetensors")[1]["progress"]["step"] == 16
    assert call(capsys, "train", "--out", out, "--resume")[0] == 0
    assert content(out) == content(run)


@pytest.mark.slow
def test_twenty_kills_leave_no_broken_checkpoint_and_the_same_run(text, tmp_path, long_run):
    out, rng, while_training = tmp_path / "fox", np.random.default_rng(0), 0
    for kill in range(20):
        before, goal = inode(out / "metrics.jsonl"), steps_saved(out) + rng.integers(1, 30)
        process = start(out, *(["--resume"] if (out / "checkpoint.safetensors").exists() else []),
                        "--data", text, *LONG)
        while_training += wait_for_steps(out, goal, before, process)
        # anywhere in a step, a save or a validation
        time.sleep(rng.uniform(0, 0.01))
        process.kill()
        process.communicate()
        for name in ("checkpoint.safetensors", "best.safetensors"):
            if (out / name).exists():
                load_checkpoint(out / name)
    assert while_training >= 15 and steps_saved(out) < 400
    finish(start(out, "--resume", "--data", text, *LONG))
    assert content(out) == content(long_run)
