"""The softmax of one tile, J keys by I queries: online in the forward, then recomputed."""

import numpy as np

from numformer.kernels.runtime.arithmetic import exp, larger
from numformer.kernels.runtime.compile import inlined


@inlined
def online_softmax(s, m_i, l_i, alpha, tile_max, tile_sum):
    """s becomes p = exp(s - m); the maximum m_i and the sum l_i of each query include this tile.

    alpha = exp(old m - new m) rescales what was summed before. Returns whether any maximum rose: if
    not, alpha would be 1 and is not written. `tile_max` and `tile_sum` are workspace for one row.
    """
    J, I = s.shape
    zero, minus_infinity = s.dtype.type(0), s.dtype.type(-np.inf)
    for i in range(I):
        tile_max[i] = m_i[i]
    for j in range(0, J - 3, 4):        # four keys at a time: `tile_max` is loaded once for four
        for i in range(I):
            tile_max[i] = larger(tile_max[i], larger(larger(s[j, i], s[j + 1, i]),
                                                     larger(s[j + 2, i], s[j + 3, i])))
    for j in range(J - J % 4, J):
        for i in range(I):
            tile_max[i] = larger(tile_max[i], s[j, i])
    rose = False
    for i in range(I):
        rose |= tile_max[i] != m_i[i]
    if rose:
        for i in range(I):              # only -Inf so far: exp(-Inf - 0) = 0
            base = tile_max[i] if tile_max[i] != minus_infinity else zero
            alpha[i] = exp(m_i[i] - base)
            l_i[i] *= alpha[i]
            m_i[i] = tile_max[i]
    for i in range(I):
        tile_max[i] = m_i[i] if m_i[i] != minus_infinity else zero
    tile_sum[:] = 0                     # of this tile: a running sum of all keys would lose digits
    for j in range(0, J - 1, 2):
        for i in range(I):
            s[j, i] = exp(s[j, i] - tile_max[i])
            s[j + 1, i] = exp(s[j + 1, i] - tile_max[i])
            tile_sum[i] += s[j, i] + s[j + 1, i]
    for j in range(J // 2 * 2, J):
        for i in range(I):
            s[j, i] = exp(s[j, i] - tile_max[i])
            tile_sum[i] += s[j, i]
    for i in range(I):
        l_i[i] += tile_sum[i]
    return rose


@inlined
def recompute_weights(s, m_i, one_over_l):
    """s becomes p = exp(s - m) / l, the same numbers as in the forward."""
    for j in range(s.shape[0]):
        for i in range(s.shape[1]):
            s[j, i] = exp(s[j, i] - m_i[i]) * one_over_l[i]


@inlined
def softmax_gradient(p, delta, dp):
    """dp becomes ds = p (dp - delta).

    A weight of exactly 1 is the only one of its row: its gradient is 0, without rounding.
    """
    zero, one = p.dtype.type(0), p.dtype.type(1)
    for j in range(p.shape[0]):
        for i in range(p.shape[1]):
            dp[j, i] = (p[j, i] if p[j, i] != one else zero) * (dp[j, i] - delta[i])
