"""Image and text in, text out: who attends to whom, the loss of answers, sizes, wrong options."""

import numpy as np
import pytest

from numformer.analysis import attention_by_layer, count
from numformer.models import VisionLanguageModel, VisionLanguageModelConfig
from numformer.models.vision_language.model import prefix_mask

SIZES = dict(image_size=8, patch_size=4, channels=1, vocab_size=9, context_length=10, n_layers=2,
             n_heads=2, d_model=8, dtype="float64", init_std=0.5)
IDS = np.array([[1, 5, 2, 7], [3, 3, 8, 0]])
P = 4                                                                 # patches


@pytest.fixture
def images(rng):
    return rng.standard_normal((2, 8, 8, 1))


def test_patches_see_all_patches_and_tokens_see_what_is_before(rng, images):
    model = VisionLanguageModel(VisionLanguageModelConfig(**SIZES), rng)
    for weights in attention_by_layer(model, IDS, images).values():
        seen = weights > 0                                            # (B, H, P + T, P + T)
        assert (seen == prefix_mask(P, 4)).all()
        assert seen[..., :P, :P].all() and not seen[..., :P, P:].any()
        assert (seen[..., P:, P:] == np.tri(4, dtype=bool)).all() and seen[..., P:, :P].all()


def test_a_later_token_changes_no_earlier_logits_and_every_patch_changes_all(rng, images):
    model = VisionLanguageModel(VisionLanguageModelConfig(**SIZES), rng)
    logits, other = model(IDS, images), IDS.copy()
    other[:, 2] = 6
    changed = np.abs(model(other, images) - logits).max(axis=2) > 1e-9
    assert (changed == [False, False, True, True]).all()
    for row, column in ((0, 0), (0, 4), (4, 0), (7, 7)):
        picture = images.copy()
        picture[0, row, column] += 1
        changed = np.abs(model(IDS, picture) - logits).max(axis=2) > 1e-9
        assert changed[0].all() and not changed[1].any()


def test_tokens_of_the_question_are_no_targets(rng, images):
    model = VisionLanguageModel(VisionLanguageModelConfig(**SIZES), rng)
    targets = np.array([[-100, 2, 7, 4], [-100, -100, -100, 1]])
    loss, saved = model.loss((IDS, images, targets))
    logits = model(IDS, images)
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = -np.mean([log_p[0, 1, 2], log_p[0, 2, 7], log_p[0, 3, 4], log_p[1, 3, 1]])
    np.testing.assert_allclose(loss, expected, rtol=1e-12)
    model.loss_backward(saved)
    assert model.patches.weight.grad.any(), "the answer teaches what patches are"


def test_count_of_parameters_and_operations():
    config = VisionLanguageModelConfig(**SIZES)
    found, model = count(config), VisionLanguageModel(config, np.random.default_rng(0))
    assert found["parameters"] == sum(each.data.size for each in model.parameters())
    assert model.head.weight is model.embedding.weight, "tied"
    C, T, L = 8, 10, 2
    per_vector = 4 * C * C + 2 * C * 4 * C
    keys = P * P + sum(P + t for t in range(1, T - P + 1))            # of all queries
    expected = 2 * (P * 16 * C + L * (T * per_vector + 2 * C * keys) + (T - P) * 9 * C)
    assert abs(found["flops_per_image"] - expected) <= 1


@pytest.mark.parametrize("options, words", [
    (dict(context_length=4), "must be above the 4 patches"),
    (dict(patch_size=3), "not divisible by patch_size=3"),
    (dict(n_heads=3), "not divisible by n_heads=3")])
def test_wrong_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        VisionLanguageModelConfig(**{**SIZES, **options})
