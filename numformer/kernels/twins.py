"""The compiled twins as Python calls them: the same names and signatures as in `functional/`."""

import threading

import numpy as np
from numba import boolean, float64, int32, int64, types, uint32

from numformer.checks import check_array
from numformer.functional.attention import check_attention, drops
from numformer.functional.dropout import dropout_threshold
from numformer.functional.pattern import EVERYWHERE
from numformer.kernels import attention
from numformer.kernels.compiled import Kernel

NAME = "scaled_dot_product_attention"
LARGEST_HEAD = 256


def in_turn(function, tasks):
    """Run tasks one after the other: `backend` has a pool for them."""
    for task in tasks:
        function(task)


def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None, softcap=None, dropout=0.0, seed=None,
                                 tasks=1, run=in_turn):
    """The twin of `numformer.functional.scaled_dot_product_attention`: the same numbers up to rounding, in O(T) memory.

    Parameters
    ----------
    q, k, v, pattern, scale, slopes, bias, softcap, dropout, seed
        As there; float32 or float64 throughout, and D at most 256. Any strides.
    tasks : int
        Into how many parts the work is cut. The result does not depend on it, to the bit.
    run : callable
        Called with a function and the numbers of the tasks; may call it from several threads at once.

    Returns
    -------
    o : ndarray, shape (B, H, T, D)
    saved : tuple
        The arguments, o, and of every row of scores the two parts of `log_sum_exp`.

    Raises
    ------
    ValueError, TypeError
        As there; and for other dtypes, complex ones among them, and wider heads.
    """
    scale = check_attention(q, k, pattern, scale, slopes, bias, softcap)
    check_array(NAME, "v", v, "(B, G, S, D)", q.dtype, **dict(zip("BGSD", k.shape)))
    dropping = drops(dropout, seed)
    (B, H, T, D), S = q.shape, k.shape[2]
    check_kernel_takes(q, k, v)
    real, seed = q.dtype.type, int(seed) if dropping else 0
    rules = (*pattern.intervals(T, S), _four_axes(pattern.mask), scale, real(softcap or 0),
             np.zeros(0, real) if slopes is None else slopes.astype(real),
             np.zeros((0, 0), real) if bias is None else np.ascontiguousarray(bias),
             dropout_threshold(dropout) if dropping else 0, real(1 / (1 - dropout)), seed >> 32, seed & 0xFFFFFFFF)
    q, k, v = _with_rows(q), _with_rows(k), _with_rows(v)
    o, (m, l) = np.empty((B, H, T, D), real), np.empty((2, B, H, T), real)
    tile = _tile(T, S, D)
    kernel = FORWARD[q.dtype]
    run(lambda task: kernel(q, k, v, *rules, *tile, *_room(*tile, D, real), task, tasks, o, m, l), range(tasks))

    saved = (q, k, v, o, m, l, rules, tile)
    return o, saved


def scaled_dot_product_attention_backward(do, saved, tasks=1, run=in_turn):
    """The twin of `numformer.functional.scaled_dot_product_attention_backward`.

    Where there are fewer key-value heads than tasks, the tasks share each head: some take the gradients of ranges of
    queries, others those of ranges of keys and values, and both make the weights anew. The bits are the same.
    """
    q, k, v, o, m, l, rules, tile = saved
    (B, H, T, D), G, S = q.shape, *k.shape[1:3]
    do, has_bias = _with_rows(do), rules[6].size > 0
    block = np.empty(q.size + k.size + v.size, q.dtype)               # one block for all three: three come at the price of page faults
    dq, dk = block[:q.size].reshape(q.shape), block[q.size:-v.size].reshape(k.shape)
    dv = block[-v.size:].reshape(v.shape)
    dbias = np.zeros((B, H, T + S - 1) if has_bias else (0, 0, 0))    # float64: a diagonal is long
    kernel = BACKWARD[q.dtype]

    def work(task, tasks, *part):
        kernel(do, q, k, v, o, m, l, *rules, *tile, *_room(*tile, D, q.dtype.type), task, tasks, *part, dq, dk, dv, dbias)

    if tasks <= B * G or has_bias:
        run(lambda task: work(task, tasks, 0, T, 0, S, True, True), range(tasks))
    else:
        parts = [(t0, t1, 0, S, True, False) for t0, t1 in _ranges(T, tile[0], tasks)]
        parts += [(0, T, s0, s1, False, True) for s0, s1 in _ranges(S, tile[1], tasks)]
        run(lambda part: work(0, 1, *part), parts)
    return (dq, dk, dv, dbias.sum(axis=0).astype(q.dtype)) if has_bias else (dq, dk, dv)


def log_sum_exp(saved):
    """log(sum_j exp(s_ij)) of every row of scores: float64, (B, H, T); -Inf for a query that may attend to nothing."""
    _, _, _, _, m, l, _, _ = saved
    with np.errstate(divide="ignore"):
        return m.astype(np.float64) + np.log(l.astype(np.float64))


def check_kernel_takes(q, k, v):
    """Raise a TypeError or ValueError for what the truth can do and the kernel cannot."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype not in (np.float32, np.float64):
            raise TypeError(f"{NAME}: the kernel takes float32 and float64, but {name} is {x.dtype}; "
                            "numformer.functional has the same function for complex numbers.")
    if q.shape[-1] > LARGEST_HEAD:
        raise ValueError(f"{NAME}: the kernel takes heads of width D up to {LARGEST_HEAD}, but q has shape {q.shape}; "
                         "numformer.functional has the same function for any width.")


def _four_axes(mask):
    return np.zeros((1, 1, 0, 0), bool) if mask is None else mask.reshape(1, 1, *mask.shape) if mask.ndim == 2 else mask


def _with_rows(x):
    """x where each row is contiguous and rows do not overlap, as BLAS wants them; else a copy."""
    row, number = x.strides[-2:]
    fine = x.flags.aligned and number == x.itemsize and row >= x.itemsize * x.shape[-1] and row % x.itemsize == 0
    return x if fine else np.ascontiguousarray(x)


def _tile(T, S, D):
    """Rows and keys of a tile: chosen with `numformer bench attention`, so that its parts stay in the cache next to the processor."""
    if max(T, S) <= 128:
        return 64, 32
    return (128, 96) if D <= 64 else (64, 96) if D <= 128 else (64, 48)


_kept = threading.local()


def _room(rows, keys, D, dtype):
    """Where one task works: numbers to hand to BLAS, fourteen tiles, and the hashes of a tile's queries.

    Each tile begins where a cache line does. A thread keeps its room from call to call: fresh memory comes page by page,
    and for a small attention that takes longer than the attention.
    """
    wanted = rows, keys, D, dtype
    if getattr(_kept, "wanted", None) != wanted:
        line = 64 // np.dtype(dtype).itemsize
        size = -(-max(rows * keys, max(rows, keys) * D) // line) * line + 5 * line    # 5 lines more, lest all begin in one set of the cache
        block = np.empty(15 * size + line, dtype)
        start = -block.ctypes.data % 64 // block.itemsize
        block = block[start:start + 15 * size].reshape(15, size)
        _kept.wanted, _kept.room = wanted, (block[14], block[:14], np.empty(rows, np.uint32))
    return _kept.room


def _ranges(length, tile, parts):
    """Cut 0 .. length into so many ranges at borders of tiles."""
    tiles = -(-length // tile)
    borders = [min(length, tiles * part // parts * tile) for part in range(parts + 1)]
    return [(start, stop) for start, stop in zip(borders, borders[1:]) if start < stop]


def _inputs(real):
    """The types of the rules, the tile and the room: the same for arrays of any strides, writable or not."""
    intervals, line, table = (types.Array(of, axes, "C", readonly=True) for of, axes in ((int32, 2), (real, 1), (real, 2)))
    return (intervals, intervals, types.Array(boolean, 4, "A", readonly=True), float64, real, line, table, uint32, real, uint32,
            uint32, int64, int64, real[::1], real[:, ::1], uint32[::1], int64, int64)


def _any(real):
    return types.Array(real, 4, "A", readonly=True)


FORWARD = Kernel(attention.forward, lambda real: (*3 * [_any(real)], *_inputs(real), real[:, :, :, ::1], *2 * [real[:, :, ::1]]))
BACKWARD = Kernel(attention.backward, lambda real: (
    *5 * [_any(real)], *2 * [types.Array(real, 3, "C", readonly=True)], *_inputs(real), *4 * [int64], boolean, boolean,
    *3 * [real[:, :, :, ::1]], float64[:, :, ::1]))
