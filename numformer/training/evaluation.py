"""Measures of a model over batches, and the error for numbers that are not finite."""

import math

import numpy as np

from numformer.backend import run_side_by_side


class NotFinite(ArithmeticError):
    """A NaN or an infinity came up; the message names the first tensor that holds one."""


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
        with np.errstate(over="ignore", invalid="ignore"):            # found by `mean_of`
            return None if should_stop() else float(loss_of(batch)) * batch.n_targets

    return run_side_by_side(total, batches)


def mean_of(totals, model, batches):
    """The mean over all targets, from the sums of each batch in any order; else as `mean_loss`."""
    if None in totals:
        return None
    loss = math.fsum(totals) / sum(batch.n_targets for batch in batches)
    if not math.isfinite(loss):
        check_finite("parameter", ((name, p.data) for name, p in model.named_parameters()))
        raise NotFinite(f"the validation loss is {loss}, although all parameters are finite; "
                        "they are too large.")
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

    Examples
    --------
    >>> from numformer.data import Batch
    >>> from numformer.layers import Identity
    >>> logits, labels = np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1])
    >>> accuracy(Identity(), [Batch(inputs=logits, labels=labels)])
    0.5
    """
    if not batches:
        raise ValueError("accuracy: there are no batches; give at least one example.")

    def n_correct(batch):
        return int((model(batch.inputs).argmax(axis=1) == batch.labels).sum())

    return sum(run_side_by_side(n_correct, batches)) / sum(map(len, batches))


def check_finite(kind, named_arrays):
    """Raise `NotFinite` for the first array that holds NaN or Inf, with its name and index."""
    for name, array in named_arrays:
        bad = ~np.isfinite(array)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise NotFinite(f"{kind} {name} holds {array[index]} at {index}; "
                            "begin anew with a lower learning rate.")
