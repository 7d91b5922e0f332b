"""Linear, low-rank and sparse attention as layers: in a decoder, in an encoder, step by step."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE
from numformer.layers import LinearAttention, LowRankAttention, MultiHeadAttention, SparseAttention
from numformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig

C, H, T = 8, 2, 9


def dense_as(layer):
    """A `MultiHeadAttention` with the same projections."""
    dense = MultiHeadAttention(C, H, np.random.default_rng(0), dtype=np.float64)
    state = {name: x for name, x in layer.state_dict().items() if name.split(".")[0] in (
        "query", "key", "value", "output")}
    dense.load_state_dict(state)
    return dense


def test_a_sparse_layer_is_multi_head_attention_with_its_mask(rng):
    x, dy = rng.standard_normal((2, 3, T, C))
    for kind, keys in (("strided", F.strided_keys(T, 3)), ("fixed", F.fixed_keys(T, 3))):
        layer = SparseAttention(C, H, 3, rng, kind, dtype=np.float64)
        dense, mask = dense_as(layer), F.AttentionPattern(mask=F.mask_of_keys(keys))
        (y, saved), (expected, saved_dense) = (
            layer.forward(x, pattern=CAUSAL), dense.forward(x, pattern=mask))
        np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(layer.backward(dy, saved), dense.backward(dy, saved_dense),
                                   rtol=1e-9, atol=1e-11)


def test_a_low_rank_layer_that_mixes_nothing_is_multi_head_attention(rng):
    layer = LowRankAttention(C, H, T, T, rng, dtype=np.float64)
    for projection in (layer.key_projection, layer.value_projection):
        projection.data[:] = np.eye(T)
    x = rng.standard_normal((2, T, C))
    np.testing.assert_allclose(layer(x), dense_as(layer)(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("make", [
    lambda rng: LinearAttention(C, H, rng, dtype=np.float64),
    lambda rng: SparseAttention(C, H, 3, rng, "fixed", dtype=np.float64)])
def test_a_decoder_trains_with_it_and_continues_texts(make, rng):
    config = DecoderConfig(vocab_size=7, context_length=T, n_layers=2, n_heads=H, d_model=C,
                           dtype="float64", init_std=0.3)
    model = Decoder(config, rng)
    for block in model.blocks:
        block.attention = block.branches["attention"].sublayer = make(rng)
    ids = rng.integers(0, 7, (3, T + 1))
    loss, saved = model.loss((ids[:, :-1], ids[:, 1:]))
    model.loss_backward(saved)
    gradient = sum((parameter.grad ** 2).sum() for parameter in model.parameters())
    for parameter in model.parameters():
        parameter.data -= 0.05 / gradient ** 0.5 * parameter.grad
    assert model.loss((ids[:, :-1], ids[:, 1:]))[0] < loss

    logits, cache = model.step(ids[:, :4])
    parts = [logits]
    for t in range(4, T):
        logits, cache = model.step(ids[:, t:t + 1], cache)
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), model(ids[:, :-1]), rtol=1e-9,
                               atol=1e-11)
    assert len(cache) == T and len(cache.rows(np.array([0, 0])).blocks[0].k) == 2


def test_a_state_of_linear_attention_knows_how_many_positions_it_holds(rng):
    layer, x, state = LinearAttention(C, H, rng), rng.standard_normal((2, T, C), np.float32), None
    lengths = []
    for part in (x[:, :4], x[:, 4:5], x[:, 5:]):
        _, state = layer.step(part, state)
        lengths.append(len(state))
    assert lengths == [4, 5, T]


def test_an_encoder_holds_low_rank_attention(rng):
    encoder = Encoder(EncoderConfig(n_layers=2, n_heads=H, d_model=C, dtype="float64"), rng)
    for block in encoder.blocks:
        block.attention = block.branches["attention"].sublayer = LowRankAttention(
            C, H, T, 3, rng, dtype=np.float64)
    y, saved = encoder.forward(rng.standard_normal((2, T, C)))
    assert y.shape == encoder.backward(y, saved).shape == (2, T, C)


def test_patterns_that_do_not_fit_are_named(rng):
    x = rng.standard_normal((2, T, C), np.float32)
    with pytest.raises(ValueError, match="SparseAttention: it is always causal"):
        SparseAttention(C, H, 3, rng)(x, pattern=EVERYWHERE)
    with pytest.raises(ValueError, match="LowRankAttention: it cannot be causal"):
        LowRankAttention(C, H, T, 3, rng)(x, pattern=CAUSAL)
    with pytest.raises(ValueError, match="step continues a text"):
        LinearAttention(C, H, rng).step(x, pattern=EVERYWHERE)
    with pytest.raises(ValueError, match="has a rule lengths"):
        LinearAttention(C, H, rng)(x, pattern=F.AttentionPattern(lengths=[3, 4]))
    with pytest.raises(ValueError, match="'strided', 'fixed'"):
        SparseAttention(C, H, 3, rng, kind="random")
