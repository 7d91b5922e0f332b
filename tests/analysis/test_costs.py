"""Predicted costs equal measured ones."""

import pytest

from numformer.analysis import model_costs
from numformer.models import BertConfig, DecoderConfig, GPT2, LLAMA, TRANSFORMER_2017

SIZES = dict(vocab_size=7, context_length=12, n_layers=3, n_heads=2, d_model=8)


@pytest.mark.parametrize("options", [
    GPT2, LLAMA, TRANSFORMER_2017, dict(bias=False), dict(n_kv_heads=1, positions="alibi"),
    dict(n_heads=8, positions="alibi"), dict(tied=False, feedforward="relu"),
    dict(feedforward="geglu", norm="rms_norm"),
    dict(norm_first=False, positions="sinusoidal", feedforward="relu_squared"),
    dict(positions="none", feedforward="silu", dtype="float64"),
    dict(query_key_norm=True, n_kv_heads=2, bias=False)],
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


def test_costs_of_another_model_are_an_error():
    with pytest.raises(TypeError, match="DecoderConfig"):
        model_costs(BertConfig(**SIZES))
