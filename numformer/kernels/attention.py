"""Attention in tiles: exact, forward and backward, without ever writing out its T x S weights.

A tile of I queries walks along the keys, J at a time. The softmax runs online: the maximum m_i and the sum l_i of each query
are those of the keys seen so far, and when a maximum rises, all that was summed before shrinks by alpha = exp(old - new):

    m' = max(m, max_j s_j)      l' = alpha l + sum_j exp(s_j - m')      acc' = alpha acc + sum_j exp(s_j - m') v_j

At the end o = acc / l. All that the backward needs to make p = exp(s - m) / l again, tile by tile, are m and l: the row's
log-sum-exp m + log(l) in its two parts, for in one float32 a log-sum-exp of 1e4 is good to 5e-4 only.

References: Milakov and Gimelshein (2018), "Online normalizer calculation for softmax", algorithm 3; Dao et al. (2022),
"FlashAttention", algorithms 1 and 4; Dao (2023), "FlashAttention-2", algorithms 1 and 2.
"""

import numpy as np
from numba import float64, int64, types

from numformer.checks import check_array, check_whole
from numformer.functional.attention import check_attention, drops
from numformer.functional.dropout import dropout_threshold
from numformer.functional.pattern import EVERYWHERE
from numformer.kernels.arithmetic import product
from numformer.kernels.compiled import Kernel, inlined, summing
from numformer.kernels.launch import (
    absent, any_strides, by_tokens, check_kernel_takes, in_turn, ranges, rule_types, tile_size, with_rows, work_room)
from numformer.kernels.memory import borrow, carve, clear, copy, row, transpose
from numformer.kernels.room import new_array
from numformer.kernels.sharing import all_finished, finish, new_ledger, take, turn_of
from numformer.kernels.tiles import (
    NONE, SOME, Rules, add_diagonals, add_product, bring_together, drop, hide, is_allowed, keys_to_visit, multiply, next_tile,
    online_softmax, row_hashes, scores, softmax_gradient, weights_again)


def forward(q, k, v, first, last, mask, scale, softcap, slopes, bias, threshold, kept, seed_high, seed_low, rows, keys,
            room, hashes, ledger, task, tasks, o, m, l):
    """The part of the forward that is task number `task` of `tasks`: the tiles of `rows` queries that it is first to take.

    q, o (B, H, T, D); k, v (B, G, S, D); m, l (B, H, T); the rest as `Rules` and `work_room` have it.
    """
    q, k, v, o, m, l = borrow(q), borrow(k), borrow(v), borrow(o), borrow(m), borrow(l)
    room, hashes, ledger = borrow(room), borrow(hashes), borrow(ledger)
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    rules = Rules(borrow(first), borrow(last), borrow(mask), scale, softcap, borrow(slopes), borrow(bias), threshold, kept,
                  seed_high, seed_low, T, S)
    alpha, top, total, dropping = room[0], room[1], room[7], threshold > 0

    one, blocks = q.dtype.type(1), -(-T // rows)
    units = B * H * blocks
    for turn in range(units):
        unit = turn_of(turn, units, task, tasks)
        if not take(ledger, unit):
            continue
        b, h, i0 = unit // (H * blocks), unit // blocks % H, unit % blocks * rows
        i1 = min(i0 + rows, T)
        I = i1 - i0
        qt, acc = carve(room, 2, D, I), carve(room, 3, I, D)
        m_i, l_i = m[b, h, i0:i1], l[b, h, i0:i1]
        transpose(q[b, h, i0:i1], qt)
        m_i[:], l_i[:] = -np.inf, 0
        clear(acc)
        if dropping:
            row_hashes(rules, b, h, i0, hashes[:I])
        untouched = True
        begin, end = keys_to_visit(rules, b, i0, i1)
        j1 = begin
        while j1 < end:
            j0 = j1
            j1, first_row, last_row, found = next_tile(rules, b, h, i0, i1, j0, end, keys)
            if found == NONE:
                continue
            x, y, J = first_row - i0, last_row - i0, j1 - j0          # the queries x .. y - 1 of this tile
            s = carve(room, 4, J, y - x)
            k_j = k[b, h * G // H, j0:j1]                             # (J, D)
            v_j = bring_together(v[b, h * G // H, j0:j1], room, 5)

            scores(rules, h, first_row, j0, k_j, qt[:, x:y], s, carve(room, 6, *s.shape))                     # s = scale k q'
            if found == SOME:
                hide(s, s.dtype.type(-np.inf), rules, b, h, first_row, j0)
            rose = online_softmax(s, m_i[x:y], l_i[x:y], alpha[x:y], top[x:y], total[x:y])                    # p = exp(s - m)
            if dropping:
                drop(s, rules, hashes[x:y], j0, s)
            if rose and not untouched:                                # acc *= alpha
                for i in range(x, y):
                    shrink = alpha[i]
                    for d in range(D):
                        acc[i, d] *= shrink
            add_product(found, one, s.T, v_j, acc[x:y], rules, b, h, first_row, j0, False)                    # acc += p' v
            untouched = False
        divide(rules, b, h, i0, m_i, l_i, acc, o[b, h, i0:i1])
        finish(ledger)
    return all_finished(ledger, task)


@inlined
def divide(rules, b, h, i0, m_i, l_i, acc, o_i):
    """o = acc / l; 0 for a query that may attend to nothing, NaN for one that saw only -Inf."""
    for i in range(len(m_i)):
        o_row = row(o_i, i)
        if l_i[i] == 0:
            nothing = True
            for j in range(rules.S):
                nothing &= not is_allowed(rules, b, h, i0 + i, j)
            if not nothing:
                l_i[i] = np.nan
            o_row[:] = l_i[i]
            continue
        one_over_l = l_i.dtype.type(1) / l_i[i]
        for d in range(len(o_row)):
            o_row[d] = acc[i, d] * one_over_l


def backward(do, q, k, v, o, m, l, first, last, mask, scale, softcap, slopes, bias, threshold, kept, seed_high, seed_low, rows, keys,
             room, hashes, ledger, task, tasks, parts, dq, dk, dv, dbias):
    """The part of the backward that is task number `task` of `tasks`: the units that it is first to take.

    A unit is a part of a key-value head. A row of `parts` reads t0, t1, s0, s1, want_dq, want_dkv: the gradient of the
    queries t0 .. t1 - 1, or of the keys and values s0 .. s1 - 1, or both.
    """
    do, q, k, v, o, m, l = borrow(do), borrow(q), borrow(k), borrow(v), borrow(o), borrow(m), borrow(l)
    dq, dk, dv, room, hashes, ledger = borrow(dq), borrow(dk), borrow(dv), borrow(room), borrow(hashes), borrow(ledger)
    B, H, T, D = q.shape
    G, S = k.shape[1], k.shape[2]
    zero, one = q.dtype.type(0), q.dtype.type(1)
    rules = Rules(borrow(first), borrow(last), borrow(mask), scale, softcap, borrow(slopes), borrow(bias), threshold, kept,
                  seed_high, seed_low, T, S)
    delta, one_over_l, dropping = room[0], room[1], threshold > 0

    units = len(parts) * B * G
    for turn in range(units):
        unit = turn_of(turn, units, task, tasks)
        if not take(ledger, unit):
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
                q_i, do_i = carve(room, 2, I, D), carve(room, 3, I, D)
                qt, dot = carve(room, 4, D, I), carve(room, 5, D, I)
                copy(q[b, h, i0:i1], q_i)
                copy(do[b, h, i0:i1], do_i)
                transpose(q_i, qt)
                transpose(do_i, dot)
                row_products(do_i, o[b, h, i0:i1], delta[:I])         # delta = rowsum(do * o) = sum_j p_j dp_j
                for i in range(I):
                    one_over_l[i] = one / l[b, h, i0 + i]
                if want_dq:
                    clear(dq[b, h, i0:i1])
                if dropping:
                    row_hashes(rules, b, h, i0, hashes[:I])
                begin, end = keys_to_visit(rules, b, i0, i1)
                j1 = max(begin, s0)
                while j1 < min(end, s1):
                    j0 = j1
                    j1, first_row, last_row, found = next_tile(rules, b, h, i0, i1, j0, end, keys)
                    if found == NONE:
                        continue
                    x, y, J = first_row - i0, last_row - i0, j1 - j0  # the queries x .. y - 1 of this tile
                    p, ds = carve(room, 6, J, y - x), carve(room, 7, J, y - x)
                    dropped, uncapped = carve(room, 8, J, y - x), carve(room, 9, J, y - x)
                    k_j = bring_together(k[b, g, j0:j1], room, 10)    # (J, D)
                    v_j = v[b, g, j0:j1]

                    # p = exp(s - m) / l
                    scores(rules, h, first_row, j0, k_j, qt[:, x:y], p, uncapped)
                    weights_again(p, m[b, h, first_row:last_row], one_over_l[x:y])
                    if found == SOME:
                        hide(p, zero, rules, b, h, first_row, j0)

                    # o = p v
                    product(one, v_j, dot[:, x:y], ds, False)         # dp = do v'
                    if dropping:
                        drop(p, rules, hashes[x:y], j0, dropped)
                        drop(ds, rules, hashes[x:y], j0, ds)
                    if want_dkv:                                      # dv += p' do
                        add_product(found, one, dropped if dropping else p, do_i[x:y], dv[b, g, j0:j1],
                                    rules, b, h, first_row, j0, True)

                    # p = softmax(s)
                    softmax_gradient(p, delta[x:y], ds)               # ds = p (dp - delta)
                    if found == SOME:
                        hide(ds, zero, rules, b, h, first_row, j0)
                    if want_dq and bias.size > 0:
                        add_diagonals(ds, first_row, j0, T, dbias[b, h])
                    if softcap > 0:
                        if found == SOME:
                            hide(uncapped, zero, rules, b, h, first_row, j0)
                        multiply(ds, uncapped)

                    # s = scale q k'
                    if want_dkv:                                      # dk += scale ds' q
                        add_product(found, scale, ds, q_i[x:y], dk[b, g, j0:j1], rules, b, h, first_row, j0, True)
                    if want_dq:                                       # dq += scale ds k
                        add_product(found, scale, ds.T, k_j, dq[b, h, first_row:last_row], rules, b, h, first_row, j0, False)
        finish(ledger)
    return all_finished(ledger, task)


@summing
def row_products(x, y, total):
    """The sums of x * y along their rows, in float64: ds is a difference of this and dp, and their errors stay."""
    for i in range(len(total)):
        t, x_i, y_i = 0.0, row(x, i), row(y, i)
        for d in range(x.shape[1]):
            t += np.float64(x_i[d]) * np.float64(y_i[d])
        total[i] = t


FORWARD = Kernel(forward, lambda real: (*3 * [any_strides(real)], *rule_types(real), real[:, :, :, :], *2 * [real[:, :, ::1]]))
BACKWARD = Kernel(backward, lambda real: (
    *5 * [any_strides(real)], *2 * [types.Array(real, 3, "C", readonly=True)], *rule_types(real), int64[:, ::1],
    *3 * [real[:, :, :, :]], float64[:, :, ::1]))


def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None, softcap=None, dropout=0.0, seed=None,
                                 tasks=1, run=in_turn):
    """The twin of `numformer.functional.scaled_dot_product_attention`: the same numbers up to rounding, in O(T) memory.

    Output is divided by l last, so sums of values before that must fit the precision: of S values near its largest, they do not.

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
    (B, H, T, D), S = q.shape, k.shape[2]
    check_array("scaled_dot_product_attention", "v", v, "(B, G, S, D)", q.dtype, B=B, G=k.shape[1], S=S, D=D)
    dropping = drops(dropout, seed)
    check_kernel_takes("scaled_dot_product_attention", q=q, k=k, v=v, bias=bias)
    check_whole("scaled_dot_product_attention", "tasks", tasks)
    real, seed = q.dtype.type, int(seed) if dropping else 0
    mask, no_slopes, no_bias = absent(real)
    if pattern.mask is not None:
        mask = pattern.mask.reshape(1, 1, T, S) if pattern.mask.ndim == 2 else pattern.mask
    rules = (*pattern.intervals(T, S), mask, real(scale), real(softcap or 0), no_slopes if slopes is None else slopes.astype(real),
             no_bias if bias is None else np.ascontiguousarray(bias), dropout_threshold(dropout) if dropping else 0,
             real(1 / (1 - dropout)), seed >> 32, seed & 0xFFFFFFFF)
    q, k, v = with_rows(q), with_rows(k), with_rows(v)
    o, (m, l) = by_tokens(new_array((q.size,), q.dtype), q.shape), np.empty((2, B, H, T), real)
    tile = tile_size(T, S, D)
    kernel, ledger = FORWARD[q.dtype], new_ledger(B * H * -(-T // tile[0]))
    run(lambda task: kernel(q, k, v, *rules, *tile, *work_room(*tile, D, real), ledger, task, tasks, o, m, l), range(tasks))

    saved = (q, k, v, o, m, l, rules, tile)
    return o, saved


def scaled_dot_product_attention_backward(do, saved, tasks=1, run=in_turn):
    """The twin of `numformer.functional.scaled_dot_product_attention_backward`.

    Where there are fewer key-value heads than tasks, the tasks share each head: some take the gradients of ranges of
    queries, others those of ranges of keys and values, and both make the weights anew. The bits are the same. Raises a
    ValueError or TypeError if `do` has not the shape and dtype of o.
    """
    q, k, v, o, m, l, rules, tile = saved
    (B, H, T, D), G, S = q.shape, *k.shape[1:3]
    name = "scaled_dot_product_attention_backward"
    check_array(name, "do", do, "(B, H, T, D)", q.dtype, B=B, H=H, T=T, D=D)
    check_kernel_takes(name, do=do)
    check_whole(name, "tasks", tasks)
    do, has_bias = with_rows(do), rules[6].size > 0
    block = new_array((q.size + k.size + v.size,), q.dtype)               # one block for all three: three come at the price of page faults
    dq, dk = by_tokens(block[:q.size], q.shape), by_tokens(block[q.size:-v.size], k.shape)
    dv = by_tokens(block[-v.size:], v.shape)
    dbias = np.zeros((B, H, has_bias * (T + S - 1)))              # float64: a diagonal is long
    parts = [(0, T, 0, S, True, True)]
    if tasks > B * G and not has_bias:
        parts = [(t0, t1, 0, S, True, False) for t0, t1 in ranges(T, tile[0], tasks)]
        parts += [(0, T, s0, s1, False, True) for s0, s1 in ranges(S, tile[1], tasks)]
    parts = np.array(parts, np.int64)
    kernel, ledger = BACKWARD[q.dtype], new_ledger(len(parts) * B * G)
    run(lambda task: kernel(do, q, k, v, o, m, l, *rules, *tile, *work_room(*tile, D, q.dtype.type), ledger, task, tasks, parts,
                            dq, dk, dv, dbias), range(tasks))
    if not has_bias:
        return dq, dk, dv
    with np.errstate(invalid="ignore", over="ignore"):                # Inf of one example and -Inf of another
        return dq, dk, dv, dbias.sum(axis=0).astype(q.dtype)


def log_sum_exp(saved):
    """log(sum_j exp(s_ij)) of every row of scores: float64, (B, H, T); -Inf for a query that may attend to nothing."""
    _, _, _, _, m, l, _, _ = saved
    with np.errstate(divide="ignore"):
        return m.astype(np.float64) + np.log(l.astype(np.float64))
