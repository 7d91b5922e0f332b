"""A function of the reference with one change, and the one code that holds all its changes.

To compile a function again for each of a thousand changes takes longer than to run them. So they
are compiled together: a statement that has changes becomes

    if not switch_3: <the statement>
    if switch_3 == 1: <its first change>
    if switch_3 == 2: <its second change>

and the global variable `switch_3` selects what runs.
"""

import ast
import inspect
import textwrap
import warnings
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations

NUMBER = "exchanged_number"                           # the variable in the place of a number
HERE = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}


@dataclass(frozen=True)
class Mutant:
    """A function of the reference with one line changed.

    Parameters
    ----------
    source : Source
        The original.
    edits : tuple
        (holder, field, index, new node) of each.
    line : str
        The original line, or the part of it that was changed.
    what : str
        What was done to it: "without the factor `scale`".
    cost : int
        The lower, the likelier the mistake.
    value : float, optional
        Of the number that is exchanged, where it is one.
    """

    source: object
    edits: tuple
    line: str
    what: str
    cost: int
    value: float | None = None

    def with_number(self, value):
        """The Mutant with this number in the one place where it has `value`."""
        return replace(self, value=float(value), what=f"with {value:.7g}, not {self.value:.7g}")

    def __str__(self):
        return f"`{self.line}` of {self.source.function.__name__}, {self.what}"


class Source:
    """A function, and the mutants that are made of it.

    Parameters
    ----------
    function : function

    Examples
    --------
    >>> def scaled(x, scale):
    ...     return x * scale
    >>> source = Source(scaled)
    >>> statement, half = source.definition.body[0], ast.parse("x / 2", mode="eval").body
    >>> mutant = source.mutant([(statement, "value", None, half)], "return x * scale", "halved", 1)
    >>> code, values = source.code_with([mutant])
    >>> values
    {'switch_0': 1}
    """

    def __init__(self, function):
        self.function = inspect.unwrap(function)
        self.tree = ast.parse(_text_of(self.function))
        self.definition = self.tree.body[0]           # without docstring, decorators and defaults
        self.definition.decorator_list, self.definition.args.defaults = [], []
        self.definition.args.kw_defaults = [None] * len(self.definition.args.kwonlyargs)
        if ast.get_docstring(self.definition):
            del self.definition.body[0]
        self._changes = []

    def mutant(self, edits, line, what, cost, value=None):
        """A Mutant; all that are made before one is run are compiled together."""
        self._changes.append(tuple(edits))
        return Mutant(self, self._changes[-1], line, what, cost, value)

    def code_with(self, mutants):
        """(the code with the changes of Mutants, the values of global variables that it needs)."""
        code, changes, values = self._switched
        numbers = {NUMBER: mutant.value for mutant in mutants if mutant.value is not None}
        chosen = [changes.get(mutant.edits) for mutant in mutants]
        if None in chosen or any(one.overlaps(two) for one, two in combinations(chosen, 2)):
            edits = [edit for mutant in mutants for edit in mutant.edits]
            return _compiled(self._tree.rebuilt(self.definition, edits)), numbers
        for change in chosen:
            values = values | change.switches
        return code, values | numbers

    @cached_property
    def _tree(self):
        return _Tree(self.definition)

    @cached_property
    def _switched(self):
        """(the code of all changes, {edits: its _Change}, {switch: 0})."""
        variants = {}                                     # {statement: what its changes make of it}
        changes = {edits: self._change(edits, variants) for edits in self._changes}
        code = _compiled(_with_switches(self.definition, variants, self._tree.switches))
        return code, changes, {self._tree.switches[statement]: 0 for statement in variants}

    def _change(self, edits, variants):
        """The _Change of some edits; what statements become by it is added to `variants`."""
        around = {self._tree.around[_old(edit)] for edit in edits}
        changed = {statements[-1] for statements in around}
        switches, outside = {}, set()
        for *others, statement in around:
            if changed.isdisjoint(others):                # else it is part of another's variant
                new = self._tree.rebuilt(statement, edits) or ast.Pass(**HERE)
                variants.setdefault(statement, []).append(new)
                switches[self._tree.switches[statement]] = len(variants[statement])
                outside.update(self._tree.switches[other] for other in others)
        return _Change(switches, outside)


@dataclass
class _Change:
    """The switches that make a change, and those of statements around it, which must be off."""

    switches: dict
    outside: set

    def overlaps(self, other):
        mine, theirs = self.switches.keys(), other.switches.keys()
        return bool(mine & theirs or mine & other.outside or theirs & self.outside)


class _Tree:
    """The nodes of a function: what they are parts of, and how they are exchanged.

    Parameters
    ----------
    definition : ast.FunctionDef

    Attributes
    ----------
    around : dict of node to tuple
        The statements of bodies that it is in, or is itself, from the outermost on.
    switches : dict of statement to str
    """

    def __init__(self, definition):
        self.parents, self.around, self.switches = {}, {}, {}
        self._visit(definition, ())

    def _visit(self, node, around):
        self.around[node] = around
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            if isinstance(child, ast.stmt) and isinstance(node, ast.stmt):
                self.switches[child] = f"switch_{len(self.switches)}"
                self._visit(child, (*around, child))
            else:
                self._visit(child, around)

    def rebuilt(self, root, edits):
        """A tree with the new nodes of edits, which shares the nodes that are not above these."""
        new, above = {_old(edit): edit[3] for edit in edits}, set()
        for holder, *_ in edits:
            while holder is not None and holder not in above:
                above.add(holder)
                holder = self.parents.get(holder)

        def made(node):
            if node in new:
                return new[node]
            if node not in above:
                return node
            parts = {field: several(value) if isinstance(value, list) else made(value)
                     for field, value in ast.iter_fields(node)}
            if parts.get("body") == []:
                parts["body"] = [ast.Pass(**HERE)]
            return _replaced(node, **parts)

        def several(nodes):
            found = [(node, made(node)) for node in nodes]
            return [made_here for node, made_here in found if made_here is not None or node is None]

        return made(root)


def _with_switches(node, variants, switches):
    """A statement whose bodies hold the variants of their statements, too."""
    bodies = {}
    for field, statements in ast.iter_fields(node):
        if isinstance(statements, list) and statements and isinstance(statements[0], ast.stmt):
            bodies[field] = body = []
            for statement in statements:
                plain = _with_switches(statement, variants, switches)
                if statement not in variants:
                    body.append(plain)
                    continue
                switch = ast.Name(switches[statement], ast.Load(), **HERE)
                body.append(ast.If(ast.UnaryOp(ast.Not(), switch, **HERE), [plain], [], **HERE))
                body += [ast.If(ast.Compare(switch, [ast.Eq()], [ast.Constant(k, **HERE)], **HERE),
                                [variant], [], **HERE)
                         for k, variant in enumerate(variants[statement], 1)]
    return _replaced(node, **bodies) if bodies else node


def codes(mutants):
    """(function, code, values of global variables) of each function that Mutants change."""
    sources = {}
    for mutant in mutants:
        sources.setdefault(mutant.source, []).append(mutant)
    for source, changed in sources.items():
        yield source.function, *source.code_with(changed)


def _replaced(node, **parts):
    return type(node)(**{**vars(node), **parts})


def _old(edit):
    """The node that an edit replaces."""
    holder, field, index, _ = edit
    return getattr(holder, field) if index is None else getattr(holder, field)[index]


def _compiled(definition):
    """The code of a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                   # "str indices must be integers"
        module = compile(ast.Module([definition], []), "<mutant>", "exec")
    return next(part for part in module.co_consts if inspect.iscode(part))


@lru_cache(maxsize=None)
def _text_of(function):
    """The source of a function as text."""
    return textwrap.dedent(inspect.getsource(function))
