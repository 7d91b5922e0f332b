"""The order in which examples come: a pure function of the seed and the step."""

import numpy as np

from numformer.checks import check_whole

POOL = 32                                                             # batches whose examples are sorted by length together, if not told


class Epochs:
    """Which examples come at which step: all once in every epoch, in a fresh order, those of like lengths together.

    An epoch's random order is cut into pools of so many batches, each pool is sorted, the longest first, and cut into batches,
    and the batches are shuffled. Where the batch size does not divide the examples, one batch of an epoch is smaller.

    Parameters
    ----------
    lengths : list of tuple, or of int
        What each example is sorted by within its pool.
    batch_size : int
    seed : int
    pool : int
        1 leaves each batch a fair sample of all lengths, sorted.

    Raises
    ------
    ValueError
        If there are no examples, or a number is out of range.

    Examples
    --------
    >>> epochs = Epochs([1, 9, 1, 9], batch_size=2, seed=0)
    >>> [(epoch, rows.tolist()) for epoch, rows in map(epochs.rows, range(4))]
    [(0, [2, 0]), (0, [1, 3]), (1, [2, 0]), (1, [3, 1])]
    """

    def __init__(self, lengths, batch_size, seed, pool=POOL):
        check_whole("Epochs", "batch_size", batch_size)
        check_whole("Epochs", "pool", pool)
        check_whole("Epochs", "seed", seed, least=0)
        if not len(lengths):
            raise ValueError("Epochs: there are no examples; give at least one.")
        self.lengths = np.array(lengths).reshape(len(lengths), -1).T
        self.batch_size, self.seed, self.pool = batch_size, seed, pool
        self.steps = -(-len(lengths) // batch_size)                   # of an epoch
        self._plan = (None, None)                                     # the last epoch asked for: a shortcut, not a state

    def rows(self, step):
        """(epoch, numbers of the examples) of one step."""
        check_whole("Epochs", "step", step, least=0)
        epoch, place = divmod(int(step), self.steps)
        planned, plan = self._plan                                    # read at once: another thread may put a new one
        if planned != epoch:
            plan = self._batches(np.random.default_rng([self.seed, 3, epoch]))        # 3: this branch of the seed
            self._plan = epoch, plan
        return epoch, plan[place]

    def _batches(self, rng):
        order, pool = rng.permutation(self.lengths.shape[1]), self.pool * self.batch_size
        batches = []
        for first in range(0, len(order), pool):
            rows = order[first : first + pool]
            rows = rows[np.lexsort(-self.lengths[::-1, rows])]        # by the first length, then the second; ties stay in random order
            batches += [rows[at : at + self.batch_size] for at in range(0, len(rows), self.batch_size)]
        return [batches[i] for i in rng.permutation(len(batches))]
