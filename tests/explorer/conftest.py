"""Browsers for the explorer's pages."""

from shutil import which

import pytest

from firefox import Firefox


def pytest_collection_modifyitems(items):
    """Tests of pages in a browser are slow."""
    for item in items:
        if {"browser", "firefox"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium with a log of its requests."""
    webdriver = pytest.importorskip("selenium.webdriver")
    binary, driver = which("chromium") or which("chromium-browser"), which("chromedriver")
    if not (binary and driver):
        pytest.skip("there is no Chromium with its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--window-size=1150,900", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync", "--disable-quic"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    opened = webdriver.Chrome(options=options,
                              service=webdriver.ChromeService(executable_path=driver))
    yield opened
    opened.quit()


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
