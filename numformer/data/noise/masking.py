"""Masked language modelling: choose tokens to predict, and mask most of them."""

import numpy as np

from numformer.checks import check_generator, check_ids, check_number, check_whole
from numformer.functional import IGNORE_INDEX


def mask_tokens(ids, special, vocab_size, mask_id, rng, rate=0.15):
    r"""Choose tokens that a model has to predict, and hide most of them.

    Of the n tokens of a row that are not special, :math:`\max(1, \mathrm{round}(\text{rate}\, n))`
    are chosen uniformly. Each chosen token, independently, becomes the mask with probability 0.8, a
    random token that is not special with 0.1, and stays as it is with 0.1. Otherwise the model
    could trust every token that is no mask, and in use it never sees a mask.

    Parameters
    ----------
    ids : ndarray of int, shape (B, T)
        Rows of token ids; padding counts as special.
    special : sequence of int
        Ids that are never chosen and never inserted: padding, class, separator and mask tokens.
    vocab_size : int
        V.
    mask_id : int
        Must be among the special ids.
    rng : numpy.random.Generator
    rate : float in (0, 1)

    Returns
    -------
    inputs : ndarray of int, shape (B, T)
    targets : ndarray of int, shape (B, T)
        The ids of the chosen tokens, `IGNORE_INDEX` elsewhere. A row of only special ids has none.

    Raises
    ------
    ValueError, TypeError
        If an id is out of range, the mask is not special, all ids of the vocabulary are special, or
        the rate is out of range.

    References
    ----------
    Devlin et al. (2019), "BERT: Pre-training of Deep Bidirectional Transformers", section 3.1,
    task 1, and appendix A.1.

    Examples
    --------
    >>> ids, rng = np.array([[1, 10, 11, 12, 13, 14, 2, 0]]), np.random.default_rng(0)
    >>> inputs, targets = mask_tokens(ids, [0, 1, 2, 3], 20, mask_id=3, rng=rng, rate=0.4)
    >>> inputs
    array([[ 1, 10,  4,  3, 13, 14,  2,  0]])
    >>> targets
    array([[-100, -100,   11,   12, -100, -100, -100, -100]])
    """
    ordinary = check_mask("mask_tokens", ids, special, vocab_size, mask_id, rate)
    check_generator("mask_tokens", rng, optional=False)
    may = np.isin(ids, ordinary)                                      # (B, T)
    n = may.sum(axis=1)                                               # (B,)
    n_chosen = np.where(n > 0, np.maximum(1, np.round(rate * n)), 0)
    keys = np.where(may, rng.random(ids.shape), 2.0)                  # special tokens rank last
    rank = keys.argsort(axis=1).argsort(axis=1)                       # within the row
    chosen = rank < n_chosen[:, None]

    fate = rng.random(ids.shape)
    random_ids = rng.choice(ordinary, size=ids.shape)
    inputs = np.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = np.where(chosen & (fate >= 0.8) & (fate < 0.9), random_ids, inputs)
    return inputs.astype(ids.dtype), np.where(chosen, ids.astype(np.int64), IGNORE_INDEX)


def check_mask(owner, ids, special, vocab_size, mask_id, rate):
    """Check the arguments of `mask_tokens`; return the ids that are not special."""
    check_whole(owner, "vocab_size", vocab_size)
    check_ids(owner, "ids", ids, vocab_size)
    if ids.ndim != 2:
        raise ValueError(f"{owner}: ids must have shape (B, T), but have {ids.shape}.")
    special = np.asarray(special)
    check_ids(owner, "special", special, vocab_size)
    if mask_id not in special:
        raise ValueError(f"{owner}: mask_id={mask_id!r} must be among the special ids "
                         f"{special.tolist()}; add it.")
    ordinary = np.setdiff1d(np.arange(vocab_size), special)
    if not ordinary.size:
        raise ValueError(f"{owner}: all {vocab_size} ids are special; no token is left to predict.")
    check_number(owner, "rate", rate, above=0, below=1)
    return ordinary
