"""Export each lesson as a deck of slides: python notebooks/slides.py [NAME ...] [--out FOLDER]

Headings, key statements (block quotes), objectives, exercises, display formulas, tables, code and
its output go onto slides, of code that draws the picture alone; the other prose goes into the
speaker's notes (press S), with the minutes of each section. A question to think about is a slide of
its own, to which its answer comes as a second step. The decks are reveal.js pages made by
nbconvert. They load reveal.js and MathJax from the network. For a room without one, fetch them once
and name the folder:

    npm install reveal.js@4.0.2 mathjax@2.7.7 requirejs@2 jquery@3
    python notebooks/slides.py --libraries node_modules
"""

import argparse
import html
import re
import sys
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter

HERE = Path(__file__).parent
LONG = 8                                  # lines of code: more get a slide apart from their picture
STYLE = """
<style>
.reveal { font-size: 30px; }
.reveal section { text-align: left; }
.reveal h1, .reveal h2, .reveal h3 { text-transform: none; }
.reveal h1 { font-size: 1.8em; } .reveal h2 { font-size: 1.4em; }
.reveal blockquote { width: 95%; margin-left: 0; padding: 0.3em 0.8em; font-style: normal;
  box-shadow: none; border-left: 6px solid #c8500a; background: #f6f8fa; }
.reveal section img { max-height: 560px; margin: 0 auto; display: block; }
.reveal table { font-size: 0.85em; }
.reveal pre, .reveal code { font-size: 18px; line-height: 1.3; }
.reveal .jp-InputPrompt, .reveal .jp-OutputPrompt { display: none; }
</style>
"""
# The blocks of a lesson that a slide shows
SHOWN = re.compile(
    r">|#|\$\$|\||!\[|<img|\*\*(Question|You will learn|Exercise|Think)|[-*] |\d+\. ")
ALONE = "**Exercise", "**Think", "### "                # begin a slide
ANSWER = re.compile(r"<details><summary>Answer</summary>\s*(.*?)\s*</details>", re.DOTALL)


def blocks(text):
    """Paragraphs of Markdown; a formula, and an answer to unfold, is one block."""
    parts = re.split(r"(\$\$.*?\$\$|<details>.*?</details>)", text, flags=re.DOTALL)
    for part in parts:
        whole = part.startswith(("$$", "<details>"))
        for block in [part] if whole else re.split(r"\n\s*\n", part):
            if block.strip():
                yield block.strip("\n")


def is_shown(block, before):
    """Whether a block of text goes onto a slide; a list only where what introduces it does."""
    if re.match(r"[-*] |\d+\. ", block):
        return before.startswith(("**You will learn", "## Summary"))
    return bool(SHOWN.match(block)) and not re.match(r"[-*] |\d+\. ", block)


def questions(text):
    """(question, answer or None) of what a lesson asks to think about, in its order."""
    found = list(blocks(text))
    for block, after in zip(found, [*found[1:], ""]):
        if block.startswith("**Think"):
            answer = ANSWER.fullmatch(after.strip())
            yield block, answer and answer[1]


def markdown(text, kind):
    cell = nbformat.v4.new_markdown_cell(text)
    cell.metadata["slideshow"] = {"slide_type": kind}
    return cell


def of_text(cell):
    """The cells of slides and notes that one cell of text becomes; notes are those of their slide.

    An answer is a fragment, the last of its slide: the notes come before it.
    """
    before, notes, minutes = "", [], cell.metadata.get("minutes")
    if minutes:
        notes.append(f"**{minutes} minutes.**")
    answers = dict(questions(cell.source))
    for block in blocks(cell.source):
        if re.match(r"#{1,2} ", block):
            heading, _, rest = block.partition("\n")
            yield markdown(heading, "slide")
            block = rest.strip()
            if not block:
                before = heading
                continue
        if is_shown(block, before):
            alone = block.startswith(ALONE)
            if alone and notes:
                yield markdown("\n\n".join(notes), "notes")
                notes = []
            yield markdown(block, "subslide" if alone else "-")
        elif answers.get(before):
            yield markdown(f"**Answer.** {answers[before]}", "fragment")
        else:
            notes.append(block)
        before = block
    if notes:
        yield markdown("\n\n".join(notes), "notes")


def of_code(cell, heading):
    """Code and its output: on one slide, or on two if the code is long and draws a picture.

    Of code that draws ("hide-input") there is the picture alone.
    """
    tags = cell.metadata.get("tags", ())
    if "setup" in tags:
        return
    pictures = [output for output in cell.outputs if "image/png" in output.get("data", {})]
    for output in pictures:
        png = output.data["image/png"].replace("\n", "")
        output.data = {"text/html": f'<img alt="{html.escape(heading)}" '
                                    f'src="data:image/png;base64,{png}">'}
    cell.metadata["slideshow"] = {"slide_type": "subslide"}
    if "hide-input" in tags:
        cell.source = ""
    if pictures and cell.source.count("\n") >= LONG:
        code = nbformat.v4.new_code_cell(cell.source)
        code.metadata["slideshow"] = {"slide_type": "subslide"}
        yield code
        cell.source = ""
    yield cell


def deck(notebook):
    """The notebook as nbconvert turns it into slides."""
    cells, heading = [], ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = (re.findall(r"^#+ (.*)", cell.source, re.MULTILINE) or [heading])[-1]
            cells.extend(of_text(cell))
        else:
            cells.extend(of_code(cell, heading))
    shown = [cell for cell in cells if kind_of(cell) != "notes"]
    for cell, after in zip(shown, shown[1:]):
        if kind_of(cell) == "fragment" and kind_of(after) == "-":    # or it comes with the answer
            after.metadata["slideshow"] = {"slide_type": "subslide"}
    return nbformat.v4.new_notebook(cells=cells, metadata=notebook.metadata)


def kind_of(cell):
    return cell.metadata["slideshow"]["slide_type"]


def page(path, libraries=None):
    """The deck of a notebook as HTML, str; `libraries` is a folder with the scripts it loads."""
    exporter = SlidesExporter()
    exporter.reveal_theme, exporter.reveal_transition = "white", "none"
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    if libraries:
        exporter.reveal_url_prefix = f"{libraries}/reveal.js"
        exporter.mathjax_url = f"{libraries}/mathjax/MathJax.js?config=TeX-AMS_CHTML-full,Safe"
        exporter.require_js_url = f"{libraries}/requirejs/require.js"
        exporter.jquery_url = f"{libraries}/jquery/dist/jquery.min.js"
    made, _ = exporter.from_notebook_node(deck(nbformat.read(path, as_version=4)),
                                          {"metadata": {"name": title(path)}})
    return made.replace("</head>", STYLE + "</head>", 1)


def title(path):
    return path.stem[3:].replace("_", " ")


def main():
    parser = argparse.ArgumentParser(description="Export each lesson as a deck of slides.")
    parser.add_argument("names", metavar="NAME", nargs="*",
                        help="such as 02 or 02_scaled_dot_product_attention (default: all)")
    parser.add_argument("--out", type=Path, default=Path("slides"), help="(default: slides)")
    parser.add_argument("--libraries", type=Path, metavar="FOLDER", help="folder with reveal.js, "
                        "mathjax, requirejs and jquery (default: they come from the network)")
    arguments = parser.parse_args()
    libraries = arguments.libraries and arguments.libraries.resolve().as_uri()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(HERE.glob("*.ipynb")):
        if not arguments.names or any(path.stem.startswith(name) for name in arguments.names):
            out = arguments.out / f"{path.stem}.slides.html"
            out.write_text(page(path, libraries), encoding="utf-8")
            print(out, file=sys.stderr)


if __name__ == "__main__":
    main()
