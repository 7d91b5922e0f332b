"""The rules of the house hold, as `counts.py` counts them."""

import pytest

from counts import RULES, import_graph, position_classes, python_files, sizes


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_nothing_breaks_the_rule(rule):
    assert list(rule()) == []


@pytest.mark.slow
def test_the_rules_see_what_is_there():
    """The counters count something: the tree is found, and its imports are read."""
    assert len(python_files("numformer")) > 200 and len(list(sizes())) == 4
    assert {"RotaryPositions", "ALiBi"} <= position_classes()
    graph = import_graph()
    assert "numformer.functional.softmax" in graph
    assert any("numformer.parameter" in found for found in graph.values())
