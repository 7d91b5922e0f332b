"""Questions about a picture of two digits, by rule: "what is left+right?", "3+7=10"."""

import operator

import numpy as np

from numformer.checks import check_array, check_choice, check_generator, check_whole

SIDE = 16                                                             # pixels of a picture
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
LARGER = "which is larger?"
QUESTIONS = (*(f"what is left{sign}right?" for sign in SIGNS), LARGER)


def question_answer(question, left, right):
    """The answer to one of `QUESTIONS` about a picture of two digits.

    Parameters
    ----------
    question : str
    left, right : int
        0 to 9.

    Raises
    ------
    ValueError, TypeError
        If it is none of the questions, or a number is no digit.

    Examples
    --------
    >>> [question_answer(question, 3, 7) for question in QUESTIONS]
    ['3+7=10', '3-7=-4', '3*7=21', '7']
    """
    check_choice("question_answer", "question", question, QUESTIONS)
    for name, digit in (("left", left), ("right", right)):
        check_whole("question_answer", name, digit, least=0)
        check_choice("question_answer", name, int(digit), range(10))
    if question == LARGER:
        return str(max(left, right))
    sign = question[len("what is left")]
    return f"{left}{sign}{right}={SIGNS[sign](int(left), int(right))}"


def two_digits(digits, left, right, rng):
    """Pictures of two digits next to each other, each at a random height.

    Parameters
    ----------
    digits : ndarray, shape (M, 8, 8, 1)
        Images such as those of `load_digits`.
    left, right : ndarray of int, shape (N,)
        Which of them.
    rng : numpy.random.Generator
        For the heights.

    Returns
    -------
    ndarray, shape (N, 16, 16, 1)

    Raises
    ------
    ValueError, TypeError
        If digits are no floats of that shape, or rng is no generator.

    Examples
    --------
    >>> one = np.ones((1, 8, 8, 1))
    >>> picture = two_digits(one, np.array([0]), np.array([0]), np.random.default_rng(0))[0, ..., 0]
    >>> picture.sum(axis=0)                              # every column holds a column of a digit
    array([8., 8., 8., 8., 8., 8., 8., 8., 8., 8., 8., 8., 8., 8., 8., 8.])
    """
    check_array("two_digits", "digits", digits, "(M, 8, 8, 1)", **{"8": 8, "1": 1})
    check_generator("two_digits", rng, optional=False)
    pictures = np.zeros((len(left), SIDE, SIDE, 1), digits.dtype)
    rows = rng.integers(0, SIDE - 8 + 1, (len(left), 2))
    for picture, pair, corners in zip(pictures, zip(left, right), rows):
        for side, (which, row) in enumerate(zip(pair, corners)):
            picture[row:row + 8, 8 * side:8 * side + 8] = digits[which]
    return pictures
