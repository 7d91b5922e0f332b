"""A changed line of the reference in words for somebody who has not seen that line.

A line is never quoted. A change in it is described with names that the reader knows: arguments,
gradients, and what the docstrings write about. Any other variable stands for how it is computed, if
that is short; of a long expression only the names in it are given.
"""

import ast
import re
from functools import lru_cache
from inspect import unwrap

from numformer import functional

LONGEST = 48                                              # characters of an expression
NAMELESS = " of intermediate results"
CALLED = ("np", "math")                                   # np.exp(x) is exp(x)
METHODS = ("sum", "mean", "max", "min", "any", "all", "argmax")     # x.sum() is sum(x)
KEPT = {"np", "math", "len", "range", "float", "int", "True", "False", "None", "exp", "log", "sqrt",
        "tanh", "sin", "cos", "abs", "where", "maximum", "minimum", "sum", "mean", "max", "min",
        "pi", "inf"}


def changed_line(mutant, forward, backward=None):
    """The reference with one line changed, in words: "the same numbers come out ...".

    Parameters
    ----------
    mutant : Mutant
    forward, backward : function
        The pair that is checked; their docstrings and arguments hold the names that are known.

    Examples
    --------
    >>> from numformer import functional as F
    >>> from numformer.teaching.mutations.statements import mutants
    >>> def told(function, what):
    ...     mutant = next(m for m in mutants(function) if m.what == what)
    ...     return changed_line(mutant, F.silu, F.silu_backward)
    >>> told(F.sigmoid_backward, "without the factor `1 - y`")
    'the same numbers come out without the factor `1 - y` in sigmoid_backward'
    """
    pair = [unwrap(function) for function in (forward, backward) if function]
    known = known_names(*pair)
    definitions = _definitions(mutant.source.tree)

    def shown(found):
        return _shown(found[1], known, definitions)

    if mutant.what == "left out":
        phrase = f"if {_step(mutant.line, known, definitions)} is left out"
    else:
        phrase = re.sub("with `axis=(.+?)`, not `axis=(.+?)`", _axes, mutant.what)
        phrase = phrase.replace(" in all these lines", " everywhere").replace(
            " in every place", " everywhere")
        phrase = re.sub("`([^`]*)`", shown, phrase)
        phrase = re.sub(f"(?<!in place) of (?:a term|an expression){NAMELESS}", "", phrase)
        phrase = re.sub(f"the factor (?:a term|an expression)({NAMELESS})?", "a factor", phrase)
        phrase = phrase.replace(NAMELESS, "")
    name = mutant.source.function.__name__.split("_in_")[0]
    elsewhere = hasattr(functional, name) and name not in [one.__name__ for one in pair]
    return f"the same numbers come out {phrase}" + (f" in {name}" if elsewhere else "")


def known_names(*functions):
    """Names that somebody knows who has read the documentation of these functions."""
    known = set(KEPT) | {"dy", "y", "dloss", "saved"}
    for function in functions:
        names = function.__code__.co_varnames[:function.__code__.co_argcount]
        known.update(names, (f"d{name}" for name in names))
        known.update(re.findall(r"\w+", function.__doc__ or ""))
    return known


@lru_cache(maxsize=16)
def _definitions(tree):
    """{variable: the expression} of variables that are assigned once."""
    found, again = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            for target in ast.walk(node.targets[0]):
                if isinstance(target, ast.Name):
                    again.update({target.id} & found.keys())
                    found[target.id] = node.value if target is node.targets[0] else None
    return {name: value for name, value in found.items() if value is not None and name not in again}


class _Plain(ast.NodeTransformer):
    """Mathematics for code: exp(x) for np.exp(x), sum(x) for x.sum(axis=-1, keepdims=True)."""

    def __init__(self, known, definitions):
        self.known, self.definitions, self.depth = known, definitions, 0

    def visit_Name(self, node):
        value = self.definitions.get(node.id)
        if node.id in self.known or value is None or self.depth > 1 or len(
                ast.unparse(value)) > LONGEST:
            return node
        self.depth += 1
        plain = self.visit(ast.parse(ast.unparse(value), mode="eval").body)
        self.depth -= 1
        return plain

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute):
            owner, name = node.func.value, node.func.attr
            if isinstance(owner, ast.Name) and owner.id in CALLED:
                node = ast.Call(ast.Name(name), node.args, [])
            elif name in METHODS:
                node = ast.Call(ast.Name(name), [owner], [])
            elif name in ("reshape", "astype", "copy"):
                return self.visit(owner)
        if isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1:
            return self.visit(node.args[0])
        return ast.Call(node.func, [self.visit(part) for part in node.args], [])

    def visit_Subscript(self, node):
        if "None" in ast.unparse(node.slice):             # an axis for broadcasting
            return self.visit(node.value)
        return node if isinstance(node.value, ast.Name) else self.generic_visit(node)

    def visit_Attribute(self, node):
        if node.attr in ("real", "T", "mT"):
            return self.visit(node.value)
        if isinstance(node.value, ast.Name) and node.value.id in CALLED:
            return ast.Name(node.attr)                    # pi, inf
        return self.generic_visit(node)


def _shown(code, known, definitions):
    """An expression in backticks, in mathematics; in words if it is long."""
    sign, _, rest = code.partition(" ") if code[:2] in ("+ ", "- ", "* ", "/ ") else ("", "", code)
    try:
        node = ast.parse(rest, mode="eval").body
    except SyntaxError:
        return f"`{code}`"
    plain = ast.unparse(_Plain(known, definitions).visit(node))
    told = [part.id for part in ast.walk(ast.parse(plain, mode="eval"))
            if isinstance(part, ast.Name)]
    if len(plain) <= LONGEST and all(name in known or len(name) > 2 for name in told):
        return f"`{sign} {plain}`" if sign else f"`{plain}`"
    if all(name in known or len(name) > 2 for name in told):
        return f"`{plain[:LONGEST].strip()} ...`"
    names = [name for name in dict.fromkeys(told) if name in known - KEPT]
    term = "a term" if sign in ("+", "-") else "an expression"
    return term + (f" of {', '.join(names[:4])}" if names else NAMELESS)


def _axes(found):
    """ "over axis 0, not over axis -1"."""
    one, other = ("the option axis" if axis == "axis" else "all axes" if axis == "None" else
                  f"axes {axis}" if axis.startswith("(") else f"axis {axis}"
                  for axis in found.groups())
    return f"over {one}, not over {other}"


def _step(line, known, definitions):
    """The step of a line, named by what it does."""
    try:
        node = ast.parse(line).body[0]
    except SyntaxError:                                   # the head of a loop
        return "a loop"
    if isinstance(node, ast.If):
        where = _shown(ast.unparse(node.test), known, definitions)
        values = [part.value for part in ast.walk(node) if isinstance(part, ast.Assign)]
        done = _shown(ast.unparse(values[-1]), known, definitions) if values else "what is done"
        return f"{done}, where {where},"
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        return f"the step that makes {_shown(ast.unparse(node.value), known, definitions)}"
    target = next((part.id for part in ast.walk(node) if isinstance(part, ast.Name)
                   and part.id in known - KEPT), "an intermediate result")
    return f"the step that writes into {target}"
