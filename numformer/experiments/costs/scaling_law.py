"""Loss against parameters and tokens: twenty small decoders, and the law that fits them."""

from numformer.analysis import count, fit_scaling_law
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.text.characters import TEXT
from numformer.training import mean_loss

WIDTHS = 16, 24, 32, 48, 64
STEPS = 100, 200, 400, 800                                            # of 512 tokens
SMALL = Preset(
    dict(context_length=64, n_layers=2, n_heads=4, d_model=64, norm="rms_norm", bias=False,
         feedforward="swiglu", positions="rotary", init_std=0.1),
    dict(optimizer="muon", muon_ratio=3.0, momentum=0.95, weight_decay=0.0, schedule="linear",
         learning_rate=0.012, min_learning_rate=0.0, warmup_steps=10, steps=800, batch_size=8),
    TEXT)


def measure(seed, steps=None):
    """Train every width for every number of steps; fit those smaller in both, predict the others.

    `steps` limits the longest run; the shorter ones keep their ratios.
    """
    lengths = STEPS if steps is None else [1 + each * steps // STEPS[-1] + k
                                           for k, each in enumerate(STEPS)]
    runs = {(i, j): _run(seed, width, length) for i, width in enumerate(WIDTHS)
            for j, length in enumerate(lengths)}
    last_i, last_j = max(runs)
    held_out = {place for place in runs if last_i == place[0] or last_j == place[1]}
    law = fit_scaling_law(*zip(*(run for place, run in runs.items() if place not in held_out)))
    errors, nearest = {}, {}
    for i, j in held_out:
        N, D, loss = runs[i, j]
        errors[i, j] = abs(law.loss(N, D) - loss)
        nearest[i, j] = abs(runs[min(i, last_i - 1), min(j, last_j - 1)][2] - loss)
    figures = {
        "alpha": law.alpha, "beta": law.beta, "limit": law.limit,
        "largest_run_loss": runs[last_i, last_j][2],
        "largest_run_predicted": law.loss(*runs[last_i, last_j][:2]),
        "largest_run_error": errors[last_i, last_j],
        "largest_run_nearest_smaller": nearest[last_i, last_j],
        "mean_error": sum(errors.values()) / len(errors),
        "mean_nearest_smaller": sum(nearest.values()) / len(nearest)}
    marked = [(*run, place in held_out) for place, run in runs.items()]
    return Outcome(figures, lambda: _picture(marked, law), _table(marked, law))


def _run(seed, width, steps):
    """(parameters, tokens, validation loss) of a run of its own, with its own schedule."""
    trainer, *_ = trainer_of(SMALL, seed, steps, model=dict(d_model=width))
    model = trained(trainer).model
    return (count(model.config)["parameters"], trainer.n_targets,
            mean_loss(model, trainer.validation))


def _picture(runs, law):
    from numformer.plots import scaling_law_curves

    return scaling_law_curves(runs, law, title="Loss of small decoders by tokens and parameters")


def _table(runs, law):
    rows = [f"{'parameters':>11}{'tokens':>9}{'loss':>8}{'law':>8}"]
    rows += [f"{N:11,}{D:9,}{loss:8.3f}{law.loss(N, D):8.3f}{'  predicted' * held_out}"
             for N, D, loss, held_out in runs]
    return "\n".join([*rows, f"L = {law.limit:.2f} + {law.size:.3g} / N^{law.alpha:.2f} "
                             f"+ {law.data:.3g} / D^{law.beta:.2f}"])


EXPERIMENT = Experiment(
    "How does the loss fall with parameters and tokens, and can it be predicted?", measure, (
        Claim("largest_run_error", beats="largest_run_nearest_smaller"),
        Claim("largest_run_error", 0.08), Claim("mean_error", beats="mean_nearest_smaller"),
        more("alpha", 0.1), more("beta", 0.1)))
