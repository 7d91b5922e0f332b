"""Problems for `numformer.check`: every function pair. PROBLEMS of each family are on a page."""

from numformer.teaching.problems import (
    attention, bert, convolutions, detection, distillation, efficient_attention, mixture_of_experts,
    recurrent, scores, swin, transformer, vision)
from numformer.teaching.problems.edges import with_edges
from numformer.teaching.problems.problem import FunctionProblem, Instance

PAGES = (transformer, attention, scores, recurrent, vision, convolutions, swin, mixture_of_experts,
         bert, efficient_attention, distillation, detection)
PROBLEMS = {name: with_edges(problem)
            for page in PAGES for name, problem in page.PROBLEMS.items()}

__all__ = ["PROBLEMS", "FunctionProblem", "Instance", "find_problem"]


def find_problem(name):
    """(the full name, its problem, whether the backward is meant).

    Raises
    ------
    ValueError
        If there is no such function.
    """
    base, backward = name, False
    if isinstance(name, str) and name.endswith("_backward"):
        base, backward = name.removesuffix("_backward"), True
    if base not in PROBLEMS:
        raise ValueError(f"check: {name!r} is not a function that can be checked; choose from "
                         f"{', '.join(PROBLEMS)}, or the name of one with _backward.")
    return base + "_backward" * backward, PROBLEMS[base], backward
