"""An encoder, a decoder and an encoder-decoder on the same task, and the last two on a second.

The first is to answer questions about tales: the encoder marks the answer in the tale, the others
write it. The second is to write summaries, which the encoder cannot do.
"""

from functools import partial
from time import perf_counter

from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained
from numformer.experiments.transfer.family_models import accuracy, families, flops, stream_of
from numformer.experiments.transfer.family_tasks import data
from numformer.plots.axes import colours, faint, new_axes, styled
from numformer.recipes.preset import more
from numformer.training import Trainer, TrainingConfig

STEPS = {"answers": 400, "summaries": 150}
MEASURES = {"answers": "whole answers", "summaries": "tokens of summaries"}
_TRAINING = dict(optimizer="muon", batch_size=32, learning_rate=0.01, min_learning_rate=0.0,
                 schedule="linear", muon_ratio=3.0, momentum=0.95, weight_decay=0.0, eval_every=0)


def measure(seed, steps=None):
    """Train and measure all: whole answers, and tokens of summaries given those before."""
    vocab_size, tasks = data()
    figures, made = {}, {}
    lines = ["task, family: right; parameters; MFLOPs an example; seconds"]
    for task, examples in tasks.items():
        figures |= {f"{task}_{name}": value for name, value in examples.baselines.items()}
        for family, new in families(vocab_size, seed).items():
            if (task, family) == ("summaries", "encoder"):
                lines.append("summaries, encoder: it has no way to generate text")
                continue
            model, began = new(), perf_counter()
            train(model, family, examples.training, seed, steps or STEPS[task])
            seconds = perf_counter() - began
            whole, tokens = accuracy(model, family, examples.held_out)
            figure = whole if task == "answers" else tokens
            made[task, family] = figures[f"{task}_{family}"] = figure
            if task == "summaries":
                figures[f"summaries_{family}_exact"] = whole
            size = sum(parameter.data.size for parameter in model.parameters())
            lines.append(f"{task}, {family}: {figure:.3f}; {size:,}; "
                         f"{flops(model, family, examples.held_out) / 1e6:.1f}; {seconds:.0f}")
    baselines = {task: max(examples.baselines.values()) for task, examples in tasks.items()}
    return Outcome(figures, partial(_drawn, made, baselines), "\n".join(lines))


def train(model, family, examples, seed, steps):
    """Train a model on a list of `Example`."""
    config = TrainingConfig(**_TRAINING, steps=steps, warmup_steps=min(30, steps), seed=seed)
    return trained(Trainer(model, stream_of(family, examples, config.batch_size, seed), [], config))


@styled
def _drawn(made, baselines):
    ax = new_axes((8, 4.5))
    names = [f"{family.replace('_', '-')}\n{MEASURES[task]}" for task, family in made]
    bars = ax.bar(names, made.values(), width=0.6,
                  color=[colours(ax)[list(baselines).index(task)] for task, _ in made])
    ax.bar_label(bars, fmt="{:.2f}")
    for n, (task, _) in enumerate(made):
        ax.plot([n - 0.4, n + 0.4], [baselines[task]] * 2, color=faint(ax), linestyle="--",
                linewidth=2, label="best baseline" if not n else None)
    ax.set(ylabel="fraction that is right", ylim=(0, 1.25),
           title="Three families on the same tasks, four blocks each")
    ax.legend(loc="upper left")
    return ax


FAMILIES_EXPERIMENT = Experiment(
    "What do an encoder, a decoder and an encoder-decoder of the same size learn?", measure,
    (*(more(f"answers_{family}", beats="answers_last_entity")
       for family in ("encoder", "decoder", "encoder_decoder")),
     more("answers_encoder", beats="answers_overlap"),
     *(more(f"summaries_{family}", beats="summaries_n_gram")
       for family in ("decoder", "encoder_decoder"))))
