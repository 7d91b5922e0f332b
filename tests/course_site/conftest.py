"""The site of the course, built once to be read, and a browser."""

import sys
from pathlib import Path

import pytest

from browsers import chromium, slow_in_browsers

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
sys.path.append(str(NOTEBOOKS))                       # last: it has a page named as Python's `site`


def pytest_collection_modifyitems(items):
    """Tests of pages in a browser are slow."""
    slow_in_browsers(items, ("browser",))


@pytest.fixture(scope="session")
def read_only(tmp_path_factory):
    """The folder of the site without Python."""
    pytest.importorskip("nbconvert")
    from web import folder

    out = tmp_path_factory.mktemp("course") / "site"
    folder.build(out, sorted(NOTEBOOKS.glob("[0-9]*.ipynb")),
                 [(NOTEBOOKS / "SERVER.md", "For your server")])
    return out


@pytest.fixture(scope="session")
def browser():
    with chromium() as opened:
        yield opened
