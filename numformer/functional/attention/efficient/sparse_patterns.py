"""Sparse patterns: for each query the few keys that it attends to, about the root of T."""

import numpy as np

from numformer.checks import check_whole


def strided_keys(T, stride):
    r"""The keys of strided attention: the last `stride`, and every `stride`-th before them.

    .. math:: A_i = \{ i - l + 1, \dots, i \} \cup \{ j \le i : (i - j) \bmod l = 0 \}

    With two layers, information comes from every earlier position: along a stride, then within
    a window. With l near the root of T, a query attends to about 2 l keys.

    Parameters
    ----------
    T : int
        Positions.
    stride : int
        l.

    Returns
    -------
    ndarray of int, shape (T, M)
        The keys of each query, for `sparse_attention`; -1 where it has fewer than M.

    Raises
    ------
    ValueError, TypeError
        If T or the stride is not a whole number above 0.

    References
    ----------
    Child et al. (2019), "Generating Long Sequences with Sparse Transformers", section 4.3. There
    the window has l + 1 positions: its farthest is on the stride, too.

    Examples
    --------
    >>> strided_keys(6, 2)
    array([[ 0, -1, -1, -1],
           [ 1,  0, -1, -1],
           [ 2,  1,  0, -1],
           [ 3,  2,  1, -1],
           [ 4,  3,  2,  0],
           [ 5,  4,  3,  1]])
    """
    check_whole("strided_keys", "T", T)
    check_whole("strided_keys", "stride", stride)
    offsets = np.array([*range(min(stride, T)), *range(stride, T, stride)])      # all distances
    keys = np.arange(T)[:, None] - offsets               # (T, M)
    return np.where(keys < 0, -1, keys)


def fixed_keys(T, stride, summary=1):
    r"""The keys of fixed attention: those of the query's own block, and the last of each block.

    .. math:: A_i = \{ j \le i : \lfloor j / l \rfloor = \lfloor i / l \rfloor \} \cup
              \{ j \le i : j \bmod l \ge l - c \}

    The last c positions of a block can summarize it for all later queries.

    Parameters
    ----------
    T : int
        Positions.
    stride : int
        l, the length of a block.
    summary : int
        c, at most l.

    Returns
    -------
    ndarray of int, shape (T, M)
        As of `strided_keys`.

    Raises
    ------
    ValueError, TypeError
        If an argument is not a whole number above 0, or `summary` is more than `stride`.

    References
    ----------
    Child et al. (2019), section 4.3.

    Examples
    --------
    >>> fixed_keys(6, 2)
    array([[ 0, -1, -1, -1],
           [ 1,  0, -1, -1],
           [ 2, -1,  1, -1],
           [ 3,  2,  1, -1],
           [ 4, -1,  1,  3],
           [ 5,  4,  1,  3]])
    """
    check_whole("fixed_keys", "T", T)
    check_whole("fixed_keys", "stride", stride)
    check_whole("fixed_keys", "summary", summary)
    if summary > stride:
        raise ValueError(f"fixed_keys: summary={summary} is more than a block of stride={stride}; "
                         f"use at most {stride}.")
    i = np.arange(T)[:, None]                            # (T, 1)
    own = i - np.arange(min(stride, T))                  # (T, l): back from the query
    own = np.where(own < i // stride * stride, -1, own)
    last = np.arange(T)
    last = last[(last % stride >= stride - summary) & (last // stride < (T - 1) // stride)]
    others = np.where(last // stride < i // stride, last, -1)        # (T, blocks times c)
    return np.concatenate([own, others], axis=1)


def mask_of_keys(keys):
    """The mask that says the same: for `attention`, `AttentionPattern` and pictures.

    Parameters
    ----------
    keys : ndarray of int, shape (T, M)
        From `strided_keys` or `fixed_keys`.

    Returns
    -------
    ndarray of bool, shape (T, T)
        True where a query attends to a key.

    Examples
    --------
    >>> mask_of_keys(strided_keys(4, 2)).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 0],
           [0, 1, 1, 1]])
    """
    mask = np.zeros((len(keys), len(keys) + 1), bool)
    np.put_along_axis(mask, keys, True, axis=1)          # -1 is the last column, left out
    return mask[:, :-1].copy()
