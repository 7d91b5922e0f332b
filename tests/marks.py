"""Marks of parametrized tests: what runs in every run, and what is slow."""

import pytest


def slow_among(values, slow):
    """All values, as parameters of a test; those in `slow` have the marker slow."""
    values, slow = list(values), set(slow)
    assert slow <= set(values), f"no such values: {slow - set(values)}"
    return [_slow(value) if value in slow else value for value in values]


def quick_among(values, quick):
    """All values, as parameters of a test; those that are not in `quick` have the marker slow."""
    values, quick = list(values), set(quick)
    assert quick <= set(values), f"no such values: {quick - set(values)}"
    return slow_among(values, set(values) - quick)


def every(n, values):
    """All values, as parameters of a test; all but each `n`-th have the marker slow."""
    return [value if place % n == 0 else _slow(value) for place, value in enumerate(values)]


def _slow(value):
    """The same parameter, or tuple of parameters, with the marker slow."""
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.slow])
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
