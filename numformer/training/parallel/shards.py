"""The shards of a batch, each on a replica of the model in its own thread, and their sum."""

from functools import cached_property

import numpy as np

from numformer.backend import run_by_shares, run_side_by_side
from numformer.finite import quiet
from numformer.models.transformer import loss_counts
from numformer.seeds import DROPOUT, branch
from numformer.training.clipping import squared_norms, total_norm
from numformer.training.evaluation import mean_loss
from numformer.training.parallel.tree import fold


def dropout_rng(seed, step, shard=0):
    """The generator of a shard's dropout masks, of all numbered through in their step."""
    return branch(seed, DROPOUT, step, shard)


class Shards:
    r"""Run the shards of a batch forward and backward, and add their gradients.

    .. math:: g = \sum_k \sum_p \frac{n_{pk}}{n_p}\, g_{pk}

    is the gradient of a loss of parts p, each a mean over :math:`n_p` things of the whole step,
    such as targets, where :math:`g_{pk}` is that of the mean over the :math:`n_{pk}` things of
    shard k: see `LossOfParts`. But for rounding it does not depend on how they are distributed over
    shards. Shards are added by a fixed tree, so the sum is bit-identical for any number of threads;
    and, in `numformer.training.parallel.ranks`, of processes.

    What compares the examples of a batch with each other is computed in each shard by itself, and
    so does depend on the number of shards: the statistics of `BatchNorm`, the balance of experts
    and what they may take (`MixtureOfExperts`), in-batch negatives (`CLIP`, and `SentenceBert` with
    ``objective="in_batch"``); as do dropout's masks. The z-loss of a router compares nothing, and
    so does not depend on it.

    A batch has `accumulation` parts, which run in turn; a part has `shards`, which run at once.

    Parameters
    ----------
    model : Layer
    optimizer : Optimizer
        Of its parameters.
    config : TrainingConfig
    own : range, optional
        The shards of this process; all by default.
    """

    def __init__(self, model, optimizer, config, own=None):
        self.model, self.optimizer, self.config = model, optimizer, config
        self.own = range(config.shards) if own is None else own
        self.is_one = config.shards == config.accumulation == 1       # and the trainer's step does

    # Both are made when they are first used: an object that is replaced needs no memory for them.

    @cached_property
    def replicas(self):
        """A model for each shard; the first runs on the model itself."""
        return [self.model, *(self.model.replica() for _ in self.own[1:])]

    @cached_property
    def gradients(self):
        """The vectors of gradients of each replica."""
        found = [[flat.grad for flat in self.optimizer.flat]]
        for replica in self.replicas[1:]:
            named = dict(replica.named_parameters())
            found.append([flat.new_gradient(named) for flat in self.optimizer.flat])
        return found

    def gradient(self, batch, step):
        """Leave the gradient of a batch in the optimizer's vectors.

        Returns
        -------
        loss : float
            Of the whole batch; with one part, in nats per target.
        norm : float
            Of the gradient.
        """
        for flat in self.optimizer.flat:
            flat.adopt()
        totals, losses = loss_counts(self.model, batch), []           # losses[part][shard]
        for number, part in enumerate(batch.split(self.config.accumulation)):
            shards = part.split(self.config.shards)
            losses.append(run_side_by_side(self._run_shard, [
                (k, self.gradients[k], shards[own] if own < len(shards) else None,
                 totals, number, step) for k, own in enumerate(self.own)]))
        losses, squares = self._sum(losses)
        with np.errstate(over="ignore"):                              # not finite: see the trainer
            return sum(map(sum, losses)), total_norm(squares)

    def _run_shard(self, arguments):
        """Run one shard forward and backward on its replica; return its part of the loss."""
        k, gradients, shard, totals, number, step = arguments
        if number == 0:
            for gradient in gradients:
                gradient.fill(0)
        if shard is None:
            return 0.0
        index = number * self.config.shards + self.own[k]             # of the shard in the step
        with quiet():
            return self._forward_backward(k, shard, dropout_rng(self.config.seed, step, index),
                                          totals, number)

    def _forward_backward(self, k, shard, rng, totals, number):
        model, counts = self.replicas[k], loss_counts(self.model, shard)
        if not any(counts):
            return 0.0
        weights = [n / total if n else 0.0 for n, total in zip(counts, totals)]
        if hasattr(model, "loss_parts"):
            losses, saved = model.loss_parts(shard, rng)
            model.loss_backward(saved, weights)
        else:
            loss, saved = model.loss(shard, rng)
            model.loss_backward(saved, *weights)
            losses = [loss]
        return sum(float(loss) * weight for loss, weight in zip(losses, weights))

    def _sum(self, losses):
        """All losses, [part][shard]; and the squared norms by chunk, of the added gradients."""
        return losses, run_by_shares(self._add, self.optimizer.chunks)

    def _add(self, chunk):
        arrays = {(k, k + 1): chunk.of(gradient[chunk.vector])
                  for k, gradient in enumerate(self.gradients)}
        with quiet():
            return squared_norms([fold(arrays, 0, len(arrays))])[0]

    # What follows concerns several processes: here there is one.

    def whole_gradient(self):
        """Complete the optimizer's gradients, where each process has a part of the sum."""

    def share(self):
        """Give all processes the parameters that each of them has moved."""

    def agree(self, stop):
        """Whether any process wants to stop."""
        return stop

    def mean_loss(self, batches, should_stop):
        """`numformer.training.mean_loss` of the model, which processes share out."""
        return mean_loss(self.model, batches, should_stop)

    def optimizer_state(self):
        """The state of the optimizer, whole."""
        return self.optimizer.state_dict()
