"""Files that want points without right numbers: none gains a point, or leaves anything behind."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from command import is_alive, waited_for
from filters import refuses_calls
from forging import sources
from marks import every
from numformer.teaching import grade, write_assignment
from numformer.teaching.apart.confinement import landlock_version
from numformer.teaching.judge import judge

NAMES = list(sources("OUTSIDE"))
FOR_ITS_SHAPE = 0.1                                   # of the points, as any array of that shape
SIGNALS, FILES, CALLS = 6, 1, 99                      # versions of Landlock; and a filter
NEEDS = {"the judge is killed": SIGNALS, "the judge is stopped": SIGNALS, "ptrace": FILES,
         "the package is changed": FILES, "memory of the judge": FILES,
         "files of the judge through proc": FILES, "files for the next Python": FILES,
         "the folder of the grader": FILES, "a pickle instead of an answer": FILES,
         "limits of the judge and the grader": CALLS, "queues and memory of the kernel": CALLS,
         "permissions, times and attributes of a file": CALLS}
# Always with a grader: these leave processes, or look for it
QUICK = ["processes that stay", "a process that is never the same",
         "a child that goes on and answers", "a folder that nobody may open",
         "a closed folder in one that can be read", "modules that the judge imports",
         "limits of the judge and the grader", "permissions, times and attributes of a file",
         "queues and memory of the kernel",
         "a trouble that is no text", "a trouble that is null", "a number too large for a float",
         "all open files are written to",
         "files of the judge through proc", "the judge is killed", "the judge is stopped",
         "memory of the judge", "json writes full points"]
# The judge itself ends, where its processes are not closed to others
ENDS = ["the judge is killed", "the judge is stopped"]
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")]   # since Python 3.12


def files(names):
    return [pytest.param(name, marks=pytest.mark.skipif(
        not has(NEEDS.get(name, 0)), reason="needs a newer Linux, or another machine"))
        for name in names]


def has(needed):
    """Whether this system can forbid what a file tries."""
    return refuses_calls() if needed == CALLS else landlock_version() >= needed


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "kept").write_text("as it was")
    before = [was(path) for path in (folder, folder / "kept")]
    yield folder
    assert [was(path) for path in (folder, folder / "kept")] == before
    assert [path.name for path in folder.iterdir()] == ["kept"]
    assert (folder / "kept").read_text() == "as it was"


def was(path):
    found = path.stat()
    return found.st_mode, found.st_uid, found.st_gid, found.st_mtime


def test_there_are_many():
    assert len(NAMES) >= 60 and set(NEEDS) < set(NAMES)


@pytest.mark.parametrize("name", every(8, files(name for name in NAMES if name not in QUICK)))
def test_no_file_gains_a_point(name, tmp_path, outside):
    """The judge is this process: it can see more than the grader does."""
    path = tmp_path / "its own" / "student.py"
    path.parent.mkdir()
    path.write_text(sources(outside)[name])
    found = judge(str(path), "01_softmax", seed=0, seconds=3.0)
    assert found["score"] <= FOR_ITS_SHAPE, found


def marked(mark):
    """The processes that began with this in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes() and is_alive(int(path.parent.name)):
                found.append(int(path.parent.name))
        except OSError:                               # it has ended meanwhile
            pass
    return found


@pytest.mark.parametrize("name", [
    *every(99, files(QUICK)), *every(99, files(name for name in NAMES if name not in QUICK))])
def test_a_class_is_graded_and_nothing_is_left(name, tmp_path, outside, monkeypatch):
    temporary, mark = tmp_path / "temporary", f"FORGING={tmp_path}"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("FORGING", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", os.environ.get("PYTHONPATH", ""), "."]))
    write_assignment(tmp_path / "folder", seed=0, names=["1"])
    (tmp_path / "folder" / "student" / "01_softmax.py").write_text(sources(outside)[name])
    (row,) = grade(tmp_path / "folder" / "student", seconds=5.0)
    assert row["points"] <= FOR_ITS_SHAPE * row["of"], row
    assert "an answer (exit status 1)" not in row["feedback"] or name in ENDS, row   # of the judge
    waited_for(lambda: not marked(mark))
    assert os.listdir(temporary) == []


@pytest.mark.slow
def test_what_a_file_plants_is_not_imported_by_the_judge(tmp_path, outside, monkeypatch):
    """Programs count the answers of this exercise: the judge imports what they need."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", os.environ.get("PYTHONPATH", ""), "."]))
    monkeypatch.setenv("FORGING", "1")
    write_assignment(tmp_path / "folder", seed=0, names=["36"])
    (path,) = (tmp_path / "folder" / "student").glob("36_*.py")
    path.write_text(sources(outside)["modules that the judge imports"]
                    + "\n\ndef answers():\n    return {}\n")
    (row,) = grade(path.parent, seconds=5.0)
    assert row["points"] == 0 and row["feedback"].startswith("answers() must return"), row
