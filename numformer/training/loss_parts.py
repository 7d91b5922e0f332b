"""The loss of a model on a batch as means over something: one mean, or several parts."""


def loss_counts(model, batch):
    """What each part of the loss is a mean over: `LossOfParts.loss_counts`, or the targets alone.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.data import Batch
    >>> loss_counts(None, Batch(inputs=np.zeros((2, 3)), labels=np.array([1, 0])))
    (2,)
    """
    counts = getattr(model, "loss_counts", None)
    return (batch.n_targets,) if counts is None else tuple(counts(batch))


def add_gradient(model, batch, rng, totals):
    r"""Add the gradient of a shard's part of a loss; return that part.

    .. math:: \sum_p \frac{n_p}{N_p} L_p

    Parameters
    ----------
    model : Layer
    batch : Batch
        The shard, whose counts are n.
    rng : numpy.random.Generator
    totals : tuple
        N: the `loss_counts` of all shards together.

    Returns
    -------
    float
    """
    counts = loss_counts(model, batch)
    if not any(counts):
        return 0.0
    weights = [n / total if n else 0.0 for n, total in zip(counts, totals)]
    if hasattr(model, "loss_parts"):
        losses, saved = model.loss_parts(batch, rng)
        model.loss_backward(saved, weights)
        return sum(float(loss) * weight for loss, weight in zip(losses, weights))
    loss, saved = model.loss(batch, rng)
    model.loss_backward(saved, *weights)
    return float(loss) * weights[0]
