"""The Vision Transformer, its batches, and the digits it learns."""

import sys

import numpy as np
import pytest

from numformer import functional as F
from numformer.datasets import load_digits
from numformer.models import VISION_CONFIGS, VisionTransformer, VisionTransformerConfig
from numformer.training import LabelledBatch, LabelledStream, Trainer, TrainingConfig, accuracy, labelled_batches, mean_loss

SIZES = dict(image_size=8, patch_size=2, channels=1, n_classes=10, n_layers=2, n_heads=2, d_model=16)
PUBLISHED = {"vit-base": 86, "vit-large": 307, "vit-huge": 632}        # in millions: table 1 of the paper


def shaken(rng, **switches):
    model = VisionTransformer(VisionTransformerConfig(**{**SIZES, "dtype": "float64", **switches}), rng)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return model


@pytest.mark.parametrize("name", VISION_CONFIGS)
def test_counts_equal_the_published_ones(name):
    model = VisionTransformer(VISION_CONFIGS[name], None)
    assert all(parameter.data.strides == (0,) * parameter.data.ndim for parameter in model.parameters() if parameter.data.ndim > 1)
    millions = sum(parameter.data.size for parameter in model.parameters()) / 1e6
    if name in PUBLISHED:
        assert abs(millions / PUBLISHED[name] - 1) < 0.01
    if name == "vit-base":                                         # to the last one: a row of positions less, that of the class token
        assert round(millions * 1e6) == 86_567_656 - 768


def test_a_fresh_model_guesses(rng):
    model = VisionTransformer(VisionTransformerConfig(**SIZES), rng)
    images, labels = rng.random((50, 8, 8, 1), np.float32), rng.integers(0, 10, 50)
    assert abs(model.loss((images, labels))[0] - np.log(10)) < 0.1


@pytest.mark.parametrize("pooling", ["class", "mean", "max"])
@pytest.mark.parametrize("positions", ["learned", "learned_2d", "sinusoidal_2d", "none"])
def test_patches_may_change_places_only_without_positions(positions, pooling, rng):
    model, images = shaken(rng, positions=positions, pooling=pooling), rng.standard_normal((2, 8, 8, 1))
    pieces, saved = F.patches(images, 2)
    moved = F.patches_backward(pieces[:, rng.permutation(16)], saved)
    assert np.allclose(model(moved), model(images), rtol=1e-9, atol=1e-11) == (positions == "none")


def test_both_forms_of_patches_give_the_same_logits(rng):
    flat, convolution = shaken(rng), shaken(rng, patches="convolution")
    convolution.load_state_dict(flat.state_dict())
    images = rng.standard_normal((3, 8, 8, 1))
    np.testing.assert_allclose(convolution(images), flat(images), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("pooling, T", [("class", 17), ("mean", 16)])
def test_attention_weights_are_those_of_the_forward(pooling, T, rng):
    model, images = shaken(rng, pooling=pooling), rng.standard_normal((2, 8, 8, 1))
    weights = model.attention_weights(images)
    assert len(weights) == 2 and all(w.shape == (2, 2, T, T) for w in weights)
    for w in weights:
        np.testing.assert_allclose(w.sum(axis=-1), 1, rtol=1e-12)
    x, _ = model._embed(images)
    np.testing.assert_allclose(weights[1], model.encoder.blocks[1].weights(model.encoder.blocks[0](x)), rtol=1e-12)
    assert (x[:, 0] == model.class_token.data).all() if pooling == "class" else model.class_token is None


def test_dropout_and_label_smoothing(rng):
    model, batch = shaken(rng, dropout=0.5), (rng.standard_normal((4, 8, 8, 1)), np.array([1, 2, 3, 4]))
    one, same, other = (model.loss(batch, np.random.default_rng(seed))[0] for seed in (1, 1, 2))
    assert one == same != other and model.loss(batch)[0] == model.loss(batch)[0]
    smooth = shaken(rng, label_smoothing=0.3)
    assert abs(smooth.evaluation_loss(batch) - F.cross_entropy(smooth(batch[0]), batch[1])[0]) < 1e-12
    expected, _ = F.cross_entropy(smooth(batch[0]), batch[1], label_smoothing=0.3)
    assert abs(smooth.loss(batch)[0] - expected) < 1e-12


def test_loss_backward_scales(rng):
    model, batch = shaken(rng), (rng.standard_normal((2, 8, 8, 1)), np.array([1, 2]))
    _, saved = model.loss(batch)
    model.loss_backward(saved)
    once = [parameter.grad.copy() for parameter in model.parameters()]
    model.zero_grad()
    model.loss_backward(saved, 0.25)
    for parameter, grad in zip(model.parameters(), once):
        np.testing.assert_allclose(parameter.grad, 0.25 * grad, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("switches, words", [
    (dict(patch_size=3), "image_size=8 is not divisible by patch_size=3; use patch_size=2 or image_size=9"),
    (dict(positions="rotary"), "choose from 'learned', 'learned_2d'"), (dict(pooling="cls"), "pooling='cls'"),
    (dict(patches="fold"), "patches='fold'"), (dict(n_classes=0), "n_classes=0"), (dict(channels=0), "channels=0"),
    (dict(label_smoothing=1), "label_smoothing=1"), (dict(n_heads=3), "not divisible"),
    (dict(positions="sinusoidal_2d", d_model=5, n_heads=5), "even d_model"), (dict(norm_first=2), "norm_first=2")])
def test_bad_configs(switches, words):
    with pytest.raises(ValueError, match="VisionTransformerConfig: ") as caught:
        VisionTransformerConfig(**{**SIZES, **switches})
    assert words in str(caught.value)


def test_bad_batches(rng):
    model = shaken(rng)
    for labels, error, words in ((np.array([10]), ValueError, "0 .. 9"), (np.array([1, 2]), ValueError, "targets"),
                                 (np.array([1.0]), TypeError, "integers")):
        with pytest.raises(error, match=words):
            model.loss((np.zeros((1, 8, 8, 1)), labels))
    with pytest.raises(TypeError, match="images"):
        model(np.zeros((1, 8, 8, 1), np.float32))


def test_config_round_trip():
    config = VISION_CONFIGS["vit-large"]
    assert VisionTransformerConfig.from_dict(config.as_dict()) == config and config.side == 14


def test_a_stream_shows_every_example_once_a_round():
    labels = np.arange(10)
    stream = LabelledStream(10.0 * labels, labels, 4, seed=3)
    batches = [stream.batch(step) for step in range(5)]
    seen = np.concatenate([batch.labels for batch in batches])
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10)) and not np.array_equal(seen[:10], seen[10:])
    assert all(np.array_equal(batch.inputs, 10.0 * batch.labels) for batch in batches)
    assert np.array_equal(stream.batch(2).labels, batches[2].labels), "a function of the step alone"
    assert not np.array_equal(LabelledStream(labels, labels, 4, seed=4).batch(0).labels, batches[0].labels)
    many = LabelledStream(labels[:3], labels[:3], 8, seed=0).batch(1).labels
    assert len(many) == 8 and np.bincount(many).min() >= 2, "a batch may hold several rounds"


def test_batches_split_and_measure(rng):
    batch = LabelledBatch(rng.standard_normal((5, 2)), np.arange(5))
    parts = batch.split(3)
    assert [part.tokens for part in parts] == [2, 2, 1] and batch.tokens == 5 and len(batch.split(9)) == 5
    for name in ("inputs", "labels"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(batch, name))
    batches = labelled_batches(batch.inputs, batch.labels, 2)
    assert np.array_equal(np.concatenate([b.labels for b in batches]), batch.labels)
    assert labelled_batches(np.zeros((300, 1)), np.zeros(300, int))[0].tokens == 256


@pytest.mark.parametrize("inputs, labels, error, words", [
    (np.zeros((3, 2)), np.zeros(2, int), ValueError, "N=3 inputs"), (np.zeros((0, 2)), np.zeros(0, int), ValueError, "empty"),
    (np.zeros((2, 2)), np.zeros((2, 1), int), ValueError, r"must have shape \(N,\)"),
    (np.zeros((2, 2)), np.zeros(2), TypeError, "integers"),
    (np.zeros((2, 2)), np.array([0, -1]), ValueError, "hold -1")])
def test_labels_that_do_not_fit(inputs, labels, error, words):
    for make in (lambda: LabelledStream(inputs, labels, 2, 0), lambda: labelled_batches(inputs, labels)):
        with pytest.raises(error, match=words):
            make()


def test_sizes_of_batches():
    for make in (lambda: LabelledStream(np.zeros(2), np.zeros(2, int), 0, 0), lambda: labelled_batches(np.zeros(2), np.zeros(2, int), 0)):
        with pytest.raises(ValueError, match="batch_size=0"):
            make()
    with pytest.raises(ValueError, match="no batches"):
        accuracy(None, [])


def test_digits_are_split_once_and_for_all():
    pytest.importorskip("sklearn")
    digits = load_digits()
    assert digits.train_images.shape == (1442, 8, 8, 1) and digits.test_images.shape == (355, 8, 8, 1)
    assert digits.train_images.dtype == np.float32 and 0 == digits.train_images.min() < digits.train_images.max() == 1
    assert set(digits.test_labels) == set(digits.train_labels) == set(range(10))
    shares = np.bincount(digits.test_labels) / np.bincount([*digits.train_labels, *digits.test_labels])
    assert shares.min() > 0.19 and shares.max() <= 0.2, "every digit is as frequent in both parts"
    both = np.concatenate([digits.train_images, digits.test_images]).reshape(1797, 64)
    assert len(np.unique(both, axis=0)) == 1797, "no image of the test was seen in training"


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"data extra: pip install 'numformer\[data\]'"):
        load_digits()


def test_it_learns_a_few_digits():
    """A small model in some steps, far from guessing; for 98% it needs more of both."""
    pytest.importorskip("sklearn")
    digits = load_digits()
    config = VisionTransformerConfig(**{**SIZES, "n_layers": 1, "n_heads": 4, "d_model": 32}, pooling="mean", init_std=0.15)
    model, test = VisionTransformer(config, np.random.default_rng(0)), labelled_batches(digits.test_images, digits.test_labels)
    stream = LabelledStream(digits.train_images, digits.train_labels, 64, 0)
    trainer = Trainer(model, stream, test, TrainingConfig(steps=60, learning_rate=1e-2, warmup_steps=5))
    before = trainer.evaluate()
    for _ in range(60):
        trainer.train_step()
    assert accuracy(model, test) > 0.5 and trainer.evaluate() == mean_loss(model, test) < 0.6 * before
