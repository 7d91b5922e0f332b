"""numformer compare: runs of language models side by side."""

import math
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

from numformer import backend
from numformer.benchmarks.side_by_side import medians_in_turns
from numformer.checks import check_number
from numformer.commands import UsageError
from numformer.commands.audit import FORMATS
from numformer.commands.runs import load_run, run_material
from numformer.commands.show import print_json, save_picture
from numformer.commands.train import new_trainer
from numformer.models import count, gradient_by_distance
from numformer.training import RunFolder, TrainingConfig, mean_loss

DISTANCES = (1, 4, 16, 64)
BLOCKS = 8                                                            # of the validation, that gradients are taken on


def add_arguments(parser):
    parser.add_argument("runs", metavar="RUN", nargs="+", help="folders of runs that learned the same text")
    parser.add_argument("--out", metavar="PICTURE", default=None, help="also draw losses and gradients")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="about how long to time training (default: 20)")
    parser.add_argument("--threads", type=int, metavar="N", default=None, help="threads (default: as many as cores)")


def run(arguments):
    if arguments.out and Path(arguments.out).suffix.lower() not in FORMATS:
        raise UsageError(f"compare: --out {arguments.out} must end in {', '.join(FORMATS)}.")
    if arguments.threads is not None and arguments.threads < 1:
        raise UsageError(f"--threads {arguments.threads} must be 1 or more.")
    try:
        check_number("compare", "--seconds", arguments.seconds, least=0)
    except ValueError as error:
        raise UsageError(str(error)) from None
    with backend.threads(arguments.threads):
        compared = side_by_side(arguments.runs)
        rows = [one.measured() for one in compared]
        seconds = medians_in_turns({str(k): one.step_seconds for k, one in enumerate(compared)}, arguments.seconds)
    for k, row in enumerate(rows):
        row["seconds_per_million_tokens"] = 1e6 * seconds[str(k)]["token"]
        row["train_minutes"] = row["seconds_per_million_tokens"] * row["tokens"] / 6e7
    _print(rows)
    files = []
    if arguments.out:
        save_picture(drawn(rows), arguments.out)
        files.append(arguments.out)
        print(f"drawn: {arguments.out}")
    if arguments.json:
        print_json({"runs": rows, "files": files})
    return 0


def side_by_side(folders):
    """Runs that learned the same text, each as a `Compared`."""
    first, *others = compared = [Compared(folder) for folder in folders]
    for other in others:
        if other.facts["data"]["sha256"] != first.facts["data"]["sha256"]:
            raise UsageError(f"{other.folder} learned {other.facts['data']['name']}, but {first.folder} learned "
                             f"{first.facts['data']['name']}; runs of the same text alone can be compared.")
    return compared


class Compared:
    """One run, as it was last saved."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.model, self.tokenizer, self.facts, self.task = load_run(folder)
        if self.task.unit != "nats a character":
            raise UsageError(f"{folder} is no run of a language model of characters; it learned the task {self.task.name}.")
        self.material = run_material(self.task, self.facts)

    def measured(self):
        """A row of the table, without times."""
        batches = self.task.validation(self.material, self.tokenizer, self.model.config)
        loss, progress = mean_loss(self.model, batches), self.facts["progress"]
        costs = self.model.costs() if hasattr(self.model, "costs") else count(self.model.config)
        gradients = None
        if hasattr(self.model, "backward") and getattr(self.model, "ngrams", None) is None:
            with backend.one_blas_thread():
                gradients = gradient_by_distance(self.model, *(ids[:BLOCKS] for ids in batches[0])).tolist()
        return {
            "run": str(self.folder), "name": self.facts.get("preset", self.folder.name), "parameters": costs["parameters"],
            "active_parameters": costs["active_parameters"], "tokens": progress["tokens"], "val_loss": loss,
            "bits_per_character": loss / math.log(2), "memory_bytes": self._memory(), "gradient_by_distance": gradients,
            "losses": self._losses(),
        }

    def _losses(self):
        """(tokens, loss) of every validation; of a model that counts, the last alone."""
        lines = [line for line in RunFolder(self.folder).read_metrics() if "val_loss" in line]
        a_step = self.facts["progress"]["tokens"] / max(1, self.facts["progress"]["step"])
        return [(round(line["step"] * a_step), line["val_loss"]) for line in lines][0 if hasattr(self.model, "backward") else -1:]

    def _memory(self):
        """Bytes of arrays that a step of training takes at most: parameters, gradients, what optimizer and backward keep."""
        from numformer.kernels.room import forget

        forget()                                                      # memory that the last model gave back would not be counted
        tracemalloc.start()
        try:
            trainer = self._trainer()
            trainer.train_step()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def _trainer(self):
        training = TrainingConfig(**self.facts["training"])
        return new_trainer(self.task, self.facts["model"]["kind"], self.model.config, training, self.tokenizer, self.material)

    def step_seconds(self):
        """{"token": seconds for each token of the run's last step, taken once more}: the trained model is of no more use after it."""
        if not hasattr(self, "trainer"):
            self.trainer = self._trainer()
        trainer = self.trainer
        trainer.step, before, started = max(0, self.facts["progress"]["step"] - 1), trainer.tokens, time.perf_counter()
        trainer.train_step()
        return {"token": (time.perf_counter() - started) / (trainer.tokens - before)}


def _print(rows):
    print("gradient: of a loss by the token so many steps before, as a part of that by the last; memory: arrays of a training step")
    print(f"{'model':14}{'parameters':>12}{'active':>11}{'tokens':>12}{'loss':>8}{'bits':>7}{'minutes':>9}{'MiB':>7}"
          + "".join(f"{f'g {k}':>9}" for k in DISTANCES) + "  run")
    for row in sorted(rows, key=lambda row: row["val_loss"]):
        gradients = row["gradient_by_distance"] or []
        parts = [f"{gradients[k] / gradients[0]:.1e}" if k < len(gradients) else "-" for k in DISTANCES]
        print(f"{row['name']:14}{row['parameters']:>12,}{row['active_parameters']:>11,}{row['tokens']:>12,}{row['val_loss']:>8.4f}"
              f"{row['bits_per_character']:>7.3f}{row['train_minutes']:>9.2f}{row['memory_bytes'] / 2**20:>7.0f}"
              + "".join(f"{part:>9}" for part in parts) + f"  {row['run']}")


def drawn(rows):
    """Losses and gradients of rows of the table, as a Figure."""
    from matplotlib.figure import Figure

    from numformer.plots import gradients_by_distance, losses_by_tokens

    figure = Figure(figsize=(13, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = [row["name"] if [other["name"] for other in rows].count(row["name"]) == 1 else row["run"] for row in rows]
    with suppress(ValueError):                                        # runs that were never validated have no losses to draw
        losses_by_tokens({name: row["losses"] for name, row in zip(names, rows)}, left)
    profiles = {name: row["gradient_by_distance"] for name, row in zip(names, rows) if row["gradient_by_distance"]}
    if profiles:
        gradients_by_distance(profiles, right)
    return figure
