"""A form is what was chosen in an exercise: it stands wherever a seed does, and holds no seed."""

import re

import pytest

from numformer.teaching import all_exercises
from numformer.teaching.exercise import Exercise, find_exercise

EXERCISES = all_exercises()


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_a_form_is_its_seed(exercise):
    for seed in range(8):
        form = exercise.form(seed)
        assert exercise.is_form(form) and len(form) == len(exercise.options)
        for made in (exercise.student, exercise.teacher, exercise.solution, exercise.bug,
                     exercise.hints, exercise.function):
            assert made(form) == made(seed)


def test_all_forms_differ_and_there_are_no_others():
    exercise = find_exercise("figure_mask")
    assert exercise.options == (4, 3) and exercise.orders == 6
    forms = [(t, before, order) for t in range(4) for before in range(3) for order in range(6)]
    assert len({exercise.student(form) for form in forms}) == 72
    assert all(map(exercise.is_form, forms)) and exercise.is_form((3, 2))
    for form in ((), (1,), (4, 0), (0, 3), (-1, 0), (0, 0, 6), (0, 0, 0, 0), (True, 0), (0.0, 0),
                 ("0", 0)):
        assert not exercise.is_form(form)
    assert not find_exercise("01_softmax").is_form((0,))          # it has no questions


@pytest.mark.parametrize("exercise", [each for each in EXERCISES if each.questions],
                         ids=lambda exercise: exercise.name)
def test_an_order_moves_questions_and_changes_none(exercise):
    form = exercise.form(0)
    plain = exercise.student(form)
    assert exercise.student((*form, 0)) == plain
    asked = re.findall(r'^- "(\w+)":', plain, re.MULTILINE)
    assert tuple(asked) == exercise.questions and len(asked) >= 3
    orders = {tuple(re.findall(r'^- "(\w+)":', exercise.student((*form, order)), re.MULTILINE))
              for order in range(exercise.orders)}
    assert len(orders) == exercise.orders and all(sorted(each) == sorted(asked) for each in orders)
    for order in range(exercise.orders):
        assert sorted(exercise.student((*form, order)).split()) == sorted(plain.split())


def test_a_question_may_be_asked_first():
    """No text of a question refers to the one above it."""
    for exercise in EXERCISES:
        text = exercise.source.split('"""')[1]
        for question in re.findall(r'^- "\w+": (.*)', text, re.MULTILINE):
            assert not re.match(r"(and|or|but|also|how many are)\b", question), question


def test_a_text_without_questions_has_one_order():
    exercise = Exercise("99_none", '"""A title.\n\nText.\n"""\n# goal: none\n# answers: above\n')
    assert exercise.questions == () and exercise.orders == 1 and exercise.form(3) == ()
