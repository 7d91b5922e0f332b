"""What a run shows of itself: progress while it trains, pictures and JSON at the end."""

import json
import math
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

from numformer.commands.runs import show_text


class Progress:
    """A line that moves on a terminal (loss, tokens a second, time left), and a line and a sample at every validation."""

    def __init__(self, trainer, tokenizer, task):
        from tqdm import tqdm

        self.trainer, self.tokenizer, self.task = trainer, tokenizer, task
        self.losses, self.tokens_before = [], trainer.tokens
        self.bar = tqdm(total=trainer.config.steps, initial=trainer.step, unit="step", ascii=True, disable=None, file=sys.stderr,
                        dynamic_ncols=True)

    def stepped(self, metrics):
        self.losses.append(metrics["loss"])
        self.bar.set_postfix_str(f"loss {metrics['loss']:.3f}, {self.tokens_a_second():,.0f} tokens/s", refresh=False)
        self.bar.update()

    def evaluated(self):
        trainer = self.trainer
        training = f"training loss {np.mean(self.losses[-100:]):.4f}, " if self.losses else ""
        estimate = f" (an estimate, over {trainer.config.eval_blocks} blocks)" if trainer.config.eval_blocks else ""
        bits = f", {trainer.val_loss / math.log(2):.3f} bits a character" if self.task.unit == "nats a character" else ""
        self.write(f"step {trainer.step}: {training}validation loss {trainer.val_loss:.4f}{bits}{estimate}, "
                   f"{self.tokens_a_second():,.0f} tokens/s")
        rng = np.random.default_rng([trainer.config.seed, 3, trainer.step])   # 3: a branch of its own, so that training does not feel it
        sample = self.task.sample(trainer.model, self.tokenizer, rng)
        if sample:
            self.write("    " + sample.replace("\n", "\n    "))

    def tokens_a_second(self):
        return (self.trainer.tokens - self.tokens_before) / max(self.trainer.seconds, 1e-9)

    def write(self, text):
        with suppress(BrokenPipeError), self.bar.external_write_mode(file=sys.stderr):        # a run does not end where nobody looks
            show_text(text + "\n", sys.stderr)

    def close(self):
        self.bar.close()


def draw_pictures(folder, model, tokenizer, task, metrics):
    """Write the loss curve, and what the task has to show, into the run's folder."""
    from numformer.plots import loss_curve

    if metrics:
        save_picture(loss_curve(metrics, unit=task.unit), folder.path / "loss.png")
    for name, axes in task.pictures(model, tokenizer).items():
        save_picture(axes, folder.path / name)


def save_picture(picture, path):
    """Write Axes or a Figure into a .png, .svg or .pdf, without version or time: the same picture, the same bytes."""
    from matplotlib import rc_context

    unsaid = {".png": "Software", ".svg": "Date", ".pdf": "CreationDate"}[Path(path).suffix.lower()]
    with rc_context({"svg.hashsalt": "numformer"}):                   # names of parts in an .svg: random otherwise
        picture.figure.savefig(path, dpi=120, metadata={unsaid: None})


def print_json(result):
    """One JSON object as the last line of stdout."""
    print(json.dumps(result), flush=True)
