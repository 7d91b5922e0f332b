"""The solution, after the student's own: shown once a `check` has passed."""

import ast
import inspect
import re
from functools import lru_cache

from numformer.specifications import find_problem, versions
from numformer.teaching.exercise import all_exercises
from numformer.teaching.support.layout import Note

SEEDS = range(24)                                     # among which is each variant of an exercise
_passed = set()                                       # functions, in this process


def solution(name):
    """A solution of a function that passed `check` in this process, with its task's signature.

    It is that of the exercise for this function, else a version as a textbook has it if that is
    right on all problems, else the reference's source, whose backward takes what its forward saved.

    Parameters
    ----------
    name : str
        Such as "softmax_backward".

    Returns
    -------
    Note
        A text: the source.

    Raises
    ------
    ValueError
        If there is no such function, or no function has passed its check yet.

    Examples
    --------
    >>> from numformer.teaching import check
    >>> bool(check("linear", lambda x, weight, bias: x @ weight + bias, levels=["other widths"]))
    True
    >>> print(solution("linear"))
    def linear(x, weight, bias):
        \"""x (..., C), weight (C, F), bias (F,) to y (..., F).\"""
        return x @ weight + bias
    """
    name, problem, backward = find_problem(name)
    if name not in _passed:
        raise ValueError(f"solution: no check of {name} has passed in this session; pass "
                         f"check({name!r}, your_function) first.")
    written = of_an_exercise(name) or of_a_textbook(name)
    return Source(written or inspect.getsource(problem.gradient if backward else problem.function))


@lru_cache(maxsize=None)
def of_an_exercise(name):
    """The source of the solution of the exercise that asks for a function; "" if there is none."""
    for exercise in all_exercises():
        if exercise.kind != "check":
            continue
        for seed in SEEDS if "BEGIN VARIANT" in exercise.source else (0,):
            if exercise.bug(seed) is None and exercise.function(seed) == name:
                return _function(exercise.solved(seed), name)
    return ""


def _function(page, name):
    """The source of a function on the page of an exercise, without marks."""
    (found,) = (node for node in ast.parse(page).body
                if isinstance(node, ast.FunctionDef) and node.name == name)
    lines = ast.get_source_segment(page, found) + "\n" + "\n".join(
        page.splitlines()[found.end_lineno:found.end_lineno + 1])     # the mark of the end
    return re.sub(r"^ *# (?:BEGIN|END) SOLUTION.*\n?", "", lines, flags=re.MULTILINE).rstrip()


@lru_cache(maxsize=None)
def of_a_textbook(name):
    """The source of the first version of a function that is right, and complete by itself."""
    from numformer.teaching.check import compared     # it records what passes
    name, problem, backward = find_problem(name)
    for version in versions(name):
        names = set(version.__code__.co_names) & version.__globals__.keys()
        if names <= {"np", "math"}:
            verdict = compared(name, problem, backward, version, 0, None, cause=False)
            if verdict and not verdict.remarks:
                return inspect.getsource(version).rstrip().replace(version.__name__, name, 1)
    return ""


class Source(Note):
    """A source: shown as it is."""

    def __repr__(self):
        return str(self)

    def __str__(self):
        return "".join(self)


def record_pass(name):
    """Note that a function of this name is right."""
    _passed.add(name)
