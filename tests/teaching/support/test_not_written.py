"""A starter runs, and is not written yet: no error, no traceback, and the way to a hint."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.teaching import Verdict, check


def dots(dy, x):
    """The gradient of x."""
    ...


def stub(dy, x):
    raise NotImplementedError("your turn")


def passes(dy, x):
    pass


def none(dy, x):
    return None


@pytest.mark.parametrize("fn", [dots, stub, passes, none, lambda dy, x: ..., lambda dy, x: None])
def test_a_starter_is_not_written_yet(fn):
    verdict = check("softmax_backward", fn, seed=0)
    assert not verdict and not verdict.written and verdict.cause == ""
    assert verdict.text == ('softmax_backward: not written yet. hint("softmax_backward") gives the '
                            "first hint.\nseed=0")
    assert "not written yet</strong>" in verdict._repr_html_()


def test_a_missing_return_is_named():
    def forgotten(dy, x):
        p = np.exp(x)
        p /= p.sum()

    verdict = check("softmax_backward", forgotten, seed=0)
    assert not verdict.written and "it returns None (is the last line a `return`?)" in verdict.text


def test_what_is_missing_after_a_level_is_right_is_an_error():
    def on_plain_numbers(x, axis=-1):
        return F.softmax(x)[0] if axis == -1 else None

    verdict = check("softmax", on_plain_numbers, seed=0)
    assert not verdict and "passed before: plain" in verdict.text


def test_a_right_and_a_wrong_function_are_written():
    assert check("linear", lambda x, weight, bias: x @ weight + bias, seed=0).written
    assert check("linear", lambda x, weight, bias: x @ weight, seed=0).written


def test_without_a_cause_a_verdict_says_what_differs():
    def doubled(dy, x):
        return 2 * F.relu_backward(dy, F.relu(x)[1])

    with_cause, without = (check("relu_backward", doubled, 0, cause=cause)
                           for cause in (True, False))
    assert with_cause.cause and without.cause == "" and "Likely cause" not in without.text
    assert without.index == with_cause.index and without.found == with_cause.found


def test_a_verdict_is_set_in_eighty_columns_with_four_digits():
    verdict = Verdict(False, "f: dx is wrong: found 0.123456789, reference -2.5, relative error 1. "
                      + "word " * 40 + "\nLikely cause: `0.044715 * x` is 0.333333 times the rest.")
    lines = str(verdict).splitlines()
    assert max(map(len, lines)) <= 80 and "found 0.1235, reference -2.5, relative" in str(verdict)
    assert "`0.044715 * x` is 0.3333 times" in lines[-1] and "0.123456789" in verdict.text


def test_a_reference_alone_has_four_digits():
    assert str(Verdict(False, "where the reference is 1.25245e-181.")).endswith("1.252e-181.")
    assert str(Verdict(False, "where the reference is 2.")).endswith("is 2.")


def test_numbers_that_differ_are_shown_different():
    assert "found 1.00001, reference 1," in str(Verdict(False, "found 1.00001, reference 1, so."))
    assert "found 1, reference 1, so" in str(Verdict(False, "found 1, reference 1, so."))


@pytest.mark.parametrize("verdict, sign", [
    (Verdict(True, "right: <f>"), "\u2713 right"), (Verdict(False, "wrong <f>"), "\u2717 wrong"),
    (Verdict(False, "f: not <f>", written=False), "\u2026 not written yet")])
def test_a_box_in_a_notebook_has_a_word_and_a_sign(verdict, sign):
    page = verdict._repr_html_()
    assert f"<strong>{sign}</strong>" in page and "&lt;f&gt;" in page and "<f>" not in page
