"""Grades: whatever a student's file does, each exercise gets points and a line of feedback."""

import json
import sys

import numpy as np
import pytest

from command import call, is_alive, last_json
from marks import every
from numformer.teaching import all_exercises, grade, grading, write_assignment
from numformer.teaching.exercise import find_exercises
from numformer.teaching.judge import judge_answers
from numformer.teaching.manifest import MANIFEST


@pytest.fixture
def folder(tmp_path):
    write_assignment(tmp_path, seed=1, names=["1", "2", "15", "31"])
    return tmp_path / "student"


def feedback_by_number(rows):
    return {row["name"][:2]: (row["points"], row["feedback"]) for row in rows}


@pytest.mark.slow
def test_the_folders_of_student_and_teacher(tmp_path, folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        "01_softmax.py", "02_softmax_backward.py", "15_scaled_dot_product_attention.py",
        "31_figure_mask.py", "README.md", MANIFEST]
    readme = (folder / "README.md").read_text()
    assert "numformer hint 01" in readme and "| `01_softmax.py` |" in readme
    guide = (tmp_path / "teacher" / "GUIDE.md").read_text()
    assert all(words in guide for words in ("rubric", "Goals", "minutes", "**with your rights**",
                                            "| `02_softmax_backward` | derive"))
    assert json.loads((folder / MANIFEST).read_text())["seed"] == 1
    rows = grade(tmp_path / "teacher", seconds=600)
    assert [row["points"] for row in rows] == [row["of"] for row in rows] == [2, 3, 3, 2]
    assert all(row["points"] == 0 and row["feedback"] == "not done yet" for row in grade(folder))
    with pytest.raises(ValueError, match="exists already"):
        write_assignment(tmp_path)


@pytest.mark.slow
def test_points_do_not_depend_on_how_the_graders_python_treats_warnings(folder, monkeypatch):
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    (folder / "01_softmax.py").write_text(
        "import warnings\nimport numpy as np\n\n\ndef softmax(x):\n"
        "    warnings.warn('a word')\n    e = np.exp(x - x.max(-1, keepdims=True))\n"
        "    return e / e.sum(-1, keepdims=True)\n")
    assert grade(folder, 600, names=["01_softmax"])[0]["points"] == 2


def test_names_in_a_manifest_may_be_numbers(folder):
    (folder / MANIFEST).write_text('{"seed": 1, "exercises": [1, "2"]}')
    assert [row["name"] for row in grade(folder)] == ["01_softmax", "02_softmax_backward"]


@pytest.mark.slow
def test_no_file_prevents_the_others_from_being_graded(folder, capfd):
    (folder / "01_softmax.py").write_text("import numpy as np\nwhile True:\n    pass\n")
    (folder / "02_softmax_backward.py").write_text(
        "import numpy as np\nprint('noise' * 1000)\n\n\n"
        "def softmax_backward(dp, x):\n    print('more noise')\n"
        "    p = np.exp(x - x.max(-1, keepdims=True))\n    p /= p.sum(-1, keepdims=True)\n"
        "    return p * dp\n")
    (folder / "15_scaled_dot_product_attention.py").write_text(
        "def scaled_dot_product_attention(q, k, v:\n    return v\n")
    (folder / "31_figure_mask.py").write_text("import os\n\n\ndef answers():\n    os._exit(3)\n")
    (folder / "numpy.py").write_text("raise RuntimeError('not that one')\n")
    found = feedback_by_number(grade(folder, seconds=6))
    assert "ran for more than 6 s and was stopped (line 2)" in found["01"][1]
    assert found["02"][0] == 0.3                      # of 3, for the shape
    assert "Likely cause: the sum over all weights is missing" in found["02"][1]
    assert "cannot be imported: SyntaxError" in found["15"][1]
    assert found["15"][1].count("line 1") == 1
    assert "ended without an answer: it ended Python (exit status 3)" in found["31"][1]
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere one in a session of "
                    "its own goes on")
@pytest.mark.parametrize("session", [False, True])
def test_processes_that_a_file_starts_are_ended(tmp_path, session):
    write_assignment(tmp_path, names=["1"])
    (tmp_path / "student" / "01_softmax.py").write_text(
        "import subprocess, sys\n"
        "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],\n"
        f"                       start_new_session={session})\n"
        "raise ValueError(f'pid={one.pid}.')\n")
    feedback = grade(tmp_path / "student", 600)[0]["feedback"]
    assert not is_alive(int(feedback.partition("pid=")[2].partition(".")[0]))


RIGHT = '''import numpy as np


def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)
'''


@pytest.mark.slow
@pytest.mark.parametrize("more", [
    "np.seterr(all='raise')\n",
    "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n",
    "import os\nos.chdir('/')\n", "print('\\ud800'.encode('utf-8', 'replace'))\n"])
def test_side_effects_of_a_right_file_cost_no_points(tmp_path, more):
    write_assignment(tmp_path, names=["1"])
    (tmp_path / "student" / "01_softmax.py").write_text(RIGHT + more)
    (row,) = grade(tmp_path / "student", seconds=15)
    assert row["points"] == 2, row


@pytest.mark.parametrize("text, words", every(5, [
    ("raise ValueError('\\ud800')\n", "ValueError: \\ud800"),
    ("class E(Exception):\n    def __str__(self):\n        1 / 0\n\n\nraise E\n",
     "imported: E (line 6)"),
    ("def softmax(x):\n    raise KeyboardInterrupt\n", "it raised KeyboardInterrupt in line 2"),
    ("import nothing_of_that_name\n", "ModuleNotFoundError"),
    ("x = 1\n", "there is no function softmax"),
    ("raise SystemExit(0)\n", "SystemExit"), ("softmax = 3\n", "there is no function softmax"),
    ("1 / 0\n", "ZeroDivisionError: division by zero (line 1)"),
    ("def softmax(x):\n    raise KeyError('a')\n", "it raised KeyError: 'a' in line 2"),
    ("def softmax(x):\n    return None\n", "not done yet"),
    ("def softmax(x):\n    y = x.max()\n", "not done yet: it returns None (is the last line a"),
    ("def softmax(x):\n    return 'a'\n", "must be an array"),
    ("def softmax():\n    pass\n", "it raised TypeError"),
    ("def softmax(x:\n", "imported: SyntaxError: '(' was never closed (line 1)"),
    ("def softmax(x):\n    import sys\n    sys.exit()\n", "it raised SystemExit")]))
def test_each_kind_of_broken_file_is_named(tmp_path, text, words):
    write_assignment(tmp_path, names=["1"])
    (tmp_path / "student" / "01_softmax.py").write_text(text)
    (row,) = grade(tmp_path / "student", 600)
    assert row["points"] == 0 and words in row["feedback"] and "\n" not in row["feedback"]


@pytest.mark.slow
def test_a_missing_file_gets_no_points_and_partial_answers_get_their_part(folder):
    (folder / "01_softmax.py").unlink()
    text = (folder / "31_figure_mask.py").read_text()
    (folder / "31_figure_mask.py").write_text(text.replace(
        'raise NotImplementedError("your turn")',
        'return {"allowed": -1, "first": T - 1 - BEFORE, "layers": "many"}'))
    found = feedback_by_number(grade(folder, 600))
    assert found["01"] == (0, "01_softmax.py does not exist, or is not a file")
    assert found["31"] == (0.67, "wrong: allowed, layers; 1 of 3 right")


@pytest.mark.parametrize("given, words", [
    (lambda: None, "must return a dict of same, spread, slowest"),
    (lambda: {"same": 1}, "must return a dict"),
    (lambda: 1 / 0, "ZeroDivisionError"),
    (lambda: {"same": (1,), "spread": "real", "slowest": None}, "0 of 3 right")])
def test_answers_of_a_wrong_form_are_refused(given, words):
    assert words in judge_answers("33_figure_rotary", given, seed=0)


def test_any_right_answer_of_several_is_accepted():
    exercise = find_exercises(["33"])[0]
    module = {}
    exec(exercise.teacher(2), module)
    expected = module["answers"]()
    for shift, right in ((1, True), (2, True), (0, False), (20, False)):
        given = {**expected, "same": (module["M"] + shift, module["N"] + shift)}
        assert judge_answers(exercise.name, lambda: given, seed=2).startswith("right") == right


def test_exercises_and_grade_on_the_command_line(capsys, tmp_path):
    status, out, _ = call(capsys, "exercises", "3", "04_linear_backward", "--out", tmp_path / "e",
                          "--notebook", "otter", "--json")
    files = last_json(out)["files"]
    assert status == 0 and len(files) == 9 and files[-1].endswith("exercises-otter.ipynb")
    status, out, _ = call(capsys, "grade", tmp_path / "e" / "teacher", "--json")
    result = last_json(out)
    assert status == 0 and (result["points"], result["of"]) == (4, 4) and "4 of 4 points" in out
    assert [row["name"] for row in result["exercises"]] == ["03_linear", "04_linear_backward"]
    status, out, _ = call(capsys, "exercises", "--list")
    assert status == 0 and len(out.splitlines()) == len(all_exercises())


@pytest.mark.parametrize("words, message", [
    (("exercises", "99"), "name='99' is unknown"), (("exercises", "--seed", -1), "--seed=-1"),
    (("grade", "nothing"), "give a folder"), (("grade",), "there is no assignment.json"),
    (("grade", "nrm"), "'nrm' is neither an exercise nor a folder"),
    (("grade", "norm"), "may be 09_layer_norm, 10"), (("grade", "10", ".", "--html", "p"), ".html"),
    (("grade", "--html", "no/p.html"), "there is no folder no"),
    (("grade", "--csv", "p.xlsx"), "must end in .csv"),
    (("hint",), "EXERCISE is missing"), (("hint", "10"), "give a folder"),
    (("hint", "10", "--level", 4), "--level: 4 is unknown"), (("solution", "10"), "give a folder"),
    (("grade", "nothing", "--seconds", 0), "seconds=0")])
def test_bad_requests_are_one_line(capsys, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err = call(capsys, *words)
    assert status == 2 and message in err and len(err.splitlines()) == 1


def test_a_damaged_manifest_is_one_line(capsys, folder):
    for damaged in ("{}", "[]", '{"seed": -1, "exercises": ["01"]}', '{"seed": 0, "exercises": 5}',
                    '{"seed": 0, "exercises": [5, 99]}'):
        (folder / MANIFEST).write_text(damaged)
        status, _, err = call(capsys, "grade", folder)
        assert status == 2 and ("make the folder again" in err
                                or "'99' is unknown" in err) and len(err.splitlines()) == 1


def test_without_processes_and_threads_files_are_judged_here(folder, monkeypatch, capfd):
    monkeypatch.setattr(sys, "platform", "emscripten")
    monkeypatch.setattr(grading, "ThreadPoolExecutor", None)
    monkeypatch.setattr(grading, "subprocess", None)
    (folder / "01_softmax.py").write_text("print('noise')\n" + RIGHT)
    (folder / "02_softmax_backward.py").write_text("def softmax_backward(dp, x):\n    exit()\n")
    (folder / "15_scaled_dot_product_attention.py").write_text("1 / 0\n")
    found = feedback_by_number(grade(folder, seconds=np.float32(60)))
    assert found["01"][0] == 2 and found["31"] == (0, "not done yet")
    assert "it raised SystemExit" in found["02"][1] and "ZeroDivisionError" in found["15"][1]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e300, "1", None])
def test_a_limit_of_time_is_a_number(folder, seconds):
    with pytest.raises(ValueError, match="seconds="):
        grade(folder, seconds=seconds)
