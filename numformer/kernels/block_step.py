"""One token's way through a pre-norm block in one call: norm, projections, attention to the cache, feed-forward.

At one token every weight is read once and multiplies once, so the way is as long as the memory takes to bring them; what Python
does between two small steps would be as long again.
"""

import math

import numpy as np
from numba import boolean, int64, types

from numformer.kernels.activations import KINDS, activate
from numformer.kernels.arithmetic import exp
from numformer.kernels.compiled import Kernel, inlined
from numformer.kernels.launch import absent
from numformer.kernels.linear import add_rows_of, dot
from numformer.kernels.memory import borrow, row
from numformer.kernels.normalization import normalize_one
from numformer.kernels.shapes import line, matrix, new_line


@inlined
def affine(x, weight, bias, y):
    """y = x W + b."""
    zero = y.dtype.type(0)
    for f in range(len(y)):
        y[f] = bias[f] if len(bias) > 0 else zero
    add_rows_of(x, weight, y)


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
def attend_to_cache(q, keys, values, S, slopes, scores, o):
    """o = softmax(q k' / sqrt(D) - slope distance) v of the last of S positions, a head after the other."""
    G, D = keys.shape[0], keys.shape[2]
    H, zero, one = len(q) // D, q.dtype.type(0), q.dtype.type(1)
    scale = one / q.dtype.type(math.sqrt(D))
    for h in range(H):
        start, stop, k, v = h * D, (h + 1) * D, keys[h * G // H], values[h * G // H]
        q_h, o_h = q[start:stop], o[start:stop]
        slope = slopes[h] if len(slopes) > 0 else zero
        top = q.dtype.type(-np.inf)
        for j in range(S):
            scores[j] = dot(q_h, row(k, j)) * scale - slope * q.dtype.type(S - 1 - j)
            top = max(top, scores[j])
        for d in range(D):
            o_h[d] = zero
        total = zero
        for j in range(S):
            p = exp(scores[j] - top)
            total += p
            v_j = row(v, j)
            for d in range(D):
                o_h[d] += p * v_j[d]
        for d in range(D):
            o_h[d] /= total


def block_step(x, gain1, shift1, query, query_bias, key, key_bias, value, value_bias, query_gain, key_gain, slopes, output, output_bias,
               gain2, shift2, gate, gate_bias, hidden, hidden_bias, down, down_bias,
               epsilon1, epsilon2, query_epsilon, key_epsilon, centred, inside, halves, kind,
               cosine, sine, keys, values, position, room, wide, y):
    """y = h + feedforward(norm2(h)), h = x + attention(norm1(x)); x, y (C,).

    Matrices are (in, out); an array of length 0 is one that is not there. keys, values (G, capacity, D) take the new position
    in; room is (3, C), wide (4, C, F or capacity, whichever is largest).
    """
    C, D, real = len(x), keys.shape[2], x.dtype.type
    a, q, rest = room[0], room[1], wide[3]                            # `rest` is for v, then for scores, then for slopes
    normalize_one(x, gain1, shift1, epsilon1, inside, centred, a)
    affine(a, query, query_bias, q)
    width = key.shape[1]
    k, v = room[2, :width], rest[:width]
    affine(a, key, key_bias, k)
    affine(a, value, value_bias, v)
    if len(query_gain) > 0:
        norm_heads(q, query_gain, query_epsilon, D)
        norm_heads(k, key_gain, key_epsilon, D)
    if len(cosine) > 0:
        turn_heads(q, cosine, sine, halves, D)
        turn_heads(k, cosine, sine, halves, D)
    for g in range(keys.shape[0]):
        for d in range(D):
            keys[g, position, d], values[g, position, d] = k[g * D + d], v[g * D + d]
    attend_to_cache(q, borrow(keys), borrow(values), position + 1, slopes, rest, a)
    h = q                                                             # their room is free again
    affine(a, output, output_bias, h)
    for c in range(C):
        h[c] += x[c]

    F = hidden.shape[1]
    g, u, f, slope = wide[0, :F], wide[1, :F], wide[2, :F], rest[:F]
    normalize_one(h, gain2, shift2, epsilon2, inside, centred, a)
    affine(a, hidden, hidden_bias, u)
    if gate.size > 0:
        affine(a, gate, gate_bias, g)
        activate(kind, real(1), g, f, slope)
        for n in range(F):
            f[n] *= u[n]
    else:
        activate(kind, real(1), u, f, slope)
    affine(f, down, down_bias, y)
    for c in range(C):
        y[c] += h[c]


BLOCK_STEP = Kernel(block_step, lambda real: (
    line(real), *2 * [line(real)], *3 * [matrix(real), line(real)], *3 * [line(real)], matrix(real), line(real), *2 * [line(real)],
    *3 * [matrix(real), line(real)], *4 * [real], *3 * [boolean], int64, *2 * [line(real)], *2 * [types.Array(real, 3, "C")], int64,
    *2 * [types.Array(real, 2, "C")], new_line(real)))


def run_block_step(x, weights, epsilons, centred, inside, halves, activation, angles, keys, values, position):
    """The kernel, with its working rooms.

    Parameters
    ----------
    x : ndarray, shape (C,)
    weights : sequence of ndarray or None
        In the order of `block_step`.
    epsilons : sequence of float
    centred, inside, halves : bool
    activation : str
    angles : (cosine, sine), or None
    keys, values : ndarray, shape (G, capacity, D)
        Written to at `position`.
    position : int

    Returns
    -------
    ndarray, shape (C,)
    """
    real = x.dtype.type
    _, *nothing = absent(real)                                        # a line and a matrix
    weights = [nothing[name in MATRICES] if array is None else array for name, array in zip(NAMES, weights, strict=True)]
    cosine, sine = (nothing[0], nothing[0]) if angles is None else angles
    room = np.empty((3, len(x)), real)
    wide = np.empty((4, max(len(x), keys.shape[1], weights[NAMES.index("hidden")].shape[1])), real)
    y = np.empty_like(x)
    BLOCK_STEP[x.dtype](x, *weights, *map(real, epsilons), centred, inside, halves, KINDS[activation], cosine, sine, keys, values, position,
                        room, wide, y)
    return y


NAMES = block_step.__code__.co_varnames[1:22]
MATRICES = ("query", "key", "value", "output", "gate", "hidden", "down")
