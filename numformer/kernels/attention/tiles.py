"""Which tiles of the score matrix are computed, and which of their pairs are hidden.

A tile is stored as J keys by I queries, so that a loop along its rows vectorizes over queries.

Both ends of the queries' intervals never decrease from a query to the next. So the intervals of the
first and the last query of a block bound those of all its queries.
"""

from collections import namedtuple

import numpy as np

from numformer.kernels.runtime.arithmetic import all_finite, product
from numformer.kernels.runtime.compile import inlined

# Everything that shapes scores and weights apart from q and k. `first` and `last` (B or 1, T) are
# the interval of keys of each query. An empty array, or a softcap or threshold of 0, means absent.
Options = namedtuple("Options", (
    "first last mask scale softcap slopes bias threshold keep_scale seed_high seed_low T S"))

NONE, SOME, ALL = 0, 1, 2               # how many pairs of a tile are allowed
LANES = 16                              # a loop along fewer numbers may not vectorize


@inlined
def intervals_of(options, b):
    """First and last key of every query of an example; one row may be shared by all examples."""
    b = b if len(options.first) > 1 else 0
    return options.first[b], options.last[b]


@inlined
def mask_of(options, b, h):
    """The mask (T, S) of a head; one example or one head may be shared by all."""
    mask = options.mask
    return mask[b if mask.shape[0] > 1 else 0, h if mask.shape[1] > 1 else 0]


@inlined
def keys_to_visit(options, b, i0, i1):
    """The interval of keys outside of which no query of i0 .. i1 - 1 may attend."""
    first, last = intervals_of(options, b)
    while i0 < i1 and first[i0] >= last[i0]:
        i0 += 1
    while i0 < i1 and first[i1 - 1] >= last[i1 - 1]:
        i1 -= 1
    return (first[i0], last[i1 - 1]) if i0 < i1 else (options.S, 0)


@inlined
def allowed_by_mask(options, b, h, i0, i1, j0, j1):
    """Whether the mask allows NONE, SOME or ALL pairs of a tile."""
    mask = mask_of(options, b, h)
    count = 0
    for i in range(i0, i1):
        for j in range(j0, j1):
            count += mask[i, j]
    return NONE if count == 0 else ALL if count == (i1 - i0) * (j1 - j0) else SOME


@inlined
def queries_to_visit(options, b, h, i0, i1, j0, j1):
    """The queries of i0 .. i1 - 1 outside of which none may attend to a key of j0 .. j1 - 1.

    Also returns whether NONE, SOME or ALL of the remaining pairs are allowed.
    """
    first, last = intervals_of(options, b)
    while i0 < i1 and (first[i0] >= j1 or last[i0] <= j0):
        i0 += 1
    while i0 < i1 and (first[i1 - 1] >= j1 or last[i1 - 1] <= j0):
        i1 -= 1
    allowed = ALL if options.mask.size == 0 else allowed_by_mask(options, b, h, i0, i1, j0, j1)
    if i0 == i1 or allowed == NONE:
        return i0, i1, NONE
    inside = first[i1 - 1] <= j0 and j1 <= last[i0]
    return i0, i1, allowed if inside else SOME


@inlined
def next_tile(options, b, h, i0, i1, j0, end, keys):
    """The tile of at most `keys` keys that begins at j0: j1, and the result of `queries_to_visit`.

    A tile with hidden pairs is half as wide: along a causal diagonal less work is wasted.
    """
    j1 = min(end, (j0 // keys + 1) * keys)
    first_row, last_row, allowed = queries_to_visit(options, b, h, i0, i1, j0, j1)
    half = min(end, (j0 // (keys // 2) + 1) * (keys // 2))
    if allowed == SOME and half < j1:
        j1 = half
        first_row, last_row, allowed = queries_to_visit(options, b, h, i0, i1, j0, j1)
    return j1, first_row, last_row, allowed


@inlined
def is_allowed(options, b, h, i, j):
    """Whether query i may attend to key j."""
    first, last = intervals_of(options, b)
    return first[i] <= j < last[i] and (options.mask.size == 0 or mask_of(options, b, h)[i, j])


@inlined
def fill_hidden(x, value, options, b, h, i0, j0):
    """Write `value` into x (J, I) where query i0 + i may not attend to key j0 + j."""
    J, I = x.shape
    first, last = intervals_of(options, b)
    first, last = first[i0:i0 + I], last[i0:i0 + I]
    reach = I                           # the last queries may attend to every key of the tile
    while reach >= LANES and first[reach - 1] <= j0 and j0 + J <= last[reach - LANES]:
        reach -= LANES
    for j in range(J):
        key = np.int32(j0 + j)
        for i in range(reach):
            x[j, i] = x[j, i] if (first[i] <= key) & (key < last[i]) else value
    if options.mask.size > 0:
        mask = mask_of(options, b, h)
        for j in range(J):
            for i in range(I):
                x[j, i] = x[j, i] if mask[i0 + i, j0 + j] else value


@inlined
def add_product(allowed, factor, a, b, c, options, batch, h, i0, j0, by_keys):
    """c += factor a b. NaN and Inf in b do not reach c through hidden pairs (0 * NaN is NaN).

    a (R, S) is a tile: its rows are keys (`by_keys`) or queries; b (S, D); c (R, D). The rare tile
    that hides something and meets NaN or Inf is multiplied in plain loops.
    """
    if allowed == ALL or all_finite(b):
        product(factor, a, b, c, True)
        return
    for r in range(a.shape[0]):
        for s in range(a.shape[1]):
            i, j = (s, r) if by_keys else (r, s)
            if is_allowed(options, batch, h, i0 + i, j0 + j):
                for d in range(b.shape[1]):
                    c[r, d] += factor * a[r, s] * b[s, d]
