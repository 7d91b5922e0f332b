"""Slides lead to the exercises and exam questions that are about what is on them."""

import re
from pathlib import Path

import pytest

from numformer.teaching import all_exercises
from numformer.teaching.deck import DECKS
from numformer.teaching.deck import practice
from numformer.teaching.deck.practice import practice_of, practised

ROOT = Path(__file__).parents[3]
EXAM = (ROOT / "notebooks" / "EXAM.md").read_text(encoding="utf-8")
QUESTIONS = dict(re.findall(r"(?ms)^\*\*(\d+[a-z])\*\* \(.*?\)\. (.*?)</details>", EXAM))
ROWS = {(row.deck, row.lines[0]): row for deck in DECKS.values() for row in deck.rows}
EXERCISES = all_exercises()


def places(name):
    return [row.place for row in ROWS.values() if name in row.run]


def test_what_practises_something_exists_and_so_do_the_slides():
    table = practice._TABLE
    assert {*table["exercises"]} <= {exercise.subject for exercise in EXERCISES}
    assert {*table["exam"]} <= {*QUESTIONS} and len(QUESTIONS) == 52
    for text in (*table["exercises"].values(), *table["exam"].values()):
        assert re.fullmatch(r"\s*([A-E]( \d+)+\s+)*[A-E](\s+\d+)+|(\s*[A-E](\s+\d+)+)+", text), text
        for deck, lines in re.findall(r"([A-E])([\s\d]+)", text):
            numbers = [int(line) for line in lines.split()]
            assert numbers == sorted(set(numbers))
            assert all(ROWS[deck, line].code for line in numbers)


def test_lists_of_slides_reach_rows_and_no_others():
    led = {(name, place) for place, row in ROWS.items() for name in row.run
           if name.startswith(("exercise:", "exam:"))}
    assert led == {(name, place) for name, listed in practised().items() for place in listed}


@pytest.mark.parametrize("place, names", [
    ("A 12", "exercise:10 exam:5c"), ("A 13-16", "exam:5c exam:7a"), ("B 42-43", "exam:5c"),
    ("B 44", "exam:5c"), ("C 49", "exam:5c"), ("C 52", "exam:5c exercise:34"),
    ("C 53", "exam:5c exercise:40"), ("E 27", "exam:5c"), ("C 54-55", "exam:5c"),
    ("E 13", "exam:3a"), ("E 14", "exam:3a"), ("E 15", "exam:3a"), ("E 16", "exam:3a"),
    ("E 17", "exam:3a"), ("E 18", "exam:3a"), ("E 19", "exam:3a"), ("E 20", "exam:3a"),
    ("D 31-32", "exam:3a"), ("B 7", "exercise:15 exercise:27 exam:2b"), ("C 26", "exam:11a"),
    ("B 38", "exam:22a"), ("C 33", "exercise:22"), ("C 50", "exercise:6"),
    ("C 45-46", "exercise:40"), ("C 10", "exercise:2"), ("C 37", "exercise:2"),
    ("C 61", "exercise:31 exam:11c"), ("C 64", "exercise:31 exam:20a"), ("C 38", "exercise:4"),
    ("C 35", "exam:1c"), ("C 41", "exam:3c"), ("C 60", "exam:11c"), ("B 13", "exam:3b exam:18b"),
    ("D 52-53", "exercise:37 exam:11b"), ("D 50-52", "exercise:41 exam:15b"),
    ("A 23", "exam:6b"), ("B 39-40", "exam:11b"), ("D 48-49", "exam:5b"), ("B 8", "exercise:43")])
def test_slides_lead_to_what_is_about_them(place, names):
    assert all(place in places(name) for name in names.split())


@pytest.mark.parametrize("name, elsewhere", [
    ("exam:11b", "A 1-2, C 26, D 20-21, D 22-23, E 42-44"),             # teacher forcing
    ("exam:0b", "B 56, C 21, D 3, E 61-62, E 63, E 67"),                # a table of bigrams
    ("exam:4a", "D 31-32, E 13, E 14, E 19, E 20, E 34-35, C 36, C 32, A 16"),   # a count
    ("exam:12b", "C 3"), ("exam:18a", "E 71"), ("exam:22a", "E 14, E 17, A 4, C 8, B 34"),
    ("exam:16a", "D 8"), ("exam:13b", "B 6, B 52-53"), ("exercise:31", "B 6, E 60"),
    ("exam:15a", "B 52-53"), ("exercise:28", "B 37, C 24, C 45-46, E 26")])
def test_slides_do_not_lead_to_what_shares_a_function_only(name, elsewhere):
    assert not {*elsewhere.split(", ")} & {*places(name)}


def test_a_row_that_is_in_no_list_leads_to_nothing():
    assert practice_of("A", 1) == () == practice_of("X", 404)
    assert "exercise:13" in practice_of("A", 404) and "exercise:13" not in practice_of("B", 404)
