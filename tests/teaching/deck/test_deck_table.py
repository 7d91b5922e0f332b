"""The table of the decks: its lines, slides and reasons, and that every name leads somewhere."""

import re
from pathlib import Path

import pytest

from numformer.cli import VERBS
from numformer.commands.count import PUBLISHED
from numformer.experiments import EXPERIMENTS
from numformer.recipes import PRESETS, all_claims
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.pictures import PICTURES
from numformer.teaching.deck.targets import conventions, find, misprint

ROOT = Path(__file__).parents[3]
EXERCISES = {int(path.name[:2]) for path in
             (ROOT / "numformer" / "teaching" / "exercises").glob("*/[0-9]*.py")}
NOTEBOOKS = {int(path.name[:2]) for path in (ROOT / "notebooks" / "source").glob("[0-9]*.py")}
EXAM = set(re.findall(r"(?m)^\*\*(\d+[a-z])\*\* \(",
                      (ROOT / "notebooks" / "EXAM.md").read_text(encoding="utf-8")))
RUNS = {"preset": {*PRESETS, *all_claims(PRESETS)}, "experiment": EXPERIMENTS,
        "count": PUBLISHED, "verb": VERBS,
        "exercise": EXERCISES, "notebook": NOTEBOOKS, "exam": EXAM}
TESTS = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
FIELDS = ("code", "picture", "run", "tests")
ROWS = [row for deck in DECKS.values() for row in deck.rows]


def exists(field, name):
    """Whether what a name in a field of a row refers to is there."""
    if field == "tests":
        return name.partition("::")[0] in TESTS
    if field == "picture" and not name.startswith("plots."):
        return name.startswith("figures/") and (ROOT / name).is_file()
    if field == "run":
        kind, _, which = name.partition(":")
        which = which.partition(" ")[0]                               # a verb has arguments
        return (int(which) if kind in ("exercise", "notebook") else which) in RUNS[kind]
    try:
        return find(name) is not None
    except LookupError:
        return False


NAMES = {(field, name) for row in ROWS for field in FIELDS for name in getattr(row, field)}


def test_every_name_leads_somewhere():
    dead = sorted(f"{field} {name}" for field, name in NAMES if not exists(field, name))
    assert dead == []


@pytest.mark.parametrize("field, name", [
    ("code", "functional.softmaxes"), ("code", "layers.LSTM.steps"), ("code", "nothing"),
    ("picture", "figures/none.png"), ("picture", "plots.none"),
    ("run", "preset:none"), ("run", "experiment:none"), ("run", "exercise:99"),
    ("run", "notebook:99"), ("run", "count:none"), ("run", "exam:99a"),
    ("run", "verb:none"), ("tests", "test_none")])
def test_a_dead_name_is_found(field, name):
    assert not exists(field, name)


@pytest.mark.parametrize("deck", DECKS.values(), ids=DECKS)
def test_rows_slides_and_slips_ascend_and_fill_the_deck(deck):
    firsts = [row.lines[0] for row in deck.rows]
    assert firsts[0] == 1 and firsts == sorted(set(firsts))
    assert [row.lines[1] + 1 for row in deck.rows] == [*firsts[1:], deck.n_lines + 1]
    for numbered in (deck.slides, deck.slips):
        lines = [entry.line for entry in numbered]
        assert lines == sorted(set(lines)) and 1 <= lines[0] and lines[-1] <= deck.n_lines
    assert [slide.number for slide in deck.slides] == list(range(1, len(deck.slides) + 1))
    assert all(1 <= len(words) <= 100 and words == words.strip() for words in
               [slide.heading for slide in deck.slides] + [slip.text for slip in deck.slips])


@pytest.mark.parametrize("deck", DECKS.values(), ids=DECKS)
def test_every_heading_has_a_row_of_its_own(deck):
    new = [slide.line for slide, before in zip(deck.slides, (None, *deck.slides))
           if before is None or slide.heading != before.heading]
    firsts = [row.lines[0] for row in deck.rows]
    for heading, following in zip(new, (*new[1:], deck.n_lines + 1)):
        at = deck.row_at(heading).lines[0]
        assert heading - at <= 4 or any(heading <= first < following for first in firsts), heading


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.deck}{row.lines[0]}" for row in ROWS])
def test_a_row_is_whole(row):
    assert row.title and len(row.title) <= 90 and not row.title.endswith(".")
    assert bool(row.code) != bool(row.reason), "either code, or a reason why there is none"
    assert not row.code or row.run or row.picture, "nothing to run and nothing to see"
    assert row.slides and row.slides[0].line <= max(row.lines[0], 3)
    for field in FIELDS:
        names = getattr(row, field)
        assert isinstance(names, tuple) and len(names) == len(set(names))
    assert set(row.picture) <= set(PICTURES)
    assert all(name.partition(":")[0] in RUNS for name in row.run)


def test_every_misprint_of_the_conventions_is_named_by_each_deck_that_has_it():
    for place, claim, _ in conventions():
        for letter in re.match("[A-E](, [A-E])*(?=, )", place)[0].split(", "):
            assert any((place, claim) == found[:2] for slip in DECKS[letter].slips
                       for found in misprint(slip.place)), (place, claim)


def test_every_slip_is_one_misprint_of_the_conventions():
    assert [slip for deck in DECKS.values() for slip in deck.slips
            if len(misprint(slip.place)) != 1] == []
    assert len(misprint("A, RMSNorm")) > 1 and misprint("A, nothing") == []


def test_the_row_of_a_line_is_the_nearest_one_at_or_before_it():
    deck = DECKS["B"]
    for row in deck.rows:
        first, last = row.lines
        assert deck.row_at(first) is deck.row_at(last) is row
        assert all(first <= slip.line <= last for slip in row.slips)
    assert deck.row_at(133).slides == (deck.slides[12],)          # it begins above the line
    for line in (0, -1, deck.n_lines + 1):
        with pytest.raises(ValueError, match=f"deck B: line {line} must be one of its 620 lines"):
            deck.row_at(line)
