"""Answers in words: steps with points and a space for students, our answer for the key alone."""

import re

import pytest

from numformer.teaching import all_exercises
from numformer.teaching.exercise import find_exercise
from numformer.teaching.variants.folders import students_files
from numformer.teaching.variants.key import make_key
from numformer.teaching.variants.written import (
    BUG, DERIVATION, SPACE, handed_in, model_page, page, points_of, rubric, steps_of)

WRITTEN = [each for each in all_exercises() if steps_of(each, each.form(0))]
SLOW = ("34_figure_norms", "36_figure_steps")         # their answers are computed in seconds


def test_gradients_bugs_and_questions_are_answered_in_words():
    asked = {exercise.name: steps_of(exercise, exercise.form(0)) for exercise in all_exercises()}
    assert asked["02_softmax_backward"] == asked["40_block_backward"] == DERIVATION
    assert asked["25_bug_in_softmax_backward"] == BUG and len(asked["31_figure_mask"]) == 3
    assert asked["01_softmax"] == asked["37_adamw"] == ()
    for name, steps in asked.items():
        assert bool(steps) == ("_backward" in name or "_figure_" in name), name


@pytest.mark.parametrize("exercise", WRITTEN, ids=lambda exercise: exercise.name)
def test_each_step_has_its_points_and_a_space(exercise):
    form = exercise.form(1)
    text, steps = page(exercise, form), steps_of(exercise, form)
    points = [int(each) for each in re.findall(r"^## .*\((\d) points?\)$", text, re.MULTILINE)]
    assert points == [each for each, _ in steps] and sum(points) == points_of(exercise, form)
    assert text.count(f"\n{SPACE}\n") == len(steps)
    assert f"{sum(points)} points, marked by hand" in text


@pytest.mark.parametrize("exercise", [
    pytest.param(each, marks=pytest.mark.slow) if each.name in SLOW else each for each in WRITTEN],
    ids=lambda exercise: exercise.name)
def test_our_answer_is_in_the_key_alone(exercise):
    form = exercise.form(1)
    model, given = model_page(exercise, form), page(exercise, form)
    assert SPACE not in model and exercise.solution(form) in model
    assert all(idea in model and idea not in given for idea in exercise.ideas)
    assert re.findall("^## .* points?\\)$", given, re.MULTILINE) == [
        line for line in re.findall("^## .*", model, re.MULTILINE) if line in given]
    if exercise.bug(form) is not None:
        assert exercise.bug(form) in model and re.search("For example: .*(wrong|must have)", model)
    if exercise.kind == "check":
        assert "$$" in model and ":math:" not in model and ".. math" not in model


def test_answers_with_numbers_are_computed_for_their_form():
    exercise = find_exercise("figure_tiles")
    module = {}
    exec(exercise.teacher((1, 1, 2)), module)
    for number in module["answers"]().values():
        assert f"`{number}`" in model_page(exercise, (1, 1, 2))


def test_questions_are_in_the_order_of_the_sheet():
    exercise = find_exercise("figure_mask")
    for order in range(6):
        form = (0, 0, order)
        asked = re.findall(r'^- "(\w+)"', exercise.student(form), re.MULTILINE)
        assert re.findall(r'^## \d\. "(\w+)"', page(exercise, form), re.MULTILINE) == asked


def test_lines_of_ones_own_are_counted(tmp_path):
    key, exercise = make_key(["2"], "term"), find_exercise("2")
    path, text = tmp_path / f"{exercise.name}.md", students_files(make_key(["2"]))[
        "02_softmax_backward.md"]
    for given, lines in ((text, 0), (text.replace("\n", "\r\n\n"), 0),
                         (text.replace(SPACE, "p is\na row", 1), 2),
                         (text + "\n" + SPACE, 1), ("all mine\n", 1), ("", 0), ("\x00\udcff\n", 1)):
        path.write_bytes(given.encode("utf-8", "surrogateescape"))
        assert handed_in(tmp_path, exercise, key) == {"of": 4, "lines": lines}, given
    path.write_bytes(b"a\n" * 2**20)                  # too large
    assert handed_in(tmp_path, exercise, key) == {"of": 4, "lines": 0}
    path.unlink()
    path.symlink_to("/dev/zero")
    assert handed_in(tmp_path, exercise, key) == {"of": 4, "lines": 0}
    assert handed_in(tmp_path, find_exercise("1"), make_key(["1"])) is None


def test_a_rubric_is_one_line():
    assert rubric(DERIVATION).startswith("2 points for the terms: ") and "\n" not in rubric(BUG)
