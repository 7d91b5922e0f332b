"""The causes that `check` names are those that a person has judged (judged_causes.py)."""

import pytest
from answers import WRONG
from judged_causes import SEEDS, judged, named

JUDGED = judged()


@pytest.mark.parametrize("answer", WRONG[::30], ids=str)
def test_the_cause_of_some_wrong_answers_is_the_judged_one(answer):
    assert named(answer, SEEDS[0]) in JUDGED[answer.fn.__name__]


@pytest.mark.slow
@pytest.mark.parametrize("answer", WRONG, ids=str)
def test_the_cause_of_every_wrong_answer_is_the_judged_one(answer):
    assert named(answer, SEEDS[0]) in JUDGED[answer.fn.__name__]


def test_a_cause_is_named_for_three_quarters():
    assert set(JUDGED) == {answer.fn.__name__ for answer in WRONG}
    assert sum("" not in causes for causes in JUDGED.values()) >= 0.75 * len(WRONG)
