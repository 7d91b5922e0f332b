"""A loss with several parts, each a mean over something else."""

import numpy as np

from numformer.functional import IGNORE_INDEX
from numformer.parameter import Layer


class LossOfParts(Layer):
    r"""A model whose loss is a sum of means over different things.

    .. math:: L = \sum_p L_p, \qquad L_p = \frac{1}{n_p} \sum_{i=1}^{n_p} \ell_{pi}

    For example, BERT's loss is a mean over masked tokens plus a mean over pairs of passages. Where
    a batch is divided into K shards, shard k has its own means :math:`L_{pk}` over its own
    :math:`n_{pk}`. The loss and the gradient of the whole batch are

    .. math:: L = \sum_k \sum_p \frac{n_{pk}}{n_p} L_{pk}, \qquad
              \frac{\partial L}{\partial \theta}
              = \sum_k \sum_p \frac{n_{pk}}{n_p} \frac{\partial L_{pk}}{\partial \theta}

    So a trainer needs the numbers :math:`n_{pk}`, and gives every part a weight of its own. A model
    defines three methods; they may have any number of parts, and always the same for one batch:

    =============================  ===============================================================
    ``loss_counts(batch)``         the numbers n, a tuple
    ``loss_parts(batch, rng)``     the means, and ``saved``; a part with n = 0 is 0
    ``loss_backward(saved, d)``    adds to the gradients; d is a number, or one for each part
    =============================  ===============================================================

    The last `auxiliary_parts` of them need no target, such as a penalty on the logits of a router,
    which has one for every token. A shard has them even where none of its targets counts; a batch
    with nothing else is refused.

    A model with one part needs none of this: `loss` is the mean over the batch's `n_targets`.
    """

    auxiliary_parts = 0

    def loss(self, batch, rng=None):
        """(loss, saved) of a batch: the sum of all parts; ``rng`` is for dropout.

        Raises
        ------
        ValueError
            If no part has anything to be a mean over.
        """
        losses, saved = self.loss_parts(batch, rng)
        if not has_targets(self, batch):
            raise ValueError(f"{type(self).__name__}: every target is ignore_index="
                             f"{IGNORE_INDEX}; leave such a batch out.")
        return sum(losses), saved


def loss_counts(model, batch):
    """What each part of the loss of any model is a mean over: with one part, the targets.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> loss_counts("a model with one loss", SimpleNamespace(n_targets=3))
    (3,)
    """
    counts = getattr(model, "loss_counts", None)
    return (batch.n_targets,) if counts is None else tuple(counts(batch))


def has_targets(model, batch):
    """Whether anything counts in a batch but the auxiliary parts of the loss.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> has_targets("a model with one loss", SimpleNamespace(n_targets=0))
    False
    """
    counts = loss_counts(model, batch)
    return any(counts[:len(counts) - getattr(model, "auxiliary_parts", 0)])


def n_counted(targets):
    """How many of the targets count: those that are not `IGNORE_INDEX`."""
    return int((np.asarray(targets) != IGNORE_INDEX).sum())


def counts_with_experts(config, targets):
    """The number of targets; and with experts that of rows, the weight of their auxiliary loss.

    All rows have the same number of tokens, padding included.
    """
    return n_counted(targets), len(targets) if config.n_experts > 1 else 0


def for_each_part(dloss, n):
    """The gradients with respect to n parts: `dloss` itself, or its number for all of them.

    Examples
    --------
    >>> for_each_part(2.0, 3), for_each_part((0.5, 0.25), 2)
    ([2.0, 2.0, 2.0], [0.5, 0.25])
    """
    parts = list(dloss) if isinstance(dloss, (tuple, list)) else [dloss] * n
    if len(parts) != n:
        raise ValueError(f"loss_backward: dloss has {len(parts)} numbers, but the loss has {n} "
                         "parts; give one number, or one for each part.")
    return parts
