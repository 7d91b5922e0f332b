"""Views hold the weights, masks, queries, keys and biases of every attention."""

import numpy as np
import pytest

from inspected_decoder import IDS, SIZES, decoder
from numformer.analysis import attention_by_layer
from numformer.analysis.attention_views import Reading, attention_views
from numformer.analysis.capture import capture
from numformer.functional import AttentionPattern, attention_weights, softmax
from numformer.functional.head_projections import join_heads
from numformer.layers import MultiHeadAttention
from numformer.models import (
    Bert, BertConfig, EncoderDecoder, EncoderDecoderConfig, Seq2Seq, Seq2SeqConfig)


def test_padding_is_masked_in_every_view(rng):
    model = EncoderDecoder(EncoderDecoderConfig(**SIZES, init_std=0.5), rng)
    ids, lengths = np.array([[3, 4, 5, 0, 0]]), np.array([3])
    reading = Reading((ids, lengths, ids[:, :2]), list("abcde"), ["[BEGIN]", "x", "y"])
    encoder, _, cross = attention_views(model, reading)
    for view in (encoder, cross):
        assert not any(mask[:, 3:].any() or not mask[:, :3].all() for mask in view.masks)
        assert all((weights[..., 3:] == 0).all() for weights in view.weights)
    (cross,) = attention_views(Seq2Seq(Seq2SeqConfig(vocab_size=7, d_model=4, d_hidden=6), rng),
                               reading)
    assert cross.masks[0].tolist() == 2 * [[True, True, True, False, False]]
    assert (cross.weights[0][..., 3:] == 0).all()


@pytest.mark.parametrize("reading, words", [
    (Reading((IDS,), list("abc")), "3 labels came for 6 queries"),
    (Reading((np.repeat(IDS, 2, 0),), list("abcdef")), "but 2 came")])
def test_a_reading_that_does_not_match_is_an_error(reading, words):
    with pytest.raises(ValueError, match=words):
        attention_views(decoder(), reading)


def test_nan_weights_are_an_error():
    model = decoder()
    model.blocks[0].attention.query.weight.data[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        attention_views(model, Reading((IDS,), list("abcdef")))


@pytest.mark.parametrize("options", [dict(n_kv_heads=1), dict(n_heads=1)], ids=str)
def test_views_of_a_decoder_hold_its_weights_and_scores(options):
    model = decoder(positions="alibi", **options)
    (view,) = attention_views(model, Reading((IDS,), list("abcdef")))
    assert (view.name, view.queries, view.keys) == ("self", list("abcdef"), list("abcdef"))
    for layer, expected in enumerate(attention_by_layer(model, IDS).values()):
        assert np.array_equal(view.weights[layer], expected[0])
        assert np.array_equal(view.masks[layer], np.tri(6, dtype=bool))
        scores = view.q[layer] @ view.k[layer].mT * view.scales[layer] + view.biases[layer]
        np.testing.assert_allclose(softmax(scores, mask=view.masks[layer])[0], expected[0],
                                   rtol=1e-12, atol=1e-15)
        attention, mixed = model.blocks[layer].attention, view.weights[layer] @ view.v[layer]
        with capture(model, type(attention.output)) as calls:
            model(IDS)
        (joined,) = (call.inputs[0] for call in calls if call.layer is attention.output)
        np.testing.assert_allclose(join_heads(mixed[None]), joined, rtol=1e-12)


@pytest.mark.parametrize("options", [
    dict(), dict(positions="t5", scaled_scores=False)], ids=["2017", "T5"])
def test_views_of_an_encoder_decoder_hold_its_weights_and_scores(options):
    config = EncoderDecoderConfig(**{**SIZES, "dtype": "float64", "init_std": 0.5, **options})
    model = EncoderDecoder(config, np.random.default_rng(0))
    inputs = IDS, np.array([6]), IDS[:, :3]
    views = attention_views(model, Reading(inputs, list("abcdef"), ["[", "x", "y", "]"]))
    assert [view.name for view in views] == ["encoder", "decoder", "cross"]
    found = attention_by_layer(model, *inputs)
    names = ("encoder.blocks.{}.attention", "blocks.{}.attention", "blocks.{}.cross_attention")
    for view, name in zip(views, names):
        for layer, expected in enumerate(found[name.format(k)] for k in range(len(model.blocks))):
            assert np.array_equal(view.weights[layer], expected[0])
            bias = 0 if view.biases[layer] is None else view.biases[layer]
            scores = view.q[layer] @ view.k[layer].mT * view.scales[layer] + bias
            np.testing.assert_allclose(softmax(scores, mask=view.masks[layer])[0], expected[0],
                                       rtol=1e-12, atol=1e-15)
    encoder, own, cross = views
    assert encoder.queries == cross.keys == list("abcdef") and own.keys == ["[", "x", "y"]
    assert cross.queries == ["x", "y", "]"]


def test_views_of_local_layers_have_local_masks():
    config = BertConfig(**SIZES, sliding_window=2, layer_types="full_attention,sliding_attention")
    model = Bert(config, np.random.default_rng(0))
    (view,) = attention_views(model, Reading((IDS,), list("abcdef")))
    local = AttentionPattern(window=(1, 1)).dense(6, 6)
    assert [np.array_equal(mask, local) for mask in view.masks] == [False, True, False]


def test_queries_and_keys_give_the_weights(rng):
    layer = MultiHeadAttention(8, 2, rng, query_key_norm=True, dtype=np.float64)
    x, context = rng.standard_normal((1, 3, 8)), rng.standard_normal((1, 5, 8))
    _, saved = layer.forward(x, context)
    q, k, pattern = layer.queries_and_keys(saved)
    assert q.shape == (1, 2, 3, 4) and k.shape == (1, 2, 5, 4)
    assert np.array_equal(attention_weights(q, k, pattern), layer.attention_weights(saved))
