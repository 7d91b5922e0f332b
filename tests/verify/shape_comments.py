"""What shape comments and docstrings say of arrays, compared with the arrays of a run.

A trailing comment such as ``# (B, H, T, S)`` is about the variable that its statement assigns, and
``x : ndarray, shape (B, T, C)`` in a docstring about a parameter or a result. In one call a letter
is one number: it is that of the first array which names it.
"""

import ast
import inspect
import re
import sys
import textwrap
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

import numformer

PACKAGE = Path(numformer.__file__).parent
ROOMS = tuple(str(PACKAGE / room) for room in ("functional", "layers", "models"))
TUPLE = re.compile(r"\((?:[^()]*)\)")
TILE = "I", "J"                                       # of a tile: the last one may be smaller
ENTRY = re.compile(r"^(\w+(?:, \w+)*) : ([^\n]*(?:\\\n[^\n]*)?)", re.MULTILINE)


def shapes_in(text):
    """The shapes at the beginning of a comment: a list of alternatives for each array.

    Examples
    --------
    >>> shapes_in("(B, T, C), (V,)"), shapes_in("(1, T) or (B, T)")
    ([[['B', 'T', 'C']], [['V']]], [[['1', 'T'], ['B', 'T']]])
    """
    found, rest = [], text.strip()
    joined = ","
    while (match := TUPLE.match(rest)):
        axes = [axis.strip() for axis in match[0][1:-1].split(",") if axis.strip()]
        if joined == "or":
            found[-1].append(axes)
        else:
            found.append([axes])
        rest = rest[match.end():].strip()
        word = re.match(r"(, or|or|and|,)\s*(?=\()", rest)
        if word is None:
            break
        joined = "or" if "or" in word[1] else ","
        rest = rest[word.end():]
    return found


def number(axis, sizes):
    """The size of an axis such as "2 K + 1"; None if a letter of it is not known."""
    text = re.sub(r"(?<=[\w)])\s+(?=[A-Za-z(])|(?<=\d)(?=[A-Za-z])", " * ", axis).replace("/", "//")
    names = re.findall(r"[A-Za-z_]\w*", text)
    if not re.fullmatch(r"[\w\s*+/-]+", text) or any(name not in sizes for name in names):
        return None
    return eval(text, {}, dict(sizes))                               # of letters and numbers alone


def fits(axes, shape, sizes):
    """The sizes with what this shape adds; None if it has another shape than the axes."""
    sizes = dict(sizes)
    if axes[:1] == ["..."]:
        axes, shape = axes[1:], shape[max(0, len(shape) - len(axes) + 1):]
    if "..." in axes:
        return sizes
    if len(axes) != len(shape):
        return None
    for axis, size in zip(axes, shape):
        known = number(axis, sizes)
        if known is None and re.fullmatch(r"[A-Za-z_]\w*", axis):
            if axis not in TILE:
                sizes[axis] = size
        elif known is not None and known != size:
            return None
    return sizes


def described(docstring, section):
    """{name: alternatives of shapes, the name of an array of that shape, or None} of a section."""
    parts = re.split(r"^(\w[\w ]*)\n-+\n", inspect.cleandoc(docstring or ""), flags=re.MULTILINE)
    found = {}
    for title, body in zip(parts[1::2], parts[2::2]):
        if title == section:
            for names, kind in ENTRY.findall(body):
                same = re.search(r"shape of `(\w+)`$", kind)
                shapes = re.search(r"shape (\(.*)", kind)
                names, arrays = names.split(", "), shapes_in(shapes[1]) if shapes else []
                for k, name in enumerate(names):
                    found[name] = (same[1] if same else arrays[k] if len(arrays) == len(names) else
                                   sum(arrays, []) or None)
    return found


@lru_cache(maxsize=None)
def promises(code):
    """(statements by line, parameters, results) of a function; None if its source is not there."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, SyntaxError, IndexError):
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    statements = {}
    loops = [(node.lineno, node.end_lineno) for node in ast.walk(tree)
             if isinstance(node, (ast.For, ast.While))]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            names = [each.id if isinstance(each, ast.Name) else None
                     for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
            comment = re.search(r"#\s*(\(.*)", lines[node.end_lineno - 1])
            shapes = shapes_in(comment[1]) if comment else []
            for line in range(node.lineno, node.end_lineno + 1):
                is_inside = any(start < line <= end for start, end in loops)
                statements[line + first - 1] = (node.lineno + first - 1, names, shapes, is_inside)
    text = ast.get_docstring(tree)
    return statements, described(text, "Parameters"), described(text, "Returns")


class Watch:
    """Compares the arrays of all calls inside a ``with`` statement; `faults` says what is wrong."""

    def __init__(self):
        self.faults, self.n_compared = set(), 0

    @contextmanager
    def __call__(self):
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame, event, _):
        known = (promises(frame.f_code) if frame.f_code.co_filename.startswith(ROOMS)
                 and frame.f_code.co_name[0] != "<" else None)
        if known is None:
            return None
        statements, parameters, results = known
        where, sizes = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix(), {}
        entered = dict(frame.f_locals)
        for name, axes in parameters.items():
            sizes = self._compare(where, frame.f_code.co_name, name, axes, frame.f_locals, sizes)
        state = dict(sizes=sizes, last=None)

        def step(frame, event, value):
            last = state["last"]
            now = statements.get(frame.f_lineno) if event == "line" else None
            if last is not None and (now is None or now[0] != last[0] or event == "return"):
                line, names, shapes, is_inside = last
                for name, axes in zip(names, shapes):
                    if name is not None:
                        new = self._compare(where, line, name, axes, frame.f_locals,
                                            state["sizes"])
                        if not is_inside:             # the next round of a loop may have others
                            state["sizes"] = new
            state["last"] = now
            if event == "return" and value is not None:
                values = value if isinstance(value, tuple) else (value,)
                given = {**frame.f_locals, **entered, **dict(zip(results, values))}
                for name, axes in results.items():
                    self._compare(where, f"{frame.f_code.co_name}, Returns", name, axes, given,
                                  state["sizes"])
            return step

        return step

    def _compare(self, where, line, name, axes, found, sizes):
        x = found.get(name)
        if isinstance(axes, str):                                    # the shape of another array
            other = found.get(axes)
            if isinstance(x, np.ndarray) and isinstance(other, np.ndarray):
                self.n_compared += 1
                if x.shape != other.shape:
                    self.faults.add(f"{where}:{line}: {name} is said to have the shape of {axes}")
            return sizes
        if not isinstance(x, np.ndarray) or not axes:
            return sizes
        self.n_compared += 1
        numbers = {key: size for key, size in found.items() if type(size) is int and size >= 0}
        for alternative in axes:
            new = fits(alternative, x.shape, numbers | sizes)
            if new is not None:                       # variables may change; letters do not
                return sizes | {letter: size for letter, size in new.items()
                                if letter not in numbers}
        told = " or ".join(f"({', '.join(each)})" for each in axes)
        known = {letter: size for letter, size in sizes.items() if letter in told}
        self.faults.add(f"{where}:{line}: {name} is said to be {told}, but is {x.shape} with "
                        f"{known}")
        return sizes
