"""Hints on request: three for each function and each exercise, each of more help than the last."""

from numformer.checks import check_whole
from numformer.specifications import SPECIFICATIONS, hints_of
from numformer.teaching.exercise import find_exercise
from numformer.teaching.own_names import renamed
from numformer.teaching.support.layout import Note
from numformer.teaching.support.names import names_of
from numformer.terminal import did_you_mean

LEVELS = 3
_given = {}                                # function, or exercise with hints of its own -> level


def hint(name, level=None, seed=0):
    """A hint for a function of `check` or for an exercise: at each call the next.

    Parameters
    ----------
    name : int or str
        A function such as "layer_norm_backward", or number or name of an exercise. The hints of an
        exercise that asks for a function are those of the function.
    level : {1, 2, 3}, optional
        1: the idea; 2: the step or the shape; 3: nearly the line. By default the one after the last
        that was given in this process.
    seed : int
        Of the assignment. It matters for exercises whose function or bug depends on it: where there
        is a bug to find, the third hint is the cause.

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
    >>> hint("linear", level=1)
    linear, hint 1 of 3: All vectors along the last axis are multiplied by the same
    matrix.
    """
    if not isinstance(name, (str, int)):
        raise TypeError(f"hint: name must be a number or a name, but is {type(name).__name__}.")
    if has_hints(name):
        names, parameters = names_of(name)
        texts = [renamed(text, names) for text in hints_of(name, parameters)]
        key, shown = name, name
    else:
        exercise = _exercise(name)
        check_whole("hint", "seed", seed, least=0)
        shown, texts = exercise.name, exercise.hints(seed)
        key = shown if exercise.has_own_hints else exercise.function(seed)
    level = next_level(_given.get(key, 0)) if level is None else level
    text = _note(shown, level, texts)
    _given[key] = max(level, _given.get(key, 0))
    return text


def has_hints(name):
    """Whether there are hints for a function."""
    return isinstance(name, str) and bool(hints_of(name))


def next_level(given):
    """The level after the last that was given."""
    return min(given + 1, LEVELS)


def hint_text(exercise, level, form):
    """One hint, with the name of its exercise and its level; a seed may stand for the form."""
    return _note(exercise.name, level, exercise.hints(form))


def _note(name, level, texts):
    check_whole("hint", "level", level)
    if level > LEVELS:
        raise ValueError(f"hint: level={level} must be 1, 2 or 3.")
    return Note(f"{name}, hint {level} of {LEVELS}: {texts[level - 1]}")


def _exercise(name):
    """The exercise of a word that is no function's name."""
    try:
        return find_exercise(name)
    except ValueError as error:
        functions = [each + end for each in SPECIFICATIONS for end in ("", "_backward")]
        meant = did_you_mean(name, functions) if isinstance(name, str) else ""
        raise ValueError(f"{error} Functions of `check` have hints, too{meant}.") from None
