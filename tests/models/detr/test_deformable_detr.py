"""DETR with deformable attention: where it looks, what it costs, and that it learns."""

import numpy as np
import pytest

from numformer.analysis import count
from numformer.experiments.training import trainer_of
from numformer.functional import IGNORE_INDEX
from numformer.layers.attention.positioned import PositionedAttention
from numformer.models import DETR, DETRConfig, ReferenceAttention

SIZES = dict(image_size=8, patch_size=2, channels=1, n_classes=3, n_queries=5, n_heads=2,
             d_model=8, encoder_layers=1, decoder_layers=2, dtype="float64")


def test_attention_to_patches_is_deformable_and_that_of_objects_to_objects_is_not(rng):
    model = DETR(DETRConfig(**SIZES, n_points=3), rng)
    layers = [(block.attention, block.cross_attention)
              for block in (*model.encoder, *model.decoder)]
    assert [tuple(map(type, pair)) for pair in layers] == [
        (ReferenceAttention, type(None)), *[(PositionedAttention, ReferenceAttention)] * 2]
    assert layers[0][0].reference is None and layers[1][1].reference is not None
    assert layers[0][0].deformable.n_points == 3 and layers[0][0].side == 4


def test_without_offsets_a_patch_sees_itself_alone(rng):
    """Its reference is the centre of its own patch, where nothing is interpolated."""
    layer = ReferenceAttention(4, 2, 3, 3, rng, of_patches=True, dtype=float)
    layer.deformable.offsets.bias.data[...] = 0
    x, p = rng.standard_normal((2, 9, 4)), rng.standard_normal((9, 4))
    y, saved = layer.forward(x, x, p, p)
    value, output = layer.deformable.value, layer.deformable.output
    np.testing.assert_allclose(y, output(value(x)), atol=1e-12)
    np.testing.assert_allclose(layer.centres(float)[[0, 1, 5]],
                               [[1 / 6, 1 / 6], [1 / 2, 1 / 6], [5 / 6, 1 / 2]])
    assert not layer.backward(y, saved)[3].any()      # positions of keys have no part in it


def test_an_object_query_looks_where_its_reference_is(rng):
    """The reference is a map of its position alone: with a bias of 0, the middle of the image."""
    layer = ReferenceAttention(4, 2, 1, 3, rng, of_patches=False, dtype=float)
    layer.deformable.offsets.bias.data[...] = 0
    layer.reference.weight.data[...] = 0
    x, p, image = (rng.standard_normal(shape) for shape in ((2, 5, 4), (5, 4), (2, 9, 4)))
    value, output = layer.deformable.value, layer.deformable.output
    for bias, patch in ((0.0, 4), (np.log(5), 8)):    # sigmoid(log 5) is 5/6, the last centre
        layer.reference.bias.data[...] = bias
        expected = np.repeat(output(value(image[:, patch:patch + 1])), 5, axis=1)
        np.testing.assert_allclose(layer(x, image, p, image[0]), expected, atol=1e-12)


def test_the_cost_of_a_patch_does_not_grow_with_the_number_of_patches():
    def flops(side, **options):
        return count(DETRConfig(**{**SIZES, "image_size": 2 * side, "decoder_layers": 1},
                                **options))["flops_per_image"]

    # a linear function of the number of patches has equal slopes between 16, 64 and 256
    few, some, many = (flops(side, n_points=4) for side in (4, 8, 16))
    assert (many - some) == 4 * (some - few)
    few, some, many = (flops(side) for side in (4, 8, 16))
    assert (many - some) > 4 * (some - few)


def test_costs_by_hand():
    """One block each, C = 8, F = 32, two heads of two points: 8 offsets and 4 weights a query."""
    config = DETRConfig(**{**SIZES, "decoder_layers": 1}, n_points=2)
    S, Q, C, F = 16, 5, 8, 32
    sampled = C * 8 + C * 4 + C * C                   # offsets, weights, output; values are apart
    encoder = S * (sampled + C * C + 2 * C * F)
    decoder = Q * (4 * C * C + 2 * C * Q + 2 * C * F + 2 * C + sampled) + S * C * C
    heads = Q * (C * 4 + 2 * C * C + C * 4)
    assert count(config)["flops_per_image"] == 2 * (S * 4 * C + encoder + decoder + heads)


def test_a_wrong_number_of_points_is_refused(rng):
    for n_points in (-1, 257):
        with pytest.raises(ValueError, match=f"DETRConfig: n_points={n_points}"):
            DETRConfig(**SIZES, n_points=n_points)
    layer = ReferenceAttention(4, 2, 3, 3, rng, of_patches=True, dtype=float)
    nine, eight = np.ones((1, 9, 4)), np.ones((1, 8, 4))
    with pytest.raises(ValueError, match="S=8"):
        layer(nine, eight, nine[0], eight[0])
    with pytest.raises(TypeError, match="key_positions must be an array"):
        layer(nine, nine, nine[0], None)


@pytest.mark.slow
def test_one_scene_again_and_again_is_learned():
    trainer, task, _ = trainer_of("detr", 1, 150, model=dict(
        encoder_layers=1, decoder_layers=1, d_model=32, n_queries=5, patch_size=4, n_points=2),
        training=dict(batch_size=2))
    batch = trainer.stream.batch(0)
    trainer.stream.batch = lambda step: batch
    losses = [float(trainer.train_step()["loss"]) for _ in range(150)]
    assert losses[-1] < 0.2 * losses[0]
    for (labels, scores, _), true in zip(task.finds(trainer.model, batch.images), batch.targets):
        assert sorted(labels[scores > 0.5]) == sorted(true[true != IGNORE_INDEX])
    # no query has a weight for every patch, which a picture of its attention would need
    assert task.pictures(trainer.model, None).keys() == {"boxes.png"}
