"""The order of examples: shuffled epochs for training, consecutive examples for evaluation."""

from abc import ABC, abstractmethod

import numpy as np

from numformer.checks import check_whole
from numformer.seeds import BY_LENGTH, ORDER, branch

POOL = 32                                                             # batches sorted together


class Epochs:
    """Which examples each step trains on: all of them once in every epoch, in a new order.

    The examples of a step are a pure function of the seed and the step, so the step is all that a
    checkpoint keeps of a stream. There are two orders:

    - Without `lengths`, shuffled epochs follow each other and are cut into batches of equal size. A
      batch may begin in one epoch and end in the next.
    - With `lengths`, examples of similar length share a batch, which saves padding: each shuffled
      epoch is cut into pools of `pool` batches, each pool is sorted from long to short and cut into
      batches, and all batches of the epoch are shuffled. One batch of an epoch may be smaller.

    Parameters
    ----------
    n_examples : int
    batch_size : int
    seed : int
    lengths : list of int or of tuple, optional
        What examples are sorted by within a pool: one number, or a tuple of them, for each.
    pool : int
        Batches in a pool; with 1, each batch is a random sample of all lengths.

    Raises
    ------
    ValueError
        If there are no examples, not as many lengths as examples, or a number is out of range.

    Examples
    --------
    >>> epochs = Epochs(4, batch_size=2, seed=0, lengths=[1, 9, 1, 9])
    >>> [(epoch, rows.tolist()) for epoch, rows in map(epochs.rows, range(4))]
    [(0, [2, 0]), (0, [1, 3]), (1, [2, 0]), (1, [3, 1])]
    """

    def __init__(self, n_examples, batch_size, seed, lengths=None, pool=POOL):
        check_whole("Epochs", "batch_size", batch_size)
        check_whole("Epochs", "pool", pool)
        check_whole("Epochs", "seed", seed, least=0)
        if not n_examples:
            raise ValueError("Epochs: there are no examples; give at least one.")
        if lengths is not None and len(lengths) != n_examples:
            raise ValueError(f"Epochs: {len(lengths)} lengths came for {n_examples} examples; "
                             "give one for each.")
        self.n_examples, self.batch_size, self.seed, self.pool = n_examples, batch_size, seed, pool
        self.lengths = None if lengths is None else np.array(lengths).reshape(n_examples, -1).T
        self._batches_of = (None, None)                               # the last epoch: a cache

    def rows(self, step):
        """The epoch in which a step begins, and the indices of its examples.

        Returns
        -------
        epoch : int
        rows : ndarray of int, shape (B,)
        """
        check_whole("Epochs", "step", step, least=0)
        return self._shuffled(int(step)) if self.lengths is None else self._sorted(int(step))

    def _shuffled(self, step):
        first, N, B = step * self.batch_size, self.n_examples, self.batch_size
        epochs = range(first // N, (first + B - 1) // N + 1)
        order = np.concatenate([branch(self.seed, ORDER, epoch).permutation(N)
                                for epoch in epochs])
        return epochs[0], order[first % N : first % N + B]

    def _sorted(self, step):
        epoch, index = divmod(step, -(-self.n_examples // self.batch_size))
        cached, batches = self._batches_of                            # read once: threads share it
        if cached != epoch:
            batches = self._sorted_batches(branch(self.seed, BY_LENGTH, epoch))
            self._batches_of = epoch, batches
        return epoch, batches[index]

    def _sorted_batches(self, rng):
        order, B, batches = rng.permutation(self.n_examples), self.batch_size, []
        pool = self.pool * B
        for first in range(0, len(order), pool):
            rows = order[first : first + pool]
            rows = rows[np.lexsort(-self.lengths[::-1, rows])]        # stable: ties stay shuffled
            batches += [rows[k : k + B] for k in range(0, len(rows), B)]
        return [batches[k] for k in rng.permutation(len(batches))]


class EpochStream(ABC):
    """Batches without end in the order of `Epochs`; a subclass builds them from examples."""

    def __init__(self, epochs):
        self.epochs = epochs

    def batch(self, step):
        """The batch of a step: a pure function of the seed and the step."""
        epoch, rows = self.epochs.rows(step)
        return self.build(rows, epoch, step)

    @abstractmethod
    def build(self, rows, epoch, step):
        """The `Batch` of the examples `rows`; the epoch and the step may seed its noise."""


def consecutive_rows(n_examples, batch_size, n=None):
    """The indices of all examples in order, cut into batches; or of n of them, evenly spaced.

    Examples
    --------
    >>> consecutive_rows(5, batch_size=2), consecutive_rows(5, batch_size=2, n=2)
    ([array([0, 1]), array([2, 3]), array([4])], [array([0, 2])])
    """
    check_whole("consecutive_rows", "batch_size", batch_size)
    rows = np.arange(n_examples)
    if n is not None and n < n_examples:
        check_whole("consecutive_rows", "n", n)
        rows = np.arange(n) * n_examples // n
    return [rows[first : first + batch_size] for first in range(0, len(rows), batch_size)]
