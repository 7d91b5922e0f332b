"""Teaching: check a student's function, and exercises with grades and notebooks."""

from numformer.teaching.assignment import write_assignment
from numformer.teaching.check import check
from numformer.teaching.exercise import Exercise, all_exercises
from numformer.teaching.grading import grade
from numformer.teaching.notebooks import notebook
from numformer.teaching.support.hints import hint
from numformer.teaching.support.solution import solution
from numformer.teaching.verdict import Verdict

__all__ = [
    "Exercise", "Verdict", "all_exercises", "check", "grade", "hint", "notebook",
    "solution", "write_assignment",
]
