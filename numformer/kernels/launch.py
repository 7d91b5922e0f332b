"""Between Python and a kernel of attention: what it takes, in what tiles, where it works, and of what types its arguments are."""

import threading
from functools import lru_cache

import numpy as np
from numba import boolean, int32, int64, types, uint32

LARGEST_HEAD = 256


def in_turn(function, tasks):
    """Run tasks one after the other: `backend` has a pool for them."""
    for task in tasks:
        function(task)


def check_kernel_takes(owner, **arrays):
    """Raise a TypeError or ValueError for what the truth can do and the kernel cannot."""
    for name, x in arrays.items():
        if x is not None and x.dtype not in (np.float32, np.float64):
            raise TypeError(f"{owner}: the kernel takes float32 and float64, but {name} is {x.dtype}; "
                            "numformer.functional has the same function for complex numbers.")
        if name == "q" and x.shape[-1] > LARGEST_HEAD:
            raise ValueError(f"{owner}: the kernel takes heads of width D up to {LARGEST_HEAD}, but q has shape {x.shape}; "
                             "numformer.functional has the same function for any width.")


@lru_cache(maxsize=None)
def absent(real):
    """What stands for a mask, slopes and a bias that are not there."""
    return np.zeros((1, 1, 0, 0), bool), np.zeros(0, real), np.zeros((0, 0), real)


def with_rows(x):
    """x where each row is contiguous, and one lies behind the other: what BLAS can read. Else a copy."""
    size = x.itemsize
    fit = x.flags.aligned and x.strides[-1] == size and x.strides[-2] >= x.shape[-1] * size and type(x) is np.ndarray
    return x if fit else np.ascontiguousarray(np.asarray(x))


def by_tokens(room, shape):
    """An array (B, H, T, D) in which the heads of a token lie side by side: so they are one vector again without a copy."""
    B, H, T, D = shape
    return room.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def tile_size(T, S, D):
    """Rows and keys of a tile: chosen with `numformer bench attention`, so that its parts stay in the cache next to the processor."""
    if max(T, S) <= 128:
        return 64, 64
    return (128, 96) if D <= 64 else (64, 96) if D <= 128 else (64, 48)


_kept = threading.local()


def work_room(rows, keys, D, dtype):
    """Where one task works: eleven tiles, and the hashes of a tile's queries.

    Each tile begins where a cache line does. A thread keeps its room from call to call: fresh memory comes page by page,
    and for a small attention that takes longer than the attention.
    """
    wanted = rows, keys, D, dtype
    if getattr(_kept, "wanted", None) != wanted:
        line = 64 // np.dtype(dtype).itemsize
        size = -(-max(rows * keys, max(rows, keys) * D) // line) * line + 5 * line    # 5 lines more, lest all begin in one set of the cache
        block = np.empty(11 * size + line, dtype)
        start = -block.ctypes.data % 64 // block.itemsize
        block = block[start:start + 11 * size].reshape(11, size)
        _kept.wanted, _kept.room = wanted, (block, np.empty(rows, np.uint32))
    return _kept.room


def ranges(length, tile, parts):
    """Cut 0 .. length into so many ranges at borders of tiles."""
    tiles = -(-length // tile)
    borders = [min(length, tiles * part // parts * tile) for part in range(parts + 1)]
    return [(start, stop) for start, stop in zip(borders, borders[1:]) if start < stop]


def rule_types(real):
    """The types of the rules, the tile, the room and the tasks: the same for arrays of any strides, writable or not."""
    intervals, line, table = (types.Array(of, axes, "C", readonly=True) for of, axes in ((int32, 2), (real, 1), (real, 2)))
    return (intervals, intervals, types.Array(boolean, 4, "A", readonly=True), real, real, line, table, uint32, real, uint32,
            uint32, int64, int64, real[:, ::1], uint32[::1], int64[::1], int64, int64)


def any_strides(real):
    return types.Array(real, 4, "A", readonly=True)
