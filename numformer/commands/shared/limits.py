"""Limits of this process that are too small: the libraries below us would abort it, or wait.

OpenBLAS and LLVM end a process that gets no memory, with words of their own or none, and a stack of
a few pages ends in a signal. Nothing heavy is imported here.
"""

import os

from numformer.commands import UsageError
from numformer.files import MIB, size_in_words

try:
    import resource
except ImportError:                                   # Windows, and browsers
    resource = None

MEMORY, MEMORY_OF_A_CORE = 896 * MIB, 64 * MIB        # of addresses: Numba; buffers and stacks
MOST_CORES = 64                                       # for which OpenBLAS has buffers
STACK = MIB


def check_limits():
    """UsageError if the memory or the stack of this process is limited too much.

    These are least amounts for small models: more may be needed, and then a `MemoryError` says so.
    """
    if resource is None:
        return
    memory = MEMORY + MEMORY_OF_A_CORE * min(os.cpu_count() or 1, MOST_CORES)
    for name, what, flag, least in (("RLIMIT_AS", "memory", "-v", memory),
                                    ("RLIMIT_STACK", "its stack", "-s", STACK)):
        limit, _ = resource.getrlimit(getattr(resource, name))
        if limit != resource.RLIM_INFINITY and limit < least:
            raise UsageError(f"this process may use {size_in_words(limit)} of {what} (ulimit "
                             f"{flag}), but needs {size_in_words(least)} at least; raise the "
                             f"limit, as with: ulimit {flag} {least // 1024}")
