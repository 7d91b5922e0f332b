"""What recipes add to published architectures: weights, layers without positions, losses."""

from dataclasses import fields

import numpy as np
import pytest

from numformer.analysis import attention_by_layer
from numformer.functional import cross_entropy
from numformer.models import (
    KINDS, BertConfig, DecoderConfig, EncoderDecoderConfig, VisionTransformerConfig)
from numformer.recipes import PRESETS, RECIPES, recipe_of
from numformer.training import TrainingConfig

SIZES = dict(n_layers=2, n_heads=2, d_model=8, dtype="float64")
BERT = dict(SIZES, vocab_size=20, context_length=12, positions="rotary")
DECODER = dict(SIZES, vocab_size=9, context_length=8)


def built(kind, config, rng, **recipe):
    return recipe_of(kind, recipe).model(kind, config, rng)


def test_settings_of_a_recipe_are_in_no_config():
    """Flags of the command line are named by both."""
    settings = {field.name for recipe in RECIPES.values() for field in fields(recipe)}
    options = {field.name for _, config in KINDS.values() for field in fields(config)}
    assert len(settings) == 20 and not settings & options
    assert not settings & {field.name for field in fields(TrainingConfig)}


def test_recipes_of_presets_are_of_their_kind():
    for preset in PRESETS.values():
        recipe = recipe_of(preset.kind, preset.recipe)
        assert type(recipe) is RECIPES.get(preset.kind, type(recipe))
        assert type(recipe).from_dict(recipe.as_dict()) == recipe


def test_an_empty_recipe_changes_no_weight():
    config = DecoderConfig(**DECODER)
    plain = KINDS["Decoder"][0](config, np.random.default_rng(3)).state_dict()
    recipe = built("Decoder", config, np.random.default_rng(3)).state_dict()
    assert all(np.array_equal(plain[name], recipe[name]) for name in plain)


def test_vectors_of_content_layers_move_with_their_tokens(rng):
    """The weights of all layers but the last, which is rotary, are permuted like the tokens."""
    model = built("Bert", BertConfig(**{**BERT, "n_layers": 3}), rng, content_layers=2)
    ids, order = rng.integers(0, 20, (1, 9)), rng.permutation(9)
    here, there = (attention_by_layer(model, each).values() for each in (ids, ids[:, order]))
    same = [np.allclose(one[:, :, order][..., order], other, rtol=1e-12, atol=1e-14)
            for one, other in zip(here, there)]
    assert same == [True, True, False]


def test_content_layers_have_no_alibi_either(rng):
    model = built("Bert", BertConfig(**{**BERT, "positions": "alibi"}), rng, content_layers=2)
    ids = rng.integers(0, 20, (1, 9))
    np.testing.assert_allclose(model(ids[:, ::-1]), model(ids)[:, ::-1], rtol=1e-12, atol=1e-14)


def test_tokens_attend_to_tokens_like_themselves_at_first(rng):
    config = BertConfig(**{**BERT, "d_model": 64, "positions": "none"}, segments=0, init_std=0.2)
    model = built("Bert", config, rng, like_to_like=True)
    first, *_ = attention_by_layer(model, np.array([[4, 5, 6, 4, 7, 8]])).values()
    weights = first[0]                                                # (H, T, T)
    assert (weights[:, 0, 3] > 10 * weights[:, 0, [1, 2, 4, 5]].max(axis=1)).all()
    np.testing.assert_allclose(weights[:, 0, 0], weights[:, 0, 3], rtol=1e-12)
    attentions = [block.attention for block in model.backbone.encoder.blocks]
    assert not any(np.shares_memory(attention.key.weight.data, attention.query.weight.data)
                   for attention in attentions)


@pytest.mark.parametrize("n_experts", [1, 3])
def test_blocks_with_zero_branches_start_as_identities(n_experts, rng):
    model = built("Decoder", DecoderConfig(**DECODER, n_experts=n_experts), rng, zero_branches=True)
    x = rng.standard_normal((2, 5, 8))
    assert all(np.array_equal(block(x), x) for block in model.blocks)


@pytest.mark.parametrize("settings", [dict(label_smoothing=0.2), dict(z_loss=0.1)])
def test_settings_of_the_training_loss_do_not_change_the_evaluation_loss(settings, rng):
    config, ids = DecoderConfig(**DECODER), rng.integers(0, 9, (2, 6))
    plain, model = (built("Decoder", config, np.random.default_rng(2), **given)
                    for given in ({}, settings))
    batch = ids[:, :-1], ids[:, 1:]
    by_hand = cross_entropy(model(batch[0]), batch[1], **settings)[0]  # the model's may be compiled
    assert model.loss(batch)[0] == pytest.approx(float(by_hand), rel=1e-14) != plain.loss(batch)[0]
    assert model.evaluation_loss(batch) == plain.evaluation_loss(batch) == plain.loss(batch)[0]
    assert model.replica().loss(batch)[0] == model.loss(batch)[0], "shards are trained alike"


def test_added_rotations_depend_on_distance_alone(rng):
    """Learned positions of zero leave the rotations: a shifted input is read alike."""
    config = EncoderDecoderConfig(**DECODER, positions="learned")
    plain, model = (built("EncoderDecoder", config, np.random.default_rng(1), add_rotary=added)
                    for added in (False, True))
    inputs, lengths, outputs = rng.integers(0, 9, (2, 5)), np.array([5, 3]), rng.integers(0, 9,
                                                                                          (2, 4))
    for each in (plain, model):
        for parameter in each.parameters():                           # a fresh model hardly attends
            parameter.data += np.random.default_rng(2).standard_normal(parameter.data.shape) / 2
    assert not np.allclose(model(inputs, lengths, outputs), plain(inputs, lengths, outputs))
    for each in (plain, model):
        for positions in (each.input_positions, each.output_positions):
            positions.weight.data[...] = 0
    backwards = plain(inputs[:1, ::-1], lengths[:1], outputs[:1])
    np.testing.assert_allclose(backwards, plain(inputs[:1], lengths[:1], outputs[:1]), rtol=1e-12)
    assert not np.allclose(model(inputs[:1, ::-1], lengths[:1], outputs[:1]),
                           model(inputs[:1], lengths[:1], outputs[:1]))


@pytest.mark.parametrize("kind, settings, words", [
    ("Bert", dict(mask_rate=0.0), "mask_rate"), ("Bert", dict(mask_rate=1.5), "below 1"),
    ("Bert", dict(content_layers=-1), "content_layers=-1"),
    ("Bert", dict(like_to_like=1.5), "like_to_like"),
    ("Bert", dict(repeat_steps=-1), "repeat_steps"),
    ("Bert", dict(dynamic_masks=2), "dynamic_masks"),
    ("Decoder", dict(label_smoothing=-0.1), "label_smoothing"),
    ("Decoder", dict(z_loss=-1), "z_loss"),
    ("Decoder", dict(zero_branches=0.5), "zero_branches"),
    ("Decoder", dict(skip_connections=0), "skip_connections"),
    ("Decoder", dict(norms="none"), "norms"),
    ("EncoderDecoder", dict(add_rotary=3), "add_rotary"),
    ("EncoderDecoder", dict(label_smoothing=1.0), "label_smoothing=1.0"),
    ("VisionTransformer", dict(label_smoothing=1), "label_smoothing=1"),
    ("Seq2Seq", dict(label_smoothing=-0.1), "label_smoothing=-0.1"),
    ("RecurrentLanguageModel", dict(label_smoothing=0.1), "label_smoothing")])
def test_settings_out_of_range_are_refused(kind, settings, words):
    with pytest.raises(ValueError, match=words):
        recipe_of(kind, settings)


@pytest.mark.parametrize("kind, config, settings, words", [
    ("Bert", BertConfig(**BERT), dict(content_layers=3), "at most n_layers=2"),
    ("Bert", BertConfig(**BERT, n_kv_heads=1), dict(like_to_like=True),
     "n_kv_heads=1 and n_heads=2"),
    ("EncoderDecoder", EncoderDecoderConfig(**DECODER), dict(add_rotary=True), "'sinusoidal'"),
    ("EncoderDecoder", EncoderDecoderConfig(**{**DECODER, "n_heads": 8}, positions="learned"),
     dict(add_rotary=True), "even width")])
def test_recipes_that_do_not_fit_the_config_are_refused(kind, config, settings, words, rng):
    with pytest.raises(ValueError, match=words):
        built(kind, config, rng, **settings)


def test_label_smoothing_of_a_classifier_of_images(rng):
    config = VisionTransformerConfig(**SIZES, image_size=4, patch_size=2, channels=1, n_classes=3)
    model = built("VisionTransformer", config, rng, label_smoothing=0.3)
    batch = rng.standard_normal((2, 4, 4, 1)), np.array([2, 0])
    by_hand = cross_entropy(model(batch[0]), batch[1], label_smoothing=0.3)[0]
    assert model.loss(batch)[0] == pytest.approx(float(by_hand), rel=1e-14)
