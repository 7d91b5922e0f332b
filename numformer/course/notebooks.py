"""The same exercises as one notebook, for the two graders that classes use: nbgrader and Otter."""

import json
import re

from numformer.checks import check_choice
from numformer.course.assignment import chosen_pages

GRADERS = {"nbgrader": "raise NotImplementedError()", "otter": "..."}  # what each of them writes in the place of a solution


def notebook(grader, seed=0, names=None):
    """The teacher's notebook, from which the grader makes the students'.

    Each exercise is a text, a cell with the solution between marks, and a cell that grades by `numformer.check`, or holds the answers
    against those of the solution. nbgrader reads its cells' metadata, Otter raw cells around them. Otter asks for all grades after the
    last cell has run, so no two exercises define the same name: `mended_softmax_backward` stands beside `softmax_backward`.

    Parameters
    ----------
    grader : "nbgrader" or "otter"
    seed, names
        As in `write_assignment`. Where a bug is to be found, the text shows the wrong function, and an empty place waits for the right
        lines: graders know no bugs.

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
    nbgrader's manual, "Creating and grading assignments"; Otter-Grader's manual, "Notebook format" of Otter Assign. Gone through with
    nbgrader 0.9.6 and Otter-Grader 7.0.0: students' notebooks made, handed in and graded.
    """
    check_choice("notebook", "grader", grader, list(GRADERS))
    cells = [_cell("markdown", "start", f"# Exercises\n\nReplace `{GRADERS[grader]}` with your own lines; the cell below each "
                   "exercise says whether they are right."), _cell("code", "pictures", "%matplotlib inline")]
    if grader == "otter":
        cells.insert(0, _cell("raw", "config", "# ASSIGNMENT CONFIG\nsolutions_pdf: false\nexport_cell: false"))
    for page in chosen_pages(names):
        cells += _exercise(page, grader, seed)
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def _exercise(page, grader, seed):
    """The cells of one exercise."""
    name, called = page.name, _called(page, seed)
    function = rf"\b{page.function(seed)}\b"
    code = re.sub(function, called, _code(page.solved(seed)))
    text = re.sub(r"`answers`", f"`{called}`", page.text)
    if called.startswith("mended_"):
        text += f"\n\n```python\n{_code(page.student(seed))}```\n\nWrite the right lines into `{called}`."
    if page.kind == "answers":
        code += "\n\ndraw().figure"
    about = f"Goal: {page.said('goal')}. Before it: {page.said('needs')}. {page.said('minutes')} minutes, {page.worth}."
    text = _cell("markdown", f"{name}-text", f"## {page.title}\n\n{text}\n\n{about}")
    solution, test = _cell("code", name, code), _cell("code", f"{name}-test", _test(page, called, seed))
    if grader == "nbgrader":
        for cell, graded in ((solution, False), (test, True)):
            cell["metadata"]["nbgrader"] = {"grade": graded, "grade_id": cell["id"], "locked": graded, "schema_version": 3,
                                            "solution": not graded, "task": False, **({"points": page.points} if graded else {})}
        return [text, solution, test]
    marks = {kind: _cell("raw", f"{name}-{kind.lower().replace(' ', '-')}", f"# {kind}") for kind in (
        "END QUESTION", "BEGIN SOLUTION", "END SOLUTION", "BEGIN TESTS", "END TESTS")}
    begin = _cell("raw", f"{name}-begin-question", f"# BEGIN QUESTION\nname: {name}\npoints: {page.points}")
    return [begin, text, marks["BEGIN SOLUTION"], solution, marks["END SOLUTION"], marks["BEGIN TESTS"], test, marks["END TESTS"],
            marks["END QUESTION"]]


def _called(page, seed):
    """The name of the function in the notebook, where all exercises share one namespace."""
    function = page.function(seed)
    if page.kind == "answers":
        return f"answers_{page.name[:2]}"
    return f"mended_{function}" if "_bug_in_" in page.name else function


def _code(source):
    """A page without its text and its header, which stand in a cell of their own."""
    return re.sub(r'\A""".*?"""\n(?:# [^\n]*\n)+\n*', "", source, flags=re.DOTALL)


def _test(page, called, seed):
    """Code that fails where the exercise is not solved."""
    if page.kind == "check":
        levels = f", levels={page.levels}" if page.levels else ""
        return f"import numformer\n\nverdict = numformer.check({page.function(seed)!r}, {called}{levels})\nassert verdict, verdict"
    return (f"from numformer.course.judge import judged_answers\n\nsaid = judged_answers({page.name!r}, {called}, seed={seed})\n"
            "assert said.startswith('right'), said")


def _cell(kind, name, source):
    """A cell of a notebook."""
    lines = source.rstrip("\n").splitlines(keepends=True)
    extra = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": name.replace("_", "-")[:64], "metadata": {}, "source": lines, **extra}
