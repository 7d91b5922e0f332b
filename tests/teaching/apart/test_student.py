"""A student's file, asked by a judge: its answers to questions, its signature, its end."""

import numpy as np
import pytest

from numformer.teaching.apart import student
from numformer.teaching.apart.student import plain_value
from numformer.teaching.judge import judge


@pytest.fixture(params=[True, False], ids=["apart", "here"])
def process(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(student, "can_fork", lambda: False)
    elif not student.can_fork():
        pytest.skip("no fork")
    return request.param


def judged(tmp_path, name, source, seed=0):
    path = tmp_path / "student.py"
    path.write_text(source)
    return judge(str(path), name, seed, seconds=10.0)


SOFTMAX = ("import numpy as np\n\n\ndef softmax({}):\n"
           "    p = np.exp(x - x.max(-1, keepdims=True))\n"
           "    return p / p.sum(-1, keepdims=True)\n")


def test_the_signature_that_counts_is_that_of_the_exercise(tmp_path, process):
    assert judged(tmp_path, "01_softmax", SOFTMAX.format("x"))["score"] == 1
    assert judged(tmp_path, "01_softmax", SOFTMAX.format("x, axis=-1"))["score"] == 1
    found = judged(tmp_path, "01_softmax", SOFTMAX.format("*, x"))
    assert found["score"] == 0 and "it raised TypeError" in found["feedback"]
    source = ("import numpy as np\n\n\ndef softmax_backward(dp, saved):\n"
              "    p = saved[0]\n    return p * (dp - (p * dp).sum(-1, keepdims=True))\n")
    found = judged(tmp_path, "02_softmax_backward", source)
    assert found["score"] < 1 and "writes" not in found["feedback"]


def test_a_function_that_writes_into_its_argument_loses_points(tmp_path, process):
    source = SOFTMAX.format("x").replace("    p =", "    x -= 1\n    p =")
    found = judged(tmp_path, "01_softmax", source)
    assert 0.5 < found["score"] < 1 and "it writes into its argument x" in found["feedback"]


def test_answers_are_plain_values(tmp_path, process):
    source = ("import numpy as np\n\n\nclass Equal(str):\n    __eq__ = lambda *_: True\n"
              "    __hash__ = None\n    strip = lower = lambda self: self\n\n\n"
              "def answers():\n    return {{'allowed': {0}, 'first': {0}, 'layers': {0}}}\n")
    for value in ("Equal('a')", "np.nan", "[]", "10 ** 400", "type('A', (float,), {'__eq__': 1})"):
        found = judged(tmp_path, "31_figure_mask", source.format(value))
        assert found["score"] == 0 and "0 of 3 right" in found["feedback"], value


@pytest.mark.parametrize("given, found", [
    (np.float64(1.5), 1.5), (np.array([2]), 2), (np.arange(3), [0, 1, 2]), (np.bool_(True), True),
    ((1, "a", None), [1, "a", None]), ({1: 2.5}, {"1": 2.5}), (np.inf, None), (10 ** 30, None),
    (object(), None), (np.zeros(1000), None), ([[[[1]]]], [[[None]]]), (b"a", None),
    (np.str_("a"), "a"), (1j, None), (["a"] * 200, ["a"] * 100)])
def test_plain_values(given, found):
    assert plain_value(given) == found and type(plain_value(given)) is type(found)


@pytest.mark.parametrize("source, words", [
    ("import os\nos._exit(3)\n", "without an answer: it ended Python (exit status 3)"),
    ("import os\nos.abort()\n", "without an answer: it crashed Python (SIGABRT)"),
    ("def softmax(x):\n    import os\n    os._exit(3)\n", "it ended Python (exit status 3)"),
    pytest.param("def softmax(x):\n    return sum(range(10 ** 15))\n", "could not be interrupted",
                 marks=pytest.mark.slow)])
def test_the_end_of_its_process_is_named(tmp_path, source, words):
    path = tmp_path / "student.py"
    path.write_text(source)
    found = judge(str(path), "01_softmax", 0, seconds=0.5)
    assert found["score"] == 0 and words in found["feedback"]
