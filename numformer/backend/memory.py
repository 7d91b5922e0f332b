"""Memory that arrays give back is kept for the next ones."""

import ctypes

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1                               # what glibc's mallopt calls them
LARGEST, KEPT = 32 * 2**20, 2**30


def keep_freed_memory():
    """Let the C library keep what arrays gave back, up to 1 GiB at the end of its heap, where it would return it to the system.

    A step of training makes the same arrays as the step before. Memory from the system comes anew, page by page, each of which
    costs about a microsecond: a fifth of a step of a small model. Only glibc (most of Linux) is told so; elsewhere nothing is done.

    Returns
    -------
    bool
        Whether the C library took it.

    References
    ----------
    The GNU C Library Reference Manual, "Malloc Tunable Parameters".
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):                      # another C library
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST)) and bool(mallopt(TRIM_THRESHOLD, KEPT))
