"""Fixtures of the tests of presets."""

import pytest

from command import small_pictures                                    # noqa: F401
from tiny_presets import small_data


@pytest.fixture(scope="module")
def few_examples():
    """The tasks of all presets as they are, with few examples of each."""
    with small_data():
        yield
