"""What one task does of a branch: some heads of the attention, or some hidden units."""

import math

import numpy as np

from numformer.kernels.activations import activate
from numformer.kernels.decoding.weights import (
    CAPACITY, DOWN, GATE, GATE_BIAS, HIDDEN, HIDDEN_BIAS, KEY, KEY_BIAS, KEY_EPSILON,
    KEY_NORM_WEIGHT, KEYS, OUTPUT, PARTS, QUERY, QUERY_BIAS, QUERY_EPSILON, QUERY_NORM_WEIGHT,
    VALUE, VALUE_BIAS, VALUES, add_parts, multiply_part, vector_at)
from numformer.kernels.linear import dot
from numformer.kernels.norms import normalize_vector
from numformer.kernels.runtime.arithmetic import exp
from numformer.kernels.runtime.compile import always_inlined, inlined
from numformer.kernels.runtime.memory import matrix_at, row


@inlined
def norm_heads(x, weight, epsilon, D):
    """RMSNorm of each head, in place."""
    for start in range(0, len(x), D):
        head = x[start:start + D]
        normalize_vector(head, weight, weight[:0], epsilon, True, False, head)


@inlined
def rotate_heads(x, cosine, sine, halves, D):
    """Rotary positions of each head, in place."""
    for h in range(len(x) // D):
        for i in range(D // 2):
            if halves:
                a, b = h * D + i, h * D + D // 2 + i
            else:
                a, b = h * D + 2 * i, h * D + 2 * i + 1
            x_a, x_b = x[a], x[b]
            x[a], x[b] = x_a * cosine[i] - x_b * sine[i], x_a * sine[i] + x_b * cosine[i]


@inlined
def attend_to_cache(q, keys, values, slope, scores, o):
    """o = softmax(q k' / sqrt(D) - slope distance) v, one head of the last query; keys (S, D)."""
    S, zero, one = len(keys), q.dtype.type(0), q.dtype.type(1)
    scale = one / q.dtype.type(math.sqrt(len(q)))
    largest = q.dtype.type(-np.inf)
    for j in range(S):
        scores[j] = dot(q, row(keys, j)) * scale - slope * q.dtype.type(S - 1 - j)
        largest = max(largest, scores[j])
    for d in range(len(q)):
        o[d] = zero
    total = zero
    for j in range(S):
        p = exp(scores[j] - largest)
        total += p
        v_j = row(values, j)
        for d in range(len(q)):
            o[d] += p * v_j[d]
    for d in range(len(q)):
        o[d] /= total


@always_inlined
def project_part(a, w, attends, KV, F, part, y):
    """y = a [W_q W_k W_v] or a [W_1 W_gate], from some rows of each matrix."""
    C = len(a)
    start, stop = C * part // PARTS, C * (part + 1) // PARTS
    if attends:
        multiply_part(a, w[QUERY], start, stop, y[:C])
        multiply_part(a, w[KEY], start, stop, y[C:C + KV])
        multiply_part(a, w[VALUE], start, stop, y[C + KV:C + 2 * KV])
    else:
        multiply_part(a, w[HIDDEN], start, stop, y[:F])
        if w[GATE] != 0:
            multiply_part(a, w[GATE], start, stop, y[F:2 * F])


@inlined
def attention_part(w, epsilons, cosine, sine, halves, slopes, H, G, cache, position, part, sums,
                   workspace, y):
    """y = o W_O, for some of the G key-value heads and their queries' o.

    Keys and values of this position are written into the cache.
    """
    C, size = len(y), y.itemsize
    D, group = C // H, H // G
    first, last = G * part // PARTS, G * (part + 1) // PARTS
    k0, k1, q0, q1 = first * D, last * D, first * group * D, last * group * D
    o, scores, q = row(workspace, 2)[:C], row(workspace, 3), row(workspace, 4)[:q1 - q0]
    k, v = row(workspace, 5)[:k1 - k0], row(workspace, 6)[:k1 - k0]
    add_parts(sums, q0, vector_at(w[QUERY_BIAS], q0, q1, y), q)
    add_parts(sums, C + k0, vector_at(w[KEY_BIAS], k0, k1, y), k)
    add_parts(sums, C + G * D + k0, vector_at(w[VALUE_BIAS], k0, k1, y), v)
    if w[QUERY_NORM_WEIGHT] != 0:
        norm_heads(q, vector_at(w[QUERY_NORM_WEIGHT], 0, D, y), epsilons[QUERY_EPSILON], D)
        norm_heads(k, vector_at(w[KEY_NORM_WEIGHT], 0, D, y), epsilons[KEY_EPSILON], D)
    if len(cosine) > 0:
        rotate_heads(q, cosine, sine, halves, D)
        rotate_heads(k, cosine, sine, halves, D)
    for g in range(first, last):
        start = g * cache[CAPACITY] * D * size
        keys = matrix_at(cache[KEYS] + start, position + 1, D, D, y)
        values = matrix_at(cache[VALUES] + start, position + 1, D, D, y)
        for d in range(D):
            keys[position, d], values[position, d] = k[g * D - k0 + d], v[g * D - k0 + d]
        for h in range(g * group, (g + 1) * group):
            slope = slopes[h] if len(slopes) > 0 else y.dtype.type(0)
            q_h = q[h * D - q0:(h + 1) * D - q0]
            attend_to_cache(q_h, keys, values, slope, scores, o[h * D:(h + 1) * D])
    multiply_part(o, w[OUTPUT], q0, q1, y)


@inlined
def feedforward_part(w, F, kind, part, sums, workspace, y):
    """y = activation(u) W_2, or gated, for some of the F hidden units."""
    one, first, last = y.dtype.type(1), F * part // PARTS, F * (part + 1) // PARTS
    f, n = row(workspace, 2)[:F], last - first
    g, u, slope = row(workspace, 3)[:n], row(workspace, 4)[:n], row(workspace, 5)[:n]
    add_parts(sums, first, vector_at(w[HIDDEN_BIAS], first, last, y), u)
    if w[GATE] != 0:
        add_parts(sums, F + first, vector_at(w[GATE_BIAS], first, last, y), g)
        activate(kind, one, g, f[first:last], slope)
        for i in range(n):
            f[first + i] *= u[i]
    else:
        activate(kind, one, u, f[first:last], slope)
    multiply_part(f, w[DOWN], first, last, y)


@inlined
def logits_part(a, address, V, part, logits):
    """logits = a W' for some of the rows of the head's W (V, C)."""
    C = len(a)
    for v in range(V * part // PARTS, V * (part + 1) // PARTS):
        logits[v] = dot(a, vector_at(address, v * C, (v + 1) * C, a))
