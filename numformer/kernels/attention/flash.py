r"""Tiled attention, exact in forward and backward, which never stores its T x S weights.

A block of queries walks along the keys, one tile at a time. The softmax is computed online: the
maximum m and the sum l of each query are those of the keys seen so far. When a maximum rises, all
that was summed before is rescaled by alpha = exp(m - m'):

    m' = max(m, max_j s_j)
    l' = alpha l + sum_j exp(s_j - m')
    acc' = alpha acc + sum_j exp(s_j - m') v_j

At the end o = acc / l. To recompute p = exp(s - m) / l tile by tile, the backward needs m and l
alone. They are the two parts of the row's log-sum-exp, lse = m + log(l), which are kept apart: a
log-sum-exp of 1e4 in one float32 is good to 5e-4 only.

Names, as in the papers; i is a query, j a key, and a tile is stored as (J, I), keys by queries:

=========  =================================================================================
s          scores, scale q k' with its modifiers
p          weights, exp(s - m) in the forward, exp(s - m) / l in the backward
m_i, l_i   of each query: the maximum score so far, the sum of exp(s - m_i)
acc        the sum of p v, not yet divided by l
alpha      exp(old m - new m)
lse        m + log(l)
delta      rowsum(do * o), which is sum_j p_j dp_j: then ds = p (dp - delta)
q_t, do_t  the block's queries and their gradients, transposed
=========  =================================================================================

References
----------
Milakov and Gimelshein (2018), "Online normalizer calculation for softmax", algorithm 3; Dao et al.
(2022), "FlashAttention", algorithms 1 and 4; Dao (2023), "FlashAttention-2", algorithms 1 and 2.
"""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.attention.arguments import check_attention, check_values
from numformer.functional.attention.dropout import uses_dropout
from numformer.functional.attention.masks import EVERYWHERE
from numformer.functional.dropout_hash import dropout_threshold
from numformer.kernels.attention.backward import BACKWARD
from numformer.kernels.attention.forward import FORWARD
from numformer.kernels.attention.launch import (
    by_tokens, check_kernel_takes, ranges, task_workspace)
from numformer.kernels.attention.tile_sizes import tile_size
from numformer.kernels.runtime.shapes import absent, of_width, with_rows
from numformer.kernels.runtime.work_queue import new_queue, run_serially
from numformer.kernels.runtime.workspace import new_array


def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None,
                                 softcap=None, dropout=0.0, seed=None, tasks=1, run=run_serially):
    """The compiled version of `numformer.functional.scaled_dot_product_attention`.

    Equal to it up to rounding, in O(T) memory. The output is divided by l last, so a sum of S
    values must not overflow: values near the largest number of the dtype do.

    Parameters
    ----------
    q, k, v, pattern, scale, slopes, bias, softcap, dropout, seed
        As in the reference; float32 or float64 throughout, D and D_V at most 256. Any strides.
        The kernel knows one width: the narrower of keys and values are continued with zeros.
    tasks : int
        Into how many tasks the work is split. The result does not depend on it, to the bit.
    run : callable
        Called with a function and the numbers of the tasks; may run them on several threads.

    Returns
    -------
    o : ndarray, shape (B, H, T, D_V)
    saved : tuple
        The arguments, o, and the two parts of `log_sum_exp`.

    Raises
    ------
    ValueError, TypeError
        As the reference does; and for other dtypes, complex ones among them, and wider heads.
    """
    scale = check_attention(q, k, pattern, scale, slopes, bias, softcap)
    check_values(v, k)
    (B, H, T, D), S, D_V = q.shape, *v.shape[2:]
    dropping = uses_dropout(dropout, seed)
    check_kernel_takes("scaled_dot_product_attention", q=q, k=k, v=v, bias=bias)
    check_whole("scaled_dot_product_attention", "tasks", tasks)
    real, seed = q.dtype.type, int(seed) if dropping else 0
    mask, no_slopes, no_bias = absent(real)
    if pattern.mask is not None:
        mask = pattern.mask.reshape(1, 1, T, S) if pattern.mask.ndim == 2 else pattern.mask
    options = (*pattern.intervals(T, S), mask, real(scale), real(softcap or 0),
               no_slopes if slopes is None else slopes.astype(real),
               no_bias if bias is None else np.ascontiguousarray(bias),
               dropout_threshold(dropout) if dropping else 0, real(1 / (1 - dropout)),
               seed >> 32, seed & 0xFFFFFFFF)
    width = max(D, D_V)
    q, k, v = (with_rows(of_width(x, width)) for x in (q, k, v))
    o, (m, l) = by_tokens(new_array((q.size,), q.dtype), q.shape), np.empty((2, B, H, T), real)
    tile = tile_size(T, S, width)
    kernel, queue = FORWARD[q.dtype], new_queue(B * H * -(-T // tile[0]))

    def work(task):
        return kernel(q, k, v, *options, *tile, *task_workspace(*tile, width, real), queue, task,
                      tasks, o, m, l)

    run(work, range(tasks))
    saved = (q, k, v, o, m, l, options, tile, D, D_V)
    return o[..., :D_V], saved


def scaled_dot_product_attention_backward(do, saved, tasks=1, run=run_serially):
    """The compiled version of `numformer.functional.scaled_dot_product_attention_backward`.

    Where there are fewer key-value heads than tasks, tasks share a head: some compute the gradients
    of ranges of queries, others those of ranges of keys and values, and both recompute the weights.
    The result is the same to the bit.

    Raises
    ------
    ValueError, TypeError
        If `do` does not have the shape and dtype of o.
    """
    q, k, v, o, m, l, options, tile, D, D_V = saved
    (B, H, T, width), G, S = q.shape, *k.shape[1:3]
    name = "scaled_dot_product_attention_backward"
    check_array(name, "do", do, "(B, H, T, D_V)", q.dtype, B=B, H=H, T=T, D_V=D_V)
    check_kernel_takes(name, do=do)
    check_whole(name, "tasks", tasks)
    do, has_bias = with_rows(of_width(do, width)), options[6].size > 0
    block = new_array((q.size + k.size + v.size,), q.dtype)     # one block: fewer page faults
    dq, dk = by_tokens(block[:q.size], q.shape), by_tokens(block[q.size:-v.size], k.shape)
    dv = by_tokens(block[-v.size:], v.shape)
    dbias = np.zeros((B, H, has_bias * (T + S - 1)))            # float64: a diagonal is a long sum
    parts = [(0, T, 0, S, True, True)]
    if tasks > B * G and not has_bias:
        parts = [(t0, t1, 0, S, True, False) for t0, t1 in ranges(T, tile[0], tasks)]
        parts += [(0, T, s0, s1, False, True) for s0, s1 in ranges(S, tile[1], tasks)]
    parts = np.array(parts, np.int64)
    kernel, queue = BACKWARD[q.dtype], new_queue(len(parts) * B * G)

    def work(task):
        return kernel(do, q, k, v, o, m, l, *options, *tile,
                      *task_workspace(*tile, width, q.dtype.type), queue, task, tasks, parts,
                      dq, dk, dv, dbias)

    run(work, range(tasks))
    dq, dk, dv = dq[..., :D], dk[..., :D], dv[..., :D_V]
    if not has_bias:
        return dq, dk, dv
    with np.errstate(invalid="ignore", over="ignore"):      # Inf of one example, -Inf of another
        return dq, dk, dv, dbias.sum(axis=0).astype(q.dtype)


def log_sum_exp(saved):
    """log(sum_j exp(s_ij)) of every query, float64 (B, H, T); -Inf if it may attend to nothing."""
    m, l = saved[4:6]
    with np.errstate(divide="ignore"):
        return m.astype(np.float64) + np.log(l.astype(np.float64))
