"""The embedding table: from ids to vectors."""

import numpy as np

from numformer.checks import check_array, check_ids


def embedding(ids, weight):
    r"""Look up one row of the table for every id.

    .. math:: y_n = W_{\mathrm{ids}_n}

    A lookup is the product with a one-hot matrix, :math:`y = \mathrm{onehot}(\mathrm{ids})\, W`,
    without the multiplications by zero.

    Parameters
    ----------
    ids : ndarray of int, shape (...)
        In 0 .. V-1.
    weight : ndarray, shape (V, C)

    Returns
    -------
    y : ndarray, shape (..., C)
    saved : tuple
        For `embedding_backward`.

    Raises
    ------
    ValueError, TypeError
        If the ids are not integers in that range, or there are none.

    Examples
    --------
    >>> weight = np.array([[0.0, 0.1], [1.0, 1.1], [2.0, 2.1]])
    >>> embedding(np.array([2, 0]), weight)[0]
    array([[2. , 2.1],
           [0. , 0.1]])
    """
    check_array("embedding", "weight", weight, "(V, C)")
    check_ids("embedding", "ids", ids, len(weight))

    y = weight[ids]                                                  # (..., C)

    saved = (ids, weight.shape[0])
    return y, saved


def embedding_backward(dy, saved):
    r"""The gradient of `embedding`: every row sums the gradients of all positions with its id.

    .. math:: \bar{W}_v = \sum_{n \,:\, \mathrm{ids}_n = v} \bar{y}_n

    ``dweight[ids] += dy`` would keep only the last of equal ids. Sorting makes equal ids adjacent,
    and each run of them is then summed, always in the same order.

    Returns
    -------
    dweight : ndarray, shape (V, C)
        There is no gradient for the ids.
    """
    ids, vocabulary = saved
    width = dy.shape[-1]
    order = np.argsort(ids, axis=None, kind="stable")                # (N,)
    found = ids.reshape(-1)[order]                                   # equal ids are adjacent
    starts = np.flatnonzero(np.diff(found, prepend=-1))              # where each run of them begins

    # y = weight[ids]
    dweight = np.zeros((vocabulary, width), dy.dtype)
    dweight[found[starts]] = np.add.reduceat(dy.reshape(-1, width)[order], starts, axis=0)
    return dweight
