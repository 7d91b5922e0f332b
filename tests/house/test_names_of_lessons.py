"""Every name in a lesson is there: in its code, and in what its text tells the reader to call."""

import ast
import builtins
import importlib
import json
import re
import symtable
from pathlib import Path

import pytest

from numformer.specifications import find_problem, hints_of

ROOT = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(ROOT.glob("*.ipynb"))
HELP = ("check", "hint", "solution")                  # functions that take the name of a function


def cells_of(path):
    """(kind, source) of each cell, without what Jupyter alone reads."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], re.sub("^%.*$", "", "".join(cell["source"]), flags=re.MULTILINE))
            for cell in cells]


def spans(text):
    """The parsed pieces of code in a text, such as `hint("linear")` and `y = weight[ids]`."""
    for span in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", " ", text, flags=re.DOTALL)):
        try:
            yield ast.parse(" ".join(span.split()))
        except SyntaxError:
            pass                                      # a path, a command, a shape


def calls(tree):
    """(name of the function, first argument) of each call of a plain name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            first = node.args[0] if node.args else None
            yield node.func.id, first.value if isinstance(first, ast.Constant) else first


def scopes(table):
    yield table
    for child in table.get_children():
        yield from scopes(child)


def undefined(cells):
    """Names of code cells that are not defined: later for functions, or before for a cell."""
    whole = "\n\n".join(source for kind, source in cells if kind == "code")
    table = symtable.symtable(whole, "lesson", "exec")
    known = {*dir(builtins), "display", "__file__", "__name__"}
    found = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()
             or symbol.is_imported() or symbol.is_namespace()} | known
    for scope in scopes(table):
        yield from (symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global()
                    and symbol.is_referenced() and symbol.get_name() not in found)
    before = set(known)
    for kind, source in cells:
        if kind == "code":
            symbols = symtable.symtable(source, "cell", "exec").get_symbols()
            own = {symbol.get_name() for symbol in symbols if symbol.is_assigned()
                   or symbol.is_imported() or symbol.is_namespace()}
            yield from (symbol.get_name() for symbol in symbols if symbol.is_referenced()
                        and symbol.get_name() not in before | own)
            before |= own


def imports(cells):
    """(module, name, as what) of each import of a lesson."""
    for kind, source in cells:
        for node in ast.walk(ast.parse(source)) if kind == "code" else ():
            if isinstance(node, ast.ImportFrom):
                yield from ((node.module, each.name, each.asname or each.name)
                            for each in node.names)
            elif isinstance(node, ast.Import):
                yield from ((each.name, None, each.asname or each.name.split(".")[0])
                            for each in node.names)


def missing(cells):
    """Everything that would raise an error if a reader ran it, in words."""
    yield from (f"{name} is not defined" for name in undefined(cells))
    for module, name, _ in imports(cells):
        if module.split(".")[0] == "numformer":
            page = importlib.import_module(module)
            if name and not hasattr(page, name):
                try:
                    importlib.import_module(f"{module}.{name}")
                except ModuleNotFoundError:
                    yield f"{module} has no {name}"
    defined = {*dir(builtins), *(name for *_, name in imports(cells))}
    defined |= {node.name for kind, source in cells if kind == "code"
                for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
    for kind, source in cells:
        for tree in [ast.parse(source)] if kind == "code" else spans(source):
            for name, first in calls(tree):
                if kind != "code" and name not in defined:
                    yield f"{name} is called in a text, and not imported"
                if name in HELP and isinstance(first, str) and not is_known(name, first):
                    yield f'{name}("{first}") raises an error'


def is_known(name, function):
    """Whether check, hint or solution knows a function."""
    try:
        find_problem(function)
    except ValueError:
        return False
    return name != "hint" or len(hints_of(function)) == 3


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_name_of_a_lesson_is_there(path):
    assert not list(missing(cells_of(path)))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_an_exercise_has_a_hint_and_a_solution(path):
    """Those of the function that the next cell checks."""
    cells, found = cells_of(path), 0
    for (kind, text), (_, code) in zip(cells, cells[1:]):
        if kind == "markdown" and "**Exercise " in text:
            checked = [first for name, first in calls(ast.parse(code)) if name == "check"]
            exercise = text[text.index("**Exercise "):]
            helped = [each for tree in spans(exercise) for each in calls(tree) if each[0] in HELP]
            assert [("hint", checked[0]), ("solution", checked[0])] == helped, exercise
            assert len(checked) == 1
            found += 1
    assert found >= 2


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_what_a_lesson_imports_is_used(path):
    """In its code or in its text: flake8 does not read texts."""
    cells = cells_of(path)
    trees = [ast.parse(source) for kind, source in cells if kind == "code"]
    trees += [tree for kind, source in cells if kind == "markdown" for tree in spans(source)]
    used = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}
    unused = {name for *_, name in imports(cells)} - used
    assert not unused, unused


@pytest.mark.parametrize("cells, words", [
    ([("code", "x = y")], "y is not defined"),
    ([("code", "x = y"), ("code", "y = 1")], "y is not defined"),
    ([("code", "def f():\n    return g()")], "g is not defined"),
    ([("code", "from numformer import chekc")], "numformer has no chekc"),
    ([("code", "from numformer.functional import window_distance")], "no window_distance"),
    ([("markdown", 'For help, `hint("linear")`.')], "hint is called in a text"),
    ([("code", "from numformer import hint"), ("markdown", 'See `hint("linaer")`.')],
     'hint("linaer") raises an error'),
    ([("code", "from numformer import check\ncheck('sofmax', abs)")], 'check("sofmax")'),
    ([("code", "from numformer import solution"), ("markdown", 'So `solution("linear_forward")`')],
     'solution("linear_forward")')])
def test_a_name_that_is_not_there_is_found(cells, words):
    assert any(words in each for each in missing(cells)), list(missing(cells))


def test_names_that_are_there_are_right():
    assert not list(missing([
        ("markdown", "`a, b` and `python -m numformer` and `y = np.repeat(x, 2)`"),
        ("code", "import numpy as np\n\nfrom numformer import check, hint, models\n\n\n"
                 "def f(x):\n    return g(x)\n\n\ndef g(x):\n    return [k for k in x]"),
        ("code", "for name in [f]:\n    print(name, models, __name__)\ncheck('linear', f)"),
        ("markdown", 'Stuck? `hint("linear_backward")`; then `f(3)`.')]))
