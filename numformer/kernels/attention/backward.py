"""The backward kernel: it recomputes the weights of each tile and adds to dq, dk and dv."""

import numpy as np
from numba import float64, int64, types

from numformer.kernels.attention.dropout import drop, row_hashes
from numformer.kernels.attention.launch import option_types
from numformer.kernels.attention.scores import add_bias_gradient, multiply, tile_scores
from numformer.kernels.attention.softmax import recompute_weights, softmax_gradient
from numformer.kernels.attention.tiles import (
    NONE, SOME, Options, add_product, fill_hidden, keys_to_visit, next_tile)
from numformer.kernels.runtime.arithmetic import product
from numformer.kernels.runtime.compile import Kernel, always_inlined, reduction
from numformer.kernels.runtime.memory import (
    clear, copy, matrix_view, packed_copy, row, transpose, unowned)
from numformer.kernels.runtime.shapes import any_strides
from numformer.kernels.runtime.work_queue import all_finished, finish, take, unit_of_turn

# What each tile of the workspace holds
DELTA, ONE_OVER_L, Q_I, DO_I, Q_T, DO_T, P, DS, DROPPED, CAP_SLOPE, K_J = range(11)


def backward(do, q, k, v, o, m, l, first, last, mask, scale, softcap, slopes, bias, threshold,
             keep_scale, seed_high, seed_low, rows, keys, workspace, hashes, queue, task, tasks,
             parts, dq, dk, dv, dbias):
    """Task number `task` of `tasks`: it computes the units that it takes first.

    A unit is a part of a key-value head. A row of `parts` is t0, t1, s0, s1, want_dq, want_dkv: the
    gradient of the queries t0 .. t1 - 1, or of the keys and values s0 .. s1 - 1, or both.
    """
    do, q, k, v, o, m, l = (unowned(do), unowned(q), unowned(k), unowned(v), unowned(o),
                            unowned(m), unowned(l))
    dq, dk, dv = unowned(dq), unowned(dk), unowned(dv)
    workspace, hashes, queue = unowned(workspace), unowned(hashes), unowned(queue)
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    options = Options(unowned(first), unowned(last), unowned(mask), scale, softcap,
                      unowned(slopes), unowned(bias), threshold, keep_scale, seed_high, seed_low,
                      T, S)
    delta, one_over_l, one = workspace[DELTA], workspace[ONE_OVER_L], q.dtype.type(1)
    units = len(parts) * B * G
    for turn in range(units):
        unit = unit_of_turn(turn, units, task, tasks)
        if not take(queue, unit):
            continue
        b, g = unit // len(parts) // G, unit // len(parts) % G
        t0, t1, s0, s1, want_dq, want_dkv = parts[unit % len(parts)]
        if want_dkv:
            clear(dk[b, g, s0:s1])
            clear(dv[b, g, s0:s1])
        for h in range(g * H // G, (g + 1) * H // G):
            for i0 in range(t0, t1, rows):
                i1 = min(i0 + rows, t1)
                I = i1 - i0
                q_i, do_i = matrix_view(workspace, Q_I, I, D), matrix_view(workspace, DO_I, I, D)
                q_t, do_t = matrix_view(workspace, Q_T, D, I), matrix_view(workspace, DO_T, D, I)
                copy(q[b, h, i0:i1], q_i)
                copy(do[b, h, i0:i1], do_i)
                transpose(q_i, q_t)
                transpose(do_i, do_t)
                row_dots(do_i, o[b, h, i0:i1], delta[:I])               # delta = rowsum(do * o)
                for i in range(I):
                    one_over_l[i] = one / l[b, h, i0 + i]
                if want_dq:
                    clear(dq[b, h, i0:i1])
                if threshold > 0:
                    row_hashes(options, b, h, i0, hashes[:I])
                begin, end = keys_to_visit(options, b, i0, i1)
                j1 = max(begin, s0)
                while j1 < min(end, s1):
                    j0 = j1
                    j1, first_row, last_row, allowed = next_tile(
                        options, b, h, i0, i1, j0, end, keys)
                    if allowed == NONE:
                        continue
                    r0, r1 = first_row - i0, last_row - i0      # the tile has rows r0 .. r1 - 1
                    k_j = packed_copy(k[b, g, j0:j1], workspace, K_J)           # (J, D)
                    add_gradients(
                        options, b, h, first_row, j0, allowed, want_dq, want_dkv,
                        q_i[r0:r1], q_t[:, r0:r1], do_i[r0:r1], do_t[:, r0:r1],
                        k_j, v[b, g, j0:j1], m[b, h, first_row:last_row],
                        one_over_l[r0:r1], delta[r0:r1], hashes[r0:r1], workspace,
                        dq[b, h, first_row:last_row], dk[b, g, j0:j1], dv[b, g, j0:j1],
                        dbias[b, h])
        finish(queue)
    return all_finished(queue, task)


@always_inlined
def add_gradients(options, b, h, i0, j0, allowed, want_dq, want_dkv, q_i, q_t, do_i, do_t, k_j, v_j,
                  m_i, one_over_l, delta, hashes, workspace, dq_i, dk_j, dv_j, dbias_h):
    """Add to dq_i (I, D), dk_j and dv_j (J, D) what the tile at query i0 and key j0 contributes."""
    J, I = len(k_j), len(q_i)
    p, ds = matrix_view(workspace, P, J, I), matrix_view(workspace, DS, J, I)
    dropped = matrix_view(workspace, DROPPED, J, I)
    cap_slope = matrix_view(workspace, CAP_SLOPE, J, I)
    zero, one = p.dtype.type(0), p.dtype.type(1)

    # p = exp(s - m) / l
    tile_scores(options, h, i0, j0, k_j, q_t, p, cap_slope)
    recompute_weights(p, m_i, one_over_l)
    if allowed == SOME:
        fill_hidden(p, zero, options, b, h, i0, j0)

    # o = p v
    product(one, v_j, do_t, ds, False)                              # dp = do v'
    if options.threshold > 0:
        drop(p, options, hashes, j0, dropped)
        drop(ds, options, hashes, j0, ds)
    if want_dkv:                                                    # dv += p' do
        weights = dropped if options.threshold > 0 else p
        add_product(allowed, one, weights, do_i, dv_j, options, b, h, i0, j0, True)

    # p = softmax(s)
    softmax_gradient(p, delta, ds)                                  # ds = p (dp - delta)
    if allowed == SOME:
        fill_hidden(ds, zero, options, b, h, i0, j0)
    if want_dq and options.bias.size > 0:
        add_bias_gradient(ds, i0, j0, options.T, dbias_h)
    if options.softcap > 0:
        if allowed == SOME:
            fill_hidden(cap_slope, zero, options, b, h, i0, j0)
        multiply(ds, cap_slope)

    # s = scale q k'
    if want_dkv:                                                    # dk += scale ds' q
        add_product(allowed, options.scale, ds, q_i, dk_j, options, b, h, i0, j0, True)
    if want_dq:                                                     # dq += scale ds k
        add_product(allowed, options.scale, ds.T, k_j, dq_i, options, b, h, i0, j0, False)


@reduction
def row_dots(x, y, total):
    """total = rowsum(x * y), in float64: dp - delta would keep the error of a float32 sum."""
    for i in range(len(total)):
        t, x_i, y_i = 0.0, row(x, i), row(y, i)
        for d in range(x.shape[1]):
            t += np.float64(x_i[d]) * np.float64(y_i[d])
        total[i] = t


BACKWARD = Kernel(backward, lambda real: (
    *5 * [any_strides(real)], *2 * [types.Array(real, 3, "C", readonly=True)],
    *option_types(real), int64[:, ::1], *3 * [real[:, :, :, :]], float64[:, :, ::1]))
