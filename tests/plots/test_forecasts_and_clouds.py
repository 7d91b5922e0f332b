"""The fan of a forecast, and a cloud in two orders."""

import numpy as np
import pytest

from numformer.plots import cloud_orders, forecast_fan


def test_the_fan_begins_at_the_last_number_read(rng):
    values, forecasts = rng.standard_normal(12), np.sort(rng.standard_normal((4, 3)), axis=1)
    ax = forecast_fan(values, forecasts, [0.1, 0.5, 0.9])
    median, read, came = ax.lines
    np.testing.assert_allclose(median.get_ydata(), [values[7], *forecasts[:, 1]])
    np.testing.assert_allclose(read.get_ydata(), values[:8])
    np.testing.assert_allclose(came.get_xydata(), np.column_stack([range(1, 5), values[8:]]))
    assert "10% to 90%" in [text.get_text() for text in ax.get_legend().get_texts()]
    edges = ax.collections[0].get_paths()[0].vertices
    assert {(0.0, values[7])} <= set(map(tuple, edges))


def test_a_fan_of_two_quantiles_has_no_median(rng):
    ax = forecast_fan(rng.standard_normal(5), np.array([[-1.0, 1.0]]), [0.25, 0.75])
    assert len(ax.lines) == 2 and len(ax.collections) == 1


def test_both_clouds_have_the_same_points_in_other_colours(rng):
    points, order = rng.standard_normal((9, 3)), rng.permutation(9)
    logits = np.array([[1.0, -2.0], [1.0, -2.0]])
    first, second, below = cloud_orders(points, order, logits, ["ball", "box"]).figure.axes
    one, other = (ax.collections[0] for ax in (first, second))
    np.testing.assert_allclose(other.get_offsets(), one.get_offsets()[order])
    assert (one.get_array() == other.get_array()).all() and (order != np.arange(9)).any()
    assert [bar.get_width() for bar in below.patches] == [1.0, -2.0, 1.0, -2.0]


@pytest.mark.parametrize("draw, words", [
    (lambda: forecast_fan(np.zeros(3), np.zeros((3, 2)), [0.1, 0.9]), "more values than forecasts"),
    (lambda: forecast_fan(np.zeros(9), np.zeros((3, 2)), [0.1]), "Q=1"),
    (lambda: cloud_orders(np.zeros((3, 3)), np.array([0, 0, 1]), np.zeros((2, 1)), ["a"]),
     "permutation"),
    (lambda: cloud_orders(np.zeros((3, 2)), np.arange(3), np.zeros((2, 1)), ["a"]), "3=3")])
def test_what_does_not_fit_is_refused(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()
