"""The assembled track: a model that is made of a student's functions and `minimal.py`.

`parts` says which exercise is which function of the page, `model` puts them in, `workshop` runs
what is assembled, in a process of its own, and `milestones` is what a student reaches one after the
other: `numformer assemble`.
"""

from numformer.teaching.assembled.milestones import Function, Milestone, Plan, assemble

__all__ = ["Function", "Milestone", "Plan", "assemble"]
