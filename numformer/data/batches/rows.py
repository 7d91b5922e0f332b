"""Rows for BERT: a class token, one or two passages, and a separator after each passage."""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_ids, check_whole


class PassageRows(NamedTuple):
    """Passages laid into N rows, as `passage_rows` does.

    Parameters
    ----------
    ids : ndarray of int, shape (N, T)
        Padded on the right.
    segments : ndarray of int, shape (N, T)
        0 up to the first separator, 1 after it; 0 for padding.
    lengths : ndarray of int, shape (N,)
        Tokens of each row without its padding.
    follows : ndarray of int, shape (N,)
        1 where the second passage follows the first in its source, 0 elsewhere.
    """

    ids: np.ndarray
    segments: np.ndarray
    lengths: np.ndarray
    follows: np.ndarray

    def take(self, chosen):
        """Some of the rows, with no more padding than the longest of them needs."""
        ids, segments, lengths, follows = (array[chosen] for array in self)
        width = lengths.max()
        return PassageRows(ids[:, :width], segments[:, :width], lengths, follows)


def passage_rows(passages, context_length, padding, cls, separator, follows=None):
    """Lay passages into rows: the class token, then each passage and a separator.

    A row that is too long is cut: its longest passage loses its last token, until the row fits.

    Parameters
    ----------
    passages : list of tuple of ndarray of int
        One or two passages for each row.
    context_length : int
        T of the longest row.
    padding, cls, separator : int
        Ids of the padding, the class token and the separator.
    follows : sequence of bool, optional
        Whether the second passage of each row follows the first; False by default.

    Returns
    -------
    PassageRows

    Raises
    ------
    ValueError, TypeError
        If there are no rows, a passage is empty or is not an array of ids, or `context_length` has
        no space for a token of every passage.

    References
    ----------
    Devlin et al. (2019), "BERT", figure 2; the cut is that of the published code.

    Examples
    --------
    >>> passages = [(np.array([7, 7, 7, 7]), np.array([8])), (np.array([9]), np.array([5]))]
    >>> rows = passage_rows(passages, 7, padding=0, cls=1, separator=2, follows=[True, False])
    >>> rows.ids.tolist()
    [[1, 7, 7, 7, 2, 8, 2], [1, 9, 2, 5, 2, 0, 0]]
    >>> rows.segments[0].tolist(), rows.lengths.tolist(), rows.follows.tolist()
    ([0, 0, 0, 0, 0, 1, 1], [7, 5], [1, 0])
    """
    owner = "passage_rows"
    check_whole(owner, "context_length", context_length)
    for name, value in (("padding", padding), ("cls", cls), ("separator", separator)):
        check_whole(owner, name, value, least=0)
    if not len(passages):
        raise ValueError(f"{owner}: there are no passages; give at least one row.")
    if follows is not None and len(follows) != len(passages):
        raise ValueError(f"{owner}: {len(follows)} values of follows came for {len(passages)} "
                         "rows; give one for each.")
    rows, first_segments = [], []
    for parts in passages:
        sizes = _sizes_that_fit(parts, context_length)
        cut = (ids for part, size in zip(parts, sizes) for ids in (part[:size], [separator]))
        rows.append(np.concatenate([[cls], *cut]))
        first_segments.append(sizes[0] + 2)
    lengths = np.array([len(row) for row in rows])
    position = np.arange(lengths.max())
    is_token = position < lengths[:, None]                            # (N, T)
    ids = np.full(is_token.shape, padding)
    ids[is_token] = np.concatenate(rows)
    segments = ((position >= np.array(first_segments)[:, None]) & is_token).astype(np.int64)
    follows = np.zeros(len(rows), np.int64) if follows is None else np.asarray(follows, np.int64)
    return PassageRows(ids, segments, lengths, follows)


def _sizes_that_fit(parts, context_length):
    """How many tokens of each passage of a row remain when the row is cut."""
    owner = "passage_rows"
    if len(parts) not in (1, 2) or 2 * len(parts) + 1 > context_length:
        raise ValueError(f"{owner}: a row of {len(parts)} passages must have one or two, and with "
                         "a separator after each they must fit into "
                         f"context_length={context_length}.")
    for part in parts:
        check_ids(owner, "a passage", part, size=2**31)
    first, *second = (len(part) for part in parts)
    left = context_length - len(parts) - 1                # for tokens of the passages
    if not second:
        return [min(first, left)]
    first = min(first, max(left - second[0], left // 2))  # the longer one loses its last tokens
    return [first, min(second[0], left - first)]
