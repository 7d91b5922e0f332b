"""The map of the lecture notes as pages of the rendered documentation, which `conf.py` writes to
docs/decks: one for each deck, and one with the slides of each lesson and of each layer.
"""

import json
import re
from functools import cache
from itertools import groupby
from pathlib import Path

from numformer.experiments import EXPERIMENTS
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.commands import commands_of
from numformer.teaching.deck.pictures import PICTURES, how_to_draw, rows_with
from numformer.teaching.deck.row import numbers
from numformer.teaching.deck.search import layers_named, with_layer, with_lesson
from numformer.teaching.deck.targets import misprint
from numformer.teaching.exercise import find_exercise

WIDTH = 480                                                           # of a picture
ROOT = Path(__file__).parents[1]
LESSONS = {int(path.name[:2]): path for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))}


def write_pages(folder):
    """Write the pages to a folder, docs/decks; one that says the same already is left alone."""
    folder.mkdir(exist_ok=True)
    pages = {"README": contents_page()}
    pages |= {f"deck_{letter}": deck_page(deck) for letter, deck in DECKS.items()}
    for name, text in pages.items():
        write_page(folder / f"{name}.md", text)


def write_page(path, text):
    """Write a page, unless it says the same already."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def contents_page():
    """The decks, and the slides of each lesson, layer, experiment and picture."""
    lines = ["# The lecture notes", "",
             "This project implements these decks of lecture notes. Each of their slides leads to "
             "formula, code, picture, experiment, lesson and exercises, and to what is misprinted "
             "on it. `numformer deck WORDS` searches the same map.", "",
             "Formulas are in Python, and tests evaluate them against the code that is named "
             "first: `X @ W` is a product of matrices, `K.mT` a transposed one, "
             "`functional.NAME(...)` the output of a function, `weights(layer)` a layer's "
             "parameters; `numformer.teaching.deck.formula` has the other words.", "",
             "| deck | | slides |", "|---|---|---|"]
    lines += [f"| {letter} | [{plain(deck.title)}](deck_{letter}.md) | {len(deck.slides)} |"
              for letter, deck in DECKS.items()]
    lines += ["", "## By lesson", "", "| lesson | slides |", "|---|---|"]
    lines += [f"| {_lesson(n)} | {_links(with_lesson(n))} |" for n in LESSONS if with_lesson(n)]
    lines += ["", "## By layer", "", "| layer | slides |", "|---|---|"]
    lines += [f"| {_code(f'layers.{name}')} | {_links(with_layer(name))} |"
              for name in layers_named()]
    lines += ["", "## By experiment", "", "| experiment | question | slides |", "|---|---|---|"]
    lines += [f"| `{name}` | {plain(experiment.question)} | "
              f"{_links(rows_with(f'experiment:{name}'))} |"
              for name, experiment in EXPERIMENTS.items()]
    lines += ["", "## By picture", "", "| picture | what it shows | slides |", "|---|---|---|"]
    lines += [f"| {_picture(name)} | {plain(picture.shows)} | {_links(rows_with(name))} |"
              for name, picture in PICTURES.items() if not picture.reason]
    return "\n".join(lines) + "\n"


def deck_page(deck):
    """A deck: its headings, and below each what belongs to it; each picture once."""
    lines, shown = [f"# {deck.letter}: {plain(deck.title)}"], set()
    for heading, rows in groupby(deck.rows, lambda row: row.heading):
        rows = list(rows)
        lines += ["", f"## {numbers(rows)}: {plain(heading)}"]
        for row in rows:
            lines += ["", f"({_anchor(row)})=", "", f"### {plain(row.title)}", ""]
            if row.formula:
                lines += ["```text", *row.formula,
                          *([f"where {row.where}"] if row.where else []), "```", ""]
            lines += [f"- {label}: {', '.join(found)}" for label, found in _leads(row) if found]
            for name in row.picture:
                if name.endswith((".png", ".gif")) and name not in shown:
                    shown.add(name)
                    lines += ["", f"```{{image}} {_file(name)}", f":alt: {PICTURES[name].shows}",
                              f":width: {WIDTH}px", "```"]
    return "\n".join(lines) + "\n"


def plain(text):
    """A text of ours as Markdown, in which only `code` has a meaning.

    Examples
    --------
    >>> plain("[CLS]: W_Q of `a_b`")
    '\\\\[CLS\\\\]: W\\\\_Q of `a_b`'
    """
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>|$])", r"\\\1", part)
                   for part in re.split("(`[^`]*`)", text))


def _leads(row):
    """(label, what it leads to, in Markdown) of what is known of a row."""
    run = [name.partition(":") for name in row.run]
    yield "code", [_code(name) for name in row.code]
    yield "picture", [f"{_picture(name)} (`{how_to_draw(name, row.run)}`)" for name in row.picture]
    yield "lesson", [_lesson(int(which)) for kind, _, which in run if kind == "notebook"]
    yield "run", [f"`{line}`" for line in commands_of(row)]
    yield "exercise", [f"`{exercise.name}` ({plain(exercise.title.rstrip('.'))})" for exercise in (
        find_exercise(which) for kind, _, which in run if kind == "exercise")]
    yield "exam", [f"[{which}](../../notebooks/EXAM.md)" for kind, _, which in run
                   if kind == "exam"]
    for place in dict.fromkeys(slip.place for slip in row.slips):
        (_, claim, correction), = misprint(place)
        slips = [slip for slip in row.slips if slip.place == place]
        lines = ", ".join(str(slip.line) for slip in slips)
        texts = ", ".join(_literal(slip.text) for slip in slips)
        yield f"the deck (line{'s' * (len(slips) > 1)} {lines})", [f"{texts}; {claim}"]
        yield "right", [correction]
    yield "note", [plain(row.note)] if row.note else []
    yield "no code", [plain(row.reason)] if row.reason else []


def _picture(name):
    if name.startswith("plots."):
        return _code(name)
    return f"[{plain(name)}]({_file(name)})"


def _file(name):
    return f"../../{name}" if name.startswith("figures/") else f"../../numformer/{name}"


def _literal(text):
    """A text as code, whatever is in it."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _code(name):
    return f"{{py:obj}}`{name} <numformer.{name}>`"


@cache
def _lesson(number):
    cell = json.loads(LESSONS[number].read_text(encoding="utf-8"))["cells"][0]
    title = "".join(cell["source"]).split("\n")[0].removeprefix("# ")
    return f"[{plain(title)}](../../notebooks/{LESSONS[number].name})"


def _anchor(row):
    return f"deck-{row.deck.lower()}-line-{row.lines[0]}"


def _links(rows):
    """Links to rows, one for each place."""
    first = {row.place: _anchor(row) for row in reversed(rows)}
    return ", ".join(f"[{place}](#{first[place]})" for place in reversed(first))
