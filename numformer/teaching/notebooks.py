"""The same exercises as one notebook, for the graders nbgrader and Otter."""

import json
import re

from numformer.checks import check_choice
from numformer.teaching.exercise import find_exercises
from numformer.teaching.support.effort import effort

# what each grader writes instead of a solution
GRADERS = {"nbgrader": "raise NotImplementedError()", "otter": "..."}


def notebook(grader, seed=0, names=None):
    """The teacher's notebook, from which the grader makes the students'.

    Each exercise is a text, a cell with the solution between marks, and a cell that grades with
    `numformer.check`, or compares answers with those of the solution. nbgrader reads the metadata
    of cells, Otter reads raw cells around them. Otter runs all tests after the last cell, so no two
    exercises may define the same name: a bug in `softmax_backward` is corrected in
    `corrected_softmax_backward`.

    Parameters
    ----------
    grader : "nbgrader" or "otter"
    seed, names
        As in `write_assignment`. If there is a bug to find, the text shows the wrong function, and
        the corrected one is to be written into an empty one: graders have no marks for bugs.

    Returns
    -------
    str
        JSON of notebook format 4.5.

    Raises
    ------
    ValueError
        If the grader or an exercise is unknown.

    References
    ----------
    nbgrader's manual, "Creating and grading assignments"; Otter-Grader's manual, "Notebook format"
    of Otter Assign. Tried with nbgrader 0.9.6 and Otter-Grader 7.0.0: students' notebooks made,
    handed in and graded.
    """
    check_choice("notebook", "grader", grader, list(GRADERS))
    introduction = (f"# Exercises\n\nReplace `{GRADERS[grader]}` with your own lines; the cell "
                    "below each exercise tests them.")
    cells = [_cell("markdown", "start", introduction),
             _cell("code", "pictures", "%matplotlib inline")]
    if grader == "otter":
        config = "# ASSIGNMENT CONFIG\nsolutions_pdf: false\nexport_cell: false"
        cells.insert(0, _cell("raw", "config", config))
    for exercise in find_exercises(names):
        cells += _cells(exercise, grader, seed)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1) + "\n"


def _cells(exercise, grader, seed):
    """The cells of one exercise."""
    name, called = exercise.name, _called(exercise, seed)
    code = re.sub(rf"\b{exercise.function(seed)}\b", called, _code(exercise.solved(seed)))
    if exercise.kind == "answers":
        code += "\n\ndraw().figure"
    text = _cell("markdown", f"{name}-text", _text(exercise, called, seed))
    solution = _cell("code", name, code)
    test = _cell("code", f"{name}-test", _test(exercise, called, seed))
    if grader == "nbgrader":
        for cell, graded in ((solution, False), (test, True)):
            cell["metadata"]["nbgrader"] = {
                "grade": graded, "grade_id": cell["id"], "locked": graded, "schema_version": 3,
                "solution": not graded, "task": False,
                **({"points": exercise.points} if graded else {})}
        return [text, solution, test]

    def mark(kind, more=""):
        return _cell("raw", f"{name}-{kind.lower().replace(' ', '-')}", f"# {kind}{more}")

    return [mark("BEGIN QUESTION", f"\nname: {name}\npoints: {exercise.points}"), text,
            mark("BEGIN SOLUTION"), solution, mark("END SOLUTION"),
            mark("BEGIN TESTS"), test, mark("END TESTS"), mark("END QUESTION")]


def _text(exercise, called, seed):
    """The text of an exercise, with the wrong function if there is a bug to correct."""
    text = re.sub(r"`answers`", f"`{called}`", exercise.text)
    if called.startswith("corrected_"):
        text += (f"\n\n```python\n{_code(exercise.student(seed))}```\n\n"
                 f"Write the corrected lines into `{called}`.")
    return (f"## {exercise.title}\n\n{text}\n\nGoal: {exercise.header('goal')}. "
            f"Needs: {exercise.header('needs')}. {effort(exercise, seed).minutes} minutes, "
            f"{exercise.points_text}. `numformer.hint({int(exercise.name[:2])}, seed={seed})` "
            "gives a hint.")


def _called(exercise, seed):
    """The name of the function in the notebook, where all exercises share one namespace."""
    function = exercise.function(seed)
    if exercise.kind == "answers":
        return f"answers_{exercise.name[:2]}"
    return f"corrected_{function}" if "_bug_in_" in exercise.name else function


def _code(source):
    """A file without its text and header, which are in a cell of their own."""
    return re.sub(r'\A""".*?"""\n(?:# [^\n]*\n)+\n*', "", source, flags=re.DOTALL)


def _test(exercise, called, seed):
    """Code that fails if the exercise is not solved."""
    if exercise.kind == "check":
        levels = f", levels={exercise.levels}" if exercise.levels else ""
        levels += "" if exercise.bug(seed) is None else ", cause=False"
        return ("import numformer\n\n"
                f"verdict = numformer.check({exercise.function(seed)!r}, {called}{levels})\n"
                "assert verdict, verdict")
    judge = "judge_own" if exercise.kind == "own" else "judge_answers"
    return (f"from numformer.teaching.judge import {judge}\n\n"
            f"feedback = {judge}({exercise.name!r}, {called}, seed={seed})\n"
            "assert feedback.startswith('right'), feedback")


def _cell(kind, name, source):
    """A cell of a notebook."""
    lines = source.rstrip("\n").splitlines(keepends=True)
    extra = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": name.replace("_", "-")[:64], "metadata": {}, "source": lines,
            **extra}
