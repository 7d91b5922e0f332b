"""Whoever follows a page on adding a part, to the letter, has a project whose tests pass."""

import os
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

from adding import PAGES, REPOSITORY, copied, follow

pytestmark = pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="copies what git knows")


class Checks(NamedTuple):
    """Where what a page adds is tested besides its new files, and how often."""

    paths: tuple = ("tests/verify/test_contract.py", "tests/functional/test_ranges.py",
                    "tests/specifications", "tests/verify/test_planted_bugs.py",
                    "tests/teaching/test_check.py", "tests/teaching/mutations",
                    "tests/backend/test_dispatch.py")
    fewest: int = 10


MATHEMATICS = Checks()
OTHERS = {
    "numformer/recipes/ADDING_A_PRESET.md": Checks(
        ("tests/recipes/test_preset_contract.py", "-m", "slow or not slow"), 5),
    "numformer/plots/ADDING_A_PLOT.md": Checks((), 3),
    "numformer/commands/ADDING_A_VERB.md": Checks(
        ("tests/commands/test_cli.py", "tests/commands/environments"), 3),
    "numformer/teaching/ADDING_AN_EXERCISE.md": Checks(("tests/teaching/test_exercises.py",), 2),
}


LONG = ("MODEL.md", "POSITION_SCHEME.md", "PRESET.md")               # over ten seconds each


@pytest.fixture(scope="module", params=[
    pytest.param(page, marks=[pytest.mark.slow] * page.endswith(LONG)) for page in PAGES])
def extended(request, tmp_path_factory):
    """A copy of the project in which a page was followed, its new files, and the page."""
    root, (most, _) = copied(tmp_path_factory.mktemp("copy")), PAGES[request.param]
    touched = follow(REPOSITORY / request.param, root)
    assert len(touched) <= most
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
    root, new, page = extended
    tests = OTHERS.get(page, MATHEMATICS)
    # where no mathematics is added, no kernel need be compiled
    variables = {"NUMBA_DISABLE_JIT": "1"} if page in OTHERS else {}
    out = passes(root, *tests.paths, *new, "-k", PAGES[page][1], **variables)
    assert int(out.split(" passed")[0].split()[-1]) >= tests.fewest


def test_what_a_page_adds_is_drawn_and_counted(extended):
    root, _, page = extended
    for words in re.findall("^numformer ((?:draw|count) .*)$", (REPOSITORY / page).read_text(),
                            re.MULTILINE):
        assert run(root, "numformer", *words.split())


@pytest.mark.slow
def test_the_rules_of_the_project_hold_with_it(extended):
    root, *_ = extended
    passes(root, "tests/house", "--ignore=tests/house/test_adding.py")


@pytest.mark.slow
def test_all_of_them_can_be_added_together(tmp_path):
    root = copied(tmp_path / "copy")
    for page in PAGES:
        follow(REPOSITORY / page, root)
    passes(root, "tests/house", "tests/specifications", "tests/commands/test_cli.py",
           "--ignore=tests/house/test_adding.py")
