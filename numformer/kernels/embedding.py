"""The gradient of an embedding lookup: each row of the table sums those of its positions."""

from numba import int64

from numformer.functional.embedding import embedding as reference
from numformer.kernels.runtime.compile import Kernel
from numformer.kernels.runtime.memory import clear, row, unowned
from numformer.kernels.runtime.shapes import flat_ids, matrix, out_matrix, rows_of, vector
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.workspace import new_array


def scatter_add(ids, dy, dweight):
    """dweight[v] = sum of dy[n] over all n with ids[n] = v, in the order of n."""
    dy, dweight = unowned(dy), unowned(dweight)
    clear(dweight)
    for n in range(len(ids)):
        dy_n, dweight_v = row(dy, n), row(dweight, ids[n])
        for c in range(len(dy_n)):
            dweight_v[c] += dy_n[c]


SCATTER_ADD = Kernel(scatter_add, lambda real: (vector(int64), matrix(real), out_matrix(real)))


@compiled_version
def embedding(ids, weight):
    """`numformer.functional.embedding` itself: in NumPy too a lookup is one step."""
    return reference(ids, weight)


def embedding_backward(dy, saved):
    """The compiled version of `numformer.functional.embedding_backward`."""
    ids, vocabulary = saved
    dweight = new_array((vocabulary, dy.shape[-1]), dy.dtype)
    SCATTER_ADD[dy.dtype](flat_ids(ids), rows_of(dy), dweight)
    return dweight
