"""Slides exported from the lessons: what is shown, what is said, and no warnings."""

import re
import sys
from pathlib import Path

import pytest

from marks import every

pytest.importorskip("nbconvert")
ROOT = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(ROOT))

import nbformat                                                       # noqa: E402
import slides                                                         # noqa: E402

LESSONS = sorted(ROOT.glob("*.ipynb"))


def notebook(*cells):
    return nbformat.v4.new_notebook(cells=list(cells))


def kinds(made):
    return [(cell.metadata["slideshow"]["slide_type"], cell.source) for cell in made.cells]


def test_headings_statements_and_formulas_are_shown_and_prose_is_spoken():
    text = nbformat.v4.new_markdown_cell(
        "## Softmax\n\nProse.\n\n> A statement.\n\n$$p\n\n= q$$\n\n- a list\n\n"
        "| a | b |\n|---|---|")
    text.metadata["minutes"] = 7
    assert kinds(slides.deck(notebook(text))) == [
        ("slide", "## Softmax"), ("-", "> A statement."), ("-", "$$p\n\n= q$$"),
        ("-", "| a | b |\n|---|---|"), ("notes", "**7 minutes.**\n\nProse.\n\n- a list")]


def test_objectives_and_exercises_are_shown_and_answers_are_not():
    text = nbformat.v4.new_markdown_cell(
        "# 5. Norms\n\n**You will learn** to\n\n- derive\n\n**Exercise 5.1** (9 minutes). Do.\n\n"
        "<details>\n\nAnswer\n\n</details>")
    assert kinds(slides.deck(notebook(text))) == [
        ("slide", "# 5. Norms"), ("-", "**You will learn** to"), ("-", "- derive"),
        ("subslide", "**Exercise 5.1** (9 minutes). Do."),
        ("notes", "<details>\n\nAnswer\n\n</details>")]


def test_the_answer_to_a_question_is_a_second_step_of_its_slide():
    """The notes are those of the slide before; what follows the answer begins another slide."""
    text = nbformat.v4.new_markdown_cell(
        "Prose.\n\n**Think.** Why?\n\n<details><summary>Answer</summary>\n\nSo.\n\n</details>"
        "\n\n> A statement.")
    after = nbformat.v4.new_markdown_cell("$$x = 1$$")
    made = slides.deck(notebook(text, after))
    assert kinds(made) == [
        ("notes", "Prose."), ("subslide", "**Think.** Why?"), ("fragment", "**Answer.** So."),
        ("subslide", "> A statement."), ("-", "$$x = 1$$")]


def test_questions_are_found_with_their_answers():
    answer = "<details><summary>Answer</summary>\n\nSo.\n\n</details>"
    assert list(slides.questions(f"**Think.** Why?\n\n{answer}\n\nText.\n\n**Think.** And?")) == [
        ("**Think.** Why?", "So."), ("**Think.** And?", None)]
    assert list(slides.questions(f"Text.\n\n{answer}")) == []


def test_long_code_and_its_picture_are_two_slides_and_setup_is_none():
    picture = nbformat.v4.new_output("display_data", {"image/png": "AAAA"})
    cells = [nbformat.v4.new_code_cell("import numpy", metadata={"tags": ["setup"]}),
             nbformat.v4.new_code_cell("x = 1\n" * 9, outputs=[picture]),
             nbformat.v4.new_code_cell("x = 1", outputs=[picture])]
    made = slides.deck(notebook(*cells)).cells
    assert [(bool(cell.source), bool(cell.outputs)) for cell in made] == [
        (True, False), (False, True), (True, True)]


def test_of_code_that_draws_there_is_the_picture_alone():
    picture = nbformat.v4.new_output("display_data", {"image/png": "AAAA"})
    cell = nbformat.v4.new_code_cell("ax.plot(x)\n" * 12, metadata={"tags": ["hide-input"]},
                                     outputs=[picture])
    made, = slides.deck(notebook(cell)).cells
    assert made.source == "" and "<img" in made.outputs[0].data["text/html"]


@pytest.mark.parametrize("path", every(12, LESSONS), ids=lambda path: path.stem)
def test_a_lesson_becomes_a_deck(path, caplog):
    made = slides.deck(nbformat.read(path, as_version=4))
    shown = "\n".join(text for kind, text in kinds(made) if kind != "notes")
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            for statement in re.findall(r"^> .*", cell.source, re.MULTILINE):
                assert statement in shown
    html = slides.page(path)
    assert html.count("<section") >= 10 and "aside" in html and "minutes" in html
    asked = [kind for kind, text in kinds(made) if text.startswith(("**Think", "**Answer"))]
    assert asked[:2] == ["subslide", "fragment"] and asked == asked[:2] * (len(asked) // 2)
    assert html.count('class="fragment"') == len(asked) // 2
    assert not caplog.records
