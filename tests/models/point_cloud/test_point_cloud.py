"""Point clouds: a function of sets, with any number of points; what positions change."""

import numpy as np
import pytest

from numformer.models import PointCloudClassifier, PointCloudClassifierConfig

SIZES = dict(context_length=9, n_classes=4, n_layers=2, n_heads=2, d_model=8, dtype="float64",
             init_std=0.5)


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_no_order_of_points_changes_the_logits_and_gradients_move_with_them(pooling, rng):
    model = PointCloudClassifier(PointCloudClassifierConfig(**SIZES, pooling=pooling), rng)
    points, dz = rng.standard_normal((3, 12, 3)), rng.standard_normal((3, 4))
    z, saved = model.forward(points)
    dpoints = model.backward(dz, saved)
    for order in (rng.permutation(12), np.arange(12)[::-1]):
        shuffled, saved = model.forward(np.ascontiguousarray(points[:, order]))
        np.testing.assert_allclose(shuffled, z, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(model.backward(dz, saved), dpoints[:, order], rtol=1e-9,
                                   atol=1e-11)


def test_with_positions_the_order_counts(rng):
    model = PointCloudClassifier(PointCloudClassifierConfig(**SIZES, positions="rotary"), rng)
    points = rng.standard_normal((1, 9, 3))
    assert np.abs(model(np.ascontiguousarray(points[:, ::-1])) - model(points)).max() > 1e-3


def test_a_cloud_may_have_any_number_of_points_and_each_counts(rng):
    model = PointCloudClassifier(PointCloudClassifierConfig(**SIZES, pooling="mean"), rng)
    points = rng.standard_normal((1, 12, 3))
    z = model(points)
    assert model(points[:, :1]).shape == z.shape == (1, 4)
    for t in range(12):
        other = points.copy()
        other[0, t] += 1
        assert np.abs(model(other) - z).max() > 1e-6


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_the_head_reads_the_maximum_or_the_mean_of_the_last_layer(pooling, rng):
    model = PointCloudClassifier(PointCloudClassifierConfig(**SIZES, pooling=pooling), rng)
    points = rng.standard_normal((2, 9, 3))
    x = model.encoder(model.input(points))                            # (B, T, C)
    np.testing.assert_allclose(model(points), model.head(getattr(x, pooling)(axis=1)), rtol=1e-12)
