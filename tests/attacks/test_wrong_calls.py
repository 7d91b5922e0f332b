"""Nothing wrong is accepted silently: a sample of `wrong_calls.py`, and all of it where slow."""

import pytest
from wrong_calls import SHAPES, outcome, wrong_calls


def answers(every):
    """(name, position, kind, outcome) of each N-th wrong call that is not refused."""
    for name, position, kind, call in list(wrong_calls())[::every]:
        found = outcome(call)
        if found != "refused" and not (found == "accepted" and kind in SHAPES):
            yield name, position, kind, found


def test_a_wrong_call_ends_in_an_error_that_says_what_is_wrong():
    assert list(answers(every=23)) == []


@pytest.mark.slow
def test_every_wrong_call_ends_in_an_error_that_says_what_is_wrong():
    assert len(list(wrong_calls())) > 5000
    assert list(answers(every=1)) == []


def test_an_error_by_chance_is_not_called_an_answer():
    def unpack():
        raise ValueError("not enough values to unpack (expected 2, got 0)")

    assert outcome(unpack).startswith("refused by chance")
    assert outcome(lambda: None) == "accepted"
    assert outcome(lambda: 1 / 0) == "ZeroDivisionError: division by zero"
