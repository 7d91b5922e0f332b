"""Buckets: a block's own gradients, finished when the backward has left it for the last time."""

import numpy as np
import pytest

from numformer.models import (
    Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig)
from numformer.training.parallel.buckets import REST, blocks_of, buckets_of, watched

CONFIG = DecoderConfig(vocab_size=7, context_length=6, n_layers=3, n_heads=2, d_model=8)


@pytest.fixture
def model(rng):
    return Decoder(CONFIG, rng)


def batch(rng):
    ids = rng.integers(0, 7, (2, 7))
    return ids[:, :-1], ids[:, 1:]


def test_buckets_are_blocks_and_a_rest(model):
    found = buckets_of(model)
    assert list(found) == [name for name, _ in model.named_parameters()]
    assert set(found.values()) == {REST, "blocks.0", "blocks.1", "blocks.2"}
    assert all(name.startswith(bucket) for name, bucket in found.items())
    assert found["embedding.weight"] == found["norm.weight"] == REST


def test_what_two_blocks_share_is_in_the_rest(model):
    model.blocks[2].attention.query.weight = model.blocks[0].attention.query.weight
    assert buckets_of(model)["blocks.0.attention.query.weight"] == REST
    model.other = model.blocks[1].attention
    assert buckets_of(model)["blocks.1.attention.key.weight"] == REST
    assert buckets_of(model)["blocks.1.feedforward.hidden.weight"] == "blocks.1"


def test_both_stacks_of_an_encoder_decoder_have_blocks(rng):
    config = EncoderDecoderConfig(vocab_size=9, context_length=6, n_layers=2, n_heads=2, d_model=8)
    names = list(blocks_of(EncoderDecoder(config, rng)))
    assert len(names) == 4 and sum(name.startswith("encoder.") for name in names) == 2


def test_gradients_of_a_finished_block_change_no_more(model, rng):
    data, seen = batch(rng), {}

    def finished(name):
        seen[name] = [p.grad.copy() for p in blocks_of(model)[name].parameters()]

    with watched(blocks_of(model), finished):
        loss, saved = model.loss(data)
        assert not seen
        model.loss_backward(saved)
    assert list(seen) == ["blocks.2", "blocks.1", "blocks.0"]
    for name, gradients in seen.items():
        assert all(np.array_equal(a, p.grad) and a.any() for a, p in zip(
            gradients, blocks_of(model)[name].parameters()) if p.grad.any())
    assert "forward" not in vars(model.blocks[0]) and "backward" not in vars(model.blocks[0])


def test_a_block_that_runs_twice_is_finished_after_its_second_backward(model, rng):
    seen = []
    with watched(blocks_of(model), seen.append):
        saved = [model.loss(batch(rng))[1] for _ in range(2)]
        model.loss_backward(saved[1])
        assert not seen
        model.loss_backward(saved[0])
    assert seen == ["blocks.2", "blocks.1", "blocks.0"]
