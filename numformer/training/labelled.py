"""Batches of things that each bear a label: to train on in an order of chance, and all of them in a row to measure on."""

from typing import NamedTuple

import numpy as np

from numformer.backend import run_side_by_side
from numformer.checks import check_ids, check_whole
from numformer.training.batches import split_rows


class LabelledBatch(NamedTuple):
    """What a classifier learns from at once.

    Parameters
    ----------
    inputs : ndarray, shape (B, ...)
        Images, or whatever the model takes.
    labels : ndarray of int, shape (B,)
    """

    inputs: np.ndarray
    labels: np.ndarray

    @property
    def tokens(self):
        """How many labels there are: the weight of this batch in a mean. The trainer's word for what a loss is a mean over."""
        return len(self.labels)

    def split(self, parts):
        """Cut into at most `parts` batches of consecutive examples, as even as can be; none is empty.

        Examples
        --------
        >>> [part.tokens for part in LabelledBatch(np.zeros((5, 2)), np.zeros(5, int)).split(2)]
        [3, 2]
        """
        return split_rows(self, parts)


class LabelledStream:
    """Labelled examples without end: every example once, in an order of chance, then all of them again in another.

    Batch number `step` is a pure function of the seed and the step, as with `BlockStream`: the step is all that a checkpoint has to
    keep. A batch may begin in one round and end in the next.

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
        If labels are not integers of 0 or more, there are none, or not as many as inputs.

    Examples
    --------
    >>> stream = LabelledStream(np.arange(6.0), np.arange(6), batch_size=4, seed=0)
    >>> np.sort(np.concatenate([stream.batch(0).labels, stream.batch(1).labels[:2]]))       # the first round
    array([0, 1, 2, 3, 4, 5])
    """

    def __init__(self, inputs, labels, batch_size, seed):
        check_whole("LabelledStream", "batch_size", batch_size)
        check_labelled("LabelledStream", inputs, labels)
        self.inputs, self.labels, self.batch_size, self.seed = inputs, labels, batch_size, seed

    def batch(self, step):
        """The batch of one step."""
        first, N = step * self.batch_size, len(self.labels)
        rounds = range(first // N, (first + self.batch_size - 1) // N + 1)
        order = np.concatenate([np.random.default_rng([self.seed, 1, k]).permutation(N) for k in rounds])      # 1: the stream's own branch
        chosen = order[first % N : first % N + self.batch_size]
        return LabelledBatch(self.inputs[chosen], self.labels[chosen])


def labelled_batches(inputs, labels, batch_size=256):
    """All examples in their order, in batches: to measure on.

    Returns
    -------
    list of LabelledBatch

    Raises
    ------
    ValueError, TypeError
        As in `LabelledStream`.

    Examples
    --------
    >>> [batch.tokens for batch in labelled_batches(np.zeros((5, 2)), np.zeros(5, int), batch_size=2)]
    [2, 2, 1]
    """
    check_whole("labelled_batches", "batch_size", batch_size)
    check_labelled("labelled_batches", inputs, labels)
    return [LabelledBatch(inputs[k : k + batch_size], labels[k : k + batch_size]) for k in range(0, len(labels), batch_size)]


def accuracy(model, batches):
    """The share of labels that a classifier gets right: where the largest of its logits is the label's.

    Parameters
    ----------
    model : Layer
        Inputs (B, ...) to logits (B, classes).
    batches : list of LabelledBatch

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If there are no batches.

    Examples
    --------
    >>> from numformer.layers import Identity
    >>> accuracy(Identity(), [LabelledBatch(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))])
    0.5
    """
    if not batches:
        raise ValueError("accuracy: there are no batches; give at least one example.")
    right = run_side_by_side(lambda batch: int((model(batch.inputs).argmax(axis=-1) == batch.labels).sum()), batches)
    return sum(right) / sum(batch.tokens for batch in batches)


def check_labelled(owner, inputs, labels):
    """Check that there is an id for every input."""
    check_ids(owner, "labels", labels, size=2**31)
    if labels.ndim != 1 or len(inputs) != len(labels):
        raise ValueError(f"{owner}: labels of shape {labels.shape} must have shape (N,), one for each of the N={len(inputs)} inputs.")
