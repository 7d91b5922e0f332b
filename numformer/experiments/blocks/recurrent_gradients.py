"""How the recurrent matrix of an RNN makes gradients vanish or explode, and what clipping does."""

import math

from numformer.analysis import gradient_reach
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trainer_of
from numformer.recipes.preset import Claim, more
from numformer.finite import NotFinite

RADII = (0.5, 1.0, 1.5)                       # spectral radii of the recurrent matrix at the start
CLIP_NORMS = {"clipped": 1.0, "unclipped": 0.0}
ROWS = 16                                                             # held-out rows of a profile
LAST = 30                                                             # steps of a final loss
STEPS = 300
MODEL = dict(n_layers=1, d_model=64, context_length=128, tied=False, init_std=0.1)
# Plain gradient descent: Adam and Muon divide by the norm of the gradient, which hides the effect
TRAINING = dict(optimizer="sgd", momentum=0.0, learning_rate=1.0, min_learning_rate=0.0,
                schedule="constant", warmup_steps=0, batch_size=16, eval_every=0)


def recurrent_trainer(seed, radius, clip_norm, steps=None):
    """A trainer of a character-level RNN whose recurrent matrix is `radius` times orthogonal.

    All eigenvalues of that matrix, and all singular values, have this magnitude. Small embeddings
    keep the states in the range where tanh is almost linear.
    """
    trainer, *_ = trainer_of("rnn", seed, steps or STEPS, model=MODEL,
                             training=dict(TRAINING, clip_norm=clip_norm))
    trainer.model.layers[0].recurrent_weight.data *= radius
    return trainer


def run(trainer):
    """The metrics of every step, up to the first with a loss that is not finite."""
    metrics = []
    for _ in range(trainer.config.steps):
        try:
            metrics.append(trainer.train_step())
        except NotFinite:
            break
    return metrics


def measure(seed, steps=None):
    """Gradient norms by distance before training; losses with and without clipping after it."""
    profiles, runs, figures, rows = {}, {}, {}, []
    for radius in RADII:
        trainer = recurrent_trainer(seed, radius, 0.0, steps)
        inputs, targets = trainer.validation[0]
        profile = gradient_reach(trainer.model, inputs[:ROWS], targets[:ROWS])
        profiles[f"spectral radius {radius}"] = profile
        reach = figures[f"log10_reach_{radius}"] = math.log10(profile[-1] / profile[0])
        for name, clip_norm in CLIP_NORMS.items():
            metrics = run(recurrent_trainer(seed, radius, clip_norm, steps))
            runs[f"radius {radius}, {name}"] = metrics
            last = metrics[-LAST:]
            loss = figures[f"loss_{radius}_{name}"] = sum(m["loss"] for m in last) / len(last)
            norm = figures[f"norm_{radius}_{name}"] = max(m["gradient_norm"] for m in metrics)
            rows.append(f"{radius:6} {reach:17.1f}  {name:9} {norm:13.3g} {loss:10.3f}")
    table = "\n".join([f"radius  log10(g {len(profile) - 1} / g 0)  gradient  largest norm  last "
                       "loss", *rows])

    def picture():
        from numformer.plots import clipping_curves, gradient_reach_curves
        from numformer.plots.axes import panels

        left, right = panels(None, 1, 2, (16, 4.6), width_ratios=(1, 2))[0]
        gradient_reach_curves(profiles, left, "Gradient norm by distance, before training")
        shown = {name: metrics for name, metrics in runs.items() if str(RADII[-1]) in name}
        return clipping_curves(shown, right, "Gradient descent from a spectral radius of "
                               f"{RADII[-1]}")[0].figure

    return Outcome(figures, picture, table)


RECURRENT_GRADIENTS = Experiment(
    "When do the gradients of an RNN vanish or explode, and what does clipping change?", measure,
    (Claim("log10_reach_0.5", -6, beats="log10_reach_1.0"),
     more("log10_reach_1.5", 0, beats="log10_reach_1.0"),
     Claim("loss_1.5_clipped", beats="loss_1.5_unclipped")))
