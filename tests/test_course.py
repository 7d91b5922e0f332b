"""Exercises: what students and teachers get, what differs by seed, and grades whatever a student's file does."""

import ast
import json
import os
import re
import time

import numpy as np
import pytest

from command import call, last_json
from numformer.course import grade, notebook, pages, write_assignment
from numformer.course.assignment import MANIFEST
from numformer.course.judge import judge, judged_answers
from numformer.verify import check
from numformer.verify.exercises import EXERCISES

PAGES = pages()
SEEDS = range(4)


def by_kind(kind):
    return [page for page in PAGES if page.kind == kind]


def test_there_are_enough_of_each_sort():
    names = [page.name for page in PAGES]
    assert len(PAGES) == 36 and names == sorted(names)
    assert sum("_bug_in_" in name for name in names) == 6 and sum("_figure_" in name for name in names) == 6
    functions = [page.function(0) for page in by_kind("check")]
    assert all(function.removesuffix("_backward") in EXERCISES for function in functions)
    assert sum(function.endswith("_backward") for function in functions) >= 16
    for page in PAGES:
        assert page.title.endswith(".") and page.text and 1 <= page.points <= 5 and 5 <= int(page.said("minutes")) <= 40
        for needed in page.said("needs").split(", "):
            assert needed in ("nothing", "activation") or any(needed in other for other in names), f"{page.name} needs {needed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_teachers_page_is_right_and_the_students_is_not(page, tmp_path):
    for seed in SEEDS if page.kind == "check" else (0, 3):
        teacher, student = tmp_path / f"teacher{seed}.py", tmp_path / f"student{seed}.py"
        teacher.write_text(page.teacher(seed))
        student.write_text(page.student(seed))
        right, wrong = judge(teacher, page.name, seed), judge(student, page.name, seed)
        assert right["part"] == 1.0 and right["said"].startswith("right"), right
        assert wrong["part"] == 0.0, wrong
        assert ("not done yet" in wrong["said"]) != ("_bug_in_" in page.name), wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_students_see_no_solution(page):
    for seed in SEEDS:
        student, teacher = page.student(seed), page.teacher(seed)
        ast.parse(student), ast.parse(teacher)
        assert not any(mark in student for mark in ("SOLUTION", "BUG", "TEACHER", "VARIANT", "the student's bug"))
        assert not any(mark in teacher for mark in ("BEGIN BUG", "VARIANT"))
        assert student.count("# BEGIN") == 0 and "\n\n\n\n" not in student and student.endswith("\n") and not student.endswith("\n\n")


def test_seeds_vary_bugs_numbers_and_functions():
    by_name = {page.name[3:]: page for page in PAGES}
    assert len({by_name["bug_in_layer_norm_backward"].student(seed) for seed in range(12)}) == 3
    assert len({by_name["figure_mask"].student(seed) for seed in range(40)}) == 12
    assert {by_name["activation"].function(seed) for seed in range(12)} == {"silu", "gelu_tanh", "relu_squared"}
    assert {by_name["activation_backward"].function(seed) for seed in range(12)} == {
        "silu_backward", "gelu_tanh_backward", "relu_squared_backward"}
    assert all(page.student(5) == page.student(5) for page in PAGES)


def test_the_gradient_of_an_activation_is_that_of_the_same_activation():
    by_name = {page.name: page for page in PAGES}
    for seed in range(12):
        assert by_name["06_activation_backward"].function(seed) == by_name["05_activation"].function(seed) + "_backward"


def test_the_figures_teach_what_their_titles_say():
    """Whatever the seed: plain scores saturate the softmax, and the norm before each branch makes gradients shorter."""
    for number, expected in (("32", {"gradient": "scaled"}), ("34", {"falls": "before", "careful": "after"})):
        page, variants = next(page for page in PAGES if page.name.startswith(number)), {}
        for seed in range(40):
            variants.setdefault(page.teacher(seed), seed)
        for source in variants:
            module = {}
            exec(source, module)
            answers = module["answers"]()
            assert {question: answers[question] for question in expected} == expected, source
            assert answers.get("times", 9) > 2


def test_a_step_that_is_nearly_the_best_is_right():
    page = next(page for page in PAGES if page.name == "36_figure_steps")
    module = {}
    exec(page.teacher(0), module)
    truth, difference = module["answers"](), module["errors"]()["central_difference"]
    for step, error in zip(module["STEPS"], difference):
        said = judged_answers(page.name, lambda: {**truth, "best": step, "left": " Rounding"}, seed=0)
        assert said.startswith("right") == (error <= 3 * difference.min()), (step, said)


def test_every_bug_is_found_and_its_cause_named(tmp_path):
    causes = {}
    for page in PAGES:
        if "_bug_in_" in page.name:
            for seed in range(12):
                path = tmp_path / "student.py"
                path.write_text(page.student(seed))
                bug = page.teacher(seed).split("the student's bug: ")[1].splitlines()[0]
                causes[page.name, bug] = judge(path, page.name, seed)["said"]
    assert len(causes) == 16 and all("Likely cause: " in said for said in causes.values()), [
        key for key, said in causes.items() if "Likely cause" not in said]


@pytest.fixture
def folder(tmp_path):
    write_assignment(tmp_path, seed=1, names=["1", "2", "15", "31"])
    return tmp_path / "student"


def said(rows):
    return {row["name"][:2]: (row["points"], row["said"]) for row in rows}


def test_folders(tmp_path, folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        "01_softmax.py", "02_softmax_backward.py", "15_scaled_dot_product_attention.py", "31_figure_mask.py", "README.md", MANIFEST]
    assert "numformer grade ." in (folder / "README.md").read_text() and "| `01_softmax.py` |" in (folder / "README.md").read_text()
    guide = (tmp_path / "teacher" / "GUIDE.md").read_text()
    assert all(words in guide for words in ("rubric", "Goals", "minutes", "| `02_softmax_backward` | derive"))
    assert json.loads((folder / MANIFEST).read_text())["seed"] == 1
    rows = grade(tmp_path / "teacher")
    assert [row["points"] for row in rows] == [row["of"] for row in rows] == [2, 3, 3, 2]
    assert all(row["points"] == 0 and row["said"] == "not done yet" for row in grade(folder))
    with pytest.raises(ValueError, match="is there already"):
        write_assignment(tmp_path)


def test_names_in_a_manifest_may_be_numbers(folder):
    (folder / MANIFEST).write_text('{"seed": 1, "exercises": [1, "2"]}')
    assert [row["name"] for row in grade(folder)] == ["01_softmax", "02_softmax_backward"]


def test_whatever_one_file_does_the_others_are_graded(folder, capfd):
    (folder / "01_softmax.py").write_text("import numpy as np\nwhile True:\n    pass\n")
    (folder / "02_softmax_backward.py").write_text(
        "import numpy as np\nprint('noise' * 1000)\n\n\ndef softmax_backward(dp, x):\n    print('more noise')\n"
        "    p = np.exp(x - x.max(-1, keepdims=True))\n    p /= p.sum(-1, keepdims=True)\n    return p * dp\n")
    (folder / "15_scaled_dot_product_attention.py").write_text("def scaled_dot_product_attention(q, k, v:\n    return v\n")
    (folder / "31_figure_mask.py").write_text("import os\n\n\ndef answers():\n    os._exit(3)\n")
    (folder / "numpy.py").write_text("raise RuntimeError('not that one')\n")
    started = time.perf_counter()
    found = said(grade(folder, seconds=6))
    assert time.perf_counter() - started < 60
    assert "stopped after 6 s" in found["01"][1]
    assert found["02"][0] == 0 and "Likely cause: the sum over all weights is missing" in found["02"][1]
    assert "cannot be imported: SyntaxError" in found["15"][1] and "line 1" in found["15"][1]
    assert "ended without an answer (exit status 3)" in found["31"][1]
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no groups of processes on this system")
def test_what_a_file_started_ends_with_it(tmp_path):
    write_assignment(tmp_path, names=["1"])
    late = tmp_path / "late.txt"
    (tmp_path / "student" / "01_softmax.py").write_text(
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', \"import time; time.sleep(1.5); open({str(late)!r}, 'w')\"])\n")
    assert "there is no function softmax" in grade(tmp_path / "student")[0]["said"]
    time.sleep(2)
    assert not late.exists()


RIGHT = "import numpy as np\n\n\ndef softmax(x):\n    p = np.exp(x - x.max(-1, keepdims=True))\n    return p / p.sum(-1, keepdims=True)\n"


@pytest.mark.parametrize("more", [
    "np.seterr(all='raise')\n", "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n",
    "import os\nos.chdir('/')\n", "print('\\ud800'.encode('utf-8', 'replace'))\n"])
def test_what_a_right_file_does_beside_takes_no_points(tmp_path, more):
    write_assignment(tmp_path, names=["1"])
    (tmp_path / "student" / "01_softmax.py").write_text(RIGHT + more)
    (row,) = grade(tmp_path / "student", seconds=15)
    assert row["points"] == 2, row


def test_a_result_that_is_none_of_the_judges(tmp_path):
    write_assignment(tmp_path, names=["1"])
    (tmp_path / "student" / "01_softmax.py").write_text("import os, sys\nopen(sys.argv[4], 'w').write('{}')\nos._exit(0)\n")
    assert "ended without an answer" in grade(tmp_path / "student")[0]["said"]


@pytest.mark.parametrize("text, words", [
    ("raise ValueError('\\ud800')\n", "ValueError: ?"),
    ("class E(Exception):\n    def __str__(self):\n        1 / 0\n\n\nraise E\n", "imported: E (line 6)"),
    ("def softmax(x):\n    raise KeyboardInterrupt\n", "it raised KeyboardInterrupt (line 2)"),
    ("import nothing_of_that_name\n", "ModuleNotFoundError"), ("x = 1\n", "there is no function softmax"),
    ("raise SystemExit(0)\n", "SystemExit"), ("softmax = 3\n", "there is no function softmax"),
    ("1 / 0\n", "ZeroDivisionError: division by zero (line 1)"),
    ("def softmax(x):\n    raise KeyError('a')\n", "it raised KeyError: 'a' in line 2"),
    ("def softmax(x):\n    return None\n", "must be an array"), ("def softmax():\n    pass\n", "it raised TypeError"),
    ("def softmax(x):\n    import sys\n    sys.exit()\n", "it raised SystemExit")])
def test_broken_files(tmp_path, text, words):
    write_assignment(tmp_path, names=["1"])
    (tmp_path / "student" / "01_softmax.py").write_text(text)
    (row,) = grade(tmp_path / "student")
    assert row["points"] == 0 and words in row["said"] and "\n" not in row["said"]


def test_a_missing_file_and_partial_answers(folder):
    (folder / "01_softmax.py").unlink()
    text = (folder / "31_figure_mask.py").read_text()
    (folder / "31_figure_mask.py").write_text(text.replace(
        'raise NotImplementedError("your turn")', 'return {"allowed": -1, "first": T - 1 - BEFORE, "layers": "many"}'))
    found = said(grade(folder))
    assert found["01"] == (0, "01_softmax.py is not there, or is no file")
    assert found["31"] == (0.67, "wrong: allowed, layers; 1 of 3 right")


@pytest.mark.parametrize("given, words", [
    (lambda: None, "must return a dict of same, spread, slowest"), (lambda: {"same": 1}, "must return a dict"),
    (lambda: 1 / 0, "ZeroDivisionError"),
    (lambda: {"same": (1,), "spread": "real", "slowest": None}, "0 of 3 right")])
def test_answers_of_another_form(given, words):
    assert words in judged_answers("33_figure_rotary", given, seed=0)


def test_a_question_with_several_answers():
    page = next(page for page in PAGES if page.name == "33_figure_rotary")
    module = {}
    exec(page.teacher(2), module)
    truth = module["answers"]()
    for shift, right in ((1, True), (2, True), (0, False), (20, False)):
        given = {**truth, "same": (module["M"] + shift, module["N"] + shift)}
        assert judged_answers(page.name, lambda: given, seed=2).startswith("right") == right


def test_a_notebook_shows_the_bug_and_asks_for_its_mending():
    cells = json.loads(notebook("nbgrader", seed=2, names=["25"]))["cells"]
    text, solution = ("".join(cell["source"]) for cell in cells[2:4])
    assert "```python\nimport numpy as np\n\n\ndef softmax_backward(dp, x):" in text and "into `mended_softmax_backward`" in text
    shown = {}
    exec(text.split("```")[1].removeprefix("python\n"), shown)
    assert not check("softmax_backward", shown["softmax_backward"], levels=["plain"])
    assert "def mended_softmax_backward(dp, x):" in solution and "# goal" not in solution and "Goal: " in text


def assigned(source):
    """The names that a page gives to functions and numbers of its own, and what it imports from numformer."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets)
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


CALLED = re.compile(r"(?:check|judged_answers)\('\w+', (\w+)")


@pytest.mark.parametrize("grader", ["nbgrader", "otter"])
def test_notebooks_for_graders(grader):
    cells = json.loads(notebook(grader, seed=2))["cells"]
    start, *code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert start["source"] == ["%matplotlib inline"]
    assert len(code) == 2 * len(PAGES) and len({cell["id"] for cell in cells}) == len(cells)
    assert all(len(cell["id"]) <= 64 for cell in cells)
    solutions, tests, module = code[::2], code[1::2], {}
    for page, solution, test in zip(PAGES, solutions, tests):
        source, defined = "".join(solution["source"]), set(module)
        assert source.count("# BEGIN SOLUTION") == source.count("# END SOLUTION") == 1
        assert "student" not in source and "TEACHER" not in source
        assert not set(assigned(source)) & defined - {"draw"}, "of two exercises with one name Otter sees the last one only"
        exec(source, module)
        if grader == "nbgrader":
            assert solution["metadata"]["nbgrader"]["solution"] and test["metadata"]["nbgrader"]["points"] == page.points
            assert test["metadata"]["nbgrader"]["grade"] and test["metadata"]["nbgrader"]["locked"]
    for page, test in zip(PAGES, tests):                              # as Otter has it: all tests when everything has run
        text, called = "".join(test["source"]), module[CALLED.search("".join(test["source"]))[1]]
        exec(text, module)                                            # right as it stands,
        module[called.__name__] = lambda *_: np.zeros(1)
        with pytest.raises(AssertionError):                           # and not otherwise
            exec(text, module)
        module[called.__name__] = called
    raw = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "raw"]
    assert len(raw) == (0 if grader == "nbgrader" else 1 + 6 * len(PAGES))
    if raw:
        assert raw[1] == "# BEGIN QUESTION\nname: 01_softmax\npoints: 2" and raw[2:7] == [
            "# BEGIN SOLUTION", "# END SOLUTION", "# BEGIN TESTS", "# END TESTS", "# END QUESTION"]


def test_the_command_line(capsys, tmp_path):
    status, out, _ = call(capsys, "exercises", "3", "04_linear_backward", "--out", tmp_path / "e", "--notebook", "otter", "--json")
    files = last_json(out)["files"]
    assert status == 0 and len(files) == 9 and files[-1].endswith("exercises-otter.ipynb")
    status, out, _ = call(capsys, "grade", tmp_path / "e" / "teacher", "--json")
    result = last_json(out)
    assert status == 0 and (result["points"], result["of"]) == (4, 4) and "4 of 4 points" in out
    assert [row["name"] for row in result["exercises"]] == ["03_linear", "04_linear_backward"]
    status, out, _ = call(capsys, "exercises", "--list")
    assert status == 0 and len(out.splitlines()) == 36


@pytest.mark.parametrize("words, said", [
    (("exercises", "99"), "name='99' is unknown"), (("exercises", "--seed", -1), "--seed=-1"), (("grade", "nothing"), "give a folder"),
    (("grade", "nothing", "--seconds", 0), "seconds=0")])
def test_bad_requests(capsys, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err = call(capsys, *words)
    assert status == 2 and said in err and len(err.splitlines()) == 1


def test_a_folder_whose_manifest_was_spoilt(capsys, folder):
    for spoilt in ("{}", "[]", '{"seed": -1, "exercises": ["01"]}', '{"seed": 0, "exercises": 5}', '{"seed": 0, "exercises": [5, 99]}'):
        (folder / MANIFEST).write_text(spoilt)
        status, _, err = call(capsys, "grade", folder)
        assert status == 2 and ("make the folder anew" in err or "'99' is unknown" in err) and len(err.splitlines()) == 1
