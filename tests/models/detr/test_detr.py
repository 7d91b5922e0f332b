"""DETR: initial weights, the loss by hand, the gradient of every weighted part, what is found."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.layers import LayerNorm, LearnedPositions2D, SinusoidalPositions2D
from numformer.models import DETR, DETRConfig

SIZES = dict(image_size=4, patch_size=2, channels=1, n_classes=3, n_queries=5, n_heads=2,
             d_model=8, encoder_layers=1, decoder_layers=3, init_std=0.3, dtype="float64")


@pytest.fixture
def batch(rng):
    """Two objects, and one."""
    boxes = np.concatenate([0.3 + 0.4 * rng.random((2, 2, 2)), 0.1 + 0.3 * rng.random((2, 2, 2))],
                           axis=2)
    return rng.random((2, 4, 4, 1)), boxes, np.array([[0, 2], [1, F.IGNORE_INDEX]])


def test_initial_weights_have_the_documented_deviation(rng):
    """Residual branches start smaller by the root of their number: 2 a block, or 3."""
    config = DETRConfig(**{**SIZES, "image_size": 40, "n_queries": 100, "d_model": 96,
                           "encoder_layers": 2, "init_std": 0.1, "dtype": "float32"},
                        positions="learned_2d")
    model = DETR(config, rng)
    assert config.hidden_width == 4 * 96
    output = 0.1 * (2 * 2 + 3 * 3) ** -0.5
    for block in (*model.encoder, *model.decoder):
        for attention in filter(None, (block.attention, block.cross_attention)):
            assert attention.query.weight.data.std() == pytest.approx(0.1, rel=0.03)
            assert attention.output.weight.data.std() == pytest.approx(output, rel=0.03)
        assert block.feedforward.hidden.weight.data.std() == pytest.approx(0.1, rel=0.03)
        assert block.feedforward.output.weight.data.std() == pytest.approx(output, rel=0.03)
    for linear in (model.box_head.first, model.box_head.second):     # as before every ReLU
        assert linear.weight.data.std() == pytest.approx((2 / 96) ** 0.5, rel=0.03)
    assert model.queries.data.std() == pytest.approx(1, rel=0.03)
    tables = [parameter.data.std() for _, parameter in model.positions.named_parameters()]
    np.testing.assert_allclose(tables, 0.5, rtol=0.06)


def test_norms_and_heads_have_biases_and_positions_their_kind(rng):
    model = DETR(DETRConfig(**SIZES), rng)
    norms = [part for _, part in model.named_layers() if isinstance(part, LayerNorm)]
    assert len(norms) == 2 + 3 * 3 + 2 and all(norm.bias is not None for norm in norms)
    for linear in (model.class_head, model.box_head.first, model.box_head.second,
                   model.box_head.output):
        assert linear.bias.data.shape == linear.weight.data.shape[1:]
    assert type(model.positions) is SinusoidalPositions2D
    learned = DETR(DETRConfig(**SIZES, positions="learned_2d"), rng)
    assert type(learned.positions) is LearnedPositions2D


@pytest.mark.parametrize("auxiliary", [True, False])
def test_the_loss_by_hand_and_its_gradient(auxiliary, batch, rng):
    """Unmatched queries are "no object", the last class, with a weight of its own."""
    config = DETRConfig(**SIZES, auxiliary_losses=auxiliary, class_weight=1.5, l1_weight=3.0,
                        giou_weight=0.7, no_object_weight=0.2)
    model, (images, boxes, labels) = DETR(config, rng), batch
    y, classes, chosen = model(images), np.full((2, 5), 3), []
    for b in range(2):
        real = labels[b] >= 0
        queries = F.match_objects(y[b, :, :4], y[b, :, 4:], labels[b][real], boxes[b][real], 1.5,
                                  3.0, 0.7)
        classes[b, queries] = labels[b][real]
        chosen.append(y[b, queries, 4:])
    of_classes, _ = F.weighted_cross_entropy(y[..., :4], classes, np.array([1, 1, 1, 0.2]))
    of_boxes, _ = F.box_loss(np.concatenate(chosen), boxes[labels >= 0], 3.0, 0.7)
    assert model.evaluation_loss(batch) == pytest.approx(1.5 * of_classes + of_boxes, rel=1e-13)

    loss, saved = model.loss(batch)
    model.loss_backward(saved)
    gradient, once = 0.0, [parameter.grad.copy() for parameter in model.parameters()]
    for parameter in model.parameters():
        step = rng.standard_normal(parameter.data.shape)
        gradient += (parameter.grad * step).sum()
        parameter.data = parameter.data + 1e-30j * step
    assert model.loss(batch)[0].imag / 1e-30 == pytest.approx(gradient, rel=1e-11)
    model.loss_backward(saved, 1.0)
    for parameter, grad in zip(model.parameters(), once):
        np.testing.assert_allclose(parameter.grad, 2 * grad, rtol=1e-12)


@pytest.mark.parametrize("M", [0, 2])
def test_images_without_objects_have_the_loss_of_classes_alone(M, rng):
    """All queries are "no object", in every block; boxes get no gradient."""
    model = DETR(DETRConfig(**SIZES), rng)
    images, labels = rng.random((2, 4, 4, 1)), np.full((2, M), F.IGNORE_INDEX)
    loss, saved = model.loss((images, np.zeros((2, M, 4)), labels))
    blocks = model._forward(images, None, 3)[0]
    expected = -np.log(F.softmax(blocks[..., :4])[0][..., 3]).mean(axis=(1, 2)).sum()
    assert loss == pytest.approx(expected, rel=1e-13)
    model.loss_backward(saved)
    assert not model.box_head.output.weight.grad.any()
    assert all(np.isfinite(parameter.grad).all() for parameter in model.parameters())
    assert model.class_head.weight.grad.any()


def test_what_is_found_is_the_most_probable_class_and_no_object_is_none(rng):
    model, images = DETR(DETRConfig(**SIZES), rng), rng.random((2, 4, 4, 1))
    model.class_head.bias.data[3] = 1.0                     # "no object"
    y, (labels, scores, boxes) = model(images), model.detect(images)
    p = np.exp(y[..., :4]) / np.exp(y[..., :4]).sum(axis=-1, keepdims=True)
    for b, q in np.ndindex(2, 5):
        assert labels[b, q] == max(range(3), key=lambda v: p[b, q, v])
        assert scores[b, q] == pytest.approx(p[b, q, labels[b, q]], rel=1e-12)
    np.testing.assert_array_equal(boxes, y[..., 4:])


@pytest.mark.parametrize("options, words", [
    (dict(dropout=1), "dropout=1"), (dict(no_object_weight=0), "no_object_weight=0"),
    (dict(d_hidden=0), "d_hidden=0"), (dict(d_model=9, n_heads=3), "d_model=9"),
    (dict(l1_weight=-1), "l1_weight=-1"), (dict(n_queries=0), "n_queries=0")])
def test_wrong_configs_of_detr(options, words):
    with pytest.raises(ValueError, match=f"DETRConfig: {words}"):
        DETRConfig(**{**SIZES, **options})
