"""Marks of parametrized tests."""

import pytest


def slow_among(values, slow):
    """All values, as parameters of a test; those in `slow` have the marker slow."""
    values, slow = list(values), set(slow)
    assert slow <= set(values), f"no such values: {slow - set(values)}"
    return [pytest.param(value, marks=pytest.mark.slow) if value in slow else value
            for value in values]
