"""What lessons recommend as homework is left to do: no answer is in its lesson.

The rule, for the exercises that the end of a lesson recommends:

- the lesson does not check the same function, nor another name of it: there the student has written
  it already, or reads it;
- no statement of the solution that has four operations or more is a statement of the lesson, and
  not all of its statements are (if they have so many together), whatever the variables are called.
  Operations are arithmetic, comparisons, calls and subscripts. Statements of a lesson are those of
  its code and of functions that it prints.

A lesson whose subject is a derivation shows it, and recommends other exercises; a lesson that
builds on the result recommends that one. No plan of a course has the same homework twice.
"""

import ast
import json
import re
from collections import Counter
from functools import cache
from itertools import chain
from textwrap import indent

import pytest

from numformer.teaching import all_exercises
from test_plans import PLANS, ROOT, SOURCES, exercises, weeks

EXERCISES = {int(exercise.name[:2]): exercise for exercise in all_exercises()}
LARGE = 4                                             # operations
SEEDS = range(12)                                     # all variants and bugs
OPERATIONS = ast.BinOp, ast.Compare, ast.Call, ast.Subscript
OTHER_NAMES = {"attention": "scaled_dot_product_attention",
               "softmax_cross_entropy": "cross_entropy"}


@cache
def statements(code):
    """The values of a code's statements, with variables numbered, and their operations."""
    found = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)) and node.value:
            value, numbers = ast.parse(ast.unparse(node.value), mode="eval"), {}
            called = [call.func for call in ast.walk(value) if isinstance(call, ast.Call)]
            for name in ast.walk(value):
                if isinstance(name, ast.Name) and name.id != "np" and name not in called:
                    name.id = f"x{numbers.setdefault(name.id, len(numbers))}"
            found[ast.unparse(value)] = sum(isinstance(each, OPERATIONS)
                                            for each in ast.walk(value))
    return {value: operations for value, operations in found.items() if operations}


def code_of(lesson):
    """The code of a built lesson, and functions in what it prints."""
    (path,) = ROOT.glob(f"{lesson:02}_*.ipynb")
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield re.sub("(?m)^%.*$", "", "".join(cell["source"]))
            for output in cell["outputs"]:
                printed = "".join(output.get("text", ()))
                yield from re.findall(r"(?m)^def .*(?:\n(?: .*)?$)*", printed)


@cache
def solutions(exercise):
    """The solutions of all variants."""
    return sorted({exercise.solution(seed) for seed in SEEDS})


def answers_in(code, exercise):
    """Statements of a solution that a lesson's code holds: large ones, or all."""
    given = set(chain(*map(statements, code)))
    for solution in solutions(exercise):
        own = statements("def f():\n" + indent(solution, "    "))
        if sum(own.values()) >= LARGE and own.keys() <= given:
            return list(own)
        if found := [value for value in given if own.get(value, 0) >= LARGE]:
            return found
    return []


@cache
def functions(exercise):
    """The functions that an exercise may ask for."""
    return {exercise.function(seed) for seed in SEEDS}


def checked(source):
    """The functions that a lesson checks, as exercises name them."""
    for name in re.findall(r'(?m)^check\("(\w+?)(?:_backward)?"', source):
        for end in ("", "_backward"):
            if f'check("{name}{end}"' in source:
                yield OTHER_NAMES.get(name, name) + end


def faults(lesson):
    """What a lesson recommends and holds: (number of the exercise, functions or statements)."""
    code, known = list(code_of(lesson)), set(checked(SOURCES[lesson]))
    for number in sorted(exercises(SOURCES[lesson])):
        exercise = EXERCISES[number]
        if found := sorted(functions(exercise) & known) or answers_in(code, exercise):
            yield number, found


@pytest.mark.parametrize("lesson", SOURCES)
def test_no_answer_is_in_its_lesson(lesson):
    assert list(faults(lesson)) == []


@pytest.mark.parametrize("number, code, found", [
    (2, "ds = w * (g - (w * g).sum(axis=-1, keepdims=True))", True),
    (2, "ds = w * (w - (w * g).sum(axis=-1, keepdims=True))", False),     # of other variables
    (1, "e = np.exp(z - z.max(axis=-1, keepdims=True))", False),          # half of it
    (1, "e = np.exp(z - z.max(axis=-1, keepdims=True))\n"
     "p = e / e.sum(axis=-1, keepdims=True)", True),
    (25, "def f(g, w):\n    return w * (g - (w * g).sum(axis=-1, keepdims=True))", True),
    (3, "y = x @ W + b", False)])                                         # too short to be one
def test_an_answer_is_found_under_other_names(number, code, found):
    assert bool(answers_in([code], EXERCISES[number])) == found


def test_an_exercise_that_a_lesson_checks_is_found(monkeypatch):
    for lesson in (5, 9):
        other = re.sub("(?<=numformer exercises )[0-9 ]+", "10 15 34", SOURCES[lesson])
        monkeypatch.setitem(SOURCES, lesson, other)
    assert [number for number, _ in faults(5)] == [10]
    assert list(faults(9)) == [(15, ["scaled_dot_product_attention"])]


def test_functions_that_a_lesson_prints_are_read():
    (printed,) = [code for code in code_of(22) if code.startswith("def layer_norm_backward(")]
    assert "return" in printed and "def attention" not in printed


def test_lessons_recommend_all_exercises():
    """But for the newest, which may have no lesson yet."""
    recommended = set().union(*map(exercises, SOURCES.values()))
    assert recommended == set(range(1, len(recommended) + 1))


@pytest.mark.parametrize("heading", PLANS)
def test_no_homework_is_given_twice(heading):
    given = Counter(chain.from_iterable(homework for _, homework in weeks(heading)))
    assert len(given) >= 18 and set(given.values()) == {1}
