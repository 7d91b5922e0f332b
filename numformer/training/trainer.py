"""The trainer: shards of a batch on replicas side by side, one optimizer, and the state that makes a run repeatable.

Of the model it knows `loss`, `loss_backward` and `replica`; of the data, batches with `tokens` and `split`.
"""

import math
import time
from functools import partial

import numpy as np

from numformer.backend import run_by_shares, run_side_by_side, sum_of_squares
from numformer.training.optimizers import clip_factor
from numformer.training.schedules import learning_rate
from numformer.training.training_config import OPTIMIZERS


class NotFinite(ArithmeticError):
    """Training met a NaN or an infinity; the message names the first tensor that holds one."""


class Trainer:
    r"""Train a model, step by step.

    .. math:: g = \sum_k \frac{n_k}{n}\, g_k

    is the gradient of the mean over all n tokens of a step, from the gradients of the means over the n_k tokens of every
    shard: it does not depend on how tokens are spread over shards, but for rounding. Shards are added in their order, so
    the sum is the same to the bit for any number of threads.

    Parameters
    ----------
    model : Layer
        With ``loss(batch, rng) -> (loss, saved)`` and ``loss_backward(saved, dloss)``.
    stream : object
        With ``batch(step)``: the batch of a step, as large as `batch_size` times `accumulation`.
    validation : list of Batch
        May be empty: then nothing is validated.
    config : TrainingConfig

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> from numformer.training import BlockStream, TrainingConfig
    >>> model = Decoder(DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=8), np.random.default_rng(0))
    >>> stream = BlockStream(np.arange(1000) % 5, context_length=8, batch_size=12, seed=0)
    >>> trainer = Trainer(model, stream, [], TrainingConfig(steps=60, learning_rate=0.03, warmup_steps=0))
    >>> losses = [trainer.train_step()["loss"] for _ in range(60)]
    >>> losses[0] > 1.5 and losses[-1] < 0.1                          # from guessing among five to counting
    True
    """

    def __init__(self, model, stream, validation, config):
        self.model, self.stream, self.validation, self.config = model, stream, validation, config
        self.optimizer = OPTIMIZERS[config.optimizer](model, config)
        self.replicas = [model, *(model.replica() for _ in range(config.shards - 1))]        # the total begins as the first shard's
        self.gradients = list(zip(*(replica.parameters() for replica in self.replicas)))     # of each parameter: the total, of the others
        self.step = 0                                                 # steps taken so far,
        self.tokens = 0                                               # and the targets in them that counted
        self.val_loss = None                                          # of the last validation,
        self.evaluated_at = None                                      # which was at this step
        self.best_loss, self.best_step, self.worse = None, None, 0    # worse: validations since the best
        self.seconds = 0.0                                            # spent in train_step, in this process

    def train_step(self):
        """Take one step.

        Returns
        -------
        dict
            ``step`` (counted from 1), ``loss`` (nats a token, before the step), ``learning_rate``, ``gradient_norm``
            (before clipping).

        Raises
        ------
        NotFinite
            If the loss or the gradient is not finite. The parameters are as they were before the step.
        """
        started, c = time.perf_counter(), self.config
        batch = self.stream.batch(self.step)
        if not batch.tokens:
            raise ValueError(f"Trainer: the batch of step {self.step + 1} holds no target that counts; "
                             "leave such batches out of the stream.")
        loss, shard = 0.0, 0
        self.model.zero_grad()
        for part in batch.split(c.accumulation):
            pieces = [(k, piece, piece.tokens / batch.tokens, shard + k)
                      for k, piece in enumerate(part.split(c.shards)) if piece.tokens]
            losses = run_side_by_side(self._gradient, pieces)
            loss, shard = loss + sum(losses), shard + c.shards
            squares = run_by_shares(partial(_add_up, [k for k, *_ in pieces if k > 0]), self.gradients)
        with np.errstate(over="ignore", invalid="ignore"):            # what is not finite is caught here, or in the next step
            norm = math.sqrt(sum(squares))
            if not (math.isfinite(loss) and math.isfinite(norm)):
                self.check_finite()
                raise NotFinite(f"step {self.step + 1}: the loss is {loss}, the gradient's length {norm}; lower the learning rate.")
            rate = learning_rate(c.schedule, self.step, c.steps, c.learning_rate, c.min_learning_rate, c.warmup_steps)
            self.optimizer.step(rate, clip_factor(norm, c.clip_norm))
        self.step += 1
        self.tokens += batch.tokens
        self.seconds += time.perf_counter() - started
        return {"step": self.step, "loss": loss, "learning_rate": rate, "gradient_norm": norm}

    def _gradient(self, piece):
        """Run one shard forward and backward on its replica; return its share of the loss."""
        k, batch, share, shard = piece
        replica = self.replicas[k]
        rng = np.random.default_rng([self.config.seed, 2, self.step, shard])      # 2: dropout's branch of the seed
        if k > 0:
            replica.zero_grad()
        with np.errstate(over="ignore", invalid="ignore"):
            loss, saved = replica.loss(batch, rng)
            replica.loss_backward(saved, share)
        return float(loss) * share

    def check_finite(self):
        """Raise `NotFinite` for the first parameter, or else the first gradient, that holds NaN or Inf."""
        where = f"step {self.step + 1}: "
        check_finite(where + "parameter", ((name, parameter.data) for name, parameter in self.model.named_parameters()))
        check_finite(where + "gradient of", ((name, parameter.grad) for name, parameter in self.model.named_parameters()))

    def evaluate(self, should_stop=lambda: False):
        """Mean loss over the validation batches, in nats a token; remembers the best.

        Parameters
        ----------
        should_stop : callable
            Asked before every batch; when it says True the validation is given up.

        Returns
        -------
        float or None
            None where it was given up: nothing is remembered then.

        Raises
        ------
        NotFinite
            If the loss is not finite.
        ValueError
            If there is nothing to validate on.
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
        """Whether the loss has not improved for as many validations as the config allows."""
        return 0 < self.config.patience <= self.worse

    def state_dict(self):
        """(arrays, numbers): all that a run needs to go on as if it had never stopped, beside its config."""
        arrays = {f"model.{name}": array for name, array in self.model.state_dict().items()}
        arrays.update((f"optimizer.{name}", array) for name, array in self.optimizer.state_dict().items())
        numbers = {name: getattr(self, name) for name in _PROGRESS}
        return arrays, numbers

    def load_state_dict(self, arrays, numbers):
        """Go on from a `state_dict`.

        Raises
        ------
        ValueError, TypeError
            If it is of another model or optimizer.
        """
        if numbers.keys() != set(_PROGRESS):
            raise ValueError(f"Trainer: the progress must hold {', '.join(_PROGRESS)}, but holds {', '.join(numbers) or 'nothing'}.")
        self.model.load_state_dict(part_of(arrays, "model."))
        self.optimizer.load_state_dict(part_of(arrays, "optimizer."), numbers["step"])
        for name in _PROGRESS:
            setattr(self, name, numbers[name])


def _add_up(shards, gradients):
    """Add the gradients that some shards have for a parameter to its total; return the sum of its squares."""
    total = gradients[0]
    for k in shards:
        total.grad += gradients[k].grad
    return sum_of_squares(total.grad)


# The step is also the data stream's cursor and, with the seed, the whole random state: see BlockStream and Trainer._gradient.
_PROGRESS = ("step", "tokens", "val_loss", "evaluated_at", "best_loss", "best_step", "worse")


def mean_loss(model, batches, should_stop=lambda: False):
    """Mean loss of a model over batches, weighted by their tokens.

    Where a model has ``evaluation_loss(batch)``, that is it: the cross-entropy alone, without what training adds to it.

    Parameters
    ----------
    model : Layer
    batches : list of Batch
    should_stop : callable
        Asked before every batch; when it says True, the answer is None.

    Returns
    -------
    float or None
        In nats a token.

    Raises
    ------
    NotFinite
        If the loss is not finite; a parameter that holds NaN or Inf is named.
    ValueError
        If there are no batches.
    """
    if not batches:
        raise ValueError("mean_loss: there are no batches; give a text that holds a block.")

    measured = getattr(model, "evaluation_loss", lambda batch: model.loss(batch)[0])

    def total(batch):
        with np.errstate(over="ignore", invalid="ignore"):            # what is not finite is caught below and named
            return None if should_stop() else float(measured(batch)) * batch.tokens

    totals = run_side_by_side(total, batches)
    if None in totals:
        return None
    loss = math.fsum(totals) / sum(batch.tokens for batch in batches)
    if not math.isfinite(loss):
        check_finite("parameter", ((name, parameter.data) for name, parameter in model.named_parameters()))
        raise NotFinite(f"the validation loss is {loss}, although all parameters are finite; they are too large.")
    return loss


def check_finite(kind, named_arrays):
    """Raise `NotFinite` for the first array that holds NaN or Inf, with its name and the place."""
    for name, array in named_arrays:
        bad = ~np.isfinite(array)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise NotFinite(f"{kind} {name} holds {array[index]} at {index}; begin anew with a lower learning rate.")


def part_of(arrays, prefix):
    """The arrays whose names begin with a prefix, without it.

    Examples
    --------
    >>> part_of({"model.a": 1, "optimizer.b": 2}, "model.")
    {'a': 1}
    """
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
