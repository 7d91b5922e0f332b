"""The training loop: steps, validations and checkpoints in turn."""

import math
import sys

import numpy as np

from numformer.finite import not_finite, quiet
from numformer.training.clipping import norm_of

LARGEST_LOSS = math.log(sys.float_info.max)                           # 709.8: of a finite e^loss


def train(trainer, folder, facts, on_step=lambda metrics: None, on_evaluation=lambda: None,
          should_stop=lambda: False, snapshots=(), in_nats=True):
    """Train until all steps are taken, patience has run out, or `should_stop` returns True.

    Checkpoints are written as often as the config says, and at the end.

    Parameters
    ----------
    trainer : Trainer
    folder : RunFolder
        Opened at the trainer's state.
    facts : dict
        For the checkpoint.
    on_step : callable
        Called with the metrics of every step.
    on_evaluation : callable
        Called after every validation.
    should_stop : callable
        Called before every step, and before every batch of a validation.
    snapshots : iterable of int
        Steps whose weights are kept, in addition to those of the end: `runs.snapshot_steps`.
    in_nats : bool
        Whether the loss is a mean cross-entropy: then one of more than 709 nats, whose perplexity
        is not finite, has diverged. Losses of boxes and distances may be of any size.

    Returns
    -------
    "finished", "out of patience" or "stopped"

    Raises
    ------
    NotFinite
        If the run diverges: a loss, gradient or parameter is not finite, or the perplexity of a
        loss.
    """
    c = trainer.config
    due = set(snapshots)
    while True:
        if is_due(trainer.step, c) and trainer.validation and trainer.evaluated_at != trainer.step:
            loss = trainer.evaluate(should_stop)
            if loss is not None:
                _check_loss(trainer.step, "validation loss", loss, in_nats, trainer.step)
                folder.append({"step": trainer.step, "val_loss": loss})
                if trainer.best_step == trainer.step:
                    folder.save(folder.best, trainer, facts)
                on_evaluation()

        ended = ("stopped" if trainer.agree(should_stop()) else
                 "finished" if trainer.step >= c.steps else
                 "out of patience" if trainer.out_of_patience else None)
        if trainer.step in due or due and ended in ("finished", "out of patience"):
            folder.snapshots.save(trainer.step, trainer.model)
        if ended:
            folder.save(folder.checkpoint, trainer, facts)
            return ended

        before = _matrices(trainer.model) if is_due(trainer.step + 1, c) else {}
        metrics = trainer.train_step()
        _check_loss(trainer.step, "loss", metrics["loss"], in_nats, trainer.step - 1)
        if before:
            metrics["update_ratio"] = _update_ratios(before, _matrices(trainer.model))
        folder.append(metrics)
        on_step(metrics)
        if c.save_every and trainer.step % c.save_every == 0:
            folder.save(folder.checkpoint, trainer, facts)


def _check_loss(step, name, loss, in_nats, taken):
    """A loss of hundreds of nats is finite, but its run has diverged like one with NaN.

    It is that of the parameters after `taken` steps.
    """
    if in_nats and loss > LARGEST_LOSS:
        raise not_finite(f"step {step}: the {name} is {loss:.4g}, so the perplexity, e to this "
                         "power, is not finite", taken)


def is_due(step, config):
    """Whether a validation comes after `step` steps."""
    every = config.eval_every
    return step == config.steps or bool(every and step and step % every == 0)


def _matrices(model):
    """Copies of all trained parameters but vectors (weights of norms, biases), by name."""
    return {name: p.data.copy() for name, p in model.named_parameters()
            if p.trained and p.data.ndim > 1}


def _update_ratios(before, after):
    """The norm of each matrix's change, divided by the norm of the matrix.

    One that is not finite is left out: in JSON there is no NaN, and the next step refuses it.
    """
    with quiet():
        ratios = {name: _norm(after[name] - before[name]) / (_norm(after[name]) or 1.0)
                  for name in after}
    return {name: ratio for name, ratio in ratios.items() if math.isfinite(ratio)}


def _norm(matrix):
    return norm_of([matrix.ravel()]) if np.isfinite(matrix).all() else math.nan
