"""Rows of passages and their batches: masked, labelled, and in triplets."""

import numpy as np
import pytest

from numformer.data import (
    LabelledRows, MaskedStream, PassageStream, Triplets, consecutive_masked_rows,
    consecutive_passages, passage_rows)
from numformer.functional import IGNORE_INDEX

SPECIAL, MASKS = (0, 1, 2), dict(special=[0, 1, 2, 3], vocab_size=20, mask_id=3)


def some_passages(rng, n, longest=6):
    return [tuple(rng.integers(4, 20, rng.integers(1, longest)) for _ in range(2))
            for _ in range(n)]


def test_rows_hold_their_passages(rng):
    passages = some_passages(rng, 30)
    follows = rng.random(30) < 0.5
    rows = passage_rows(passages, 13, *SPECIAL, follows)
    for (first, second), ids, segments, length, f in zip(passages, *rows[:3], follows):
        whole = [1, *first, 2, *second, 2]
        assert ids[:length].tolist() == whole and (ids[length:] == 0).all() and len(whole) == length
        assert segments[:length].tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)
        assert (segments[length:] == 0).all()
    assert np.array_equal(rows.follows, follows)


def test_rows_that_are_too_long_lose_from_the_longer_passage():
    rows = passage_rows([(np.arange(4, 14), np.arange(4, 8))], 10, *SPECIAL)
    assert rows.ids.tolist() in ([[1, 4, 5, 6, 2, 4, 5, 6, 7, 2]], [[1, 4, 5, 6, 7, 2, 4, 5, 6, 2]])
    rows = passage_rows([(np.arange(4, 14), np.arange(4, 6))], 10, *SPECIAL)
    assert rows.ids.tolist() == [[1, 4, 5, 6, 7, 8, 2, 4, 5, 2]]


@pytest.mark.parametrize("change, words", [
    (dict(passages=[]), "no passages"), (dict(passages=[()]), "one or two"),
    (dict(context_length=4), "must fit into"),
    (dict(passages=[(np.zeros(0, int), np.array([5]))]), "empty"), (dict(padding=-1), "padding"),
    (dict(follows=[True]), "1 values of follows")])
def test_bad_rows_are_refused(change, words):
    settings = dict(passages=[(np.array([5]), np.array([6]))] * 2, context_length=8, padding=0,
                    cls=1, separator=2)
    with pytest.raises(ValueError, match=words):
        passage_rows(**{**settings, **change})


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_masked_stream_is_a_function_of_seed_and_step(dynamic, rng):
    rows = passage_rows(some_passages(rng, 40), 12, *SPECIAL, rng.random(40) < 0.5)
    one, other, third = (MaskedStream(rows, batch_size=8, seed=seed, dynamic=dynamic, **MASKS)
                         for seed in (0, 0, 1))
    forwards = [one.batch(step) for step in range(12)]
    backwards = [other.batch(step) for step in reversed(range(12))][::-1]
    assert all(np.array_equal(a, b) for x, y in zip(forwards, backwards) for a, b in zip(x, y))
    assert not np.array_equal(forwards[0].inputs, third.batch(0).inputs)
    assert all(batch.inputs.shape[1] == batch.lengths.max() and batch.n_targets >= 8
               for batch in forwards)

    def epoch(number):
        """Every row by its true ids: its masked version."""
        masked = {}
        for batch in forwards[5 * number:5 * number + 5]:
            for inputs, targets, length in zip(batch.inputs, batch.targets, batch.lengths):
                true = np.where(targets == IGNORE_INDEX, inputs, targets)
                masked[tuple(true[:length].tolist())] = tuple(inputs[:length].tolist())
        return masked

    assert (epoch(0).keys() == epoch(1).keys()
            == {tuple(ids[:n].tolist()) for ids, n in zip(rows.ids, rows.lengths)})
    assert (epoch(0) == epoch(1)) == (not dynamic)


def test_consecutive_masked_rows_always_have_the_same_masks(rng):
    rows = passage_rows(some_passages(rng, 10), 12, *SPECIAL)
    first, second = (consecutive_masked_rows(rows, batch_size=4, **MASKS) for _ in range(2))
    assert [len(batch.inputs) for batch in first] == [4, 4, 2]
    assert all(np.array_equal(a, b) for x, y in zip(first, second) for a, b in zip(x, y))
    pieces = first[0].split(3)
    assert [len(piece.inputs) for piece in pieces] == [2, 1, 1]
    assert sum(piece.n_targets for piece in pieces) == first[0].n_targets


@pytest.mark.parametrize("context_length", [5, 8, 9])
def test_the_longer_passage_loses_its_last_tokens_one_at_a_time(context_length):
    for sizes in [(4, 4), (9, 1), (1, 9), (7, 5), (5, 7), (9, 9)]:
        kept = list(sizes)
        while sum(kept) + 3 > context_length:
            kept[int(np.argmax(kept))] -= 1               # the first of two that are equally long
        a, b = np.arange(4, 4 + sizes[0]), np.arange(14, 14 + sizes[1])
        rows = passage_rows([(a, b)], context_length, *SPECIAL)
        _, cls, separator = SPECIAL
        expected = [cls, *a[:kept[0]], separator, *b[:kept[1]], separator]
        assert rows.ids[0].tolist() == expected


def test_passages_come_once_an_epoch(rng):
    rows = passage_rows([(ids,) for ids, _ in some_passages(rng, 11)], 12, *SPECIAL)
    labelled = LabelledRows(rows, np.arange(11))
    stream = PassageStream(labelled, batch_size=4, seed=3)
    for first in (0, 3):
        assert sorted(label for step in range(first, first + 3)
                      for label in stream.batch(step).labels.tolist()) == list(range(11))
    triplets = Triplets(rows, rows, rows, np.arange(11))
    batch = triplets.take(np.array([3, 5]))
    assert batch.n_targets == 2 and len(batch.split(5)) == 2
    assert np.array_equal(batch.anchors, batch.negatives)
    assert [len(batch.topics) for batch in consecutive_passages(triplets, 4)] == [4, 4, 3]
    assert [batch.labels.tolist() for batch in consecutive_passages(labelled, 4, n=2)] == [[0, 5]]
    with pytest.raises(ValueError, match="11 rows"):
        LabelledRows(rows, [1, 2])
    with pytest.raises(ValueError, match="as many of each"):
        Triplets(rows, rows, passage_rows([(np.array([5]),)], 12, *SPECIAL), np.arange(11))
