"""Measures of a model over batches."""

import math

from numformer.backend import run_side_by_side
from numformer.finite import predicted_classes, quiet, result_not_finite


def mean_loss(model, batches, should_stop=lambda: False):
    r"""Mean loss of a model over batches, weighted by their targets.

    .. math:: \frac{\sum_k n_k L_k}{\sum_k n_k}

    Where a model has ``evaluation_loss(batch)``, it replaces ``loss``: the cross-entropy alone,
    without the terms that are for training.

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
        If there are no batches.
    """
    if not batches:
        raise ValueError("mean_loss: there are no batches; give a text that holds a block.")

    return mean_of(totals_of(model, batches, should_stop), model, batches)


def totals_of(model, batches, should_stop=lambda: False):
    """The sum of the losses of each batch's targets; None for one that `should_stop` left out."""
    loss_of = getattr(model, "evaluation_loss", lambda batch: model.loss(batch)[0])

    def total(batch):
        with quiet():                                                 # found by `mean_of`
            return None if should_stop() else float(loss_of(batch)) * batch.n_targets

    return run_side_by_side(total, batches)


def mean_of(totals, model, batches):
    """The mean over all targets, from the sums of each batch in any order; else as `mean_loss`."""
    if None in totals:
        return None
    loss = math.fsum(totals) / sum(batch.n_targets for batch in batches)
    if not math.isfinite(loss):
        raise result_not_finite(f"the validation loss is {loss}", model)
    return loss


def accuracy(model, batches):
    """The fraction of labels that a classifier predicts: the largest logit is the label's.

    Parameters
    ----------
    model : Layer
        Inputs (B, ...) to logits (B, classes).
    batches : list of Batch
        With inputs and labels.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If there are no batches.
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

    return sum(run_side_by_side(n_correct, batches)) / sum(map(len, batches))
