"""The gradient of a lookup: every row of the table collects from all places where its id stood, in their order."""

from numba import int64

from numformer.functional.embedding import embedding as look_up
from numformer.kernels.compiled import Kernel
from numformer.kernels.memory import borrow, clear, row
from numformer.kernels.room import new_array
from numformer.kernels.shapes import line, matrix, new_matrix, rows_of, whole


def collect(ids, dy, dweight):
    """dweight[v] = sum of dy[n] over all n where ids[n] = v."""
    dy, dweight = borrow(dy), borrow(dweight)
    clear(dweight)
    for n in range(len(ids)):
        dy_n, row_of_id = row(dy, n), row(dweight, ids[n])
        for c in range(len(dy_n)):
            row_of_id[c] += dy_n[c]


COLLECT = Kernel(collect, lambda real: (line(int64), matrix(real), new_matrix(real)))


def embedding(ids, weight):
    """`numformer.functional.embedding` itself: a lookup is one step in NumPy too."""
    return look_up(ids, weight)


def embedding_backward(dy, saved):
    """The twin of `numformer.functional.embedding_backward`."""
    ids, vocabulary = saved
    dweight = new_array((vocabulary, dy.shape[-1]), dy.dtype)
    COLLECT[dy.dtype](whole(ids), rows_of(dy), dweight)
    return dweight
