"""New tokens of several texts through a pre-norm decoder in one call, to the next logits.

For few tokens the time is that of reading the weights from memory; so each is read once, for all
texts. The new tokens of all texts are rows of one matrix: one for each text while it is continued,
many for a prompt. Only attention knows which rows belong to which text.

A block is seven phases: norm, product to the heads, attention, product added to h; norm, product to
the hidden units with the activation, product added to h. Threads share the units of each phase: a
panel of the weights, a head of a text, some rows. No number depends on how many rows there are or
which thread computes it: a sum over the width is one chain of additions, in the same order for
every row. So a text gets the same logits, to the bit, alone as next to others, and its prompt may
be read at once or token by token.
"""

from numba import boolean, int64

from numformer.kernels.activations import activate
from numformer.kernels.decoding.attention import attend_to_pages, encode_and_keep
from numformer.kernels.decoding.panels import (
    multiply_unit, panel_columns, product_units, row_blocks, vector_at, whole_panels)
from numformer.kernels.decoding.phases import (
    let_the_caller_leave_first, next_unit, wait_for_units)
from numformer.kernels.decoding.table import (
    DOWN, EPSILON1, EPSILON2, FINAL_BIAS, FINAL_WEIGHT, GATE, HEADS, HIDDEN, LOGITS, NORM1_BIAS,
    NORM1_WEIGHT, NORM2_BIAS, NORM2_WEIGHT, OUTPUT)
from numformer.kernels.norms import normalize_vector
from numformer.kernels.runtime.compile import Kernel, inlined
from numformer.kernels.runtime.memory import matrix_view, row
from numformer.kernels.runtime.shapes import matrix, out_matrix, vector
from numformer.kernels.runtime.vectors import MOST_ROWS, PANEL_BYTES
from numformer.kernels.runtime.work_queue import finish

NORM_ROWS = 8                           # of one unit


@inlined
def norm_phase(h, rows, C, weight, bias, epsilon, inside, centred, queue, task, tasks, a):
    """a = norm(h), for some rows of h."""
    weight, bias = vector_at(weight, C, h), vector_at(bias, C, h)
    units = (len(rows) + NORM_ROWS - 1) // NORM_ROWS
    unit = next_unit(queue, units, task, tasks)
    while unit >= 0:
        for n in range(unit * NORM_ROWS, min((unit + 1) * NORM_ROWS, len(rows))):
            normalize_vector(row(h, rows[n])[:C], weight, bias, epsilon, inside, centred,
                             row(a, n)[:C])
        finish(queue)
        unit = next_unit(queue, units, task, tasks)
    wait_for_units(queue, units)


@inlined
def product_phase(stored, item_bytes, x, rows, terms, matrix, columns, y, add, queue, task, tasks):
    """y = x W + b, or y += that."""
    units = product_units(rows, columns, x.itemsize)
    unit = next_unit(queue, units, task, tasks)
    while unit >= 0:
        multiply_unit(stored, item_bytes, x, rows, unit, terms, matrix, y, add)
        finish(queue)
        unit = next_unit(queue, units, task, tasks)
    wait_for_units(queue, units)


@inlined
def activate_unit(kind, gated, u, g, rows, unit, slope, f):
    """f = activation(u), or activation(g) u if gated, for the numbers of one unit of a product."""
    blocks, width, one = row_blocks(rows), panel_columns(u.itemsize), u.dtype.type(1)
    panel, block = unit // blocks, unit % blocks
    start, stop = panel * width, (panel + 1) * width
    for i in range(rows * block // blocks, rows * (block + 1) // blocks):
        u_i, f_i = row(u, i)[start:stop], row(f, i)[start:stop]
        if gated:
            activate(kind, one, row(g, i)[start:stop], f_i, slope[:width])
            for n in range(width):
                f_i[n] *= u_i[n]
        else:
            activate(kind, one, u_i, f_i, slope[:width])


def token_step(h, wanted, texts, pages, weights, final, epsilons, final_epsilon, C, F, V, stored,
               item_bytes, centred, inside, kind, cosine, sine, halves, slopes, H, G, D, nothing,
               everything, workspace, logits, queues, task, tasks, scores):
    """In each block h += attention(norm1(h)), h += ffn(norm2(h)); logits = head(norm(h[wanted])).

    The tasks share all arrays but `scores`, (MOST_ROWS + 1, positions), whose last row is for
    whatever needs a vector. texts (B, 3): the first row of each text, the row after its last, the
    position of the first. pages (B, ...): addresses of the pages of keys and values of each text,
    (L, 2, G, width D). weights (L, 21), final (5,): addresses, as `table` has them. queues
    (7L + 2, tasks + 1). `everything` is all rows, 0 .. N - 1. `workspace`, a column, has the
    numbers between two phases. Rows of h, qkv, u, g, f and logits are as long as the panels of the
    product that writes them. Returns whether all is finished.

    A task that starts late walks through all phases and finds nothing to do.
    """
    rows, group, HD, phase, size = len(h), H // G, H * D, 0, h.itemsize
    lanes = row(scores, MOST_ROWS)[:panel_columns(size)]
    heads, hidden = whole_panels(HD + 2 * G * D, size), whole_panels(F, size)
    a, start = matrix_view(workspace, 0, rows, C), rows * C
    qkv, start = matrix_view(workspace, start, rows, heads), start + rows * heads
    o, start = matrix_view(workspace, start, rows, HD), start + rows * HD
    u, start = matrix_view(workspace, start, rows, hidden), start + rows * hidden
    g, start = matrix_view(workspace, start, rows, hidden), start + rows * hidden
    f = matrix_view(workspace, start, rows, hidden)
    head_bytes = D * PANEL_BYTES
    for layer in range(len(weights)):
        w, eps = row(weights, layer), row(epsilons, layer)
        norm_phase(h, everything, C, w[NORM1_WEIGHT], w[NORM1_BIAS], eps[EPSILON1], inside, centred,
                   row(queues, phase), task, tasks, a)
        product_phase(stored, item_bytes, a, rows, C, w[HEADS:HEADS + 3], HD + 2 * G * D, qkv,
                      False, row(queues, phase + 1), task, tasks)

        queue, units = row(queues, phase + 2), len(texts) * G
        unit = next_unit(queue, units, task, tasks)
        while unit >= 0:
            text, pages_b, g_head = row(texts, unit // G), row(pages, unit // G), unit % G
            keys = (2 * layer * G + g_head) * head_bytes
            values = keys + G * head_bytes
            encode_and_keep(qkv, H, G, D, g_head, text, pages_b, keys, values, w, eps, cosine,
                            sine, halves)
            for head in range(g_head * group, (g_head + 1) * group):
                slope = slopes[head] if len(slopes) > 0 else h.dtype.type(0)
                attend_to_pages(qkv, head, D, text, pages_b, keys, values, slope, nothing, scores,
                                lanes, o)
            finish(queue)
            unit = next_unit(queue, units, task, tasks)
        wait_for_units(queue, units)

        product_phase(stored, item_bytes, o, rows, HD, w[OUTPUT:OUTPUT + 3], C, h, True,
                      row(queues, phase + 3), task, tasks)
        norm_phase(h, everything, C, w[NORM2_WEIGHT], w[NORM2_BIAS], eps[EPSILON2], inside, centred,
                   row(queues, phase + 4), task, tasks, a)

        queue, units = row(queues, phase + 5), product_units(rows, F, size)
        unit = next_unit(queue, units, task, tasks)
        while unit >= 0:
            multiply_unit(stored, item_bytes, a, rows, unit, C, w[HIDDEN:HIDDEN + 3], u, False)
            if w[GATE] != 0:
                multiply_unit(stored, item_bytes, a, rows, unit, C, w[GATE:GATE + 3], g, False)
            activate_unit(kind, w[GATE] != 0, u, g, rows, unit, lanes, f)
            finish(queue)
            unit = next_unit(queue, units, task, tasks)
        wait_for_units(queue, units)

        product_phase(stored, item_bytes, f, rows, F, w[DOWN:DOWN + 3], C, h, True,
                      row(queues, phase + 6), task, tasks)
        phase += 7
    norm_phase(h, wanted, C, final[FINAL_WEIGHT], final[FINAL_BIAS], final_epsilon, inside, centred,
               row(queues, phase), task, tasks, a)
    queue = row(queues, phase + 1)
    product_phase(stored, item_bytes, a, len(wanted), C, final[LOGITS:LOGITS + 3], V, logits, False,
                  queue, task, tasks)
    return let_the_caller_leave_first(queue, task)


TOKEN_STEP = Kernel(token_step, lambda real: (
    out_matrix(real), vector(int64), *3 * [matrix(int64)], vector(int64), matrix(real), real,
    *5 * [int64], *2 * [boolean], int64, *2 * [matrix(real)], boolean, vector(real), *4 * [int64],
    vector(int64), *2 * [out_matrix(real)], out_matrix(int64), *2 * [int64], out_matrix(real)))
