"""How many different files the seeds of an assignment give: pages for teachers say so."""

import re
from pathlib import Path

import pytest

from numformer.teaching import all_exercises
from numformer.teaching.assignment import teacher_guide

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NUMBERS = {"two or three": {2, 3}, "three": {3}}
SEEDS = range(100)
VARIETY = {exercise: len({exercise.student(seed) for seed in SEEDS})
           for exercise in all_exercises()}


def of(kind):
    return {n for exercise, n in VARIETY.items() if kind in exercise.name}


def test_bugs_activations_and_figures_are_as_many_as_is_said():
    assert of("_bug_in_") == {2, 3} and of("_activation") == {3} and min(of("_figure_")) == 3
    assert {exercise.kind for exercise, n in VARIETY.items() if n == 1} == {"check", "own"}
    assert all("_bug_in_" in exercise.name or "_activation" in exercise.name
               or "_figure_" in exercise.name for exercise, n in VARIETY.items() if n > 1)


@pytest.mark.parametrize("text", [
    (NOTEBOOKS / "README.md").read_text(encoding="utf-8"),
    (NOTEBOOKS / "TEACHING.md").read_text(encoding="utf-8"), teacher_guide(all_exercises(), 0)],
    ids=["README", "TEACHING", "GUIDE"])
def test_pages_promise_no_more(text):
    text = " ".join(text.split())
    assert re.search(r"two or three bugs, (one of )?three activation functions,? and (one of )?"
                     "three or more sets of numbers", text)
    assert not re.search("each seed gives|Each seed gives|gives other bugs", text)
