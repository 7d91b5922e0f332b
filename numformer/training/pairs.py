"""Batches of pairs: a source to read, and a target to write after it."""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_ids, check_number, check_whole
from numformer.functional import IGNORE_INDEX
from numformer.training.batches import split_rows
from numformer.training.epochs import POOL, Epochs


class PairBatch(NamedTuple):
    """What an encoder and a decoder learn from at once: the decoder sees all targets so far and says the next.

    Parameters
    ----------
    inputs : ndarray of int, shape (B, S)
        Sources, padded at their end.
    lengths : ndarray of int, shape (B,)
        How many ids of each source are no padding.
    outputs : ndarray of int, shape (B, T)
        What the decoder reads: the id that begins, then the target, padded at its end.
    targets : ndarray of int, shape (B, T)
        What it has to say: the target, then the id that ends; `IGNORE_INDEX` past that.
    """

    inputs: np.ndarray
    lengths: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray

    @property
    def tokens(self):
        """How many targets count: the weight of this batch in a mean."""
        return int((self.targets != IGNORE_INDEX).sum())

    def split(self, parts):
        """Cut into at most `parts` batches of consecutive rows, as even as can be; none is empty, or wider than its rows need.

        Examples
        --------
        >>> batch = pair_batch([([5, 6, 7], [7])] * 3 + [([5], [7])] * 2, padding=0, begin=1, end=2)
        >>> [part.inputs.shape for part in batch.split(2)]
        [(3, 3), (2, 1)]
        """
        return [part._narrow() for part in split_rows(self, parts)]

    def _narrow(self):
        S, T = self.lengths.max(), (self.targets != IGNORE_INDEX).sum(axis=1).max()
        return PairBatch(self.inputs[:, :S], self.lengths, self.outputs[:, :T], self.targets[:, :T])


def pair_batch(pairs, padding, begin, end):
    """Lay pairs of ids into one batch.

    Parameters
    ----------
    pairs : list of (ids, ids)
        Sources and targets, of any lengths.
    padding, begin, end : int
        The ids that fill up a row, begin an output, and end a target.

    Returns
    -------
    PairBatch

    Raises
    ------
    ValueError, TypeError
        If there are no pairs, a source is empty, or an id is negative or no integer.

    Examples
    --------
    >>> batch = pair_batch([([5, 6], [7]), ([8], [9, 9])], padding=0, begin=1, end=2)
    >>> batch.inputs.tolist(), batch.lengths.tolist(), batch.outputs.tolist(), batch.targets.tolist()
    ([[5, 6], [8, 0]], [2, 1], [[1, 7, 0], [1, 9, 9]], [[7, 2, -100], [9, 9, 2]])
    >>> batch.tokens
    5
    """
    return _lay(_checked("pair_batch", pairs, padding, begin, end), padding, begin, end)


class PairStream:
    """Batches of pairs, without end: in every epoch all pairs once, in a fresh order.

    Batch number `step` is a pure function of the seed and the step, as in `BlockStream`. Pairs of like lengths go together,
    so that little is padding: see `Epochs`. Where that would make batches of one sort, a `pool` of 1 leaves them mixed; what is
    padding then, `PairBatch.split` takes away.

    Parameters
    ----------
    pairs : list of (ids, ids)
        Sources and targets, each an array or a list of ids.
    batch_size : int
        B.
    seed : int
    padding, begin, end : int
        As in `pair_batch`.
    pool : int
        As in `Epochs`.

    Raises
    ------
    ValueError, TypeError
        As `pair_batch`.

    Examples
    --------
    >>> stream = PairStream([([k] * k, [k]) for k in range(3, 9)], batch_size=2, seed=0, padding=0, begin=1, end=2)
    >>> sorted(stream.batch(0).lengths.tolist() + stream.batch(1).lengths.tolist() + stream.batch(2).lengths.tolist())
    [3, 4, 5, 6, 7, 8]
    """

    def __init__(self, pairs, batch_size, seed, padding, begin, end, pool=POOL):
        self.pairs = _checked("PairStream", pairs, padding, begin, end)
        self.padding, self.begin, self.end = padding, begin, end
        self.epochs = Epochs([(len(source), len(target)) for source, target in self.pairs], batch_size, seed, pool)

    def batch(self, step):
        """The batch of one step."""
        _, rows = self.epochs.rows(step)
        return _lay([self.pairs[row] for row in rows], self.padding, self.begin, self.end)


class NoiseStream:
    """Batches of texts to restore: the source is the text after a noise that is new in every epoch, as `PairStream` otherwise.

    The noise of a text depends on the seed, the epoch and the text's number alone, not on the batch that it falls into.

    Parameters
    ----------
    texts : list
        What the noise takes: an array of ids for each, or a list of such arrays, its sentences.
    noise : callable
        ``noise(text, rng) -> (source, target)``, such as `corrupt_spans` with its other arguments.
    batch_size, seed, padding, begin, end
        As in `PairStream`.
    misread : float in [0, 1)
        Each id of a target that the decoder reads is replaced with this probability, by one from anywhere in the batch's targets: so
        a model learns to go on after a mistake, of which it makes its own when it writes. What it has to say stays as it is.

    Raises
    ------
    ValueError, TypeError
        If there are no texts, or one is no array; and, at the batch, what the noise and `pair_batch` raise.

    References
    ----------
    Bengio, Vinyals, Jaitly and Shazeer (2015), "Scheduled Sampling for Sequence Prediction with Recurrent Neural Networks", section 2.3,
    on mistakes that nobody taught the model to survive; Bowman et al. (2016), section 3.2, drop words of the decoder's input.

    Examples
    --------
    >>> stream = NoiseStream([np.array([5, 6, 7])], lambda text, rng: (rng.permutation(text), text), 1, seed=0, padding=0, begin=1, end=2)
    >>> stream.batch(0).targets.tolist(), stream.batch(0).inputs.tolist(), stream.batch(1).inputs.tolist()
    ([[5, 6, 7, 2]], [[7, 6, 5]], [[6, 7, 5]])
    """

    def __init__(self, texts, noise, batch_size, seed, padding, begin, end, misread=0.0):
        _check_special("NoiseStream", padding, begin, end)
        check_number("NoiseStream", "misread", misread, least=0, below=1)
        self.texts, self.noise, self.seed, self.misread = texts, noise, seed, misread
        self.padding, self.begin, self.end = padding, begin, end
        self.epochs = Epochs([(_size(text), 0) for text in texts], batch_size, seed)

    def batch(self, step):
        """The batch of one step."""
        epoch, rows = self.epochs.rows(step)
        pairs = [self.noise(self.texts[row], np.random.default_rng([self.seed, 4, epoch, int(row)])) for row in rows]
        batch = pair_batch(pairs, self.padding, self.begin, self.end)
        return self._misread(batch, np.random.default_rng([self.seed, 8, step])) if self.misread else batch

    def _misread(self, batch, rng):
        outputs, read = batch.outputs.copy(), batch.targets != IGNORE_INDEX           # (B, T)
        read[:, 0] = False                                            # there stands the id that begins
        wrong = read & (rng.random(read.shape) < self.misread)
        outputs[wrong] = rng.choice(batch.outputs[read], wrong.sum())
        return batch._replace(outputs=outputs)


def consecutive_pairs(pairs, batch_size, padding, begin, end):
    """All pairs once, in their order: to measure on.

    Parameters
    ----------
    pairs, padding, begin, end
        As in `pair_batch`.
    batch_size : int
        At most so many go together.

    Returns
    -------
    list of PairBatch

    Raises
    ------
    ValueError, TypeError
        As `pair_batch`.

    Examples
    --------
    >>> batches = consecutive_pairs([([k], [k]) for k in range(3, 8)], 2, padding=0, begin=1, end=2)
    >>> [batch.inputs[:, 0].tolist() for batch in batches]
    [[3, 4], [5, 6], [7]]
    """
    check_whole("consecutive_pairs", "batch_size", batch_size)
    pairs = _checked("consecutive_pairs", pairs, padding, begin, end)
    return [_lay(pairs[first : first + batch_size], padding, begin, end) for first in range(0, len(pairs), batch_size)]


def _lay(pairs, padding, begin, end):
    lengths = np.array([len(source) for source, _ in pairs])
    S, T = lengths.max(), 1 + max(len(target) for _, target in pairs)
    inputs, outputs = np.full((len(pairs), S), padding), np.full((len(pairs), T), padding)
    targets = np.full((len(pairs), T), IGNORE_INDEX)
    outputs[:, 0] = begin
    for b, (source, target) in enumerate(pairs):
        inputs[b, : len(source)] = source
        outputs[b, 1 : len(target) + 1] = target
        targets[b, : len(target)] = target
        targets[b, len(target)] = end
    return PairBatch(inputs, lengths, outputs, targets)


def _checked(owner, pairs, padding, begin, end):
    """The pairs as arrays, all of them checked."""
    _check_special(owner, padding, begin, end)
    if not len(pairs):
        raise ValueError(f"{owner}: there are no pairs; give at least one.")
    checked = []
    for number, (source, target) in enumerate(pairs):
        source, target = np.asarray(source), np.asarray(target)
        if source.ndim != 1 or target.ndim != 1:
            raise ValueError(f"{owner}: source and target of pair {number} must have shapes (S,) and (T,), "
                             f"but have {source.shape} and {target.shape}.")
        if not source.size:                                           # an encoder of nothing has nothing to attend to
            raise ValueError(f"{owner}: source of pair {number} is empty; give at least one id.")
        check_ids(owner, f"source of pair {number}", source, size=2**31)
        if target.size:                                               # an empty target is one: nothing but the end
            check_ids(owner, f"target of pair {number}", target, size=2**31)
        checked.append((source, target))
    return checked


def _check_special(owner, padding, begin, end):
    for name, value in (("padding", padding), ("begin", begin), ("end", end)):
        check_whole(owner, name, value, least=0)


def _size(text):
    """How many ids a text has, or all sentences of a list."""
    sentences = text if isinstance(text, list) else [text]
    if not all(isinstance(sentence, np.ndarray) for sentence in sentences):
        raise TypeError("NoiseStream: every text must be an array of ids, or a list of such arrays, its sentences.")
    return sum(sentence.size for sentence in sentences)
