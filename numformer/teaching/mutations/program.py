"""Copies of a function and of all that it calls, whose code can be exchanged for a while."""

import sys
from contextlib import contextmanager
from inspect import unwrap
from types import CodeType, FunctionType

ROOMS = ("numformer.functional", "numformer.specifications")
KEPT = ("numformer.functional.dropout_hash", "numformer.functional.attention.masks",
        "numformer.functional.attention.arguments")       # random bits, masks, checks: as they are


class Program:
    """Functions of numformer.functional, copied with every function that they call.

    Parameters
    ----------
    *functions : function
        Where to begin, such as a forward and its backward.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer import functional as F
    >>> program = Program(F.silu, F.silu_backward)
    >>> sorted(function.__name__ for function in program.copies)[:3]
    ['sigmoid', 'sigmoid_backward', 'silu']
    >>> silu = program.copies[unwrap(F.silu)]
    >>> with program.changed(F.sigmoid, (lambda x: (x, (x,))).__code__):
    ...     float(silu(np.array([3.0]))[0][0])
    9.0
    """

    def __init__(self, *functions):
        self.copies = {}                                  # of the originals, in the order found
        self.given, self.namespaces = {}, {}
        namespaces = self.namespaces
        for original in called_by(*functions):
            namespace = namespaces.setdefault(original.__module__, dict(original.__globals__))
            copy = FunctionType(original.__code__, namespace, original.__name__,
                                original.__defaults__)
            copy.__kwdefaults__ = original.__kwdefaults__
            self.copies[original] = copy
        for namespace in namespaces.values():
            namespace.update({name: self._copied(value) for name, value in namespace.items()})

    def _copied(self, value):
        """A value of a module with every function in it replaced by its copy."""
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(map(self._copied, value))
        if type(value) is dict:
            return {key: self._copied(part) if isinstance(part, tuple) else part
                    for key, part in value.items()}
        original = unwrap(value) if callable(value) and not isinstance(value, type) else None
        return self.copies.get(original, value) if isinstance(original, FunctionType) else value

    def give(self, **values):
        """Let the copies' code read these values by name, where it has no such variable."""
        self.given = values
        for namespace in self.namespaces.values():
            namespace.update(values)

    @contextmanager
    def changed(self, original, code, values=()):
        """Inside, the copy of a function runs this code, with values of its global variables."""
        copy = self.copies[unwrap(original)]
        copy.__globals__.update(values)
        before, copy.__code__ = copy.__code__, code
        try:
            yield
        finally:
            copy.__code__ = before

    def variables(self, call):
        """{original: {name: value}}: what each function's variables are at its end, in `call()`."""
        codes = {copy.__code__: original for original, copy in self.copies.items()}
        found = {}

        def profile(frame, event, argument):
            if event == "return" and frame.f_code in codes:
                found.setdefault(codes[frame.f_code], {}).update(frame.f_locals)

        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            call()
        finally:
            sys.setprofile(before)
        return found


def called_by(*functions):
    """{function: None} of functions and all of ROOMS that they call, in the order found."""
    found, waiting = {}, [unwrap(function) for function in functions]
    while waiting:
        function = waiting.pop(0)
        if function not in found:
            found[function] = None
            waiting += _called(function)
    return found


def _called(function):
    """The functions of ROOMS that a function's code names, checks of arguments left out."""
    names, codes = set(), [function.__code__]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    values = [function.__globals__[name] for name in sorted(names & function.__globals__.keys())]
    values += [part for value in values if type(value) is dict
               for parts in value.values() if isinstance(parts, tuple) for part in parts]
    originals = [unwrap(value) for value in values
                 if callable(value) and not isinstance(value, type)]
    return [original for original in originals
            if isinstance(original, FunctionType) and original.__module__.startswith(ROOMS)
            and original.__module__ not in KEPT
            and not original.__name__.lstrip("_").startswith("check")]
