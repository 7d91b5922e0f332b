"""The plan of the house, counted: imports, names of tests, and the sizes of pages and folders.

    python tests/house/counts.py    # prints what breaks a rule, a line each, and the sizes

Sizes are a report and no rule: a page holds one idea, as long as it needs.
"""

import ast
import sys
from collections import Counter
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "numformer"
POSITION_ROOMS = ("numformer/layers/positions", "numformer/functional/positions")
OUTLIERS = 10                                         # that the report names


def python_files(*folders):
    return [path for folder in folders for path in sorted((REPOSITORY / folder).rglob("*.py"))]


def relative(path):
    return path.relative_to(REPOSITORY).as_posix()


def sizes():
    """The report: medians of lines of a page and of pages of a folder, and the largest of both."""
    for room in ("numformer", "tests"):
        files = python_files(room)
        lines = {relative(path): path.read_text().count("\n") for path in files}
        pages = Counter(relative(path.parent) for path in files if path.name != "__init__.py")
        for unit, counts in (("lines a page", lines), ("pages a folder", pages)):
            most = sorted(counts.items(), key=lambda item: -item[1])[:OUTLIERS]
            yield (f"{room}: {median(counts.values()):g} {unit} (median of {len(counts)}); most: "
                   + ", ".join(f"{name} {count}" for name, count in most))


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


RULES = names_of_tests, circles, position_checks


if __name__ == "__main__":
    faults = [fault for rule in RULES for fault in rule()]
    print("\n".join(faults) or "every rule of the house holds")
    print("\n".join(sizes()))
    sys.exit(bool(faults))
