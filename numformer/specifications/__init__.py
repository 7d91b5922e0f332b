"""All that is known about each function pair of `numformer.functional`, in one place.

A page holds a family of functions; `specify` is called once for each pair. The audit, `check` and
its causes, exercises, planted bugs, golden vectors and the comparison of compiled versions with the
reference read it. Pages are found by themselves.
"""

from importlib import import_module
from pkgutil import walk_packages

from numformer.specifications.general_mistakes import GENERAL
from numformer.specifications.specification import SPECIFICATIONS, Instance, Specification

for _page in walk_packages(__path__, f"{__name__}."):
    import_module(_page.name)

PROBLEMS = {name: each for name, each in SPECIFICATIONS.items() if each.levels}
MISTAKES = {f"{name}_backward": each.mistakes for name, each in SPECIFICATIONS.items()
            if each.mistakes}
PAIRS = [case for each in SPECIFICATIONS.values() for case in each.cases]

__all__ = [
    "GENERAL", "MISTAKES", "PAIRS", "PROBLEMS", "SPECIFICATIONS", "Instance", "Specification",
    "find_problem", "versions",
]


def find_problem(name):
    """(the full name, its specification, whether the backward is meant).

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
                         f"{', '.join(sorted(PROBLEMS))}, or the name of one with _backward.")
    return base + "_backward" * backward, PROBLEMS[base], backward


def versions(name):
    """The other ways to write a function or backward: a list of functions.

    Examples
    --------
    >>> [version.__name__ for version in versions("layer_norm_backward")]
    ['layer_norm_backward', 'layer_norm_backward_in_steps']
    """
    base = name.removesuffix("_backward")
    return [version for version in SPECIFICATIONS[base].versions
            if version.__name__ == name or version.__name__.startswith(f"{name}_in_")]
