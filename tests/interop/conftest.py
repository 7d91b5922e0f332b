"""Fixtures of the tests of imported models."""

from quick_pictures import small_pictures                             # noqa: F401
