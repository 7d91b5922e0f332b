"""Forecasts: no look ahead, the loss by hand, wrong options."""

import numpy as np
import pytest

from numformer.models import Forecaster, ForecasterConfig

SIZES = dict(context_length=6, horizon=2, n_layers=2, n_heads=2, d_model=8, dtype="float64",
             init_std=0.5)


def test_a_forecast_depends_on_the_numbers_up_to_its_own(rng):
    model = Forecaster(ForecasterConfig(**SIZES), rng)
    values = rng.standard_normal((1, 6))
    forecasts, other = model(values), values.copy()
    assert forecasts.shape == (1, 6, 2, 3)
    other[0, 3] += 1
    changed = np.abs(model(other) - forecasts).max(axis=(2, 3)) > 1e-9
    assert changed.tolist() == [[False] * 3 + [True] * 3]


def test_the_loss_is_the_mean_over_all_forecasts(rng):
    model = Forecaster(ForecasterConfig(**SIZES, percentiles="20,90"), rng)
    values, targets = rng.standard_normal((2, 5)), rng.standard_normal((2, 5, 2))
    error = targets[..., None] - model(values)
    q = np.array([0.2, 0.9])
    expected = np.where(error > 0, q * error, (q - 1) * error).mean()
    np.testing.assert_allclose(model.loss((values, targets))[0], expected, rtol=1e-12)


@pytest.mark.parametrize("options, words", [
    (dict(percentiles="50,100"), "from 1 to 99"), (dict(percentiles="0,50"), "1 or more"),
    (dict(percentiles="50,10"), "must ascend"), (dict(percentiles="10,10"), "must ascend"),
    (dict(horizon=0), "horizon=0")])
def test_wrong_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ForecasterConfig(**{**SIZES, **options})
