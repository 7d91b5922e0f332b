"""A run's folder: the last and the best checkpoint, the config, and the metrics of every step."""

import json
from contextlib import suppress
from pathlib import Path

from numformer.files import flush_to_disk, remove_unfinished, write_atomically
from numformer.runs.checkpoint import save_checkpoint
from numformer.runs.folder_lock import FolderLock
from numformer.runs.metrics import read_metrics
from numformer.runs.snapshots import Snapshots

# What config.json holds
DESCRIBED = ("preset", "task", "data", "model", "recipe", "training", "from", "teacher", "blas")
_FILES = (r"(checkpoint|best)\.safetensors|(config|reproduced)\.json|metrics\.jsonl|"
          r"\w+\.png")


class RunFolder:
    """The files of a run.

    Parameters
    ----------
    path : path
        Made, with its parents, if it does not exist.

    Notes
    -----
    One writer at a time: `lock`, `open` and `save` take the folder's lock, `close` gives it back.
    Reading needs no lock: every file but the metrics is replaced in one step.

    - ``checkpoint.safetensors``: the last state.
    - ``best.safetensors``: the state of the lowest validation loss.
    - ``config.json``: the settings, for people to read.
    - ``metrics.jsonl``: one JSON object a line, for each step (``step loss learning_rate
      gradient_norm``; ``facts``, numbers by name, where its batch has some; before a validation
      also ``update_ratio``, the norm of each matrix's change divided by the norm of the matrix)
      and for each validation (``step val_loss``). Nothing in it differs from run to run, such as
      times.
    - ``snapshots/``: the weights at chosen steps, if the run was begun with them: `Snapshots`.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.checkpoint = self.path / "checkpoint.safetensors"
        self.best = self.path / "best.safetensors"
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.jsonl"
        self.snapshots = Snapshots(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._file = None
        self._lock = FolderLock(self.path)

    def lock(self):
        """Become the only writer, until `close`.

        Raises
        ------
        FolderInUse
            If there is another, in this process or in another one.
        """
        self._lock.acquire()

    def open(self, step=0, evaluated_at=None):
        """Prepare to continue from a state.

        Drops the metrics and snapshots that came after it, and temporary files of a run that was
        killed.
        """
        self.lock()
        last_evaluation = -1 if evaluated_at is None else evaluated_at
        kept = [line for line in read_metrics(self.metrics, until=step)
                if line["step"] <= (step if "loss" in line else last_evaluation)]
        write_atomically(self.metrics, b"".join(_line(metrics) for metrics in kept))
        remove_unfinished(self.path, _FILES)
        self.snapshots.continue_from(step)
        if self._file is not None:
            self._file.close()
        self._file = open(self.metrics, "ab", buffering=0)

    def append(self, metrics):
        """Add a line of metrics; if it cannot be written, the file is as before."""
        size = self._file.tell()
        try:
            rest = _line(metrics)
            while rest:
                rest = rest[self._file.write(rest):]                  # a disk may take a part of it
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size)
            error.filename = str(self.metrics)
            raise

    def read_metrics(self):
        """All whole lines of metrics, as a list of dict."""
        return read_metrics(self.metrics)

    def describe(self, facts):
        """Write the facts of a run that people may want to read."""
        described = {name: facts[name] for name in DESCRIBED if name in facts}
        text = json.dumps(described, indent=2, sort_keys=True) + "\n"
        write_atomically(self.config, text.encode())

    def save(self, path, trainer, facts):
        """Write a checkpoint of the trainer with these facts (configs, tokenizer, data)."""
        self.lock()
        trainer.check_finite()                                        # keep the last good one
        if self._file is not None:
            flush_to_disk(self._file.fileno(), self.metrics)          # metrics reach it first
        arrays, progress = trainer.state_dict()
        frozen = [name for name, part in trainer.model.named_parameters() if not part.trained]
        facts = {**facts, "frozen": frozen} if frozen else facts
        save_checkpoint(path, arrays, {**facts, "progress": progress})

    def close(self):
        """Close the metrics, and let others write."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.release()


def _line(metrics):
    return json.dumps(metrics).encode() + b"\n"
