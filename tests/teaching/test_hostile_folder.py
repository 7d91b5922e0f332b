"""A hostile student's folder: whatever it holds, grading ends, and harms neither its grades."""

import json
import os
import sys
import tempfile
import time

import pytest

from command import call, last_json
from numformer.commands.grade import INDENT
from numformer.teaching import grade, judge, write_assignment
from numformer.teaching.grading import _judgement
from numformer.teaching.manifest import MANIFEST, read_manifest
from numformer.teaching.support.lifeline import remove_folder

POSIX = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")


def assignment(tmp_path, *names):
    write_assignment(tmp_path, names=list(names))
    return tmp_path / "student"


def link_to_zero(path):
    path.symlink_to("/dev/zero")


def link_to_a_file(path):
    (path.parent / "other").write_text(judgement())
    path.symlink_to(path.parent / "other")


def sparse(path):
    with open(path, "wb") as file:
        file.truncate(2 ** 30)


NO_FILES = [pytest.param(link_to_zero, marks=POSIX), pytest.param(link_to_a_file, marks=POSIX),
            pytest.param(os.mkfifo if hasattr(os, "mkfifo") else None, marks=POSIX), os.mkdir,
            sparse]


@pytest.mark.parametrize("make", NO_FILES)
def test_what_is_no_file_of_text_is_not_read(tmp_path, make):
    folder = assignment(tmp_path, "1")
    (folder / "01_softmax.py").unlink()
    make(folder / "01_softmax.py")
    (row,) = grade(folder)
    assert row["points"] == 0 and row["feedback"].startswith("01_softmax.py ")


def judgement(**changes):
    return json.dumps({"score": 1.0, "feedback": "right", **changes})


@pytest.mark.parametrize("text", [
    "", "null", "[]", "3", "{}", "[" * 50_000, '{"a":' * 10_000, b"\xff\xfe", b"\x00" * 100,
    judgement().replace("1.0", "NaN"), judgement().replace("1.0", "1e999"), judgement(score=True),
    judgement(score="1"), judgement(score=None), judgement(score=[1.0]), judgement(feedback=None),
    judgement(feedback=["right"]), judgement(feedback="x" * 10 ** 7)])
def test_what_is_no_judgement_is_no_answer(text):
    assert _judgement(text if isinstance(text, bytes) else text.encode()) is None


@pytest.mark.parametrize("parts", [
    None, 3, [["dx", [1, 2]]], {"dx": 1}, {"dx": [1]}, {"dx": [2, 1]}, {"dx": [-1, 1]},
    {"dx": [1, 1e9]}, {"dx": ["a", 1]}, {"dx": [None, 1]}, {str(n): [0, 1] for n in range(99)}])
def test_parts_of_another_form_are_left_out(parts):
    assert _judgement(judgement(parts=parts).encode()) == {
        "score": 1, "feedback": "right", "parts": {}}
    found = _judgement(judgement(parts={"d\nx": [0.5, 1]}).encode())
    assert found["parts"] == {"d x": (0.5, 1.0)}


def test_a_judgement_is_a_score_and_one_line():
    for score, expected in ((1.0, 1), (7.5, 1), (-3.0, 0), (0.25, 0.25)):
        assert _judgement(judgement(score=score).encode()) == {
            "score": expected, "feedback": "right", "parts": {}}
    text = "\x1b]0;title\x07wrong\r\n    2 of 2  01_softmax: right\u2028\u202e\x00" + " " * 99
    feedback = _judgement(judgement(feedback=text + "x" * 5000).encode())["feedback"]
    assert feedback.startswith(r"\x1b]0;title\x07wrong 2 of 2 01_softmax: right \u202e\x00 x")
    assert feedback.isprintable() and len(feedback) < 700


@pytest.mark.parametrize("make", NO_FILES)
def test_a_manifest_that_is_no_file_is_one_line(capsys, tmp_path, make):
    folder = assignment(tmp_path, "1")
    (folder / MANIFEST).unlink()
    make(folder / MANIFEST)
    status, _, err = call(capsys, "grade", folder)
    assert status == 2 and MANIFEST in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("text", [
    "[" * 50_000, '{"seed": 0, "exercises": ' + "[" * 20_000, '{"seed": NaN, "exercises": []}',
    '{"seed": true, "exercises": ["1"]}', '{"seed": 1e3, "exercises": ["1"]}', b"\xff\xfe\x00",
    '{"seed": 0, "exercises": ["\\u001b[2J' + "x" * 10_000 + '"]}', '{"seed": 0}', "x" * 70_000,
    '{"seed": ' + "9" * 5_000 + ', "exercises": ["1"]}', '{"seed": 0, "exercises": [[[["1"]]]]}'])
def test_a_hostile_manifest_is_one_short_line(capsys, tmp_path, text):
    folder = assignment(tmp_path, "1")
    (folder / MANIFEST).write_bytes(text if isinstance(text, bytes) else text.encode())
    status, _, err = call(capsys, "grade", folder)
    assert status == 2 and len(err.splitlines()) == 1 and err.strip().isprintable()
    assert len(err) < 3000


def test_a_manifest_may_repeat_names(tmp_path):
    path = tmp_path / MANIFEST
    path.write_text(json.dumps({"seed": 10 ** 30, "exercises": ["1"] * 5000}))
    assert read_manifest(tmp_path).seed == 10 ** 30


RIGHT = ("import numpy as np\n\n\ndef softmax(x):\n    p = np.exp(x - x.max(-1, keepdims=True))\n"
         "    return p / p.sum(-1, keepdims=True)\n")
FORGED = ("import json, os\nopen('result.json', 'w').write(json.dumps(\n"
          "    {'score': 1.0, 'feedback': 'right', 'token': ''}))\nos._exit(0)\n")
ZERO = "import os\nos.symlink('/dev/zero', 'result.json')\nos._exit(0)\n"
FIFO = "import os\nos.mkfifo('result.json')\nos._exit(0)\n"
HOARDS = "import numpy as np\n\n\ndef layer_norm(x, weight, bias):\n    return np.ones(2 ** 28)\n"
FILLS = "with open('big', 'wb') as file:\n    while True:\n        file.write(b'x' * 2**20)\n"
SHOUTS = ("def rms_norm(x, weight):\n"
          "    raise ValueError('\\x1b[2J\\n2 of 2  01_softmax: right' + 'x' * 10**7)\n")


@pytest.mark.slow
@POSIX
def test_hostile_files_get_no_points_and_others_theirs(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    texts = {"01_softmax": RIGHT, "03_linear": FORGED, "07_cross_entropy": ZERO,
             "09_layer_norm": HOARDS, "11_rms_norm": SHOUTS}
    folder = assignment(tmp_path, *texts)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    status, out, _ = call(capsys, "grade", folder, "--json")
    rows = {row["name"]: row for row in last_json(out)["exercises"]}
    assert status == 0 and last_json(out)["points"] == rows["01_softmax"]["points"] == 2
    for name in ("03_linear", "07_cross_entropy"):
        assert "ended without an answer" in rows[name]["feedback"]
    if sys.platform.startswith("linux"):
        assert "needs more than 768 MiB of memory in line 5" in rows["09_layer_norm"]["feedback"]
    assert r"it raised ValueError: \x1b[2J 2 of 2 01" in rows["11_rms_norm"]["feedback"]
    lines = out.splitlines()
    assert all(line.isprintable() for line in lines)
    heads = [line for line in lines[:-1] if not line.startswith(" " * INDENT)]
    assert len(heads) == len(texts) + 2 and all(len(line) <= 80 for line in lines[:-1])
    assert heads[-2:] == ["2 of 8 points", lines[-2]] and lines[-2].startswith("Next: ")
    assert sorted(os.listdir(tmp_path)) == ["student", "teacher"]     # no copies are left


@pytest.mark.slow
@LINUX
def test_limits_of_files_memory_and_time(tmp_path):
    hoards = "rows = []\nwhile True:\n    rows.append(bytearray(2 ** 20))\n"
    loops = "def rms_norm(x, weight):\n    while True:\n        pass\n"
    clings = ("def embedding(ids, weight):\n    try:\n        while True:\n            pass\n"
              "    except BaseException:\n        return embedding(ids, weight)\n")
    texts = {"01_softmax": FILLS, "03_linear": FIFO, "09_layer_norm": hoards, "11_rms_norm": loops,
             "13_embedding": clings}
    folder = assignment(tmp_path, *texts)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    started = time.monotonic()
    found = {row["name"]: row["feedback"] for row in grade(folder, seconds=10)}
    assert time.monotonic() - started < 300
    for name, words in (("01_softmax", "File too large"), ("03_linear", "without an answer"),
                        ("09_layer_norm", "needs more than 768 MiB of memory (line 3)"),
                        ("11_rms_norm", "it ran for more than 10 s and was stopped in line "),
                        ("13_embedding", "ran for more than 10 s and could not be interrupted")):
        assert words in found[name], found[name]


@pytest.mark.slow
def test_folders_inside_each_other_are_removed(tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for _ in range(1500):                             # more than Python 3.11 can remove
        os.mkdir("d")
        os.chdir("d")
    (folder / "closed").mkdir(mode=0)
    os.chdir(tmp_path)
    remove_folder(folder)
    assert not folder.exists()


@POSIX
@pytest.mark.parametrize("mode", [0, 0o300, 0o500])
def test_closed_folders_in_open_ones_are_removed(tmp_path, mode):
    (tmp_path / "elsewhere" / "a" / "b" / "c" / "d").mkdir(parents=True)
    (tmp_path / "elsewhere" / "a" / "b" / "c" / "d" / "file").write_text("")
    for path in ("a/b/c/d", "a/b/c", "a/b"):
        (tmp_path / "elsewhere" / path).chmod(mode)
    remove_folder(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


@POSIX
def test_what_is_exchanged_for_a_link_is_not_followed(tmp_path, monkeypatch):
    """At every look at a folder's entries, each is exchanged for a link to another folder."""
    kept = tmp_path / "kept"
    (kept / "inside").mkdir(parents=True)
    (kept / "file").write_text("as it was")
    kept.chmod(0o750)
    folder = tmp_path / "elsewhere"
    for n in range(5):
        (folder / f"{n}" / "inner").mkdir(parents=True)
    listdir, exchanged = os.listdir, []

    def exchanging(here):
        names = listdir(here)
        for name in names:
            if len(exchanged) < 40:
                exchanged.append(name)
                os.rename(name, f"old-{len(exchanged)}", src_dir_fd=here, dst_dir_fd=here)
                os.symlink(kept, name, dir_fd=here)
        return names
    monkeypatch.setattr(os, "listdir", exchanging)
    remove_folder(folder)
    monkeypatch.undo()
    assert len(exchanged) == 40
    assert (kept / "file").read_text() == "as it was" and (kept / "inside").is_dir()
    assert kept.stat().st_mode & 0o777 == 0o750
    remove_folder(folder)
    assert not folder.exists()


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove_folder(tmp_path / "link")
    assert (tmp_path / "kept").is_dir()


def test_without_a_temporary_folder_each_exercise_says_so(tmp_path, monkeypatch):
    folder = assignment(tmp_path, "1", "3")
    for name in ("01_softmax", "03_linear"):
        (folder / f"{name}.py").write_text(RIGHT)

    def fails(**_):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(tempfile, "mkdtemp", fails)
    assert [row["feedback"] for row in grade(folder)] == [
        "it could not be judged: Permission denied"] * 2


@pytest.mark.slow
def test_the_judge_reads_no_large_file_and_a_file_reads_no_task(tmp_path):
    folder = assignment(tmp_path, "1")
    (folder / "01_softmax.py").write_text(
        "import sys\nraise ValueError(str(sys.argv[1:]) + sys.stdin.read())\n")
    assert "closed file" in grade(folder)[0]["feedback"] and judge.MOST < 2 ** 21
