"""Masks of whole models, steps of attention, gates of an LSTM and sizes of published models."""

import numpy as np
import pytest

from numformer.analysis import attention_mask_of, attention_steps, count, lstm_gates, model_sizes
from numformer.functional import CAUSAL, lstm_cell
from numformer.layers import LSTM, RNN, Linear, MultiHeadAttention
from numformer.models import (
    CONFIGS, VISION_CONFIGS, Bert, BertConfig, Decoder, DecoderConfig, EncoderDecoder,
    EncoderDecoderConfig)

SIZES = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=8)


def test_masks_are_those_that_outputs_depend_on(rng):
    """A token that the mask hides does not change the logits; one that it shows does."""
    sizes, ids = {**SIZES, "n_layers": 1, "dtype": "float64"}, np.array([[1, 2, 3, 4]])
    encoder = Bert(BertConfig(**sizes), rng)
    decoder = Decoder(DecoderConfig(**sizes), rng)
    local = Decoder(DecoderConfig(**sizes, sliding_window=2), rng)
    for model, logits, expected in (
            (encoder, encoder.masked_logits, np.ones((4, 4))), (decoder, decoder, np.tri(4)),
            (local, local, np.tri(4) - np.tri(4, k=-2))):
        mask = attention_mask_of(model, ids)
        assert np.array_equal(mask, expected)
        for j in range(4):
            other = ids.copy()
            other[0, j] = 8
            changed = np.abs(logits(other) - logits(ids))[0] > 1e-12
            assert np.array_equal(changed.any(axis=1), mask[:, j])


def test_the_mask_of_an_encoder_decoder_has_four_parts(rng):
    model = EncoderDecoder(EncoderDecoderConfig(**SIZES), rng)
    inputs, outputs = np.array([[1, 2, 0]]), np.array([[3, 4]])
    assert attention_mask_of(model, inputs, np.array([2]), outputs).astype(int).tolist() == [
        [1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 1, 1]]


def test_models_without_attention_have_no_mask(rng):
    with pytest.raises(ValueError, match="Linear has no attention"):
        attention_mask_of(Linear(3, 4, rng), np.ones((1, 2, 3), np.float32))
    with pytest.raises(TypeError, match="must be a Layer"):
        attention_mask_of("gpt2")


def test_steps_of_attention_are_those_of_the_layer(rng):
    layer, x = MultiHeadAttention(4, 1, rng, dtype=np.float64), rng.standard_normal((3, 4))
    steps = attention_steps(layer, x, CAUSAL)
    np.testing.assert_allclose(steps["scores"], steps["queries"] @ steps["keys"].T / 2, rtol=1e-12)
    assert not np.triu(steps["weights"], 1).any()
    np.testing.assert_allclose(steps["weights"].sum(axis=1), 1, rtol=1e-12)
    v = x @ layer.value.weight.data + layer.value.bias.data
    y = steps["weights"] @ v @ layer.output.weight.data + layer.output.bias.data
    np.testing.assert_allclose(steps["outputs"], y, rtol=1e-12)
    with pytest.raises(ValueError, match="the layer has 2 heads"):
        attention_steps(MultiHeadAttention(4, 2, rng), x)


def test_gates_of_an_lstm_give_its_cell_and_output(rng):
    layer, x = LSTM(3, 4, rng, dtype=np.float64), rng.standard_normal((2, 5, 3))
    found = lstm_gates(layer, x)
    np.testing.assert_allclose(found["state"], layer(x), rtol=1e-12)
    np.testing.assert_allclose(found["output"] * np.tanh(found["cell"]), found["state"], rtol=1e-12)
    assert all(((0 < found[name]) & (found[name] < 1)).all()
               for name in ("input", "forget", "output"))
    state, _ = lstm_cell(x[:, 0], np.zeros((2, 8)), layer.input.weight.data,
                         layer.recurrent_weight.data, layer.input.bias.data)
    np.testing.assert_allclose(found["cell"][:, 0], state[:, 4:], rtol=1e-12)
    closed = found["cell"][:, 1] - found["forget"][:, 1] * found["cell"][:, 0]
    assert (np.abs(closed) <= found["input"][:, 1]).all(), "the candidate is between -1 and 1"


def test_gates_of_another_layer_are_refused(rng):
    with pytest.raises(TypeError, match="must be an LSTM"):
        lstm_gates(RNN(3, 4, rng), np.ones((1, 2, 3), np.float32))
    with pytest.raises(ValueError, match="runs forwards"):
        lstm_gates(LSTM(3, 4, rng, reverse=True), np.ones((1, 2, 3), np.float32))
    with pytest.raises(ValueError, match="C=3"):
        lstm_gates(LSTM(3, 4, rng), np.ones((1, 2, 5), np.float32))


def test_sizes_of_published_models_are_counted_and_in_order_of_their_dates():
    sizes, configs = model_sizes(), CONFIGS | VISION_CONFIGS
    assert all(size.parameters == count(configs[size.name])["parameters"] for size in sizes)
    assert [size.year for size in sizes] == sorted(size.year for size in sizes)
    for size in sizes:                                    # an arXiv number begins with its date
        if "arXiv:" in size.source:
            year, month = divmod(int(size.source.split("arXiv:")[1].split(".")[0]), 100)
            assert size.year == pytest.approx(2000 + year + (month - 0.5) / 12)
