"""Large arrays whose memory is reused: a training step allocates the same ones as the step before.

Fresh memory comes from the system page by page, and each page costs about a microsecond when it is
first touched: for a small model a fifth of a step. So the memory of an array that nobody holds any
more is kept here for the next array of its size.
"""

import ctypes
import math
import os
import threading
from functools import lru_cache

import numpy as np

SMALLEST = 2**16                        # bytes: below, the C library reuses memory itself
LARGEST_RESERVE = 2**29                 # bytes kept here at most

_lock = threading.RLock()               # reentrant: arrays may be freed during an allocation
_free = {}                              # size: blocks
_free_bytes = 0


def new_array(shape, dtype):
    """Like `np.empty`."""
    size = math.prod(shape) * dtype.itemsize
    if size < SMALLEST:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, _allocate(size))


def new_like(x):
    """Like `np.empty` of the shape and dtype of x."""
    return new_array(x.shape, x.dtype)


def release():
    """Return all memory that is kept here to the system."""
    global _free_bytes
    with _lock:
        _free.clear()
        _free_bytes = 0


def _allocate(size):
    """A buffer of `size` bytes, reused or new; it is kept until no array or view refers to it."""
    global _free_bytes
    with _lock:
        block = _free[size].pop() if _free.get(size) else None
        _free_bytes -= size if block else 0
    if block is None:
        memory = np.empty(size, np.uint8)
        block = memory.ctypes.data, memory
    buffer = _buffer_type(size).from_address(block[0])
    buffer.block = block
    return buffer


def _keep(buffer):
    global _free_bytes
    size = ctypes.sizeof(buffer)
    with _lock:
        if _free_bytes + size <= LARGEST_RESERVE:
            _free.setdefault(size, []).append(buffer.block)
            _free_bytes += size


@lru_cache(maxsize=None)
def _buffer_type(size):
    """A ctypes type of that size, whose destructor runs when its last array is gone."""
    return type("Buffer", (ctypes.c_char * size,), {"__del__": _keep})


def _reset_after_fork():
    """In a forked child: the thread that held the lock exists in the parent only."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
