"""Requests arrive as they were; answers are arrays and numbers, or no answer, whatever was sent."""

import numpy as np
import pytest

from numformer.specifications import PROBLEMS, Instance
from numformer.teaching.apart import messages
from numformer.teaching.apart.messages import (
    MOST_AXES, RAISED, WORD, WRITES, NoAnswer, Strange, Trouble, plain, read_answer, read_request,
    write_answer, write_request)

NAMES = sorted(PROBLEMS)


def arrays(x):
    if isinstance(x, np.ndarray):
        return [x]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [array for part in parts for array in arrays(part)]


def steps(x):
    """The strides of an array that matter."""
    return [stride for stride, size in zip(x.strides, x.shape) if size > 1]


@pytest.mark.parametrize("name", NAMES)
def test_arguments_and_saved_arrive_with_their_layout(name):
    for level in PROBLEMS[name].levels:
        instance = Instance(PROBLEMS[name], level, seed=4)
        sent = (*instance.arguments(), instance.saved(), instance.dy())
        found = read_request(write_request(sent)[WORD:])
        assert len(arrays(found)) == len(arrays(sent))
        for x, y in zip(arrays(sent), arrays(found)):
            assert x.dtype == y.dtype and steps(x) == steps(y)
            assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
            assert not np.may_share_memory(x, y)


def test_a_view_has_the_memory_around_it():
    x = np.arange(24.0).reshape(4, 6)
    for view in (x[::-2, 1::2], x.T[1:], x[:2][::-1], np.asfortranarray(x)[1:, ::2]):
        found = read_request(write_request(view)[WORD:])
        assert found.strides == view.strides and np.array_equal(found, view)
        assert np.array_equal(found.base.ravel(), view.base.ravel("K")) or found.base.size == 24


OUTPUTS = (np.arange(6.0).reshape(2, 3), np.float32([[1], [np.nan]]), np.zeros((0, 3)),
           np.float64(np.inf), np.float32(2), -0.0, None, Strange("list"), Strange("matrix", ""),
           np.array(1.5))


def test_outputs_arrive_as_they_were():
    calls = [(OUTPUTS, None), (None, Trouble("it raised\nE: \ud800", RAISED)),
             (OUTPUTS[:1], Trouble("it writes", WRITES))]
    sent = write_answer(7, {"calls": calls, "shared": True})
    assert int.from_bytes(sent[:WORD]) == len(sent) - WORD
    found = read_answer(7, sent[WORD:])
    assert found["shared"] is True and [len(each) for each in found["calls"]] == [2, 2, 2]
    for x, y in zip(OUTPUTS, found["calls"][0][0], strict=True):
        assert type(x) is type(y)
        if isinstance(x, Strange):
            assert vars(x) == vars(y)
        elif x is not None:
            assert np.shape(x) == np.shape(y) and np.array_equal(x, y, equal_nan=True)
            assert np.asarray(x).dtype == np.asarray(y).dtype
    assert found["calls"][1][1].kind == RAISED and "\\ud800" in found["calls"][1][1]
    assert found["calls"][2][1].kind == WRITES
    with pytest.raises(NoAnswer):
        read_answer(8, sent[WORD:])


def test_what_is_no_answer_is_refused_and_nothing_else_happens():
    """Bytes changed, cut out, doubled; the header has them as often as the numbers."""
    rng = np.random.default_rng(5)
    sent = write_answer(1, {"calls": [(OUTPUTS, None), (None, Trouble("it raised E", RAISED))],
                            "shared": False, "trouble": ""})[WORD:]
    read, refused = 0, 0
    for _ in range(3000):
        data = bytearray(sent)
        for _ in range(rng.integers(1, 4)):
            start = int(rng.integers(len(data)))
            end = start + int(rng.integers(1, 9))
            data[start:end] = [bytes(rng.integers(0, 256, end - start, np.uint8)), b"",
                               bytes(data[start:end]) * 2, b"9" * 5, b"[["][rng.integers(5)]
        try:
            found = read_answer(1, bytes(data))
        except NoAnswer:
            refused += 1
            continue
        read += 1
        for outputs, trouble in found["calls"]:
            assert trouble is None or type(trouble) is Trouble
            for x in outputs or ():
                assert type(x) in (np.ndarray, np.float64, np.float32, float, Strange, type(None))
    assert read > 30 and refused > 1000


@pytest.mark.parametrize("calls", [
    "[[null, null]]", '[[[], ["raised", "E"]]]', '[[[["none"]], ["stopped", ""]]]', "[[[]]]",
    '[[[["array", "f8", [2, 3]]], null]]', '[[[["array", "O", [0]]], null]]', "3", "null", "{}",
    '[[[["array", "f8", [0, -1]]], null]]', '[[[["array", "f8", [0, 99999999999]]], null]]',
    '[[[["array", "f8", [true]]], null]]', '[[[["none", 1]], null]]', '[[[["exec", "1"]], null]]',
    '[[[["array", "f8", [' + ", ".join("0" * (MOST_AXES + 1)) + "]]], null]]",
    '[[[["number", "i8"]], null]]',
    '[[null, ["right", "E"]]]', '[[null, ["raised", 3]]]', '[[["none"], null]]', "[" * 10 ** 5])
def test_headers_of_another_form_are_refused(calls):
    header = ('{"calls": ' + calls + "}").encode()
    with pytest.raises(NoAnswer):
        read_answer(1, (1).to_bytes(WORD) + len(header).to_bytes(WORD) + header)


class Equal(np.ndarray):
    def __array_function__(self, *_):
        raise AssertionError("it was asked")

    __eq__ = __array_ufunc__ = __array_function__


@pytest.mark.parametrize("output, kind, came", [
    (np.zeros(2).view(Equal), "Equal", ""), (np.ma.zeros(2), "MaskedArray", ""),
    (np.zeros(2, bool), "ndarray", "one of bool"), ([1.0], "list", "list"),
    (np.zeros((1,) * 20), "ndarray", "one of 20 axes"), (1j, "complex", "complex"),
    (np.broadcast_to(0.0, 2 ** 40), "ndarray", "too large to compare"),
    (np.zeros(2, object), "ndarray", "one of object"), (np.float16(1), "float16", "float16")])
def test_all_else_is_named(output, kind, came):
    found = plain(output)
    assert type(found) is Strange and found.kind == kind
    assert found.came.endswith(came) and bool(found.came) == bool(came)


def test_numbers_of_other_classes_become_plain():
    one, two = (type("Float", (kind,), {"__eq__": lambda *_: True, "__float__": lambda _: 9.0})
                for kind in (float, np.float64))
    assert type(plain(one(2))) is float and plain(one(2)) == 2
    assert type(plain(two(2))) is np.float64
    x = np.arange(3.0)
    assert not np.may_share_memory(plain(x), x)


def test_whole_numbers_arrive_as_they_were():
    x = np.array([[2 ** 62 + 1, -3]])
    data = write_answer(1, {"calls": [((plain(x),), None)]})
    ((found,), _), = read_answer(1, data[WORD:])["calls"]
    assert found.dtype == np.int64 and np.array_equal(found, x)


def test_an_answer_has_bounds():
    assert messages.MOST_OF_ARRAY < messages.MOST and messages.MOST_OF_HEADER <= messages.MIB
    big = np.zeros(messages.MOST_OF_ARRAY // 8)
    assert len(write_answer(1, {"calls": [((plain(big),), None)]})) < messages.MOST
