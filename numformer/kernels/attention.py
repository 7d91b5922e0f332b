"""Attention in tiles: exact, forward and backward, without ever writing out its T x S weights.

A tile of I queries walks along the keys, J at a time. The softmax runs online: the maximum m_i and the sum l_i of each query
are those of the keys seen so far, and when a maximum rises, all that was summed before shrinks by alpha = exp(old - new):

    m' = max(m, max_j s_j)      l' = alpha l + sum_j exp(s_j - m')      acc' = alpha acc + sum_j exp(s_j - m') v_j

At the end o = acc / l, and lse = m + log(l) is all that the backward needs to make p = exp(s - lse) again, tile by tile.

References: Milakov and Gimelshein (2018), "Online normalizer calculation for softmax", algorithm 3; Dao et al. (2022),
"FlashAttention", algorithms 1 and 4; Dao (2023), "FlashAttention-2", algorithms 1 and 2.
"""

import math

import numba
import numpy as np

from numformer.kernels.arithmetic import borrow, clear, copy, product, row, transpose
from numformer.kernels.compiled import STRICT, inlined
from numformer.kernels.tiles import (
    ALL, NONE, SOME, Rules, add_diagonals, add_product, close_together, drop, find_allowed, keys_to_visit, multiply, online_softmax,
    row_hashes, rows_to_visit, scores, set_where_hidden, softmax_gradient, weights_again)


def forward(q, k, v, first, last, mask, scale, softcap, slopes, bias, threshold, kept, seed_high, seed_low, rows, keys,
            reals, room, integers, task, tasks, o, lse):
    """The part of the forward that is task number `task` of `tasks`: every so manieth tile of `rows` queries.

    q, o (B, H, T, D); k, v (B, G, S, D); lse (B, H, T); the rest as `Rules`, `Room` and `twins` have it.
    """
    q, k, v, o, lse = borrow(q), borrow(k), borrow(v), borrow(o), borrow(lse)
    reals, room, integers = borrow(reals), borrow(room), borrow(integers)
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    reals[0], reals[1], reals[2] = 0, 1, scale
    zero, one = reals[0:1], reals[1:2]
    rules = Rules(borrow(first), borrow(last), borrow(mask), reals[2:3], softcap, borrow(slopes), borrow(bias), threshold, kept,
                  seed_high, seed_low, T, S)
    m, l, alpha, top, hashes = room[0], room[1], room[2], room[3], integers[0].view(np.uint32)

    blocks = -(-T // rows)
    for unit in range(task, B * H * blocks, tasks):                   # one owner for each tile of queries
        b, h, i0 = unit // (H * blocks), unit // blocks % H, unit % blocks * rows
        i1 = min(i0 + rows, T)
        I = i1 - i0
        qt, acc = room[4, :D * I].reshape(D, I), room[5, :I * D].reshape(I, D)
        transpose(q[b, h, i0:i1], qt)
        m[:I], l[:I] = -np.inf, 0
        clear(acc)
        if threshold > 0:
            row_hashes(rules, b, h, i0, hashes[:I])
        begin, end = keys_to_visit(rules, b, i0, i1)
        for tile in range(begin // keys * keys, end, keys):
            j0, j1 = max(begin, tile), min(end, tile + keys)
            first_row, last_row, inside = rows_to_visit(rules, b, i0, i1, j0, j1)
            x, y, J = first_row - i0, last_row - i0, j1 - j0          # the queries x .. y - 1 of this tile
            s, allowed = room[6, :J * (y - x)].reshape(J, y - x), integers[1, :J * (y - x)].reshape(J, y - x)
            found = ALL if inside else find_allowed(rules, b, h, first_row, j0, allowed)
            if found == NONE:
                continue
            k_j = close_together(k[b, h * G // H, j0:j1], room[7])    # (J, D)
            v_j = close_together(v[b, h * G // H, j0:j1], room[8])

            scores(rules, h, first_row, j0, k_j, qt[:, x:y], zero, s, room[9, :s.size].reshape(s.shape))      # s = scale k q'
            if found == SOME:
                set_where_hidden(s, allowed, s.dtype.type(-np.inf))
            rose = online_softmax(s, m[x:y], l[x:y], alpha[x:y], top[x:y])                                    # p = exp(s - m)
            if threshold > 0:
                drop(s, rules, hashes[x:y], j0, s)
            if rose:                                                  # acc *= alpha
                for i in range(x, y):
                    for d in range(D):
                        acc[i, d] *= alpha[i]
            add_product(found, one, one, s.T, allowed.T, v_j, acc[x:y])                                       # acc += p' v
        finish(rules, b, h, i0, m[:I], l[:I], acc, o[b, h, i0:i1], lse[b, h, i0:i1])


@inlined
def finish(rules, b, h, i0, m, l, acc, o_i, lse_i):
    """o = acc / l and lse = m + log(l); 0 and -Inf for a query that may attend to nothing, NaN for one that saw only -Inf."""
    for i in range(len(m)):
        o_row = row(o_i, i)
        if m[i] == -np.inf and l[i] == 0:
            nothing = may_attend_to_nothing(rules, b, h, i0 + i)
            o_row[:] = 0 if nothing else np.nan
            lse_i[i] = -np.inf if nothing else np.nan
            continue
        for d in range(len(o_row)):
            o_row[d] = acc[i, d] / l[i]
        lse_i[i] = np.float64(m[i]) + math.log(np.float64(l[i]))


@inlined
def may_attend_to_nothing(rules, b, h, i):
    b_first = b if len(rules.first) > 1 else 0
    mask = rules.mask[b if rules.mask.shape[0] > 1 else 0, h if rules.mask.shape[1] > 1 else 0]
    for j in range(rules.first[b_first, i], rules.last[b_first, i]):
        if mask.size == 0 or mask[i, j]:
            return False
    return True


def backward(do, q, k, v, o, lse, first, last, mask, scale, softcap, slopes, bias, threshold, kept, seed_high, seed_low, rows, keys,
             reals, room, integers, task, tasks, t0, t1, s0, s1, want_dq, want_dkv, dq, dk, dv, dbias):
    """The part of the backward that is task number `task` of `tasks`: every so manieth key-value head.

    Of it, the gradient of the queries t0 .. t1 - 1, or of the keys and values s0 .. s1 - 1, or both.
    """
    do, q, k, v, o, lse = borrow(do), borrow(q), borrow(k), borrow(v), borrow(o), borrow(lse)
    dq, dk, dv, reals, room, integers = borrow(dq), borrow(dk), borrow(dv), borrow(reals), borrow(room), borrow(integers)
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    reals[0], reals[1], reals[2] = 0, 1, scale
    zero, one, factor = reals[0:1], reals[1:2], reals[2:3]
    rules = Rules(borrow(first), borrow(last), borrow(mask), factor, softcap, borrow(slopes), borrow(bias), threshold, kept,
                  seed_high, seed_low, T, S)
    delta, high, low, hashes = room[0], room[1], room[2], integers[0].view(np.uint32)

    for unit in range(task, B * G, tasks):                            # one owner for each key-value head
        b, g = unit // G, unit % G
        if want_dkv:
            clear(dk[b, g, s0:s1])
            clear(dv[b, g, s0:s1])
        for h in range(g * H // G, (g + 1) * H // G):
            for i0 in range(t0, t1, rows):
                i1 = min(i0 + rows, t1)
                I = i1 - i0
                q_i, do_i = room[4, :I * D].reshape(I, D), room[5, :I * D].reshape(I, D)
                qt, dot = room[6, :D * I].reshape(D, I), room[7, :D * I].reshape(D, I)
                copy(q[b, h, i0:i1], q_i)
                copy(do[b, h, i0:i1], do_i)
                transpose(q_i, qt)
                transpose(do_i, dot)
                row_products(do_i, o[b, h, i0:i1], delta[:I])         # delta = rowsum(do * o) = sum_j p_j dp_j
                for i in range(I):
                    high[i] = lse[b, h, i0 + i]
                    low[i] = lse[b, h, i0 + i] - high[i] if abs(high[i]) < np.inf else 0
                if want_dq:
                    clear(dq[b, h, i0:i1])
                if threshold > 0:
                    row_hashes(rules, b, h, i0, hashes[:I])
                begin, end = keys_to_visit(rules, b, i0, i1)
                for tile in range(max(begin // keys * keys, s0), min(end, s1), keys):
                    j0, j1 = max(begin, tile), min(end, tile + keys)
                    first_row, last_row, inside = rows_to_visit(rules, b, i0, i1, j0, j1)
                    x, y, J = first_row - i0, last_row - i0, j1 - j0  # the queries x .. y - 1 of this tile
                    size = J * (y - x)
                    p, ds = room[8, :size].reshape(J, y - x), room[9, :size].reshape(J, y - x)
                    dropped, uncapped = room[10, :size].reshape(J, y - x), room[11, :size].reshape(J, y - x)
                    allowed = integers[1, :size].reshape(J, y - x)
                    found = ALL if inside else find_allowed(rules, b, h, first_row, j0, allowed)
                    if found == NONE:
                        continue
                    k_j = close_together(k[b, g, j0:j1], room[12])    # (J, D)
                    v_j = close_together(v[b, g, j0:j1], room[13])

                    # p = exp(s - lse)
                    scores(rules, h, first_row, j0, k_j, qt[:, x:y], zero, p, uncapped)
                    weights_again(p, high[x:y], low[x:y])
                    if found == SOME:
                        set_where_hidden(p, allowed, zero[0])

                    # o = p v
                    product(one, v_j, dot[:, x:y], zero, ds)          # dp = do v'
                    if threshold > 0:
                        drop(p, rules, hashes[x:y], j0, dropped)
                        drop(ds, rules, hashes[x:y], j0, ds)
                    if want_dkv:                                      # dv += p' do
                        add_product(found, one, one, dropped if threshold > 0 else p, allowed, do_i[x:y], dv[b, g, j0:j1])

                    # p = softmax(s)
                    softmax_gradient(p, delta[x:y], ds)               # ds = p (dp - delta)
                    if want_dq and bias.size > 0:
                        if found == SOME:
                            set_where_hidden(ds, allowed, zero[0])
                        add_diagonals(ds, first_row, j0, T, dbias[b, h])
                    if softcap > 0:
                        multiply(ds, uncapped)
                    if found == SOME:
                        set_where_hidden(ds, allowed, zero[0])

                    # s = scale q k'
                    if want_dkv:                                      # dk += scale ds' q
                        add_product(found, factor, one, ds, allowed, q_i[x:y], dk[b, g, j0:j1])
                    if want_dq:                                       # dq += scale ds k
                        add_product(found, factor, one, ds.T, allowed.T, k_j, dq[b, h, first_row:last_row])


@numba.njit(fastmath={"contract", "reassoc", "nsz"}, **STRICT)        # the compiler may choose the order of a row's sum: it vectorizes
def row_products(x, y, total):
    """The sums of x * y along their rows, in float64: ds is a difference of this and dp, and their errors stay."""
    for i in range(len(total)):
        t, x_i, y_i = 0.0, row(x, i), row(y, i)
        for d in range(x.shape[1]):
            t += np.float64(x_i[d]) * np.float64(y_i[d])
        total[i] = t
