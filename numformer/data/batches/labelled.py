"""Labelled examples, such as images: shuffled for training, in their order for evaluation."""

from numformer.checks import check_ids, check_whole
from numformer.data.batches.batch import Batch
from numformer.data.batches.epochs import Epochs, EpochStream, consecutive_rows


class LabelledStream(EpochStream):
    """Batches of labelled examples, without end: every example once in each epoch, in a new order.

    All batches have the same size: one may begin in an epoch and end in the next.

    Parameters
    ----------
    inputs : ndarray, shape (N, ...)
    labels : ndarray of int, shape (N,)
    batch_size : int
        B.
    seed : int

    Raises
    ------
    ValueError, TypeError
        If a label is not an integer of 0 or more, or there are no labels, or not one per input.

    Examples
    --------
    >>> import numpy as np
    >>> stream = LabelledStream(np.arange(6.0), np.arange(6), batch_size=4, seed=0)
    >>> first, second = stream.batch(0), stream.batch(1)
    >>> np.sort(np.concatenate([first.labels, second.labels[:2]]))    # the first epoch
    array([0, 1, 2, 3, 4, 5])
    """

    def __init__(self, inputs, labels, batch_size, seed):
        check_labelled("LabelledStream", inputs, labels)
        super().__init__(Epochs(len(labels), batch_size, seed))
        self.inputs, self.labels = inputs, labels

    def build(self, rows, epoch, step):
        return Batch(inputs=self.inputs[rows], labels=self.labels[rows])


def labelled_batches(inputs, labels, batch_size=256):
    """All labelled examples in their order, in batches, for evaluation.

    Parameters
    ----------
    inputs, labels
        As in `LabelledStream`.
    batch_size : int
        Examples in a batch, at most.

    Returns
    -------
    list of Batch

    Raises
    ------
    ValueError, TypeError
        As in `LabelledStream`.

    Examples
    --------
    >>> import numpy as np
    >>> batches = labelled_batches(np.zeros((5, 2)), np.zeros(5, int), batch_size=2)
    >>> [batch.n_targets for batch in batches]
    [2, 2, 1]
    """
    check_whole("labelled_batches", "batch_size", batch_size)
    check_labelled("labelled_batches", inputs, labels)
    return [Batch(inputs=inputs[rows], labels=labels[rows])
            for rows in consecutive_rows(len(labels), batch_size)]


def check_labelled(owner, inputs, labels):
    """Check that there is a label for every input."""
    check_ids(owner, "labels", labels, size=2**31)
    if labels.ndim != 1 or len(inputs) != len(labels):
        raise ValueError(f"{owner}: labels of shape {labels.shape} must have shape (N,), one for "
                         f"each of the N={len(inputs)} inputs.")
