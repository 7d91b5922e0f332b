"""Batches of labelled examples."""

import numpy as np
import pytest

from numformer.data import Batch, LabelledStream, labelled_batches
from numformer.training import accuracy


def test_an_epoch_holds_every_example_once():
    labels = np.arange(10)
    stream = LabelledStream(10.0 * labels, labels, 4, seed=3)
    batches = [stream.batch(step) for step in range(5)]
    seen = np.concatenate([batch.labels for batch in batches])
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert not np.array_equal(seen[:10], seen[10:])
    assert all(np.array_equal(batch.inputs, 10.0 * batch.labels) for batch in batches)
    assert np.array_equal(stream.batch(2).labels, batches[2].labels), "a function of the step alone"
    assert not np.array_equal(LabelledStream(labels, labels, 4, seed=4).batch(0).labels,
                              batches[0].labels)
    many = LabelledStream(labels[:3], labels[:3], 8, seed=0).batch(1).labels
    assert len(many) == 8 and np.bincount(many).min() >= 2, "a batch may hold several epochs"


def test_batches_split_into_all_their_examples(rng):
    batch = Batch(inputs=rng.standard_normal((5, 2)), labels=np.arange(5))
    parts = batch.split(3)
    assert [part.n_targets for part in parts] == [2, 2, 1] and batch.n_targets == 5
    assert len(batch.split(9)) == 5
    for name in ("inputs", "labels"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]),
                              getattr(batch, name))
    batches = labelled_batches(batch.inputs, batch.labels, 2)
    assert np.array_equal(np.concatenate([b.labels for b in batches]), batch.labels)
    assert labelled_batches(np.zeros((300, 1)), np.zeros(300, int))[0].n_targets == 256


@pytest.mark.parametrize("inputs, labels, error, words", [
    (np.zeros((3, 2)), np.zeros(2, int), ValueError, "N=3 inputs"),
    (np.zeros((0, 2)), np.zeros(0, int), ValueError, "empty"),
    (np.zeros((2, 2)), np.zeros((2, 1), int), ValueError, r"must have shape \(N,\)"),
    (np.zeros((2, 2)), np.zeros(2), TypeError, "integers"),
    (np.zeros((2, 2)), np.array([0, -1]), ValueError, "hold -1")])
def test_bad_labels_are_named(inputs, labels, error, words):
    for make in (lambda: LabelledStream(inputs, labels, 2, 0),
                 lambda: labelled_batches(inputs, labels)):
        with pytest.raises(error, match=words):
            make()


def test_empty_batches_are_refused():
    for make in (lambda: LabelledStream(np.zeros(2), np.zeros(2, int), 0, 0),
                 lambda: labelled_batches(np.zeros(2), np.zeros(2, int), 0)):
        with pytest.raises(ValueError, match="batch_size=0"):
            make()
    with pytest.raises(ValueError, match="no batches"):
        accuracy(None, [])
