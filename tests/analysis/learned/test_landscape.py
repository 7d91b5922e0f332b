"""Directions have the norms of filters, surfaces the losses of moved models."""

import numpy as np
import pytest

from numformer.analysis import filter_normalized_direction, loss_surface, path_directions
from numformer.data import Batch
from numformer.models import Decoder, DecoderConfig


@pytest.fixture
def model(rng):
    return Decoder(DecoderConfig(vocab_size=6, context_length=8, n_layers=1, n_heads=2, d_model=8,
                                 tied=False), rng)


def test_filters_of_a_direction_have_the_norms_of_the_weights(model):
    direction = filter_normalized_direction(model, np.random.default_rng(3))
    parameters = dict(model.named_parameters())
    assert direction.keys() == parameters.keys()
    rows = {"embedding.weight", "positions.weight", "head.weight"}    # tables: a vector is a row
    assert rows < direction.keys()
    n_matrices = 0
    for name, parameter in parameters.items():
        if parameter.data.ndim == 1:
            assert not direction[name].any(), name
            continue
        n_matrices += 1
        axis = 1 if name in rows else 0
        for d, w in zip(*(np.linalg.norm(x.astype(float), axis=axis)
                          for x in (direction[name], parameter.data))):
            assert d == pytest.approx(w, rel=1e-5), name
        # and not only in all: the norms along the other axis differ
        others = [np.linalg.norm(x, axis=1 - axis) for x in (direction[name], parameter.data)]
        assert not np.allclose(*others, rtol=1e-3), name
    assert n_matrices >= 8


def test_a_surface_holds_the_losses_of_moved_models(model, rng):
    batch = Batch(inputs=rng.integers(0, 6, (2, 8)), targets=rng.integers(0, 6, (2, 8)))
    before = model.state_dict()
    directions = [filter_normalized_direction(model, rng) for _ in range(2)]
    surface = loss_surface(model, directions, [-0.5, 0, 1], [0, 0.25],
                           lambda: model.loss(batch)[0])
    assert surface.shape == (2, 3)
    assert surface[0, 1] == model.loss(batch)[0]
    for name, data in model.state_dict().items():
        assert np.array_equal(data, before[name]), "the parameters are as before"
    for name, parameter in model.named_parameters():
        parameter.data[:] = before[name] + 1 * directions[0][name] + 0.25 * directions[1][name]
    assert surface[1, 2] == pytest.approx(float(model.loss(batch)[0]), rel=1e-6)
    assert len(np.unique(surface)) == 6


def test_parameters_survive_an_error_and_overflow_is_infinite(model):
    before = model.state_dict()
    directions = [filter_normalized_direction(model, np.random.default_rng(0))] * 2

    def broken():
        raise RuntimeError("no loss")

    with pytest.raises(RuntimeError, match="no loss"):
        loss_surface(model, directions, [1.0], [1.0], broken)
    assert all(np.array_equal(data, before[name]) for name, data in model.state_dict().items())
    values = iter([np.nan, np.inf, 2.0])

    def overflown():
        value = next(values)
        if value == np.inf:
            raise FloatingPointError("overflow")
        return value

    found = loss_surface(model, directions, [1.0, 2.0, 3.0], [0.0], overflown)
    assert found.tolist() == [[np.inf, np.inf, 2.0]]


def test_the_plane_of_a_path_holds_it_if_it_is_flat(rng):
    end, one, two = rng.standard_normal((3, 4, 5))
    path = [{"a": end + x * one + y * two, "b": np.full(3, float(x))}
            for x, y in ((3, 1), (2, 2), (1, 2), (0.5, 1), (0, 0))]
    directions, points, shares = path_directions(path)
    assert shares.sum() == pytest.approx(1, abs=1e-6) and shares[0] >= shares[1] > 0
    for state, (x, y) in zip(path, points):
        for name in state:
            np.testing.assert_allclose(
                path[-1][name] + x * directions[0][name] + y * directions[1][name], state[name],
                atol=1e-6)
    flat = [np.concatenate([d.ravel() for d in each.values()]) for each in directions]
    np.testing.assert_allclose(np.array(flat) @ np.array(flat).T, np.eye(2), atol=1e-6)
    assert points[-1].tolist() == [0, 0]


def test_a_straight_path_has_one_direction():
    path = [{"w": np.array([x, 2 * x])} for x in (2.0, 1.0, 0.0)]
    directions, points, shares = path_directions(path)
    np.testing.assert_allclose(shares, [1, 0], atol=1e-9)
    np.testing.assert_allclose(directions[0]["w"], [0.2 ** 0.5, 0.8 ** 0.5])
    assert np.isfinite(points).all()


@pytest.mark.parametrize("path, words", [
    ([{"w": np.zeros(2)}] * 2, "2 states"),
    ([{"w": np.zeros(2)}, {"w": np.zeros(2)}, {"w": np.zeros(3)}], "different parameters")])
def test_paths_of_nothing_are_refused(path, words):
    with pytest.raises(ValueError, match=words):
        path_directions(path)


def test_directions_of_other_models_are_refused(model):
    with pytest.raises(ValueError, match="directions must be two"):
        loss_surface(model, [{"w": np.zeros(2)}] * 2, [0], [0], lambda: 0.0)
    with pytest.raises(ValueError, match="has no parameters"):
        filter_normalized_direction(None, np.random.default_rng(0))
    with pytest.raises(TypeError, match="rng"):
        filter_normalized_direction(model, None)
