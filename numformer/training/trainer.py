"""The trainer: data parallelism over the shards of a batch, one optimizer, and a resumable state.

Of a model it knows `loss`, `loss_backward` and `replica`; of a batch, `n_targets` and `split`.
"""

import math
import time
from functools import partial

import numpy as np

from numformer.backend import run_by_shares, run_side_by_side, sum_of_squares
from numformer.flat_parameters import chunks
from numformer.training.load_checkpoint import part_of
from numformer.training.clipping import clip_factor
from numformer.training.evaluation import NotFinite, check_finite, mean_loss
from numformer.training.schedules import learning_rate
from numformer.training.training_config import OPTIMIZERS


class Trainer:
    r"""Train a model, step by step.

    .. math:: g = \sum_k \frac{n_k}{n}\, g_k

    is the gradient of the mean loss over all n targets of a step, where g_k is that of shard k's
    mean over its n_k targets. But for rounding it does not depend on how targets are distributed
    over shards. Shards are added in their order, so the sum is bit-identical for any
    number of threads.

    Parameters
    ----------
    model : Layer
        With ``loss(batch, rng) -> (loss, saved)`` and ``loss_backward(saved, dloss)``.
    stream : object
        With ``batch(step)``: the `Batch` of a step, `batch_size` times `accumulation` examples.
    validation : list of Batch
        May be empty: then there is no validation.
    config : TrainingConfig

    Examples
    --------
    >>> from numformer.data import BlockStream
    >>> from numformer.models import Decoder, DecoderConfig
    >>> from numformer.training import TrainingConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=8)
    >>> stream = BlockStream(np.arange(1000) % 5, context_length=8, batch_size=12, seed=0)
    >>> settings = TrainingConfig(steps=60, learning_rate=0.03, warmup_steps=0)
    >>> trainer = Trainer(Decoder(config, np.random.default_rng(0)), stream, [], settings)
    >>> losses = [trainer.train_step()["loss"] for _ in range(60)]
    >>> losses[0] > 1.5 and losses[-1] < 0.1                          # it has learned to count
    True
    """

    def __init__(self, model, stream, validation, config):
        self.model, self.stream, self.validation, self.config = model, stream, validation, config
        self.optimizer = OPTIMIZERS[config.optimizer](model, config)
        # Shard 0 runs on the model itself; its gradient becomes the sum over all shards.
        self.replicas = [model, *(model.replica() for _ in range(config.shards - 1))]
        flat = self.optimizer.flat
        self.gradients = [[part.grad for part in flat]]               # of each replica
        for replica in self.replicas[1:]:
            named = dict(replica.named_parameters())
            self.gradients.append([part.new_gradient(named) for part in flat])
        self.chunks = [chunk for vectors in zip(*self.gradients) for chunk in chunks(*vectors)]
        self.step = 0                                                 # steps taken so far
        self.n_targets = 0                                            # targets in them
        self.val_loss = None                                          # of the last validation
        self.evaluated_at = None                                      # the step of that validation
        self.best_loss, self.best_step = None, None
        self.worse = 0                                                # validations since the best
        self.seconds = 0.0                                            # in train_step, this process

    def train_step(self):
        """Take one step.

        Returns
        -------
        dict
            ``step`` (counted from 1), ``loss`` (nats per target, before the step),
            ``learning_rate``, ``gradient_norm`` (before clipping).

        Raises
        ------
        NotFinite
            If the loss or the gradient is not finite. The parameters are as before the step.
        """
        started, c = time.perf_counter(), self.config
        batch = self.stream.batch(self.step)
        if not batch.n_targets:
            raise ValueError(f"Trainer: the batch of step {self.step + 1} holds no target that "
                             "counts; leave such batches out of the stream.")
        loss, first_shard = 0.0, 0
        for flat in self.optimizer.flat:
            flat.adopt()
            flat.grad.fill(0)
        for part in batch.split(c.accumulation):
            # (replica, its batch, n_k / n, index of the shard in the step)
            shards = [(k, shard, shard.n_targets / batch.n_targets, first_shard + k)
                      for k, shard in enumerate(part.split(c.shards)) if shard.n_targets]
            losses = run_side_by_side(self._run_shard, shards)
            loss, first_shard = loss + sum(losses), first_shard + c.shards
            others = [k for k, *_ in shards if k > 0]
            squares = run_by_shares(partial(_add_gradients, others), self.chunks)
        with np.errstate(over="ignore", invalid="ignore"):            # non-finite values: see below
            norm = math.sqrt(sum(squares))
            if not (math.isfinite(loss) and math.isfinite(norm)):
                self.check_finite()
                raise NotFinite(f"step {self.step + 1}: the loss is {loss}, the gradient norm "
                                f"{norm}; lower the learning rate.")
            rate = learning_rate(c.schedule, self.step, c.steps, c.learning_rate,
                                 c.min_learning_rate, c.warmup_steps)
            self.optimizer.step(rate, clip_factor(norm, c.clip_norm))
        self.step += 1
        self.n_targets += batch.n_targets
        self.seconds += time.perf_counter() - started
        return {"step": self.step, "loss": loss, "learning_rate": rate, "gradient_norm": norm}

    def _run_shard(self, arguments):
        """Run one shard forward and backward on its replica; return its part of the loss."""
        k, shard, weight, index = arguments
        replica = self.replicas[k]
        rng = np.random.default_rng([self.config.seed, 2, self.step, index])  # 2: for dropout
        if k > 0:
            for gradient in self.gradients[k]:
                gradient.fill(0)
        with np.errstate(over="ignore", invalid="ignore"):
            loss, saved = replica.loss(shard, rng)
            replica.loss_backward(saved, weight)
        return float(loss) * weight

    def check_finite(self):
        """Raise `NotFinite` for the first parameter, or else gradient, with NaN or Inf."""
        where, named = f"step {self.step + 1}: ", list(self.model.named_parameters())
        check_finite(where + "parameter", ((name, p.data) for name, p in named))
        check_finite(where + "gradient of", ((name, p.grad) for name, p in named))

    def evaluate(self, should_stop=lambda: False):
        """Mean loss over the validation batches; keeps the best so far.

        Parameters
        ----------
        should_stop : callable
            Called before every batch; once it returns True, the validation is abandoned.

        Returns
        -------
        float or None
            In nats per target; None for an abandoned validation, which changes nothing.

        Raises
        ------
        NotFinite
            If the loss is not finite.
        ValueError
            If there are no validation batches.
        """
        loss = mean_loss(self.model, self.validation, should_stop)
        if loss is None:
            return None
        self.val_loss, self.evaluated_at = loss, self.step
        if self.best_loss is None or loss < self.best_loss:
            self.best_loss, self.best_step, self.worse = loss, self.step, 0
        else:
            self.worse += 1
        return loss

    @property
    def out_of_patience(self):
        """Whether the loss has not improved for `patience` validations; never with patience 0."""
        return 0 < self.config.patience <= self.worse

    def state_dict(self):
        """(arrays, numbers): with the config, all that a run needs to continue."""
        model, optimizer = self.model.state_dict(), self.optimizer.state_dict()
        arrays = {f"model.{name}": array for name, array in model.items()}
        arrays |= {f"optimizer.{name}": array for name, array in optimizer.items()}
        return arrays, {name: getattr(self, name) for name in _PROGRESS}

    def load_state_dict(self, arrays, numbers):
        """Continue from a `state_dict`.

        Raises
        ------
        ValueError, TypeError
            If it belongs to another model or optimizer.
        """
        if numbers.keys() != set(_PROGRESS):
            raise ValueError(f"Trainer: the progress must hold {', '.join(_PROGRESS)}, but holds "
                             f"{', '.join(numbers) or 'nothing'}.")
        self.model.load_state_dict(part_of(arrays, "model."))
        self.optimizer.load_state_dict(part_of(arrays, "optimizer."), numbers["step"])
        for name in _PROGRESS:
            setattr(self, name, numbers[name])


def _add_gradients(others, chunk):
    """Add the gradients of other shards to that of shard 0; return the sum of its squares."""
    total = chunk[0]
    for k in others:
        total += chunk[k]
    return sum_of_squares(total)


# With the seed, the step is also the position of the data stream and the whole random state: see
# `numformer.data.Epochs` and `Trainer._run_shard`.
_PROGRESS = ("step", "n_targets", "val_loss", "evaluated_at", "best_loss", "best_step", "worse")
