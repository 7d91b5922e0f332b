"""Batches of contexts for associative recall."""

import numpy as np

from numformer.checks import check_whole
from numformer.data.batches.batch import Batch
from numformer.data.corpora.recall import EXAMPLE, recall_examples, recall_ids
from numformer.functional import IGNORE_INDEX


class RecallStream:
    """Batches of contexts without end; batch number `step` depends on the seed and the step alone.

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
    >>> inputs, targets = RecallStream(4, 2, seed=0).batch(17)
    >>> inputs.shape, (targets[0] != IGNORE_INDEX).nonzero()[0].tolist()
    ((2, 11), [0, 3, 6, 9])
    """

    def __init__(self, examples, batch_size, seed):
        for name, size in (("examples", examples), ("batch_size", batch_size)):
            check_whole("RecallStream", name, size)
        self.examples, self.batch_size, self.seed = examples, batch_size, seed

    def batch(self, step):
        """The batch of a step."""
        rng = np.random.default_rng([self.seed, 9, step])             # 9: see the package
        return recall_batch(*recall_examples(self.batch_size, self.examples, rng))


def recall_batch(keys, values):
    """The batch of some contexts; its targets are their values.

    Keys are random, so nothing predicts them: they are not in the loss, and neither are spaces.

    Parameters
    ----------
    keys, values : ndarray of int, shape (B, N)

    Returns
    -------
    Batch
        inputs and targets of shape (B, 3 N - 1): the last space is left out.
    """
    ids = recall_ids(keys, values)[:, :-1]                            # (B, 3 N - 1)
    targets = np.full_like(ids, IGNORE_INDEX)
    targets[:, ::EXAMPLE] = ids[:, 1::EXAMPLE]
    return Batch(inputs=ids, targets=targets)
