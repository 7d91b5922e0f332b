"""Few-shot accuracy: by the number of examples in the prompt, and by the number of layers."""

import numpy as np

from numformer.data import earlier_examples, recall_examples
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.recipes.preset import more
from numformer.recipes.text.recall import predicted_values

LAYERS, SHOTS = (1, 2, 3), (0, 1, 2, 4, 8, 16)
KEYS, CONTEXTS, TEST_SEED = 4, 1000, 7


def measure(seed, steps=None):
    """Train decoders of 1, 2 and 3 layers, and measure each with prompts of several lengths."""
    models = {n: trained(trainer_of("recall", seed, steps, model=dict(n_layers=n))[0]).model
              for n in LAYERS}
    by_layers = {n: [shot_accuracy(model, shots) for shots in SHOTS] for n, model in models.items()}
    matching = [matching_accuracy(shots) for shots in SHOTS]
    figures = {f"layers_{n}_shots_{shots}": accuracy for n, accuracies in by_layers.items()
               for shots, accuracy in zip(SHOTS, accuracies)}
    figures |= {f"matching_shots_{shots}": each for shots, each in zip(SHOTS, matching)}
    return Outcome(figures, lambda: _picture(by_layers, matching), _table(by_layers, matching))


def prompts_of(shots, keys=KEYS):
    """Contexts of `shots` examples and one more, whose value is to be predicted."""
    return recall_examples(CONTEXTS, shots + 1, np.random.default_rng([TEST_SEED, shots]), keys)


def shot_accuracy(model, shots):
    """The fraction of right values after `shots` examples of a mapping of four keys."""
    keys, values = prompts_of(shots)
    return float((predicted_values(model, keys, values) == values)[:, -1].mean())


def matching_accuracy(shots):
    """The same for the best rule: the value of an example with the same key, or else a guess."""
    keys, values = prompts_of(shots)
    earlier = earlier_examples(keys)[:, -1]                           # (n, N)
    guesses = np.random.default_rng(0).integers(0, 8, size=len(keys))
    copied = np.take_along_axis(values, earlier.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float((np.where(earlier.any(axis=1), copied, guesses) == values[:, -1]).mean())


def _picture(by_layers, matching):
    from numformer.plots import accuracy_by_shots

    curves = {f"{n} layer{'s' * (n > 1)}": accuracies for n, accuracies in by_layers.items()}
    return accuracy_by_shots(SHOTS, curves, matching)


def _table(by_layers, matching):
    rows = {**{f"{n} layers": each for n, each in by_layers.items()}, "matching": matching}
    return "\n".join([f"{'shots':>10}" + "".join(f"{n:8}" for n in SHOTS),
                      *(f"{name:>10}" + "".join(f"{each:8.3f}" for each in row)
                        for name, row in rows.items())])


FEW_SHOT = Experiment(
    "How does accuracy grow with the examples in the prompt, and how many layers does that need?",
    measure, (
        more("layers_2_shots_16", 0.9, beats="layers_1_shots_16"),
        more("layers_2_shots_16", beats="layers_2_shots_4"),
        more("layers_2_shots_4", beats="layers_2_shots_1"),
        more("layers_2_shots_1", beats="layers_2_shots_0"),
        more("layers_3_shots_16", 0.9, beats="layers_1_shots_16"),
    ))
