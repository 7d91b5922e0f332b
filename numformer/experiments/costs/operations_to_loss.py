"""Operations to equal loss: families of language models on the same text."""

import numpy as np

from numformer.analysis import count
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.recipes.preset import Claim, more
from numformer.recipes.text import language_models
from numformer.training import mean_loss

# The families of the presets, with about 0.1 million parameters and 0.6 MFLOPs for a token
SIZES = {
    "rnn": dict(d_model=140), "lstm": dict(d_model=72), "cnn": dict(d_model=48, n_layers=6),
    "decoder-2017": dict(d_model=64, n_layers=2), "llama": dict(d_model=64, n_layers=2)}
STEPS = 50, 100, 200, 400                             # of 1024 tokens: a run of its own for each


def measure(seed, steps=None):
    """Train each family for several lengths; interpolate the operations at which it has a loss.

    Every length is a run of its own, whose learning rate falls to 0 at its end. The loss to reach
    is the last of the family that ends worst. `steps` replaces the longest run.
    """
    lengths = STEPS if steps is None else sorted({max(1, steps // 2), steps})
    curves = {family: _best([_run(family, size, seed, length) for length in lengths])
              for family, size in SIZES.items()}
    target = max(curve[-1][1] for curve in curves.values())
    operations = {family: operations_to(curve, target) for family, curve in curves.items()}
    figures = {"loss": target}
    figures |= {f"{_word(family)}_operations": value for family, value in operations.items()}
    figures |= {f"{_word(family)}_over_llama": value / operations["llama"]
                for family, value in operations.items() if family != "llama"}
    figures |= {f"{_word(family)}_loss": curve[-1][1] for family, curve in curves.items()}
    return Outcome(figures, lambda: _picture(curves, target), _table(operations, target))


def operations_to(curve, loss):
    """The operations at which a falling curve reaches a loss: log operations are interpolated."""
    operations, losses = map(np.array, zip(*curve))
    return float(np.exp(np.interp(-loss, -losses, np.log(operations))))


def _run(family, size, seed, steps):
    """(operations, validation loss) of one run."""
    trainer, *_ = trainer_of(language_models.PRESETS[family], seed, steps,
                             model=dict(size, context_length=64))
    model = trained(trainer).model
    operations = count(model.config)["training_flops_per_token"] * trainer.n_targets
    return operations, mean_loss(model, trainer.validation[::2])


def _best(points):
    """The lowest loss within each number of operations: strictly falling."""
    best, least = [], np.inf
    for operations, loss in sorted(points):
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
        more("decoder_2017_over_llama", 1.5)))
