"""The trainer: gradients to zero, loss, backward, clip, step; and a state that can be resumed.

Read `minimal.train` first: the same step, but gradients are not clipped and not checked for NaN,
and there are neither validations nor checkpoints.

`Trainer.update` is the step; the loop over steps, validations and checkpoints is
`numformer.training.loop`. Where a batch is divided, among threads, machines or in time,
`numformer.training.parallel` computes the same gradient from the parts.
"""

import math
import time

from numformer.backend import one_blas_thread
from numformer.finite import NotFinite, check_finite, check_parameters, not_finite, quiet
from numformer.models.transformer import has_targets
from numformer.parameter import part_of
from numformer.training.clipping import clip_factor
from numformer.training.parallel.shards import Shards, dropout_rng
from numformer.training.schedules import learning_rate
from numformer.training.training_config import OPTIMIZERS
from numformer.underflow import underflow_is_zero

# The numbers that a run needs to continue, as they begin. Batches and dropout of a step are drawn
# from the seed and the number of the step, so no other random state is kept.
PROGRESS = {
    "step": 0,                                                        # steps taken so far
    "n_targets": 0,                                                   # targets in them
    "val_loss": None,                                                 # of the last validation
    "evaluated_at": None,                                             # the step of that validation
    "best_loss": None, "best_step": None,
    "worse": 0,                                                       # validations since the best
}


class Trainer:
    """Train a model, step by step.

    Parameters
    ----------
    model : Layer
        With ``loss(batch, rng) -> (loss, saved)`` and ``loss_backward(saved, dloss=1.0)``.
    stream : object
        With ``batch(step)``: the `Batch` of a step, `batch_size` times `accumulation` examples.
    validation : list of Batch
        May be empty: then there is no validation.
    config : TrainingConfig

    Examples
    --------
    >>> import numpy as np
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
        self.parallel = Shards(model, self.optimizer, config)
        vars(self).update(PROGRESS)                                   # self.step = 0, and so on
        self.seconds = 0.0                                            # in train_step, this process

    def update(self, batch, rate):
        r"""Gradients to zero, loss, backward, clip, step.

        The backward adds to each parameter's ``grad``, so these begin at zero. Clipping bounds the
        step that a rare steep gradient would take.

        .. math:: g = \nabla_\theta L, \qquad
                  \theta \leftarrow \mathrm{optimizer}\left(
                  \theta, \; g \cdot \min(1, \mathrm{clip\_norm} / \lVert g \rVert) \right)

        Parameters
        ----------
        batch : Batch
        rate : float
            The learning rate.

        Returns
        -------
        loss, norm : float
            Both before the step, the norm of the gradient before clipping.
        """
        c = self.config
        if self.parallel.is_one:
            self.optimizer.zero_grad()
            loss, saved = self.model.loss(batch, dropout_rng(c.seed, self.step))
            self.model.loss_backward(saved)
            norm = self.optimizer.gradient_norm()
        else:                                         # the same, from the parts of a divided batch
            loss, norm = self.parallel.gradient(batch, self.step)
        self._check(loss, norm)                       # NaN or Inf: nothing has changed yet
        self.optimizer.step(rate, clip_factor(norm, c.clip_norm))
        return loss, norm

    @underflow_is_zero
    def train_step(self):
        """The next step: its batch, its learning rate, the `update`, and the counts.

        Returns
        -------
        dict
            ``step`` (counted from 1), ``loss`` (nats per target, before the step),
            ``learning_rate``, ``gradient_norm`` (before clipping); and ``facts``, numbers by name,
            if the batch has some.

        Raises
        ------
        NotFinite
            If the loss or the gradient is not finite. The parameters are as before the step.
        """
        started, c = time.perf_counter(), self.config
        batch = self.stream.batch(self.step)
        if not has_targets(self.model, batch):
            raise ValueError(f"Trainer: the batch of step {self.step + 1} holds no target that "
                             "counts; leave such batches out of the stream.")
        rate = learning_rate(c.schedule, self.step, c.steps, c.learning_rate, c.min_learning_rate,
                             c.warmup_steps)
        with quiet(), one_blas_thread():              # no warnings: `update` finds NaN and Inf
            loss, norm = self.update(batch, rate)
        self.parallel.share()                         # each machine has moved some parameters
        self.model.after_step()                       # as a rule nothing; of CLIP, a bound
        self.step += 1
        self.n_targets += batch.n_targets
        self.seconds += time.perf_counter() - started
        metrics = {"step": self.step, "loss": float(loss), "learning_rate": rate,
                   "gradient_norm": norm}
        facts = self.facts(batch)
        return {**metrics, "facts": facts} if facts else metrics

    def facts(self, batch):
        """What else is known of a step, numbers by name: the facts of its batch."""
        return getattr(batch, "facts", {})

    def _check(self, loss, norm):
        """Raise `NotFinite` for what is not finite: before the parameters are changed by it."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self.parallel.whole_gradient()
            self.check_finite()
            raise not_finite(f"step {self.step + 1}: the loss is {loss}, the gradient norm {norm}",
                             self.step)

    def check_finite(self):
        """Raise `NotFinite` for the first parameter, or else gradient, with NaN or Inf."""
        where = f"step {self.step + 1}: "
        check_parameters(self.model, where, self.step)
        check_finite(where + "gradient of",
                     ((name, p.grad) for name, p in self.model.named_parameters()), self.step)

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
        try:
            loss = self.parallel.mean_loss(self.validation, should_stop)
        except NotFinite as error:
            raise NotFinite(f"step {self.step}: {error}") from None
        if loss is None:
            return None
        self.val_loss, self.evaluated_at = loss, self.step
        if self.best_loss is None or loss < self.best_loss:
            self.best_loss, self.best_step, self.worse = loss, self.step, 0
        else:
            self.worse += 1
        return loss

    def agree(self, stop):
        """Whether this process wants to stop, or another one that trains with it."""
        return self.parallel.agree(stop)

    @property
    def out_of_patience(self):
        """Whether the loss has not improved for `patience` validations; never with patience 0."""
        return 0 < self.config.patience <= self.worse

    def state_dict(self):
        """(arrays, numbers): with the config, all that a run needs to continue."""
        model, optimizer = self.model.state_dict(), self.parallel.optimizer_state()
        arrays = {f"model.{name}": array for name, array in model.items()}
        arrays |= {f"optimizer.{name}": array for name, array in optimizer.items()}
        return arrays, {name: getattr(self, name) for name in PROGRESS}

    def load_state_dict(self, arrays, numbers):
        """Continue from a `state_dict`.

        Raises
        ------
        ValueError, TypeError
            If it belongs to another model or optimizer.
        """
        if numbers.keys() != PROGRESS.keys():
            raise ValueError(f"Trainer: the progress must hold {', '.join(PROGRESS)}, but holds "
                             f"{', '.join(numbers) or 'nothing'}.")
        self.model.load_state_dict(part_of(arrays, "model."))
        self.optimizer.load_state_dict(part_of(arrays, "optimizer."), numbers["step"])
        for name in PROGRESS:
            setattr(self, name, numbers[name])
