"""Large arrays whose memory is used again: a step of training makes the same ones as the step before.

Memory that comes fresh from the system comes page by page, and each page costs about a microsecond when it is first touched: for
a small model a fifth of a step. So what an array gives back when nobody holds it any more waits here for the next of its size.
"""

import ctypes
import math
import os
import threading
from functools import lru_cache

import numpy as np

LEAST = 2**16                                                         # bytes: below, the C library keeps memory itself
MOST = 2**29                                                          # bytes that may wait here

_lock = threading.RLock()                                             # an array may go while this thread asks for another
_waiting = {}                                                         # size: blocks
_bytes = 0


def new_array(shape, dtype):
    """Like `np.empty`."""
    size = math.prod(shape) * dtype.itemsize
    if size < LEAST:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, _lease(size))


def new_like(x):
    """Like `np.empty` of the shape and dtype of x."""
    return new_array(x.shape, x.dtype)


def forget():
    """Give all memory that waits back to the system."""
    global _bytes
    with _lock:
        _waiting.clear()
        _bytes = 0


def _lease(size):
    """Memory of so many bytes, from those that wait or new: an array on it, or a view of one, keeps it from the others."""
    global _bytes
    with _lock:
        block = _waiting[size].pop() if _waiting.get(size) else None
        _bytes -= size if block else 0
    if block is None:
        memory = np.empty(size, np.uint8)
        block = memory.ctypes.data, memory
    lease = _kind(size).from_address(block[0])
    lease.block = block
    return lease


def _give_back(lease):
    global _bytes
    size = ctypes.sizeof(lease)
    with _lock:
        if _bytes + size <= MOST:
            _waiting.setdefault(size, []).append(lease.block)
            _bytes += size


@lru_cache(maxsize=None)
def _kind(size):
    """A type of ctypes for a lease of that size, which tells us when its last array is gone."""
    return type("Lease", (ctypes.c_char * size,), {"__del__": _give_back})


def _begin_anew():
    """In a forked child: whoever held the lock stayed behind in the parent."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
