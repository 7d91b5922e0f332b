"""The quantile loss: by hand, its minimum, an exact forecast, precision, wrong arguments."""

import numpy as np
import pytest

from numformer import functional as F

QUANTILES = np.array([0.1, 0.5, 0.9])


def test_a_low_forecast_costs_q_and_a_high_one_the_rest():
    forecasts, targets = np.array([[1.0, 1.0, 4.0], [4.0, 4.0, 4.0]]), np.array([3.0, 3.0])
    loss, saved = F.quantile_loss(forecasts, targets, QUANTILES)
    costs = [0.1 * 2, 0.5 * 2, 0.1 * 1, 0.9 * 1, 0.5 * 1, 0.1 * 1]
    assert loss == pytest.approx(sum(costs) / 6, rel=1e-14)
    np.testing.assert_allclose(F.quantile_loss_backward(6.0, saved),
                               [[-0.1, -0.5, 0.1], [0.9, 0.5, 0.1]], rtol=1e-14)


def test_the_median_has_half_the_absolute_error(rng):
    forecasts, targets = rng.standard_normal((2, 4, 5, 1)), rng.standard_normal((2, 4, 5))
    loss, _ = F.quantile_loss(forecasts, targets, QUANTILES[1:2])
    assert loss == pytest.approx(np.abs(forecasts[..., 0] - targets).mean() / 2, rel=1e-14)


def test_the_best_constant_forecast_is_the_quantile(rng):
    values, grid = rng.exponential(size=999), np.linspace(0, 4, 101)
    losses = [[F.quantile_loss(np.full((999, 1), one), values, QUANTILES[[k]])[0]
               for k in range(3)] for one in grid]
    best = grid[np.argmin(losses, axis=0)]
    assert np.abs(best - np.quantile(values, QUANTILES)).max() < 0.05


def test_an_exact_forecast_costs_nothing_and_is_pushed_up_as_one_below():
    loss, saved = F.quantile_loss(np.full((1, 3), 2.0), np.array([2.0]), QUANTILES)
    assert loss == 0
    np.testing.assert_allclose(F.quantile_loss_backward(3.0, saved), [-QUANTILES])


def test_targets_and_quantiles_may_have_another_precision(rng):
    forecasts = rng.standard_normal((4, 3)).astype(np.float32)
    loss, saved = F.quantile_loss(forecasts, rng.standard_normal(4), QUANTILES)
    assert loss.dtype == F.quantile_loss_backward(np.float64(1), saved).dtype == np.float32


@pytest.mark.parametrize("forecasts, targets, quantiles, words", [
    ((4, 3), (4, 3), QUANTILES, r"targets of shape \(4,\)"),
    ((0, 3), (0,), QUANTILES, "at least one"),
    ((4, 3), (4,), QUANTILES[:2], "Q=3"),
    ((4, 3), (4,), np.array([0.0, 0.5, 0.9]), "between 0 and 1"),
    ((4, 3), (4,), np.array([0.1, 0.5, 1.0]), "between 0 and 1"),
    ((4, 3), (4,), np.array([0.1, np.nan, 0.9]), "between 0 and 1")])
def test_wrong_arguments_are_refused(forecasts, targets, quantiles, words):
    with pytest.raises(ValueError, match=words):
        F.quantile_loss(np.zeros(forecasts), np.zeros(targets), quantiles)


def test_whole_numbers_are_refused():
    with pytest.raises(TypeError, match="targets must be an array of floats"):
        F.quantile_loss(np.zeros((4, 3)), np.zeros(4, int), QUANTILES)
