"""Between Python and the attention kernels: what they take, tile sizes, workspaces, types."""

import threading

import numpy as np
from numba import boolean, int32, int64, types, uint32

MAX_HEAD_WIDTH = 256


def check_kernel_takes(owner, **arrays):
    """Raise a TypeError or ValueError for what the reference can take and the kernel cannot."""
    for name, x in arrays.items():
        if x is not None and x.dtype not in (np.float32, np.float64):
            raise TypeError(f"{owner}: the kernel takes float32 and float64, but {name} is "
                            f"{x.dtype}; numformer.functional has the same function for complex "
                            "numbers.")
        if name in ("q", "v") and x.shape[-1] > MAX_HEAD_WIDTH:
            raise ValueError(f"{owner}: the kernel takes heads of width D up to {MAX_HEAD_WIDTH}, "
                             f"but {name} has shape {x.shape}; numformer.functional has the same "
                             "function for any width.")


def by_tokens(memory, shape):
    """An array (B, H, T, D) with the heads of a token next to each other.

    So a token's heads can be viewed as one vector again without a copy.
    """
    B, H, T, D = shape
    return memory.reshape(B, T, H, D).transpose(0, 2, 1, 3)


_kept = threading.local()


def task_workspace(rows, keys, D, dtype):
    """The workspace of one task: eleven tiles, and the hashes of a tile's queries.

    Each tile begins at a cache line. A thread keeps its workspace from call to call: fresh memory
    comes page by page, which for a small attention takes longer than the attention itself.
    """
    wanted = rows, keys, D, dtype
    if getattr(_kept, "wanted", None) != wanted:
        line = 64 // np.dtype(dtype).itemsize
        size = -(-max(rows * keys, max(rows, keys) * D) // line) * line
        size += 5 * line                # or all tiles would begin in the same set of the cache
        block = np.empty(11 * size + line, dtype)
        start = -block.ctypes.data % 64 // block.itemsize
        block = block[start:start + 11 * size].reshape(11, size)
        _kept.wanted, _kept.workspace = wanted, (block, np.empty(rows, np.uint32))
    return _kept.workspace


def ranges(length, tile, parts):
    """Split 0 .. length into at most `parts` ranges at borders of tiles."""
    tiles = -(-length // tile)
    borders = [min(length, tiles * part // parts * tile) for part in range(parts + 1)]
    return [(start, stop) for start, stop in zip(borders, borders[1:]) if start < stop]


def option_types(real):
    """The types of the options, the tile, the workspace, the queue and the task numbers.

    They are the same for arrays of any strides, writable or not.
    """
    intervals = types.Array(int32, 2, "C", readonly=True)
    mask = types.Array(boolean, 4, "A", readonly=True)
    slopes, bias = (types.Array(real, axes, "C", readonly=True) for axes in (1, 2))
    return (intervals, intervals, mask, real, real, slopes, bias, uint32, real, uint32, uint32,
            int64, int64, real[:, ::1], uint32[::1], int64[::1], int64, int64)
