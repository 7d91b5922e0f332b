"""Browsers for the explorer's pages."""

from shutil import which

import pytest

from browsers import chromium, slow_in_browsers
from firefox import Firefox


def pytest_collection_modifyitems(items):
    """Tests of pages in a browser are slow."""
    slow_in_browsers(items, ("browser", "firefox"))


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium with a log of its requests."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def firefox():
    """Headless Firefox, with its requests."""
    pytest.importorskip("websocket", reason="websocket-client, which comes with selenium")
    binary = which("firefox-esr") or which("firefox")
    if not binary:
        pytest.skip("there is no Firefox")
    opened = Firefox(binary)
    yield opened
    opened.close()
