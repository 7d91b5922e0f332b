"""Adapters of low rank: what is trained, what is merged, what is kept apart."""

import json

import numpy as np
import pytest

from marks import every
from numformer.data import Batch
from numformer.functional import low_rank_linear, low_rank_linear_backward
from numformer.generation import generate_batch
from numformer.layers import (
    FeedForward, Linear, LowRankLinear, adapter_state, add_adapters, base_digest, load_adapters,
    merged)
from numformer.layers.token_step import TokenStep
from numformer.models import Decoder, DecoderConfig
from numformer.parameter import Layer
from numformer.training import OPTIMIZERS, TrainingConfig
from numformer.training.parallel.shards import Shards
from numformer.verify.registry import MODELS

SIZES = dict(vocab_size=11, context_length=8, n_layers=2, n_heads=2, d_model=16)
ALL = "query", "key", "value", "attention.output", "feedforward.hidden", "feedforward.output"


def decoder(dtype="float32", **options):
    return Decoder(DecoderConfig(**SIZES, dtype=dtype, **options), np.random.default_rng(0))


def adapted(names=ALL, dtype="float32", **options):
    """A decoder whose adapters are no longer 0."""
    model = add_adapters(decoder(dtype), 3, np.random.default_rng(1), names, **options)
    rng = np.random.default_rng(2)
    for name, parameter in model.trained_parameters().items():
        if name.endswith(".up"):
            parameter.data += 0.1 * rng.standard_normal(parameter.data.shape).astype(dtype)
    return model


def some_batch():
    ids = np.random.default_rng(3).integers(0, 11, (8, 8))
    return Batch(inputs=ids, targets=np.roll(ids, -1, axis=1))


@pytest.mark.parametrize("rank_stabilized", [False, True])
def test_the_layer_computes_the_function(rng, rank_stabilized):
    layer = LowRankLinear(Linear(4, 6, rng, dtype=np.float64), 2, rng, 3.0, rank_stabilized)
    layer.up.data[...] = rng.standard_normal((2, 6))
    x, dy = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3, 6))
    parts = [layer.weight, layer.bias, layer.down, layer.up]
    y, saved = low_rank_linear(x, *(part.data for part in parts), 3.0, rank_stabilized)
    dx, *gradients = low_rank_linear_backward(dy, saved)
    mine, saved_mine = layer.forward(x)
    np.testing.assert_allclose(mine, y, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(layer.backward(dy, saved_mine), dx, rtol=1e-12, atol=1e-13)
    for part, gradient in zip(parts, gradients):
        np.testing.assert_allclose(part.grad, gradient, rtol=1e-12, atol=1e-13)


def test_at_first_the_model_is_as_before_and_only_the_second_matrix_moves():
    """B is 0, so the first gradient of A is 0; if both were, nothing would ever move."""
    model, plain = add_adapters(decoder(), 3, np.random.default_rng(1)), decoder()
    np.testing.assert_array_equal(model(some_batch().inputs), plain(some_batch().inputs))
    assert model.state_dict().keys() > plain.state_dict().keys()
    _, saved = model.loss(some_batch())
    model.loss_backward(saved)
    for name, parameter in model.named_parameters():
        assert parameter.trained == name.endswith((".down", ".up"))
        assert parameter.grad.any() == name.endswith(".up"), name


@pytest.mark.parametrize("settings", [{}, dict(shards=4)])
def test_a_training_moves_adapters_alone(settings):
    model = adapted()
    before, digest = model.state_dict(), base_digest(model)
    config = TrainingConfig(steps=1, batch_size=8, weight_decay=0.5, **settings)
    optimizer = OPTIMIZERS["adamw"](model, config)
    Shards(model, optimizer, config).gradient(some_batch(), 0)
    optimizer.step(0.01)
    moved = {name for name, x in model.state_dict().items() if not np.array_equal(x, before[name])}
    assert moved == model.trained_parameters().keys() and base_digest(model) == digest
    assert len(moved) == 2 * 2 * len(ALL)


@pytest.mark.parametrize("dtype, bound", [("float32", 2e-5), ("float64", 1e-12)])
def test_a_merged_model_is_plain_and_computes_the_same(dtype, bound):
    model = adapted(dtype=dtype)
    before = model.state_dict()
    plain, ids = merged(model), some_batch().inputs
    assert plain.state_dict().keys() == decoder().state_dict().keys()
    assert not any(isinstance(layer, LowRankLinear) for _, layer in plain.named_layers())
    assert len(plain.trained_parameters()) == len(plain.parameters())
    assert np.abs(plain(ids) - model(ids)).max() <= bound
    assert np.abs(decoder(dtype)(ids) - model(ids)).max() > 0.01
    for parameter in plain.parameters():              # it has memory of its own
        parameter.data += 1
    assert all(np.array_equal(x, before[name]) for name, x in model.state_dict().items())
    decoder().load_state_dict(merged(model).state_dict())


def test_a_merged_model_is_known_to_the_compiled_step():
    plain, model = merged(adapted()), adapted()
    assert TokenStep.knows(plain.blocks, plain.norm, plain.head) == TokenStep.knows(
        decoder().blocks, decoder().norm, decoder().head)
    assert not TokenStep.knows(model.blocks, model.norm, model.head)


def test_steps_of_an_adapted_decoder_are_those_of_the_merged_one():
    ids = some_batch().inputs
    for model in (adapted(), merged(adapted())):
        _, cache = model.step(ids[:, :5])
        logits, _ = model.step(ids[:, 5:], cache)
        np.testing.assert_allclose(logits, merged(adapted())(ids)[:, 5:], atol=2e-5)
    texts = [list(generate_batch(model, [np.array([1, 2, 3])], 4, temperature=0))
             for model in (adapted(), merged(adapted()))]
    assert np.array_equal(*texts)


def test_adapters_are_kept_apart_and_loaded_into_the_same_weights():
    model = adapted(alpha=3.0, rank_stabilized=True)
    arrays, facts = adapter_state(model)
    assert arrays.keys() == model.trained_parameters().keys()
    facts = json.loads(json.dumps(facts))
    again, ids = load_adapters(decoder(), arrays, facts), some_batch().inputs
    np.testing.assert_array_equal(again(ids), model(ids))
    assert again.trained_parameters().keys() == arrays.keys()
    arrays["blocks.0.attention.query.up"][...] = 7                    # a copy: nothing changes
    np.testing.assert_array_equal(again(ids), model(ids))


def test_adapters_refuse_other_weights_and_other_arrays():
    arrays, facts = adapter_state(adapted())
    other = decoder()
    other.norm.weight.data[0] += 1e-3
    before = other.state_dict()
    with pytest.raises(ValueError, match="trained on other weights"):
        load_adapters(other, arrays, facts)
    assert other.state_dict().keys() == before.keys() == other.trained_parameters().keys()
    name = "blocks.0.attention.query.up"
    for wrong, words in [({**arrays, "x": arrays[name]}, "unexpected: x"),
                         ({k: x for k, x in arrays.items() if k != name}, f"missing: {name}"),
                         ({**arrays, name: arrays[name][:1]}, "must be floats of shape"),
                         ({**arrays, name: arrays[name].astype(int)}, "must be floats")]:
        with pytest.raises(ValueError, match=words):
            load_adapters(decoder(), wrong, facts)
    with pytest.raises(TypeError, match="has an adapter already"):
        load_adapters(adapted(), arrays, facts)


def tied():
    """Two maps over one weight."""
    model = Layer()
    model.one, model.two = (Linear(4, 4, np.random.default_rng(0)) for _ in range(2))
    model.two.weight = model.one.weight
    return model


@pytest.mark.parametrize("make, names, error, words", [
    (decoder, [], ValueError, "names is empty"),
    (decoder, ["quarry"], ValueError, "no layer of this Decoder has the name 'quarry'"),
    (decoder, ["embedding"], TypeError, "embedding is a Embedding, but must be a Linear"),
    (decoder, ["head"], TypeError, "head is a LMHead"),
    (adapted, ["query"], TypeError, "merge it first"),
    (tied, ["one"], ValueError, "two has the weight of one, too"),
    (lambda: Linear(4, 4, np.random.default_rng(0)), [""], TypeError, "itself a Linear")])
def test_what_cannot_be_adapted_is_refused(make, names, error, words):
    model = make()
    before = model.state_dict()
    with pytest.raises(error, match=words):
        add_adapters(model, 2, np.random.default_rng(1), names)
    assert model.state_dict().keys() == before.keys()


def test_maps_in_lists_tuples_and_dicts_are_found():
    model, x = Layer(), np.ones((1, 4), np.float32)
    maps = [Linear(4, 4, np.random.default_rng(k)) for k in range(3)]
    model.some, model.pair, model.named = [maps[0]], (maps[1], 5), {"a": maps[2]}
    add_adapters(model, 2, np.random.default_rng(1), ["0", "a"])
    for layer in (model.some[0], model.pair[0], model.named["a"]):
        layer.up.data[...] = 1
    plain = merged(model)
    for one, other, before in ((plain.some[0], model.some[0], maps[0]),
                               (plain.pair[0], model.pair[0], maps[1]),
                               (plain.named["a"], model.named["a"], maps[2])):
        assert type(one) is Linear and model.pair[1] == 5
        np.testing.assert_allclose(one(x), other(x), rtol=1e-5)
        assert not np.allclose(other(x), before(x))


@pytest.mark.parametrize("rank", [0, 17, 2.5])
def test_a_rank_is_at_most_that_of_the_weight(rank):
    model = decoder()
    with pytest.raises((ValueError, TypeError), match="rank of blocks.0.attention.query"):
        add_adapters(model, rank, np.random.default_rng(1))
    assert len(model.trained_parameters()) == len(model.parameters())


def test_a_plain_model_has_nothing_to_merge_or_to_keep():
    with pytest.raises(ValueError, match="has no adapters"):
        merged(merged(adapted()))
    with pytest.raises(ValueError, match="has no adapters"):
        adapter_state(decoder())
    with pytest.raises(TypeError, match="must be a Linear, but is a FeedForward"):
        LowRankLinear(FeedForward(4, 8, "relu", np.random.default_rng(0)), 2, None)


def adaptable(case):
    maps = {name.rpartition(".")[2] for name, layer in case.layer().named_layers()
            if type(layer) is Linear}
    return {"query", "value"} <= maps


@pytest.mark.parametrize("case", every(8, filter(adaptable, MODELS)), ids=lambda case: case.name)
def test_every_model_with_attention_may_have_adapters(case):
    """At all maps to queries and values; merged, it computes the same."""
    model, inputs = case.layer(), case.inputs()
    plain = model.forward(*inputs, **case.options())[0]
    add_adapters(model, 1, np.random.default_rng(1))
    for parameter in model.trained_parameters().values():
        parameter.data[...] = 0.5
    y, together = (each.forward(*inputs, **case.options())[0] for each in (model, merged(model)))
    np.testing.assert_allclose(together, y, rtol=1e-9, atol=1e-9)
    assert not np.array_equal(y, plain)
