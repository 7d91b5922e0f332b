"""The plan of the house, counted: sizes of pages and folders, imports, and the words of names.

    python tests/house/counts.py    # prints what breaks a rule, a line each
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "numformer"
MOST_LINES, MOST_COLUMNS, MOST_PAGES = 300, 100, 15
POSITION_ROOMS = ("numformer/layers/positions", "numformer/functional/positions")
# Words that DESIGN's table replaces by the field's own: none is part of a public name.
FORBIDDEN = set("""
    truth twin twins switches gain gains shift shifts unembedding trunk remember pads material
    pieces thinned silenced turned room carve borrow ledger places account watch feels speaks says
    hears told asked beside stands lies wanders mended worth vain
""".split())
FORBIDDEN_PHRASES = ("take_over", "step_to", "fills_up")


def python_files(*folders):
    return [path for folder in folders for path in sorted((REPOSITORY / folder).rglob("*.py"))]


def relative(path):
    return path.relative_to(REPOSITORY).as_posix()


def long_files():
    """Files of more than 300 lines; the source of a lesson is mostly prose, counted in words."""
    for path in python_files("numformer", "tests", "notebooks", "docs"):
        if relative(path).startswith("notebooks/source"):
            continue
        lines = path.read_text().count("\n")
        if lines > MOST_LINES:
            yield f"{relative(path)}: {lines} lines"


def long_lines():
    """Lines of more than 100 columns."""
    for path in python_files("numformer", "tests", "notebooks", "docs"):
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if len(line) > MOST_COLUMNS:
                yield f"{relative(path)}:{number}: {len(line)} columns"


def full_folders():
    """Folders with more than about fifteen pages; `__init__.py` and conftest.py are none."""
    pages = Counter(path.parent for path in python_files("numformer", "tests")
                    if path.name not in ("__init__.py", "conftest.py"))
    for folder, count in pages.items():
        if count > MOST_PAGES:
            yield f"{relative(folder)}: {count} pages"


def names_of_tests():
    """Pages of tests with one name: without packages pytest takes the first for all of them."""
    pages = Counter(path.name for path in python_files("tests") if path.name.startswith("test_"))
    for name, count in pages.items():
        if count > 1:
            yield f"{name}: {count} pages"


def module_name(path):
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph():
    """module -> modules of the package that it imports when it is loaded."""
    names = {module_name(path): path for path in python_files("numformer")}
    graph = {}
    for name, path in names.items():
        graph[name] = found = set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module in names:
                for alias in node.names:
                    part = f"{node.module}.{alias.name}"
                    found.add(part if part in names else node.module)
            elif isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names if alias.name in names)
        found.discard(name)
    return graph


def circles():
    """Circles of imports between modules."""
    graph, done, seen = import_graph(), set(), set()

    def visit(name, path):
        if name in path:
            circle = path[path.index(name):]
            if frozenset(circle) not in seen:
                seen.add(frozenset(circle))
                yield " -> ".join([*circle, name])
        elif name not in done:
            for other in sorted(graph[name]):
                yield from visit(other, [*path, name])
            done.add(name)

    for name in sorted(graph):
        yield from visit(name, [])


def position_classes():
    """Names of the classes that the rooms of the positions define."""
    return {node.name for room in POSITION_ROOMS for path in (REPOSITORY / room).rglob("*.py")
            for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}


def position_checks():
    """isinstance(..., a class of positions) outside the rooms of the positions."""
    classes = position_classes()
    for path in python_files("numformer"):
        if relative(path).startswith(POSITION_ROOMS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                if names & classes:
                    yield f"{relative(path)}:{node.lineno}: isinstance of {names & classes}"


def public_names():
    """(where, name) of modules, functions, classes, constants, methods, fields and parameters."""
    for path in python_files("numformer"):
        if "/exercises/" in relative(path):                           # named by number and subject
            continue
        yield relative(path), path.stem if path.stem != "__init__" else path.parent.name
        yield from _names_in(ast.parse(path.read_text()).body, relative(path))


def _names_in(body, where):
    for node in body:
        place = f"{where}:{node.lineno}"
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield place, node.name
            yield from _names_in(node.body, where)
        elif isinstance(node, ast.FunctionDef) and (
                not node.name.startswith("_") or node.name == "__init__"):
            yield place, node.name
            arguments = node.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                yield place, argument.arg
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name) and not name.id.startswith("_"):
                        yield place, name.id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield place, node.target.id


def forbidden_names():
    """Public names that hold a word which the field does not use."""
    for where, name in public_names():
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        words = set(snake.split("_"))
        if words & FORBIDDEN or any(phrase in snake for phrase in FORBIDDEN_PHRASES):
            yield f"{where}: {name}"


RULES = (long_files, long_lines, full_folders, names_of_tests, circles, position_checks,
         forbidden_names)


if __name__ == "__main__":
    faults = [fault for rule in RULES for fault in rule()]
    print("\n".join(faults) or "every rule of the house holds")
    sys.exit(bool(faults))
