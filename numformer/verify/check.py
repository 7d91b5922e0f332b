"""A student's function on hidden problems, against the truth, with an answer that helps."""

import inspect
import traceback
from dataclasses import dataclass, replace

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.verify.errors import relative_error
from numformer.verify.exercises import Problem, accepts, defaults_wanted, find_exercise
from numformer.verify.likely_cause import CLOSE, is_array, likely_cause

DRAWS = 3                                                             # problems of each level


@dataclass(frozen=True)
class Verdict:
    """What `check` found; true where the function is right, and as text what a student reads.

    `output` is the first gradient (or "y") that differs, `index` the first place in it, `found`, `truth` and `error` what
    stands there; `cause` the likely one, or "". All None or "" where something else was wrong, which `text` says.
    """

    ok: bool
    text: str
    output: str | None = None
    index: tuple | None = None
    found: float | None = None
    truth: float | None = None
    error: float | None = None
    cause: str = ""

    def __bool__(self):
        return self.ok

    def __repr__(self):
        return self.text


def check(name, fn, seed=None, levels=None):
    """Is this function right? Run it on random problems whose shapes its author has not seen, and compare with the truth.

    Parameters
    ----------
    name : str
        A function of `numformer.functional`, such as "softmax", or the backward of one, such as "softmax_backward";
        "attention" is short for "scaled_dot_product_attention".
    fn : callable
        For a forward: takes what ours takes and returns y (or y and something else). For a backward: takes the output's
        gradient and then all that the forward took, `fn(dy, x, ...)`, and returns the gradients of the arrays, in their
        order; or, if its second argument is called `saved`, takes what our forward saved. Options such as `axis` or
        `pattern` are tried only where `fn` takes them.
    seed : int, optional
        Of the problems; other ones each time unless given.
    levels : sequence of str, optional
        Which sorts of problems, such as ``["plain"]``; all unless given.

    Returns
    -------
    Verdict
        True or false, and readable: which gradient differs first and where, both numbers, the relative error, and the
        likely cause, found by making known mistakes on purpose and seeing whether they give the same numbers. Right means
        right to 1e-9 on these problems, in float64; single points, such as the kink of ReLU, are not among them.

    Raises
    ------
    ValueError
        If there is no such exercise, or it has no such level; if the seed is not a whole number, 0 or more.
    TypeError
        If `fn` cannot be called.

    Examples
    --------
    >>> def softmax_backward(dp, x):
    ...     p = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    ...     return p * dp
    >>> check("softmax_backward", softmax_backward).cause
    'the sum over all weights is missing: softmax_backward is p * (dp - sum(p * dp))'
    """
    name, exercise, backward = find_exercise(name)
    if not callable(fn):
        raise TypeError(f"check: fn must be a function, but is {type(fn).__name__}.")
    seed = np.random.SeedSequence().entropy % 2**32 if seed is None else seed
    check_whole("check", "seed", seed, least=0)
    for level in levels or ():
        check_choice("check", "level", level, list(exercise.levels))
    passed, left_out = [], []
    for number, level in enumerate(exercise.levels):
        if levels and level not in levels:
            continue
        problems = [Problem(exercise, level, seed + 100 * number + draw) for draw in range(DRAWS)]
        missing = [option for option in problems[0].arguments()[1] if not _takes_saved(fn, backward) and not accepts(fn, option)]
        if missing:
            left_out.append(level)
            continue
        for problem in problems:
            verdict = _judge(name, fn, problem, backward)
            if verdict is not None:
                return _with_levels(verdict, exercise, level, passed)
        passed.append(level)
    tried = f"right: {name} on {DRAWS * len(passed)} random problems ({', '.join(passed)})"
    return Verdict(True, tried + (f"; not tried, as it has no such argument: {', '.join(left_out)}" if left_out else "") + ".")


def answer(fn, problem, backward):
    """What a function makes of a problem: (its outputs as a tuple, what is wrong with the call in words or None)."""
    arguments, options = problem.arguments()
    y, saved, dy, _ = problem.truth()
    given = {**({"dy": np.array(dy) if np.ndim(dy) else dy} if backward else {}), **arguments}
    before = {key: value.copy() for key, value in given.items() if isinstance(value, np.ndarray)}
    try:
        with np.errstate(all="ignore"):
            if _takes_saved(fn, backward):
                returned = fn(given["dy"], saved)
            else:
                returned = fn(*given.values(), **{**defaults_wanted(fn, problem.exercise, len(given)), **options})
    except Exception as error:
        shapes = ", ".join(f"{key} {value.shape}" for key, value in before.items())
        return None, f"it raised {_in_words(error)}{_line_of(fn, error)}; it was given {shapes}"
    for key, value in before.items():
        if not np.array_equal(given[key], value):
            return None, f"it writes into its argument {key}; work on a copy, or on a new array"
    if not backward:
        return (returned[0] if isinstance(returned, tuple) and returned else returned,), None
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,), None


def _takes_saved(fn, backward):
    try:
        names = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return False
    return backward and len(names) > 1 and names[1] == "saved"


def _line_of(fn, error):
    """ in line N, for the last line of the student's own file that the exception passed."""
    file = getattr(getattr(fn, "__code__", None), "co_filename", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" in line {lines[-1]}" if lines else ""


def _in_words(error):
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:                                                 # an exception that cannot be written out
        return type(error).__name__


def _judge(name, fn, problem, backward):
    """None if the function does this problem right, else a Verdict."""
    outputs, trouble = answer(fn, problem, backward)
    if trouble:
        return Verdict(False, f"{name}: {trouble}.")
    y, _, _, gradients = problem.truth()
    truth = gradients if backward else {"y": y}
    if len(outputs) != len(truth):
        return Verdict(False, f"{name}: it returned {len(outputs)} {'array' if len(outputs) == 1 else 'arrays'}, "
                              f"but must return {len(truth)}: {', '.join(truth)}.")
    for key, found in zip(truth, outputs):
        if not is_array(found):
            return Verdict(False, f"{name}: {key} must be an array of float64, as what came in is, but is {_kind_of(found)}.", key)
    for (key, true), found in zip(truth.items(), outputs):
        wrong = _compare(name, key, np.asarray(found), np.asarray(true))
        if wrong is not None:
            cause = likely_cause(name, lambda other: answer(fn, other, backward)[0], problem, key) if backward else ""
            return replace(wrong, text=wrong.text + (f"\nLikely cause: {cause}." if cause else ""), cause=cause)
    return None


def _compare(name, key, found, true):
    """None if an output is right, else a Verdict without a cause."""
    if found.shape != true.shape:
        return Verdict(False, f"{name}: {key} has shape {found.shape}, but must have {true.shape}.", key)
    for what, bad in (("NaN", np.isnan(found)), ("Inf", np.isinf(found))):
        if bad.any() and np.isfinite(true).all():
            index = _first(bad)
            return Verdict(False, f"{name}: {key} holds {what}, first at {index}, where the truth is {true[index]:.6g}.", key, index,
                           float(found[index]), float(true[index]), np.inf)
    error = relative_error(found, true, np.abs(true).max(initial=0))
    if not (error > CLOSE).any():
        return None
    index = _first(error > CLOSE)
    return Verdict(False, f"{name}: {key} is wrong in {int((error > CLOSE).sum())} of {error.size} places, first at {index}: found "
                          f"{found[index]:.10g}, truth {true[index]:.10g}, relative error {error[index]:.2g}.",
                   key, index, float(found[index]), float(true[index]), float(error[index]))


def _kind_of(x):
    return f"one of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__


def _first(bad):
    return tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()


def _with_levels(verdict, exercise, level, passed):
    where = f"\nThis was with: {level}" + (f"; right before: {', '.join(passed)}." if passed else ".")
    where += f"\n{exercise.note}" if exercise.note else ""
    return replace(verdict, text=verdict.text + where)
