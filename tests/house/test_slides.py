"""Slides exported from the lessons: what is shown, what is said, and no warnings."""

import io
import re
import sys
from pathlib import Path

import pytest

from marks import every

pytest.importorskip("nbconvert")
ROOT = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(ROOT))

import fitting                                                        # noqa: E402
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
        ("slide", "## Softmax"), ("-", "> A statement."), ("-", "$$\\displaystyle p\n\n= q$$"),
        ("-", "| a | b |\n|---|---|"), ("notes", "**7 minutes.**\n\nProse.\n\n- a list")]


def test_objectives_and_exercises_are_shown_and_answers_are_not():
    text = nbformat.v4.new_markdown_cell(
        "# 5. Norms\n\n**You will learn** to\n\n- derive\n\n**Exercise 5.1** (9 minutes). Do.\n\n"
        "<details>\n\nAnswer\n\n</details>")
    assert kinds(slides.deck(notebook(text))) == [
        ("slide", "# 5. Norms"), ("-", "**You will learn** to"), ("-", "- derive"),
        ("subslide", "#### 5. Norms"), ("-", "**Exercise 5.1** (9 minutes). Do."),
        ("notes", "<details>\n\nAnswer\n\n</details>")]


def test_the_answer_to_a_question_is_a_second_step_of_its_slide():
    """The notes are those of the slide before; what follows the answer begins another slide."""
    text = nbformat.v4.new_markdown_cell(
        "> First.\n\nProse.\n\n**Think.** Why?\n\n<details><summary>Answer</summary>\n\nSo.\n\n"
        "</details>\n\n> A statement.")
    after = nbformat.v4.new_markdown_cell("$$x = 1$$")
    made = slides.deck(notebook(text, after))
    assert kinds(made) == [
        ("subslide", "> First."), ("notes", "Prose."),
        ("subslide", "**Think.** Why?"), ("fragment", "**Answer.** So."),
        ("subslide", "> A statement."), ("-", "$$\\displaystyle x = 1$$")]


def test_a_derivation_comes_line_by_line_and_goes_on_after_five():
    lines = " \\\\\n".join(["a &= b", *(f"&= {n}" for n in range(6))])
    text = nbformat.v4.new_markdown_cell(
        f"## Sum\n\n$$\\begin{{aligned}}\n{lines}\n\\end{{aligned}}$$")
    text.metadata["minutes"] = 5
    row = r"$$\displaystyle \phantom{a} {} = %d$$"
    assert kinds(slides.deck(notebook(text))) == [
        ("slide", "## Sum"), ("-", r"$$\displaystyle a {} = b$$"), ("notes", "**5 minutes.**"),
        *(("fragment", row % n) for n in range(4)),
        ("subslide", "#### Sum"), ("-", row % 4), ("fragment", row % 5)]


def test_a_summary_below_its_heading_is_shown_and_a_heading_is_never_alone():
    text = nbformat.v4.new_markdown_cell("## Summary\n- one;\n- two.")
    assert kinds(slides.deck(notebook(text))) == [("slide", "## Summary"), ("-", "- one;\n- two.")]
    text = nbformat.v4.new_markdown_cell("## Masks\n\nProse.\n\n## Heads\n\n> So.")
    assert kinds(slides.deck(notebook(text)))[:3] == [
        ("slide", "## Masks"), ("-", "Prose."), ("notes", "Prose.")]


def test_questions_are_found_with_their_answers():
    answer = "<details><summary>Answer</summary>\n\nSo.\n\n</details>"
    assert list(slides.questions(f"**Think.** Why?\n\n{answer}\n\nText.\n\n**Think.** And?")) == [
        ("**Think.** Why?", "So."), ("**Think.** And?", None)]
    assert list(slides.questions(f"Text.\n\n{answer}")) == []


DOT = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2tgAAAABJRU5ErkJggg"
       "==")
PICTURE = nbformat.v4.new_output("display_data", {"image/png": DOT})


def test_code_and_its_picture_are_two_slides_and_setup_is_none():
    cells = [nbformat.v4.new_code_cell("import numpy", metadata={"tags": ["setup"]}),
             nbformat.v4.new_code_cell("x = 1", outputs=[PICTURE])]
    made = slides.deck(notebook(*cells)).cells
    assert [cell.cell_type for cell in made] == ["code", "markdown"]
    assert made[0].source == "x = 1" and '<img alt=""' in made[1].source
    assert {cell.metadata["slideshow"]["slide_type"] for cell in made} == {"subslide"}


def test_of_code_that_draws_there_is_the_picture_alone():
    cell = nbformat.v4.new_code_cell("ax.plot(x)\n" * 12, metadata={"tags": ["hide-input"]},
                                     outputs=[PICTURE])
    made, = slides.deck(notebook(cell)).cells
    assert made.cell_type == "markdown" and "<img" in made.source


def test_output_is_below_its_code_if_both_fit():
    def slides_with(lines, printed):
        output = nbformat.v4.new_output("stream", text=printed)
        made = slides.slides_of(notebook(nbformat.v4.new_code_cell(lines, outputs=[output])))
        return [[piece.kind for piece in slide.pieces] for slide in made]

    assert slides_with("x = 1\n" * 5, "1\n" * 5) == [["code", "output"]]
    assert slides_with("x = 1\n" * 14, "1\n" * 14) == [["code"], ["output"]]
    assert slides_with("x = 1\n" * 30, "1") == [["code"], ["code"], ["code", "output"]]


def test_a_verdict_is_one_line():
    output = nbformat.v4.new_output("execute_result", {"text/html": (
        "<div><strong>\u2713 right</strong>\nright: f on 9 problems of 2 axes, with sizes up to "
        "257. Not tested: axis. seed=0</div>")})
    assert list(slides.verdicts_of(output)) == [
        "\u2713 right: f on 9 problems of 2 axes, with sizes up to 257"]
    assert list(slides.verdicts_of(nbformat.v4.new_output("stream", text="right"))) == []


def test_a_comment_moves_above_a_line_that_is_too_long():
    long = "x = " + 62 * "a"
    assert fitting.code(f"if y:\n    {long}  # (B, T)") == f"if y:\n    # (B, T)\n    {long}"
    assert fitting.code(f"y = 1{70 * ' '}# (B, T)") == f"y = 1{61 * ' '}# (B, T)"
    assert fitting.code(f"{long}'#'  # no") == f"# no\n{long}'#'"
    assert fitting.code("%magic  # short") == "%magic  # short"


def test_code_is_cut_between_statements():
    function = "def f(x):\n" + "    x = (x +\n         1)\n" * 5 + "    return x"
    parts = fitting.parts_of_code(f"{function}\n\n\n{function}")
    assert parts == [function, function]
    lines = "\n".join(f"a{n} = 1" for n in range(40))
    assert "\n".join(fitting.parts_of_code(lines)) == lines
    assert all(part.count("\n") < 15 for part in fitting.parts_of_code(lines))


def test_a_wide_formula_is_broken_at_its_spaces_outside_braces():
    left, right = "a + " * 12 + "a", "b + " * 12 + "b"
    assert list(fitting.rows(f"$$ {left} \\qquad {right} $$")) == [left, right]
    assert list(fitting.rows(r"$$a \qquad b$$")) == [r"a \qquad b"]
    whole = rf"\left( {left} \qquad {right} \right)"
    assert list(fitting.rows(f"$${whole}$$")) == [whole]


def test_a_tall_picture_is_folded_where_the_fewest_lines_cross():
    Image, np = pytest.importorskip("PIL.Image"), pytest.importorskip("numpy")

    def png(array):
        made = io.BytesIO()
        Image.fromarray(array).save(made, "PNG")
        return made.getvalue()

    tall = np.zeros((400, 200), np.uint8)                       # black, but for one row
    tall[190] = 255
    folded = np.asarray(Image.open(io.BytesIO(fitting.folded(png(tall)))).convert("L"))
    assert folded.shape == (210, 2 * 200 + fitting.GAP)
    assert (folded[:190, :200] == 0).all() and (folded[190:, :200] == 255).all()
    assert (folded[0, -200:] == 255).all() and (folded[1:, -200:] == 0).all()
    wide = png(tall.T)
    assert fitting.folded(wide) == wide


@pytest.mark.parametrize("path", every(23, LESSONS), ids=lambda path: path.stem)
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
    steps = [kind for kind, _ in kinds(made) if kind == "fragment"]
    assert asked and set(asked[1::2]) == {"fragment"} and "fragment" not in asked[::2]
    assert html.count('class="fragment"') == len(steps)
    assert not caplog.records
