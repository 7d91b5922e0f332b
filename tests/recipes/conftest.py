"""Fixtures of the tests of presets."""

from command import small_pictures                                    # noqa: F401
