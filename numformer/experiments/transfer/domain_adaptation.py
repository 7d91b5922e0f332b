"""Domain adaptation: a masked language model goes on training on texts of another kind."""

from functools import partial

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import consecutive_masked_rows, library_sections, passage_rows
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.finite import predicted_classes
from numformer.functional import IGNORE_INDEX
from numformer.plots.axes import new_axes, styled, styles
from numformer.recipes.library.bert import LIBRARY, MaskedTask
from numformer.recipes.library.library_task import VALIDATION_BATCH, special_ids
from numformer.recipes.preset import Preset, more

DOMAIN = "tkinter", "turtle"                                          # windows and drawings
STEPS, ADAPTATION = 600, 150
EVERY = 50                                                            # steps between measures
_MODEL = dict(n_layers=2, n_heads=4, d_model=96, positions="rotary", init_std=0.05,
              context_length=64, segments=0, next_sentence=False)
_TRAINING = dict(LIBRARY, batch_size=32, eval_every=0, save_every=0)
_MASKS = dict(dynamic_masks=True, mask_rate=0.3)


class PartTask(MaskedTask):
    """Masked language modelling on a part of the library: a domain, or all but that.

    Parameters
    ----------
    inside : bool
        Whether the part is the domain.
    """

    name = "part of the library"

    def __init__(self, inside):
        self.inside = inside

    def rows(self, tokenizer, config, held_out, easy=False):
        separator, most = [special_ids(tokenizer)[2]], self.max_tokens(config)
        ids = np.concatenate([part for section in library_sections(held_out)
                              if (section.topic in DOMAIN) == self.inside
                              for part in (tokenizer.encode(" ".join(section.sentences)),
                                           separator)])
        blocks = [(ids[first : first + most],) for first in range(0, len(ids), most)]
        return passage_rows(blocks, config.context_length, *self.layout(tokenizer))


def masked_accuracy(model, task, tokenizer):
    """The fraction of masked held-out tokens that a model predicts."""
    right = []
    rows = task.rows(tokenizer, model.config, held_out=True)
    for batch in consecutive_masked_rows(rows, batch_size=VALIDATION_BATCH,
                                         **task.masks(tokenizer, rate=0.15)):
        masked = batch.targets != IGNORE_INDEX                        # (B, T)
        with one_blas_thread():
            x = model(batch.inputs, batch.segments, batch.lengths)
            found = predicted_classes("domain_adaptation", model.head(x[masked]), model)
            right.append(found == batch.targets[masked])
    return float(np.concatenate(right).mean())


def measure(seed, steps=None):
    """Pre-train on all but the domain; adapt; and train on the domain alone, from scratch."""
    domain, rest = PartTask(inside=True), PartTask(inside=False)
    trainer = partial(_trainer, seed=seed)
    first, tokenizer = trainer(rest, steps or STEPS, 0.01)
    pretrained = trained(first).model
    curves = {"adapted: domain": [], "adapted: all else": [], "from scratch: domain": []}

    def observe_adapted(t):
        curves["adapted: domain"].append((t.step, masked_accuracy(t.model, domain, tokenizer)))
        curves["adapted: all else"].append((t.step, masked_accuracy(t.model, rest, tokenizer)))

    def observe_scratch(t):
        curves["from scratch: domain"].append(
            (t.step, masked_accuracy(t.model, domain, tokenizer)))

    adapted, _ = trainer(domain, steps or ADAPTATION, 0.005)
    adapted.model.load_state_dict(pretrained.state_dict())
    trained(adapted, EVERY, observe_adapted)
    scratch, _ = trainer(domain, steps or ADAPTATION, 0.01)
    trained(scratch, EVERY, observe_scratch)

    def ends(name):
        return curves[name][0][1], curves[name][-1][1]

    (before, after), (rest_before, rest_after) = map(ends, ("adapted: domain", "adapted: all else"))
    figures = {"adapted": after, "before": before, "from_scratch": ends("from scratch: domain")[1],
               "all_else_before": rest_before, "all_else_adapted": rest_after,
               "forgotten": rest_before - rest_after}
    return Outcome(figures, partial(_drawn, curves))


def _trainer(task, steps, learning_rate, seed):
    training = dict(_TRAINING, steps=steps, learning_rate=learning_rate,
                    warmup_steps=min(30, steps))
    trainer, _, tokenizer = trainer_of(Preset(_MODEL, training, task, "Bert", _MASKS), seed)
    return trainer, tokenizer


@styled
def _drawn(curves):
    ax = new_axes((8, 5))
    for (name, points), style in zip(curves.items(), styles(ax, len(curves))):
        ax.plot(*zip(*points), label=name, **style)
    ax.set(xlabel="steps on the domain", ylabel="accuracy on masked held-out tokens",
           ylim=(0, None),
           title=f"A masked language model adapts to the texts of {' and '.join(DOMAIN)}")
    ax.legend()
    return ax


ADAPTATION_EXPERIMENT = Experiment(
    "What does a masked language model gain on a new kind of text, and what does it forget?",
    measure, (more("adapted", beats="before"), more("adapted", beats="from_scratch")))
