"""Exercises for students, and what a teacher needs with them: folders, variants, notebooks and grades."""

from numformer.course.assignment import Page, pages, write_assignment
from numformer.course.grading import grade
from numformer.course.notebooks import notebook

__all__ = ["Page", "grade", "notebook", "pages", "write_assignment"]
