"""Rows for BERT: a class token, one or two passages, each with a separator after it; and batches of them with hidden tokens."""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_ids, check_whole
from numformer.functional import IGNORE_INDEX
from numformer.training.batches import split_rows
from numformer.training.masking import MaskedStream, mask_tokens


class BertBatch(NamedTuple):
    """What a `Bert` learns from at once.

    Parameters
    ----------
    inputs : ndarray of int, shape (B, T)
        Rows with hidden tokens, padded at their end.
    targets : ndarray of int, shape (B, T)
        What was hidden; `IGNORE_INDEX` elsewhere.
    segments : ndarray of int, shape (B, T)
        0 up to the first separator, 1 past it.
    lengths : ndarray of int, shape (B,)
        How many ids of each row are no padding.
    follows : ndarray of int, shape (B,)
        1 where the second passage follows the first, 0 where it does not.
    """

    inputs: np.ndarray
    targets: np.ndarray
    segments: np.ndarray
    lengths: np.ndarray
    follows: np.ndarray

    @property
    def tokens(self):
        """How many targets count: the weight of this batch in a mean."""
        return int((self.targets != IGNORE_INDEX).sum())

    def split(self, parts):
        """Cut into at most `parts` batches of consecutive rows, as even as can be; none is empty."""
        return split_rows(self, parts)


class BertRows(NamedTuple):
    """Rows before anything is hidden; the fields are those of `BertBatch`, with `ids` for inputs and targets."""

    ids: np.ndarray
    segments: np.ndarray
    lengths: np.ndarray
    follows: np.ndarray

    def batch(self, inputs, targets, chosen):
        """Some of the rows, with what was hidden in them, no wider than the longest needs."""
        width = self.lengths[chosen].max()
        return BertBatch(inputs[:, :width], targets[:, :width], self.segments[chosen, :width], self.lengths[chosen], self.follows[chosen])


def passage_rows(passages, context_length, padding, begin, separator, follows=None):
    """Lay passages into rows: the id that begins, each passage of a row, and a separator after each.

    A row that is too long is cut: again and again the longest of its passages loses its last id.

    Parameters
    ----------
    passages : list of tuple of ndarray of int
        One or two passages for each row.
    context_length : int
        The longest row.
    padding, begin, separator : int
        The ids that fill up a row, begin it, and end a passage.
    follows : sequence of bool, optional
        Whether the second passage of each row follows the first; False, if not given.

    Returns
    -------
    BertRows

    Raises
    ------
    ValueError, TypeError
        If there are no rows, a passage is empty or of no ids, or a row has no room for an id of every passage.

    References
    ----------
    Devlin et al. (2019), "BERT", figure 2; the cut is that of the published code.

    Examples
    --------
    >>> rows = passage_rows([(np.array([7, 7, 7, 7]), np.array([8])), (np.array([9]), np.array([5]))], 7, 0, 1, 2, [True, False])
    >>> rows.ids.tolist(), rows.segments[0].tolist(), rows.lengths.tolist(), rows.follows.tolist()
    ([[1, 7, 7, 7, 2, 8, 2], [1, 9, 2, 5, 2, 0, 0]], [0, 0, 0, 0, 0, 1, 1], [7, 5], [1, 0])
    """
    owner = "passage_rows"
    check_whole(owner, "context_length", context_length)
    for name, value in (("padding", padding), ("begin", begin), ("separator", separator)):
        check_whole(owner, name, value, least=0)
    if not len(passages):
        raise ValueError(f"{owner}: there are no passages; give at least one row.")
    if follows is not None and len(follows) != len(passages):
        raise ValueError(f"{owner}: {len(follows)} values of follows came for {len(passages)} rows; give one for each.")
    rows, borders = [], []
    for parts in passages:
        if len(parts) not in (1, 2) or 2 * len(parts) + 1 > context_length:
            raise ValueError(f"{owner}: a row of {len(parts)} passages must have one or two, and with a separator after each there must be "
                             f"room for them in context_length={context_length}.")
        for part in parts:
            check_ids(owner, "a passage", part, size=2**31)
        sizes = [len(part) for part in parts]
        while sum(sizes) + len(sizes) + 1 > context_length:
            sizes[int(np.argmax(sizes))] -= 1
        rows.append(np.concatenate([[begin], *(piece for part, size in zip(parts, sizes) for piece in (part[:size], [separator]))]))
        borders.append(sizes[0] + 2)
    lengths = np.array([len(row) for row in rows])
    place = np.arange(lengths.max())
    ids = np.full((len(rows), len(place)), padding)
    ids[place < lengths[:, None]] = np.concatenate(rows)
    segments = ((place >= np.array(borders)[:, None]) & (place < lengths[:, None])).astype(np.int64)
    return BertRows(ids, segments, lengths, np.zeros(len(rows), np.int64) if follows is None else np.asarray(follows, np.int64))


class BertStream:
    """Batches of rows with hidden tokens, without end: a `MaskedStream` that knows of segments, lengths and what follows what.

    Parameters
    ----------
    rows : BertRows
    special, vocab_size, mask_id, batch_size, seed, dynamic, rate
        As in `MaskedStream`.

    Examples
    --------
    >>> rows = passage_rows([(np.array([5, 6]), np.array([7]))] * 4, 8, 0, 1, 2)
    >>> batch = BertStream(rows, [0, 1, 2, 3], vocab_size=9, mask_id=3, batch_size=2, seed=0).batch(5)
    >>> batch.inputs.shape, batch.tokens
    ((2, 6), 2)
    """

    def __init__(self, rows, special, vocab_size, mask_id, batch_size, seed, dynamic=True, rate=0.15):
        self.rows = rows
        self.masked = MaskedStream(rows.ids, special, vocab_size, mask_id, batch_size, seed, dynamic, rate, rows.lengths)

    def batch(self, step):
        """The batch of one step."""
        _, chosen = self.masked.epochs.rows(step)
        return self.rows.batch(*self.masked.batch(step), chosen)


def consecutive_masked_rows(rows, special, vocab_size, mask_id, batch_size, rate=0.15):
    """All rows once, in their order, with tokens hidden always in the same way: to measure on.

    Parameters
    ----------
    rows : BertRows
    special, vocab_size, mask_id, rate
        As in `mask_tokens`.
    batch_size : int
        At most so many go together.

    Returns
    -------
    list of BertBatch
    """
    check_whole("consecutive_masked_rows", "batch_size", batch_size)
    inputs, targets = mask_tokens(rows.ids, special, vocab_size, mask_id, np.random.default_rng(0), rate)
    chunks = np.split(np.arange(len(inputs)), np.arange(batch_size, len(inputs), batch_size))
    return [rows.batch(inputs[chunk], targets[chunk], chunk) for chunk in chunks]
