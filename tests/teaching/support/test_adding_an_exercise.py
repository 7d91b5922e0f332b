"""The example of ADDING_AN_EXERCISE.md is an exercise, and the page's claims about it hold."""

import doctest
import re
from pathlib import Path

import numformer.teaching
from numformer.teaching import Exercise, all_exercises, check
from numformer.teaching.support.credit import credit
from numformer.teaching.support.effort import effort

PAGE = Path(numformer.teaching.__file__).with_name("ADDING_AN_EXERCISE.md")


def functions(source):
    module = {}
    exec(source, module)
    return module


def test_the_page_runs():
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0
    text = PAGE.read_text(encoding="utf-8")
    source = re.search(r'```python\n(""".*?)```', text, re.DOTALL)[1]
    number, name = re.search(r"^## 2\..*/(\d+)_(\w+)\.py`$", text, re.MULTILINE).groups()
    assert int(number) == len(all_exercises()) + 1
    exercise = Exercise(f"{number}_{name}", source, "basics")
    name = exercise.function(0)
    assert name == "log_softmax_backward" and len(exercise.hints(0)) == 3
    assert effort(exercise).minutes == 15 and "HINTS" not in exercise.student(0)
    verdict = check(name, functions(exercise.teacher(0))[name], seed=0)
    assert verdict and not verdict.remarks
    starter = functions(exercise.student(0))[name]
    assert not check(name, starter, seed=0).written
    wrong = check(name, lambda dy, x: dy - functions(exercise.teacher(0))["np"].exp(x), seed=0)
    assert not wrong and credit(exercise, starter, name, 0) == {"dx": (0, 2)}


def test_the_page_names_what_there_is():
    text, folder = PAGE.read_text(encoding="utf-8"), PAGE.parent
    for name in ("exercises", "support/effort.py", "../ADDING_A_FUNCTION.md"):
        assert name in text and (folder / name).exists()
    assert max(map(len, text.splitlines())) <= 100
