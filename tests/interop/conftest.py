"""Fixtures of the tests of imported models."""

from chat_folder import chat_folder, chat_run                          # noqa: F401
from command import small_pictures                                    # noqa: F401
