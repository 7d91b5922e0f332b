"""Calls of a student's function: the judge makes them, the student's process answers them.

Judge and student may be one process, as in a notebook, or two (`numformer.teaching.isolation`).
What crosses is described in `numformer.teaching.apart.messages`.
"""

import dis
import inspect
import traceback
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from numformer.other_libraries import as_array
from numformer.teaching.apart.messages import (
    NOT_WRITTEN, RAISED, STOPPED, WRITES, Trouble, plain)
from numformer.teaching.apart.names import their_names
from numformer.teaching.limits import Stopped, limited
from numformer.teaching.signatures import defaults, missing_defaults, takes_saved
from numformer.teaching.unfitting_products import unfitting_product, unpacked_pair
from numformer.terminal import printable, shortened

LONGEST = 500                                         # characters of an exception's message
UNWRITTEN = "not written yet"
# instructions of a function that only returns None
NOTHING = {"RESUME", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "NOP", "POP_TOP"}


class Ended(Exception):
    """The process of a student's function has ended; the text says how."""


@dataclass
class Call:
    """One call, as it is asked for.

    Parameters
    ----------
    defaults : dict of str to object
        Those of the reference, for a function that requires what may be left out.
    given : dict of str to object
        The arguments by position; the names are those of the reference.
    options : dict of str to object
        The arguments by name.
    saved : tuple or None
        What the reference forward saved, for a backward that takes it in place of the arguments.
    one_array : bool
        Whether a single array is expected, as which nested lists of numbers are taken.
    backward : bool
        A forward may return further things behind y.
    """

    defaults: dict
    given: dict
    options: dict
    saved: object
    one_array: bool
    backward: bool


@dataclass
class Limits:
    """Of each call: seconds and bytes of memory, or None."""

    seconds: float | None = None
    memory: int | None = None


@dataclass
class Student:
    """A student's function, which answers calls: in this process.

    Parameters
    ----------
    fn : callable
    limits : Limits
    keeps_interrupts : bool
        Whether a KeyboardInterrupt is the user's, and not the function's.
    signature : callable
        Its parameters are what the function promises to take; by default `fn`.
    """

    apart = False                                     # whether it runs in a process of its own

    fn: object
    limits: Limits = field(default_factory=Limits)
    keeps_interrupts: bool = True
    signature: object = None

    def __post_init__(self):
        self.signature = self.fn if self.signature is None else self.signature

    def answers(self, calls):
        """(for each call (outputs or None, Trouble or None), whether two return the same memory).

        Raises
        ------
        Ended
            If the function has ended its process.
        """
        return perform(self.fn, calls, self.limits, self.keeps_interrupts)

    def with_limits(self, **changes):
        """The same student with other limits."""
        return replace(self, limits=replace(self.limits, **changes))


def student_of(fn):
    """A Student of a function without limits; a Student as it is."""
    return fn if isinstance(fn, Student) else Student(fn)


def call_of(student, instance, backward):
    """The Call of a student's function on an instance."""
    arguments, options = instance.arguments()
    given = {**({"dy": instance.dy()} if backward else {}), **arguments}
    expected = list(instance.expected(backward).values())
    saved = instance.saved() if backward and takes_saved(student.signature) else None
    return Call(defaults(instance.problem.function), given, options, saved,
                len(expected) == 1 and np.ndim(expected[0]) > 0, backward)


def answers_to(student, instances, backward):
    """(outputs of a function as a tuple, None), or (None, what is wrong), for each instance.

    If all that is wrong is an argument that was written into, there are outputs all the same.
    """
    return student.answers([call_of(student, each, backward) for each in instances])[0]


def perform(fn, calls, limits, keeps_interrupts=False):
    """Answer calls in this process: the result of `Student.answers`."""
    answers, shared = [], False
    for found, shared in performed(fn, calls, limits, keeps_interrupts):
        answers.append(found)
    return answers, shared


def performed(fn, calls, limits, keeps_interrupts=False):
    """(its answer, whether two calls have returned the same memory until now) of each call.

    After one that a limit has stopped no other is made: they are answered alike.
    """
    stopped, shared, arrays = None, False, []         # of each call; they are kept until the end
    for call in calls:
        found = stopped or _called(fn, call, limits, keeps_interrupts)
        if found.trouble and found.trouble.kind == STOPPED:
            stopped = found
        shared = shared or any(np.may_share_memory(x, y) for earlier in arrays for x in earlier
                               for y in found.arrays)
        arrays.append(found.arrays)
        yield (found.outputs, found.trouble), shared


@dataclass
class _Called:
    """What came of one call; `arrays` are those that were returned, `outputs` hold none of them."""

    outputs: tuple | None
    trouble: Trouble | None
    arrays: list = field(default_factory=list)


def _called(fn, call, limits, keeps_interrupts):
    given = call.given
    held = [(f"its argument {key}", value, value.copy()) for key, value in given.items()
            if isinstance(value, np.ndarray)]
    held += [("an array of saved", x, x.copy()) for x in _arrays(call.saved)]
    run = limited(fn, limits.seconds, limits.memory)
    try:
        arguments = (given["dy"], call.saved) if call.saved is not None else given.values()
        options = {} if call.saved is not None else {
            **missing_defaults(fn, call.defaults, len(given)), **call.options}
        with np.errstate(all="ignore"), their_names():
            returned = run(*arguments, **options)
        if returned is None or returned is ...:
            return _Called(None, Trouble(_nothing(fn), NOT_WRITTEN))
        returned = _outputs(_arrays_of(returned, call), call.backward)
        arrays = [np.ndarray.view(x, np.ndarray) for x in returned if isinstance(x, np.ndarray)]
        outputs = tuple(map(plain, returned))
    except Stopped as error:
        return _Called(None, Trouble(f"{error}{_line_of(fn, error)}", STOPPED))
    except NotImplementedError:
        return _Called(None, Trouble(UNWRITTEN, NOT_WRITTEN))
    except BaseException as error:                    # SystemExit, too
        if isinstance(error, KeyboardInterrupt) and keeps_interrupts:
            raise
        shapes = ", ".join(f"{key} {value.shape}" for key, value in given.items()
                           if isinstance(value, np.ndarray))
        product = (unfitting_product(error, _file_of(fn))
                   or unpacked_pair(error, _file_of(fn)))
        return _Called(None, Trouble(
            f"it raised {_described(error)}{_line_of(fn, error)}; its arguments were {shapes}"
            + (f". {product}" if product else ""), RAISED))
    changed = [what for what, x, copy in held if not _same(x, copy)]
    trouble = (Trouble(f"it writes into {changed[0]}; work on a copy, or on a new array", WRITES)
               if changed else None)
    return _Called(outputs, trouble, arrays)


def _outputs(returned, backward):
    """The outputs as a tuple: of a forward y alone, which may be the first of several."""
    if not backward:
        return (returned[0] if isinstance(returned, tuple) and returned else returned,)
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)


def _arrays_of(returned, call):
    """What a function returned, with arrays of NumPy for those of other libraries.

    Nested lists of numbers are one array, if one array is expected.
    """
    if not isinstance(returned, (tuple, list)):
        return as_array(returned)
    if isinstance(returned, list) and call.one_array:
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
        return UNWRITTEN
    return f"{UNWRITTEN}: it returns None (is the last line a `return`?)"


def _arrays(saved):
    """All arrays in nested tuples."""
    if isinstance(saved, tuple):
        return [x for part in saved for x in _arrays(part)]
    return [saved] if isinstance(saved, np.ndarray) else []


def _same(x, copy):
    """Whether nobody has written into x: to the bit, so NaN too."""
    return (x.dtype, x.shape) == (copy.dtype, copy.shape) and x.tobytes() == copy.tobytes()


def _file_of(fn):
    """The file of a function; None if it has none."""
    return getattr(getattr(inspect.unwrap(fn), "__code__", None), "co_filename", None)


def _line_of(fn, error):
    """ in line N, for the last line of the student's own file in the traceback."""
    file = _file_of(fn)
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
