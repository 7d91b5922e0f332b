"""Forecasts and point clouds: batches, and the methods that the models are compared with."""

import numpy as np
import pytest

from command import call
from numformer.data import SHAPES, shape_points
from numformer.models import ForecasterConfig
from numformer.recipes import PRESETS
from numformer.recipes.numbers.forecasts import forecast_batch, repeated, simple_forecasts
from numformer.recipes.numbers.nearest_clouds import nearest_by_distance, nearest_by_profile

CONFIG = ForecasterConfig(context_length=48, horizon=8, n_layers=1, n_heads=1, d_model=8)


def test_targets_are_the_numbers_that_follow(rng):
    series = np.arange(2 * 56.0).reshape(2, 56)
    values, targets = forecast_batch(series, CONFIG)
    assert values.shape == (2, 48) and targets.shape == (2, 48, 8)
    assert (targets == values[..., None] + np.arange(1, 9)).all()
    assert values.dtype == targets.dtype == np.float32


def test_a_series_that_repeats_itself_is_forecast_exactly():
    period = np.array([3.0, -1.0, 0.5, 2.0, 7.0])
    series = np.tile(period, 12)
    np.testing.assert_allclose(repeated(series[:48], CONFIG),
                               np.repeat(series[48:56, None], 3, axis=1), atol=1e-12)


def test_quantiles_of_simple_forecasts_ascend_and_hold_as_many_values_as_they_say():
    task = PRESETS["forecast"].task
    values = task.load(None).values
    coming = values[:, 48:56]
    for name, found in simple_forecasts(values, CONFIG).items():
        assert found.shape == (len(values), 8, 3) and (np.diff(found, axis=2) >= 0).all()
        if name != "best_lag_loss":
            inside = (found[..., 0] <= coming) & (coming <= found[..., 2])
            assert abs(inside.mean() - 0.8) < 0.04, name


def test_the_nearest_cloud_is_found_in_any_order_and_by_its_profile_in_any_direction(rng):
    known = shape_points(np.arange(len(SHAPES)).repeat(5), 40, rng)
    order = rng.permutation(len(known))
    clouds = known[order][:, rng.permutation(40)] + 0.01 * rng.standard_normal((len(known), 40, 3))
    assert (nearest_by_distance(clouds, known) == order).all()
    turned = clouds[..., [1, 0, 2]] * [1, -1, 1]
    assert (nearest_by_profile(turned, known) == order).all()
    assert (nearest_by_distance(turned, known) != order).any()


@pytest.mark.parametrize("argv, words", [
    (["--horizon", "0"], "horizon=0"), (["--percentiles", "50,100"], "from 1 to 99")])
def test_wrong_options_of_forecasts_are_one_line(capsys, argv, words, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "forecast", "--out", tmp_path / "r", *argv)
    assert status in (1, 2) and words in err and not (tmp_path / "r").exists()
