"""numformer compare: compare language models: loss, time, memory and gradient reach.

    numformer compare trained --seconds 0.01 --out compared.png
"""

import math
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

from numformer import backend
from numformer.benchmarks.side_by_side import medians_in_turns
from numformer.checks import check_number
from numformer.commands import UsageError
from numformer.commands.shared.output import check_picture, print_json, save_picture
from numformer.commands.shared.trainers import new_trainer
from numformer.analysis import gradient_reach
from numformer.models import NGramDecoder
from numformer.runs import RunFolder, load_run
from numformer.runs.load_run import run_corpus
from numformer.terminal import printable
from numformer.training import TrainingConfig, mean_loss

DISTANCES = (1, 4, 16, 64)
BLOCKS = 8                                                         # validation blocks for gradients


def add_arguments(parser):
    parser.add_argument("runs", metavar="RUN", nargs="+",
                        help="folders of runs trained on the same text")
    parser.add_argument("--out", metavar="PICTURE", default=None,
                        help="also draw losses and gradients")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="approximate time "
                        "to measure training (default: 20)")
    parser.add_argument("--threads", type=int, metavar="N", default=None,
                        help="number of threads (default: all cores)")


def run(arguments):
    if arguments.out:
        check_picture("compare: --out", arguments.out)
    if arguments.threads is not None and arguments.threads < 1:
        raise UsageError(f"--threads {arguments.threads} must be 1 or more.")
    try:
        check_number("compare", "--seconds", arguments.seconds, least=0)
    except ValueError as error:
        raise UsageError(str(error)) from None
    with backend.threads(arguments.threads):
        compared = loaded_runs(arguments.runs)
        rows = [one.measured() for one in compared]
        seconds = medians_in_turns({str(k): one.step_seconds for k, one in enumerate(compared)},
                                   arguments.seconds)
    for k, row in enumerate(rows):
        row["seconds_per_million_tokens"] = 1e6 * seconds[str(k)]["token"]
        row["train_minutes"] = row["seconds_per_million_tokens"] * row["tokens"] / 6e7
    _print(rows)
    files = []
    if arguments.out:
        save_picture(drawn(rows), arguments.out)
        files.append(arguments.out)
        print(f"wrote {printable(arguments.out)}")
    if arguments.json:
        print_json({"runs": rows, "files": files})
    return 0


def loaded_runs(folders):
    """Runs of the same text, each as a `Compared`."""
    first, *others = compared = [Compared(folder) for folder in folders]
    for other in others:
        if other.facts["data"]["sha256"] != first.facts["data"]["sha256"]:
            raise UsageError(f"{other.folder} was trained on {other.facts['data']['name']}, but "
                             f"{first.folder} on {first.facts['data']['name']}; give runs of the "
                             "same text.")
    return compared


class Compared:
    """One run, from its last checkpoint."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.model, self.tokenizer, self.facts, self.task = load_run(folder)
        unit = self.task.unit_of(self.tokenizer)
        if unit != "nats per character":
            raise UsageError(f"{folder} is not a run of a character-level language model; its task "
                             f"is {self.task.name}, with a loss in {unit}.")
        self.corpus = run_corpus(self.task, self.facts)

    def measured(self):
        """A row of the table, without times."""
        batches = self.task.validation(self.corpus, self.tokenizer, self.model.config)
        loss, progress = mean_loss(self.model, batches), self.facts["progress"]
        costs = self.model.costs()
        gradients = None
        if hasattr(self.model, "backward") and not isinstance(self.model, NGramDecoder):
            with backend.one_blas_thread():
                gradients = gradient_reach(self.model,
                                           *(ids[:BLOCKS] for ids in batches[0])).tolist()
        return {
            "run": str(self.folder), "name": self.facts.get("preset", self.folder.name),
            "parameters": costs["parameters"],
            "active_parameters": costs["active_parameters"], "tokens": progress["n_targets"],
            "val_loss": loss,
            "bits_per_character": loss / math.log(2), "memory_bytes": self._memory(),
            "gradient_reach": gradients,
            "losses": self._losses(),
        }

    def _losses(self):
        """(tokens, loss) of each validation; of an n-gram model the last alone."""
        lines = [line for line in RunFolder(self.folder).read_metrics() if "val_loss" in line]
        step_tokens = self.facts["progress"]["n_targets"] / max(1, self.facts["progress"]["step"])
        return [(round(line["step"] * step_tokens), line["val_loss"])
                for line in lines][0 if hasattr(self.model, "backward") else -1:]

    def _memory(self):
        """Peak bytes of all arrays in a training step."""
        from numformer.kernels.runtime.workspace import release

        release()                       # cached arrays would not be counted
        tracemalloc.start()
        try:
            trainer = self._trainer()
            trainer.train_step()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def _trainer(self):
        # with a rate of 0, the steps of a run that has diverged can be repeated, too
        training = TrainingConfig.from_dict(
            {**self.facts["training"], "learning_rate": 0.0, "min_learning_rate": 0.0})
        return new_trainer(self.task, self.facts["model"]["kind"], self.model.config, training,
                           self.tokenizer, self.corpus)

    def step_seconds(self):
        """{"token": seconds per token of the run's last step, repeated with an untrained model}."""
        if not hasattr(self, "trainer"):
            self.trainer = self._trainer()
        trainer = self.trainer
        trainer.step = max(0, self.facts["progress"]["step"] - 1)
        before, started = trainer.n_targets, time.perf_counter()
        trainer.train_step()
        return {"token": (time.perf_counter() - started) / (trainer.n_targets - before)}


def _print(rows):
    print("g k: gradient norm with respect to the token k steps back, relative to k = 0; MiB: peak "
          "memory of a training step")
    print(f"{'model':14}{'parameters':>12}{'active':>11}{'tokens':>12}{'loss':>8}{'bits':>7}"
          f"{'minutes':>9}{'MiB':>7}" + "".join(f"{f'g {k}':>9}" for k in DISTANCES) + "  run")
    for row in sorted(rows, key=lambda row: row["val_loss"]):
        gradients = row["gradient_reach"] or []
        parts = [f"{gradients[k] / gradients[0]:.1e}" if k < len(gradients) else "-"
                 for k in DISTANCES]
        print(f"{printable(row['name']):14}{row['parameters']:>12,}{row['active_parameters']:>11,}"
              f"{row['tokens']:>12,}{row['val_loss']:>8.4f}{row['bits_per_character']:>7.3f}"
              f"{row['train_minutes']:>9.2f}{row['memory_bytes'] / 2**20:>7.0f}"
              + "".join(f"{part:>9}" for part in parts) + f"  {printable(row['run'])}")


def drawn(rows):
    """A Figure with the losses and gradients of the rows."""
    from numformer.plots import gradient_reach_curves, losses_by_tokens
    from numformer.plots.axes import in_slides, panels

    left, right = panels(None, *((1, 2) if in_slides() else (2, 1)), (8, 9)).flat
    names = [row["name"] if [other["name"] for other in rows].count(row["name"]) == 1
             else row["run"] for row in rows]
    with suppress(ValueError):                              # runs without validation have no losses
        losses_by_tokens({name: row["losses"] for name, row in zip(names, rows)}, left)
    profiles = {name: row["gradient_reach"] for name, row in zip(names, rows)
                if row["gradient_reach"]}
    if profiles:
        gradient_reach_curves(profiles, right)
    return left.figure
