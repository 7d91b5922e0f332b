"""Questions about pictures of two digits."""

import numpy as np
import pytest

from numformer.data import QUESTIONS, question_answer, two_digits


def test_every_answer_is_right_and_names_both_digits():
    for left in range(10):
        for right in range(10):
            for question in QUESTIONS[:-1]:
                sides, result = question_answer(question, left, right).split("=")
                assert sides[0] == str(left) and sides[-1] == str(right)
                assert eval(sides) == int(result)
            assert question_answer(QUESTIONS[-1], left, right) == str(max(left, right))


def test_each_half_of_a_picture_is_its_digit_at_some_height():
    digits = np.arange(1, 129, dtype=np.float32).reshape(2, 8, 8, 1)
    left, right = np.array([0, 1, 1] * 40), np.array([1, 1, 0] * 40)
    pictures = two_digits(digits, left, right, np.random.default_rng(0))
    heights = set()
    for picture, pair in zip(pictures, zip(left, right)):
        for half, which in zip(np.split(picture[..., 0], 2, axis=1), pair):
            first = int(half.any(axis=1).argmax())
            assert (half[first:first + 8] == digits[which, ..., 0]).all()
            assert np.count_nonzero(half) == 64
            heights.add(first)
    assert heights == set(range(9)) and pictures.dtype == np.float32


@pytest.mark.parametrize("question, left, words", [
    ("what is left/right?", 3, "question"), (QUESTIONS[0], 10, "left"), (QUESTIONS[0], -1, "left")])
def test_what_is_no_question_or_no_digit_is_refused(question, left, words):
    with pytest.raises(ValueError, match=words):
        question_answer(question, left, 7)
    with pytest.raises(ValueError, match="8=8"):
        two_digits(np.ones((1, 9, 8, 1)), np.array([0]), np.array([0]), np.random.default_rng(0))
    with pytest.raises(TypeError, match="rng"):
        two_digits(np.ones((1, 8, 8, 1)), np.array([0]), np.array([0]), 0)
