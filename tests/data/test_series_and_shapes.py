"""Time series and point clouds by rule."""

import numpy as np
import pytest

from numformer.data import SHAPES, random_series, shape_points


def test_series_are_waves_and_a_trend_with_the_noise_that_they_name(rng):
    """Differences of a series from its own smoothed form have the size of its noise."""
    values, noise = random_series(2000, 300, rng)
    assert values.shape == (2000, 300) and 0.05 <= noise.min() < noise.max() <= 0.4
    # A fourth difference removes the slow waves and the trend; of noise it has variance 70
    rough = np.diff(values, 4, axis=1).std(axis=1) / np.sqrt(70)
    assert np.corrcoef(rough, noise)[0, 1] > 0.9
    same, _ = random_series(3, 20, np.random.default_rng(1))
    again, _ = random_series(3, 20, np.random.default_rng(1))
    assert (same == again).all() and len({row.tobytes() for row in same}) == 3


@pytest.mark.parametrize("shape", SHAPES)
def test_points_are_on_the_surface_of_their_shape(shape, monkeypatch):
    """Without noise, stretching and a turn every point solves the equation of its surface."""
    from numformer.data.corpora import shapes

    monkeypatch.setattr(shapes, "NOISE", 0.0)
    for name in ("LEAST", "MOST"):
        monkeypatch.setattr(shapes, name, 1.0)
    points = shape_points(np.array([SHAPES.index(shape)]), 500, np.random.default_rng(0))[0]
    z, radius = points[:, 2], np.hypot(points[:, 0], points[:, 1])
    surface = {
        "ball": np.abs(np.linalg.norm(points, axis=1) - 1),
        "cylinder": np.minimum(np.abs(radius - 1), np.abs(np.abs(z) - 1)),
        "cone": np.minimum(np.abs(radius - (1 - z) / 2), np.abs(z + 1)),
        "ring": np.abs(np.hypot(radius - 0.65, z) - 0.35)}
    if shape in surface:
        assert surface[shape].max() < 1e-9
    else:                                             # turned squares: within their circles
        reach = np.sqrt(2) * (1 if shape == "box" else (1 - z) / 2)
        assert (radius <= reach + 1e-9).all() and np.abs(z).max() <= 1 + 1e-9
        assert radius.max() > 1.2 and (np.abs(z + 1) < 1e-9).mean() > 0.1
    assert len(np.unique(points, axis=0)) == 500


def test_every_cloud_has_a_size_and_a_direction_of_its_own(rng):
    clouds = shape_points(np.full(50, SHAPES.index("box")), 200, rng)
    heights = np.abs(clouds[..., 2]).max(axis=1)
    assert heights.min() < 0.8 < 1.2 < heights.max()
    corners = clouds[np.arange(50), np.hypot(clouds[..., 0], clouds[..., 1]).argmax(axis=1)]
    angles = np.arctan2(corners[:, 1], corners[:, 0]) % (np.pi / 2)
    assert np.ptp(angles) > 1


def test_what_cannot_be_sampled_is_refused(rng):
    with pytest.raises(ValueError, match="length=0"):
        random_series(3, 0, rng)
    with pytest.raises(TypeError, match="rng"):
        random_series(3, 5, 0)
    with pytest.raises(ValueError, match="labels must be 0 to 5"):
        shape_points(np.array([6]), 5, rng)
    with pytest.raises(ValueError, match="n_points=0"):
        shape_points(np.array([0]), 0, rng)
