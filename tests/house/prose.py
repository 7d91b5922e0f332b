"""The prose of the repository, page by page: the sentences and tables that a reader believes."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "docs", "figures", "notebooks", "numformer")
UNITS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
         "fifteen sixteen seventeen eighteen nineteen").split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
WORDS = {word: n for n, word in enumerate(UNITS)} | {
    f"{ten}-{UNITS[one]}" if one else ten: 10 * n + one
    for n, ten in enumerate(TENS, 2) for one in range(10)}
NUMBER = rf"\b(\d+|{'|'.join(sorted(WORDS, key=len, reverse=True))})\b"


def value(number):
    """
    Examples
    --------
    >>> value("Twenty-one"), value("15")
    (21, 15)
    """
    return WORDS.get(number.lower()) if number.lower() in WORDS else int(number)


def pages():
    """The text of each page by its path: Markdown, and the lessons with OUTPUT for what a cell
    prints or draws."""
    found = [page for folder in FOLDERS for page in sorted((ROOT / folder).glob(
        "**/*.md" if folder == "numformer" else "*.md"))]
    texts = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in found}
    for page in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        texts[page.relative_to(ROOT).as_posix()] = "\n\n".join(
            "".join(cell["source"]) if cell["cell_type"] == "markdown"
            else "OUTPUT" if cell["outputs"] else "" for cell in cells)
    return texts


def counts(text, noun):
    """(phrase, number) wherever a text counts something: "Twenty-one lessons", "42 questions".

    Examples
    --------
    >>> counts("Twenty-one short lessons, 2 a week; lesson 3.", "lessons")
    [('Twenty-one short lessons', 21)]
    """
    found = []
    for place in re.finditer(rf"(?i)\b{noun}\b", text):
        before = re.search(rf"(?i){NUMBER}(?:\s+(?!of\b)[a-z-]+)?\s+$",
                           text[max(0, place.start() - 50):place.start()])
        if before:
            found.append((" ".join((before[0] + place[0]).split()), value(before[1])))
    return found


def sections(text):
    """The parts of a page from heading to heading."""
    return re.split(r"(?m)^(?=#{1,6} )", text)


def decimals_in_tables(section):
    """Numbers with two digits or more after the point, in rows of tables."""
    return [number for line in section.split("\n") if line.lstrip().startswith("|")
            for number in re.findall(r"(?<![\w.=(-])\d+\.\d{2,}", line)]


def paragraphs(text):
    """Paragraphs, rows of tables and items of lists, each in one line."""
    return [" ".join(re.sub(r"(?m)^> ?", "", part).split())
            for part in re.split(r"\n\s*\n|\n(?=\||- )", text)]


def reproduced(paragraph):
    """Names of presets and experiments whose figures a paragraph takes from `reproduce`.

    Examples
    --------
    >>> sorted(reproduced("1.70 bits (`numformer reproduce rnn lstm`)"))
    ['lstm', 'rnn']
    """
    return {name for names in re.findall(r"numformer (?:reproduce|experiment) ([a-z0-9 -]+)",
                                         paragraph) for name in names.split()}


def numbers(text):
    """(number, decimals) of the numbers in a text: "2,443,264" is (2443264.0, 0)."""
    return [(float(found.replace(",", "")), len(found.partition(".")[2]))
            for found in re.findall(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?", text)]


def figures_of(results, names):
    """Numbers of a page of results: the rows of some names, and the text around these rows."""
    found = []
    for section in sections(results):
        parts = paragraphs(section)
        rows = [part for part in parts if part.startswith("|")
                and part.split(" | ")[0].strip("| ") in names]
        if rows:
            found += rows + [part for part in parts if not part.startswith("|")]
    return [number for number, _ in numbers("\n".join(found))]


def unwritten(paragraph, figures):
    """Numbers with two decimals or more that are no rounded figure, nor one in millions."""
    return [number for number, decimals in numbers(paragraph) if decimals >= 2 and not any(
        abs(abs(number) - abs(figure) / unit) <= 0.501 * 10 ** -decimals
        for figure in figures for unit in (1, 1e6))]


def printed(path):
    """What the cells of a lesson print, as it is committed."""
    cells = json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(output.get("text", [])) + "".join(
        output.get("data", {}).get("text/plain", []))
        for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"])
