"""Slides lead to the exercises and exam questions that practise what is on them."""

import re
from pathlib import Path

import pytest

from numformer.teaching import all_exercises
from numformer.teaching.deck import DECKS
from numformer.teaching.deck import practice
from numformer.teaching.deck.practice import practice_of, practised
from numformer.teaching.deck.targets import find

ROOT = Path(__file__).parents[3]
EXAM = (ROOT / "notebooks" / "EXAM.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"(?m)^\*\*(\d+[a-z])\*\* \(", EXAM)
ON_NO_SLIDE = {
    "0a",                                             # arrays of NumPy
    "10b",                                            # weight decay
    "21b"}                                            # a layer cut in two parts
ROWS = [row for deck in DECKS.values() for row in deck.rows]
EXERCISES = all_exercises()


def leading_to(name):
    return [row for row in ROWS if name in row.run]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_every_exercise_is_reached_from_a_slide(exercise):
    assert leading_to(f"exercise:{int(exercise.name[:2])}")


@pytest.mark.parametrize("exercise", [exercise for exercise in EXERCISES
                                      if exercise.kind == "check"],
                         ids=lambda exercise: exercise.name)
def test_a_row_that_names_its_function_leads_to_it(exercise):
    """The function that is graded, of any seed, as the file itself says."""
    functions = {f"functional.{exercise.function(seed)}" for seed in range(12)}
    functions |= {name.removesuffix("_backward") for name in functions}
    rows = [row for row in ROWS if functions & {*row.code}]
    assert rows and all(f"exercise:{int(exercise.name[:2])}" in row.run for row in rows)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_is_reached_from_a_slide_or_is_on_none(question):
    assert bool(leading_to(f"exam:{question}")) != (question in ON_NO_SLIDE)


def test_what_practises_something_exists_and_so_does_what_it_practises():
    table = practice._TABLE
    assert {*table["exercises"]} <= {exercise.subject for exercise in EXERCISES}
    assert {*table["exam"]} | ON_NO_SLIDE == {*QUESTIONS}
    on_slides = {name for row in ROWS for name in row.code}
    for names in (*table["exercises"].values(), *table["exam"].values()):
        assert names == sorted(set(names), key=names.index) and set(names) <= on_slides
        assert all(find(name) is not None for name in names)


@pytest.mark.parametrize("place, name", [
    ("C 33", "exercise:22"), ("C 50", "exercise:6"), ("C 45-46", "exercise:40"),
    ("C 10", "exercise:2"), ("C 37", "exercise:2"), ("C 61", "exercise:31"),
    ("C 64", "exercise:31"), ("C 52", "exercise:34"), ("C 38", "exercise:4"),
    ("C 54-55", "exam:5c"), ("C 35", "exam:1c"), ("C 41", "exam:3c"), ("C 60", "exam:11c"),
    ("C 61", "exam:11c"), ("E 19", "exam:3a"), ("B 13", "exam:3b"), ("D 52-53", "exercise:37")])
def test_slides_that_a_lecturer_practises(place, name):
    assert place in [row.place for row in leading_to(name)]


def test_a_row_without_such_a_name_leads_to_nothing():
    assert practice_of(["functional.triplet_loss", "models.Bert"]) == ()
    assert practice_of([]) == () and "exercise:10" in practised()
