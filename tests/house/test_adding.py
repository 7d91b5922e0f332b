"""Whoever follows a page on adding a part, to the letter, has a project whose tests pass."""

import os
import re
import subprocess
import sys

import pytest

from adding import MATHEMATICS, PAGES, REPOSITORY, copied, follow

pytestmark = pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="copies what git knows")


@pytest.fixture(scope="module", params=[
    pytest.param(name, marks=pytest.mark.slow) for name in PAGES])
def extended(request, tmp_path_factory):
    """A copy of the project in which a page was followed, its new files, and the page's name."""
    root = copied(tmp_path_factory.mktemp("copy"))
    touched = follow(REPOSITORY / request.param, root)
    assert len(touched) <= PAGES[request.param].most
    return root, [path for path in touched if not (REPOSITORY / path).exists()], request.param


def run(root, module, *words, **variables):
    """What a module prints in a copy, where it must succeed."""
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run([sys.executable, "-m", module, *words], cwd=root, text=True,
                           env={**os.environ, "PYTHONPATH": path, **variables}, capture_output=True)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
    return found.stdout


def passes(root, *words, **variables):
    """What pytest prints in a copy, whose tests must pass."""
    return run(root, "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *words,
               **variables)


def test_what_a_page_adds_is_tested(extended):
    root, new, name = extended
    page = PAGES[name]
    # where no mathematics is added, no kernel need be compiled
    variables = {} if page.tests is MATHEMATICS else {"NUMBA_DISABLE_JIT": "1"}
    out = passes(root, *page.tests, *new, "-k", page.adds, "-m", "slow or not slow", **variables)
    assert int(out.split(" passed")[0].split()[-1]) >= page.fewest


def test_what_a_page_adds_is_drawn_and_counted(extended):
    root, _, page = extended
    for words in re.findall("^numformer ((?:draw|count) .*)$", (REPOSITORY / page).read_text(),
                            re.MULTILINE):
        assert run(root, "numformer", *words.split())


@pytest.mark.slow
def test_all_of_them_can_be_added_together(tmp_path):
    root = copied(tmp_path / "copy")
    for page in PAGES:
        follow(REPOSITORY / page, root)
    passes(root, "tests/house", "tests/specifications", "tests/commands/test_cli.py",
           "--ignore=tests/house/test_adding.py")
