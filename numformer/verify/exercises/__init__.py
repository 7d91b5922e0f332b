"""What a student may be asked for: every function pair. A family has a page of its own, with its EXERCISES."""

import inspect

from numformer.verify.exercises import bert, mixture_of_experts, recurrent, scores, transformer, vision
from numformer.verify.exercises.exercise import Problem

PAGES = (transformer, scores, recurrent, vision, mixture_of_experts, bert)
EXERCISES = {name: exercise for page in PAGES for name, exercise in page.EXERCISES.items()}
SHORT = {"attention": "scaled_dot_product_attention"}                 # names that may be used for longer ones

__all__ = ["EXERCISES", "Problem", "accepts", "defaults_wanted", "find_exercise"]


def find_exercise(name):
    """(the name in full, its exercise, whether the backward is meant)."""
    base, backward = (name[:-len("_backward")], True) if isinstance(name, str) and name.endswith("_backward") else (name, False)
    base = SHORT.get(base, base)
    if base not in EXERCISES:
        raise ValueError(f"check: {name!r} is no exercise; there are {', '.join([*SHORT, *EXERCISES])}, each also with _backward.")
    return base + "_backward" * backward, EXERCISES[base], backward


def accepts(function, option):
    """Whether a function takes a keyword argument of this name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.kind == parameter.VAR_KEYWORD or parameter.name == option and parameter.kind != parameter.POSITIONAL_ONLY
               for parameter in parameters)


def defaults_wanted(function, exercise, given):
    """Our defaults for what a student's function requires beyond the arguments: {name: default}."""
    try:
        theirs = list(inspect.signature(function).parameters.values())[given:]
        ours = inspect.signature(exercise.function).parameters
    except (TypeError, ValueError):
        return {}
    return {p.name: ours[p.name].default for p in theirs if p.default is p.empty and p.name in ours and p.kind in (
        p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and ours[p.name].default is not p.empty}
