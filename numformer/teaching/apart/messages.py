r"""What crosses between the judge and the student's process: requests, and answers.

*Request* (judge to student): the calls to make, their limits, and nothing else. It is a pickle, for
the judge has made it, and whoever runs the student's code need not be protected from the judge.
Arrays keep their layout in memory, views with the memory that they look into. No expected number is
in it, and no call says what it is for: the first, the one that repeats it, and the one with another
seed look alike.

*Answer* (student to judge): it may have been written by anybody, so it is never unpickled. Integers
have 8 bytes, the last one first:

    length | number of the request | length of the header | header | numbers

The header is JSON. `numbers` are the raw bytes of its arrays, in their order. Of a call there are

- its trouble: null, or [kind, text], with one of the `KINDS`;
- its outputs: null if there is a trouble other than "writes", else a list of

      ["array", "f8", [2, 3]]      an array of NumPy, of its type and shape
      ["number", "f8"]             a number of NumPy
      ["float"]                    a number of Python
      ["none"]                     None
      ["strange", "list", "..."]   anything else: the name of its type, and what it is in words

Everything is bounded. What is not of this form is no answer, and ends the check.

*What an answer decides.* Whether numbers are right is found by the judge, from numbers alone. What
only the student's process can see is a claim: that a call raised an exception or was stopped, that
it wrote into an argument, that two calls returned the same memory. Every claim makes a verdict
worse, except one that a call raised an exception for a view: then it gets copies, as everybody
does. What is *not* claimed is taken on trust. So a file that forges its answers can hide that its
right function writes into its arguments; it cannot make a wrong number right.
"""

import inspect
import io
import json
import math
import pickle
from types import FunctionType

import numpy as np

from numformer.files import MIB, parse_json
from numformer.terminal import printable, shortened

MOST = 64 * MIB                                       # bytes of an answer
MOST_OF_ARRAY = 16 * MIB
MOST_OF_HEADER = MIB
MOST_OUTPUTS = 1000
MOST_AXES = 12                                        # a search for the cause sums over any of them
LONGEST = 2000                                        # characters of a text
WORD = 8                                              # bytes of an integer
DTYPES = {"f8": np.dtype(np.float64), "f4": np.dtype(np.float32), "i8": np.dtype(np.int64)}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

NOT_WRITTEN, RAISED, STOPPED, WRITES = KINDS = "not written", "raised", "stopped", "writes"


class Trouble(str):
    """What is wrong with a call, in words.

    Parameters
    ----------
    text : str
    kind : str
        One of the `KINDS`.
    """

    def __new__(cls, text, kind):
        trouble = super().__new__(cls, text)
        trouble.kind = kind
        return trouble


class Strange:
    """An output that is neither an array of floats or int64 nor a number, nor None.

    Parameters
    ----------
    kind : str
        The name of its type.
    came : str
        What it is, such as "one of bool"; like `kind` by default, and "" for an array of another
        class.
    """

    def __init__(self, kind, came=None):
        self.kind, self.came = kind, kind if came is None else came


class NoAnswer(ValueError):
    """What came from the student's process is no answer."""


def plain(output):
    """An output as it can be sent: a new array of float64, float32 or int64, a number, None, or
    Strange.

    Nothing of the student's stays in it: no class with methods of its own, and no memory.
    """
    if output is None:
        return None
    kind = type(output).__name__
    if isinstance(output, np.ndarray):
        if type(output) not in (np.ndarray, np.memmap):
            return Strange(kind, "")
        if output.nbytes > MOST_OF_ARRAY:
            return Strange(kind, f"one of shape {output.shape}, which is too large to compare")
        if output.ndim > MOST_AXES:
            return Strange(kind, f"one of {output.ndim} axes")
        if output.dtype not in NAMES:
            return Strange(kind, f"one of {output.dtype}")
        return np.array(output, order="C")
    if isinstance(output, np.floating) and output.dtype in NAMES:
        return output.dtype.type(output)
    if isinstance(output, float):
        return float.__float__(output)
    return Strange(kind)


def write_request(request):
    """The bytes of a request."""
    file = io.BytesIO()
    _WithLayout(file, pickle.DEFAULT_PROTOCOL).dump(request)
    return _framed(file.getvalue())


def read_request(data):
    """The request of these bytes, without their length."""
    return pickle.loads(data)


class _WithLayout(pickle.Pickler):
    """A pickler that keeps views: the memory of an array, and where in it the array is.

    Functions of `numformer.functional`, which `saved` may hold, go without what is around them.
    """

    def reducer_override(self, x):
        if isinstance(x, FunctionType):
            inner = inspect.unwrap(x)
            return NotImplemented if inner is x else (_itself, (inner,))
        base = getattr(x, "base", None)
        if (type(x) is not np.ndarray or type(base) is not np.ndarray or x.dtype.hasobject
                or x.flags.c_contiguous or x.flags.f_contiguous):
            return NotImplemented
        offset = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return _view, (base, x.dtype, x.shape, x.strides, offset)


def _itself(x):
    return x


def _view(base, dtype, shape, strides, offset):
    memory = base.reshape(-1, order="A").view(np.uint8)
    return np.ndarray(shape, dtype, memory, offset, strides)


def write_answer(number, answer):
    """The bytes of an answer.

    Parameters
    ----------
    number : int
        Of the request.
    answer : dict
        "calls", a list of (outputs or None, Trouble or None); further entries are plain JSON.
    """
    numbers, calls = [], []
    for outputs, trouble in answer.get("calls", ()):
        described = None if outputs is None else [_described(x, numbers) for x in outputs]
        calls.append([described, trouble and [trouble.kind, trouble[:LONGEST]]])
    header = json.dumps({**answer, "calls": calls}).encode()
    return _framed(b"".join([number.to_bytes(WORD), len(header).to_bytes(WORD), header, *numbers]))


def read_answer(number, data):
    """The answer of these bytes, without their length, to the request of this number.

    Raises
    ------
    NoAnswer
        If it is none.
    """
    try:
        size = int.from_bytes(data[WORD:2 * WORD])
        if int.from_bytes(data[:WORD]) != number or size > MOST_OF_HEADER:
            raise ValueError
        answer = parse_json(data[2 * WORD:2 * WORD + size])
        numbers = io.BytesIO(data[2 * WORD + size:])
        if type(answer["calls"]) is not list:
            raise ValueError
        answer["calls"] = [_call(outputs, trouble, numbers) for outputs, trouble in answer["calls"]]
        if numbers.read(1):
            raise ValueError
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise NoAnswer("its process sent what is no answer") from None
    return answer


def text_of(value):
    """A text from an answer, that a terminal can show in a line."""
    if type(value) is not str:
        raise NoAnswer("its process sent what is no answer")
    return printable(shortened(value, LONGEST), keep="\n")


def _framed(data):
    return len(data).to_bytes(WORD) + data


def _described(x, numbers):
    """The entry of an output in the header; its bytes are added to `numbers`."""
    if x is None:
        return ["none"]
    if isinstance(x, Strange):
        return ["strange", x.kind[:LONGEST], x.came[:LONGEST]]
    numbers.append(np.float64(x).tobytes() if type(x) is float else x.tobytes())
    if type(x) is float:
        return ["float"]
    if isinstance(x, np.ndarray):
        return ["array", NAMES[x.dtype], x.shape]
    return ["number", NAMES[x.dtype]]


def _call(outputs, trouble, numbers):
    """(outputs or None, Trouble or None): both only of a call that writes into its arguments."""
    outputs = None if outputs is None else _outputs(outputs, numbers)
    trouble = None if trouble is None else _trouble(trouble)
    if (outputs is None) == (trouble is None) and not (trouble and trouble.kind == WRITES):
        raise ValueError
    return outputs, trouble


def _outputs(entries, numbers):
    if type(entries) is not list or len(entries) > MOST_OUTPUTS:
        raise ValueError
    return tuple(_output(kind, more, numbers) for kind, *more in entries)


def _output(kind, more, numbers):
    if kind == "none" and not more:
        return None
    if kind == "strange":
        name, came = more
        return Strange(text_of(name), text_of(came))
    name, shape = {"array": lambda: more, "number": lambda: (*more, []),
                   "float": lambda: ("f8", *more, [])}[kind]()
    if (type(shape) is not list or len(shape) > MOST_AXES or (name == "i8" and kind != "array")
            or not all(type(size) is int and 0 <= size <= MOST_OF_ARRAY for size in shape)):
        raise ValueError
    n_bytes = math.prod(shape) * DTYPES[name].itemsize
    data = numbers.read(n_bytes) if n_bytes <= MOST_OF_ARRAY else b""
    if len(data) != n_bytes:
        raise ValueError
    array = np.frombuffer(bytearray(data), DTYPES[name]).reshape(shape)
    return array if kind == "array" else float(array) if kind == "float" else array[()]


def _trouble(entry):
    kind, text = entry
    if kind not in KINDS:
        raise ValueError
    return Trouble(text_of(text), kind)
