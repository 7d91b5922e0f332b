"""Masks that a caller gives to the forward of a model, in addition to its own."""

import numpy as np
import pytest

from numformer.models import (
    CLIP, Bert, BertClassifier, BertClassifierConfig, BertConfig, BertSpanClassifier,
    BertSpanClassifierConfig, BertTokenClassifier, BertTokenClassifierConfig, CLIPConfig, Decoder,
    DecoderConfig, EncoderDecoder, EncoderDecoderConfig, SentenceBert, SentenceBertConfig,
    VisionTransformer, VisionTransformerConfig)
from numformer.verify import MODEL_BOUND, gradcheck

SIZES = dict(n_layers=1, n_heads=2, d_model=4, d_hidden=5, dtype="float64")
TEXT = dict(vocab_size=7, context_length=8, **SIZES)
IDS, LENGTHS = np.array([[3, 1, 4, 1], [5, 2, 6, 0]]), np.array([4, 3])
OUTPUTS = np.array([[1, 5, 2], [2, 6, 6]])
IMAGES = np.random.default_rng(3).standard_normal((2, 4, 4, 1))
IMAGE = VisionTransformerConfig(image_size=4, patch_size=2, channels=1, n_classes=3, **SIZES)
PAIRS = CLIPConfig(image_size=4, patch_size=2, channels=1, d_embedding=3, **TEXT)


def allowed(*shape):
    """A random mask in which every query may attend to the first key."""
    mask = np.random.default_rng(7).random(shape) < 0.5
    mask[..., 0] = True
    return mask


CASES = {                               # the model, its inputs, and its masks
    "Decoder": (lambda rng: Decoder(DecoderConfig(**TEXT), rng), [IDS],
                dict(mask=allowed(4, 4), causal=False)),
    "Decoder, causal": (lambda rng: Decoder(DecoderConfig(**TEXT), rng), [IDS],
                        dict(mask=allowed(2, 2, 4, 4))),
    "Bert": (lambda rng: Bert(BertConfig(**TEXT), rng), [IDS, IDS % 2, LENGTHS],
             dict(mask=allowed(2, 1, 4, 4))),
    "Bert, local": (lambda rng: Bert(BertConfig(
        **TEXT, sliding_window=2, layer_types="full_attention,sliding_attention,"
        "sliding_attention"), rng), [IDS, IDS % 2, LENGTHS],
                    dict(mask=allowed(4, 4))),
    "BertClassifier": (lambda rng: BertClassifier(BertClassifierConfig(**TEXT, n_classes=3), rng),
                       [IDS, LENGTHS], dict(mask=allowed(4, 4))),
    "BertTokenClassifier": (
        lambda rng: BertTokenClassifier(BertTokenClassifierConfig(**TEXT, n_classes=3), rng),
        [IDS, LENGTHS, IDS % 2], dict(mask=allowed(4, 4))),
    "BertSpanClassifier": (
        lambda rng: BertSpanClassifier(BertSpanClassifierConfig(**TEXT), rng),
        [IDS, LENGTHS, IDS % 2], dict(mask=allowed(2, 1, 4, 4))),
    "SentenceBert": (lambda rng: SentenceBert(SentenceBertConfig(**TEXT), rng), [IDS, LENGTHS],
                     dict(mask=allowed(4, 4))),
    "EncoderDecoder": (
        lambda rng: EncoderDecoder(EncoderDecoderConfig(**TEXT), rng), [IDS, LENGTHS, OUTPUTS],
        dict(input_mask=allowed(4, 4), output_mask=allowed(2, 1, 3, 3),
             memory_mask=allowed(2, 2, 3, 4))),
    "CLIP": (lambda rng: CLIP(PAIRS, rng), [IDS, IMAGES, LENGTHS], dict(mask=allowed(2, 1, 4, 4))),
    "VisionTransformer": (lambda rng: VisionTransformer(IMAGE, rng), [IMAGES],
                          dict(mask=allowed(5, 5))),
}


def model_of(build):
    model, rng = build(np.random.default_rng(0)), np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_derivative_equals_the_complex_step(name):
    build, inputs, masks = CASES[name]
    report = gradcheck(model_of(build), inputs, masks, MODEL_BOUND)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", CASES)
def test_each_mask_matters_and_one_of_all_keys_does_not(name):
    build, inputs, masks = CASES[name]
    model = model_of(build)
    plain = model(*inputs)
    for key, mask in masks.items():
        if key == "causal":
            continue
        assert not np.allclose(model(*inputs, **{key: mask}), plain, rtol=0, atol=1e-3)
        np.testing.assert_allclose(model(*inputs, **{key: np.ones_like(mask)}), plain, rtol=1e-11,
                                   atol=1e-12)
        with pytest.raises(TypeError, match="True = may attend"):
            model(*inputs, **{key: mask.astype(float)})
        with pytest.raises(ValueError, match="mask"):
            model(*inputs, **{key: np.ones((9, 9), bool)})


def test_documents_that_a_mask_separates_do_not_see_each_other(rng):
    """Rotary positions depend on distance alone, so each has the logits that it has alone."""
    model = model_of(lambda rng: Decoder(DecoderConfig(**{**TEXT, "positions": "rotary"}), rng))
    document = np.array([0, 0, 0, 1, 1])
    ids = rng.integers(0, 7, (1, 5))
    logits = model(ids, mask=document[:, None] == document)
    np.testing.assert_allclose(logits[:, :3], model(ids[:, :3]), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(logits[:, 3:], model(ids[:, 3:]), rtol=1e-12, atol=1e-13)


def test_a_prefix_is_read_in_both_directions(rng):
    """With a mask of the causal form it is the causal model; with a prefix, its tokens see all of
    the prefix and nothing after it.
    """
    model = model_of(CASES["Decoder"][0])
    ids, tri = rng.integers(0, 7, (2, 5)), np.tri(5, dtype=bool)
    np.testing.assert_allclose(model(ids, mask=tri, causal=False), model(ids), rtol=1e-12)
    prefix = tri | (np.arange(5) < 3)
    logits, other = model(ids, mask=prefix, causal=False), ids.copy()
    other[:, 2] = (ids[:, 2] + 1) % 7
    assert np.abs(logits[:, 0] - model(other, mask=prefix, causal=False)[:, 0]).max() > 1e-3
    other = ids.copy()
    other[:, 3] = (ids[:, 3] + 1) % 7
    assert np.array_equal(logits[:, :3], model(other, mask=prefix, causal=False)[:, :3])
    with pytest.raises(TypeError, match="causal"):
        model(ids, causal="no")
