"""train.slurm, the job script for Slurm: with a stand-in for scontrol, and no Slurm."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import numformer.training.parallel
from command import SMALL, call, content
from numformer.terminal import shell_word
from ranks import PATIENCE, environment, needs_mpi

pytestmark = needs_mpi
SCRIPT = Path(numformer.training.parallel.__file__).with_name("train.slurm")
SETTINGS = ["--steps", 200, "--eval-every", 100, "--save-every", 1000, "--shards", 4, *SMALL]


@pytest.fixture
def job(tmp_path):
    """A function that starts the job script; it returns the Popen of its shell."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {
            "scontrol": f'#!/bin/sh\necho "$@" >> {shell_word(tmp_path)}/requeued\n',
            "numformer": f'#!/bin/sh\nexec {shell_word(sys.executable)} -m numformer "$@"\n'
            }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    given = {**environment(), "PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "17"}

    def started(launch, *argv):
        with open(tmp_path / "log", "ab") as log:
            return subprocess.Popen(["bash", SCRIPT, *map(str, argv)], cwd=tmp_path,
                                    env={**given, "LAUNCH": launch}, stdout=log,
                                    stderr=subprocess.STDOUT)

    return started


def test_a_warning_stops_and_queues_the_job_which_resumes_to_the_byte(
        job, text, tmp_path, capsys):
    run, log, argv = tmp_path / "run", tmp_path / "log", ("run", "--data", text, *SETTINGS)
    shell = job("mpirun -n 2", *argv)
    until = time.monotonic() + PATIENCE
    while not (run / "metrics.jsonl").exists() or (run / "metrics.jsonl").stat().st_size == 0:
        assert shell.poll() is None and time.monotonic() < until, log.read_text()
        time.sleep(0.05)
    shell.send_signal(signal.SIGUSR1)
    assert shell.wait(timeout=PATIENCE) == 0
    assert (tmp_path / "requeued").read_text() == "requeue 17\n"
    step = int(log.read_text().split("stopped at step ")[1].split()[0])
    assert 0 < step < 200

    assert job("mpirun -n 1", *argv).wait(timeout=PATIENCE) == 0, log.read_text()
    assert "finished at step 200" in log.read_text()
    assert (tmp_path / "requeued").read_text() == "requeue 17\n"         # not once more
    assert call(capsys, "train", "--data", text, "--out", tmp_path / "alone", *SETTINGS)[0] == 0
    assert content(run) == content(tmp_path / "alone")


def test_a_warning_before_any_checkpoint_ends_the_job(job, tmp_path):
    (tmp_path / "launch").write_text(
        "trap 'exit 3' USR1\ntouch begun\nfor i in {1..100}; do sleep 0.1; done\n")
    shell = job("bash launch", "run")
    until = time.monotonic() + PATIENCE
    while not (tmp_path / "begun").exists():
        assert shell.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    shell.send_signal(signal.SIGUSR1)
    assert shell.wait(timeout=PATIENCE) == 3 and not (tmp_path / "requeued").exists()
    assert "No checkpoint was written" in (tmp_path / "log").read_text()


def test_a_job_that_fails_ends_with_its_status(job, text, tmp_path):
    argv = "run", "--data", text, *SMALL, "--n-heads", 5
    assert job("mpirun -n 1", *argv).wait(timeout=PATIENCE) == 2
    (tmp_path / "launch").write_text("touch run/checkpoint.safetensors\nexit 4\n")
    (tmp_path / "run").mkdir(exist_ok=True)
    assert job("bash launch", "run").wait(timeout=PATIENCE) == 4
    assert job("bash launch").wait(timeout=PATIENCE) == 1
    assert "usage: sbatch" in (tmp_path / "log").read_text()
    assert not (tmp_path / "requeued").exists()
