"""The attacks on a run, in a short form: kills, signals, several trainers at once, full disks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def attack(name, count):
    """Run an attack as its command does; return the last line that it prints."""
    script = Path(__file__).with_name(f"{name}.py")
    process = subprocess.run([sys.executable, str(script), str(count)], capture_output=True,
                             text=True, timeout=900)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout.splitlines()[-1]


@pytest.mark.slow
def test_a_killed_run_is_whole_and_resumes_to_the_same_bytes():
    assert attack("kills", 8).startswith("kills: 8 (6 operations, 2 random); 0 faults")


@pytest.mark.slow
@pytest.mark.parametrize("name, count, words", [
    ("kills", 60, "kills: 60 ("), ("signals", 10, "signals: 30, "),
    ("together", 2, "together: 2 rounds"), ("disks", 8, "disks: 8 simulated, 8 limits")])
def test_no_attack_breaks_a_run(name, count, words):
    printed = attack(name, count)
    assert printed.startswith(words) and printed.endswith("; 0 faults")
