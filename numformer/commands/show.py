"""What a run shows of itself: progress while it trains, pictures and JSON at the end."""

import json
import sys
from contextlib import suppress

import numpy as np

from numformer.backend import one_blas_thread
from numformer.commands.runs import show_text
from numformer.functional import CAUSAL
from numformer.generation import generate

SAMPLE_TOKENS = 160
MAP_TOKENS = 32


class Progress:
    """A line that moves on a terminal (loss, tokens a second, time left), and a line and a sample at every validation."""

    def __init__(self, trainer, tokenizer):
        from tqdm import tqdm

        self.trainer, self.tokenizer = trainer, tokenizer
        self.losses = []
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
        self.write(f"step {trainer.step}: {training}validation loss {trainer.val_loss:.4f}{estimate}, "
                   f"{self.tokens_a_second():,.0f} tokens/s")
        rng = np.random.default_rng([trainer.config.seed, 3, trainer.step])   # 3: a branch of its own, so that training does not feel it
        prompt = first_prompt(self.tokenizer)
        ids = generate(trainer.model, self.tokenizer.encode(prompt), SAMPLE_TOKENS, rng, temperature=0.8)
        self.write("    " + self.tokenizer.decode(list(ids)).strip("\n").replace("\n", "\n    "))

    def tokens_a_second(self):
        stream = self.trainer.stream
        return len(self.losses) * stream.batch_size * stream.context_length / max(self.trainer.seconds, 1e-9)

    def write(self, text):
        with suppress(BrokenPipeError), self.bar.external_write_mode(file=sys.stderr):        # a run does not end where nobody looks
            show_text(text + "\n", sys.stderr)

    def close(self):
        self.bar.close()


def first_prompt(tokenizer):
    """What to begin with where no prompt was given: a new line, or else the first character there is."""
    return "\n" if "\n" in tokenizer.characters else tokenizer.characters[0]


def draw_pictures(folder, model, tokenizer, metrics):
    """Write the loss curve and an attention map into the run's folder."""
    from numformer.plots import attention_map, loss_curve

    if metrics:
        _save(loss_curve(metrics), folder.path / "loss.png")
    text = first_prompt(tokenizer)
    tokens = min(MAP_TOKENS, model.config.context_length) - 1
    ids = generate(model, tokenizer.encode(text), tokens, np.random.default_rng(0), temperature=0.8)
    ids = np.array([[*tokenizer.encode(text), *ids]])
    with one_blas_thread():
        weights = model.attention_weights(ids)[-1][0].mean(axis=0)    # (T, T)
    axes = attention_map(weights, list(tokenizer.decode(ids[0])), CAUSAL.dense(*weights.shape),
                         title="Attention of the last block, mean of its heads")
    _save(axes, folder.path / "attention.png")


def _save(axes, path):
    axes.figure.savefig(path, dpi=120, metadata={"Software": None})   # without the version: the same run, the same bytes


def print_json(result):
    """One JSON object as the last line of stdout."""
    print(json.dumps(result), flush=True)
