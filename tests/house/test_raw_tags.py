"""What a page says in angle brackets is seen when it is rendered: a renderer takes `<X>` in the
text for a tag and shows nothing of it."""

import json
import re
from pathlib import Path

import pytest

from numformer.teaching import all_exercises
from numformer.teaching.assignment import student_readme, teacher_guide

ROOT = Path(__file__).parents[2]
TAGS = {"details", "summary", "br", "img", "sub", "sup"}              # that pages mean as tags
LEFT_OUT = {"build", "dist", "node_modules"}                          # written by tools
PAGES = sorted(path for path in ROOT.rglob("*.md")
               if not any(part.startswith(".") or part in LEFT_OUT
                          for part in path.relative_to(ROOT).parts))
LESSONS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))


def swallowed(text):
    """The tags in a text in Markdown, outside of code, that are not meant as tags."""
    text = re.sub(r"(?ms)^ *(```+|~~~+).*?^ *\1[ ]*$", "", text)      # fenced code
    text = re.sub(r"(?s)<!--.*?-->", "", text)
    text = re.sub(r"(?s)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)         # code in a line
    return [tag for tag, name in re.findall(r"(</?([A-Za-z][A-Za-z0-9-]*)[^<>]*>)", text)
            if name.lower() not in TAGS and not re.match(r"<(https?|mailto):", tag)]


def text_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_no_text_that_a_renderer_takes_for_a_tag(path):
    assert swallowed(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_no_text_that_a_renderer_takes_for_a_tag(path):
    assert [tag for text in text_cells(path) for tag in swallowed(text)] == []


@pytest.mark.parametrize("write", [student_readme, teacher_guide])
def test_a_page_of_an_assignment_has_no_such_text(write):
    assert swallowed(write(all_exercises(), 0)) == []


@pytest.mark.parametrize("text, found", [
    ("Input: the <X> sat <Y> mat.", ["<X>", "<Y>"]), ("`<X>` and ``a `<X>` b``", []),
    ("```\n<X>\n```\n<Z>", ["<Z>"]), ("a < b and c > d, $x <y$", []),
    ("</s>", ["</s>"]),
    ("<details><summary>Answer</summary> <https://numpy.org>", []), ("<!-- <X> -->", [])])
def test_a_tag_is_found_outside_of_code_alone(text, found):
    assert swallowed(text) == found
