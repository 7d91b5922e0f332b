"""Whoever follows a page on adding a part, to the letter, has a project whose tests pass."""

import os
import subprocess
import sys

import pytest

from adding import PAGES, REPOSITORY, copied, follow

# Files that each page may touch, and the name of what it adds
MOST_FILES = {"numformer/ADDING_AN_ACTIVATION.md": 3, "numformer/ADDING_A_FUNCTION.md": 3,
              "numformer/ADDING_A_LAYER.md": 6, "numformer/ADDING_A_POSITION_SCHEME.md": 4}
ADDED = {"numformer/ADDING_AN_ACTIVATION.md": "mish", "numformer/ADDING_A_FUNCTION.md": "softplus",
         "numformer/ADDING_A_LAYER.md": "scale and norm",
         "numformer/ADDING_A_POSITION_SCHEME.md": "kerple"}
pytestmark = pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="copies what git knows")


@pytest.fixture(scope="module", params=PAGES)
def extended(request, tmp_path_factory):
    """A copy of the project in which a page was followed, what it added, and its new files."""
    root = copied(tmp_path_factory.mktemp("copy"))
    touched = follow(REPOSITORY / request.param, root)
    assert len(touched) <= MOST_FILES[request.param]
    new = [path for path in touched if not (REPOSITORY / path).exists()]
    return root, ADDED[request.param], new


def passes(root, *words):
    """What pytest prints in a copy, whose tests must pass."""
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *words],
        cwd=root, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
    return found.stdout


def test_what_a_page_adds_is_tested(extended):
    root, name, new = extended
    out = passes(root, "tests/verify/test_contract.py", "tests/functional/test_ranges.py",
                 "tests/specifications", "tests/verify/test_planted_bugs.py",
                 "tests/teaching/test_check.py", "tests/teaching/mutations",
                 "tests/backend/test_dispatch.py", *new, "-k", name)
    assert int(out.split(" passed")[0].split()[-1]) >= 10


@pytest.mark.slow
def test_the_rooms_it_touches_still_pass(extended):
    passes(extended[0], *(f"tests/{room}" for room in (
        "functional", "specifications", "verify", "layers", "models", "kernels", "backend",
        "teaching", "house", "explorer", "analysis")), "--deselect=tests/house/test_adding.py")
