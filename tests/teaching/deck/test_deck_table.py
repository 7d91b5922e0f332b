"""The table of the decks: its lines, headings and reasons, and that every name leads somewhere."""

import re
from pathlib import Path

import pytest

from numformer import plots
from numformer.cli import VERBS
from numformer.commands.count import PUBLISHED
from numformer.experiments import EXPERIMENTS
from numformer.plots import PICTURES
from numformer.recipes import PRESETS
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.targets import conventions, find, slips

ROOT = Path(__file__).parents[3]
EXERCISES = {int(path.name[:2]) for path in
             (ROOT / "numformer" / "teaching" / "exercises").glob("*/[0-9]*.py")}
NOTEBOOKS = {int(path.name[:2]) for path in (ROOT / "notebooks" / "source").glob("[0-9]*.py")}
RUNS = {"preset": PRESETS, "experiment": EXPERIMENTS, "count": PUBLISHED, "verb": VERBS,
        "exercise": EXERCISES, "notebook": NOTEBOOKS}
TESTS = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
FIELDS = ("code", "picture", "run", "tests", "slip")
ROWS = [(deck, row) for deck in DECKS.values() for row in deck.rows]


def exists(field, name):
    """Whether what a name in a field of a row refers to is there."""
    if field == "slip":
        return len(slips(name)) == 1
    if field == "tests":
        return name in TESTS
    if field == "picture" and name.endswith(".png") or name.endswith(".gif"):
        folder = ROOT if name.startswith("figures/") else ROOT / "numformer"
        return (folder / name).is_file()
    if field == "picture" and name.startswith("plot:"):
        return name.removeprefix("plot:") in PICTURES
    if field == "picture":
        return hasattr(plots, name.removeprefix("plots."))
    if field == "run":
        kind, _, which = name.partition(":")
        return (int(which) if kind in ("exercise", "notebook") else which) in RUNS[kind]
    try:
        return find(name) is not None
    except LookupError:
        return False


NAMES = {(field, name) for _, row in ROWS for field in FIELDS for name in row.names(field)}


def test_every_name_leads_somewhere():
    dead = sorted(f"{field} {name}" for field, name in NAMES if not exists(field, name))
    assert dead == []


@pytest.mark.parametrize("field, name", [
    ("code", "functional.softmaxes"), ("code", "layers.LSTM.steps"), ("code", "nothing"),
    ("picture", "figures/none.png"), ("picture", "plots.none"), ("picture", "plot:none"),
    ("run", "preset:none"), ("run", "experiment:none"), ("run", "exercise:99"),
    ("run", "notebook:99"), ("run", "count:none"), ("run", "verb:none"), ("tests", "test_none"),
    ("slip", "A, nothing"), ("slip", "A, RMSNorm")])               # the last one is two rows
def test_a_dead_name_is_found(field, name):
    assert not exists(field, name)


@pytest.mark.parametrize("letter", DECKS)
def test_lines_ascend_and_lie_in_the_deck(letter):
    deck = DECKS[letter]
    lines = [row.line for row in deck.rows]
    assert lines[0] == 1 and lines[-1] <= deck.n_lines and lines == sorted(set(lines))


@pytest.mark.parametrize("letter", DECKS)
def test_every_heading_has_a_row_of_its_own(letter):
    deck = DECKS[letter]
    assert list(deck.headings) == sorted(set(deck.headings))
    for first, end in zip(deck.headings, (*deck.headings[1:], deck.n_lines + 1)):
        at = deck.row_at(first).line
        assert first - at <= 4 or any(first <= row.line < end for row in deck.rows), first


@pytest.mark.parametrize("deck, row", ROWS, ids=[f"{deck.letter}{row.line}" for deck, row in ROWS])
def test_a_row_is_whole(deck, row):
    assert row.title and len(row.title) <= 90 and not row.title.endswith(".")
    assert row.code or len(row.reason) >= len("a title"), "neither code nor a reason"
    assert not row.code or row.run or row.picture, "nothing to run and nothing to see"
    assert not set(row._fields) - {"line"} or all(isinstance(x, str) for x in row[1:])
    for field in FIELDS:
        names = row.names(field)
        assert len(names) == len(set(names))
    assert all(re.fullmatch(r"(figures|recipes)/\w+\.(png|gif)|plots\.\w+|plot:\w+", name)
               for name in row.names("picture"))
    assert all(name.partition(":")[0] in RUNS for name in row.names("run"))


def test_every_misprint_of_the_conventions_is_named_by_each_deck_that_has_it():
    for place, claim, _ in conventions():
        for letter in re.match("[A-E](, [A-E])*(?=, )", place)[0].split(", "):
            assert any((place, claim) == found[:2] for row in DECKS[letter].rows
                       for name in row.names("slip") for found in slips(name)), (place, claim)


def test_the_row_of_a_line_is_the_nearest_one_at_or_before_it():
    deck = DECKS["B"]
    for row in deck.rows:
        first, last = deck.lines_of(row)
        assert deck.row_at(first) is deck.row_at(last) is row
    assert deck.lines_of(deck.rows[-1])[1] == deck.n_lines
    for line in (0, -1, deck.n_lines + 1):
        with pytest.raises(ValueError, match=f"deck B: line {line} must be one of its 620 lines"):
            deck.row_at(line)
