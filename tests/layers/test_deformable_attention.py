"""Deformable attention: which pixels it reads, where it looks first, and how an offset learns."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.layers import DeformableAttention


def at(points, values, shapes):
    """What a single query with weight 1 reads at these points (T, 2) of one head."""
    T = len(points)
    locations = np.asarray(points, float).reshape(1, 1, T, 1, 1, 2)
    return F.deformable_attention(values, locations, np.ones((1, 1, T, 1, 1)), shapes)[0][0, 0]


def test_a_point_at_a_centre_reads_that_pixel_and_one_outside_reads_nothing(rng):
    image = rng.standard_normal((3, 4, 5))
    values = image.reshape(1, 1, 12, 5)
    for row, column in np.ndindex(3, 4):
        point = [(column + 0.5) / 4, (row + 0.5) / 3]
        np.testing.assert_allclose(at([point], values, [(3, 4)]), image[row, column][None],
                                   rtol=1e-12)
    outside = [[-0.2, 0.5], [0.5, 1.3], [1e300, 0.5], [0.5, -1e300]]
    assert (at(outside, values, [(3, 4)]) == 0).all()
    edge = at([[0.0, 0.5 / 3]], values, [(3, 4)])               # halfway to what is outside
    np.testing.assert_allclose(edge, image[0, 0][None] / 2, rtol=1e-12)


def test_between_four_pixels_it_reads_their_mean_and_a_plane_is_exact(rng):
    image = rng.standard_normal((2, 2, 3))
    np.testing.assert_allclose(at([[0.5, 0.5]], image.reshape(1, 1, 4, 3), [(2, 2)])[0],
                               image.mean(axis=(0, 1)), rtol=1e-12)
    rows, columns = np.mgrid[:6, :7]
    plane = (2.0 * columns - 3 * rows + 1).reshape(1, 1, 42, 1)
    points = rng.uniform(0.1, 0.9, (20, 2))
    x, y = points[:, 0] * 7 - 0.5, points[:, 1] * 6 - 0.5
    np.testing.assert_allclose(at(points, plane, [(6, 7)])[:, 0], 2 * x - 3 * y + 1,
                               rtol=1e-10)


def test_a_nan_or_an_infinity_is_not_read_unless_a_point_is_next_to_it(rng):
    image = rng.standard_normal((3, 4, 2))
    image[0, 0], image[2, 3] = np.nan, np.inf
    found = at([[0.7, 0.3], [0.2, 0.2], [-5, 0.2]], image.reshape(1, 1, 12, 2), [(3, 4)])
    assert np.isfinite(found[[0, 2]]).all() and np.isnan(found[1]).all()


@pytest.mark.parametrize("shapes, error, words", [
    ([(3, 5)], ValueError, "15 pixels, but there are S=12"), ([], TypeError, "height, width"),
    ((3, 4), TypeError, "height, width"), ([(3, 4.0)], ValueError, "width=4.0"),
    (None, TypeError, "shapes=None"), ([(12, 0)], ValueError, "width=0")])
def test_shapes_that_do_not_fit_are_refused(shapes, error, words, rng):
    with pytest.raises(error, match=words):
        at([[0.5, 0.5]], rng.standard_normal((1, 1, 12, 5)), shapes)
    layer = DeformableAttention(4, 2, 1, 2, rng, dtype=float)
    with pytest.raises(error, match=words):
        layer(rng.standard_normal((1, 2, 4)), rng.standard_normal((1, 12, 4)),
              rng.standard_normal((1, 2, 2)), shapes)


def test_what_cannot_be_a_location_or_a_layer_is_refused(rng):
    with pytest.raises(ValueError, match=r"locations must be finite, but hold nan at index"):
        at([[np.nan, 0.5]], rng.standard_normal((1, 1, 12, 5)), [(3, 4)])
    with pytest.raises(ValueError, match="no axis may be empty"):
        at(np.zeros((0, 2)), rng.standard_normal((1, 1, 12, 5)), [(3, 4)])
    layer = DeformableAttention(4, 2, 2, 1, rng, dtype=float)
    with pytest.raises(ValueError, match="those of 1 feature maps, but the layer is for n_maps=2"):
        layer(np.ones((1, 2, 4)), np.ones((1, 12, 4)), np.ones((1, 2, 2)), [(3, 4)])
    with pytest.raises(ValueError, match="n_points=0"):
        DeformableAttention(4, 2, 1, 0, rng)


def test_at_first_each_head_looks_in_a_direction_of_its_own(rng):
    """With one pixel that is not 0, a head reads it where its points are, with weight 1 / (L K)."""
    layer = DeformableAttention(4, 4, 1, 3, rng, dtype=float)
    layer.value.weight.data[...] = layer.output.weight.data[...] = np.eye(4)
    steps = [(1, 0), (0, 1), (-1, 0), (0, -1)]                       # of head 0, 1, 2 and 3
    for h, (right, down) in enumerate(steps):
        for k in range(1, 4):
            image = np.zeros((9, 9, 4))
            image[4 + k * down, 4 + k * right] = 1
            y = layer(rng.standard_normal((1, 1, 4)), image.reshape(1, 81, 4),
                      np.full((1, 1, 2), 0.5), [(9, 9)])
            np.testing.assert_allclose(y[0, 0], np.eye(4)[h] / 3, atol=1e-12)


def test_an_offset_moves_to_what_is_bright(rng):
    """Two pixels below and three left of every reference point there is a spot: gradient ascent."""
    layer = DeformableAttention(1, 1, 1, 1, rng, dtype=float)
    layer.value.weight.data[...] = layer.output.weight.data[...] = 1
    offset, (rows, columns) = layer.offsets.bias, np.mgrid[:16, :16]
    for _ in range(80):
        row, column = rng.integers(4, 12, (2, 8, 1, 1))
        spots = np.exp(-((rows - row - 2) ** 2 + (columns - column + 3) ** 2) / 16)
        points = (np.concatenate([column, row], axis=-1) + 0.5) / 16          # (B, 1, 2)
        y, saved = layer.forward(np.zeros((8, 1, 1)), spots.reshape(8, 256, 1), points, [(16, 16)])
        layer.zero_grad()
        layer.backward(np.ones_like(y) / 8, saved)
        offset.data += 2 * offset.grad
    np.testing.assert_allclose(offset.data, [-3, 2], atol=0.3)
