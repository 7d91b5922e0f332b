"""Batches of contexts for associative recall."""

import numpy as np

from numformer.checks import check_whole
from numformer.data.batches.batch import Batch
from numformer.data.corpora.recall import (
    EXAMPLE, earlier_examples, recall_examples, recall_ids)
from numformer.functional import IGNORE_INDEX
from numformer.seeds import CONTEXTS, branch


class RecallStream:
    """Batches of contexts without end; batch number `step` depends on the seed and the step alone.

    About half of the contexts are periodic. There a key predicts the next one, too, so more tokens
    teach the same lesson: find what came before, and read on. Without them a small decoder takes
    several times as many steps to learn it.

    Parameters
    ----------
    examples : int
        N, examples of a context.
    batch_size : int
    seed : int

    Raises
    ------
    ValueError
        If a size is not a whole number above 0.

    Examples
    --------
    >>> inputs, targets = RecallStream(8, 2, seed=0).batch(17)
    >>> inputs.shape, targets.shape
    ((2, 15), (2, 15))
    """

    def __init__(self, examples, batch_size, seed):
        for name, size in (("examples", examples), ("batch_size", batch_size)):
            check_whole("RecallStream", name, size)
        self.examples, self.batch_size, self.seed = examples, batch_size, seed

    def batch(self, step):
        """The batch of a step."""
        rng = branch(self.seed, CONTEXTS, step)
        periodic = rng.random(self.batch_size) < 0.5
        keys, values = recall_examples(self.batch_size, self.examples, rng, periodic=periodic)
        return recall_batch(keys, values, periodic)


def recall_batch(keys, values, periodic=None):
    """The batch of some contexts; its targets are the values that the context tells.

    These are the values of keys that came before. In a periodic context the keys themselves are
    targets, too, from the second time on. Nothing else can be predicted.

    Parameters
    ----------
    keys, values : ndarray of int, shape (B, N)
    periodic : ndarray of bool, shape (B,), optional
        Which contexts are periodic; none unless given.

    Returns
    -------
    Batch
        inputs and targets of shape (B, 2 N - 1): the last value is only a target.
    """
    ids = recall_ids(keys, values)                                    # (B, 2 N)
    inputs, known = ids[:, :-1], earlier_examples(keys).any(axis=2)   # (B, 2 N - 1), (B, N)
    targets = np.full_like(inputs, IGNORE_INDEX)
    targets[:, ::EXAMPLE] = np.where(known, values, IGNORE_INDEX)
    if periodic is not None:
        known = known[:, 1:] & periodic[:, None]
        targets[:, 1::EXAMPLE] = np.where(known, ids[:, EXAMPLE::EXAMPLE], IGNORE_INDEX)
    return Batch(inputs=inputs, targets=targets)
