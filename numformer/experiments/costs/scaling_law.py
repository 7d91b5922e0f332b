"""Loss against parameters and tokens: twenty small decoders, and the law that fits them."""

import math

from numformer.analysis import count, fit_scaling_law
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.text.characters import TEXT
from numformer.training import mean_loss

WIDTHS = 16, 24, 40, 64, 96
STEPS = 50, 100, 200, 400                                             # of 1024 tokens
SMALL = Preset(
    dict(context_length=64, n_layers=2, n_heads=4, d_model=96, norm="rms_norm", bias=False,
         feedforward="swiglu", positions="rotary", init_std=0.1),
    dict(optimizer="muon", muon_ratio=3.0, momentum=0.95, weight_decay=0.0, schedule="linear",
         learning_rate=0.012, min_learning_rate=0.0, warmup_steps=10, steps=400, batch_size=16),
    TEXT)


def measure(seed, steps=None):
    """Train every width for every number of steps; fit all runs but the largest, and predict it.

    `steps` limits the longest run; the shorter ones keep their ratios, with at least one step.
    """
    lengths = [max(1, math.ceil((steps or STEPS[-1]) * each / STEPS[-1])) for each in STEPS]
    lengths = [first + (first in lengths[:k]) * k for k, first in enumerate(lengths)]
    runs = [_run(seed, width, length) for width in WIDTHS for length in lengths]
    *fitted, (N, D, loss) = runs                                      # the last is the largest
    law = fit_scaling_law(*zip(*fitted))
    neighbours = [runs[-2][2], runs[-1 - len(lengths)][2]]            # less data; fewer parameters
    predicted = law.loss(N, D)
    figures = {
        "alpha": law.alpha, "beta": law.beta, "limit": law.limit, "held_out_loss": loss,
        "predicted_loss": predicted, "error": abs(predicted - loss),
        "error_of_the_nearest_smaller_run": min(abs(other - loss) for other in neighbours),
        "largest_error_of_the_fit": max(abs(law.loss(n, d) - each) for n, d, each in fitted)}
    return Outcome(figures, lambda: _picture(runs, law), _table(runs, law))


def _run(seed, width, steps):
    """(parameters, tokens, validation loss) of a run of its own, with its own schedule."""
    trainer, *_ = trainer_of(SMALL, seed, steps, model=dict(d_model=width))
    model = trained(trainer).model
    return (count(model.config)["parameters"], trainer.n_targets,
            mean_loss(model, trainer.validation))


def _picture(runs, law):
    from numformer.plots import scaling_law_curves

    return scaling_law_curves(runs, law, held_out=1,
                              title="Loss of small decoders by tokens and parameters")


def _table(runs, law):
    rows = [f"{'parameters':>11}{'tokens':>9}{'loss':>8}{'law':>8}"]
    rows += [f"{N:11,}{D:9,}{loss:8.3f}{law.loss(N, D):8.3f}" for N, D, loss in runs]
    return "\n".join([*rows, f"the law, without the last: L = {law.limit:.2f} + {law.size:.3g} / "
                             f"N^{law.alpha:.2f} + {law.data:.3g} / D^{law.beta:.2f}"])


EXPERIMENT = Experiment(
    "How does the loss fall with parameters and tokens, and can it be predicted?", measure, (
        Claim("error", beats="error_of_the_nearest_smaller_run"), Claim("error", 0.06),
        more("alpha", 0.1), more("beta", 0.1)))
