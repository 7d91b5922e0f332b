"""Prompts: one trained model, and the same examples written in other ways."""

import numpy as np

from numformer.data import recall_examples, recall_ids
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.finite import predicted_classes
from numformer.recipes.preset import more

KEYS, EXAMPLES, CONTEXTS = 4, 12, 1000


def measure(seed, steps=None):
    """Train `recall`, and measure it with prompts of several formats, of the same examples."""
    model = trained(trainer_of("recall", seed, steps)[0]).model
    prompts, answers = formatted_prompts(np.random.default_rng([seed, 9]))
    figures = {}
    for name, ids in prompts.items():
        logits = model(ids)[:, -1, :8]                                # (n, 8): of values
        found = predicted_classes("prompts", logits, model)
        figures[name] = float((found == answers).mean())
    table = "\n".join(f"{name.replace('_', ' '):>24} {value:6.3f}"
                      for name, value in figures.items())
    return Outcome(figures, lambda: _picture(figures), table)


def formatted_prompts(rng):
    """The same contexts in all formats: ({name: ids (n, T)}, answers (n,)).

    Prompts end with a key of the context; the value of an earlier example with it is the answer.
    """
    keys, values = recall_examples(CONTEXTS, EXAMPLES + 1, rng, KEYS)
    keys[:, -1], answers = keys[:, 0], values[:, 0]                   # the answer is in the prompt
    values[:, -1] = answers
    last = 8 + keys[:, -1:]                                           # (n, 1)
    pairs = recall_ids(keys, values)[:, :-2].reshape(CONTEXTS, EXAMPLES, 2)   # key, value
    key, value = np.moveaxis(pairs, 2, 0)

    def prompt(*columns):
        return np.concatenate([np.stack(columns, axis=2).reshape(CONTEXTS, -1), last], axis=1)

    wrong = rng.integers(0, 8, size=value.shape)
    half = np.where(rng.random(value.shape) < 0.5, wrong, value)
    return {
        "as_in_training": prompt(key, value),
        "key_twice": prompt(key, key, value),
        "value_twice": prompt(key, value, value),
        "value_before_key": prompt(value, key),
        "half_of_values_wrong": prompt(key, half),
        "no_keys": prompt(value),
        "two_examples": prompt(key, value)[:, -5:],
        "no_examples": last,
    }, answers


def _picture(figures):
    from numformer.plots import accuracy_bars

    return accuracy_bars({name.replace("_", " "): value for name, value in figures.items()},
                         title="One model, the same examples in other prompts", chance=1 / 8)


PROMPTS = Experiment(
    "How much does the format of a prompt matter, with the same examples in it?", measure, (
        more("as_in_training", 0.9, beats="no_examples"),
        more("as_in_training", beats="two_examples"),
        more("as_in_training", beats="half_of_values_wrong"),
        more("as_in_training", beats="value_before_key"),
        more("as_in_training", beats="no_keys"),
    ))
