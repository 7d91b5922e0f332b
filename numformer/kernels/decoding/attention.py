"""Attention of the new tokens of one text to all its tokens, for one key-value head.

Keys and values lie in pages of as many positions as a panel has columns. The keys of a page are a
panel, (D, positions), so that the scores of several queries are a product with it. Its values are
(positions, D).
"""

import math

import numpy as np

from numformer.kernels.decoding.panels import multiply_panel, panel_columns, vector_at
from numformer.kernels.decoding.table import (
    KEY_EPSILON, KEY_NORM_WEIGHT, QUERY_EPSILON, QUERY_NORM_WEIGHT)
from numformer.kernels.norms import normalize_vector
from numformer.kernels.runtime.arithmetic import exp, larger
from numformer.kernels.runtime.compile import inlined
from numformer.kernels.runtime.memory import matrix_at, row
from numformer.kernels.runtime.vectors import MOST_ROWS, SAME


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
def encode_and_keep(qkv, H, G, D, g, text, pages, keys, values, w, epsilons, cosine, sine, halves):
    """Encode queries and keys of the text's rows in place; copy keys and values into the pages.

    `keys` and `values` are offsets in bytes from the beginning of a page.
    """
    group, width = H // G, panel_columns(qkv.itemsize)
    for i in range(text[0], text[1]):
        heads, position = row(qkv, i), text[2] + i - text[0]
        q, k = heads[g * group * D:(g + 1) * group * D], heads[(H + g) * D:(H + g + 1) * D]
        v = heads[(H + G + g) * D:(H + G + g + 1) * D]
        if w[QUERY_NORM_WEIGHT] != 0:
            norm_heads(q, vector_at(w[QUERY_NORM_WEIGHT], D, q), epsilons[QUERY_EPSILON], D)
            norm_heads(k, vector_at(w[KEY_NORM_WEIGHT], D, q), epsilons[KEY_EPSILON], D)
        if len(cosine) > 0:
            rotate_heads(q, row(cosine, position), row(sine, position), halves, D)
            rotate_heads(k, row(cosine, position), row(sine, position), halves, D)
        page, column = pages[position // width], position % width
        panel = matrix_at(page + keys, D, width, width, qkv)
        kept = row(matrix_at(page + values, width, D, D, qkv), column)
        for d in range(D):
            panel[d, column] = k[d]
            kept[d] = v[d]


@inlined
def softmax_of_scores(s, S, scale, slope, lanes):
    """s[j] = exp(z_j - max z), where z_j = scale s_j - slope distance; 1 / the sum of these.

    Of s the first S numbers are scores. Its length is a multiple of that of `lanes`, in which the
    maximum and the sum of every len(lanes)-th number are found at once.
    """
    width, zero, minus_infinity = len(lanes), s.dtype.type(0), s.dtype.type(-np.inf)
    for j in range(S):
        s[j] = s[j] * scale - slope * s.dtype.type(S - 1 - j)
    for j in range(S, len(s)):
        s[j] = minus_infinity
    for n in range(width):
        lanes[n] = minus_infinity
    for start in range(0, len(s), width):
        for n in range(width):
            lanes[n] = larger(lanes[n], s[start + n])
    largest = minus_infinity
    for n in range(width):
        largest = larger(largest, lanes[n])
    for n in range(width):
        lanes[n] = zero
    for start in range(0, len(s), width):
        for n in range(width):
            s[start + n] = exp(s[start + n] - largest)
            lanes[n] += s[start + n]
    total = zero
    for n in range(width):
        total += lanes[n]
    return s.dtype.type(1) / total


@inlined
def add_values(p, values, o):
    """o += p V, for p (J,) and V (J, D); four positions at a time, so that o is loaded once."""
    J = len(p)
    for j in range(0, J - 3, 4):
        p0, p1, p2, p3 = p[j], p[j + 1], p[j + 2], p[j + 3]
        v0, v1, v2, v3 = row(values, j), row(values, j + 1), row(values, j + 2), row(values, j + 3)
        for d in range(len(o)):
            o[d] = o[d] + p0 * v0[d] + p1 * v1[d] + p2 * v2[d] + p3 * v3[d]
    for j in range(J - J % 4, J):
        p_j, v_j = p[j], row(values, j)
        for d in range(len(o)):
            o[d] += p_j * v_j[d]


@inlined
def attend_to_pages(qkv, h, D, text, pages, keys, values, slope, nothing, scores, lanes, o):
    """o = softmax(q k' / sqrt(D) - slope distance) v of head h, for all rows of the text.

    `nothing` is the address of a panel's width of zeros.
    """
    width, scale = panel_columns(qkv.itemsize), qkv.dtype.type(1 / math.sqrt(D))
    for first in range(text[0], text[1], MOST_ROWS):
        last = min(first + MOST_ROWS, text[1])
        for page in range((text[2] + last - 1 - text[0]) // width + 1):
            multiply_panel(SAME, qkv, first, last, h * D, D, pages[page] + keys, nothing, nothing,
                           scores, 0, page * width, False)
        for i in range(first, last):
            S, o_i = text[2] + i - text[0] + 1, row(o, i)[h * D:(h + 1) * D]
            count = (S + width - 1) // width
            p = row(scores, i - first)[:count * width]
            one_over_sum = softmax_of_scores(p, S, scale, slope, lanes)
            for d in range(D):
                o_i[d] = qkv.dtype.type(0)
            for page in range(count):
                start, stop = page * width, min(S, (page + 1) * width)
                add_values(p[start:stop], matrix_at(pages[page] + values, width, D, D, qkv), o_i)
            for d in range(D):
                o_i[d] *= one_over_sum
