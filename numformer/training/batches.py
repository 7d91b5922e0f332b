"""Batches of text: random blocks to train on, and all blocks in a row to measure on."""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_ids, check_whole
from numformer.functional import IGNORE_INDEX


class Batch(NamedTuple):
    """What a language model learns from at once: each target is the token after its input.

    Parameters
    ----------
    inputs, targets : ndarray of int, shape (B, T)
        A target of `IGNORE_INDEX` does not count.
    """

    inputs: np.ndarray
    targets: np.ndarray

    @property
    def tokens(self):
        """How many targets count: the weight of this batch in a mean."""
        return int((self.targets != IGNORE_INDEX).sum())

    def split(self, parts):
        """Cut into at most `parts` batches of consecutive rows, as even as can be; none is empty.

        Examples
        --------
        >>> rows = np.arange(10).reshape(5, 2)
        >>> [len(part.inputs) for part in Batch(rows, rows).split(2)]
        [3, 2]
        """
        return split_rows(self, parts)


def split_rows(batch, parts):
    """Cut a tuple of arrays with as many rows each: into at most `parts` of its kind, of consecutive rows, as even as can be."""
    parts = min(parts, len(batch[0]))
    return [type(batch)(*arrays) for arrays in zip(*(np.array_split(array, parts) for array in batch))]


class BlockStream:
    """Blocks from random places of a text, without end.

    Batch number `step` is a pure function of the seed and the step. So the step is all that a checkpoint has to keep of
    the stream: its cursor and its random state in one number.

    Parameters
    ----------
    ids : ndarray of int, shape (N,)
        The text; N must be more than the length of a block.
    context_length : int
        T, the length of a block.
    batch_size : int
        B, blocks in a batch.
    seed : int

    Raises
    ------
    ValueError
        If the text is shorter than a block and one target.

    Examples
    --------
    >>> stream = BlockStream(np.arange(100), context_length=4, batch_size=2, seed=0)
    >>> inputs, targets = stream.batch(17)
    >>> inputs.shape, bool((targets == inputs + 1).all())
    ((2, 4), True)
    """

    def __init__(self, ids, context_length, batch_size, seed):
        check_whole("BlockStream", "batch_size", batch_size)
        check_length("BlockStream", ids, context_length)
        self.ids, self.context_length, self.batch_size, self.seed = ids, context_length, batch_size, seed

    def batch(self, step):
        """The batch of one step."""
        rng = np.random.default_rng([self.seed, 1, step])             # 1: the stream's own branch of the seed
        starts = rng.integers(0, len(self.ids) - self.context_length, size=self.batch_size)
        places = starts[:, None] + np.arange(self.context_length)     # (B, T)
        return Batch(self.ids[places], self.ids[places + 1])


def consecutive_blocks(ids, context_length, tokens_a_batch=1024, blocks=None):
    """All of a text in consecutive blocks that do not overlap; every token but the first is a target once.

    Parameters
    ----------
    ids : ndarray of int, shape (N,)
    context_length : int
        T. The last block may be shorter.
    tokens_a_batch : int
        How many tokens go together, at most (but at least one block).
    blocks : int, optional
        Take only this many whole blocks, evenly spread: an estimate.

    Returns
    -------
    list of Batch

    Raises
    ------
    ValueError
        If the text is shorter than a block and one target.

    Examples
    --------
    >>> [batch.inputs.tolist() for batch in consecutive_blocks(np.arange(8), 3)]
    [[[0, 1, 2], [3, 4, 5]], [[6]]]
    """
    check_length("consecutive_blocks", ids, context_length)
    T, whole = context_length, (len(ids) - 1) // context_length
    rows = Batch(ids[: whole * T].reshape(whole, T), ids[1 : whole * T + 1].reshape(whole, T))
    if blocks is not None:
        check_whole("consecutive_blocks", "blocks", blocks)
        chosen = np.arange(min(blocks, whole)) * whole // min(blocks, whole)
        rows = Batch(rows.inputs[chosen], rows.targets[chosen])
    batches = rows.split(-(-len(rows.inputs) // max(1, tokens_a_batch // T)))
    if blocks is None and whole * T < len(ids) - 1:
        batches.append(Batch(ids[None, whole * T : -1], ids[None, whole * T + 1 :]))
    return batches


def check_length(owner, ids, context_length):
    """Check that a text is an array of ids that holds a block and one target more."""
    check_whole(owner, "context_length", context_length)
    check_ids(owner, "ids", ids, size=2**31)
    if ids.ndim != 1:
        raise ValueError(f"{owner}: ids must have shape (N,), but have {ids.shape}; flatten them first.")
    if len(ids) <= context_length:
        raise ValueError(f"{owner}: a text of {ids.size} tokens is too short for a block of context_length={context_length} "
                         f"and its last target; give at least {context_length + 1} tokens.")
