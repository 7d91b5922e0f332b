"""Short forms of the attacks on files and command lines; each page says how the long one runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"),
                                reason="limits of time and memory as Linux has them")
HERE = Path(__file__).parent


def attacked(page, *numbers):
    """Run an attack in a process of its own, whose limits do not touch the tests."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(
        [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run([sys.executable, HERE / page, *map(str, numbers)], text=True,
                           capture_output=True, env=environment)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    assert ", 0 findings" in ended.stdout


@pytest.mark.slow
def test_mutated_files_are_refused_or_harmless():
    attacked("mutated_files.py", 24)


@pytest.mark.slow
def test_wrong_command_lines_are_one_line_each():
    attacked("command_lines.py", 20)


@pytest.mark.slow
def test_many_mutated_files():
    attacked("mutated_files.py", 1000, 1)


@pytest.mark.slow
def test_many_wrong_command_lines():
    attacked("command_lines.py", 400, 1)


@pytest.mark.slow
def test_files_of_a_run_may_be_something_else():
    attacked("run_folders.py", 80)
