"""Associative recall: "hFcAbAh" is to be continued with "F", by a decoder of two layers."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from numformer.analysis.attention_views import Reading
from numformer.data import (
    CharacterTokenizer, RecallStream, earlier_examples, recall_batch, recall_examples, recall_ids,
    recall_text)
from numformer.data.corpora.recall import CHARACTERS, EXAMPLE, VALUES
from numformer.finite import predicted_classes
from numformer.recipes.preset import Preset, more
from numformer.recipes.task import MAP_TOKENS, Task
from numformer.seeds import CONTEXTS, branch

HELD_OUT, EXAMPLES = 1000, 16                         # contexts to measure on, and their examples
VALIDATION_BATCH = 100
SHOWN = 3                                             # contexts in the log of a run
HELD_OUT_SEED = 10**9                                 # training seeds are below it


@dataclass(frozen=True)
class Contexts:
    """The held-out contexts; those of training are sampled in every step.

    Parameters
    ----------
    keys, values : ndarray of int, shape (n, N)
    name : str
    """

    keys: np.ndarray
    values: np.ndarray
    name: str = "contexts with a mapping of their own"

    def __len__(self):
        """Characters in all."""
        return EXAMPLE * self.keys.size

    @property
    def sha256(self):
        """Checksum of all contexts."""
        ids = recall_ids(self.keys, self.values).astype("<i8")
        return hashlib.sha256(ids.tobytes()).hexdigest()


class RecallTask(Task):
    """Continue contexts whose mapping from keys to values is new in each.

    The loss is the mean over the values of keys that came before; the measure `recall` is the
    accuracy on these.
    """

    name = "recall"
    unit = "nats per value"
    from_the_data = frozenset({"vocab_size"})

    def load(self, data):
        return super().load(data) if data is not None else _held_out()

    def tokenizer(self, dataset):
        return CharacterTokenizer(CHARACTERS)

    def stream(self, dataset, tokenizer, config, training):
        return RecallStream(examples_in(config.context_length),
                            training.batch_size * training.accumulation, training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        N = examples_in(config.context_length)
        keys, values = dataset.keys[:blocks, :N], dataset.values[:blocks, :N]
        return [recall_batch(keys[first : first + VALIDATION_BATCH],
                             values[first : first + VALIDATION_BATCH])
                for first in range(0, len(keys), VALIDATION_BATCH)]

    def measure(self, model, tokenizer, dataset):
        """Accuracy where the key came before: the model's, and of answers without matching keys."""
        N = examples_in(model.config.context_length)
        keys, values = dataset.keys[:, :N], dataset.values[:, :N]
        known = earlier_examples(keys).any(axis=2)                    # (n, N)
        right = {"recall": predicted_values(model, keys, values) == values}
        right |= {name: answers == values for name, answers in without_matching(values).items()}
        measures = {name: float(each[known].mean()) for name, each in right.items()}
        best = max(measures[name] for name in without_matching(values[:1]))
        return measures | {"without_matching": best, "chance": 1 / len(VALUES)}

    def sample(self, model, tokenizer, rng):
        """Held-out contexts, and the value that the model predicts for the last key."""
        contexts, N = _held_out(), examples_in(model.config.context_length)
        lines = []
        for row in rng.choice(len(contexts.keys), size=SHOWN, replace=False):
            text = recall_text(contexts.keys[row, :N], contexts.values[row, :N])
            answer, _ = self.answer(model, tokenizer, text[:-1])
            lines.append(f"{text[:-1]} -> {answer} ({text[-1]})")
        return "\n".join(lines)

    def answer(self, model, tokenizer, text):
        """The value that follows a text which ends with a key."""
        ids, most = tokenizer.encode(text), self.max_tokens(model.config)
        if not 1 <= len(ids) <= most:
            raise ValueError(f"a text of {len(ids)} characters does not fit this model, which "
                             f"reads 1 to {most}; leave examples out.")
        found = predicted_classes(self.name, model(ids[None])[0, -1:], model)
        return tokenizer.decode(found), 1

    def repeating(self, config, tokenizer, count, rng):
        """Random contexts, to measure at their keys."""
        sequences, _ = recall_batch(*recall_examples(count, examples_in(config.context_length),
                                                     rng))
        queries = np.zeros(sequences.shape, bool)
        queries[:, ::EXAMPLE] = True                                  # at keys
        return sequences, queries, sequences[0, :MAP_TOKENS]

    def reading(self, model, tokenizer, text=None):
        """A text, by default the first held-out context."""
        if text is None:
            contexts, N = _held_out(), min(8, examples_in(model.config.context_length))
            text = recall_text(contexts.keys[0, :N], contexts.values[0, :N])
        ids = tokenizer.encode(text)
        if not 1 <= len(ids) <= self.max_tokens(model.config):
            raise ValueError(f"a text of {len(ids)} characters does not fit this model.")
        return Reading((ids[None],), list(text))


def examples_in(context_length):
    """How many examples fit; the last value is not read.

    Examples
    --------
    >>> examples_in(15), examples_in(16)
    (8, 8)
    """
    return min(EXAMPLES, (context_length + 1) // EXAMPLE)


def predicted_values(model, keys, values):
    """The most probable letter at every value, given all before it: int, (n, N)."""
    found = []
    for first in range(0, len(keys), VALIDATION_BATCH):
        ids, _ = recall_batch(keys[first : first + VALIDATION_BATCH],
                              values[first : first + VALIDATION_BATCH])
        logits = model(ids)[:, ::EXAMPLE, :len(VALUES)]        # (B, N, 8)
        found.append(predicted_classes("recall", logits, model))
    return np.concatenate(found)


def without_matching(values):
    """Answers that ignore the keys: {name: int, (n, N)}; -1 where there is no example before.

    They are the value of the last example, of a random one, and the most frequent value so far.
    """
    n, N = values.shape
    rng, count = np.random.default_rng(0), np.zeros((n, len(VALUES)), int)
    answers = {name: np.full((n, N), -1) for name in ("last_value", "random_value",
                                                      "most_frequent_value")}
    rows = np.arange(n)
    for t in range(1, N):
        count[rows, values[:, t - 1]] += 1
        answers["last_value"][:, t] = values[:, t - 1]
        answers["random_value"][:, t] = values[rows, rng.integers(0, t, size=n)]
        answers["most_frequent_value"][:, t] = count.argmax(axis=1)
    return answers


@lru_cache(maxsize=1)
def _held_out():
    rng = branch(HELD_OUT_SEED, CONTEXTS)
    return Contexts(*recall_examples(HELD_OUT, EXAMPLES, rng))


_MODEL = dict(context_length=32, n_layers=2, n_heads=2, d_model=32, positions="rotary",
              init_std=0.1)
_TRAINING = dict(weight_decay=0.0, beta2=0.98, schedule="linear", min_learning_rate=0.0,
                 warmup_steps=20, steps=6000, batch_size=32, shards=1, learning_rate=0.005,
                 eval_every=1000, save_every=1000)
RECALL = RecallTask()

PRESETS = {
    # Two layers: one writes into each value which key is before it, the next looks for the key
    "recall": Preset(_MODEL, _TRAINING, RECALL, claims=(
        more("recall", 0.95, beats="without_matching", ahead_of=("recall-one-layer",)),)),
    # One layer cannot look for a value by the key before it
    "recall-one-layer": Preset(dict(_MODEL, n_layers=1), _TRAINING, RECALL, claims=(
        more("recall", beats="chance"),)),
}
