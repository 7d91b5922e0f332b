"""However a grader or a check ends, its processes end and their folders are removed."""

import os
import signal
import subprocess
import sys

import pytest

from command import DEFAULT_SIGNALS, SECONDS, is_alive, waited_for
from numformer.teaching import write_assignment
from numformer.teaching.support import lifeline

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
# A file that starts processes of its own, one in a session of its own, tells who there is, and
# never ends; it can write into its own folder only
LOOP = """import os, subprocess, sys
sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
started = subprocess.Popen(sleeps), subprocess.Popen(sleeps, start_new_session=True)
with open("part", "w") as file:
    file.write(f"{os.getpid()} {os.getppid()} {started[0].pid} {started[1].pid}")
os.rename("part", "told")
while True:
    pass
"""


def grader(folder, temporary):
    """`numformer grade` in a process of its own, whose temporary folders are in `temporary`."""
    program = DEFAULT_SIGNALS + "from numformer.__main__ import command; command()"
    return subprocess.Popen([sys.executable, "-c", program, "grade", str(folder)],
                            env={**os.environ, "TMPDIR": str(temporary)},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", ["SIGTERM", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("SIGKILL", "SIGHUP", "SIGINT"))])
def test_a_signal_to_the_grader_ends_its_judges_and_leaves_no_folder(tmp_path, name):
    write_assignment(tmp_path, names=["1", "2"])
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "student" / "01_softmax.py").write_text(LOOP)
    process = grader(tmp_path / "student", temporary)
    try:
        told, = waited_for(lambda: list(temporary.glob("*/*/told")))
        others = list(map(int, told.read_text().split()))
        assert all(map(is_alive, others)) and len(list(temporary.iterdir())) == 1
        process.send_signal(getattr(signal, name))
        out, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == (130 if name == "SIGINT" else -getattr(signal, name))
        assert out == "" and errors == ("numformer: stopped\n" if name == "SIGINT" else "")
        waited_for(lambda: not any(map(is_alive, others)))
        waited_for(lambda: not list(temporary.iterdir()))
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_judge_without_a_task_removes_its_own_folder_and_no_other(tmp_path):
    for name, is_kept in ((f"{lifeline.PREFIX}a", False), ("home", True)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "file").write_text("")
        subprocess.run([sys.executable, "-P", "-m", "numformer.teaching.judge"], cwd=folder,
                       input=b"", timeout=SECONDS, check=True)
        assert folder.exists() == is_kept


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the child goes on to its limit")
def test_the_child_ends_with_its_parent():
    """However that ends: SIGKILL runs no code of it, and there is no limit of time."""
    program = ("import os, numformer\ndef endless(x):\n    print(os.getpid(), flush=True)\n"
               "    while True:\n        pass\n"
               "numformer.check('softmax', endless, seconds=None, process=True)\n")
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        child = int(parent.stdout.readline())
        assert is_alive(child)
    finally:
        parent.kill()
    parent.wait()
    parent.stdout.close()
    waited_for(lambda: not is_alive(child))
