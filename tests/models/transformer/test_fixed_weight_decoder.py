"""Decoders whose attention has no queries and keys: parameters, steps, causality, refusals."""

import numpy as np
import pytest

from numformer.layers import FixedWeightAttention, MultiHeadAttention
from numformer.models import Decoder, DecoderConfig

SIZES = dict(vocab_size=9, context_length=12, n_layers=2, n_heads=2, d_model=8, dtype="float64")


def decoder(rng, kind, **options):
    return Decoder(DecoderConfig(**SIZES, attention_weights=kind, **options), rng)


@pytest.mark.parametrize("kind", ["even", "distance"])
def test_there_are_no_queries_and_keys(kind, rng):
    model = decoder(rng, kind)
    names = [name for name, _ in model.named_parameters()]
    assert not [name for name in names if "query" in name or "key" in name]
    assert ("blocks.0.attention.slopes" in names) == (kind == "distance")


@pytest.mark.parametrize("options", [{}, dict(sliding_window=3)])
@pytest.mark.parametrize("kind", ["even", "distance"])
def test_steps_equal_the_forward_with_left_padding_too(kind, options, rng):
    model, ids = decoder(rng, kind, **options), rng.integers(0, 9, (2, 7))
    whole, cache, parts = model(ids), None, []
    for part in (ids[:, :3], ids[:, 3:4], ids[:, 4:]):
        logits, cache = model.step(part, cache)
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-10)
    assert cache.blocks[0].k.shape[3] == 0, "no memory for keys"
    padded = np.concatenate([np.zeros((2, 2), int), ids], axis=1)
    logits, _ = model.step(padded, left_padding=np.array([2, 2]))
    np.testing.assert_allclose(logits[:, 2:], whole, rtol=1e-10)


@pytest.mark.parametrize("kind", ["even", "distance"])
def test_weights_are_those_of_any_text_and_later_tokens_change_nothing(kind, rng):
    model, ids = decoder(rng, kind), rng.integers(0, 9, (1, 6))
    other = ids.copy()
    other[0, 4:] = (ids[0, 4:] + 1) % 9
    np.testing.assert_array_equal(model(ids)[:, :4], model(other)[:, :4])
    layer, pairs = model.blocks[0].attention, []
    for x in rng.standard_normal((2, 1, 6, 8)):
        pairs.append(layer.attention_weights(layer.forward(x)[1]))
    assert type(layer) is FixedWeightAttention and pairs[0].shape == (1, 2, 6, 6)
    np.testing.assert_array_equal(*pairs)


def test_weights_of_queries_and_keys_differ_from_text_to_text(rng):
    layer = MultiHeadAttention(8, 2, rng, dtype=np.float64)
    one, other = (layer.attention_weights(layer.forward(x)[1])
                  for x in rng.standard_normal((2, 1, 6, 8)))
    assert (np.abs(one - other) > 1e-9).all()


@pytest.mark.parametrize("options, words", [
    (dict(attention_weights="equal"), "attention_weights='equal'"),
    (dict(attention_weights="even", positions="rotary"), "for which positions='rotary'"),
    (dict(attention_weights="even", n_kv_heads=1), "for which n_kv_heads=1"),
    (dict(attention_weights="distance", score_softcap=3.0), "for which score_softcap=3.0"),
])
def test_options_of_queries_and_keys_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        DecoderConfig(**{**SIZES, **options})
