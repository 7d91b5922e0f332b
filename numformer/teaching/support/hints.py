"""Hints on request: three for each exercise, each of more help than the one before."""

from functools import lru_cache

from numformer.checks import check_whole
from numformer.teaching.exercise import all_exercises, find_exercise
from numformer.teaching.support.layout import Note

LEVELS = 3
SEEDS = range(40)                                     # enough for every variant to occur
_given = {}                                           # exercise -> level, in this process


def hint(name, level=None, seed=0):
    """A hint for an exercise or for a function that one is about: at each call the next.

    Parameters
    ----------
    name : int or str
        Number or name of an exercise, or a function such as "layer_norm_backward".
    level : {1, 2, 3}, optional
        1: the idea; 2: the step or the shape; 3: nearly the line. By default the one after the last
        that was given in this process.
    seed : int
        Of the assignment. It matters for exercises whose bug depends on it: their third hint is the
        cause.

    Returns
    -------
    Note
        A text.

    Raises
    ------
    ValueError
        If there is no hint of this name, or no such level.
    TypeError
        If `name` is neither a number nor a name.

    Examples
    --------
    >>> hint("linear", level=3)
    03_linear, hint 3 of 3: y = x @ weight + bias.
    """
    if not isinstance(name, (str, int)):
        raise TypeError(f"hint: name must be a number or a name, but is {type(name).__name__}.")
    exercise, variant = _of_function().get(name) or (find_exercise(name), seed)
    level = next_level(_given.get(exercise.name, 0)) if level is None else level
    text = hint_text(exercise, level, variant)
    _given[exercise.name] = max(level, _given.get(exercise.name, 0))
    return text


def has_hints(name):
    """Whether there are hints for a function."""
    return name in _of_function()


def next_level(given):
    """The level after the last that was given."""
    return min(given + 1, LEVELS)


def hint_text(exercise, level, seed):
    """One hint, with the name of its exercise and its level."""
    check_whole("hint", "seed", seed, least=0)
    check_whole("hint", "level", level)
    if level > LEVELS:
        raise ValueError(f"hint: level={level} must be 1, 2 or 3.")
    return Note(f"{exercise.name}, hint {level} of {LEVELS}: {exercise.hints(seed)[level - 1]}")


@lru_cache(maxsize=1)
def _of_function():
    """function -> (the exercise in which it is written, a seed that gives it)."""
    found = {}
    for exercise in all_exercises():
        if exercise.kind == "check" and exercise.bug(0) is None:
            varies = "BEGIN VARIANT" in exercise.source
            for seed in SEEDS if varies else SEEDS[:1]:
                found.setdefault(exercise.function(seed), (exercise, seed))
    return found
