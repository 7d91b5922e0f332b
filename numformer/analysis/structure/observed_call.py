"""One call of a function, observed while it runs: its lines, and its variables after each."""

import ast
import inspect
import sys
import textwrap

import numpy as np

from numformer.parameter import Layer, Parameter


class Call:
    """A call of one function.

    Parameters
    ----------
    frame : frame
        At its beginning.

    Attributes
    ----------
    arguments : dict
        Of the call, without the layer itself.
    tree : ast.FunctionDef
    lines : list of str
        The source file's, from index 1 on.
    result
        What it returned.
    """

    def __init__(self, frame):
        self.code, self.tree = frame.f_code, tree_of(frame.f_code)
        self.arguments = {name: value for name, value in frame.f_locals.items() if name != "self"}
        self.page = frame.f_globals["__name__"].removeprefix("numformer.").replace(".", "/") + ".py"
        self.result, self._visits, self._last = None, [], None

    def trace(self, frame, event, argument):
        """For `sys.settrace`: note the variables after every line."""
        if event in ("line", "return"):
            if self._last is not None:
                self._visits.append((self._last, {
                    name: content_of(value) for name, value in frame.f_locals.items()}))
            self._last = frame.f_lineno
        if event == "return":
            self.result = argument
        return self.trace

    def after(self, statement):
        """The variables after the first run of a statement; None if it did not run."""
        found = None
        for line, variables in self._visits:
            if statement.lineno <= line <= statement.end_lineno:
                found = variables
            elif found is not None:
                break
        return found

    def comment(self, statement):
        """The comment behind a statement."""
        lines, first = inspect.getsourcelines(self.code)
        for line in lines[statement.lineno - first:statement.end_lineno - first + 1]:
            if " # " in line:
                return line.split(" # ", 1)[1].strip()
        return ""


def observed(method, belongs, inputs, options):
    """Call a method, and observe it, or the first function below it whose tree `belongs`.

    Returns
    -------
    call : Call
    result
        Of the method.
    """
    calls = []

    def start(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("numformer.") or module.startswith("numformer.backend"):
            return None
        if calls and (belongs(calls[-1].tree) or not belongs(tree_of(frame.f_code))):
            return None
        calls.append(Call(frame))
        return calls[-1].trace

    before = sys.gettrace()
    sys.settrace(start)
    try:
        result = method(*inputs, **options)
    finally:
        sys.settrace(before)
    return calls[-1], result


TREES = {}


def tree_of(code):
    """The syntax tree of a function, with the line numbers of its file; None without a source."""
    if code not in TREES:
        try:
            lines, first = inspect.getsourcelines(code)
            tree = ast.parse(textwrap.dedent("".join(lines)))
            TREES[code] = next(iter(ast.increment_lineno(tree, first - 1).body))
        except (OSError, SyntaxError, StopIteration):                 # of a lambda, for example
            TREES[code] = None
    return TREES[code]


def packed(tree):
    """The tuple that a function packs as `saved`; None without one."""
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and (
                getattr(node.targets[0], "id", "") == "saved"):
            return node.value
    return None


def packs(tree):
    """Whether a function packs what the backward needs."""
    return packed(tree) is not None


def unpacks(tree):
    """Whether a function unpacks it."""
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            values = getattr(node.value, "elts", [node.value])
            if "saved" in [getattr(value, "id", "") for value in values]:
                return True
    return False


def content_of(value):
    """What a variable holds, in a few words.

    Examples
    --------
    >>> content_of(np.ones((2, 3))), content_of((np.ones(3), (np.ones((2, 3)), True)))
    ('(2, 3)', 'tuple of (3,), (2, 3)')
    """
    if isinstance(value, (np.ndarray, Parameter)):
        shape = getattr(value, "shape", None) if isinstance(value, np.ndarray) else value.data.shape
        return str(shape) if shape else "a number"
    if isinstance(value, (tuple, list)):
        arrays = list(_arrays(value))
        shapes = ", ".join(arrays[:3]) + ", ..." * (len(arrays) > 3)
        return f"{type(value).__name__} of {shapes or len(value)}"
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)[:24]
    if isinstance(value, Layer) or not callable(value):
        return type(value).__name__
    return getattr(value, "__name__", type(value).__name__)


def _arrays(value):
    """The shapes of the arrays inside nested tuples and lists."""
    for part in value:
        if isinstance(part, np.ndarray):
            yield str(part.shape)
        elif isinstance(part, (tuple, list)):
            yield from _arrays(part)
