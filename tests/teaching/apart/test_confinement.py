"""A confined process writes into its own folder alone, and looks into no other process."""

import os
import signal
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import pytest

from numformer.teaching.apart.confinement import confine, landlock_version
from numformer.teaching.isolation import Child

FILES = pytest.mark.skipif(landlock_version() < 3, reason="needs Linux 6.2 with Landlock")
SIGNALS = pytest.mark.skipif(landlock_version() < 6, reason="needs Linux 6.12 with Landlock")


def confined(tmp_path, *steps):
    """What a confined process answers to each step: the name of its error, or its result."""
    folder = tmp_path / "its own"
    folder.mkdir()

    def tried():
        assert confine(folder)
        found = []
        for step in steps:
            try:
                found.append(str(step()))
            except Exception as error:
                found.append(type(error).__name__)
        return {"found": found}
    with Child(SimpleNamespace(tried=tried)) as child:
        return child.ask(60, "tried")["found"]


@FILES
def test_files_elsewhere_are_read_and_not_changed(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    changes = [lambda: open(kept, "w"), lambda: open(kept, "r+"), lambda: kept.unlink(),
               lambda: os.truncate(kept, 0), lambda: kept.rename(tmp_path / "other"),
               lambda: kept.rename(tmp_path / "its own" / "kept"), lambda: os.mkdir(tmp_path / "a"),
               lambda: os.symlink("/", tmp_path / "a"), lambda: os.mkfifo(tmp_path / "a"),
               lambda: os.rmdir(tmp_path / "empty")]
    (tmp_path / "empty").mkdir()
    read, *others = confined(tmp_path, kept.read_text, *changes)
    assert read == "as it was" and set(others) == {"PermissionError"} or set(others) == {
        "PermissionError", "OSError"}
    assert kept.read_text() == "as it was" and not (tmp_path / "a").exists()
    assert (tmp_path / "empty").is_dir()


@FILES
def test_its_own_folder_is_for_its_files(tmp_path):
    def writes():
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("a")
            return file.name
    steps = [lambda: (tmp_path / "its own" / "file").write_text("abc"), writes,
             lambda: open(os.devnull, "w").close(),
             lambda: subprocess.run([sys.executable, "-c", "print(3)"], capture_output=True,
                                    check=True).stdout.decode().strip()]
    wrote, name, nothing, printed = confined(tmp_path, *steps)
    assert wrote == "3" and name.startswith(str(tmp_path / "its own")) and nothing == "None"
    assert printed == "3"


@FILES
def test_other_processes_are_closed(tmp_path):
    parent = os.getpid()
    steps = [lambda: open(f"/proc/{parent}/mem", "rb"), lambda: open(f"/proc/{parent}/mem", "r+b"),
             lambda: os.open(f"/proc/{parent}/fd/1", os.O_WRONLY),
             lambda: open("/proc/self/mem", "rb").close()]
    assert confined(tmp_path, *steps) == ["PermissionError"] * 3 + ["None"]


@SIGNALS
def test_signals_reach_only_what_it_has_started(tmp_path):
    def kills_its_own():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        child.kill()
        return child.wait()
    steps = [lambda: os.kill(os.getppid(), 0), lambda: os.kill(1, 0), kills_its_own]
    assert confined(tmp_path, *steps) == ["PermissionError", "PermissionError",
                                          str(-signal.SIGKILL)]


@pytest.mark.parametrize("error", [OSError(38, "no such system call"), AttributeError("syscall")])
def test_a_system_without_landlock_forbids_nothing_and_says_so(tmp_path, monkeypatch, error):
    from numformer.teaching.apart import confinement

    def fails(*_):
        raise error
    monkeypatch.setattr(confinement, "_call", fails)
    monkeypatch.setenv("TMPDIR", "elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", "elsewhere")
    assert landlock_version() == 0 and not confine(tmp_path)
    assert tempfile.gettempdir() == str(tmp_path)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert landlock_version() == 0
