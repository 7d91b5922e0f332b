"""Fixtures of the tests of imported models."""

from command import small_pictures                                    # noqa: F401
