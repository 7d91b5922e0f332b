"""The pages of the course as files: what can be read, what they load, what is kept of a cell."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("nbconvert")

from web import folder, lesson                                        # noqa: E402

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))
MOST_TEXT, MOST = 120_000, 1_000_000                  # bytes of a page, and with its pictures
VOID = {"meta", "link", "img", "br", "hr", "input", "mspace"}


class Page(HTMLParser):
    """What is on a page: its elements, what it loads, its text and that of its code cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.loaded, self.links, self.text = [], [], [], [], ""
        self.code, self.closed_well = [], True
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.found.append((tag, attributes))
        self.loaded += [value for name, value in attributes.items()
                        if name in ("src", "srcset", "data") or (name, tag) == ("href", "link")]
        self.links += [attributes["href"]] if tag == "a" else []
        if tag == "code" and self.open[-1:] == ["pre"]:
            self.code.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            self.closed_well = self.closed_well and self.open and self.open.pop() == tag

    def handle_data(self, data):
        if "pre" in self.open and "code" in self.open:
            self.code[-1] += data
        elif not {"math", "code", "pre", "title"} & set(self.open):
            self.text += data


def cells(path, kind):
    return [lesson.source_of(cell) for cell in json.loads(path.read_text("utf-8"))["cells"]
            if cell["cell_type"] == kind]


@pytest.fixture(scope="module")
def pages(read_only):
    return {path.name: Page(path.read_text("utf-8")) for path in read_only.glob("*.html")}


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_can_be_read_without_scripts(path, pages, read_only):
    page = pages[f"{path.stem}.html"]
    assert page.closed_well and not page.open
    for source in cells(path, "code"):
        assert source in page.code or not source.strip()
    assert "$" not in page.text and "\\frac" not in page.text
    for heading in re.findall(r"(?m)^#+ (\w[\w ,]*)$", "\n".join(cells(path, "markdown"))):
        assert heading in page.text
    notebook = json.loads(path.read_text("utf-8"))
    drawn = [output["data"]["image/png"] for cell in notebook["cells"]
             for output in cell.get("outputs", ()) if "image/png" in output.get("data", {})]
    shown = [attributes for tag, attributes in page.found if tag == "img"]
    assert [base64.b64decode("".join(each)) for each in drawn] == [
        (read_only / each["src"]).read_bytes() for each in shown]
    assert all(each["alt"] and int(each["width"]) > 99 < int(each["height"]) for each in shown)
    text = (read_only / f"{path.stem}.html").stat().st_size
    assert text < MOST_TEXT
    assert text + sum((read_only / each["src"]).stat().st_size for each in shown) < MOST


def test_a_page_loads_what_is_in_the_folder_and_nothing_else(pages, read_only):
    for name, page in pages.items():
        for address in page.loaded:
            assert address == "data:," or (read_only / address).is_file(), (name, address)
        names = [attributes["id"] for _, attributes in page.found if "id" in attributes]
        assert len(names) == len(set(names)), name
        for link in page.links:
            if link.startswith("#"):
                assert link[1:] in names, (name, link)
            elif not link.startswith("https:"):
                assert (read_only / link.split("#")[0]).is_file(), (name, link)
        policy, = (attributes["content"] for _, attributes in page.found
                   if attributes.get("http-equiv") == "Content-Security-Policy")
        assert policy.startswith("default-src 'self'") and "http" not in policy


def test_every_lesson_is_reached_from_the_first_page_and_from_the_one_before(pages, read_only):
    assert all(page.closed_well and not page.open for page in pages.values())
    contents = (read_only / "index.html").read_text("utf-8")
    assert '">2. Scaled dot-product attention, and why the square root of D</a></li>' in contents
    names = [f"{path.stem}.html" for path in LESSONS]
    assert [link for link in pages["index.html"].links if link[:1].isdigit()] == names
    for before, after in zip(names, names[1:]):
        assert after in pages[before].links and before in pages[after].links
    assert "server.html" in pages["index.html"].links


def test_pictures_have_their_hash_as_a_name(read_only):
    for path in (read_only / "pictures").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest().startswith(path.stem)


@pytest.mark.parametrize("name", ["page.js", "contents.js", "editor.js", "python.js", "worker.js",
                                  "offline.js", "page.css", "page.html", "cells.py", "about.md"])
def test_nothing_of_ours_names_another_host(name):
    assert not re.search(r"https?://|[\"'(]//\w", (NOTEBOOKS / "web" / name).read_text("utf-8"))


def notebook(*made):
    return {"cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# 1. A & B"]}, *made],
            "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def code(source, *outputs, tags=()):
    return {"cell_type": "code", "source": source, "outputs": list(outputs),
            "metadata": {"tags": list(tags)}, "execution_count": 1}


def test_code_and_output_are_text():
    attack = "print('<script>alert(1)</script> & \"</pre>\"')"
    made = lesson.body(notebook(code(
        attack, {"output_type": "stream", "name": "stdout", "text": "<script>x</script>"},
        {"output_type": "execute_result", "data": {"text/plain": "<b>"}})), None)
    assert "<script" not in made and "<b>" not in made
    assert Page(made).code == [attack] and Page(made).closed_well


def test_a_cell_tells_its_place_its_key_and_what_it_checks():
    made = notebook(code("x = 1"), code('def f(x):\n    ...\n\n\ncheck("soft<max", f, seed=0)'),
                    code("x = 1"), code("%matplotlib inline\ncheck(name, f)"), code("a b"))
    found = [attributes for tag, attributes in Page(lesson.body(made, None)).found
             if attributes.get("class") == "cell"]
    assert [each["id"] for each in found] == [f"cell-{n}" for n in range(1, 6)]
    assert [each.get("data-check") for each in found] == [None, "soft<max", None, None, None]
    keys = [each["data-key"] for each in found]
    assert len(set(keys)) == 5                        # equal cells, too
    made["cells"][2]["source"] += "  # corrected"
    changed = list(lesson.keys_of(made).values())
    assert [a == b for a, b in zip(keys, changed)] == [True, False, True, True, True]
    made["cells"].insert(1, code("a new cell"))
    assert set(changed) < set(lesson.keys_of(made).values())


def test_code_that_draws_is_folded():
    made = lesson.body(notebook(code("plot()", tags=["hide-input"])), None)
    assert re.search(r"<details[^>]*><summary>[^<]+</summary><pre", made)


def test_what_is_downloaded_is_the_lesson_without_outputs(read_only):
    for path in LESSONS:
        made = json.loads((read_only / "notebooks" / path.name).read_text("utf-8"))
        wanted = json.loads(path.read_text("utf-8"))
        assert [cell["source"] for cell in made["cells"]] == [
            cell["source"] for cell in wanted["cells"]]
        assert not any(cell.get("outputs") for cell in made["cells"])


def write(path, *made):
    path.write_text(json.dumps(notebook(*made)), "utf-8")
    return path


def test_a_site_replaces_an_older_one_and_nothing_else(tmp_path):
    out, one = tmp_path / "site", write(tmp_path / "01_a.ipynb", code("x = 1"))
    assert "01_a.html" in folder.build(out, [one])
    two = write(tmp_path / "02_b.ipynb", code("y = 1"))
    assert "01_a.html" not in folder.build(out, [two])
    wrong = write(tmp_path / "03_c.ipynb", code("1 / 0", {
        "output_type": "error", "ename": "ZeroDivisionError", "evalue": "", "traceback": []}))
    with pytest.raises(ValueError, match="ended with ZeroDivisionError"):
        folder.build(out, [wrong])
    assert (out / "02_b.html").is_file() and sorted(path.name for path in tmp_path.iterdir()) == [
        "01_a.ipynb", "02_b.ipynb", "03_c.ipynb", "site"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("text")
    with pytest.raises(ValueError, match="something else than a site"):
        folder.build(tmp_path / "mine", [one])
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "text"


def test_a_lesson_without_a_heading_is_refused(tmp_path):
    made = notebook()
    made["cells"][0]["source"] = "no heading"
    path = tmp_path / "01_a.ipynb"
    path.write_text(json.dumps(made), "utf-8")
    with pytest.raises(ValueError, match="begins with a heading"):
        folder.build(tmp_path / "site", [path])
