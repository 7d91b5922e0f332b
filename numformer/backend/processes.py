"""Whether this system can start processes, and fork: decided here only.

In a browser Python has `os.fork` and `subprocess`, and both fail when they are called.
"""

import os
import sys

WITHOUT = ("emscripten", "wasi")                      # WebAssembly has one process


def has_processes():
    """Whether processes can be started: not in a browser."""
    return sys.platform not in WITHOUT


def can_fork():
    """Whether a process can be forked: not on Windows, and not in a browser."""
    return has_processes() and hasattr(os, "fork")
