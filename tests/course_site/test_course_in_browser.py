"""The course in Chromium, from the server of Python itself: reading, running, stopping, keeping

The tests are one visit after another, in this order: a first visit, a second one, and one without a
server.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("nbconvert")

from web import folder, packages                                      # noqa: E402

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LACKING = packages.pyodide_files.lacking()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(LACKING), reason=LACKING)]
LESSON = "02_scaled_dot_product_attention.html"
READABLE = 1_000_000                                  # bytes
STOPPED = 5                                           # seconds
PATIENCE = 400                                        # seconds, on a machine that does other work


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("course") / "site"
    folder.build(out, sorted(NOTEBOOKS.glob("[0-9]*.ipynb")),
                 [(NOTEBOOKS / "SERVER.md", "For your server")], packages.Python())
    return out


class Visit:
    """A browser on the pages of a server, and what a student does there."""

    def __init__(self, browser, site):
        self.browser, self.site = browser, site
        words = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
        self.server = subprocess.Popen([*words, "--directory", str(site)], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        port = self.server.stdout.readline().split("port ")[1].split()[0]
        self.address = f"http://127.0.0.1:{port}/"
        browser.set_script_timeout(PATIENCE)

    def open(self, name):
        self.browser.get_log("performance")
        self.browser.get(self.address + name)
        self.wait("return document.body.classList.contains('runs')")

    def do(self, script, *words):
        return self.browser.execute_script(script, *words)

    def wait(self, script, *words):
        """Until a script is true; how many seconds that took."""
        started = time.monotonic()
        while not self.do(script, *words):
            assert time.monotonic() - started < PATIENCE, f"{script}: {self.status()}"
            time.sleep(0.05)
        return time.monotonic() - started

    def status(self):
        return self.do("return document.getElementById('status').textContent")

    def cell(self, words):
        """The number of the cell with this code."""
        return self.do("return [...document.querySelectorAll('.cell')].find(cell => cell."
                       "querySelector('textarea').value.includes(arguments[0])).dataset.number",
                       words)

    def code(self, number):
        return self.do("return document.querySelector(`[data-number='${arguments[0]}'] textarea`)"
                       ".value", number)

    def write(self, number, code):
        self.do("const field = document.querySelector(`[data-number='${arguments[0]}'] textarea`);"
                "field.value = arguments[1]; field.dispatchEvent(new Event('input'))", number, code)

    def press(self, number, words):
        self.do("[...document.querySelectorAll(`[data-number='${arguments[0]}'] button`)]"
                ".find(button => button.textContent === arguments[1]).click()", number, words)

    def run(self, number, button="Run"):
        """Press a button of a cell and wait until it has run; its output."""
        self.press(number, button)
        self.wait("return !document.body.classList.contains('busy')")
        return self.output(number)

    def output(self, number):
        return self.do("return document.querySelector(`[data-number='${arguments[0]}'] .output`)"
                       ".textContent", number)

    def stop(self, number):
        """Run a cell, stop it when it runs; the seconds until it has stopped."""
        self.press(number, "Run")
        self.wait("return document.querySelector(`[data-number='${arguments[0]}'] .output`)"
                  ".textContent.includes('begun')", number)
        self.do("[...document.querySelectorAll('header button')]"
                ".find(button => button.textContent === 'Stop').click()")
        return self.wait("return !document.body.classList.contains('busy')")

    def requests(self):
        """({address: bytes} of what was loaded) since the page was opened."""
        addresses, sizes = {}, {}
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            about = message["params"]
            if message["method"] == "Network.requestWillBeSent":
                addresses[about["requestId"]] = about["request"]["url"]
            elif message["method"] == "Network.loadingFinished":
                sizes[about["requestId"]] = about["encodedDataLength"]
        return {url: sizes.get(number, 0) for number, url in addresses.items()
                if not url.startswith("data:")}

    def kill(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()


@pytest.fixture(scope="module")
def visit(browser, site):
    made = Visit(browser, site)
    yield made
    if made.server.poll() is None:
        made.kill()


def test_a_lesson_is_read_within_a_megabyte_and_loads_nothing_from_outside(visit):
    visit.open(LESSON)
    visit.do("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
    visit.wait("return [...document.images].every(image => image.naturalWidth)")
    loaded = visit.requests()
    assert all(url.startswith(visit.address) for url in loaded), loaded
    assert not any("pyodide" in url for url in loaded)
    assert 100_000 < sum(loaded.values()) < READABLE
    wide = visit.do("return document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0 and visit.do("return document.querySelectorAll('math mfrac').length") > 5


def test_cells_run_up_to_one_that_is_checked(visit):
    number = visit.cell('check("attention", attention')
    said = visit.run(number, "Run to here")
    assert said.startswith("✓ right") and visit.status() == "Ready"
    drawn = visit.cell("query_detail(q, k, words")
    assert visit.do("const image = document.querySelector(`[data-number='${arguments[0]}'] img`);"
                    "return image.src.startsWith('data:') && image.naturalWidth > 300", drawn)
    assert not [entry["message"] for entry in visit.browser.get_log("browser")
                if entry["level"] == "SEVERE"]


def test_an_error_gives_its_cause_and_an_exercise_its_hint(visit):
    number = visit.cell('check("attention", attention')
    visit.write(number, visit.code(number).replace(" / np.sqrt(q.shape[-1])", ""))
    said = visit.run(number)
    assert said.startswith("✗ wrong") and "sqrt" in said.split("Likely cause")[1]
    number = visit.cell("def log_softmax_backward")
    before = visit.output(number)
    after = visit.run(number, "Hint")
    assert after.startswith(before) and "hint 1 of 3: x_k affects y_j" in after[len(before):]


def test_stop_without_the_headers_ends_python_and_says_so(visit):
    number = visit.cell("words = [")
    assert not visit.do("return crossOriginIsolated")
    visit.write(number, "print('begun')\nwhile True:\n    pass")
    assert visit.stop(number) < STOPPED
    assert "Python was ended to stop the cell" in visit.output(number)
    assert visit.status().startswith("Python was ended")
    visit.write(number, "'q' in globals()")
    assert visit.run(number) == "False\n"


def test_a_second_visit_has_the_edits_and_stop_keeps_variables(visit):
    number = visit.cell("return p @ v")
    edited = visit.code(number)
    assert "np.sqrt" not in edited
    visit.do("localStorage.setItem('numformer edit 02_scaled_dot_product_attention 0123', "
             "JSON.stringify({code: 'an old <b>edit</b>', number: 3}))")
    visit.open(LESSON)
    assert visit.code(number) == edited and visit.do("return crossOriginIsolated")
    older = visit.do("return document.querySelector('.older').textContent")
    assert "an old <b>edit</b>" in older and "cell 3" in older
    visit.press(number, "Reset")
    assert "np.sqrt" in visit.code(number)
    visit.write("2", "kept = 3\nprint('begun')\nwhile True:\n    pass")
    assert visit.stop("2") < STOPPED and "Stopped." in visit.output("2")
    visit.write("2", "kept")
    assert visit.run("2") == "3\n"
    visit.press("2", "Reset")


def test_a_notebook_with_the_edits_is_downloaded(visit):
    visit.write("2", "mine = 1")
    visit.do("URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; };"
             "[...document.querySelectorAll('header button')]"
             ".find(button => button.textContent === 'Download').click()")
    visit.wait("return window.saved !== undefined")
    made = json.loads(visit.browser.execute_async_script(
        "window.saved.text().then(arguments[arguments.length - 1])"))
    wanted = json.loads((NOTEBOOKS / f"{Path(LESSON).stem}.ipynb").read_text("utf-8"))
    different = [cell["source"] for cell, own in zip(made["cells"], wanted["cells"], strict=True)
                 if "".join(cell["source"]) != "".join(own["source"])]
    assert different == ["mine = 1"]
    visit.press("2", "Reset")


KEPT = """
const [rest, done] = arguments;
(async () => {
  for (const name of await caches.keys()) {
    const cache = await caches.open(name);
    const urls = (await cache.keys()).map((request) => request.url);
    if (rest.every((file) => urls.includes(new URL(file, location.href).href))) return done(true);
  }
  done(false);
})();
"""


def test_without_the_server_lessons_are_read_and_run(visit):
    worker = (visit.site / "offline.js").read_text("utf-8")
    listed = json.loads(worker.split("const SITE = ")[1].split(";\n")[0])
    assert any(name.endswith(".whl") for name in listed["rest"])
    started = time.monotonic()
    while not visit.browser.execute_async_script(KEPT, [*listed["pages"], *listed["rest"]]):
        assert time.monotonic() - started < PATIENCE
        time.sleep(0.5)
    visit.kill()
    visit.open(LESSON)
    number = visit.cell('check("attention", attention')
    assert visit.run(number, "Run to here").startswith("✓ right")
    visit.browser.get(visit.address)
    assert visit.do("return document.querySelectorAll('.lessons a').length") == len(
        list(NOTEBOOKS.glob("[0-9]*.ipynb")))
    another = sorted(path.name for path in visit.site.glob("[0-9]*.html"))[-1]
    visit.open(another)
    visit.do("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
    visit.wait("return [...document.images].every(image => image.naturalWidth)")
    assert visit.do("return document.images.length") > 0
