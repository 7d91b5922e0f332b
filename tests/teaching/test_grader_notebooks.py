"""The notebooks for nbgrader and Otter: their cells, and their tests of the solutions."""

import ast
import json
import re

import numpy as np
import pytest

from numformer.teaching import all_exercises, check, notebook

EXERCISES = all_exercises()


def test_a_notebook_shows_the_bug_and_asks_for_the_correction():
    cells = json.loads(notebook("nbgrader", seed=2, names=["25"]))["cells"]
    text, solution = ("".join(cell["source"]) for cell in cells[2:4])
    assert "```python\nimport numpy as np\n\n\ndef softmax_backward(dp, x):" in text
    assert "into `corrected_softmax_backward`" in text
    shown = {}
    exec(text.split("```")[1].removeprefix("python\n"), shown)
    assert not check("softmax_backward", shown["softmax_backward"], levels=["plain"])
    assert "def corrected_softmax_backward(dp, x):" in solution and "# goal" not in solution
    assert "Goal: " in text


def assigned(source):
    """The names that an exercise defines or imports."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets)
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


CALLED = re.compile(r"(?:check|judge_answers|judge_own)\('\w+', (\w+)")


@pytest.mark.slow                       # all exercises, twice
@pytest.mark.parametrize("grader", ["nbgrader", "otter"])
def test_notebooks_pass_with_solutions_and_fail_without(grader):
    cells = json.loads(notebook(grader, seed=2))["cells"]
    start, *code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert start["source"] == ["%matplotlib inline"]
    assert len(code) == 2 * len(EXERCISES) and len({cell["id"] for cell in cells}) == len(cells)
    assert all(len(cell["id"]) <= 64 for cell in cells)
    solutions, tests, module = code[::2], code[1::2], {}
    for exercise, solution, test in zip(EXERCISES, solutions, tests):
        source, defined = "".join(solution["source"]), set(module)
        assert source.count("# BEGIN SOLUTION") == source.count("# END SOLUTION") == 1
        assert "student" not in source and "TEACHER" not in source
        # Otter sees only the last of two functions with the same name
        assert not set(assigned(source)) & defined - {"draw"}
        exec(source, module)
        if grader == "nbgrader":
            of_solution, of_test = solution["metadata"]["nbgrader"], test["metadata"]["nbgrader"]
            assert of_solution["solution"] and of_test["points"] == exercise.points
            assert of_test["grade"] and of_test["locked"]
    for test in tests:                                # all tests after all solutions, as in Otter
        text, called = "".join(test["source"]), module[CALLED.search("".join(test["source"]))[1]]
        exec(text, module)                            # passes with the solution
        module[called.__name__] = lambda *_: np.zeros(1)
        with pytest.raises(AssertionError):           # and fails without
            exec(text, module)
        module[called.__name__] = called
    raw = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "raw"]
    assert len(raw) == (0 if grader == "nbgrader" else 1 + 6 * len(EXERCISES))
    if raw:
        assert raw[1] == "# BEGIN QUESTION\nname: 01_softmax\npoints: 2" and raw[2:7] == [
            "# BEGIN SOLUTION", "# END SOLUTION", "# BEGIN TESTS", "# END TESTS", "# END QUESTION"]
