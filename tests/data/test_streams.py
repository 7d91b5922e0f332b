"""What all streams of batches promise: their random numbers, whole blocks, ids of any size."""

import numpy as np
import pytest

from numformer.data import (
    Batch, BlockStream, Curriculum, Epochs, LabelledRows, MaskedStream, NoiseStream, PassageStream,
    Triplets, consecutive_blocks, consecutive_masked_rows, labelled_batches, mask_tokens,
    pair_batch, passage_rows)
from numformer.data.batches.noisy_pairs import with_wrong_inputs
from numformer.functional import IGNORE_INDEX

SPECIAL = 0, 1, 2
MASKS = dict(special=[0, 1, 2, 3], vocab_size=20, mask_id=3)
LARGEST = 2**31 - 1                     # an id fits into 32 bits


def random(*seed):
    return np.random.default_rng(seed)


def some_rows(n=12):
    rng = random(4)
    return passage_rows([tuple(rng.integers(4, 20, rng.integers(1, 6)) for _ in range(2))
                         for _ in range(n)], 13, *SPECIAL)


def test_a_block_is_consecutive_tokens_at_documented_positions():
    batch = BlockStream(np.arange(100), 8, 6, seed=3).batch(5)
    starts = random(3, 1, 5).integers(0, 92, size=6)
    assert np.array_equal(batch.inputs, starts[:, None] + np.arange(8))
    assert np.array_equal(batch.targets, batch.inputs + 1)


@pytest.mark.parametrize("F", [1, 2, 3])
def test_blocks_that_begin_with_given_tokens(F):
    """Each token of the text is a target once, after the given ones and those of its block."""
    first = [-7, -8, -9][:F]
    for n in range(9, 40):
        seen = []
        for batch in consecutive_blocks(np.arange(n), 8, tokens_a_batch=16, first=first):
            assert batch.inputs.shape[1] <= 8 and len(batch) in (1, 2)
            for inputs, targets in zip(*batch):
                assert inputs[:F].tolist() == first
                assert (targets[:F - 1] == IGNORE_INDEX).all()
                assert targets[F - 1:-1].tolist() == inputs[F:].tolist()
                seen += targets[F - 1:].tolist()
        assert seen == list(range(n))
    few = consecutive_blocks(np.arange(100), 8, blocks=3, first=first)
    assert sum(map(len, few)) == 3
    with pytest.raises(ValueError, match="context_length=2 is too short for 3 tokens before"):
        consecutive_blocks(np.arange(9), 2, first=[0, 1, 2])


def test_no_batch_of_consecutive_blocks_is_empty():
    for n in (9, 10, 17, 18):
        assert all(batch.n_targets for batch in consecutive_blocks(np.arange(n), 8))
    assert [batch.n_targets for batch in consecutive_blocks(np.arange(1025), 1)] == [1024]
    assert len(consecutive_blocks(np.arange(1026), 1)) == 2           # 1024 tokens, at most


def test_epochs_are_shuffled_by_the_documented_random_numbers():
    expected = np.concatenate([random(7, 1, epoch).permutation(5) for epoch in range(3)])
    epochs = Epochs(5, 3, seed=7)
    assert np.concatenate([epochs.rows(step)[1] for step in range(5)]).tolist() == list(expected)
    lengths = np.arange(5) + 1
    order = random(7, 3, 2)
    order.permutation(5)
    batches = [[4, 3], [2, 1], [0]]                         # sorted: all fit into one pool
    expected = [batches[k] for k in order.permutation(3)]
    epochs = Epochs(5, 2, 7, lengths)
    assert [epochs.rows(step)[1].tolist() for step in range(6, 9)] == expected


def test_masks_use_the_documented_random_numbers():
    rows = some_rows()
    stream = MaskedStream(rows, batch_size=4, seed=3, **MASKS)        # dynamic by default
    chosen = stream.epochs.rows(2)[1]
    for dynamic, batch in ((True, stream.batch(2)), (False, MaskedStream(
            rows, batch_size=4, seed=3, dynamic=False, **MASKS).batch(2))):
        inputs, targets = mask_tokens(rows.ids[chosen] if dynamic else rows.ids,
                                      rng=random(3, 6, 2) if dynamic else random(3, 5), **MASKS)
        rest = slice(None) if dynamic else chosen
        width = batch.inputs.shape[1]
        assert np.array_equal(batch.inputs, inputs[rest][:, :width])
        assert np.array_equal(batch.targets, targets[rest][:, :width])
    inputs, _ = mask_tokens(rows.ids, rng=np.random.default_rng(0), **MASKS)
    batch, = consecutive_masked_rows(rows, batch_size=99, **MASKS)
    assert np.array_equal(batch.inputs, inputs[:, :batch.inputs.shape[1]])


def test_wrong_inputs_use_the_documented_random_numbers():
    texts = [random(n).integers(3, 30, 9) for n in range(6)]

    def noise(text, rng):
        return text[::-1], text

    streams = [NoiseStream(texts, noise, 6, 3, *SPECIAL, wrong_inputs=rate) for rate in (0.5, 0)]
    wrong, clean = (stream.batch(4) for stream in streams)
    expected = with_wrong_inputs(clean, 0.5, random(3, 8, 4))
    assert np.array_equal(wrong.outputs, expected.outputs)
    assert not np.array_equal(wrong.outputs, clean.outputs)


def test_a_curriculum_uses_the_documented_random_numbers():
    easy, real = BlockStream(np.arange(9), 8, 1, 0), BlockStream(np.arange(100, 109), 8, 1, 0)
    stream = Curriculum(easy, real, steps=40, seed=3)
    assert [stream.batch(step).inputs[0, 0] >= 100 for step in range(40)] == [
        random(3, 7, step).random() < step / 40 for step in range(40)]


def test_triplets_are_sorted_by_the_longest_of_their_three_rows():
    def rows(*lengths):
        return passage_rows([(np.full(n, 5),) for n in lengths], 20, *SPECIAL)

    triplets = Triplets(rows(1, 2, 3, 4), rows(4, 9, 1, 1), rows(2, 1, 7, 1), [0, 1, 2, 3])
    assert triplets.lengths.tolist() == [6, 11, 9, 6]
    longest = [set(PassageStream(triplets, 2, 0).batch(step).topics) for step in range(2)]
    assert {1, 2} in longest and {0, 3} in longest


def test_passages_are_cut_only_where_they_do_not_fit():
    one, two = (np.array([5]),), (np.array([5]), np.array([6]))
    assert passage_rows([one], 3, *SPECIAL).ids.tolist() == [[1, 5, 2]]
    assert passage_rows([two], 5, *SPECIAL).ids.tolist() == [[1, 5, 2, 6, 2]]
    for passages, length in ((one, 2), (two, 4)):
        with pytest.raises(ValueError, match="must fit into"):
            passage_rows([passages], length, *SPECIAL)


@pytest.mark.parametrize("make", [
    lambda ids: BlockStream(ids, 1, 1, 0), lambda ids: consecutive_blocks(ids, 1),
    lambda ids: labelled_batches(np.zeros(len(ids)), ids),
    lambda ids: pair_batch([(ids, [1])], *SPECIAL), lambda ids: pair_batch([([1], ids)], *SPECIAL),
    lambda ids: passage_rows([(ids,)], 9, *SPECIAL),
    lambda ids: LabelledRows(passage_rows([(np.array([5]),)] * len(ids), 9, *SPECIAL), ids)])
def test_ids_may_be_as_large_as_32_bits_allow(make):
    make(np.array([0, LARGEST]))
    with pytest.raises(ValueError, match=f"0 .. {LARGEST}"):
        make(np.array([0, LARGEST + 1]))


def test_a_batch_counts_its_targets_by_name():
    assert Batch(inputs=np.zeros((2, 3), int), targets=np.array([[1, -100, 2]] * 2)).n_targets == 4


def test_targets_that_are_numbers_all_count():
    """-100 is a number like others where numbers are predicted; only a class can be ignored."""
    targets = np.array([[[1.0, -100.0]], [[-100.0, 2.0]]], np.float32)
    assert Batch(values=np.zeros((2, 1), np.float32), targets=targets).n_targets == 4
    assert Batch(inputs=np.zeros((2, 3)), labels=np.array([-100.0, 0.5])).n_targets == 2
