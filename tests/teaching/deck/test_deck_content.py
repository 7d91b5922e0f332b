"""What the table of the decks says is true: formulas are those of the code, tests and lessons are
about it."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from numformer.teaching.deck import DECKS
from numformer.teaching.deck.formula import evaluate

ROOT = Path(__file__).parents[3]
ROWS = [row for deck in DECKS.values() for row in deck.rows]
NAMES = [f"{row.deck}{row.lines[0]}" for row in ROWS]
each_row = pytest.mark.parametrize("row", ROWS, ids=NAMES)


def _tests():
    """The names that each test uses, and those in constants of its page, by ``page::test``."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        page = ast.parse(path.read_text(encoding="utf-8")).body
        constants = {target.id: set(_names(node.value)) for node in page
                     if isinstance(node, ast.Assign) for target in node.targets
                     if isinstance(target, ast.Name)}
        for node in page:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                names = set(_names(node))
                yield f"{path.stem}::{node.name}", names.union(
                    *(constants.get(name, ()) for name in names))


def _names(tree):
    """Names, attributes and what strings are names of, without that of the page before a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.rpartition(".")[2]


TESTS = dict(_tests())
LESSONS = {int(path.name[:2]): path.read_text(encoding="utf-8")
           for path in (ROOT / "notebooks" / "source").glob("[0-9]*.py")}


def of_code(row):
    """The names of a row's code, and those of their backwards."""
    names = {name.rpartition(".")[2] for name in row.code}
    return names | {f"{name}_backward" for name in names}


def words(names):
    """The words that names are made of, but for those that every page has."""
    common = {"attention", "model", "models", "layer", "backward"}
    return {word.lower() for name in names for word in re.findall("[A-Z]*[a-z0-9]+", name)
            if len(word) >= 5} - common


def depended_on(formula, claims):
    """The text of the claims of a formula, and of all definitions that they depend on."""
    text, before = " ".join(claims), ""
    while text != before:
        before = text
        for names, _, value in (equation.partition(" = ") for equation in formula):
            if set(names.split(", ")) & set(re.findall(r"\w+", text)) and value not in text:
                text += f" {value}"
    return text


@pytest.mark.parametrize("row", [
    # of which the Switch Transformer's 92,160 experts take seconds to count
    pytest.param(row, marks=[pytest.mark.slow] * ("'switch-c'" in "".join(row.formula)))
    for row in ROWS], ids=NAMES)
def test_a_formula_is_that_of_the_first_code(row):
    for seed in (0, 1) if row.where else (0,):        # without arrays there is nothing to draw
        sides = evaluate(row, seed)
        assert bool(sides) == bool(row.formula)
        for equation, (code, formula) in sides.items():
            if code.dtype.kind in "US":
                np.testing.assert_array_equal(code, formula, equation)
            else:
                np.testing.assert_allclose(code, formula, 1e-9, 1e-12, err_msg=equation)
    assert not row.formula or row.code[0] in depended_on(row.formula, sides)


@each_row
def test_each_test_of_a_row_names_its_code(row):
    assert [test for test in row.tests if not of_code(row) & TESTS[test]] == []
    assert not row.code or row.formula or row.tests, "nothing holds that the code is right"


@each_row
def test_lessons_of_a_row_are_about_its_code(row):
    for name in row.run:
        kind, _, number = name.partition(":")
        if kind == "notebook":
            lesson = LESSONS[int(number)]
            assert (of_code(row) & set(re.findall(r"\w+", lesson))
                    or any(word in lesson.lower() for word in words(of_code(row)))), name


@pytest.mark.parametrize("axis", ["0, keepdims=True", "1"])           # another one; does not fit
def test_a_wrong_formula_is_found(axis):
    row = DECKS["A"].row_at(39)._replace(
        formula=(f"functional.softmax(E) = exp(E) / sum(exp(E), {axis})",))
    with pytest.raises((AssertionError, ValueError)):
        test_a_formula_is_that_of_the_first_code(row)


def test_a_formula_that_says_nothing_of_the_code_is_found():
    row = DECKS["A"].row_at(39)._replace(
        formula=("A = functional.softmax(E)", "exp(E) = exp(E)"))
    with pytest.raises(AssertionError):
        test_a_formula_is_that_of_the_first_code(row)


def test_tests_and_lessons_of_something_else_are_found():
    relu = DECKS["B"].row_at(483)
    with pytest.raises(AssertionError):
        test_lessons_of_a_row_are_about_its_code(relu._replace(run=("notebook:2",)))
    with pytest.raises(AssertionError):
        test_each_test_of_a_row_names_its_code(relu._replace(tests=(
            "test_softmax::test_a_mask_broadcasts",)))
