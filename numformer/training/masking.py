"""Masked tokens: what BERT learns from, with masks made once or anew in every epoch."""

import numpy as np

from numformer.checks import check_generator, check_ids, check_number, check_whole
from numformer.functional import IGNORE_INDEX
from numformer.training.batches import Batch
from numformer.training.epochs import Epochs


def mask_tokens(ids, special, vocab_size, mask_id, rng, rate=0.15):
    r"""Choose tokens to be guessed, and hide most of them.

    Of the n tokens of a row that are not special, :math:`\max(1, \mathrm{round}(\text{rate}\, n))` are chosen, all alike. Of
    the chosen, each by itself, 80% become the mask, 10% a random token that is not special, and 10% stay as they are: a
    model that trusted all that is not masked would be wrong, and it never sees a mask when it is used.

    Parameters
    ----------
    ids : ndarray of int, shape (B, T)
        Rows of text; padding is special too.
    special : sequence of int
        Ids that are never chosen and never put in: padding, classification, separation, and the mask itself.
    vocab_size : int
        V.
    mask_id : int
        Must be among the special ones.
    rng : numpy.random.Generator
    rate : float in (0, 1)

    Returns
    -------
    inputs : ndarray of int, shape (B, T)
    targets : ndarray of int, shape (B, T)
        The ids of the chosen tokens, `IGNORE_INDEX` elsewhere. A row of special ids alone has none.

    Raises
    ------
    ValueError, TypeError
        If an id lies outside, the mask is not special, all ids of the vocabulary are, or the rate lies outside.

    References
    ----------
    Devlin et al. (2019), "BERT: Pre-training of Deep Bidirectional Transformers", section 3.1, task 1, and appendix A.1.

    Examples
    --------
    >>> ids = np.array([[1, 10, 11, 12, 13, 14, 2, 0]])
    >>> inputs, targets = mask_tokens(ids, special=[0, 1, 2, 3], vocab_size=20, mask_id=3, rng=np.random.default_rng(0), rate=0.4)
    >>> inputs
    array([[ 1, 10,  4,  3, 13, 14,  2,  0]])
    >>> targets
    array([[-100, -100,   11,   12, -100, -100, -100, -100]])
    """
    ordinary = _check_mask("mask_tokens", ids, special, vocab_size, mask_id, rate)
    check_rng("mask_tokens", rng)
    may = np.isin(ids, ordinary)                                      # (B, T)
    n = may.sum(axis=1)                                               # (B,)
    wanted = np.where(n > 0, np.maximum(1, np.round(rate * n)), 0)
    lots = np.where(may, rng.random(ids.shape), 2.0)                  # special ones come last
    chosen = lots.argsort(axis=1).argsort(axis=1) < wanted[:, None]   # the rank of a lot among those of its row

    fate = rng.random(ids.shape)
    inputs = np.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = np.where(chosen & (fate >= 0.8) & (fate < 0.9), rng.choice(ordinary, size=ids.shape), inputs)
    return inputs.astype(ids.dtype), np.where(chosen, ids.astype(np.int64), IGNORE_INDEX)


class MaskedStream:
    """Batches of rows with masked tokens, without end: in every epoch all rows once, in a fresh order.

    Batch number `step` is a pure function of the seed and the step. Dynamic masks are new in every step (RoBERTa); static
    ones are made once for every row, and met again in every epoch (as BERT's were, which had ten for each row).

    Parameters
    ----------
    rows : ndarray of int, shape (N, T)
    special, vocab_size, mask_id, rate
        As in `mask_tokens`.
    batch_size : int
        B.
    seed : int
    dynamic : bool
    lengths : ndarray of int, shape (N,), optional
        How many ids of each row are no padding: rows of like lengths go together.

    Raises
    ------
    ValueError, TypeError
        As `mask_tokens`.

    References
    ----------
    Liu et al. (2019), "RoBERTa: A Robustly Optimized BERT Pretraining Approach", section 4.1.

    Examples
    --------
    >>> stream = MaskedStream(np.full((8, 16), 5), [0, 1], vocab_size=9, mask_id=1, batch_size=4, seed=0)
    >>> inputs, targets = stream.batch(3)
    >>> inputs.shape, (targets == 5).sum(axis=1).tolist()
    ((4, 16), [2, 2, 2, 2])
    """

    def __init__(self, rows, special, vocab_size, mask_id, batch_size, seed, dynamic=True, rate=0.15, lengths=None):
        _check_mask("MaskedStream", rows, special, vocab_size, mask_id, rate)
        self.epochs = Epochs(np.zeros(len(rows), int) if lengths is None else lengths, batch_size, seed)
        self.rows, self.dynamic, self.seed = rows, dynamic, seed
        self.settings = {"special": special, "vocab_size": vocab_size, "mask_id": mask_id, "rate": rate}
        if not dynamic:
            self.masked = mask_tokens(rows, rng=np.random.default_rng([seed, 5]), **self.settings)    # 5 and 6: branches of the seed

    def batch(self, step):
        """The batch of one step."""
        _, chosen = self.epochs.rows(step)
        if not self.dynamic:
            return Batch(*(array[chosen] for array in self.masked))
        return Batch(*mask_tokens(self.rows[chosen], rng=np.random.default_rng([self.seed, 6, step]), **self.settings))


def _check_mask(owner, ids, special, vocab_size, mask_id, rate):
    """Check the arguments; return the ids that are not special."""
    check_whole(owner, "vocab_size", vocab_size)
    check_ids(owner, "ids", ids, vocab_size)
    if ids.ndim != 2:
        raise ValueError(f"{owner}: ids must have shape (B, T), but have {ids.shape}.")
    special = np.asarray(special)
    check_ids(owner, "special", special, vocab_size)
    if mask_id not in special:
        raise ValueError(f"{owner}: mask_id={mask_id!r} must be among the special ids {special.tolist()}; add it.")
    ordinary = np.setdiff1d(np.arange(vocab_size), special)
    if not ordinary.size:
        raise ValueError(f"{owner}: all {vocab_size} ids are special; there is nothing to guess.")
    check_number(owner, "rate", rate, above=0, below=1)
    return ordinary


def check_rng(owner, rng):
    """Check that `rng` is a generator: here None has no meaning."""
    check_generator(owner, rng)
    if rng is None:
        raise TypeError(f"{owner}: rng must be a numpy.random.Generator; use np.random.default_rng(seed).")
