"""The encoder-decoder: padding, time, writing in steps, what is shared, published sizes, and what
it refuses.
"""

import numpy as np
import pytest

from marks import slow_among
from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import (
    CrossAttentionBranch, FeedForward, KeyValueCache, LayerNorm, MultiHeadAttention, ResidualBranch,
    RotaryPositions, SelfAttentionBranch, TransformerBlock)
from numformer.analysis import attention_by_layer, count
from numformer.models import (
    BART, ENCODER_DECODERS, T5, EncoderDecoder, EncoderDecoderConfig)
from numformer.data import pair_batch

SIZES = dict(vocab_size=11, context_length=12, n_layers=2, n_heads=2, d_model=16, dtype="float64")
STYLES = {"2017": dict(), "T5": T5, "BART": BART,
          "rotary": dict(positions="rotary", norm_first=True, feedforward="swiglu", n_kv_heads=1),
          "alibi": dict(positions="alibi", tied=False)}


def model_of(style, rng, **options):
    model = EncoderDecoder(EncoderDecoderConfig(**{**STYLES[style], **SIZES, **options}), rng)
    for parameter in model.parameters():
        parameter.data += 0.1 * rng.standard_normal(parameter.data.shape)
    return model


def some_ids(rng):
    return rng.integers(3, 11, (3, 6)), np.array([6, 2, 4]), rng.integers(3, 11, (3, 5))


@pytest.mark.parametrize("style", STYLES)
def test_padding_does_not_change_other_logits(style, rng):
    model, (inputs, lengths, outputs) = model_of(style, rng), some_ids(rng)
    logits = model(inputs, lengths, outputs)
    other = np.where(np.arange(6) < lengths[:, None], inputs, rng.integers(0, 11, inputs.shape))
    assert (other != inputs).any() and np.array_equal(model(other, lengths, outputs), logits)
    for b, n in enumerate(lengths):  # without its padding, and with more of it
        alone, more = inputs[b:b + 1, :n], np.pad(inputs[b:b + 1], ((0, 0), (0, 3)))
        np.testing.assert_allclose(model(alone, lengths[b:b + 1], outputs[b:b + 1])[0], logits[b],
                                   rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(model(more, lengths[b:b + 1], outputs[b:b + 1])[0], logits[b],
                                   rtol=1e-9, atol=1e-11)
    real = inputs.copy()
    real[1, 1] = 3 + (real[1, 1] - 2) % 8
    changed = (model(real, lengths, outputs) != logits).any(axis=-1)
    assert changed[1].all() and not changed[[0, 2]].any(), "every output looks at every real input"


@pytest.mark.parametrize("style", STYLES)
def test_later_outputs_do_not_change_earlier_logits(style, rng):
    model, (inputs, lengths, outputs) = model_of(style, rng), some_ids(rng)
    logits = model(inputs, lengths, outputs)
    for t in range(1, 5):
        changed = outputs.copy()
        changed[:, t:] = rng.integers(0, 11, changed[:, t:].shape)
        assert np.array_equal(model(inputs, lengths, changed)[:, :t], logits[:, :t])
    swapped = model(inputs, lengths, outputs[:, [1, 0, 2, 3, 4]])
    assert not np.allclose(swapped[:, -1], logits[:, -1], rtol=1e-6), "order matters"


@pytest.mark.parametrize("style", STYLES)
def test_steps_equal_the_forward(style, rng):
    model, (inputs, lengths, outputs) = model_of(style, rng), some_ids(rng)
    logits, cache, caches = model(inputs, lengths, outputs), model.begin(inputs, lengths), []
    for start, stop in ((0, 1), (1, 3), (3, 4), (4, 5)):
        caches.append(cache)
        part, cache = model.step(outputs[:, start:stop], cache)
        np.testing.assert_allclose(part, logits[:, start:stop], rtol=1e-9, atol=1e-11)
    assert [len(each) for each in (*caches, cache)] == [0, 1, 3, 4, 5]
    again, _ = model.step(outputs[:, 3:4], caches[2])
    np.testing.assert_allclose(again, logits[:, 3:4], rtol=1e-9, atol=1e-11)


def test_a_single_layer_steps(rng):
    model, (inputs, lengths, outputs) = model_of("2017", rng, n_layers=1), some_ids(rng)
    logits, cache = model.step(outputs[:, :2], model.begin(inputs, lengths))
    assert len(cache) == 2
    np.testing.assert_allclose(logits, model(inputs, lengths, outputs)[:, :2], rtol=1e-9,
                               atol=1e-11)


@pytest.mark.parametrize("style", STYLES)
def test_rows_of_a_cache_are_those_of_its_sequences(style, rng):
    model, (inputs, lengths, outputs) = model_of(style, rng), some_ids(rng)
    order = np.array([2, 0, 2, 1])
    _, cache = model.step(outputs[:, :2], model.begin(inputs, lengths))
    part, _ = model.step(outputs[order, 2:], cache.rows(order))
    np.testing.assert_allclose(part, model(inputs, lengths, outputs)[order, 2:], rtol=1e-9,
                               atol=1e-11)
    fresh, _ = model.step(outputs[order], model.begin(inputs, lengths).rows(order))
    np.testing.assert_allclose(fresh, model(inputs, lengths, outputs)[order], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("style", STYLES)
def test_attention_weights(style, rng):
    model, (inputs, lengths, outputs) = model_of(style, rng), some_ids(rng)
    weights = attention_by_layer(model, inputs, lengths, outputs)
    encoder = [w for name, w in weights.items() if name.startswith("encoder.")]
    decoder, cross = ([weights[f"blocks.{k}.{kind}"] for k in range(2)]
                      for kind in ("attention", "cross_attention"))
    for found, shape in ((encoder, (3, 2, 6, 6)), (decoder, (3, 2, 5, 5)), (cross, (3, 2, 5, 6))):
        assert [w.shape for w in found] == 2 * [shape]
        for w in found:
            np.testing.assert_allclose(w.sum(axis=-1), 1, rtol=1e-12)
    assert (all((w[1, :, :, 2:] == 0).all() and (w[0] > 0).all() for w in cross)
            and all((np.triu(w, 1) == 0).all() for w in decoder))
    x = model.input_norm(model.input_positions(model.embedding(inputs), start=0))
    memory = model.encoder(x, AttentionPattern(lengths=lengths))
    x = model.output_norm(model.output_positions(model.embedding(outputs), start=0))
    second = model.blocks[0](x, memory, CAUSAL, AttentionPattern(lengths=lengths))
    attention, branch = model.blocks[1].attention, model.blocks[1].branches["attention"]
    _, saved = attention.forward(branch.input_norm(second), pattern=CAUSAL)
    np.testing.assert_allclose(decoder[1], attention.attention_weights(saved), rtol=1e-12)


def test_embedding_and_head_and_biases_of_a_stack_are_shared(rng):
    model = model_of("T5", rng)
    tables = [name for name, _ in model.named_parameters() if "attention.positions" in name]
    assert tables == [
        "encoder.blocks.0.attention.positions.weight", "blocks.0.attention.positions.weight"]
    assert len({id(block.attention.positions) for block in model.blocks}) == 1
    assert (model.encoder.blocks[1].attention.positions.bidirectional
            and not model.blocks[1].attention.positions.bidirectional)
    assert not any(block.cross_attention.positions.uses_distance for block in model.blocks)
    assert ({block.cross_attention.scale for block in model.blocks} == {1.0}
            and model.blocks[0].attention.scale == 1.0)
    assert (model.head.weight is model.embedding.weight
            and model_of("alibi", rng).head.weight is not model.embedding.weight)
    assert model_of("2017", rng).blocks[0].attention.scale is None
    assert not any("bias" in name or "shift" in name for name, _ in model.named_parameters())


def test_a_new_model_predicts_all_tokens_alike(rng):
    batch = pair_batch([(rng.integers(3, 11, 5), rng.integers(3, 11, 5)) for _ in range(60)], 0, 1,
                       2)
    for style in ("BART", "alibi"):  # where the head is no table that was scaled up
        config = EncoderDecoderConfig(**{**STYLES[style], **SIZES})
        loss, _ = EncoderDecoder(config, rng).loss(batch)
        assert abs(loss - np.log(11)) < 0.05


def test_output_matrices_start_smaller_the_more_branches_there_are(rng):
    """By the square root of their number: two a block of the encoder, three of the decoder."""
    model = EncoderDecoder(EncoderDecoderConfig(**{**SIZES, "d_model": 96}), rng)
    for block, branches in ((model.encoder.blocks[0], 2), (model.blocks[0], 3)):
        for matrix in (block.attention.output.weight, block.feedforward.output.weight):
            assert abs(matrix.data.std() / 0.02 * (2 * branches) ** 0.5 - 1) < 0.03


def test_the_loss_does_not_depend_on_padding(rng):
    """The gradient of a batch is that of its pairs, weighted by their targets."""
    model = model_of("2017", rng)
    model.label_smoothing = 0.1
    pairs = [(rng.integers(3, 11, n), rng.integers(3, 11, m)) for n, m in ((5, 2), (1, 7), (3, 3))]
    loss, saved = model.loss(pair_batch(pairs, 0, 1, 2))
    model.loss_backward(saved)
    whole = {name: parameter.grad.copy() for name, parameter in model.named_parameters()}
    model.zero_grad()
    total = 0
    for pair in pairs:
        batch = pair_batch([pair], 0, 1, 2)
        part, saved = model.loss(batch)
        model.loss_backward(saved, batch.n_targets / 15)
        total += part * batch.n_targets / 15
    np.testing.assert_allclose(total, loss, rtol=1e-12)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad, whole[name], rtol=1e-8, atol=1e-12, err_msg=name)


# In millions: as the papers print them, and, where that is another number, what their sizes give
PUBLISHED = {"transformer-base": 63.1, "transformer-big": 213, "t5-small": 60, "t5-base": 222.9,
             "t5-large": 737.7, "t5-v1_1-small": 77.0, "t5-v1_1-base": 247.6,
             "switch-base": 7415, "switch-large": 27121, "switch-xxl": 395000,
             "switch-c": 1571000,
             "t5-v1_1-large": 783.2, "t5-v1_1-xl": 2849.8, "flan-t5-small": 77.0,
             "flan-t5-base": 247.6, "flan-t5-large": 783.2, "flan-t5-xl": 2849.8,
             "mt5-small": 300.2, "mt5-base": 582.4, "mt5-large": 1229.6, "mt5-xl": 3742.6,
             "mbart-large": 610.9, "bart-base": 139.4, "bart-large": 406.3}


# Thousands of experts are built for these counts
@pytest.mark.parametrize("name", slow_among(ENCODER_DECODERS, ["switch-c", "switch-large"]))
def test_counts_equal_the_published_ones(name):
    assert abs(count(ENCODER_DECODERS[name])["parameters"] / 1e6 / PUBLISHED[name] - 1) < 0.01


def test_the_papers_size_of_t5_large_counts_the_table_twice():
    config = ENCODER_DECODERS["t5-large"]
    printed = count(config)["parameters"] + config.vocab_size * config.d_model
    assert abs(printed / 770e6 - 1) < 0.001


def test_counts_equal_a_real_model(rng):
    config = EncoderDecoderConfig(**{**T5, **SIZES, "dtype": "float32"})
    costs, model = count(config), EncoderDecoder(config, rng)
    assert costs["parameters"] == sum(array.size for array in model.state_dict().values())
    cache = model.begin(np.ones((1, 4), int), np.array([4]))
    _, cache = model.step(np.ones((1, 4), int), cache)
    assert 4 * costs["kv_bytes_per_token"] == sum(each.k.nbytes + each.v.nbytes
                                                  for each in (*cache.blocks, *cache.memories))
    C, F, V, T = 16, 64, 11, 12
    weights = 2 * (4 * C * C + 2 * C * F) + 2 * (8 * C * C + 2 * C * F) + V * C
    assert costs["flops_per_token"] == 2 * weights + 2 * 4 * C * (T + (T + 1) / 2 + T)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_encoder_and_decoder_may_differ_in_width(order, rng):
    def block(d_context):
        cross = MultiHeadAttention(8, 2, rng, d_context=d_context)
        return TransformerBlock(
            attention=SelfAttentionBranch(LayerNorm(8), MultiHeadAttention(8, 2, rng), order),
            cross_attention=CrossAttentionBranch(LayerNorm(8), cross, order),
            feedforward=ResidualBranch(LayerNorm(8), FeedForward(8, 12, "relu", rng), order))

    x, memory = np.ones((1, 3, 8), np.float32), np.ones((1, 5, 12), np.float32)
    assert block(12)(x, memory).shape == (1, 3, 8)
    with pytest.raises(ValueError,
                       match=r"context must have shape \(B, S, C\) with .*C=8, but has shape "
                             r"\(1, 5, 12\)"):
        block(None)(x, memory)
    with pytest.raises(ValueError, match="dropout=1"):
        CrossAttentionBranch(None, None, order, dropout=1)


def test_cross_attention_has_no_positions(rng):
    layer = MultiHeadAttention(8, 2, rng, positions=RotaryPositions(4))
    with pytest.raises(ValueError, match="positions=None"):
        layer.precompute_kv(np.ones((1, 5, 8), np.float32))
    plain = MultiHeadAttention(8, 2, rng, d_context=6)
    with pytest.raises(ValueError, match="C=6"):
        plain.precompute_kv(np.ones((1, 5, 8), np.float32))
    assert isinstance(plain.precompute_kv(np.ones((1, 5, 6), np.float32)), KeyValueCache)


def test_inputs_that_do_not_fit_are_refused(rng):
    model, (inputs, lengths, outputs) = model_of("2017", rng), some_ids(rng)
    for wrong, words in ((lengths[:2], "B=3 whole numbers in 1 .. S=6"),
                         (lengths + 1, "but are .7, 3, 5"),
                         (0 * lengths, "but are .0, 0, 0"), (lengths * 1.0, "whole numbers"),
                         (lengths[None], "whole numbers")):
        with pytest.raises(ValueError, match=words):
            model(inputs, wrong, outputs)
        with pytest.raises(ValueError, match=words):
            model.begin(inputs, wrong)
    with pytest.raises(ValueError, match="3 inputs and 2 outputs"):
        model(inputs, lengths, outputs[:2])
    cache = model.begin(inputs, lengths)
    for ids in (outputs[:2], outputs[:, 0]):
        with pytest.raises(ValueError, match="B=3 as in the cache"):
            model.step(ids, cache)
    with pytest.raises(TypeError, match="array of integers"):
        model.step(outputs[:, :1].tolist(), cache)
    with pytest.raises(ValueError):
        model_of("2017", rng, n_layers=1).step(outputs[:, :1], cache)
    with pytest.raises(ValueError, match="needs positions 0 .. 12"):
        model_of("BART", rng)(np.ones((1, 13), int), np.array([13]), np.ones((1, 2), int))
    with pytest.raises(ValueError, match="needs positions 0 .. 12"):
        model_of("BART", rng)(np.ones((1, 2), int), np.array([2]), np.ones((1, 13), int))


@pytest.mark.parametrize("options, words", [
    (dict(vocab_size=0), "vocab_size=0"), (dict(context_length=0), "context_length=0"),
    (dict(positions="t5", n_buckets=2), "n_buckets=2"),
    (dict(positions="t5", max_distance=4), "max_distance=4"),
    (dict(scaled_scores="no"), "scaled_scores='no'"), (dict(n_heads=3), "n_heads=3"),
    (dict(positions="rotary", n_heads=16), "even width"),
    (dict(positions="rotary", n_heads=16), "even width")])
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        EncoderDecoderConfig(**{**SIZES, **options})


def test_a_config_survives_its_dict():
    config = EncoderDecoderConfig(**SIZES, **{key: T5[key] for key in ("positions", "norm")})
    assert EncoderDecoderConfig.from_dict(config.as_dict()) == config
