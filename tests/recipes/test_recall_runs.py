"""The task of associative recall: its measures and baselines."""

import numpy as np

from numformer.data import recall_examples, recall_ids
from numformer.recipes import PRESETS
from numformer.recipes.text.recall import (
    RECALL, examples_in, predicted_values, without_matching)


class Matching:
    """Predicts the value of the last earlier example with the same key, otherwise A."""

    class config:
        context_length = 24

    def __call__(self, ids):
        logits = np.zeros((*ids.shape, 16))
        for row, t in np.ndindex(ids.shape):
            earlier = [s for s in range(t) if ids[row, s] == ids[row, t] > 7]
            logits[row, t, ids[row, earlier[-1] + 1] if earlier else 0] = 1
        return logits


def test_a_model_that_matches_keys_is_always_right_and_other_answers_are_not():
    dataset = RECALL.load(None)
    measures = RECALL.measure(Matching(), RECALL.tokenizer(dataset), dataset)
    assert measures["recall"] == 1
    assert measures["chance"] == 1 / 8 < measures["random_value"] < measures["without_matching"]
    assert measures["without_matching"] == max(measures[name] for name in (
        "last_value", "random_value", "most_frequent_value")) < 0.5


def test_answers_without_matching_are_values_of_earlier_examples():
    values = np.array([[3, 5, 5, 7, 5]])
    answers = without_matching(values)
    assert answers["last_value"].tolist() == [[-1, 3, 5, 5, 7]]
    assert answers["most_frequent_value"].tolist()[0][3:] == [5, 5]
    assert all(answers["random_value"][0, t] in values[0, :t] for t in range(1, 5))


def test_predictions_use_only_what_is_before_the_value(rng):
    keys, values = recall_examples(2, 6, rng)
    before = predicted_values(Matching(), keys, values)
    values[:, -1] = (values[:, -1] + 1) % 8
    np.testing.assert_array_equal(predicted_values(Matching(), keys, values), before)


def test_held_out_contexts_are_none_of_training():
    chosen = PRESETS["recall"]
    stream = RECALL.stream(None, None, type("c", (), {"context_length": 32}),
                           type("t", (), dict(batch_size=64, accumulation=1, seed=1)))
    contexts = RECALL.load(None)
    held_out = {row.tobytes() for row in recall_ids(contexts.keys, contexts.values)[:, :-1]}
    seen = {row.tobytes() for step in range(20) for row in stream.batch(step).inputs}
    assert len(held_out) == 1000 and len(seen) > 1270 and not seen & held_out     # of 1,280
    assert examples_in(chosen.model["context_length"]) == 16
