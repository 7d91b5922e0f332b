"""Small changes to a function's code, one at a time: for tests/mutate.py."""

import ast
import copy
import hashlib
import inspect
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "numformer"
SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.Lt: ast.LtE,
    ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And}


class Mutator(ast.NodeTransformer):
    """Counts what can be changed in a tree, and makes the change of number `wanted`."""

    def __init__(self, wanted=None):
        self.wanted, self.count, self.what, self.line = wanted, 0, None, None

    def is_wanted(self, node, what):
        self.count += 1
        if self.count - 1 != self.wanted:
            return False
        self.what, self.line = f"line {node.lineno}: {what}", node.lineno
        return True

    def visit_Raise(self, node):
        return node                     # messages of errors are tested where they matter

    def visit_JoinedStr(self, node):
        return node

    def visit_FunctionDef(self, node):
        body = node.body[1:] if ast.get_docstring(node) else node.body
        node.body = [self.visit(statement) for statement in body]
        arguments = node.args
        arguments.defaults = [self.visit(default) for default in arguments.defaults]
        arguments.kw_defaults = [default and self.visit(default)
                                 for default in arguments.kw_defaults]
        return node

    def swap_operator(self, node):
        other = SWAPS.get(type(node.op))
        name = type(node.op).__name__
        if other and self.is_wanted(node, f"{name} becomes {other.__name__}"):
            node.op = other()
        return self.generic_visit(node)

    def visit_BinOp(self, node):
        return self.swap_operator(node)

    def visit_BoolOp(self, node):
        return self.swap_operator(node)

    def visit_AugAssign(self, node):
        if self.is_wanted(node, "an augmented assignment becomes a plain one"):
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        return self.swap_operator(node)

    def visit_Compare(self, node):
        for k, operator in enumerate(node.ops):
            other, name = SWAPS.get(type(operator)), type(operator).__name__
            if other and self.is_wanted(node, f"{name} becomes {other.__name__}"):
                node.ops[k] = other()
        return self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
            if self.is_wanted(node, f"{type(node.op).__name__} is left out"):
                return self.generic_visit(node.operand)
        return self.generic_visit(node)

    def visit_If(self, node):
        if self.is_wanted(node, "a condition is negated"):
            node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
            return node
        return self.generic_visit(node)

    def visit_IfExp(self, node):
        return self.visit_If(node)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            if self.is_wanted(node, f"{node.value} becomes {not node.value}"):
                return ast.copy_location(ast.Constant(not node.value), node)
        elif type(node.value) in (int, float):
            if self.is_wanted(node, f"{node.value} becomes {node.value + 1}"):
                return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            node.func = self.visit(node.func)
            node.args = [part if ast.unparse(part) == "-1" else self.visit(part)  # -2 is the same
                         for part in node.args]
            return node
        return self.generic_visit(node)


def functions(path):
    """(name, tree, function) of every function and method of a file."""
    module = import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            function = inspect.unwrap(getattr(module, node.name))
            if function.__module__ == module.__name__ and not makes_code(node):
                yield node.name, node, function
        elif isinstance(node, ast.ClassDef):
            kind = getattr(module, node.name)
            for method in node.body:
                if (isinstance(method, ast.FunctionDef)
                        and method.name not in ("__repr__", "_repr_html_")):
                    found = inspect.getattr_static(kind, method.name)
                    setter = f"{method.name}.setter" in map(ast.unparse, method.decorator_list)
                    for attribute in ("fset" if setter else "fget", "__func__", "func"):
                        found = getattr(found, attribute, found)
                    yield f"{node.name}.{method.name}", method, inspect.unwrap(found)


def makes_code(node):
    """Whether a function is, or holds, an intrinsic or overload of Numba: they generate code."""
    names = {part.id for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef)
             for decorator in inner.decorator_list
             for part in ast.walk(decorator) if isinstance(part, ast.Name)}
    return bool(names & {"intrinsic", "overload"})


def replace_code(tree, function):
    """Give a function the code of a changed tree; a method needs a class for its `super()`."""
    tree.decorator_list = []
    is_method = "." in function.__qualname__
    body = [ast.ClassDef("Mutant", [], [], [tree], [])] if is_method else [tree]
    names, file = dict(function.__globals__), function.__code__.co_filename
    exec(compile(ast.fix_missing_locations(ast.Module(body, [])), file, "exec"), names)
    changed = vars(names["Mutant"])[tree.name] if is_method else names[tree.name]
    changed = getattr(changed, "__func__", changed)                # __new__ is static by itself
    function.__code__, function.__defaults__ = changed.__code__, changed.__defaults__
    function.__kwdefaults__ = changed.__kwdefaults__


def statement_lines(tree, line):
    """The lines of the statement, or of its head, that holds a line of a function."""
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            first = min([node.lineno, *(part.lineno for part in
                                        getattr(node, "decorator_list", ()))])
            last = node.end_lineno
            if body:
                below = getattr(body[0], "pattern", body[0]).lineno
                last = max(node.lineno, below - 1)
            if first <= line <= last:
                spans.append(range(first, last + 1))
    found = min(spans, key=len, default=None)
    if found is None or tree.lineno in found:           # a default of an argument: all lines
        found = range(tree.lineno, tree.end_lineno + 1)
    return found


@dataclass(frozen=True)
class Mutant:
    """Change number `number` of a function, which makes other code of these lines."""

    path: Path
    name: str
    tree: ast.FunctionDef
    function: object
    number: int
    what: str
    lines: range

    def make(self):
        """Change the function, in a child."""
        replace_code(Mutator(self.number).visit(copy.deepcopy(self.tree)), self.function)

    @property
    def key(self):
        """Its description, and a hash of its page: another page, another mutant."""
        return f"{self} {hashlib.sha256(self.path.read_bytes()).hexdigest()[:8]}"

    def __str__(self):
        return f"{self.path.relative_to(PACKAGE)} {self.name} {self.what} (change {self.number})"


def mutants_of(paths):
    for path in paths:
        for name, tree, function in functions(path):
            counter = Mutator()
            counter.visit(copy.deepcopy(tree))
            for number in range(counter.count):
                mutator = Mutator(number)
                mutator.visit(copy.deepcopy(tree))
                yield Mutant(path, name, tree, function, number, mutator.what,
                             statement_lines(tree, mutator.line))


def change_nothing(paths):
    """Replace the code of every function by the same code, as a control."""
    for path in paths:
        for _, tree, function in functions(path):
            replace_code(copy.deepcopy(tree), function)
