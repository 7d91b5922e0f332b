"""Every slide of every lesson in a browser: nothing is cut off, overlaps, is empty or too small."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("nbconvert")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "notebooks"))

import nbformat                                                       # noqa: E402
import projector                                                      # noqa: E402
import slides                                                         # noqa: E402

pytestmark = pytest.mark.slow
LIBRARIES = ROOT / "build" / "libraries" / "node_modules"
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def browser():
    if not all((LIBRARIES / name).is_dir() for name in ("reveal.js", "mathjax", "requirejs")):
        pytest.skip(f"the libraries of the slides are not in {LIBRARIES.relative_to(ROOT)}: "
                    "see notebooks/slides.py")
    opened = projector.opened()
    if not opened:
        pytest.skip("there is no Chromium with its driver, or no selenium")
    yield opened
    opened.quit()


def opened(browser, notebook, folder, width=projector.WIDTH, height=projector.HEIGHT):
    page = folder / "lesson.slides.html"
    page.write_text(slides.page(notebook, LIBRARIES.resolve().as_uri()), encoding="utf-8")
    projector.load(browser, page, width, height)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_all_slides_of_a_lesson_fit(path, browser, tmp_path):
    opened(browser, path, tmp_path)
    count, found = projector.findings(browser)
    wrong = [f"16:9, slide {slide}: {said}" for slide, said in found]
    projector.resize(browser, 1024, 768)
    wrong += [f"4:3, slide {slide}: {said}" for slide, said in projector.findings(browser)[1]]
    assert count >= 15 and not wrong, "\n".join([path.stem, *wrong])
    assert not [entry["message"] for entry in browser.get_log("browser")
                if entry["level"] == "SEVERE" and "http" in entry["message"]], "no network"


def test_what_does_not_fit_is_found(browser, tmp_path):
    wrong = {"heading alone": "", "cut at the bottom": "| a |\n|---|\n" + "| b |\n" * 30,
             "cut at the right": f"> <b style='white-space: nowrap'>{'wide ' * 60}</b>",
             "small text": "> <b style='font-size: 20px'>small</b>",
             "overlap": "> first\n\n> <b style='position: relative; top: -60px'>second</b>",
             "empty box": "> text\n\n> <b></b>", "MathJax error": "$$\\frac{1}$$",
             "formula not typeset": "> 5 \\$", "": "> $a$ and `b`\n\n| a |\n|---|\n| b |"}
    text = "\n\n".join(f"## {said}.\n\n{block}" for said, block in wrong.items())
    notebook = tmp_path / "00_wrong.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_markdown_cell(text + "\n\n## Summary")]), notebook)
    opened(browser, notebook, tmp_path)
    count, found = projector.findings(browser)
    expected = [*wrong, "empty summary"]
    assert count == len(expected)
    for slide, says in enumerate(expected):
        said = [what for number, what in found if number == slide]
        assert (len({what.partition(" (")[0].partition(":")[0] for what in said}) == 1
                and said[0].startswith(says)) if says else not said, (says, said)
