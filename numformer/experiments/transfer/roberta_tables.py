"""RoBERTa's tables in small: masks, forms of the input, batches, and more data and steps.

Each run changes one choice in the pre-training of the same model. All are measured by the loss
on the same masked words of held-out tales. Liu et al. (2019), "RoBERTa: A Robustly Optimized BERT
Pretraining Approach": tables 1 (masks), 2 (form of the input), 3 (batches) and 4 (data and steps).
The paper measures all but the third by tasks that it fine-tunes for.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from numformer.data import passage_rows
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.experiments.transfer.tale_forms import FORMS, NEXT_SENTENCE, whole
from numformer.functional import IGNORE_INDEX
from numformer.models import KneserNey
from numformer.plots.axes import panels, styled, styles
from numformer.recipes.preset import Claim, Preset
from numformer.recipes.world.world_bert import CONTENT, WORLD, WorldMaskedTask
from numformer.recipes.world.world_task import word_ids
from numformer.training import mean_loss

FEW, MANY = 200, 3000                                                 # tales
STEPS = 400
POINTS = 10                                                           # of a curve
_MODEL = dict(n_layers=2, n_heads=4, d_model=48, positions="rotary", init_std=0.05,
              context_length=64, segments=0)


class Run(NamedTuple):
    """One row of a table: how the model is trained."""

    form: str = "tales"
    n_tales: int = MANY
    dynamic_masks: bool = True
    batch_size: int = 8
    steps: int = STEPS
    learning_rate: float = 0.01                                       # best for its batch size


RUNS = {
    "standard": Run(),
    "static_masks": Run(n_tales=FEW, dynamic_masks=False),
    "few_tales": Run(n_tales=FEW),
    "halves": Run("halves"),
    "sentences": Run("sentences", batch_size=23),                     # as many words
    "stream": Run("stream"),
    "batch_16": Run(batch_size=16, steps=STEPS // 2, learning_rate=0.02),
    "batch_32": Run(batch_size=32, steps=STEPS // 4, learning_rate=0.02),
    "few_tales_longer": Run(n_tales=FEW, steps=2 * STEPS),
    "longer": Run(steps=2 * STEPS),
}
TABLES = {
    "Masks": ("static_masks", "few_tales"),
    "Input, next sentences": ("halves", "sentences", "stream", "standard"),
    "Batches, the same words": ("standard", "batch_16", "batch_32"),
    "More tales, more steps": ("few_tales", "standard", "few_tales_longer", "longer"),
}


class FormTask(WorldMaskedTask):
    """Masked language modelling of tales in one of `FORMS`; held-out rows are whole tales."""

    name = "tales in a form"

    def __init__(self, form, n_tales):
        self.form, self.n_tales = form, n_tales

    def rows(self, tokenizer, config, held_out, easy=False):
        tales = [[word_ids(tokenizer, told.words[first:last]) for first, last in told.sentences]
                 for told in self.tales(held_out)]
        form = whole if held_out else FORMS[self.form]
        passages, follows = form(tales, config.context_length - 2, self.separator(tokenizer))
        if held_out:
            follows = [IGNORE_INDEX] * len(passages)                  # no loss of next sentences
        return passage_rows(passages, config.context_length, *self.layout(tokenizer), follows)


def measure(seed, steps=None):
    """Train the same model as each of `RUNS` says; `steps` replaces those of the standard one."""
    runs = {name: run if steps is None else run._replace(steps=max(1, run.steps * steps // STEPS))
            for name, run in RUNS.items()}
    curves = {name: curve(run, seed) for name, run in runs.items()}
    figures = {f"{name}_loss": points[-1][1] for name, points in curves.items()}
    figures |= {"n_gram_loss": n_gram_loss(5), "unigram_loss": n_gram_loss(1)}
    return Outcome(figures, partial(_drawn, curves), _table(runs, figures))


def prepared(run, seed):
    """The trainer of a `Run`, its task and tokenizer."""
    training = dict(WORLD, batch_size=run.batch_size, steps=run.steps, save_every=0, eval_every=0,
                    warmup_steps=run.steps // 10, learning_rate=run.learning_rate)
    return trainer_of(Preset(dict(_MODEL, next_sentence=run.form in NEXT_SENTENCE), training,
                             FormTask(run.form, run.n_tales), "Bert",
                             dict(CONTENT, dynamic_masks=run.dynamic_masks, mask_rate=0.25)), seed)


def curve(run, seed):
    """(targets predicted, loss on masked held-out words) in the course of a run."""
    points = []
    trained(prepared(run, seed)[0], max(1, run.steps // POINTS), lambda t: points.append(
        (t.n_targets, mean_loss(t.model, t.validation))))
    return points


def n_gram_loss(n):
    """The loss of an n-gram model, which is given the true words before each masked one."""
    trainer, task, tokenizer = prepared(RUNS["standard"], seed=0)
    rows = task.rows(tokenizer, trainer.model.config, held_out=False)
    text = np.concatenate([row[:size] for row, size in zip(rows.ids, rows.lengths)])
    model, losses = KneserNey.fit(text, n, len(tokenizer)), []
    for batch in trainer.validation:
        masked = batch.targets != IGNORE_INDEX                        # (B, T)
        for row, found in zip(np.where(masked, batch.targets, batch.inputs), masked):
            losses += [-math.log(model.distribution(row[max(0, t - n + 1) : t])[row[t]])
                       for t in np.flatnonzero(found)]
    return float(np.mean(losses))


def _table(runs, figures):
    lines = ["run               input      tales  masks    batch  steps   loss  perplexity"]
    for name, run in runs.items():
        masks, loss = "dynamic" if run.dynamic_masks else "static", figures[f"{name}_loss"]
        lines.append(f"{name:17} {run.form:10} {run.n_tales:5}  {masks:7} {run.batch_size:6} "
                     f"{run.steps:6} {loss:6.3f} {math.exp(loss):11.2f}")
    return "\n".join(lines)


@styled
def _drawn(curves):
    axes = panels(None, 2, 2, (11, 8))
    for ax, (title, names) in zip(axes.flat, TABLES.items()):
        for name, style in zip(names, styles(ax, len(names))):
            ax.plot(*zip(*curves[name]), **style, label=name.replace("_", " "))
        ax.set(xlabel="masked words in training", ylabel="loss on held-out ones, nats", title=title)
        ax.legend()
    return axes[0, 0]


# Not claimed, since it does not hold here: that larger batches are better
ROBERTA_EXPERIMENT = Experiment(
    "Are RoBERTa's masks, inputs, batches, data and steps better than BERT's in small, too?",
    measure, (Claim("few_tales_loss", beats="static_masks_loss"),
              Claim("standard_loss", beats="batch_32_loss"),
              Claim("standard_loss", beats="sentences_loss"),
              Claim("longer_loss", beats="standard_loss"),
              Claim("longer_loss", beats="few_tales_longer_loss")))
