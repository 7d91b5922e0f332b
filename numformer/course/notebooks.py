"""The same exercises as one notebook, for the two graders that classes use: nbgrader and Otter."""

import json

from numformer.checks import check_choice
from numformer.course.assignment import chosen_pages

GRADERS = ("nbgrader", "otter")


def notebook(grader, seed=0, names=None):
    """The teacher's notebook, from which the grader makes the students'.

    Each exercise is a text, a cell with the solution between marks, and a cell that grades by `numformer.check`, or holds the answers
    against those of the solution. nbgrader reads its cells' metadata, Otter raw cells around them.

    Parameters
    ----------
    grader : "nbgrader" or "otter"
    seed, names
        As in `write_assignment`. Where a bug is to be found, students get an empty place instead: graders know no bugs.

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
    nbgrader's manual, "Creating and grading assignments"; Otter-Grader's manual, "Notebook format" of Otter Assign.
    """
    check_choice("notebook", "grader", grader, GRADERS)
    cells = [_cell("markdown", "start", "# Exercises\n\nReplace `raise NotImplementedError` with your own lines; the cell below each "
                   "exercise says whether they are right.")]
    if grader == "otter":
        cells.insert(0, _cell("raw", "config", "# ASSIGNMENT CONFIG\nsolutions_pdf: false\nexport_cell: false"))
    for page in chosen_pages(names):
        cells += _exercise(page, grader, seed)
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def _exercise(page, grader, seed):
    """The cells of one exercise."""
    name = page.name
    code = page.teacher(seed).split('"""', 2)[2].lstrip("\n")
    text = _cell("markdown", f"{name}-text", f"## {page.title}\n\n{page.text}\n\n{page.said('minutes')} minutes, {page.points} points.")
    solution, test = _cell("code", name, code), _cell("code", f"{name}-test", _test(page, seed))
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


def _test(page, seed):
    """Code that fails where the exercise is not solved."""
    function = page.function(seed)
    if page.kind == "check":
        levels = f", levels={page.levels}" if page.levels else ""
        return f"import numformer\n\nverdict = numformer.check({function!r}, {function}{levels})\nassert verdict, verdict"
    return (f"from numformer.course.judge import judged_answers\n\nsaid = judged_answers({page.name!r}, answers, seed={seed})\n"
            "assert said.startswith('right'), said")


def _cell(kind, name, source):
    """A cell of a notebook."""
    lines = source.rstrip("\n").splitlines(keepends=True)
    extra = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": name.replace("_", "-")[:64], "metadata": {}, "source": lines, **extra}
