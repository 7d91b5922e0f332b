"""CLIP: the end token, the loss, the temperature, classification, counts, and captioned digits."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.analysis import count
from numformer.data import Batch, load_digits
from numformer.models import (
    CLIP, CLIP_CONFIGS, CLIPConfig, CLIPTextConfig, CLIPTextEncoder, VisionTransformer)
from numformer.training import Trainer, TrainingConfig

EOS = 9
SIZES = dict(vocab_size=10, context_length=6, n_layers=2, n_heads=2, d_model=8, d_embedding=5)
IMAGE = dict(image_size=8, patch_size=2, channels=1)


def shaken(kind, config, rng):
    model = kind(config, rng)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return model


def text_encoder(rng, **options):
    return shaken(CLIPTextEncoder, CLIPTextConfig(**SIZES, dtype="float64", **options), rng)


def clip(rng, **options):
    return shaken(CLIP, CLIPConfig(**SIZES, **IMAGE, dtype="float64", **options), rng)


@pytest.mark.parametrize("eos_id", [EOS, 3, None])
def test_nothing_after_the_end_token_counts(eos_id, rng):
    """The tokens before it count, each; so do not those behind it, with lengths or without."""
    model, end = text_encoder(rng, eos_id=eos_id), EOS if eos_id is None else eos_id
    ids = np.array([[1, 5, end, 7, 6, 2]])
    if eos_id is None:
        ids[0, 4] = end                               # of several, the first
    y, other = model(ids), ids.copy()
    other[0, 3:] = 1, end, 4
    for same in (model(other), model(ids[:, :3]), model(ids, lengths=np.array([3]))):
        np.testing.assert_allclose(same, y, rtol=1e-12, atol=1e-13)
    for position in (0, 1):
        other = ids.copy()
        other[0, position] = 8
        assert np.abs(model(other) - y).max() > 1e-3
    rows, _ = model.encoder.forward(
        model.positions(model.embedding(ids), start=0), F.CAUSAL)
    np.testing.assert_allclose(y, rows[:, 2] @ model.projection.weight.data, rtol=1e-12)


def test_the_end_token_is_looked_for_within_the_length(rng):
    largest, by_id = text_encoder(rng), text_encoder(rng, eos_id=EOS)
    ids, lengths = np.array([[1, 5, 8, 9, 9]]), np.array([3])
    assert largest.end_tokens(ids, lengths) == [2] and largest.end_tokens(ids) == [3]
    assert largest.end_tokens(np.array([[0, 0, 5]]), np.array([2])) == [0], "padding is no token"
    assert text_encoder(rng, eos_id=0).end_tokens(np.array([[4, 0, 2]])) == [1]
    with pytest.raises(ValueError, match="row 0 of ids has no end token, eos_id=9; end every"):
        by_id(ids, lengths)
    with pytest.raises(ValueError, match="1 .. T=5"):
        by_id(ids, np.array([6]))


def test_logits_are_cosines_over_the_temperature(rng):
    model = clip(rng, temperature=0.2)
    model.logit_scale.data[...] = -np.log(0.2)
    ids, images = np.array([[1, 2, EOS], [3, 4, EOS]]), rng.standard_normal((3, 8, 8, 1))
    u, v = model.image(images), model.text(ids)
    u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u, v))
    np.testing.assert_allclose(model(ids, images), 5 * u @ v.T, rtol=1e-12)
    assert CLIP(CLIPConfig(**SIZES, **IMAGE), rng).logit_scale.data == np.float32(-np.log(0.07))


def test_the_loss_is_that_of_both_directions(rng):
    model, ids = clip(rng), np.array([[1, 2, EOS], [3, 4, EOS], [3, EOS, 0]])
    images = rng.standard_normal((3, 8, 8, 1))
    z, pairs = model(ids, images), np.arange(3)
    expected = (F.cross_entropy(z, pairs)[0] + F.cross_entropy(z.T.copy(), pairs)[0]) / 2
    assert model.loss((ids, images))[0] == pytest.approx(expected, rel=1e-14)
    order = [2, 0, 1]
    assert model.loss((ids[order], images[order]))[0] == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match=r"contrastive_loss: logits must have shape \(N, N\)"):
        model.loss((ids, images[:2]))


def test_loss_backward_scales(rng):
    model, ids = clip(rng), np.array([[1, 2, EOS], [3, 4, EOS]])
    _, saved = model.loss((ids, rng.standard_normal((2, 8, 8, 1)), np.array([3, 3])))
    model.loss_backward(saved)
    once = [parameter.grad.copy() for parameter in model.parameters()]
    model.zero_grad()
    model.loss_backward(saved, 0.25)
    for parameter, grad in zip(model.parameters(), once):
        np.testing.assert_allclose(parameter.grad, 0.25 * grad, rtol=1e-9, atol=1e-15)


def test_the_logit_scale_is_bounded_when_it_is_asked_for(rng):
    model = clip(rng)
    model.logit_scale.data[...] = 5.0
    data = model.logit_scale.data
    model.clip_logit_scale()
    assert data is model.logit_scale.data and np.exp(data) == pytest.approx(100, rel=1e-14)
    model.clip_logit_scale(20.0)
    model.clip_logit_scale()
    assert np.exp(data) == pytest.approx(20, rel=1e-14)
    model.clip_logit_scale(0.5)
    assert np.exp(data) == pytest.approx(0.5, rel=1e-14)
    with pytest.raises(ValueError, match="CLIP: largest=0 must"):
        model.clip_logit_scale(0)


def test_probabilities_of_classes(rng):
    model, ids = clip(rng), np.array([[1, EOS, 0], [2, EOS, 0], [3, 4, EOS]])
    images, lengths = rng.standard_normal((5, 8, 8, 1)), np.array([2, 2, 3])
    p = model.classify(ids, images, lengths)
    np.testing.assert_allclose(p, F.softmax(model(ids, images))[0], rtol=1e-12)
    np.testing.assert_allclose(p[:, :2] / p[:, :2].sum(axis=1, keepdims=True),
                               model.classify(ids[:2], images), rtol=1e-12)


def test_the_encoders_have_their_own_sizes(rng):
    model = clip(rng, text_layers=1, text_heads=3, text_width=12, text_hidden=7, d_hidden=11)
    assert type(model.image) is VisionTransformer and model.image.config is not model.config
    assert len(model.text.encoder.blocks) == 1 and len(model.image.encoder.blocks) == 2
    assert model.text.projection.weight.data.shape == (12, 5) and model.text.projection.bias is None
    assert model.text.encoder.blocks[0].feedforward.hidden.weight.data.shape == (12, 7)
    assert model.image.encoder.blocks[0].feedforward.hidden.weight.data.shape == (8, 11)
    assert model.image.head.bias is None and model.image.patches.bias is None
    config = model.config
    assert CLIPConfig.from_dict(config.as_dict()) == config
    plain = CLIPConfig(**SIZES, **IMAGE, d_hidden=11)             # the text's is its own default
    assert plain.optional_sizes == dict(d_hidden=11, text_layers=2, text_heads=2, text_width=8,
                                        text_hidden=32)


@pytest.mark.parametrize("options, words", [
    (dict(patch_size=3), "image_size=8 is not divisible by patch_size=3"),
    (dict(text_heads=3), "text_width=8 is not divisible by text_heads=3"),
    (dict(text_width=9), "text_width=9 is not divisible by text_heads=2"),
    (dict(n_kv_heads=2, text_heads=1), "text_heads=1 is not divisible by n_kv_heads=2"),
    (dict(text_layers=0), "text_layers=0"), (dict(d_embedding=0), "d_embedding=0"),
    (dict(channels=0), "channels=0"), (dict(text_hidden=-1), "text_hidden=-1"),
    (dict(temperature=0), "temperature=0"), (dict(positions="rotary"), "positions='rotary'"),
    (dict(eos_id=10), "eos_id=10 must be below vocab_size=10"), (dict(eos_id=-1), "eos_id=-1"),
    (dict(vocab_size=0), "vocab_size=0")])
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError, match="CLIPConfig: ") as caught:
        CLIPConfig(**{**SIZES, **IMAGE, **options})
    assert words in str(caught.value)


@pytest.mark.parametrize("name, total, width", [
    ("clip-base-32", 151_277_313, 768), ("clip-base-16", 149_620_737, 768),
    ("clip-large-14", 427_616_513, 1024)])
def test_published_counts_but_for_the_position_of_the_class_token(name, total, width):
    assert count(CLIP_CONFIGS[name])["parameters"] == total - width


def test_flops_of_a_pair_by_hand():
    """Widths 4 and 8 and hidden layers of 6 and 10; 9 patches, and texts of 5 tokens."""
    config = CLIPConfig(
        image_size=6, patch_size=2, channels=3, vocab_size=7, context_length=5, d_embedding=3,
        n_layers=2, n_heads=2, d_model=4, d_hidden=6, text_layers=3, text_width=8, text_hidden=10)
    found, alone = count(config), count(config.text)
    image = 2 * (9 * 12 * 4 + 2 * (10 * (4 * 16 + 2 * 4 * 6) + 2 * 10 * 10 * 4) + 4 * 3)
    pairs = 5 * 6 / 2                                 # of a query and a key that is not later
    text = 2 * (3 * (5 * (4 * 64 + 2 * 8 * 10) + 2 * pairs * 8) + 8 * 3)
    assert (found["flops_per_image"], found["flops_per_text"]) == (image, text)
    assert found["training_flops_per_pair"] == 3 * (image + text)
    assert (alone["flops_per_text"], alone["training_flops_per_text"]) == (text, 3 * text)
    assert alone["parameters"] + count(config.image)["parameters"] + 1 == found["parameters"]


class Captioned:
    """Ten different digits a batch, each with its caption: BOS, the digit, EOS."""

    captions = np.array([[10, digit, 12] for digit in range(10)])

    def __init__(self, digits):
        self.images, labels = digits.train_images, digits.train_labels
        self.rows = [np.flatnonzero(labels == digit) for digit in range(10)]

    def batch(self, step):
        rng = np.random.default_rng([0, step])
        return Batch(ids=self.captions, images=self.images[[rng.choice(r) for r in self.rows]])


@pytest.mark.slow
def test_it_learns_the_names_of_digits_by_the_trainer():
    """Far better than guessing after some steps, and continued from a state to the bit."""
    digits = load_digits()
    config = CLIPConfig(**{**SIZES, "vocab_size": 13, "d_model": 32, "d_embedding": 16,
                           "n_heads": 4}, **IMAGE, eos_id=12, init_std=0.15)
    settings = TrainingConfig(steps=150, learning_rate=5e-3, warmup_steps=5, shards=1)
    first, second = (Trainer(CLIP(config, np.random.default_rng(0)), Captioned(digits), [],
                             settings) for _ in range(2))
    losses = [first.train_step()["loss"] for _ in range(130)]
    second.load_state_dict(*first.state_dict())
    losses += [first.train_step()["loss"] for _ in range(20)]
    assert losses[130:] == [second.train_step()["loss"] for _ in range(20)]
    assert first.model.logit_scale.data.shape == ()
    assert first.model.logit_scale.data != np.float32(-np.log(0.07)), "it is trained"
    p = first.model.classify(Captioned.captions, digits.test_images)
    accuracy = (p.argmax(axis=1) == digits.test_labels).mean()
    assert np.mean(losses[-10:]) < 1.7 < 2.2 < losses[0] and accuracy > 0.25, (losses, accuracy)
