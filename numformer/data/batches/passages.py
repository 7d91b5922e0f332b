"""Batches of passages: each with a label, or in triplets of which two have the same topic."""

import numpy as np

from numformer.checks import check_ids
from numformer.data.batches.batch import Batch
from numformer.data.batches.epochs import Epochs, EpochStream, consecutive_rows
from numformer.functional import IGNORE_INDEX


class LabelledRows:
    """The rows of a text classifier with their labels.

    Parameters
    ----------
    rows : PassageRows
    labels : sequence of int
        One for each row; `IGNORE_INDEX` where it is not known, for models that allow it.

    Raises
    ------
    ValueError, TypeError
        If there is not one label for each row.

    Examples
    --------
    >>> from numformer.data import passage_rows
    >>> rows = passage_rows([(np.array([5, 6]),), (np.array([7]),)], 8, 0, 1, 2)
    >>> LabelledRows(rows, [1, 0]).take([1])
    Batch(ids=array([[1, 7, 2]]), lengths=array([3]), labels=array([0]))
    """

    def __init__(self, rows, labels):
        self.rows = rows
        self.labels = _checked("LabelledRows", "labels", labels, len(rows.ids), IGNORE_INDEX)

    def __len__(self):
        return len(self.labels)

    @property
    def lengths(self):
        """Tokens of each row."""
        return self.rows.lengths

    def take(self, chosen):
        """The batch of some rows."""
        rows = self.rows.take(chosen)
        return Batch(ids=rows.ids, lengths=rows.lengths, labels=self.labels[chosen])


class Triplets:
    """Triplets of rows: an anchor, a positive on the same topic, and a negative on another.

    Parameters
    ----------
    anchors, positives, negatives : PassageRows
        Row n of each belongs to triplet n.
    topics : sequence of int
        Of the anchors.

    Raises
    ------
    ValueError, TypeError
        If there are not as many of each.
    """

    def __init__(self, anchors, positives, negatives, topics):
        self.anchors, self.positives, self.negatives = anchors, positives, negatives
        if not len(anchors.ids) == len(positives.ids) == len(negatives.ids):
            raise ValueError(f"Triplets: {len(anchors.ids)} anchors, {len(positives.ids)} "
                             f"positives and {len(negatives.ids)} negatives came; "
                             "give as many of each.")
        self.topics = _checked("Triplets", "topics", topics, len(anchors.ids))

    def __len__(self):
        return len(self.topics)

    @property
    def lengths(self):
        """Tokens of the longest row of each triplet."""
        parts = (self.anchors, self.positives, self.negatives)
        return np.max([part.lengths for part in parts], axis=0)

    def take(self, chosen):
        """The batch of some triplets; its three parts each have a width T of their own."""
        parts = (self.anchors, self.positives, self.negatives)
        anchors, positives, negatives = (part.take(chosen) for part in parts)
        return Batch(anchors=anchors.ids, anchor_lengths=anchors.lengths,
                     positives=positives.ids, positive_lengths=positives.lengths,
                     negatives=negatives.ids, negative_lengths=negatives.lengths,
                     topics=self.topics[chosen])


class PassageStream(EpochStream):
    """Batches of passages or triplets, without end: all once in each epoch, in a new order.

    Parameters
    ----------
    examples : LabelledRows or Triplets
    batch_size : int
    seed : int

    Examples
    --------
    >>> from numformer.data import passage_rows
    >>> rows = passage_rows([(np.array([5, 6]),), (np.array([7]),)], 8, 0, 1, 2)
    >>> stream = PassageStream(LabelledRows(rows, [1, 0]), batch_size=1, seed=0)
    >>> sorted(stream.batch(step).labels.tolist() for step in (0, 1))
    [[0], [1]]
    """

    def __init__(self, examples, batch_size, seed):
        super().__init__(Epochs(len(examples), batch_size, seed, examples.lengths))
        self.examples = examples

    def build(self, rows, epoch, step):
        return self.examples.take(rows)


def consecutive_passages(examples, batch_size, n=None):
    """All examples once, in order, for evaluation; or n of them, evenly spaced, as an estimate.

    Parameters
    ----------
    examples : LabelledRows or Triplets
    batch_size : int
        Examples in a batch, at most.
    n : int, optional

    Returns
    -------
    list of Batch
    """
    return [examples.take(rows) for rows in consecutive_rows(len(examples), batch_size, n)]


def _checked(owner, name, numbers, size, ignore_index=None):
    """The numbers as an array, after a check that there is one for each row."""
    numbers = np.asarray(numbers)
    check_ids(owner, name, numbers, 2**31, ignore_index)
    if numbers.shape != (size,):
        raise ValueError(f"{owner}: {name} have shape {numbers.shape}, but there are {size} rows; "
                         "give one for each.")
    return numbers
