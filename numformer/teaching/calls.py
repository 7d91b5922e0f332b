"""Call a function of a student on one instance, and say what is wrong with the call."""

import inspect
import traceback

import numpy as np

from numformer.checks import as_array
from numformer.teaching.isolation import own_process
from numformer.teaching.limits import Stopped
from numformer.teaching.signatures import missing_defaults, takes_saved
from numformer.terminal import printable, shortened

LONGEST = 500                                         # characters of an exception's message


def answer(fn, instance, backward):
    """(outputs of a function as a tuple, None), or (None, what is wrong with the call)."""
    arguments, options = instance.arguments()
    y, saved, dy, _ = instance.reference()
    given = {**({"dy": dy} if backward else {}), **arguments}
    before = {key: value.copy() for key, value in given.items() if isinstance(value, np.ndarray)}
    held = [(x, x.copy()) for x in _arrays(saved)]
    try:
        with np.errstate(all="ignore"):
            if backward and takes_saved(fn):
                returned = fn(given["dy"], saved)
            else:
                defaults = missing_defaults(fn, instance.problem.function, len(given))
                returned = fn(*given.values(), **{**defaults, **options})
        if isinstance(returned, (tuple, list)):
            returned = (tuple if isinstance(returned, tuple) else list)(map(as_array, returned))
        else:
            returned = as_array(returned)
    except Stopped as error:
        return None, f"{error}{_line_of(fn, error)}"
    except BaseException as error:                    # SystemExit, too
        if isinstance(error, KeyboardInterrupt) and not own_process():
            raise                                     # it is the user's
        shapes = ", ".join(f"{key} {value.shape}" for key, value in before.items())
        return None, (f"it raised {_described(error)}{_line_of(fn, error)}; "
                      f"its arguments were {shapes}")
    for key, value in before.items():
        if not _same(given[key], value):
            return None, f"it writes into its argument {key}; work on a copy, or on a new array"
    if not all(_same(x, copy) for x, copy in held):
        return None, "it writes into an array of saved; work on a copy, or on a new array"
    if not backward:
        return (returned[0] if isinstance(returned, tuple) and returned else returned,), None
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,), None


def _arrays(saved):
    """All arrays in nested tuples."""
    if isinstance(saved, tuple):
        return [x for part in saved for x in _arrays(part)]
    return [saved] if isinstance(saved, np.ndarray) else []


def _same(x, copy):
    return np.array_equal(x, copy, equal_nan=x.dtype.kind == "f")


def _line_of(fn, error):
    """ in line N, for the last line of the student's own file in the traceback."""
    file = getattr(getattr(inspect.unwrap(fn), "__code__", None), "co_filename", None)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f" in line {lines[-1]}" if lines else ""


def _described(error):
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:                                                 # its __str__ raises, too
        message = ""
    message = printable(shortened(message, LONGEST), keep="\n")
    if isinstance(error, SystemExit):
        return f"{name}: a function must return and not end Python"
    return f"{name}: {message}" if message else name
