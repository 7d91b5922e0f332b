"""What a layer remembers: a snapshot of all that its methods could keep between two calls."""

import inspect
import types
from collections import deque

import numpy as np

MOST = 10_000                       # values looked at: a foreign library's object may reach far
PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic)
MUTABLE = (list, dict, set, deque, np.ndarray, np.random.Generator, np.random.RandomState)


def state(subject, parameters):
    """{path: value} of a layer, or of several functions; a change between two calls is state.

    It holds the attributes of the tree, class attributes, what functions close over, their
    defaults and attributes, and the data among the globals that they use. `data` and `grad` of the
    parameters are left out.
    """
    found, seen = {}, {id(parameter) for parameter in parameters}
    # an array dw next to an array w holds a gradient
    skipped = {(id(p.owner), name) for p in parameters if hasattr(p, "owner")
               for name in (p.name, f"d{p.name}")}
    for part in subject if isinstance(subject, tuple) else (subject,):
        name = getattr(part, "__name__", "") if callable(part) else ""
        _collect(part, name or "self", found, seen, skipped)
    return found


def changed(before, after):
    """The first path whose value differs; "" if none does."""
    return next((path for path in [*after, *before]
                 if path not in before or path not in after or before[path] != after[path]), "")


def unnamed_parameters(subject, parameters):
    """The paths of what has arrays `data` and `grad` and is reached from a layer, but is not in
    `parameters`: through attributes, lists, tuples, sets, deques and the values of dicts."""
    seen = {id(parameter) for parameter in parameters}

    def reached(value, path):
        if id(value) in seen or len(seen) > MOST or isinstance(value, (*PLAIN, np.ndarray, type)):
            return
        seen.add(id(value))
        if isinstance(value, dict):
            parts = [(f"{path}[{key!r}]", part) for key, part in value.items()]
        elif isinstance(value, (list, tuple, deque, set, frozenset)):
            parts = [(f"{path}[{k}]", part) for k, part in enumerate(value)]
        elif isinstance(value, (types.FunctionType, types.ModuleType)) or not hasattr(
                value, "__dict__"):
            parts = []
        elif all(isinstance(getattr(value, name, None), np.ndarray) for name in ("data", "grad")):
            yield path
            return
        else:
            parts = [(f"{path}.{name}", part) for name, part in vars(value).items()]
        for name, part in parts:
            yield from reached(part, name)

    return [] if isinstance(subject, tuple) else list(reached(subject, "self"))


def contents(value):
    """{path: value} of nested dicts, lists and arrays; objects and generators are left out."""
    found = {}
    _collect(value, "", found, set(), set(), objects=False)
    return found


def _collect(value, path, found, seen, skipped, objects=True):
    if isinstance(value, PLAIN):
        found[path] = repr(value)
        return
    if id(value) in seen or len(seen) > MOST:
        return
    seen.add(id(value))

    def inside(part, name):
        _collect(part, name, found, seen, skipped, objects)

    if isinstance(value, np.ndarray):
        numbers = value.tolist() if value.dtype.hasobject else value.tobytes()
        found[path] = (value.shape, value.dtype.str, numbers)
    elif isinstance(value, dict):
        found[path] = f"keys {list(map(str, value))}"
        for key, part in list(value.items()):
            inside(part, f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple, deque)):
        found[path] = f"{len(value)} items"
        for k, part in enumerate(value):
            inside(part, f"{path}[{k}]")
    elif isinstance(value, (set, frozenset)):
        found[path] = sorted(map(repr, value))
    elif not objects:
        return
    elif isinstance(value, np.random.Generator):
        found[path] = repr(value.bit_generator.state)
    elif isinstance(value, np.random.RandomState):
        found[path] = repr(value.get_state(legacy=False))
    elif isinstance(value, types.MethodType):
        inside(value.__self__, path)
        inside(value.__func__, path)
    elif isinstance(value, types.FunctionType):
        for name, part in _of_a_function(value):
            inside(part, name)
    elif isinstance(value, type):
        _of_a_class(value, inside)
    elif hasattr(value, "__dict__") and not isinstance(value, types.ModuleType):
        for name, part in list(vars(value).items()):
            if (id(value), name) not in skipped:
                inside(part, f"{path}.{name}")
        for kind in type(value).__mro__:
            inside(kind, kind.__name__)


def _of_a_class(kind, inside):
    """Data and methods of a class that is no built-in one."""
    if kind.__module__ == "builtins":
        return
    for name, part in list(vars(kind).items()):
        part = getattr(part, "__func__", part)                        # static and class methods
        if isinstance(part, property):
            part = part.fget
        if isinstance(part, (*PLAIN, *MUTABLE)) and not name.startswith("__"):
            inside(part, f"{kind.__name__}.{name}")
        elif isinstance(part, types.FunctionType):
            inside(part, name)


def _of_a_function(function):
    """(name, value) of what a function can keep: closure, defaults, attributes, globals."""
    name = function.__name__
    function = inspect.unwrap(function)
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield variable, cell.cell_contents
        except ValueError:                                            # not yet assigned
            pass
    for k, default in enumerate(function.__defaults__ or ()):
        if isinstance(default, MUTABLE):
            yield f"default {k} of {name}", default
    for attribute, value in vars(function).items():
        yield f"{name}.{attribute}", value
    for variable in _names(function.__code__):
        value = function.__globals__.get(variable)
        if isinstance(value, (*PLAIN, *MUTABLE)) and variable in function.__globals__:
            yield f"global {variable}", value
        elif isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
            yield variable, value


def _names(code):
    """Names of globals that some code uses, also in functions inside it."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return names
