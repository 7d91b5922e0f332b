"""Blocks to train on, and blocks to measure on."""

from types import SimpleNamespace

import numpy as np
import pytest

from numformer.models import Decoder, DecoderConfig
from numformer.data import BlockStream, Curriculum, consecutive_blocks
from numformer.training import mean_loss

CONFIG = DecoderConfig(vocab_size=11, context_length=8, n_layers=2, n_heads=2, d_model=16,
                       dtype="float64")


def test_a_stream_is_a_function_of_seed_and_step():
    def batches(seed):
        return [BlockStream(np.arange(1000), 8, 4, seed).batch(step).inputs for step in (3, 1, 3)]

    assert np.array_equal(batches(0)[0], batches(0)[2])
    assert not np.array_equal(batches(0)[0], batches(0)[1])
    assert not np.array_equal(batches(0)[0], batches(1)[0])


def test_a_stream_reaches_the_first_and_the_last_token():
    stream = BlockStream(np.arange(10), 8, 50, seed=0)
    inputs, targets = stream.batch(0)
    assert set(inputs[:, 0]) == {0, 1} and targets.max() == 9


def test_consecutive_blocks_hold_every_target_once(rng):
    for n in (9, 16, 17, 18, 100):
        ids = rng.integers(0, 50, n)
        for tokens in (1, 16, 20, 10**6):
            batches = consecutive_blocks(ids, 8, tokens)
            assert all(batch.inputs.size <= max(tokens, 8) for batch in batches)
            targets = np.concatenate([batch.targets.ravel() for batch in batches])
            inputs = np.concatenate([batch.inputs.ravel() for batch in batches])
            assert np.array_equal(targets, ids[1:]) and np.array_equal(inputs, ids[:-1])
    assert [len(batch.inputs) for batch in consecutive_blocks(np.arange(100), 8, blocks=3)] == [3]
    assert consecutive_blocks(np.arange(100), 8, blocks=3)[0].inputs[:, 0].tolist() == [0, 32, 64]


def test_the_loss_over_blocks_is_the_mean_over_tokens(rng):
    model, ids = Decoder(CONFIG, rng), rng.integers(0, 11, 60)
    losses = [float(model.loss((ids[None, t : t + 8], ids[None, t + 1 : t + 9]))[0])
              for t in range(0, 56, 8)]
    last = float(model.loss((ids[None, 56:59], ids[None, 57:60]))[0])
    expected = (8 * sum(losses) + 3 * last) / 59
    for tokens in (1, 16, 4096):
        assert abs(mean_loss(model, consecutive_blocks(ids, 8, tokens)) - expected) < 1e-12


@pytest.mark.parametrize("ids, words", [
    (np.arange(8), "8 tokens is too short"), (np.zeros((3, 30), int), r"shape \(N,\)"),
    (np.array([], int), "empty")])
def test_a_text_too_short_for_a_block_is_refused(ids, words):
    for make in (lambda: BlockStream(ids, 8, 2, 0), lambda: consecutive_blocks(ids, 8)):
        with pytest.raises(ValueError, match=words):
            make()


def test_a_curriculum_gives_way_to_the_real_batches():
    easy, real = (SimpleNamespace(batch=lambda step, name=name: (name, step))
                  for name in ("easy", "real"))
    one, other, third = (Curriculum(easy, real, steps=2000, seed=seed) for seed in (0, 0, 1))
    names = [one.batch(step)[0] for step in range(3000)]
    assert ([other.batch(step) for step in reversed(range(3000))]
            == [(name, step) for step, name in enumerate(names)][::-1])
    assert names != [third.batch(step)[0] for step in range(3000)] and set(names[2000:]) == {"real"}
    assert names[0] == "easy"
    for first in range(0, 2000, 400):
        assert abs(names[first:first + 400].count("easy") - 400 * (1 - (first + 200) / 2000)) < 50
    for steps, seed in ((0, 0), (1.5, 0), (10, -1)):
        with pytest.raises(ValueError, match=f"{'seed' if steps == 10 else 'steps'}="):
            Curriculum(easy, real, steps, seed)
