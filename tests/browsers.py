"""Browsers without a window, for tests of pages."""

from contextlib import contextmanager
from shutil import which

import pytest

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--window-size=1150,900", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-quic")


def slow_in_browsers(items, fixtures):
    """Tests of pages in a browser, known by their fixtures, are slow."""
    for item in items:
        if {*fixtures} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.slow)


@contextmanager
def chromium():
    """Chromium with a log of its requests; the test is skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    binary, driver = which("chromium") or which("chromium-browser"), which("chromedriver")
    if not (binary and driver):
        pytest.skip("there is no Chromium with its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    opened = webdriver.Chrome(options=options,
                              service=webdriver.ChromeService(executable_path=driver))
    yield opened
    opened.quit()
