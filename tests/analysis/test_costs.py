"""Predicted costs equal measured ones."""

import numpy as np
import pytest

from marks import every
from numformer.analysis import count, costs, model_costs
from numformer.models import (
    GPT2, LLAMA, TRANSFORMER_2017, BertConfig, DecoderConfig, Seq2Seq, Seq2SeqConfig,
    VisionTransformerConfig)

SIZES = dict(vocab_size=7, context_length=12, n_layers=3, n_heads=2, d_model=8)


@pytest.mark.parametrize("options", every(4, [
    GPT2, LLAMA, TRANSFORMER_2017, dict(bias=False), dict(n_kv_heads=1, positions="alibi"),
    dict(n_heads=8, positions="alibi"), dict(tied=False, feedforward="relu"),
    dict(feedforward="geglu", norm="rms_norm"),
    dict(norm_first=False, positions="sinusoidal", feedforward="relu_squared"),
    dict(positions="none", feedforward="silu", dtype="float64"),
    dict(query_key_norm=True, n_kv_heads=2, bias=False)]),
    ids=lambda options: str(len(str(options))))
def test_predicted_costs_are_the_measured_ones(options):
    sizes = dict(vocab_size=11, context_length=24, n_layers=2, n_heads=4, d_model=16, dropout=0.0)
    config = DecoderConfig(**{**sizes, **options, **dict.fromkeys(("dropout",), 0.0)})
    for length in (None, 7):
        rows = model_costs(config, length)
        assert {row["quantity"] for row in rows} == {
            "parameters", "flops", "activations", "kv_cache"}
        for row in rows:
            assert row["predicted"] == pytest.approx(row["measured"], rel=1e-12), row
        predicted = sum(row["predicted"] for row in rows if row["quantity"] == "parameters")
        assert predicted == count(config)["parameters"], "no part is left out"


def test_models_up_to_a_size_are_measured(monkeypatch):
    config = DecoderConfig(**SIZES)
    parameters = count(config)["parameters"]
    monkeypatch.setattr(costs, "LARGEST", parameters)
    assert model_costs(config)
    monkeypatch.setattr(costs, "LARGEST", parameters - 1)
    with pytest.raises(ValueError, match="too large to build"):
        model_costs(config)


def test_costs_of_another_model_are_an_error():
    with pytest.raises(TypeError, match="DecoderConfig"):
        model_costs(BertConfig(**SIZES))


@pytest.mark.parametrize("options", [
    dict(n_experts=2), dict(dropout=0.1), dict(d_head=3), dict(qkv_bias=False),
    dict(lm_head_bias=True), dict(d_rotary=2), dict(sliding_window=4)],
    ids=str)
def test_costs_that_the_formulas_do_not_cover_are_an_error(options):
    (name, value), = options.items()
    with pytest.raises(ValueError, match=f"model_costs: {name}={value} is not covered"):
        model_costs(DecoderConfig(**SIZES, **options))


@pytest.mark.parametrize("pooling, T", [("class", 10), ("mean", 9)])
def test_flops_of_an_image_by_hand(pooling, T):
    """Three patches in a row, width 4, hidden 6: all matrix products, scores and sums of values."""
    found = count(VisionTransformerConfig(
        image_size=6, patch_size=2, channels=3, n_classes=5, n_layers=2, n_heads=2, d_model=4,
        d_hidden=6, pooling=pooling))
    per_vector, pairs = 4 * 16 + 2 * 4 * 6, 2 * T * T * 4
    assert found["flops_per_image"] == 2 * (9 * 12 * 4 + 2 * (T * per_vector + pairs) + 4 * 5)
    assert found["training_flops_per_image"] == 3 * found["flops_per_image"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("attention", ["additive", "general", "dot", "none"])
def test_what_writing_keeps_of_a_source_grows_with_it_where_there_is_attention(
        attention, dtype, rng):
    config = Seq2SeqConfig(vocab_size=9, d_model=3, d_hidden=4, attention=attention, dtype=dtype)
    model, kept = Seq2Seq(config, rng), []
    for S in (5, 8):
        cache = model.begin(rng.integers(3, 9, (1, S)), np.array([S]))
        vectors = {id(x): x.nbytes for x in cache.memory if x is not None and x.dtype == dtype}
        kept.append(sum(vectors.values()))
    found = count(config)
    assert set(found) == {"parameters", "kv_bytes_per_source_token", "state_bytes"}
    assert kept == [S * found["kv_bytes_per_source_token"] for S in (5, 8)]
    assert (found["kv_bytes_per_source_token"] == 0) == (attention == "none")
    assert found["state_bytes"] == cache.state.nbytes
