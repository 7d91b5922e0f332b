"""Operations to equal loss: families of language models on the same text."""

import numpy as np

from numformer.analysis import count
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.recipes.preset import Claim
from numformer.recipes.text import language_models
from numformer.training import mean_loss

# Two sizes of each family of the presets; a curve is the best of both at each number of operations.
SIZES = {
    "rnn": (dict(d_model=64), dict(d_model=160)),
    "lstm": (dict(d_model=40), dict(d_model=96)),
    "cnn": (dict(d_model=24, n_layers=6), dict(d_model=64, n_layers=6)),
    "decoder-2017": (dict(d_model=32, n_layers=2), dict(d_model=80, n_layers=2)),
    "llama": (dict(d_model=32, n_layers=2), dict(d_model=80, n_layers=2)),
}
STEPS, EVERY, BLOCKS = 500, 25, 240                   # a measure every 25 steps, on 240 blocks


def measure(seed, steps=None):
    """Train each family in two sizes; interpolate the operations at which it reaches a loss.

    The learning rate is constant after the warm-up: then every point of a curve is the end of a
    shorter run. The loss to reach is the best of the family that ends worst.
    """
    curves = {family: _best([_curve(family, size, seed, steps) for size in sizes])
              for family, sizes in SIZES.items()}
    target = max(curve[-1][1] for curve in curves.values())
    operations = {family: operations_to(curve, target) for family, curve in curves.items()}
    figures = {"loss": target}
    figures |= {f"{_word(family)}_operations": value for family, value in operations.items()}
    figures |= {f"{_word(family)}_over_llama": value / operations["llama"]
                for family, value in operations.items() if family != "llama"}
    return Outcome(figures, lambda: _picture(curves, target), _table(operations, target))


def operations_to(curve, loss):
    """The operations at which a falling curve reaches a loss: log operations are interpolated."""
    operations, losses = map(np.array, zip(*curve))
    return float(np.exp(np.interp(-loss, -losses, np.log(operations))))


def _curve(family, size, seed, steps):
    """[(operations, validation loss)] of one run."""
    preset = language_models.PRESETS[family]
    trainer, *_ = trainer_of(
        preset, seed, steps or STEPS, model=dict(size, context_length=64),
        training=dict(schedule="constant", batch_size=8))
    each, points = count(trainer.model.config)["training_flops_per_token"], []
    batches = trainer.validation[::max(1, len(trainer.validation) * 16 // BLOCKS)]

    def observe(now):
        if now.step:
            points.append((each * now.n_targets, mean_loss(now.model, batches)))

    trained(trainer, EVERY, observe)
    return points


def _best(curves):
    """The lowest loss with at most so many operations: strictly falling."""
    best, least = [], np.inf
    for operations, loss in sorted(point for curve in curves for point in curve):
        if loss < least:
            best.append((operations, loss))
            least = loss
    return best


def _word(family):
    return family.replace("-", "_")


def _picture(curves, target):
    from numformer.plots import losses_by_operations

    return losses_by_operations(curves, target, title="Loss by training operations")


def _table(operations, target):
    rows = [f"{'to a loss of':14}{target:10.3f}{'':4}against llama"]
    rows += [f"{family:14}{value:10.3g} FLOPs{value / operations['llama']:9.1f}"
             for family, value in operations.items()]
    return "\n".join(rows)


EXPERIMENT = Experiment(
    "How many operations does each family of models need for the same loss?", measure, (
        Claim("llama_operations", beats="decoder_2017_operations"),
        Claim("llama_operations", beats="rnn_operations"),
        Claim("llama_operations", beats="lstm_operations")))
