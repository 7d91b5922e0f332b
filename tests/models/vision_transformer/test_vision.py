"""The Vision Transformer: patches, positions, attention weights, the loss, and digits."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.analysis import attention_by_layer
from numformer.data import LabelledStream, labelled_batches, load_digits
from numformer.models import VISION_CONFIGS, VisionTransformer, VisionTransformerConfig
from numformer.training import Trainer, TrainingConfig, accuracy, mean_loss

SIZES = dict(image_size=8, patch_size=2, channels=1, n_classes=10, n_layers=2, n_heads=2,
             d_model=16)
PUBLISHED = {"vit-base": 86, "vit-large": 307, "vit-huge": 632}  # in millions: table 1 of the paper


def shaken(rng, **options):
    model = VisionTransformer(VisionTransformerConfig(**{**SIZES, "dtype": "float64", **options}),
                              rng)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return model


@pytest.mark.parametrize("name", VISION_CONFIGS)
def test_counts_equal_the_published_ones(name):
    model = VisionTransformer(VISION_CONFIGS[name], None)
    assert all(parameter.data.strides == (0,) * parameter.data.ndim
               for parameter in model.parameters() if parameter.data.ndim > 1)
    millions = sum(parameter.data.size for parameter in model.parameters()) / 1e6
    if name in PUBLISHED:
        assert abs(millions / PUBLISHED[name] - 1) < 0.01
    if name == "vit-base":  # to the last one: a row of positions less, that of the class token
        assert round(millions * 1e6) == 86_567_656 - 768


def test_five_configs_are_published():
    assert len(VISION_CONFIGS) == 5 and set(PUBLISHED) < set(VISION_CONFIGS)


def test_a_new_model_predicts_all_classes_alike(rng):
    model = VisionTransformer(VisionTransformerConfig(**SIZES), rng)
    images, labels = rng.random((50, 8, 8, 1), np.float32), rng.integers(0, 10, 50)
    assert abs(model.loss((images, labels))[0] - np.log(10)) < 0.1


@pytest.mark.parametrize("pooling", ["class", "mean", "max"])
@pytest.mark.parametrize("positions", ["learned", "learned_2d", "sinusoidal_2d", "none"])
def test_logits_ignore_the_order_of_patches_only_without_positions(positions, pooling, rng):
    model = shaken(rng, positions=positions, pooling=pooling)
    images = rng.standard_normal((2, 8, 8, 1))
    pieces, saved = F.patches(images, 2)
    moved = F.patches_backward(pieces[:, rng.permutation(16)], saved)
    assert np.allclose(model(moved), model(images), rtol=1e-9, atol=1e-11) == (positions == "none")


def test_the_class_token_comes_before_patches_of_any_number(rng):
    """Here 16 patches and a width of 12."""
    model, images = shaken(rng, d_model=12), rng.standard_normal((2, 8, 8, 1))
    (x, _), patches = model._embed(images), model.positions(model.patches(images))
    assert np.array_equal(x[:, 1:], patches)
    assert np.array_equal(x[:, 0], 2 * [model.class_token.data])


def test_both_forms_of_patches_give_the_same_logits(rng):
    flat, convolution = shaken(rng), shaken(rng, patches="convolution")
    convolution.load_state_dict(flat.state_dict())
    images = rng.standard_normal((3, 8, 8, 1))
    np.testing.assert_allclose(convolution(images), flat(images), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("pooling, T", [("class", 17), ("mean", 16)])
def test_attention_weights_are_those_of_the_forward(pooling, T, rng):
    model, images = shaken(rng, pooling=pooling), rng.standard_normal((2, 8, 8, 1))
    weights = [*attention_by_layer(model, images).values()]
    assert len(weights) == 2 and all(w.shape == (2, 2, T, T) for w in weights)
    for w in weights:
        np.testing.assert_allclose(w.sum(axis=-1), 1, rtol=1e-12)
    x, _ = model._embed(images)
    first, second = model.encoder.blocks
    _, saved = second.attention.forward(second.branches["attention"].input_norm(first(x)))
    np.testing.assert_allclose(weights[1], second.attention.attention_weights(saved), rtol=1e-12)
    if pooling == "class":
        assert (x[:, 0] == model.class_token.data).all()
    else:
        assert model.class_token is None


def test_dropout_and_label_smoothing(rng):
    model, batch = shaken(rng, dropout=0.5), (rng.standard_normal((4, 8, 8, 1)),
                                              np.array([1, 2, 3, 4]))
    one, same, other = (model.loss(batch, np.random.default_rng(seed))[0] for seed in (1, 1, 2))
    assert one == same != other and model.loss(batch)[0] == model.loss(batch)[0]
    smooth = shaken(rng)
    smooth.label_smoothing = 0.3
    plain, _ = F.cross_entropy(smooth(batch[0]), batch[1])
    assert abs(smooth.evaluation_loss(batch) - plain) < 1e-12
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


@pytest.mark.parametrize("options, words", [
    (dict(patch_size=3),
     "image_size=8 is not divisible by patch_size=3; use patch_size=2 or image_size=9"),
    (dict(positions="sinusoidal"), "choose from 'learned', 'learned_2d'"),
    (dict(pooling="cls"), "pooling='cls'"),
    (dict(patches="fold"), "patches='fold'"), (dict(n_classes=0), "n_classes=0"),
    (dict(channels=0), "channels=0"),
    (dict(n_heads=3), "not divisible"),
    (dict(positions="sinusoidal_2d", d_model=5, n_heads=5), "even d_model"),
    (dict(norm_first=2), "norm_first=2")])
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError, match="VisionTransformerConfig: ") as caught:
        VisionTransformerConfig(**{**SIZES, **options})
    assert words in str(caught.value)


def test_batches_that_do_not_fit_are_refused(rng):
    model = shaken(rng)
    for labels, error, words in ((np.array([10]), ValueError, "0 .. 9"),
                                 (np.array([1, 2]), ValueError, "targets"),
                                 (np.array([1.0]), TypeError, "integers")):
        with pytest.raises(error, match=words):
            model.loss((np.zeros((1, 8, 8, 1)), labels))
    with pytest.raises(TypeError, match="images"):
        model(np.zeros((1, 8, 8, 1), np.float32))


def test_config_round_trip():
    config = VISION_CONFIGS["vit-large"]
    assert VisionTransformerConfig.from_dict(config.as_dict()) == config and config.side == 14


@pytest.mark.slow
def test_it_learns_to_classify_a_few_digits():
    """A small model in some steps, far from guessing; for 98% it needs more of both."""
    digits = load_digits()
    config = VisionTransformerConfig(**{**SIZES, "n_layers": 1, "n_heads": 4, "d_model": 32},
                                     pooling="mean", init_std=0.15)
    model = VisionTransformer(config, np.random.default_rng(0))
    test = labelled_batches(digits.test_images, digits.test_labels)
    stream = LabelledStream(digits.train_images, digits.train_labels, 64, 0)
    trainer = Trainer(model, stream, test,
                      TrainingConfig(steps=60, learning_rate=1e-2, warmup_steps=5))
    before = trainer.evaluate()
    for _ in range(60):
        trainer.train_step()
    assert (accuracy(model, test) > 0.5
            and trainer.evaluate() == mean_loss(model, test) < 0.6 * before)
