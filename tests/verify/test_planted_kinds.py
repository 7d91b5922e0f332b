"""gradcheck finds every kind of bug in layers and pairs of functions, and names what is wrong."""

import copy

import pytest

import planted_kinds
from numformer.verify import gradcheck


@pytest.mark.parametrize("bug", planted_kinds.BUGS, ids=lambda bug: bug[0])
def test_a_kind_of_bug_is_found_and_named(bug):
    _, layer, inputs, more, words = copy.deepcopy(bug)
    report = gradcheck(layer, inputs, **more)
    assert not report.ok and words in str(report), str(report)


def test_there_are_enough_kinds():
    names = [name for name, *_ in planted_kinds.BUGS]
    assert len(names) == len(set(names)) >= 110


@pytest.mark.parametrize("page", [
    planted_kinds.memory.Scale, planted_kinds.state.Scale,
    lambda: planted_kinds.results.Doubled(2.0, 2.0)], ids=["memory", "state", "results"])
def test_without_the_bug_the_layer_is_right(page):
    assert gradcheck(page(), [planted_kinds.state.X], float32=True).ok
