"""Options that published models need: what they build, and bad values."""

from dataclasses import replace

import numpy as np
import pytest

from numformer.analysis import count, logit_contributions, model_costs
from numformer.analysis.attention_views import Reading, attention_views
from numformer.functional import soft_cap
from numformer.layers import (
    ConcatenatedPositions, MultiHeadAttention, RelativePositionBias, RMSNorm, ShawPositions,
    SinusoidalPositions)
from numformer.layers.token_step import TokenStep
from numformer.models import (
    BertEncoder, BertEncoderConfig, Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig,
    VisionTransformer, VisionTransformerConfig)

SIZES = dict(vocab_size=7, context_length=8, n_layers=2, n_heads=2, d_model=8)


def decoder(rng, **options):
    model = Decoder(DecoderConfig(**SIZES, dtype="float64", **options), rng)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return model


def by_tokens(model, ids, sizes=(1, 3, 2)):
    """Logits of ids in calls of `step` with so many tokens."""
    cache, logits, start = None, [], 0
    for size in sizes:
        found, cache = model.step(ids[:, start:start + size], cache)
        logits.append(found)
        start += size
    return np.concatenate(logits, axis=1)


@pytest.mark.parametrize("options", [
    dict(norm="rms_norm", unit_offset=True, query_key_norm=True),
    dict(score_scale=0.2, score_softcap=1.5, logit_softcap=2.0),
    dict(sandwich_norm=True, n_kv_heads=1), dict(parallel_residual=True, positions="rotary"),
    dict(parallel_residual=True, sandwich_norm=True),
    dict(positions="t5", n_buckets=6, max_distance=4), dict(positions="shaw", max_distance=2),
    dict(feedforward="swish"), dict(feedforward="gated_swish"),
    dict(positions="concatenated_learned"), dict(positions="concatenated_sinusoidal"),
    dict(embedding_norm=True, positions="alibi"), dict(embedding_norm=True)], ids=str)
def test_a_text_in_steps_has_the_logits_of_the_whole(options, rng):
    model, ids = decoder(rng, **options), rng.integers(0, 7, (2, 6))
    np.testing.assert_allclose(by_tokens(model, ids), model(ids), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("options, words", [
    (dict(unit_offset=True), "use norm='rms_norm'"),
    (dict(score_scale=0.5, scaled_scores=False), "leave one of the two out"),
    (dict(sandwich_norm=True, norm_first=False), "use norm_first=True"),
    (dict(parallel_residual=True, norm_first=False), "use norm_first=True"),
    (dict(embedding_norm="yes"), "embedding_norm"),
    (dict(positions="t5", n_buckets=1), "n_buckets"),
    (dict(positions="shaw", max_distance=0), "max_distance"),
    (dict(feedforward="swish", n_experts=2), "feedforward='swish' is unknown"),
    (dict(feedforward="gated_swish", n_experts=2), "feedforward='gated_swish' is unknown"),
    (dict(score_softcap=0), "score_softcap"), (dict(logit_softcap=-1.0), "logit_softcap"),
    (dict(score_scale=0.0), "score_scale")], ids=str)
def test_options_that_do_not_fit_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        DecoderConfig(**SIZES, **options)


def test_norms_with_the_offset_begin_with_weights_of_zero(rng):
    """All of them, those of queries and keys too, and so every factor is 1 as in other norms."""
    model = Decoder(DecoderConfig(**SIZES, norm="rms_norm", unit_offset=True, query_key_norm=True),
                    rng)
    norms = [part for _, part in model.named_layers() if isinstance(part, RMSNorm)]
    assert len(norms) == 2 * 4 + 1 and all(norm.unit_offset for norm in norms)
    assert not any(norm.weight.data.any() for norm in norms)
    x = rng.standard_normal((3, 8)).astype(np.float32)
    assert np.array_equal(norms[0](x), RMSNorm(8)(x))
    with pytest.raises(ValueError, match="unit_offset"):
        RMSNorm(8, unit_offset=1.5)


def test_logits_and_scores_stay_below_their_caps(rng):
    """And small ones hardly change."""
    model, ids = decoder(rng, score_softcap=0.5, logit_softcap=0.7), rng.integers(0, 7, (2, 6))
    logits = model(ids)
    assert 0.5 < np.abs(logits).max() < 0.7
    x = model.features(ids)[0] @ model.head.weight.data.T
    assert np.array_equal(logits, soft_cap(x, 0.7)[0])
    attention = model.blocks[0].attention
    x = 100 * rng.standard_normal((1, 6, 8))
    weights = attention.attention_weights(attention.forward(x)[1])
    assert weights.min() > np.exp(-1) / 6 and weights.max() < np.exp(1) / 6
    attention.softcap = None
    assert attention.attention_weights(attention.forward(x)[1]).max() > 0.9


def test_what_does_not_know_a_cap_says_so(rng):
    ids = np.array([[1, 2, 3]])
    with pytest.raises(ValueError, match="ShawPositions computes scores of its own"):
        MultiHeadAttention(8, 2, rng, positions=ShawPositions(4, 3, rng), softcap=1.0)
    with pytest.raises(ValueError, match="no sum of parts"):
        logit_contributions(decoder(rng, logit_softcap=2.0), ids, token=1)
    with pytest.raises(ValueError, match="soft-capped"):
        attention_views(decoder(rng, score_softcap=2.0), Reading((ids,), list("abc")))
    with pytest.raises(ValueError, match="logit_softcap=2.0 is not covered"):
        model_costs(DecoderConfig(**SIZES, logit_softcap=2.0))


@pytest.mark.parametrize("options, known", [
    (dict(embedding_norm=True), True),
    (dict(norm="rms_norm", unit_offset=True, feedforward="geglu_tanh"), True),
    (dict(feedforward="quick_gelu"), True),
    (dict(sandwich_norm=True), False), (dict(parallel_residual=True), False),
    (dict(score_scale=0.5), False), (dict(score_softcap=9.0), False),
    (dict(logit_softcap=9.0), False), (dict(feedforward="swish"), False)], ids=str)
def test_the_compiled_step_takes_only_what_it_computes(options, known, rng):
    pytest.importorskip("numba")
    model = decoder(rng, **options)
    assert TokenStep.knows(model.blocks, model.norm, model.head) == known


@pytest.mark.parametrize("depth", [0, 1.5, True])
def test_a_depth_of_the_encoder_is_a_whole_number(depth):
    with pytest.raises((ValueError, TypeError), match="n_encoder_layers"):
        EncoderDecoderConfig(**SIZES, n_encoder_layers=depth)


IMAGES = dict(image_size=4, patch_size=2, channels=1, n_classes=3, n_layers=1, n_heads=2, d_model=8)


def test_class_tokens_come_first_and_each_has_a_head(rng):
    config = VisionTransformerConfig(**IMAGES, n_class_tokens=2, dtype="float64")
    model, images = VisionTransformer(config, rng), rng.standard_normal((2, 4, 4, 1))
    assert config.first_patch == 2 and model.class_token.data.shape == (2, 8)
    assert replace(config, n_class_tokens=1, pooling="mean").first_patch == 0
    x = rng.standard_normal((2, 6, 8))
    one, other = (x[:, k] @ head.weight.data for k, head in enumerate(model.head.heads))
    np.testing.assert_allclose(model.head(x), (one + other) / 2, rtol=1e-12)
    # 4 patches of 4 numbers, 6 vectors in the block, a head for each of 2
    block = 4 * 8 * 8 + 2 * 8 * 32
    flops = 2 * (4 * 4 * 8 + 6 * block + 2 * 8 * 3) + 4 * 8 * 6 * 6
    assert count(config)["flops_per_image"] == flops and model(images).shape == (2, 3)
    with pytest.raises(ValueError, match="there is no class token"):
        replace(config, pooling="mean")


def test_a_class_token_without_a_head(rng):
    """Blocks read it; its output has no part in the logits."""
    config = VisionTransformerConfig(**IMAGES, n_class_tokens=2, n_class_heads=1, dtype="float64")
    model, images = VisionTransformer(config, rng), rng.standard_normal((2, 4, 4, 1))
    logits = model(images)
    tokens = model.encoder(model._embed(images)[0])
    np.testing.assert_allclose(logits, model.head(tokens[:, 0]), rtol=1e-12)
    model.class_token.data[1] += rng.standard_normal(8)
    assert (model(images) != logits).all()
    with pytest.raises(ValueError, match="n_class_heads=3 must be at most n_class_tokens=2"):
        replace(config, n_class_heads=3)


@pytest.mark.parametrize("kind, config", [
    (Decoder, DecoderConfig), (BertEncoder, BertEncoderConfig),
    (EncoderDecoder, EncoderDecoderConfig)])
@pytest.mark.parametrize("positions", ["t5", "shaw"])
def test_every_stack_has_positions_by_distance(kind, config, positions, rng):
    """T5's table is one for a stack, Shaw's are those of a layer; a decoder has one direction."""
    model = kind(config(**SIZES, positions=positions, max_distance=20), rng)
    stacks = [part.blocks for _, part in model.named_layers() if hasattr(part, "blocks")]
    assert len(stacks) == 1 + (kind is EncoderDecoder)
    for blocks in stacks:
        first, second = (block.attention.positions for block in blocks)
        assert (first is second) == (positions == "t5") and first.uses_distance
    layers = {part for _, part in model.named_layers()
              if isinstance(part, (RelativePositionBias, ShawPositions))}
    assert len(layers) == (len(stacks) if positions == "t5" else 2 * len(stacks))
    if positions == "t5":
        found = sorted(layer.bidirectional for layer in layers)
        assert found == {Decoder: [False], BertEncoder: [True],
                         EncoderDecoder: [False, True]}[kind]


@pytest.mark.parametrize("kind, config", [
    (Decoder, DecoderConfig), (BertEncoder, BertEncoderConfig),
    (EncoderDecoder, EncoderDecoderConfig)])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_concatenated_positions_are_mapped_back_to_the_width(kind, config, positions, rng):
    """With two identities as the matrix, they are added ones."""
    model, added = (kind(config(**SIZES, positions=before + positions), np.random.default_rng(0))
                    for before in ("concatenated_", ""))
    ids, eye = rng.integers(0, 7, (2, 5)), np.eye(8)
    state = model.state_dict()
    for name in [name for name in state if name.endswith("projection.weight")]:
        assert state[name].shape == (16, 8)
        state[name] = np.concatenate([eye, eye])
    model.load_state_dict(state)
    shorter = {name.replace("positions.positions", "positions"): x for name, x in state.items()
               if not name.endswith("projection.weight")}
    added.load_state_dict(shorter)
    inputs = (ids, np.array([5, 3]), ids) if kind is EncoderDecoder else (ids,)
    np.testing.assert_allclose(model(*inputs), added(*inputs), rtol=1e-4, atol=1e-5)


def test_left_padding_with_concatenated_positions(rng):
    model, ids = decoder(rng, positions="concatenated_learned"), rng.integers(0, 7, (2, 6))
    logits, _ = model.step(ids, left_padding=np.array([0, 2]))
    np.testing.assert_allclose(logits[0], model(ids[:1])[0], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(logits[1, 2:], model(ids[1:, 2:])[0], rtol=1e-11, atol=1e-11)


def test_the_projection_of_concatenated_positions_is_a_linear_map():
    with pytest.raises(TypeError, match="projection must be a Linear or None"):
        ConcatenatedPositions(SinusoidalPositions(4), projection=3)
