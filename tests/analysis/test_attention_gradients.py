"""q, k, v and do of every attention are those of the model's own forward and backward."""

import numpy as np
import pytest

from numformer.analysis import attention_gradients
from numformer.functional.attention.core import attention, attention_backward
from numformer.models import (
    Decoder, DecoderConfig, RecurrentLanguageModel, RecurrentLanguageModelConfig)

SIZES = dict(vocab_size=7, context_length=12, n_layers=2, n_heads=4, d_model=16, dtype="float64")
IDS = np.array([[1, 2, 3, 4, 5, 6]])


@pytest.mark.parametrize("options", [
    {}, dict(positions="rotary", query_key_norm=True), dict(n_kv_heads=2, positions="rotary")],
    ids=str)
def test_values_and_output_gradients_give_the_gradient_of_the_value_projection(options):
    model = Decoder(DecoderConfig(**SIZES, **options, init_std=0.5), np.random.default_rng(0))
    ids, targets = IDS[:, :-1], IDS[:, 1:]
    layers = attention_gradients(model, ids, targets)
    assert not any(parameter.grad.any() for parameter in model.parameters())
    _, saved = model.loss((ids, targets))
    model.loss_backward(saved)
    for found, block in zip(layers, model.blocks, strict=True):
        q, k, v, do = (x[None] for x in found[:4])                    # (1, H, T, D)
        o, saved = attention(q, k, v, found.mask)
        _, _, dv = attention_backward(do, saved)
        H, G, D = 4, block.attention.n_kv_heads, q.shape[-1]
        dv = dv.reshape(G, H // G, -1, D).sum(axis=1)                 # (G, T, D)
        np.testing.assert_allclose(dv.sum(axis=1).ravel(), block.attention.value.bias.grad,
                                   rtol=1e-10, atol=1e-14)
        joined = o[0].transpose(1, 0, 2).reshape(-1, H * D)           # (T, C)
        do_joined = do[0].transpose(1, 0, 2).reshape(-1, H * D)
        dweight = block.attention.output.weight.grad
        np.testing.assert_allclose((joined * do_joined).sum(),        # <o, do> = <W, dW>
                                   (dweight * block.attention.output.weight.data).sum(),
                                   rtol=1e-10, atol=1e-14)


def test_other_models_raise_an_error():
    config = RecurrentLanguageModelConfig(vocab_size=7, context_length=8, n_layers=1, d_model=4)
    with pytest.raises(ValueError, match="give a Decoder"):
        attention_gradients(RecurrentLanguageModel(config, np.random.default_rng(0)), IDS, IDS)
    model = Decoder(DecoderConfig(**SIZES, positions="alibi"), np.random.default_rng(0))
    with pytest.raises(ValueError, match="position biases"):
        attention_gradients(model, IDS, IDS)
