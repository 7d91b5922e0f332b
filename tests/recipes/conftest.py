"""Fixtures of the tests of presets."""

from quick_pictures import small_pictures                             # noqa: F401
