"""The form of a lesson: a question, minutes, key statements, checks, a summary, plain words."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(ROOT.glob("*.ipynb"))
WORDS = (1200, 1800)
MINUTES, MOST_SECONDS = 90, 60
MOST_CODE = 30                                        # lines of a cell: what a slide can show
# Words that DESIGN's table replaces, as far as they can be searched for
AVOIDED = re.compile(r"""(?ix) \b (
    twins? | take[s]?\ over | step_to | thinned | silenced | carved? | ledger | wanders? | mended
    | in\ vain | worth | (?:model|code|layer|query|token|unit)s?\ (?:feels?|hears?|says?|speaks?)
    | is\ told | is\ asked | beside | order\ of\ chance | was\ drawn\ from\ chance
    | gradient(?:s)?\ (?:of\ [^.]{1,30}\ )?by\ (?:x|the\ (?:input|logits|vectors?)) ) \b""")


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def texts(path, kind="markdown"):
    return ["".join(cell["source"]) for cell in cells_of(path) if cell["cell_type"] == kind]


def prose(path):
    """The text of a lesson without formulas, code, tables, answers and addresses."""
    text = "\n\n".join(texts(path))
    for dropped in (r"<details>.*?</details>", r"```.*?```", r"\$\$.*?\$\$"):
        text = re.sub(dropped, " ", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]*\$|`[^`]*`|\]\([^)]*\)|^\|.*$", " ", text, flags=re.MULTILINE)
    return text


def sections(path):
    """(heading, text, minutes) of each section."""
    found = []
    for cell in cells_of(path):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith("## "):
            found.append([text.split("\n")[0], "", cell["metadata"].get("minutes")])
        if cell["cell_type"] == "markdown" and found:
            assert "\n## " not in text, "a section begins in a cell of its own"
            found[-1][1] += text + "\n\n"
    return found


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_its_form(path):
    about, found = texts(path)[0], sections(path)
    for part in ("**Question.**", "**You will learn**", "**You need**", "**Time.** 2 x 45 minutes"):
        assert part in about, part
    assert int(re.search(r"about (\d+)\s+seconds", about)[1]) <= MOST_SECONDS
    assert [heading for heading, _, _ in found[-2:]] == ["## Summary", "## Further reading"]
    minutes = {heading: given or 0 for heading, _, given in found}
    assert sum(minutes.values()) == MINUTES, minutes
    for heading, text, _ in found[:-2]:
        statements = re.findall(r"(?:^>.*\n?)+", text, re.MULTILINE)
        assert len(statements) == 1, (heading, statements)
    assert "$$" in "\n".join(texts(path))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_teaches_alone(path):
    count = len(re.findall(r"[A-Za-z][A-Za-z'’-]*", prose(path)))
    assert WORDS[0] <= count <= WORDS[1], count
    text, code = "\n".join(texts(path)), texts(path, "code")
    exercises = re.findall(r"\*\*Exercise (\d+)\.(\d+)\*\* \(\d+ minutes\)", text)
    assert len(exercises) >= 2 and {int(lesson) for lesson, _ in exercises} == {int(path.stem[:2])}
    assert any(re.search(r"^check\(|gradcheck\(", cell, re.MULTILINE) for cell in code)
    assert "<details>" in text
    for cell in code:
        assert cell.count("\n") < MOST_CODE, cell


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_code_that_draws_is_folded(path):
    """In a cell of its own: what a lesson computes is read without it."""
    for cell in cells_of(path):
        if cell["cell_type"] == "code":
            draws = any("image/png" in output.get("data", {}) for output in cell["outputs"])
            hidden = "hide-input" in cell["metadata"].get("tags", ())
            assert draws == hidden, "".join(cell["source"])
            assert hidden == cell["metadata"].get("jupyter", {}).get("source_hidden", False)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_uses_the_words_of_the_field(path):
    own = prose(path).split("## Further reading")[0]                  # titles are other people's
    assert not [match.group() for match in AVOIDED.finditer(own)]
