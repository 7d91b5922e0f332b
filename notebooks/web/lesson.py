"""A lesson as a page of the site: its text, formulas, code, and what its cells printed and drew

All of it can be read before any script has run. What a script needs of a cell is in its element:
the key under which an edit is kept, and the function that it checks.
"""

import ast
import base64
import hashlib
import json
import re
import struct
from html import escape

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from web.formulas import mathml

HIDDEN = "hide-input"
ENDING = ".html"


class Renderer(IPythonRenderer):
    """Markdown as HTML, with MathML, and with a name for each heading."""

    def __init__(self):
        super().__init__(escape=False, exclude_anchor_links=True)
        self.names = set()

    def heading(self, text, level, **attributes):
        name = base = slug(re.sub(r"<math.*?</math>|<[^>]*>", "", text, flags=re.DOTALL))
        number = 1
        while name in self.names:
            number += 1
            name = f"{base}-{number}"
        self.names.add(name)
        return (f'<h{level} id="{name}">{text} <a class="link" href="#{name}" '
                f'aria-label="Link to this section">#</a></h{level}>\n')

    def block_math(self, body):
        return f'<div class="formula" tabindex="0">{mathml(body, block=True)}</div>'

    def inline_math(self, body):
        return mathml(body)

    def table(self, text):
        return f'<div class="table" tabindex="0"><table>{text}</table></div>'

    def link(self, text, url, title=None):
        return super().link(text, re.sub(r"^([\w./]+)\.ipynb(?=#|$)", rf"\1{ENDING}", url), title)


def slug(text):
    """
    Examples
    --------
    >>> slug("The root, once more")
    'the-root-once-more'
    """
    return "-".join(re.findall(r"\w+", text.lower())) or "section"


def markdown(text, renderer=None):
    """The HTML of Markdown with formulas."""
    return MarkdownWithMath(renderer=renderer or Renderer()).render(text)


def line(text):
    """The HTML of one line of Markdown: a title, which may begin with a number.

    Examples
    --------
    >>> line("2. The root of $D$")
    '2. The root of <math alttext="D"><mi>D</mi></math>'
    """
    return re.sub(r"^<p>|</p>$", "", markdown(re.sub(r"^(\d+)\.", r"\1\\.", text)).strip())


def title_of(notebook):
    """The first heading of a notebook."""
    for cell in notebook["cells"]:
        found = re.search(r"^# (.+)$", source_of(cell), re.MULTILINE)
        if cell["cell_type"] == "markdown" and found:
            return found[1].strip()
    raise ValueError("the first cell of a lesson begins with a heading: # 2. Title")


def source_of(cell):
    return "".join(cell["source"])


def keys_of(notebook):
    """{place of a code cell: the key of its source}: equal for equal cells, but for their number.

    An edit is kept under the key of the cell that was edited; when a lesson is corrected, the cell
    has another key, and nothing hides it.
    """
    keys, seen = {}, {}
    for place, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            source = source_of(cell)
            seen[source] = seen.get(source, 0) + 1
            key = hashlib.sha256(f"{seen[source]} {source}".encode()).hexdigest()[:16]
            keys[place] = key
    return keys


def checked(source):
    """The name in the first call ``check("name", ...)`` of a cell, or None."""
    try:
        tree = ast.parse(re.sub("(?m)^%.*$", "", source))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "check" and node.args:
            return getattr(node.args[0], "value", None)
    return None


def body(notebook, keep_picture):
    """The HTML of all cells.

    Parameters
    ----------
    notebook : dict
        As in the file.
    keep_picture : function of bytes
        Keeps a PNG and returns its address.
    """
    renderer, keys, found, heading, number = Renderer(), keys_of(notebook), [], "", 0
    for place, cell in enumerate(notebook["cells"]):
        source = source_of(cell)
        if cell["cell_type"] == "markdown":
            heading = (re.findall(r"^#+ (.+)$", source, re.MULTILINE) or [heading])[-1]
            found.append(f'<section class="text">\n{markdown(source, renderer)}</section>')
        elif cell["cell_type"] == "code" and source.strip():
            number += 1
            outputs = "".join(output(each, heading, keep_picture) for each in cell["outputs"])
            found.append(code(cell, place, number, keys[place], outputs))
    return "\n".join(found)


def code(cell, place, number, key, outputs):
    """The element of a code cell."""
    source = source_of(cell)
    checks = checked(source)
    check = f' data-check="{escape(checks)}"' if checks else ""
    shown = f'<pre class="code"><code>{escape(source)}</code></pre>'
    if HIDDEN in cell["metadata"].get("tags", ()):
        shown = f'<details class="folded"><summary>Code of the picture</summary>{shown}</details>'
    return (f'<section class="cell" id="cell-{place}" data-key="{key}" data-number="{number}"'
            f'{check} aria-label="Cell {number}">\n<a class="link" href="#cell-{place}" '
            f'aria-label="Link to cell {number}">{number}</a>\n{shown}\n'
            f'<div class="output" role="log" aria-label="Output of cell {number}">{outputs}</div>\n'
            "</section>")


def output(made, heading, keep_picture):
    """The HTML of what a cell printed, returned or drew."""
    if made["output_type"] == "stream":
        return f'<pre>{escape("".join(made["text"]))}</pre>'
    if made["output_type"] == "error":
        raise ValueError(f"a cell of the notebook ended with {made['ename']}: build it again")
    data = {kind: "".join(value) if isinstance(value, list) else value
            for kind, value in made["data"].items()}
    if "image/png" in data:
        png = base64.b64decode(data["image/png"])
        width, height = struct.unpack(">II", png[16:24])
        words = escape(re.sub(r"[$`*\\]", "", heading))
        return (f'<img src="{keep_picture(png)}" width="{width}" height="{height}" loading="lazy" '
                f'alt="Picture drawn by this cell: {words}">')
    if "text/html" in data:
        return f'<div class="html">{data["text/html"]}</div>'
    return f'<pre>{escape(data["text/plain"])}</pre>'


def bare(notebook):
    """The notebook without outputs, as JSON: what "Download" fills with edited cells."""
    cells = [{**cell, "outputs": [], "execution_count": None} if cell["cell_type"] == "code"
             else cell for cell in notebook["cells"]]
    return json.dumps({**notebook, "cells": cells}, ensure_ascii=False, indent=1)
