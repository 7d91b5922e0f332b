"""What is done to one tile of scores: J keys by I queries, keys down and queries along, so that I lanes work side by side."""

from collections import namedtuple

import numpy as np
from numba import uint32

from numformer.kernels.arithmetic import all_finite, exp, product, tanh
from numformer.kernels.compiled import inlined
from numformer.kernels.memory import carve, copy

# Everything that shapes scores and weights besides q and k. An array of length 0, or a cap or threshold of 0: not there.
Rules = namedtuple("Rules", "first last mask scale softcap slopes bias threshold kept seed_high seed_low T S")

NONE, SOME, ALL = 0, 1, 2


@inlined
def intervals_of(rules, b):
    """First and last key of every query of an example, for which one row may stand for all."""
    b = b if len(rules.first) > 1 else 0
    return rules.first[b], rules.last[b]


@inlined
def mask_of(rules, b, h):
    """The mask (T, S) of a head, for which one example and one head may stand for all."""
    return rules.mask[b if rules.mask.shape[0] > 1 else 0, h if rules.mask.shape[1] > 1 else 0]


@inlined
def keys_to_visit(rules, b, i0, i1):
    """The interval of keys outside of which no query of i0 .. i1 - 1 may attend to any."""
    first, last = intervals_of(rules, b)
    begin, end = rules.S, 0
    for i in range(i0, i1):
        if first[i] < last[i]:
            begin, end = min(begin, first[i]), max(end, last[i])
    return begin, end


@inlined
def look_into_mask(rules, b, h, i0, i1, j0, j1):
    """Whether NONE, SOME or ALL pairs of a tile are allowed by the mask."""
    mask = mask_of(rules, b, h)
    count = 0
    for i in range(i0, i1):
        for j in range(j0, j1):
            count += mask[i, j]
    return NONE if count == 0 else ALL if count == (i1 - i0) * (j1 - j0) else SOME


@inlined
def rows_to_visit(rules, b, h, i0, i1, j0, j1):
    """The queries of i0 .. i1 - 1 outside of which none may attend to a key of j0 .. j1 - 1; and whether NONE, SOME or ALL pairs may."""
    first, last = intervals_of(rules, b)
    while i0 < i1 and (first[i0] >= j1 or last[i0] <= j0):
        i0 += 1
    while i0 < i1 and (first[i1 - 1] >= j1 or last[i1 - 1] <= j0):
        i1 -= 1
    found = ALL if rules.mask.size == 0 else look_into_mask(rules, b, h, i0, i1, j0, j1)
    if i0 == i1 or found == NONE:
        return i0, i1, NONE
    inside = True
    for i in range(i0, i1):
        inside &= (first[i] <= j0) & (j1 <= last[i])
    return i0, i1, found if inside else SOME


@inlined
def next_tile(rules, b, h, i0, i1, j0, end, keys):
    """The tile of at most `keys` keys that begins at j0, as j1 and what `rows_to_visit` says of it.

    Where something is hidden the tile is half as wide: along the diagonal of a causal pattern, less is computed in vain.
    """
    j1 = min(end, (j0 // keys + 1) * keys)
    first_row, last_row, found = rows_to_visit(rules, b, h, i0, i1, j0, j1)
    half = min(end, (j0 // (keys // 2) + 1) * (keys // 2))
    if found == SOME and half < j1:
        j1 = half
        first_row, last_row, found = rows_to_visit(rules, b, h, i0, i1, j0, j1)
    return j1, first_row, last_row, found


@inlined
def is_allowed(rules, b, h, i, j):
    """Whether query i may attend to key j."""
    first, last = intervals_of(rules, b)
    return first[i] <= j < last[i] and (rules.mask.size == 0 or mask_of(rules, b, h)[i, j])


@inlined
def hide(x, value, rules, b, h, i0, j0):
    """Write `value` where query i0 + i may not attend to key j0 + j."""
    J, I = x.shape
    first, last = intervals_of(rules, b)
    first, last = first[i0:i0 + I], last[i0:i0 + I]
    for j in range(J):
        key = np.int32(j0 + j)
        for i in range(I):
            x[j, i] = x[j, i] if (first[i] <= key) & (key < last[i]) else value
    if rules.mask.size > 0:
        mask = mask_of(rules, b, h)
        for j in range(J):
            for i in range(I):
                x[j, i] = x[j, i] if mask[i0 + i, j0 + j] else value


@inlined
def bring_together(x, room, n):
    """A copy of the rows of x without gaps, at the beginning of a cache line: with it on the right, BLAS is a tenth faster, or more."""
    y = carve(room, n, *x.shape)
    copy(x, y)
    return y


@inlined
def scores(rules, h, i0, j0, k_j, qt, s, uncapped):
    """s = cap(scale k q') - slope * distance + bias; `uncapped` is how much of a change of the product gets through the cap."""
    product(rules.scale, k_j, qt, s, False)                           # (J, D) (D, I)
    J, I = s.shape
    if rules.softcap > 0:
        one = rules.softcap / rules.softcap
        for j in range(J):
            for i in range(I):
                t = tanh(s[j, i] / rules.softcap)
                s[j, i] = rules.softcap * t
                uncapped[j, i] = one - t * t
    if rules.slopes.size > 0:
        slope = rules.slopes[h]
        for j in range(J):
            for i in range(I):
                distance = np.int32(abs(i0 + i + rules.S - rules.T - (j0 + j)))
                s[j, i] -= slope * s.dtype.type(distance)
    if rules.bias.size > 0:
        for j in range(J):
            for i in range(I):
                s[j, i] += rules.bias[h, j0 + j - (i0 + i) + rules.T - 1]


@inlined
def add_diagonals(ds, i0, j0, T, dbias_h):
    """The gradient of the bias of each distance: the sum along its diagonal."""
    for j in range(ds.shape[0]):
        for i in range(ds.shape[1]):
            dbias_h[j0 + j - (i0 + i) + T - 1] += ds[j, i]


@inlined
def online_softmax(s, m_i, l_i, alpha, top, total):
    """s becomes p = exp(s - m); the maximum m_i and the sum l_i of each query take the tile in; alpha rescales what was before.

    Returns whether any maximum rose: if not, alpha is not written, for it would be 1. `top` and `total` are room for a row.
    """
    J, I = s.shape
    zero, minus_infinity = s.dtype.type(0), s.dtype.type(-np.inf)
    for i in range(I):
        top[i] = m_i[i]
    for j in range(0, J - 3, 4):                                      # four keys at a time, so that `top` is fetched once for four
        for i in range(I):
            top[i] = larger(top[i], larger(larger(s[j, i], s[j + 1, i]), larger(s[j + 2, i], s[j + 3, i])))
    for j in range(J - J % 4, J):
        for i in range(I):
            top[i] = larger(top[i], s[j, i])
    rose = False
    for i in range(I):
        rose |= top[i] != m_i[i]
    if rose:
        for i in range(I):
            base = top[i] if top[i] != minus_infinity else zero       # nothing but -Inf so far: exp(-Inf - 0) = 0
            alpha[i] = exp(m_i[i] - base)
            l_i[i] *= alpha[i]
            m_i[i] = top[i]
    for i in range(I):
        top[i] = m_i[i] if m_i[i] != minus_infinity else zero
    total[:] = 0                                                      # of this tile alone: a running sum of all keys would lose digits
    for j in range(0, J - 1, 2):
        for i in range(I):
            s[j, i] = exp(s[j, i] - top[i])
            s[j + 1, i] = exp(s[j + 1, i] - top[i])
            total[i] += s[j, i] + s[j + 1, i]
    for j in range(J // 2 * 2, J):
        for i in range(I):
            s[j, i] = exp(s[j, i] - top[i])
            total[i] += s[j, i]
    for i in range(I):
        l_i[i] += total[i]
    return rose


@inlined
def larger(x, y):
    return x if x > y else y                                          # a NaN shows in the sum l_i, whichever this returns


@inlined
def weights_again(s, m, one_over_l):
    """p = exp(s - m) / l, the very numbers of the forward."""
    for j in range(s.shape[0]):
        for i in range(s.shape[1]):
            s[j, i] = exp(s[j, i] - m[i]) * one_over_l[i]


@inlined
def softmax_gradient(p, delta, dp):
    """dp becomes ds = p (dp - delta): of a weight of exactly 1, which is alone in its row, 0 without any rounding."""
    zero, one = p.dtype.type(0), p.dtype.type(1)
    for j in range(p.shape[0]):
        for i in range(p.shape[1]):
            dp[j, i] = (p[j, i] if p[j, i] != one else zero) * (dp[j, i] - delta[i])


@inlined
def multiply(x, y):
    for j in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[j, i] *= y[j, i]


@inlined
def mix(x):
    x = uint32((x ^ (x >> uint32(16))) * uint32(0x7FEB352D))          # Numba widens to 64 bits: cut back to 32
    x = uint32((x ^ (x >> uint32(15))) * uint32(0x846CA68B))
    return uint32(x ^ (x >> uint32(16)))


@inlined
def row_hashes(rules, b, h, i0, hashes):
    """The part of the dropout hash that all weights of a query share: see `attention_dropout_mask`."""
    head = mix(uint32(mix(uint32(rules.seed_high ^ mix(uint32(rules.seed_low ^ mix(uint32(b)))))) ^ uint32(h)))
    for i in range(len(hashes)):
        hashes[i] = mix(uint32(head ^ uint32(i0 + i)))


@inlined
def drop(x, rules, hashes, j0, dropped):
    """Write into `dropped`, which may be x: x d, where d is 1 / (1 - rate) for weights that the hash keeps, and 0 for the others."""
    zero = x.dtype.type(0)
    for j in range(x.shape[0]):
        step = uint32(uint32(j0 + j) * uint32(0x9E3779B9))
        for i in range(x.shape[1]):
            bits = mix(uint32(hashes[i] + step))
            dropped[j, i] = x[j, i] * (rules.kept if bits >= uint32(rules.threshold) else zero)


@inlined
def add_product(found, factor, a, b, c, rules, batch, h, i0, j0, by_keys):
    """c += factor a b, where NaN and Inf of b do not get through pairs that are hidden, although 0 * NaN is NaN.

    a (R, S) is a tile with its keys down (`by_keys`) or its queries; b (S, D); c (R, D). The rare tile that hides something
    and is not all finite is multiplied in plain loops.
    """
    if found == ALL or all_finite(b):
        product(factor, a, b, c, True)
        return
    for r in range(a.shape[0]):
        for s in range(a.shape[1]):
            i, j = (s, r) if by_keys else (r, s)
            if is_allowed(rules, batch, h, i0 + i, j0 + j):
                for d in range(b.shape[1]):
                    c[r, d] += factor * a[r, s] * b[s, d]
