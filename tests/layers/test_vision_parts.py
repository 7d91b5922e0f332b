"""BatchNorm compared with LayerNorm, patches in both forms, positions on a grid, and pooling."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.layers import (
    BatchNorm, LearnedPositions2D, PatchEmbedding, Pooling, SinusoidalPositions2D)


def test_batch_norm_depends_on_the_batch_and_layer_norm_does_not(rng):
    """What the lecture compares: a sequence's output, in a batch with other sequences."""
    x, weight, bias = rng.standard_normal((3, 4, 5)), rng.standard_normal(5), rng.standard_normal(5)
    other = x.copy()
    other[1:] = 3 * rng.standard_normal((2, 4, 5))
    layer, batch = (norm(x, weight, bias)[0][0] for norm in (F.layer_norm, F.batch_norm))
    assert np.array_equal(F.layer_norm(other, weight, bias)[0][0], layer)
    assert (np.abs(F.batch_norm(other, weight, bias)[0][0] - batch) > 1e-3).mean() > 0.9
    statistics = F.gathered_statistics(None, F.batch_norm(x, weight, bias)[1])
    with_x, with_other = (F.batch_norm_inference(y, weight, bias, statistics)[0][0]
                          for y in (x, other))
    assert np.array_equal(with_x, with_other), "at inference every vector is by itself again"


def test_batch_norm_normalizes_columns_and_layer_norm_rows(rng):
    x = 5 * rng.standard_normal((40, 7)) + rng.standard_normal(7)
    for norm, axis in ((F.batch_norm, 0), (F.layer_norm, 1)):
        y = norm(x, np.ones(7), np.zeros(7), epsilon=0.0)[0]
        np.testing.assert_allclose(y.mean(axis=axis), 0, atol=1e-14)
        np.testing.assert_allclose(y.var(axis=axis), 1, rtol=1e-12)
    of_columns, _ = F.batch_norm(x, np.ones(7), np.zeros(7))
    of_rows, _ = F.layer_norm(x.T.copy(), np.ones(40), np.zeros(40))
    np.testing.assert_allclose(of_columns, of_rows.T, rtol=1e-10, atol=1e-12)


def test_batch_norm_ignores_padding(rng):
    x, mask = rng.standard_normal((2, 4, 5)), np.arange(4) < np.array([[4], [2]])
    layer = BatchNorm(5, dtype=float)
    y, saved = layer.forward(x, mask=mask)
    np.testing.assert_allclose(y[mask], layer(x[mask]), rtol=1e-13)
    assert (y[~mask] == 0).all()
    spoiled = np.where(mask[..., None], x, np.nan)
    again, saved_again = layer.forward(spoiled, mask=mask)
    assert np.array_equal(again, y)
    dy = rng.standard_normal(y.shape)
    dx = layer.backward(dy, saved)
    assert np.array_equal(layer.backward(np.where(mask[..., None], dy, np.inf), saved_again), dx)
    assert (dx[~mask] == 0).all()
    for one, other in zip(layer.updated(None, saved),
                          layer.updated(None, layer.forward(x[mask])[1])):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    statistics = F.BatchStatistics(np.zeros(5), np.ones(5))
    assert (layer(spoiled, statistics=statistics, mask=mask)[~mask] == 0).all()


def test_running_statistics_approach_those_of_the_data(rng):
    layer = BatchNorm(3)
    statistics = None
    mean = np.array([5.0, -2.0, 0.0])
    deviation = np.array([1.0, 3.0, 0.1])
    for _ in range(300):
        x = (mean + deviation * rng.standard_normal((16, 2, 3))).astype(np.float32)
        before, (y, saved) = statistics, layer.forward(x)
        statistics = layer.updated(statistics, saved, momentum=0.02)
        assert before is not statistics and all(array.dtype == np.float32 for array in statistics)
    assert (np.abs(statistics.mean - mean) < 0.1 * deviation).all()
    assert (np.abs(statistics.variance / deviation**2 - 1) < 0.2).all()
    np.testing.assert_allclose(layer(x, statistics=statistics), y, atol=1.0)


def test_running_statistics_are_new_values_and_unbiased(rng):
    x = rng.standard_normal((6, 2))
    saved = F.batch_norm(x, np.ones(2), np.zeros(2))[1]
    first = F.gathered_statistics(None, saved)
    np.testing.assert_allclose(first.mean, x.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(first.variance, x.var(axis=0, ddof=1), rtol=1e-14)
    kept = first.mean.copy(), first.variance.copy()
    F.gathered_statistics(first, F.batch_norm(x + 1, np.ones(2), np.zeros(2))[1])
    first.mean[:] += 1
    assert np.array_equal(F.gathered_statistics(None, saved).mean, kept[0])
    assert np.array_equal(first.variance, kept[1])
    assert np.array_equal(F.gathered_statistics(first, saved).mean,
                          F.gathered_statistics(first, saved, 0.1).mean)
    layer = BatchNorm(2, dtype=float)
    updated = layer.updated(first, layer.forward(x)[1])
    assert np.array_equal(updated.mean, F.gathered_statistics(first, saved, 0.1).mean)


@pytest.mark.parametrize("change, error, words", [
    (dict(epsilon=-1), ValueError, "epsilon=-1"),
    (dict(bias=np.zeros(2)), ValueError, "bias must have shape"),
    (dict(mask=np.ones((2, 4))), TypeError, "mask must be an array of bool"),
    (dict(mask=np.ones((2, 3), bool)), ValueError, "(2, 4)"),
    (dict(mask=np.eye(2, 4, k=9, dtype=bool)), ValueError, "has 0"),
    (dict(statistics=np.zeros((2, 3))), TypeError, "pair"),
    (dict(statistics=(np.zeros(3),)), TypeError, "pair"),
    (dict(statistics=(np.zeros(3), np.ones(2))), ValueError, "variance"),
    (dict(x=np.zeros((1, 3))), ValueError, "2 vectors or more"),
    (dict(x=np.zeros((2, 3), np.float32)), TypeError, "float32")])
def test_bad_arguments_of_batch_norm_are_named(change, error, words):
    variants = {"mask": F.masked_batch_norm, "statistics": F.batch_norm_inference}
    norm = variants.get(*change, F.batch_norm)
    arguments = {**dict(x=np.zeros((2, 4, 3)), weight=np.ones(3), bias=np.zeros(3)), **change}
    with pytest.raises(error) as caught:
        norm(**arguments)
    assert words in str(caught.value)
    assert str(caught.value).split(": ")[0] in ("batch_norm", norm.__name__)


def test_bad_arguments_of_running_statistics_are_named():
    x, statistics = np.zeros((4, 2)), F.BatchStatistics(np.zeros(2), np.ones(2))
    with pytest.raises(ValueError, match="none of its own"):
        _, saved = F.batch_norm_inference(x, np.ones(2), np.zeros(2), statistics)
        F.gathered_statistics(None, saved)
    for momentum in (0, 1, "much"):
        with pytest.raises(ValueError, match="momentum="):
            F.gathered_statistics(None, F.batch_norm(x, np.ones(2), np.zeros(2))[1], momentum)
    for bad in (dict(width=0), dict(width=2, epsilon=-1)):
        with pytest.raises(ValueError, match="BatchNorm"):
            BatchNorm(**bad)


@pytest.mark.parametrize("image_size, patch_size, channels, C",
                         [(8, 2, 1, 5), (6, 3, 3, 7), (4, 4, 2, 3), (5, 1, 3, 2)])
def test_both_forms_of_the_patch_embedding_are_equal(image_size, patch_size, channels, C, rng):
    flat, convolution = (PatchEmbedding(image_size, patch_size, channels, C, rng, form,
                                        dtype=float) for form in ("flatten", "convolution"))
    flat.bias.data[:] = rng.standard_normal(C)
    convolution.load_state_dict(flat.state_dict())
    images = rng.standard_normal((2, image_size, image_size, channels))
    (y, saved), (z, saved_too) = flat.forward(images), convolution.forward(images)
    assert y.shape == z.shape == (2, (image_size // patch_size) ** 2, C)
    np.testing.assert_allclose(z, y, rtol=1e-12, atol=1e-12)
    dy = rng.standard_normal(y.shape)
    np.testing.assert_allclose(convolution.backward(dy, saved_too), flat.backward(dy, saved),
                               rtol=1e-12, atol=1e-12)
    for one, other in zip(flat.parameters(), convolution.parameters(), strict=True):
        np.testing.assert_allclose(other.grad, one.grad, rtol=1e-12, atol=1e-12)


def test_patches_are_parts_of_the_image(rng):
    images = rng.standard_normal((2, 6, 9, 2))
    y, saved = F.patches(images, 3)
    for t, (row, column) in enumerate(np.ndindex(2, 3)):
        piece = images[:, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
        assert np.array_equal(y[:, t].reshape(2, 3, 3, 2), piece)
    assert np.array_equal(F.patches_backward(y, saved), images)
    one = F.patches(images[:, :3, :3], 3)[0]
    assert one.shape == (2, 1, 18) and not np.shares_memory(one, images)


def test_initial_weights_of_a_patch_embedding(rng):
    layer = PatchEmbedding(32, 16, 3, 500, rng)
    assert abs(layer.weight.data.std() * np.sqrt(768) - 1) < 0.02
    assert (layer.bias.data == 0).all()
    assert layer.form == "flatten"
    assert layer.weight.data.dtype == np.float32
    assert PatchEmbedding(4, 2, 1, 3, rng, bias=False).bias is None
    assert abs(PatchEmbedding(32, 16, 3, 500, rng, std=0.3).weight.data.std() / 0.3 - 1) < 0.02


@pytest.mark.parametrize("call, words", [
    (lambda: PatchEmbedding(224, 15, 3, 8, None),
     "image_size=224 is not divisible by patch_size=15; use patch_size=14 or image_size=225"),
    (lambda: PatchEmbedding(8, 2, 0, 8, None), "channels=0"),
    (lambda: PatchEmbedding(8, 2, 1, 8, None, "fold"), "form='fold' is unknown"),
    (lambda: PatchEmbedding(8, 0, 1, 8, None), "patch_size=0"),
    (lambda: PatchEmbedding(8, 2, 1, 0, None), "d_model=0"),
    (lambda: F.patches(np.zeros((1, 4, 6, 1)), 4),
     "patches: width=6 is not divisible by patch_size=4; use patch_size=3 or width=8"),
    (lambda: F.patches(np.zeros((1, 0, 6, 1)), 2), "empty, shape (1, 0, 6, 1)"),
    (lambda: F.patches(np.zeros((4, 6, 1)), 2), "(B, height, width, channels)"),
    (lambda: F.patch_convolution(np.zeros((1, 4, 5, 1)), np.zeros((2, 2, 1, 3))), "width=5"),
    (lambda: F.patch_convolution(np.zeros((1, 4, 4, 1)), np.zeros((2, 1, 1, 3))),
     "patches are square"),
    (lambda: F.patch_convolution(np.zeros((1, 4, 4, 2)), np.zeros((2, 2, 1, 3))), "channels=1"),
    (lambda: F.patch_convolution(np.zeros((1, 4, 4, 1)), np.zeros((2, 2, 1, 3)), np.zeros(2)),
     "C=3"),
    (lambda: SinusoidalPositions2D(2, 2, 5), "d_model=5 must be even"),
    (lambda: LearnedPositions2D(2, 2, 5, None), "use 6"),
    (lambda: SinusoidalPositions2D(0, 2, 4), "rows=0"),
    (lambda: F.sinusoidal_positions_2d(2, 0, 4), "columns=0"),
    (lambda: F.sinusoidal_positions_2d(2, 2, 3), "sinusoidal_positions_2d: width=3 must be even"),
    (lambda: Pooling("sum"), "kind='sum' is unknown"),
    (lambda: Pooling("class")(np.zeros((2, 0, 3))), "no class token"),
    (lambda: F.mean_pooling(np.zeros((2, 3, 4)), np.eye(2, 3, k=-1, dtype=bool)),
     "sequence 0 of x"),
    (lambda: F.max_pooling(np.zeros((2, 3, 4)), np.ones((3, 2), bool)),
     "mask must have shape (2, 3)")])
def test_bad_arguments_are_named(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    assert words in str(caught.value)


def test_sinusoids_on_a_grid_distinguish_rows_and_columns():
    table = F.sinusoidal_positions_2d(3, 5, 8).reshape(3, 5, 8)
    lines = F.sinusoidal_positions(np.arange(5), 4)
    expected = np.concatenate(np.broadcast_arrays(lines[:3, None], lines[None]), axis=-1)
    assert np.array_equal(table, expected)
    assert len(np.unique(table.reshape(15, 8).round(9), axis=0)) == 15, "no two places are alike"
    assert F.sinusoidal_positions_2d(3, 5, 8, np.float32).dtype == np.float32
    # with the patch in the middle, row 1 and column 2
    similarity = table.reshape(15, 8) @ table.reshape(15, 8).T
    assert similarity[7].reshape(3, 5).argmax() == 7


def test_learned_positions_on_a_grid_are_row_and_column(rng):
    layer, x = LearnedPositions2D(3, 4, 6, rng, dtype=float), rng.standard_normal((2, 12, 6))
    y = (layer(x) - x).reshape(2, 3, 4, 6)
    for row, column in np.ndindex(3, 4):
        expected = np.concatenate([layer.row.data[row], layer.column.data[column]])
        np.testing.assert_allclose(y[:, row, column], np.stack([expected, expected]), atol=1e-15)
    first = LearnedPositions2D(300, 200, 400, rng)
    assert all(abs(p.data.std() / 0.02 - 1) < 0.02 and p.data.dtype == np.float32
               for p in first.parameters())


@pytest.mark.parametrize("kind", ["mean", "max", "class"])
def test_pooling_ignores_padding(kind, rng):
    x, mask = rng.standard_normal((2, 5, 3)), np.arange(5) < np.array([[5], [2]])
    pooling = Pooling(kind)
    y, saved = pooling.forward(np.where(mask[..., None], x, np.nan), mask=mask)
    np.testing.assert_allclose(y[1], pooling(x[1:, :2])[0], rtol=1e-14)
    np.testing.assert_allclose(y[0], pooling(x)[0], rtol=1e-14)
    assert (pooling.backward(np.ones((2, 3)), saved)[1, 2:] == 0).all()


def test_max_pooling_sends_the_gradient_to_the_first_of_equal_values():
    x = np.zeros((1, 3, 2))
    _, saved = F.max_pooling(x)
    assert F.max_pooling_backward(np.ones((1, 2)), saved)[0].tolist() == [[1, 1], [0, 0], [0, 0]]
    lowest = np.full((1, 2, 1), -np.inf)
    lowest[0, 0] = 5
    assert F.max_pooling(lowest, np.array([[False, True]]))[0] == -np.inf, "whatever padding holds"


def test_mean_and_maximum_do_not_depend_on_the_order(rng):
    x, order = rng.standard_normal((2, 6, 3)), rng.permutation(6)
    for kind in ("mean", "max"):
        np.testing.assert_allclose(Pooling(kind)(x[:, order]), Pooling(kind)(x), rtol=1e-13)
    assert np.array_equal(Pooling("class")(x), x[:, 0])
