"""Contexts of associative recall: a mapping within a context, and another in each."""

import numpy as np
import pytest

from numformer.data import (
    CharacterTokenizer, RecallStream, earlier_examples, recall_batch, recall_examples, recall_ids,
    recall_text)
from numformer.data.corpora.recall import CHARACTERS
from numformer.functional import IGNORE_INDEX


def test_a_mapping_is_fixed_within_a_context_and_new_in_each(rng):
    keys, values = recall_examples(200, 30, rng)
    mappings = [dict(zip(*context)) for context in zip(keys, values)]
    for mapping, *context in zip(mappings, keys, values):
        assert all(mapping[key] == value for key, value in zip(*context))
    assert 3 <= min(map(len, mappings)) and max(map(len, mappings)) == 8
    of_a = [mapping[0] for mapping in mappings if 0 in mapping]
    assert len(set(of_a)) == 8


def test_the_last_example_with_the_same_key_is_at_any_distance(rng):
    keys, _ = recall_examples(100, 24, rng)
    earlier = earlier_examples(keys)
    distances = [t - np.flatnonzero(row).max() for context in earlier
                 for t, row in enumerate(context) if row.any()]
    assert set(range(1, 9)) <= set(distances)
    assert max(np.bincount(distances)) < 0.25 * len(distances)        # no fixed offset will do


def test_ids_are_those_of_the_text(rng):
    keys, values = recall_examples(2, 5, rng, keys=3)
    ids = CharacterTokenizer(CHARACTERS).encode(recall_text(keys[1], values[1]))
    np.testing.assert_array_equal(ids, recall_ids(keys, values)[1])


def test_targets_are_the_values_of_keys_that_came_before():
    keys, values = np.array([[3, 4, 3, 4, 5]]), np.array([[7, 0, 7, 0, 5]])
    inputs, targets = recall_batch(keys, values)
    assert inputs.tolist() == [[11, 7, 12, 0, 11, 7, 12, 0, 13]]
    none = IGNORE_INDEX
    assert targets.tolist() == [[none, none, none, none, 7, none, 0, none, none]]


def test_in_a_periodic_context_keys_are_targets_too(rng):
    keys, values = recall_examples(2, 7, rng, keys=3, periodic=np.array([True, False]))
    assert (keys[0, 3:] == keys[0, :-3]).all() and len(set(keys[0].tolist())) == 3
    _, targets = recall_batch(keys, values, np.array([True, False]))
    assert (targets[0, 6::2] == values[0, 3:]).all()
    assert (targets[0, 5::2] == 8 + keys[0, 3:]).all()
    assert (targets[0, :5] == IGNORE_INDEX).all() and (targets[1, 1::2] == IGNORE_INDEX).all()


def test_batches_are_a_function_of_the_seed_and_the_step():
    stream = RecallStream(6, 3, seed=1)
    again = RecallStream(6, 3, seed=1).batch(5).inputs
    np.testing.assert_array_equal(stream.batch(5).inputs, again)
    assert (stream.batch(6).inputs != again).any()
    assert (RecallStream(6, 3, seed=2).batch(5).inputs != again).any()
    generator = np.random.default_rng([1, 9, 5])                      # as the package says
    periodic = generator.random(3) < 0.5
    contexts = recall_examples(3, 6, generator, periodic=periodic)
    np.testing.assert_array_equal(recall_batch(*contexts, periodic).inputs, again)


def test_half_of_the_contexts_of_a_stream_are_periodic():
    targets = RecallStream(30, 400, seed=1).batch(0).targets
    assert 0.4 < (targets[:, 1::2] != IGNORE_INDEX).any(axis=1).mean() < 0.6


def test_a_context_may_have_all_keys(rng):
    keys, _ = recall_examples(1, 200, rng, keys=8)
    assert set(keys[0].tolist()) == set(range(8))


@pytest.mark.parametrize("call, message", [
    (lambda rng: recall_examples(0, 3, rng), "n=0 must be a whole number"),
    (lambda rng: recall_examples(2, 3, rng, keys=9), "keys=9 must be at most 8"),
    (lambda rng: RecallStream(0, 3, 1), "examples=0 must be a whole number"),
])
def test_wrong_sizes_are_refused(call, message, rng):
    with pytest.raises(ValueError, match=message):
        call(rng)
