"""Call a function of a student on one instance, and say what is wrong with the call."""

import dis
import inspect
import traceback
from contextlib import suppress

import numpy as np

from numformer.other_libraries import as_array
from numformer.teaching.isolation import own_process
from numformer.teaching.limits import Stopped
from numformer.teaching.signatures import missing_defaults, takes_saved
from numformer.terminal import printable, shortened

LONGEST = 500                                         # characters of an exception's message
NOT_WRITTEN, RAISED = "not written yet", "it raised"
# instructions of a function that only returns None
NOTHING = {"RESUME", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "NOP", "POP_TOP"}


def answer(fn, instance, backward):
    """(outputs of a function as a tuple, None), or (None, what is wrong with the call).

    If all that is wrong is an argument that was written into, there are outputs all the same.
    """
    arguments, options = instance.arguments()
    y, saved, dy, gradients = instance.reference()
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
        if returned is None or returned is ...:
            return None, _nothing(fn)
        returned = _arrays_of(returned, gradients.values() if backward else [y])
    except Stopped as error:
        return None, f"{error}{_line_of(fn, error)}"
    except NotImplementedError:
        return None, NOT_WRITTEN
    except BaseException as error:                    # SystemExit, too
        if isinstance(error, KeyboardInterrupt) and not own_process():
            raise                                     # it is the user's
        shapes = ", ".join(f"{key} {value.shape}" for key, value in before.items())
        return None, (f"{RAISED} {_described(error)}{_line_of(fn, error)}; "
                      f"its arguments were {shapes}")
    changed = [f"its argument {key}" for key, value in before.items()
               if not _same(given[key], value)]
    if not all(_same(x, copy) for x, copy in held):
        changed.append("an array of saved")
    trouble = (f"it writes into {changed[0]}; work on a copy, or on a new array" if changed
               else None)
    if not backward:
        return (returned[0] if isinstance(returned, tuple) and returned else returned,), trouble
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,), trouble


def _arrays_of(returned, expected):
    """What a function returned, with arrays of NumPy for those of other libraries.

    Nested lists of numbers are one array, if one array is expected.
    """
    if not isinstance(returned, (tuple, list)):
        return as_array(returned)
    if isinstance(returned, list) and len(expected) == 1 and np.ndim(*expected):
        with suppress(ValueError):                    # of lists of different lengths
            array = np.array(returned)
            if _are_numbers(returned) and array.dtype.kind == "f":
                return array
    return (tuple if isinstance(returned, tuple) else list)(map(as_array, returned))


def _are_numbers(returned):
    """Whether there are only numbers in nested lists."""
    return all(_are_numbers(x) if isinstance(x, list) else isinstance(x, (int, float, np.number))
               for x in returned)


def _nothing(fn):
    """What to say of a function that returned None."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is None or {line.opname for line in dis.get_instructions(code)} <= NOTHING:
        return NOT_WRITTEN
    return f"{NOT_WRITTEN}: it returns None (is the last line a `return`?)"


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
