"""The house has floors, and each room imports only from floors below its own."""

import ast
from functools import cache
from pathlib import Path

import numformer

ROOT = Path(numformer.__file__).parent
FLOORS = {
    "minimal": 0, "seeds": 0, "terminal": 0, "other_libraries": 0, "minimal_grpo": 0.1,
    "docstrings": 0,
    "blas_threads": 0,
    "description": 0.5, "checks": 0.5, "underflow": 0.5, "finite": 0.5,
    "shapes_only": 0, "files": 0.2, "config": 1, "parameter": 1, "functional": 1,
    "specifications": 1.5,
    "kernels": 2, "webassembly": 2,
    "flat_parameters": 2, "backend": 3,
    "layers": 4, "weights": 4.5,
    "models": 5, "data": 5,
    "training": 6, "generation": 6, "analysis": 6,
    "verify": 7, "interop": 7, "plots": 7,
    "explorer": 7.2,
    "recipes": 8, "teaching": 8,
    "runs": 8.1,
    "experiments": 8.2,
    "testing": 8.5,
    "benchmarks": 9, "commands": 10, "cli": 11, "__main__": 12,
}
# Imported where they are used
LAZY = {"numba", "matplotlib", "scipy", "pooch", "tqdm", "threadpoolctl"}


def room(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


def modules():
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


@cache
def imports(path):
    """(module, at the top level of the file) for every import of a file."""
    return [*_imports(path, ast.parse(path.read_text()))]


def _imports(path, tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node in tree.body) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides its floor"
            names = ([f"numformer.{alias.name}" for alias in node.names]
                     if node.module == "numformer" else [node.module])
            yield from ((name, node in tree.body) for name in names)


def test_every_room_has_a_floor():
    assert {room(path) for path in modules()} <= set(FLOORS)


def test_imports_only_go_down():
    wrong = []
    for path in modules():
        for name, _ in imports(path):
            parts = name.split(".")
            if parts[0] == "numformer" and len(parts) > 1 and parts[1] in {*FLOORS} - {room(path)}:
                if FLOORS[parts[1]] >= FLOORS[room(path)]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, wrong


def heavy(path, name):
    """Whether `path` should not import `name` at its top: a heavy package, or the kernels, which
    need one."""
    return room(path) != "kernels" and (
        name.split(".")[0] in LAZY or name.startswith("numformer.kernels"))


def test_heavy_packages_are_imported_where_they_are_used():
    wrong = [f"{path.relative_to(ROOT)}: {name}" for path in modules()
             for name, top in imports(path) if top and heavy(path, name)]
    assert not wrong, wrong
