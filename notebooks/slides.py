"""Export each lesson as a deck of slides: python notebooks/slides.py [NAME ...] [--out FOLDER]

Headings, key statements (block quotes), objectives, exercises, display formulas, tables, code and
its output go onto slides, of code that draws the picture alone; the other prose goes into the
speaker's notes (press S), with the minutes of each section. A slide has what fits on it: statements
with at most five lines of formulas, or about twelve lines of code, or a picture, or a question to
think about; what follows comes on the next, below the same heading. Formulas after the first, and
the answer to a question, come as steps. The decks are reveal.js pages made by
nbconvert. They load reveal.js and MathJax from the network. For a room without one, fetch them once
and name the folder:

    npm install reveal.js@4.0.2 mathjax@2.7.7 requirejs@2 jquery@3
    python notebooks/slides.py --libraries node_modules
"""

import argparse
import base64
import html
import re
import sys
import textwrap
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter

import fitting
import projector

HERE = Path(__file__).parent
FORMULAS = 5                              # lines of formulas on a slide
LINES_OF_OUTPUT = 16
TOGETHER = 19                             # smallest font of code with its output on one slide
VERDICT_LENGTH = 78
VERDICT = 56                              # height of what `check` says
STYLE = """
<style>
.reveal { font-size: 28px; }
.reveal .slides > section, .reveal .slides > section > section { text-align: left; padding: 8px 0;
  top: 0 !important; }
.reveal h1, .reveal h2, .reveal h4 { text-transform: none; letter-spacing: 0;
  margin: 0 0 12px 0; line-height: 1.15; color: #222; }
.reveal h1 { font-size: 44px; } .reveal h2 { font-size: 40px; }
.reveal h4 { font-size: 24px; font-weight: normal; color: #666; }
.reveal .jp-Cell, .reveal .jp-Notebook .jp-Cell { padding: 0; margin: 0; }
.reveal .jp-RenderedHTMLCommon { font-size: 28px; line-height: 1.3; padding: 0; margin: 0; }
.reveal .jp-RenderedHTMLCommon p, .reveal .jp-RenderedHTMLCommon ul,
.reveal .jp-RenderedHTMLCommon ol { margin: 0 0 10px 0; }
.reveal ul, .reveal ol { display: block; padding-left: 1.2em; }
.reveal .jp-RenderedHTMLCommon blockquote { width: auto; margin: 8px 0; padding: 6px 20px;
  font-style: normal; box-shadow: none; border: 0; border-left: 6px solid #c8500a;
  background: #f6f8fa; }
.reveal .jp-RenderedHTMLCommon blockquote p { margin: 0; }
.reveal section img { width: 1180px; height: 560px; object-fit: contain; margin: 0; display: block;
  max-width: none; max-height: none; }
.reveal .jp-RenderedHTMLCommon table { font-size: 25px; margin: 0 0 10px 0;
  display: table; table-layout: auto; }
.reveal .jp-RenderedHTMLCommon :not(pre) > code { font-size: 0.85em; }
.reveal .MJXc-display { margin: 10px 0 !important; overflow: visible; }
.reveal pre { line-height: 1.3; width: auto; margin: 0; box-shadow: none; }
.reveal .highlight { margin: 0; } .reveal .jp-InputArea-editor { border: 0; overflow: visible; }
.reveal .jp-CodeMirrorEditor { padding: 8px 10px; }
.reveal .highlight pre { line-height: 1.3; padding: 0; overflow: visible; }
.reveal .jp-RenderedHTMLCommon pre.output { line-height: 1.3; padding: 8px 10px; margin: 0;
  border-left: 4px solid #bbb; background: none; overflow: visible; white-space: pre; }
.reveal .jp-RenderedHTMLCommon p.verdict { margin: 8px 0 0 0; color: #2e7d4f; font-size: 25px;
  white-space: nowrap; }
.reveal .jp-InputPrompt, .reveal .jp-OutputPrompt, .reveal .jp-Collapser { display: none; }
{fonts}
</style>
<script type="text/x-mathjax-config">
MathJax.Hub.Config({displayAlign: "left", displayIndent: "1em",
                    CommonHTML: {scale: 94, linebreaks: {automatic: false}}});
</script>
""".replace("{fonts}", "\n".join(
    f".reveal .celltag_code-{font} pre {{ font-size: {font}px; }}" for font in fitting.CODE_FONTS))
# The blocks of a lesson that a slide shows
SHOWN = re.compile(
    r">|#|\$\$|\||!\[|<img|\*\*(Question|You will learn|Exercise|Think)|[-*] |\d+\. ")
KINDS = {"**Ex": "exercise", "**Th": "question"}          # begin a slide
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
        return before.startswith(("**You will learn", "## Summary", "## Further reading"))
    return bool(SHOWN.match(block))


def questions(text):
    """(question, answer or None) of what a lesson asks to think about, in its order."""
    found = list(blocks(text))
    for block, after in zip(found, [*found[1:], ""]):
        if block.startswith("**Think"):
            answer = ANSWER.fullmatch(after.strip())
            yield block, answer and answer[1]


class Piece:
    """What a slide shows: Markdown, a formula, code, its output, a picture."""

    def __init__(self, kind, cell, height):
        self.kind, self.cell, self.height = kind, cell, height


class Slide:
    """A heading, what is below it, and what the speaker says."""

    def __init__(self, heading, first=True):
        self.heading, self.first, self.pieces, self.notes = heading, first, [], []

    def height(self):
        lines = 1 + (len(self.heading) > 60)
        return (70 if self.first else 46) * lines * bool(self.heading) + sum(
            piece.height for piece in self.pieces)

    def takes(self, piece):
        """Whether another piece belongs onto this slide, and fits."""
        if not self.pieces:
            return True
        before, kinds = self.pieces[-1].kind, [each.kind for each in self.pieces]
        if piece.kind == "answer":
            return before == "question"
        if piece.kind == "output":
            return before == "code" and self.height() + piece.height <= fitting.ROOM
        if piece.kind == "code" and before == "exercise":
            return self.height() + piece.height + VERDICT <= fitting.ROOM
        return (piece.kind not in ("question", "exercise", "code", "picture")
                and before not in ("question", "exercise", "answer", "code", "output", "picture")
                and not (piece.kind == "formula" and kinds.count("formula") >= FORMULAS)
                and self.height() + piece.height <= fitting.ROOM)

    def cells(self):
        """As nbconvert takes them: formulas after the first, and answers, are fragments.

        The notes come before the first fragment, or they would be that fragment's.
        """
        level = self.heading.partition(" ")[0] if self.first else "####"
        made = [cell_of(f"{level} {self.heading.lstrip('# ')}")] if self.heading else []
        steps = []
        for place, piece in enumerate(self.pieces):
            step = piece.kind == "answer" or piece.kind == "formula" and any(
                before.kind == "formula" for before in self.pieces[:place])
            (steps if step or steps else made).append(piece.cell)
        for cell in made:
            cell.metadata["slideshow"] = {"slide_type": "-"}
        if made:
            made[0].metadata["slideshow"] = {
                "slide_type": "slide" if self.heading and self.first else "subslide"}
        if self.notes:
            made.append(cell_of("\n\n".join(self.notes), "notes"))
        for cell in steps:
            cell.metadata["slideshow"] = {"slide_type": "fragment"}
        return made + steps


def cell_of(text, kind="-"):
    cell = nbformat.v4.new_markdown_cell(text)
    cell.metadata["slideshow"] = {"slide_type": kind}
    return cell


def of_block(block):
    """The pieces that one block of text becomes."""
    if block.startswith("$$"):
        for row in fitting.rows(block):
            yield Piece("formula", cell_of(f"$$\\displaystyle {row}$$"),
                        fitting.height_of_formula(row))
    elif re.match(r"[-*] |\d+\. ", block):
        for part in fitting.parts_of_list(block):
            yield Piece("text", cell_of(part), fitting.height_of_text(part))
    else:
        kind = KINDS.get(block[:4], "text")
        yield Piece(kind, cell_of(block), fitting.height_of_text(block))


def of_code(cell, heading):
    """Code of at most about twelve lines, what it prints, and its pictures, each as a piece.

    Of code that draws ("hide-input") there is the picture alone. Output is below its code if both
    fit, or it has slides of its own.
    """
    tags = cell.metadata.get("tags", ())
    if "setup" in tags:
        return
    verdicts = [text for output in cell.outputs for text in verdicts_of(output)]
    printed = fitting.wrapped("".join(output.get("text", "") for output in cell.outputs))
    if "hide-input" not in tags and cell.source.strip():
        *first, last = fitting.parts_of_code(fitting.code(cell.source))
        for part in first:
            yield code_piece(part)
        room = fitting.ROOM - 80 - VERDICT * len(verdicts)
        font, high = fitting.font_of_code(last, *[printed][:bool(printed)], room=room)
        if high <= room and font >= TOGETHER:
            yield code_piece(last, font)
            if printed:
                yield output_piece(printed, font)
                printed = ""
        else:
            yield code_piece(last)
    if printed:
        first, *rest = fitting.parts_of_code(printed, most=LINES_OF_OUTPUT)
        yield output_piece(first)
        for part in rest:
            yield output_piece(part, joins=False)
    for text in verdicts:
        yield Piece("output", cell_of(f'<p class="verdict">{html.escape(text)}</p>'), VERDICT)
    for output in cell.outputs:
        data = output.get("data", {})
        if "image/png" in data:
            png = base64.b64decode(data["image/png"])
            png = base64.b64encode(fitting.folded(png)).decode()
            yield Piece("picture", cell_of(f'<p><img alt="{html.escape(heading)}" '
                                           f'src="data:image/png;base64,{png}"></p>'), 0)


def verdicts_of(output):
    """What `check` says, in one line: the verdict and its first sentence."""
    shown = output.get("data", {}).get("text/html", "")
    found = re.search(r"<strong>(\S+).*?</strong>\s*(.*)", shown)
    if found:
        said = re.split(r"(?<=\w)\. |\.$", html.unescape(re.sub("<[^>]*>", "", found[2])))[0]
        while len(said) > VERDICT_LENGTH and re.search("[,:] ", said):
            said = re.match("(.*)[,:] ", said)[1]
        yield f"{found[1]} {textwrap.shorten(said, VERDICT_LENGTH, placeholder=' ...')}"


def code_piece(source, font=None):
    best, high = fitting.font_of_code(source)
    cell = nbformat.v4.new_code_cell(source)
    cell.metadata["tags"] = [f"code-{font or best}"]
    return Piece("code", cell, high if font is None else fitting.height_of_code(source, font))


def output_piece(text, font=None, joins=True):
    font = font or fitting.font_of_code(text)[0]
    cell = cell_of(f'<pre class="output" style="font-size: {font}px">{html.escape(text)}</pre>')
    return Piece("output" if joins else "code", cell, fitting.height_of_code(text, font))


def slides_of(notebook):
    """The slides of a lesson, each with a heading, what it shows, and what is said."""
    made = [Slide("")]

    def add(piece):
        if not made[-1].takes(piece):
            made.append(Slide(made[-1].heading, first=False))
        made[-1].pieces.append(piece)

    for cell in notebook.cells:
        if cell.cell_type == "code":
            for piece in of_code(cell, made[-1].heading.lstrip("# ")):
                add(piece)
            continue
        before, minutes = "", cell.metadata.get("minutes")
        answers = dict(questions(cell.source))
        for block in blocks(cell.source):
            if re.match(r"#{1,2} ", block):
                before, _, block = block.partition("\n")
                made.append(Slide(before))
            if minutes:
                made[-1].notes.append(f"**{minutes} minutes.**")
                minutes = None
            if not block.strip():
                continue
            if is_shown(block, before):
                for piece in of_block(block.strip()):
                    add(piece)
            elif answers.get(before):
                text = f"**Answer.** {answers[before]}"
                add(Piece("answer", cell_of(text), fitting.height_of_text(text)))
            else:
                made[-1].notes.append(block.strip())
            before = block
    return [slide for slide in made if slide.heading or slide.pieces or slide.notes]


def deck(notebook):
    """The notebook as nbconvert turns it into slides."""
    made = []
    for slide in slides_of(notebook):
        if slide.heading and not slide.pieces:          # a heading alone: with its first words
            said = [note for note in slide.notes if not note.startswith("**")] or [""]
            slide.pieces += of_block(said[0])
        made.extend(slide.cells())
    return nbformat.v4.new_notebook(cells=made, metadata=notebook.metadata)


def page(path, libraries=None):
    """The deck of a notebook as HTML, str; `libraries` is a folder with the scripts it loads."""
    exporter = SlidesExporter()
    exporter.reveal_theme, exporter.reveal_transition = "white", "none"
    exporter.reveal_width, exporter.reveal_height = "1200", "675"
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    if libraries:
        exporter.reveal_url_prefix = f"{libraries}/reveal.js"
        exporter.mathjax_url = f"{libraries}/mathjax/MathJax.js?config=TeX-AMS_CHTML-full,Safe"
        exporter.require_js_url = f"{libraries}/requirejs/require.js"
        exporter.jquery_url = f"{libraries}/jquery/dist/jquery.min.js"
        exporter.mermaid_js_url = "data:text/javascript,export default {initialize() {}}"  # unused
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
    parser.add_argument("--sheet", type=Path, metavar="FOLDER", help="also write pictures there of "
                        "all slides, twenty on each; needs Chromium, selenium and --libraries")
    arguments = parser.parse_args()
    browser = arguments.sheet and projector.opened()
    if arguments.sheet and not (browser and arguments.libraries):
        parser.error("--sheet needs Chromium with chromedriver, selenium, and --libraries")
    libraries = arguments.libraries and arguments.libraries.resolve().as_uri()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(HERE.glob("*.ipynb")):
        if not arguments.names or any(path.stem.startswith(name) for name in arguments.names):
            out = arguments.out / f"{path.stem}.slides.html"
            out.write_text(page(path, libraries), encoding="utf-8")
            print(out, file=sys.stderr)
            if browser:
                projector.load(browser, out)
                arguments.sheet.mkdir(parents=True, exist_ok=True)
                for number, sheet in enumerate(projector.sheets(browser), 1):
                    sheet.save(arguments.sheet / f"{path.stem}_{number}.png")
    if browser:
        browser.quit()


if __name__ == "__main__":
    main()
