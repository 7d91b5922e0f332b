"""The forward kernel: blocks of queries walk along the keys, one tile at a time."""

import numpy as np

from numformer.kernels.attention.dropout import drop, row_hashes
from numformer.kernels.attention.launch import option_types
from numformer.kernels.attention.scores import tile_scores
from numformer.kernels.attention.softmax import online_softmax
from numformer.kernels.attention.tiles import (
    NONE, SOME, Options, add_product, fill_hidden, is_allowed, keys_to_visit, next_tile)
from numformer.kernels.runtime.compile import Kernel, always_inlined, inlined
from numformer.kernels.runtime.memory import (
    clear, matrix_view, packed_copy, row, transpose, unowned)
from numformer.kernels.runtime.shapes import any_strides
from numformer.kernels.runtime.work_queue import all_finished, finish, take, unit_of_turn

# What each tile of the workspace holds
ALPHA, TILE_MAX, Q_T, ACC, SCORES, V_J, CAP_SLOPE, TILE_SUM = range(8)


def forward(q, k, v, first, last, mask, scale, softcap, slopes, bias, threshold, keep_scale,
            seed_high, seed_low, rows, keys, workspace, hashes, queue, task, tasks, o, m, l):
    """Task number `task` of `tasks`: it computes the blocks of `rows` queries that it takes first.

    q, o (B, H, T, D); k, v (B, G, S, D); m, l (B, H, T); first .. seed_low as in `Options`;
    workspace and hashes as in `task_workspace`. Returns whether all blocks are finished.
    """
    q, k, v, o, m, l = unowned(q), unowned(k), unowned(v), unowned(o), unowned(m), unowned(l)
    workspace, hashes, queue = unowned(workspace), unowned(hashes), unowned(queue)
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    options = Options(unowned(first), unowned(last), unowned(mask), scale, softcap,
                      unowned(slopes), unowned(bias), threshold, keep_scale, seed_high, seed_low,
                      T, S)
    blocks = -(-T // rows)
    units = B * H * blocks
    for turn in range(units):
        unit = unit_of_turn(turn, units, task, tasks)
        if not take(queue, unit):
            continue
        b, h, i0 = unit // (H * blocks), unit // blocks % H, unit % blocks * rows
        i1 = min(i0 + rows, T)
        I = i1 - i0
        q_t, acc = matrix_view(workspace, Q_T, D, I), matrix_view(workspace, ACC, I, D)
        m_i, l_i = m[b, h, i0:i1], l[b, h, i0:i1]
        transpose(q[b, h, i0:i1], q_t)
        m_i[:], l_i[:] = -np.inf, 0
        clear(acc)
        if threshold > 0:
            row_hashes(options, b, h, i0, hashes[:I])
        acc_is_zero = True
        begin, end = keys_to_visit(options, b, i0, i1)
        j1 = begin
        while j1 < end:
            j0 = j1
            j1, first_row, last_row, allowed = next_tile(options, b, h, i0, i1, j0, end, keys)
            if allowed == NONE:
                continue
            r0, r1 = first_row - i0, last_row - i0              # the tile has rows r0 .. r1 - 1
            k_j = k[b, h * G // H, j0:j1]                       # (J, D)
            v_j = packed_copy(v[b, h * G // H, j0:j1], workspace, V_J)
            attend(options, b, h, first_row, j0, allowed, q_t[:, r0:r1], k_j, v_j, hashes[r0:r1],
                   workspace, acc_is_zero, m_i[r0:r1], l_i[r0:r1], acc[r0:r1])
            acc_is_zero = False
        write_output(options, b, h, i0, m_i, l_i, acc, o[b, h, i0:i1])
        finish(queue)
    return all_finished(queue, task)


@always_inlined
def attend(options, b, h, i0, j0, allowed, q_t, k_j, v_j, hashes, workspace, acc_is_zero,
           m_i, l_i, acc):
    """Queries from i0 on attend to keys from j0 on: m_i, l_i and acc take in one more tile.

    q_t (D, I); k_j, v_j (J, D); m_i, l_i (I,); acc (I, D).
    """
    J, I = len(k_j), len(m_i)
    s, cap_slope = matrix_view(workspace, SCORES, J, I), matrix_view(workspace, CAP_SLOPE, J, I)
    alpha, tile_max = workspace[ALPHA][:I], workspace[TILE_MAX][:I]
    tile_sum = workspace[TILE_SUM][:I]

    tile_scores(options, h, i0, j0, k_j, q_t, s, cap_slope)                     # s = scale k q'
    if allowed == SOME:
        fill_hidden(s, s.dtype.type(-np.inf), options, b, h, i0, j0)
    m_rose = online_softmax(s, m_i, l_i, alpha, tile_max, tile_sum)             # p = exp(s - m)
    if options.threshold > 0:
        drop(s, options, hashes, j0, s)
    if m_rose and not acc_is_zero:
        for i in range(I):                                                      # acc *= alpha
            alpha_i = alpha[i]
            for d in range(acc.shape[1]):
                acc[i, d] *= alpha_i
    one = acc.dtype.type(1)
    add_product(allowed, one, s.T, v_j, acc, options, b, h, i0, j0, False)      # acc += p' v


@inlined
def write_output(options, b, h, i0, m_i, l_i, acc, o_i):
    """o = acc / l; 0 for a query that may attend to nothing, NaN if all its scores are -Inf."""
    for i in range(len(m_i)):
        o_row = row(o_i, i)
        if l_i[i] == 0:
            nothing = True
            for j in range(options.S):
                nothing &= not is_allowed(options, b, h, i0 + i, j)
            if not nothing:
                l_i[i] = np.nan
            o_row[:] = l_i[i]
            continue
        one_over_l = l_i.dtype.type(1) / l_i[i]
        for d in range(len(o_row)):
            o_row[d] = acc[i, d] * one_over_l


FORWARD = Kernel(forward, lambda real: (
    *3 * [any_strides(real)], *option_types(real), real[:, :, :, :], *2 * [real[:, :, ::1]]))
