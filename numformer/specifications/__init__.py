"""All that is known about each function pair of `numformer.functional`, in one place.

A page holds a family of functions; `specify` is called once for each pair. A function on a page
that has the name of one of `functional`, or `name_in_...`, is another way to write that one: as a
textbook does, one formula after the other, nothing saved or shared. A student's mistake is a change
of one of these lines more often than of the reference's, which saves time and memory.

The audit, `check` and its causes, exercises, planted bugs, golden vectors and the comparison of
compiled versions with the reference read this. Pages are found by themselves.
"""

import re
from importlib import import_module
from pkgutil import walk_packages

from numformer.specifications.general_mistakes import GENERAL
from numformer.specifications.specification import SPECIFICATIONS, Instance, Specification

PAGES = [import_module(page.name) for page in walk_packages(__path__, f"{__name__}.")]

PROBLEMS = {name: each for name, each in SPECIFICATIONS.items() if each.levels}
MISTAKES = {f"{name}_backward": each.mistakes for name, each in SPECIFICATIONS.items()
            if each.mistakes}
FORWARD_MISTAKES = {name: each.forward_mistakes for name, each in SPECIFICATIONS.items()
                    if each.forward_mistakes}
PAIRS = [case for each in SPECIFICATIONS.values() for case in each.cases]

__all__ = [
    "FORWARD_MISTAKES", "GENERAL", "MISTAKES", "PAIRS", "PROBLEMS", "SPECIFICATIONS", "Instance",
    "Specification", "find_problem", "hints_of", "versions",
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


def hints_of(name, parameters=None):
    """The hints of a function or a backward, of increasing help: a tuple of str.

    It is empty if there is no such function. What a hint says of an option, as {axis| ...}, is left
    out if the function that is to be written does not have it among its `parameters`.

    Examples
    --------
    >>> hints_of("linear")[0]
    'All vectors along the last axis are multiplied by the same matrix.'
    """
    base = name.removesuffix("_backward")
    if base not in SPECIFICATIONS:
        return ()
    found = SPECIFICATIONS[base]
    texts = found.hints if base == name else found.backward_hints

    def of_option(part):
        has = parameters is None or set(part[1].split(",")) & set(parameters)
        return part[2] if has else ""

    return tuple(" ".join(re.sub(r"\{([\w,]+)\|([^{}]*)\}", of_option, text).split())
                 for text in texts)


def versions(name):
    """The other ways to write a function or backward: a list of functions.

    They take what a student's function takes: `(x, ...)`, or `(dy, x, ...)` for a backward.

    Examples
    --------
    >>> [version.__name__ for version in versions("layer_norm_backward")]
    ['layer_norm_backward', 'layer_norm_backward_in_steps']
    """
    return [function for page in PAGES for key, function in vars(page).items()
            if (key == name or key.startswith(f"{name}_in_"))
            and getattr(function, "__module__", None) == page.__name__]
