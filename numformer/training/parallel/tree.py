"""In which order the gradients of shards are added: a fixed binary tree over their numbers.

Floating-point addition is not associative, so a sum has the same bits only if it is made in the
same order. The order here depends on the number of shards alone. A process that holds neighbouring
shards can add whole subtrees before it sends them.
"""


def middle(start, stop):
    """Where the shards start, ..., stop - 1 are divided: the left part is the largest power of 2.

    Examples
    --------
    >>> [middle(0, n) for n in (2, 3, 4, 5, 8)]
    [1, 2, 2, 4, 4]
    """
    return start + 2 ** ((stop - start - 1).bit_length() - 1)


def roots(n, first, last):
    """The largest subtrees of n shards that lie within first, ..., last - 1: (start, stop) each.

    Examples
    --------
    >>> roots(8, 0, 4), roots(8, 3, 8), roots(3, 0, 3)
    ([(0, 4)], [(3, 4), (4, 8)], [(0, 3)])
    """
    def within(start, stop):
        if first <= start and stop <= last:
            return [(start, stop)]
        if stop <= first or last <= start:
            return []
        cut = middle(start, stop)
        return within(start, cut) + within(cut, stop)

    return within(0, n) if first < last else []


def fold(arrays, start, stop):
    r"""Add arrays by the tree, in place; return the one that holds the sum.

    .. math:: g_{[a, c)} = g_{[a, b)} + g_{[b, c)}

    Parameters
    ----------
    arrays : dict of (start, stop) to ndarray, all of one shape
        Of single shards, or of subtrees that are added already; gradients have their weights
        n_k / n. Overwritten.
    start, stop : int
        The subtree to add.

    Examples
    --------
    >>> import numpy as np
    >>> parts = {(k, k + 1): np.array([10.0 ** k]) for k in range(3)}
    >>> fold(parts, 0, 3)
    array([111.])
    """
    if (start, stop) in arrays:
        return arrays[start, stop]
    cut = middle(start, stop)
    total = fold(arrays, start, cut)
    total += fold(arrays, cut, stop)
    return total
