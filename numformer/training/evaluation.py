"""Measures of a model over batches."""

import math

import numpy as np

from numformer.backend import run_side_by_side
from numformer.finite import predicted_classes, quiet, result_not_finite
from numformer.functional import IGNORE_INDEX
from numformer.models.transformer import loss_counts


def mean_loss(model, batches, should_stop=lambda: False):
    r"""Mean loss of a model over batches, weighted by their targets.

    .. math:: \sum_p \frac{\sum_k n_{pk} L_{pk}}{\sum_k n_{pk}}

    with the parts p of the loss, as in `LossOfParts`; most models have one. Where a model has
    ``evaluation_loss(batch)``, it replaces ``loss``: the cross-entropy alone, without the terms
    that are for training. Where the evaluation's loss has several parts, the model has
    ``evaluation_parts(batch)``, with the counts of ``loss_counts(batch)``.

    Parameters
    ----------
    model : Layer
    batches : list of Batch
    should_stop : callable
        Called before every batch; once it returns True, the result is None.

    Returns
    -------
    float or None
        In nats per target.

    Raises
    ------
    NotFinite
        If the loss is not finite; a parameter that holds NaN or Inf is named.
    ValueError
        If there are no batches, or no target in them counts.
    """
    if not batches:
        raise ValueError("mean_loss: there are no batches; give a text that holds a block.")

    return mean_of(totals_of(model, batches, should_stop), model)


def totals_of(model, batches, should_stop=lambda: False):
    """The parts of the loss of each batch, a list of (sum, count); None if `should_stop` did."""
    def total(batch):
        if should_stop():
            return None
        with quiet():                                                 # found by `mean_of`
            return _parts_of(model, batch)

    return run_side_by_side(total, batches)


def _parts_of(model, batch):
    if hasattr(model, "evaluation_parts"):
        counts = loss_counts(model, batch)
        losses = model.evaluation_parts(batch) if any(counts) else counts
    else:
        counts = batch.n_targets,
        loss_of = getattr(model, "evaluation_loss", lambda batch: model.loss(batch)[0])
        losses = [loss_of(batch) if batch.n_targets else 0]
    return [(float(loss) * n, n) for loss, n in zip(losses, counts, strict=True)]


def mean_of(totals, model):
    """The mean over all targets, from what `totals_of` finds in any order; else as `mean_loss`."""
    if None in totals:
        return None
    sums, counts = np.moveaxis(np.array(totals, float), -1, 0)        # (batches, parts) each
    means = [_sum(part) / n for part, n in zip(sums.T, counts.sum(axis=0)) if n]
    if not means:
        raise ValueError("mean_loss: no target of the batches counts; give at least one.")
    loss = float(sum(means))
    if not math.isfinite(loss):
        raise result_not_finite(f"the validation loss is {loss}", model)
    return loss


def _sum(numbers):
    """The correctly rounded sum; inf where it is too large for a float."""
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def accuracy(model, batches):
    """The fraction of labels that a classifier predicts: the largest logit is the label's.

    Parameters
    ----------
    model : Layer
        Inputs (B, ...) to logits (B, classes).
    batches : list of Batch
        With inputs and labels. A label of `IGNORE_INDEX` does not count.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If there are no batches, or no label in them counts.
    NotFinite
        If the logits are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.data import Batch
    >>> from numformer.layers import Identity
    >>> logits, labels = np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1])
    >>> accuracy(Identity(), [Batch(inputs=logits, labels=labels)])
    0.5
    """
    if not batches:
        raise ValueError("accuracy: there are no batches; give at least one example.")

    def n_correct(batch):
        with quiet():                                                 # found by the check
            logits = model(batch.inputs)
        return int((predicted_classes("accuracy", logits, model) == batch.labels).sum())

    n = sum(int((batch.labels != IGNORE_INDEX).sum()) for batch in batches)
    if not n:
        raise ValueError("accuracy: no label of the batches counts; give at least one.")
    return sum(run_side_by_side(n_correct, batches)) / n
