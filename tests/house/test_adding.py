"""Whoever follows a page on adding a part, to the letter, has a project whose tests pass."""

import os
import re
import subprocess
import sys

import pytest

from adding import PAGES, REPOSITORY, copied, follow

pytestmark = pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="copies what git knows")


@pytest.fixture(scope="module", params=PAGES)
def extended(request, tmp_path_factory):
    """A copy of the project in which a page was followed, its new files, and the page."""
    root, (most, _) = copied(tmp_path_factory.mktemp("copy")), PAGES[request.param]
    touched = follow(REPOSITORY / request.param, root)
    assert len(touched) <= most
    return root, [path for path in touched if not (REPOSITORY / path).exists()], request.param


def run(root, module, *words):
    """What a module prints in a copy, where it must succeed."""
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run([sys.executable, "-m", module, *words], cwd=root,
                           env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
    return found.stdout


def passes(root, *words):
    """What pytest prints in a copy, whose tests must pass."""
    return run(root, "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *words)


def test_what_a_page_adds_is_tested(extended):
    root, new, page = extended
    out = passes(root, "tests/verify/test_contract.py", "tests/functional/test_ranges.py",
                 "tests/specifications", "tests/verify/test_planted_bugs.py",
                 "tests/teaching/test_check.py", "tests/teaching/mutations",
                 "tests/backend/test_dispatch.py", *new, "-k", PAGES[page][1])
    assert int(out.split(" passed")[0].split()[-1]) >= 10


def test_what_a_page_adds_is_drawn_and_counted(extended):
    root, _, page = extended
    for words in re.findall("^numformer ((?:draw|count) .*)$", (REPOSITORY / page).read_text(),
                            re.MULTILINE):
        assert run(root, "numformer", *words.split())


@pytest.mark.slow
def test_the_rooms_it_touches_still_pass(extended):
    passes(extended[0], *(f"tests/{room}" for room in (
        "functional", "specifications", "verify", "layers", "models", "kernels", "backend",
        "teaching", "house", "explorer", "analysis")), "--deselect=tests/house/test_adding.py")
