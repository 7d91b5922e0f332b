"""Blocks of a text: random ones for training, and consecutive ones for evaluation."""

import numpy as np

from numformer.checks import check_ids, check_whole
from numformer.data.batches.batch import Batch
from numformer.functional import IGNORE_INDEX
from numformer.seeds import ORDER, branch


class BlockStream:
    """Batches of blocks from random positions of a text, without end.

    Batch number `step` is a pure function of the seed and the step, so the step is all that a
    checkpoint keeps of the stream.

    Parameters
    ----------
    ids : ndarray of int, shape (N,)
        The tokens of the text; N must be greater than the context length.
    context_length : int
        T, tokens in a block.
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
        check_text_length("BlockStream", ids, context_length)
        self.ids, self.context_length = ids, context_length
        self.batch_size, self.seed = batch_size, seed

    def batch(self, step):
        """The batch of a step."""
        rng = branch(self.seed, ORDER, step)
        starts = rng.integers(0, len(self.ids) - self.context_length, size=self.batch_size)
        positions = starts[:, None] + np.arange(self.context_length)  # (B, T)
        return Batch(inputs=self.ids[positions], targets=self.ids[positions + 1])


def consecutive_blocks(ids, context_length, tokens_a_batch=1024, blocks=None, first=()):
    """A whole text in consecutive blocks: each token but the first is a target once.

    Some models need tokens before every text, such as BOS: `first`. Every block begins with them,
    and then each token is a target once.

    Parameters
    ----------
    ids : ndarray of int, shape (N,)
    context_length : int
        T. The last block may be shorter.
    tokens_a_batch : int
        Tokens in a batch, at most (but at least one block).
    blocks : int, optional
        Take only this many whole blocks, evenly spaced: an estimate.
    first : sequence of int
        F ids, fewer than T; without any, the last token of a block is the first of the next.

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
    >>> inputs, targets = consecutive_blocks(np.arange(8), 3, first=[9])[0]
    >>> inputs.tolist(), targets.tolist()
    ([[9, 0, 1], [9, 3, 4]], [[0, 1, 2], [3, 4, 5]])
    """
    check_text_length("consecutive_blocks", ids, context_length)
    if len(first):
        return _begun(ids, context_length, tokens_a_batch, blocks, np.array(first))
    T, whole = context_length, (len(ids) - 1) // context_length
    inputs = ids[: whole * T].reshape(whole, T)
    targets = ids[1 : whole * T + 1].reshape(whole, T)
    if blocks is not None:
        check_whole("consecutive_blocks", "blocks", blocks)
        chosen = np.arange(min(blocks, whole)) * whole // min(blocks, whole)
        inputs, targets = inputs[chosen], targets[chosen]
    n_batches = -(-len(inputs) // max(1, tokens_a_batch // T))
    batches = Batch(inputs=inputs, targets=targets).split(n_batches)
    if blocks is None and whole * T < len(ids) - 1:
        last = ids[None, whole * T :]
        batches.append(Batch(inputs=last[:, :-1], targets=last[:, 1:]))
    return batches


def _begun(ids, T, tokens_a_batch, blocks, first):
    """`consecutive_blocks` of T - F + 1 targets, each block with its first F ids."""
    n = T - len(first) + 1                            # targets of a block
    if n < 1:
        raise ValueError(f"consecutive_blocks: context_length={T} is too short for {len(first)} "
                         "tokens before every text.")

    def batch(rows):                                  # (B, n), or fewer in the last block
        begin = np.tile(first, (len(rows), 1))
        none = np.full((len(rows), len(first) - 1), IGNORE_INDEX)     # targets within `first`
        return Batch(inputs=np.hstack([begin, rows[:, :-1]]), targets=np.hstack([none, rows]))

    whole = len(ids) // n
    rows = ids[: whole * n].reshape(whole, n)
    if blocks is not None:
        check_whole("consecutive_blocks", "blocks", blocks)
        rows = rows[np.arange(min(blocks, whole)) * whole // min(blocks, whole)]
    batches = batch(rows).split(-(-len(rows) // max(1, tokens_a_batch // T)))
    if blocks is None and whole * n < len(ids):
        batches.append(batch(ids[None, whole * n :]))
    return batches


def check_text_length(owner, ids, context_length):
    """Check that a text is an array of ids that holds a block and one more target."""
    check_whole(owner, "context_length", context_length)
    check_ids(owner, "ids", ids, size=2**31)
    if ids.ndim != 1:
        raise ValueError(f"{owner}: ids must have shape (N,), but have {ids.shape}; "
                         "flatten them first.")
    if len(ids) <= context_length:
        raise ValueError(f"{owner}: a text of {ids.size} tokens is too short for a block of "
                         f"context_length={context_length} and its last target; give at least "
                         f"{context_length + 1} tokens.")
