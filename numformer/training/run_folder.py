"""A run's folder: the checkpoint, the best one, the config to read, and a line of metrics for every step."""

import json
import os
from pathlib import Path

import numpy as np

from numformer.training.checkpoint import save_checkpoint, write_atomically


class RunFolder:
    """Where a run lives.

    Parameters
    ----------
    path : path
        Made, with its parents, if it is not there.

    Notes
    -----
    ``checkpoint.safetensors`` is the last state and ``best.safetensors`` that of the lowest validation loss;
    ``config.json`` repeats the settings for people; ``metrics.jsonl`` holds one JSON object a line, for each step
    (``step loss learning_rate gradient_norm``; before a validation also ``update_ratio``, the size of the step's change of each
    matrix, of that of the matrix) and each validation (``step val_loss``), and nothing that differs from run to run, such as times.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.checkpoint = self.path / "checkpoint.safetensors"
        self.best = self.path / "best.safetensors"
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.jsonl"
        self.path.mkdir(parents=True, exist_ok=True)
        self._file = None

    def open(self, step=0, evaluated_at=None):
        """Make ready to train on from a state: drop the metrics that came after it, and what a killed run left behind."""
        kept = [line for line in self.read_metrics()
                if line["step"] <= (step if "loss" in line else evaluated_at if evaluated_at is not None else -1)]
        write_atomically(self.metrics, b"".join(_line(metrics) for metrics in kept))
        for file in (self.checkpoint, self.best, self.config, self.metrics):
            for leftover in self.path.glob(f".{file.name}.*.tmp"):
                leftover.unlink()
        self._file = open(self.metrics, "ab", buffering=0)

    def append(self, metrics):
        """Add a line of metrics."""
        try:
            self._file.write(_line(metrics))
        except OSError as error:
            error.filename = str(self.metrics)
            raise

    def read_metrics(self):
        """All whole lines of metrics, as a list of dict."""
        lines = []
        if self.metrics.exists():
            for line in self.metrics.read_bytes().split(b"\n")[:-1]:  # what follows the last line end was cut off
                try:
                    metrics = json.loads(line)
                except ValueError:
                    break
                if isinstance(metrics, dict) and isinstance(metrics.get("step"), int):
                    lines.append(metrics)
        return lines

    def save(self, path, trainer, facts):
        """Write a checkpoint of the trainer, with facts (configs, tokenizer, data) beside its own."""
        trainer.check_finite()                                        # never over a good checkpoint
        if self._file is not None:
            os.fsync(self._file.fileno())                             # metrics first: a checkpoint never knows more than they do
        arrays, progress = trainer.state_dict()
        save_checkpoint(path, arrays, {**facts, "progress": progress})

    def close(self):
        """Close the metrics."""
        if self._file is not None:
            self._file.close()
            self._file = None


def train(trainer, folder, facts, on_step=lambda metrics: None, on_evaluation=lambda: None, should_stop=lambda: False):
    """Train until the steps are done, patience has run out, or somebody wants to stop; save as the config says, and at the end.

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
        Asked before every step, and before every batch of a validation.

    Returns
    -------
    "finished", "out of patience" or "stopped"
    """
    c = trainer.config
    while True:
        if _due(trainer.step, c) and trainer.validation and trainer.evaluated_at != trainer.step:
            loss = trainer.evaluate(should_stop)
            if loss is not None:
                folder.append({"step": trainer.step, "val_loss": loss})
                if trainer.best_step == trainer.step:
                    folder.save(folder.best, trainer, facts)
                on_evaluation()
        ended = ("stopped" if should_stop() else "finished" if trainer.step >= c.steps
                 else "out of patience" if trainer.out_of_patience else None)
        if ended:
            folder.save(folder.checkpoint, trainer, facts)
            return ended
        before = _matrices(trainer.model) if _due(trainer.step + 1, c) else {}
        metrics = trainer.train_step()
        if before:
            metrics["update_ratio"] = {name: _size(after - before[name]) / (_size(after) or 1.0)
                                       for name, after in _matrices(trainer.model).items()}
        folder.append(metrics)
        on_step(metrics)
        if c.save_every and trainer.step % c.save_every == 0:
            folder.save(folder.checkpoint, trainer, facts)


def _due(step, config):
    """Whether a validation comes after so many steps."""
    return step == config.steps or bool(config.eval_every and step and step % config.eval_every == 0)


def _matrices(model):
    """Copies of all parameters but gains and biases, by name."""
    return {name: parameter.data.copy() for name, parameter in model.named_parameters() if parameter.data.ndim > 1}


def _size(matrix):
    return float(np.sqrt(np.square(matrix, dtype=np.float64).sum()))


def _line(metrics):
    return json.dumps(metrics).encode() + b"\n"
