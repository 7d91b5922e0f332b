"""One token's way through a pre-norm decoder in one call: from its vector through block after block to the scores of the next.

At one token every weight is read once and multiplies once, so the way is as long as the memory takes to bring them; what Python
does between two small steps would be as long again. One core does not ask for as much as the memory can bring, so threads share
each product x W: a part has some of the rows of W, one stretch of memory, and makes a sum of its own; who needs y adds them up.
(Some of the columns each would need fewer sums, but rows cut short are read at half the speed.) Who computes a part is chance;
the parts, and the order in which their sums are added, are not.
"""

import math

import numpy as np
from numba import boolean, int64

from numformer.kernels.activations import KINDS, activate
from numformer.kernels.arithmetic import exp
from numformer.kernels.compiled import Kernel, inlined
from numformer.kernels.launch import absent, in_turn
from numformer.kernels.linear import add_rows_of, dot
from numformer.kernels.memory import matrix_at, row
from numformer.kernels.normalization import normalize_one
from numformer.kernels.room import new_array
from numformer.kernels.shapes import line, new_line, new_matrix
from numformer.kernels.sharing import all_finished, finish, take, turn_of, wait_for_all

PARTS = 4
NAMES = ("gain1", "shift1", "query", "query_bias", "key", "key_bias", "value", "value_bias", "query_gain", "key_gain", "output",
         "output_bias", "gain2", "shift2", "gate", "gate_bias", "hidden", "hidden_bias", "down", "down_bias")
(GAIN1, SHIFT1, QUERY, QUERY_BIAS, KEY, KEY_BIAS, VALUE, VALUE_BIAS, QUERY_GAIN, KEY_GAIN, OUTPUT, OUTPUT_BIAS, GAIN2, SHIFT2, GATE,
 GATE_BIAS, HIDDEN, HIDDEN_BIAS, DOWN, DOWN_BIAS) = range(len(NAMES))
EPSILON1, EPSILON2, QUERY_EPSILON, KEY_EPSILON = range(4)
END_GAIN, END_SHIFT, HEAD = range(3)
KEYS, VALUES, CAPACITY = range(3)


@inlined
def line_at(place, start, stop, x):
    """Numbers start .. stop of the line that begins at `place`; none, if nothing begins there."""
    return row(matrix_at(place + start * x.itemsize, 1, stop - start if place != 0 else 0, 1, x), 0)


@inlined
def multiply(x, place, start, stop, y):
    """y = x W, of x and of the rows of W the part start .. stop alone; W begins at `place`."""
    zero, width = y.dtype.type(0), len(y)
    for f in range(width):
        y[f] = zero
    add_rows_of(x[start:stop], matrix_at(place + start * width * x.itemsize, stop - start, width, width, x), y)


@inlined
def add_up(sums, start, bias, y):
    """y = b + the sums of all parts, from place `start` on."""
    for f in range(len(y)):
        total = bias[f] if len(bias) > 0 else y.dtype.type(0)
        for part in range(PARTS):
            total += sums[part, start + f]
        y[f] = total


@inlined
def norm_heads(x, gain, epsilon, D):
    """RMSNorm of each head, in place."""
    for start in range(0, len(x), D):
        head = x[start:start + D]
        normalize_one(head, gain, gain[:0], epsilon, True, False, head)


@inlined
def turn_heads(x, cosine, sine, halves, D):
    """Rotary positions of each head, in place."""
    for h in range(len(x) // D):
        for i in range(D // 2):
            a, b = (h * D + i, h * D + D // 2 + i) if halves else (h * D + 2 * i, h * D + 2 * i + 1)
            x_a, x_b = x[a], x[b]
            x[a], x[b] = x_a * cosine[i] - x_b * sine[i], x_a * sine[i] + x_b * cosine[i]


@inlined
def attend_to_cache(q, keys, values, slope, scores, o):
    """o = softmax(q k' / sqrt(D) - slope distance) v of one head at the last position; keys, values (S, D)."""
    S, zero, one = len(keys), q.dtype.type(0), q.dtype.type(1)
    scale = one / q.dtype.type(math.sqrt(len(q)))
    top = q.dtype.type(-np.inf)
    for j in range(S):
        scores[j] = dot(q, row(keys, j)) * scale - slope * q.dtype.type(S - 1 - j)
        top = max(top, scores[j])
    for d in range(len(q)):
        o[d] = zero
    total = zero
    for j in range(S):
        p = exp(scores[j] - top)
        total += p
        v_j = row(values, j)
        for d in range(len(q)):
            o[d] += p * v_j[d]
    for d in range(len(q)):
        o[d] /= total


@inlined
def attention_part(w, epsilons, cosine, sine, halves, slopes, H, G, cache, position, part, sums, room, y):
    """y = o W_O, for some of the G heads of keys and their queries' o; the position's keys and values go into the cache."""
    C, size = len(y), y.itemsize
    D, per = C // H, H // G
    first, last = G * part // PARTS, G * (part + 1) // PARTS
    k0, k1, q0, q1 = first * D, last * D, first * per * D, last * per * D
    o, scores = row(room, 2)[:C], row(room, 3)
    q, k, v = row(room, 4)[:q1 - q0], row(room, 5)[:k1 - k0], row(room, 6)[:k1 - k0]
    add_up(sums, q0, line_at(w[QUERY_BIAS], q0, q1, y), q)
    add_up(sums, C + k0, line_at(w[KEY_BIAS], k0, k1, y), k)
    add_up(sums, C + G * D + k0, line_at(w[VALUE_BIAS], k0, k1, y), v)
    if w[QUERY_GAIN] != 0:
        norm_heads(q, line_at(w[QUERY_GAIN], 0, D, y), epsilons[QUERY_EPSILON], D)
        norm_heads(k, line_at(w[KEY_GAIN], 0, D, y), epsilons[KEY_EPSILON], D)
    if len(cosine) > 0:
        turn_heads(q, cosine, sine, halves, D)
        turn_heads(k, cosine, sine, halves, D)
    for g in range(first, last):
        start = g * cache[CAPACITY] * D * size
        keys = matrix_at(cache[KEYS] + start, position + 1, D, D, y)
        values = matrix_at(cache[VALUES] + start, position + 1, D, D, y)
        for d in range(D):
            keys[position, d], values[position, d] = k[g * D - k0 + d], v[g * D - k0 + d]
        for h in range(g * per, (g + 1) * per):
            slope = slopes[h] if len(slopes) > 0 else y.dtype.type(0)
            attend_to_cache(q[h * D - q0:(h + 1) * D - q0], keys, values, slope, scores, o[h * D:(h + 1) * D])
    multiply(o, w[OUTPUT], q0, q1, y)


@inlined
def feedforward_part(w, F, kind, part, sums, room, y):
    """y = activation(u) W_2, or gated, for some of the F hidden units."""
    one, first, last = y.dtype.type(1), F * part // PARTS, F * (part + 1) // PARTS
    f, n = row(room, 2)[:F], last - first
    g, u, slope = row(room, 3)[:n], row(room, 4)[:n], row(room, 5)[:n]
    add_up(sums, first, line_at(w[HIDDEN_BIAS], first, last, y), u)
    if w[GATE] != 0:
        add_up(sums, F + first, line_at(w[GATE_BIAS], first, last, y), g)
        activate(kind, one, g, f[first:last], slope)
        for i in range(n):
            f[first + i] *= u[i]
    else:
        activate(kind, one, u, f[first:last], slope)
    multiply(f, w[DOWN], first, last, y)


@inlined
def score_part(a, place, V, part, logits):
    """logits = a W' for some of the rows of the head's W (V, C)."""
    C = len(a)
    for v in range(V * part // PARTS, V * (part + 1) // PARTS):
        logits[v] = dot(a, line_at(place, v * C, (v + 1) * C, a))


def token_step(x, weights, epsilons, ends, end_epsilon, F, centred, inside, kind, cosine, sine, halves, slopes, H, G, caches, position,
               ledgers, inner, outer, logits, task, tasks, room):
    """h = x; in each block h += attention(norm1(h)), h += feedforward(norm2(h)); logits = head(norm(h)).

    x (C,); weights (L, 20), where they lie, 0 for what is not there, matrices (in, out); epsilons (L, 4); ends (3,), where the last
    norm and the head lie; caches (L, 3); slopes (H,) or empty. Tasks share logits (V,), two ledgers for each branch and one for the
    head, (4L + 1, PARTS + 1), and the parts' sums: of the products into a branch, (PARTS, widest), and out of it, (2L PARTS, C).
    Each has a room of its own, (7, widest). Returns whether the whole way is done.

    A task that comes late goes through all of it and finds nothing to do. What it reads of `inner` may be of a later branch by
    then, and is used by nobody; `outer`, which it needs for its h, is written to once.
    """
    C, KV = len(x), G * (len(x) // H)
    h, a = row(room, 0)[:C], row(room, 1)[:C]
    for c in range(C):
        h[c] = x[c]
    for branch in range(2 * len(weights)):
        w, eps, attends = row(weights, branch // 2), row(epsilons, branch // 2), branch % 2 == 0
        gain, shift = line_at(w[GAIN1 if attends else GAIN2], 0, C, x), line_at(w[SHIFT1 if attends else SHIFT2], 0, C, x)
        normalize_one(h, gain, shift, eps[EPSILON1 if attends else EPSILON2], inside, centred, a)
        ledger = row(ledgers, 2 * branch)
        for turn in range(PARTS):
            part = turn_of(turn, PARTS, task, tasks)
            if take(ledger, part):
                y, start, stop = row(inner, part), C * part // PARTS, C * (part + 1) // PARTS
                if attends:
                    multiply(a, w[QUERY], start, stop, y[:C])
                    multiply(a, w[KEY], start, stop, y[C:C + KV])
                    multiply(a, w[VALUE], start, stop, y[C + KV:C + 2 * KV])
                else:
                    multiply(a, w[HIDDEN], start, stop, y[:F])
                    if w[GATE] != 0:
                        multiply(a, w[GATE], start, stop, y[F:2 * F])
                finish(ledger)
        wait_for_all(ledger)
        ledger = row(ledgers, 2 * branch + 1)
        for turn in range(PARTS):
            part = turn_of(turn, PARTS, task, tasks)
            if take(ledger, part):
                y = row(outer, branch * PARTS + part)
                if attends:
                    attention_part(w, eps, cosine, sine, halves, slopes, H, G, row(caches, branch // 2), position, part, inner, room, y)
                else:
                    feedforward_part(w, F, kind, part, inner, room, y)
                finish(ledger)
        wait_for_all(ledger)
        bias = line_at(w[OUTPUT_BIAS if attends else DOWN_BIAS], 0, C, x)
        for part in range(PARTS):
            y = row(outer, branch * PARTS + part)
            for c in range(C):
                h[c] += y[c]
        for c in range(len(bias)):
            h[c] += bias[c]
    normalize_one(h, line_at(ends[END_GAIN], 0, C, x), line_at(ends[END_SHIFT], 0, C, x), end_epsilon, inside, centred, a)
    ledger = row(ledgers, len(ledgers) - 1)
    for turn in range(PARTS):
        part = turn_of(turn, PARTS, task, tasks)
        if take(ledger, part):
            score_part(a, ends[HEAD], len(logits), part, logits)
            finish(ledger)
    return all_finished(ledger, task)


TOKEN_STEP = Kernel(token_step, lambda real: (
    line(real), new_matrix(int64), new_matrix(real), new_line(int64), real, int64, *2 * [boolean], int64, *2 * [line(real)], boolean,
    line(real), *2 * [int64], new_matrix(int64), int64, new_matrix(int64), *2 * [new_matrix(real)], new_line(real), *2 * [int64],
    new_matrix(real)))


def places(arrays):
    """Where arrays lie, 0 for None."""
    return [0 if array is None else array.ctypes.data for array in arrays]


def run_token_step(x, weights, epsilons, ends, end_epsilon, F, centred, inside, activation, angles, halves, slopes, H, G, caches, position,
                   V, tasks=1, run=in_turn):
    """The kernel, with its working rooms.

    Parameters
    ----------
    x : ndarray, shape (C,)
    weights : ndarray of int64, shape (L, 20)
        `places` of the arrays that NAMES lists, which are without gaps; the caller keeps them alive.
    epsilons : ndarray, shape (L, 4)
        Of the two norms, of queries, of keys.
    ends : ndarray of int64, shape (3,)
        `places` of the last norm's gain and shift, and of the head's weight (V, C).
    end_epsilon : float
    F : int
    centred, inside, halves : bool
    activation : str
    angles : (cosine, sine), or None
    slopes : ndarray, shape (H,), or None
    H, G : int
    caches : list of (int, int, int)
        Where keys and values (G, capacity, D) of each block lie, and the capacity; they are written to at `position`.
    position : int
    V : int
    tasks : int
    run : callable

    Returns
    -------
    logits : ndarray, shape (V,)
    """
    C, L, real, kernel, tasks = len(x), len(weights), x.dtype, TOKEN_STEP[x.dtype], min(tasks, PARTS)
    _, nothing, _ = absent(real.type)
    cosine, sine = (nothing, nothing) if angles is None else angles
    slopes = nothing if slopes is None else slopes
    caches, ledgers = np.array(caches, np.int64), np.zeros((4 * L + 1, PARTS + 1), np.int64)
    inner, outer = new_array((PARTS, max(3 * C, 2 * F)), real), new_array((2 * L * PARTS, C), real)
    rooms, logits = new_array((tasks, 7, max(C, F, position + 1)), real), np.empty(V, real)

    def work(task):
        return kernel(x, weights, epsilons, ends, real.type(end_epsilon), F, centred, inside, KINDS[activation], cosine, sine, halves,
                      slopes, H, G, caches, position, ledgers, inner, outer, logits, task, tasks, rooms[task])

    run(work, range(tasks))
    return logits
