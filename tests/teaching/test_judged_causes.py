"""The causes that `check` names are those that a person has judged (judged_causes.py)."""

import pytest
from answers import WRONG
from judged_causes import SEEDS, judged, named
from marks import every

JUDGED = judged()


@pytest.mark.parametrize("answer", every(70, WRONG), ids=str)
def test_the_cause_of_a_wrong_answer_is_the_judged_one(answer):
    assert named(answer, SEEDS[0]) in JUDGED[answer.fn.__name__]


def test_a_cause_is_named_for_three_quarters():
    assert set(JUDGED) == {answer.fn.__name__ for answer in WRONG}
    assert sum("" not in causes for causes in JUDGED.values()) >= 0.75 * len(WRONG)
