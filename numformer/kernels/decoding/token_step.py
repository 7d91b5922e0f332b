"""One token through a pre-norm decoder in one call: from its embedding to the next token's logits.

For one token every weight is read once and used once, so the time is that of reading them from
memory; Python between two small steps would double it. One core does not saturate the memory, so
threads share each product x W: a part multiplies some of the rows of W, which are contiguous, and
has a sum of its own; whoever needs y adds the sums. (Parts made of columns would need fewer sums,
but short pieces of rows are read at half the speed.) Which thread computes a part may vary; the
parts, and the order in which their sums are added, do not.
"""

import numpy as np
from numba import boolean, int64

from numformer.kernels.activations import KINDS
from numformer.kernels.decoding.branches import (
    attention_part, feedforward_part, logits_part, project_part)
from numformer.kernels.decoding.weights import (
    DOWN_BIAS, EPSILON1, EPSILON2, FINAL_BIAS, FINAL_WEIGHT, HEAD, NAMES, NORM1_BIAS, NORM1_WEIGHT,
    NORM2_BIAS, NORM2_WEIGHT, OUTPUT_BIAS, PARTS, addresses, vector_at)
from numformer.kernels.norms import normalize_vector
from numformer.kernels.runtime.compile import Kernel
from numformer.kernels.runtime.memory import row
from numformer.kernels.runtime.shapes import absent, out_matrix, out_vector, vector
from numformer.kernels.runtime.work_queue import (
    all_finished, finish, run_serially, take, unit_of_turn, wait_for_all)
from numformer.kernels.runtime.workspace import new_array

__all__ = ["NAMES", "TOKEN_STEP", "addresses", "run_token_step", "token_step"]


def token_step(x, weights, epsilons, final, final_epsilon, F, centred, inside, kind, cosine, sine,
               halves, slopes, H, G, caches, position, queues, inner, outer, logits, task, tasks,
               workspace):
    """h = x; in each block h += attention(norm1(h)), h += ffn(norm2(h)); logits = head(norm(h)).

    x (C,). weights (L, 20): addresses, 0 for what is absent; matrices are (in, out). epsilons
    (L, 4). final (3,): addresses of the last norm and the head. caches (L, 3). slopes (H,) or
    empty. The tasks share logits (V,), two queues for each branch and one for the head,
    (4L + 1, PARTS + 1), and the sums of the parts: of the products into a branch, `inner`
    (PARTS, widest), and out of it, `outer` (2L PARTS, C). Each task has a workspace of its own,
    (7, widest). Returns whether all units are finished.

    A task that starts late walks through all blocks and finds nothing to do. What it then reads of
    `inner` may belong to a later branch, and is not used; `outer`, which it needs for its h, is
    written once.
    """
    C, KV = len(x), G * (len(x) // H)
    h, a = row(workspace, 0)[:C], row(workspace, 1)[:C]
    for c in range(C):
        h[c] = x[c]
    for branch in range(2 * len(weights)):
        w, eps, attends = row(weights, branch // 2), row(epsilons, branch // 2), branch % 2 == 0
        weight = vector_at(w[NORM1_WEIGHT if attends else NORM2_WEIGHT], 0, C, x)
        bias = vector_at(w[NORM1_BIAS if attends else NORM2_BIAS], 0, C, x)
        epsilon = eps[EPSILON1 if attends else EPSILON2]
        normalize_vector(h, weight, bias, epsilon, inside, centred, a)          # a = norm(h)
        queue = row(queues, 2 * branch)
        for turn in range(PARTS):
            part = unit_of_turn(turn, PARTS, task, tasks)
            if take(queue, part):
                project_part(a, w, attends, KV, F, part, row(inner, part))
                finish(queue)
        wait_for_all(queue)
        queue = row(queues, 2 * branch + 1)
        for turn in range(PARTS):
            part = unit_of_turn(turn, PARTS, task, tasks)
            if take(queue, part):
                y = row(outer, branch * PARTS + part)
                if attends:
                    attention_part(w, eps, cosine, sine, halves, slopes, H, G,
                                   row(caches, branch // 2), position, part, inner, workspace, y)
                else:
                    feedforward_part(w, F, kind, part, inner, workspace, y)
                finish(queue)
        wait_for_all(queue)
        for part in range(PARTS):                                               # h += branch(a)
            y = row(outer, branch * PARTS + part)
            for c in range(C):
                h[c] += y[c]
        bias = vector_at(w[OUTPUT_BIAS if attends else DOWN_BIAS], 0, C, x)
        for c in range(len(bias)):
            h[c] += bias[c]
    weight, bias = vector_at(final[FINAL_WEIGHT], 0, C, x), vector_at(final[FINAL_BIAS], 0, C, x)
    normalize_vector(h, weight, bias, final_epsilon, inside, centred, a)
    queue = row(queues, len(queues) - 1)
    for turn in range(PARTS):
        part = unit_of_turn(turn, PARTS, task, tasks)
        if take(queue, part):
            logits_part(a, final[HEAD], len(logits), part, logits)
            finish(queue)
    return all_finished(queue, task)


TOKEN_STEP = Kernel(token_step, lambda real: (
    vector(real), out_matrix(int64), out_matrix(real), out_vector(int64), real, int64,
    *2 * [boolean], int64, *2 * [vector(real)], boolean, vector(real), *2 * [int64],
    out_matrix(int64), int64, out_matrix(int64), *2 * [out_matrix(real)], out_vector(real),
    *2 * [int64], out_matrix(real)))


def run_token_step(x, weights, epsilons, final, final_epsilon, F, centred, inside, activation,
                   angles, halves, slopes, H, G, caches, position, V, tasks=1, run=run_serially):
    """Run the kernel, with queues and workspaces for its tasks.

    Parameters
    ----------
    x : ndarray, shape (C,)
    weights : ndarray of int64, shape (L, 20)
        `addresses` of the arrays that NAMES lists, which are contiguous. The caller keeps them
        alive.
    epsilons : ndarray, shape (L, 4)
        Of the two norms, of the norms of queries and keys.
    final : ndarray of int64, shape (3,)
        `addresses` of the last norm's weight and bias, and of the head's weight (V, C).
    final_epsilon : float
    F : int
    centred, inside, halves : bool
        Whether the norms subtract the mean; whether epsilon is inside the root; whether rotary
        pairs are (i, i + D/2).
    activation : str
    angles : (cosine, sine), or None
    slopes : ndarray, shape (H,), or None
    H, G : int
    caches : list of (int, int, int)
        Addresses of keys and values (G, capacity, D) of each block, and the capacity. They are
        written to at `position`.
    position : int
    V : int
    tasks : int
    run : callable

    Returns
    -------
    logits : ndarray, shape (V,)
    """
    C, L, real, tasks = len(x), len(weights), x.dtype, min(tasks, PARTS)
    kernel = TOKEN_STEP[real]
    _, nothing, _ = absent(real.type)
    cosine, sine = (nothing, nothing) if angles is None else angles
    slopes = nothing if slopes is None else slopes
    caches, queues = np.array(caches, np.int64), np.zeros((4 * L + 1, PARTS + 1), np.int64)
    inner, outer = new_array((PARTS, max(3 * C, 2 * F)), real), new_array((2 * L * PARTS, C), real)
    workspaces = new_array((tasks, 7, max(C, F, position + 1)), real)
    logits = np.empty(V, real)

    def work(task):
        return kernel(x, weights, epsilons, final, real.type(final_epsilon), F, centred, inside,
                      KINDS[activation], cosine, sine, halves, slopes, H, G, caches, position,
                      queues, inner, outer, logits, task, tasks, workspaces[task])

    run(work, range(tasks))
    return logits
