"""A call of a function and all calls below it, observed while they run: lines and variables."""

import ast
import inspect
import sys
import textwrap
from collections import namedtuple

import numpy as np

from numformer.parameter import Layer, Parameter

INSIDE = "numformer."
UNSEEN = ("numformer.backend", "numformer.underflow", "numformer.checks")    # they choose and check

Visit = namedtuple("Visit", "statement before after calls")    # variables before and after it ran


class Call:
    """A call of one function.

    Parameters
    ----------
    frame : frame
        At its beginning.

    Attributes
    ----------
    arguments : dict
        Of the call, with the layer itself.
    tree : ast.FunctionDef
    visits : list of Visit
        The statements in the order in which they ran.
    result
        What it returned.
    """

    def __init__(self, frame):
        self.code, self.tree = frame.f_code, tree_of(frame.f_code)
        self.arguments, self.globals = dict(frame.f_locals), frame.f_globals
        self.module = frame.f_globals["__name__"]
        self.page = self.module.removeprefix(INSIDE).replace(".", "/") + ".py"
        self.result, self.visits, self._now = None, [], None

    @property
    def layer(self):
        """Whose method this is; None for a function."""
        owner = self.arguments.get("self")
        return owner if isinstance(owner, Layer) else None

    @property
    def returned(self):
        """What it returned, without what it saved."""
        result = self.result
        packs = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], tuple)
        return result[0] if packs else result

    @property
    def plain(self):
        """The function that it computes in another way, if it says so in `same_as`."""
        return getattr(self.globals.get(self.code.co_name), "same_as", None)

    def in_plain(self):
        """(call, result) of that function with the same arguments."""
        names = [name for name in inspect.signature(self.plain).parameters
                 if name in self.arguments]
        return observed(self.plain, (), {name: self.arguments[name] for name in names})

    @property
    def is_pair(self):
        """Whether it is a function with a backward, or the backward of one."""
        name = self.code.co_name
        if not self.module.startswith("numformer.functional") or name.startswith("_"):
            return False
        return f"{name}_backward" in self.globals or "_backward" in name

    @property
    def only_calls(self):
        """The name of the one function with a backward that it calls; None if it calls more."""
        found = {call.code.co_name.removesuffix("_accumulate") for call in self.below()
                 if call.is_pair and call is not self}
        return found.pop() if len(found) == 1 else None

    def below(self):
        """This call and all below it."""
        yield self
        for visit in self.visits:
            for call in visit.calls:
                yield from call.below()

    def note(self, frame, event, argument):
        """Note the variables after a line."""
        if event == "line":
            statement = statement_at(self.code, frame.f_lineno)
            if self._now is None or statement is not self._now.statement:
                self._close(frame)
                self._now = Visit(statement, _variables(frame), {}, [])
        elif event == "return":
            self._close(frame)
            self.result = argument

    def called(self, call):
        """Note a call that the statement makes which is running."""
        if self._now is not None:
            self._now.calls.append(call)

    def comment(self, statement):
        """The comment behind a statement."""
        lines, first = inspect.getsourcelines(self.code)
        for line in lines[statement.lineno - first:statement.end_lineno - first + 1]:
            if " # " in line:
                return line.split(" # ", 1)[1].strip()
        return ""

    def _close(self, frame):
        if self._now is not None and self._now.statement is not None:
            self._now.after.update(_variables(frame))
            self.visits.append(self._now)
        self._now = None


def _variables(frame):
    """The variables of a frame; lists are copied, as they grow later."""
    return {name: list(value) if type(value) is list else value
            for name, value in frame.f_locals.items()}


def observed(method, inputs, options):
    """Call a method, and observe it and all that it calls of this library.

    What chooses the version that runs (`numformer.backend`) and what checks are left out: a
    function that the backend calls is one of the caller's.

    Returns
    -------
    call : Call
        Of the method.
    result
    """
    first, stack = [], []

    def start(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        hidden = module.startswith(UNSEEN) or not module.startswith(INSIDE)
        if hidden or frame.f_code.co_name.startswith("<") or (
                frame.f_code.co_flags & inspect.CO_GENERATOR) or not tree_of(frame.f_code):
            return None
        call = Call(frame)
        stack[-1].called(call) if stack else first.append(call)
        stack.append(call)

        def trace(frame, event, argument):
            call.note(frame, event, argument)
            if event == "return":
                stack.pop()
            return trace
        return trace

    before = sys.gettrace()
    sys.settrace(start)
    try:
        result = method(*inputs, **options)
    finally:
        sys.settrace(before)
    return first[0], result


TREES, LINES = {}, {}


def tree_of(code):
    """The syntax tree of a function, with the line numbers of its file; None without a source."""
    if code not in TREES:
        try:
            lines, first = inspect.getsourcelines(code)
            tree = ast.parse(textwrap.dedent("".join(lines)))
            found = next(iter(ast.increment_lineno(tree, first - 1).body))
            TREES[code] = found if isinstance(found, ast.FunctionDef) else None
        except (OSError, SyntaxError, StopIteration):                 # of a lambda, for example
            TREES[code] = None
    return TREES[code]


def statement_at(code, line):
    """The innermost statement of a function on a line; None on its first."""
    if code not in LINES:
        LINES[code] = {}
        for node in ast.walk(tree_of(code)):                          # from the outside in
            if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef):
                last = node.body[0].lineno - 1 if getattr(node, "body", None) else node.end_lineno
                LINES[code] |= dict.fromkeys(range(node.lineno, max(last, node.lineno) + 1), node)
    return LINES[code].get(line)


def packs(tree):
    """Whether a function packs what the backward needs: a tuple, as `saved`."""
    return any(isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
               and getattr(node.targets[0], "id", "") == "saved"
               for node in (ast.walk(tree) if tree is not None else ()))


def unpacks(tree):
    """Whether a function unpacks it."""
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            values = getattr(node.value, "elts", [node.value])
            if "saved" in [getattr(value, "id", "") for value in values]:
                return True
    return False


def working(call, belongs):
    """The call whose tree `belongs`, of this one and those to which it only hands the work on."""
    first = next(arrays_in(call.result), None)
    for each in call.below():
        if belongs(each.tree) and next(arrays_in(each.result), None) is first:
            return each
    return call


def arrays_in(value):
    """The arrays inside nested tuples, lists and dicts.

    Examples
    --------
    >>> [array.shape for array in arrays_in((np.ones(3), [np.ones((2, 3)), True]))]
    [(3,), (2, 3)]
    """
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Parameter):
        yield value.data
    elif isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(part)
