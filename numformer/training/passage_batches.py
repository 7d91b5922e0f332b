"""Batches of passages: each with a label, or in threes, two of which are on the same matter."""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_ids, check_whole
from numformer.training.batches import split_rows
from numformer.training.epochs import Epochs


class LabelledTextBatch(NamedTuple):
    """What a classifier of texts learns from at once.

    Parameters
    ----------
    ids : ndarray of int, shape (B, T)
        Rows, padded at their end.
    lengths : ndarray of int, shape (B,)
        How many ids of each row are no padding.
    labels : ndarray of int, shape (B,)
    """

    ids: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray

    @property
    def tokens(self):
        """How many labels there are: the weight of this batch in a mean."""
        return len(self.labels)

    def split(self, parts):
        """Cut into at most `parts` batches of consecutive rows, as even as can be; none is empty."""
        return split_rows(self, parts)


class TripletBatch(NamedTuple):
    """What a `SentenceBert` learns from at once: row b of anchors and of positives are on the same topic, that of negatives is not.

    Parameters
    ----------
    anchors, positives, negatives : ndarray of int, shape (B, T)
        Rows, padded at their end; each has a T of its own.
    anchor_lengths, positive_lengths, negative_lengths : ndarray of int, shape (B,)
        How many ids of each row are no padding.
    topics : ndarray of int, shape (B,)
        Of the anchors.
    """

    anchors: np.ndarray
    anchor_lengths: np.ndarray
    positives: np.ndarray
    positive_lengths: np.ndarray
    negatives: np.ndarray
    negative_lengths: np.ndarray
    topics: np.ndarray

    @property
    def tokens(self):
        """How many triplets there are: the weight of this batch in a mean."""
        return len(self.topics)

    def split(self, parts):
        """Cut into at most `parts` batches of consecutive triplets, as even as can be; none is empty."""
        return split_rows(self, parts)


class LabelledRows:
    """All rows of a classifier's material, and its batches: in an order of their own in every epoch, or one after another.

    Parameters
    ----------
    rows : BertRows
        As of `passage_rows`.
    labels : sequence of int
        One for each row.

    Raises
    ------
    ValueError, TypeError
        If there is not a label for each row.

    Examples
    --------
    >>> from numformer.training import passage_rows
    >>> rows = LabelledRows(passage_rows([(np.array([5, 6]),), (np.array([7]),)], 8, 0, 1, 2), [1, 0])
    >>> rows.take([1])
    LabelledTextBatch(ids=array([[1, 7, 2]]), lengths=array([3]), labels=array([0]))
    """

    def __init__(self, rows, labels):
        self.rows, self.labels = rows, _checked("LabelledRows", "labels", labels, len(rows.ids))

    def __len__(self):
        return len(self.labels)

    def take(self, chosen):
        """The batch of some rows."""
        return LabelledTextBatch(*_no_wider(self.rows, chosen), self.labels[chosen])

    @property
    def lengths(self):
        return self.rows.lengths


class Triplets:
    """Triplets of rows, and their batches.

    Parameters
    ----------
    anchors, positives, negatives : BertRows
        Rows of the same number in each belong together.
    topics : sequence of int
        Of the anchors.

    Raises
    ------
    ValueError, TypeError
        If there are not as many of each.
    """

    def __init__(self, anchors, positives, negatives, topics):
        self.parts = anchors, positives, negatives
        if not len(anchors.ids) == len(positives.ids) == len(negatives.ids):
            raise ValueError(f"Triplets: {len(anchors.ids)} anchors, {len(positives.ids)} positives and {len(negatives.ids)} negatives "
                             "came; give as many of each.")
        self.topics = _checked("Triplets", "topics", topics, len(anchors.ids))

    def __len__(self):
        return len(self.topics)

    def take(self, chosen):
        """The batch of some triplets."""
        return TripletBatch(*(array for part in self.parts for array in _no_wider(part, chosen)), self.topics[chosen])

    @property
    def lengths(self):
        return np.max([part.lengths for part in self.parts], axis=0)


class PassageStream:
    """Batches without end: in every epoch all examples once, in a fresh order, those of like lengths together.

    Batch number `step` is a pure function of the seed and the step.

    Parameters
    ----------
    examples : LabelledRows or Triplets
    batch_size : int
    seed : int

    Examples
    --------
    >>> from numformer.training import passage_rows
    >>> rows = LabelledRows(passage_rows([(np.array([5, 6]),), (np.array([7]),)], 8, 0, 1, 2), [1, 0])
    >>> stream = PassageStream(rows, batch_size=1, seed=0)
    >>> sorted(stream.batch(step).labels.tolist() for step in (0, 1))
    [[0], [1]]
    """

    def __init__(self, examples, batch_size, seed):
        self.examples, self.epochs = examples, Epochs(examples.lengths, batch_size, seed)

    def batch(self, step):
        """The batch of one step."""
        return self.examples.take(self.epochs.rows(step)[1])


def consecutive_passages(examples, batch_size, n=None):
    """All examples once, in their order, to measure on; or n of them, evenly spread, for an estimate.

    Parameters
    ----------
    examples : LabelledRows or Triplets
    batch_size : int
        At most so many go together.
    n : int, optional

    Returns
    -------
    list of LabelledTextBatch or TripletBatch
    """
    check_whole("consecutive_passages", "batch_size", batch_size)
    chosen = np.arange(len(examples))
    if n is not None and n < len(chosen):
        check_whole("consecutive_passages", "n", n)
        chosen = np.arange(n) * len(chosen) // n
    return [examples.take(chosen[first:first + batch_size]) for first in range(0, len(chosen), batch_size)]


def _no_wider(rows, chosen):
    """Ids and lengths of some rows, no wider than the longest needs."""
    lengths = rows.lengths[chosen]
    return rows.ids[chosen, :lengths.max()], lengths


def _checked(owner, name, numbers, size):
    numbers = np.asarray(numbers)
    check_ids(owner, name, numbers, size=2**31)
    if numbers.shape != (size,):
        raise ValueError(f"{owner}: {name} have shape {numbers.shape}, but there are {size} rows; give one for each.")
    return numbers
