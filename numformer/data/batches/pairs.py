"""Batches of pairs: a source for the encoder, and a target for the decoder."""

import numpy as np

from numformer.checks import check_ids, check_whole
from numformer.data.batches.batch import Batch
from numformer.data.batches.epochs import POOL, Epochs, EpochStream, consecutive_rows
from numformer.functional import IGNORE_INDEX


class PairBatch(Batch):
    """A batch for an encoder-decoder: sources, and targets that the decoder predicts.

    Parameters
    ----------
    inputs : ndarray of int, shape (B, S)
        Sources, padded on the right.
    lengths : ndarray of int, shape (B,)
        Tokens of each source without its padding.
    outputs : ndarray of int, shape (B, T)
        Input of the decoder: the BOS token, then the target, padded on the right.
    targets : ndarray of int, shape (B, T)
        What the decoder predicts: the target, then the EOS token, then `IGNORE_INDEX`.
    """

    def split(self, parts):
        """As `Batch.split`; each part has no more padding than its own rows need.

        Examples
        --------
        >>> pairs = [([5, 6, 7], [7])] * 3 + [([5], [7])] * 2
        >>> [part.inputs.shape for part in pair_batch(pairs, padding=0, bos=1, eos=2).split(2)]
        [(3, 3), (2, 1)]
        """
        return [part._without_excess_padding() for part in super().split(parts)]

    def _without_excess_padding(self):
        S, T = self.lengths.max(), (self.targets != IGNORE_INDEX).sum(axis=1).max()
        return PairBatch(inputs=self.inputs[:, :S], lengths=self.lengths,
                         outputs=self.outputs[:, :T], targets=self.targets[:, :T])


def pair_batch(pairs, padding, bos, eos):
    """Pad pairs of token ids into one batch.

    Parameters
    ----------
    pairs : list of (ids, ids)
        Sources and targets, of any lengths.
    padding, bos, eos : int
        Ids of the padding, BOS and EOS tokens.

    Returns
    -------
    PairBatch

    Raises
    ------
    ValueError, TypeError
        If there are no pairs, a source is empty, or an id is negative or no integer.

    Examples
    --------
    >>> batch = pair_batch([([5, 6], [7]), ([8], [9, 9])], padding=0, bos=1, eos=2)
    >>> batch.inputs.tolist(), batch.lengths.tolist()
    ([[5, 6], [8, 0]], [2, 1])
    >>> batch.outputs.tolist(), batch.targets.tolist(), batch.n_targets
    ([[1, 7, 0], [1, 9, 9]], [[7, 2, -100], [9, 9, 2]], 5)
    """
    return lay_pairs(check_pairs("pair_batch", pairs, padding, bos, eos), padding, bos, eos)


class PairStream(EpochStream):
    """Batches of pairs, without end: all pairs once in each epoch, in a new order.

    Pairs of similar length share a batch, which saves padding: see `Epochs`. Where that would group
    examples of one kind, `pool=1` mixes them; `PairBatch.split` then removes what padding it can.

    Parameters
    ----------
    pairs : list of (ids, ids)
        Sources and targets, each an array or a list of token ids.
    batch_size : int
        B.
    seed : int
    padding, bos, eos : int
        As in `pair_batch`.
    pool : int
        As in `Epochs`.

    Raises
    ------
    ValueError, TypeError
        As `pair_batch`.

    Examples
    --------
    >>> pairs = [([k] * k, [k]) for k in range(3, 9)]
    >>> stream = PairStream(pairs, batch_size=2, seed=0, padding=0, bos=1, eos=2)
    >>> sorted(length for step in range(3) for length in stream.batch(step).lengths.tolist())
    [3, 4, 5, 6, 7, 8]
    """

    def __init__(self, pairs, batch_size, seed, padding, bos, eos, pool=POOL):
        self.pairs = check_pairs("PairStream", pairs, padding, bos, eos)
        self.special = padding, bos, eos
        lengths = [(len(source), len(target)) for source, target in self.pairs]
        super().__init__(Epochs(len(pairs), batch_size, seed, lengths, pool))

    def build(self, rows, epoch, step):
        return lay_pairs([self.pairs[row] for row in rows], *self.special)


def consecutive_pairs(pairs, batch_size, padding, bos, eos):
    """All pairs once, in order, for evaluation.

    Parameters
    ----------
    pairs, padding, bos, eos
        As in `pair_batch`.
    batch_size : int
        Pairs in a batch, at most.

    Returns
    -------
    list of PairBatch

    Raises
    ------
    ValueError, TypeError
        As `pair_batch`.

    Examples
    --------
    >>> pairs = [([k], [k]) for k in range(3, 8)]
    >>> batches = consecutive_pairs(pairs, 2, padding=0, bos=1, eos=2)
    >>> [batch.inputs[:, 0].tolist() for batch in batches]
    [[3, 4], [5, 6], [7]]
    """
    check_whole("consecutive_pairs", "batch_size", batch_size)
    pairs = check_pairs("consecutive_pairs", pairs, padding, bos, eos)
    return [lay_pairs([pairs[row] for row in rows], padding, bos, eos)
            for rows in consecutive_rows(len(pairs), batch_size)]


def lay_pairs(pairs, padding, bos, eos):
    """As `pair_batch`, for pairs that `check_pairs` returned."""
    lengths = np.array([len(source) for source, _ in pairs])
    B, S, T = len(pairs), lengths.max(), 1 + max(len(target) for _, target in pairs)
    inputs, outputs = np.full((B, S), padding), np.full((B, T), padding)
    targets = np.full((B, T), IGNORE_INDEX)
    outputs[:, 0] = bos
    for b, (source, target) in enumerate(pairs):
        inputs[b, : len(source)] = source
        outputs[b, 1 : len(target) + 1] = target
        targets[b, : len(target)] = target
        targets[b, len(target)] = eos
    return PairBatch(inputs=inputs, lengths=lengths, outputs=outputs, targets=targets)


def check_pairs(owner, pairs, padding, bos, eos):
    """The pairs as arrays, after a check of every one of them."""
    check_special(owner, padding, bos, eos)
    if not len(pairs):
        raise ValueError(f"{owner}: there are no pairs; give at least one.")
    checked = []
    for number, (source, target) in enumerate(pairs):
        source, target = np.asarray(source), np.asarray(target)
        if source.ndim != 1 or target.ndim != 1:
            raise ValueError(f"{owner}: source and target of pair {number} must have shapes (S,) "
                             f"and (T,), but have {source.shape} and {target.shape}.")
        if not source.size:                                           # attention needs a key
            raise ValueError(f"{owner}: source of pair {number} is empty; give at least one id.")
        check_ids(owner, f"source of pair {number}", source, size=2**31)
        if target.size:                                               # an empty target is EOS alone
            check_ids(owner, f"target of pair {number}", target, size=2**31)
        checked.append((source, target))
    return checked


def check_special(owner, padding, bos, eos):
    """Check the ids of the special tokens of a pair."""
    for name, value in (("padding", padding), ("bos", bos), ("eos", eos)):
        check_whole(owner, name, value, least=0)
