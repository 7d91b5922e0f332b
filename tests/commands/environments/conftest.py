"""Fixtures of the tests of other machines, on which a process of its own draws all pictures."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def small_pictures():
    """Pictures here have their usual size, as in that process."""
