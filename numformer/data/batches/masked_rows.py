"""Batches for BERT: rows of passages with masked tokens."""

import numpy as np

from numformer.data.batches.batch import Batch
from numformer.data.batches.epochs import Epochs, EpochStream, consecutive_rows
from numformer.data.noise.masking import check_mask, mask_tokens
from numformer.seeds import DYNAMIC_MASKS, STATIC_MASKS, branch


class MaskedStream(EpochStream):
    """Batches of rows with masked tokens, without end: all rows once in each epoch, in a new order.

    Dynamic masks are new in every step (RoBERTa). Static masks are made once for each row and
    reused in every epoch (BERT, which had ten of them for each row).

    Parameters
    ----------
    rows : PassageRows
    special, vocab_size, mask_id, rate
        As in `mask_tokens`.
    batch_size : int
        B.
    seed : int
    dynamic : bool
        Whether masks are new in every step.

    Raises
    ------
    ValueError, TypeError
        As `mask_tokens`.

    References
    ----------
    Liu et al. (2019), "RoBERTa: A Robustly Optimized BERT Pretraining Approach", section 4.1.

    Examples
    --------
    >>> from numformer.data import passage_rows
    >>> rows = passage_rows([(np.array([5, 6]), np.array([7]))] * 4, 8, 0, 1, 2)
    >>> stream = MaskedStream(rows, [0, 1, 2, 3], vocab_size=9, mask_id=3, batch_size=2, seed=0)
    >>> batch = stream.batch(5)
    >>> batch.inputs.shape, batch.n_targets
    ((2, 6), 2)
    """

    def __init__(self, rows, special, vocab_size, mask_id, batch_size, seed, dynamic=True,
                 rate=0.15):
        check_mask("MaskedStream", rows.ids, special, vocab_size, mask_id, rate)
        super().__init__(Epochs(len(rows.ids), batch_size, seed, rows.lengths))
        self.rows, self.dynamic, self.seed = rows, dynamic, seed
        self.masks = dict(special=special, vocab_size=vocab_size, mask_id=mask_id, rate=rate)
        if not dynamic:
            rng = branch(seed, STATIC_MASKS)
            self.static = mask_tokens(rows.ids, rng=rng, **self.masks)

    def build(self, rows, epoch, step):
        if self.dynamic:
            rng = branch(self.seed, DYNAMIC_MASKS, step)
            masked = mask_tokens(self.rows.ids[rows], rng=rng, **self.masks)
        else:
            masked = (array[rows] for array in self.static)
        return masked_batch(self.rows, rows, *masked)


def consecutive_masked_rows(rows, special, vocab_size, mask_id, batch_size, rate=0.15):
    """All rows once, in order, always with the same masks, for evaluation.

    Parameters
    ----------
    rows : PassageRows
    special, vocab_size, mask_id, rate
        As in `mask_tokens`.
    batch_size : int
        Rows in a batch, at most.

    Returns
    -------
    list of Batch
    """
    rng = np.random.default_rng(0)
    inputs, targets = mask_tokens(rows.ids, special, vocab_size, mask_id, rng, rate)
    return [masked_batch(rows, chosen, inputs[chosen], targets[chosen])
            for chosen in consecutive_rows(len(inputs), batch_size)]


def masked_batch(rows, chosen, inputs, targets):
    """The batch of the rows with indices `chosen`; inputs and targets are from `mask_tokens`."""
    _, segments, lengths, follows = rows.take(chosen)
    width = segments.shape[1]
    return Batch(inputs=inputs[:, :width], targets=targets[:, :width], segments=segments,
                 lengths=lengths, follows=follows)
