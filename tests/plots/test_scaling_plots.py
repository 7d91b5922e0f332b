"""Pictures of losses and costs against length, size, data and operations."""

import numpy as np
import pytest

from numformer.analysis import ScalingLaw
from numformer.plots import (
    losses_by_operations, losses_by_position, power_law_panels, rank_scaling, scaling_law_curves)


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_losses_by_position_are_means_of_eighths_of_the_trained_length():
    ax = losses_by_position({"rotary": np.arange(32.0), "alibi": np.ones(32)}, trained=16)
    line = next(line for line in ax.lines if line.get_label() == "rotary")
    assert line.get_ydata()[:3] == pytest.approx([0.5, 2.5, 4.5])
    assert line.get_xdata()[:2] == pytest.approx([1.5, 3.5])
    assert labels(ax) == ["rotary", "alibi", "trained length"]
    end = next(line for line in ax.lines if line.get_label() == "trained length")
    assert list(end.get_xdata()) == [16.5, 16.5]


def test_a_scaling_law_is_drawn_through_its_runs():
    law = ScalingLaw(1.0, 10.0, 20.0, 0.5, 0.5)
    runs = [(N, D, law.loss(N, D), N == 400) for N in (100, 400) for D in (1000, 4000)]
    ax = scaling_law_curves(runs, law)
    curves = [line for line in ax.lines if len(line.get_xdata()) == 60]
    assert [line.get_ydata()[0] for line in curves] == pytest.approx(
        [law.loss(100, 1000), law.loss(400, 1000)])
    points = [line for line in ax.lines if len(line.get_xdata()) == 1]
    assert [line.get_fillstyle() for line in points] == ["full", "full", "none", "none"]
    assert "100 parameters" in labels(ax) and "hollow: not fitted" in labels(ax)


def test_operations_are_marked_where_a_curve_reaches_the_target():
    ax = losses_by_operations({"a": [(1e3, 3.0), (1e5, 1.0)], "b": [(1e4, 2.5), (1e6, 1.5)]}, 2.0)
    marks = [line for line in ax.lines if len(line.get_xdata()) == 1]
    assert [line.get_xdata()[0] for line in marks] == pytest.approx([1e4, 1e5])
    assert labels(ax)[0] == "a loss of 2.00"


def test_power_laws_have_a_panel_for_each_quantity_and_slopes_in_the_legend():
    values = {"time": {"full": {64: 1.0, 128: 4.0, 256: 16.0}},
              "memory": {"full": {64: 1.0, 128: 2.0, 256: 4.0}}}
    figure = power_law_panels(values, {"time": {"full": 2.0}, "memory": {"full": -0.0}}, 128)
    time, memory = figure.axes
    assert [panel.get_title() for panel in figure.axes] == ["time", "memory"]
    assert labels(time) == ["full: N$^{2.00}$"] and labels(memory) == ["full: N$^{0.00}$"]
    assert list(time.lines[0].get_ydata()) == [4, 16] and list(time.lines[1].get_ydata()) == [1, 4]
    assert time.get_xscale() == time.get_yscale() == "log"


@pytest.mark.parametrize("draw, arguments", [
    (losses_by_position, ({}, 8)), (scaling_law_curves, ([], None)), (losses_by_operations, ({},)),
    (power_law_panels, ({}, {})), (losses_by_operations, ({"a": []},))])
def test_nothing_to_draw_is_named(draw, arguments):
    with pytest.raises(ValueError, match=f"{draw.__name__}: .*nothing to draw"):
        draw(*arguments)


def test_ranks_have_a_line_for_each_link_and_points_where_they_were_measured():
    lines = {"fast": {1: 0.1, 2: 0.06, 4: 0.04}, "slow": {1: 0.1, 2: 0.09, 4: 0.08}}
    figure = rank_scaling(lines, {1: 0.0, 2: 1e6, 4: 1.5e6}, {1: (0.1, 0.0), 2: (0.061, 1e6)})
    time, size = figure.axes
    assert [line.get_label() for line in time.lines] == ["fast", "slow", "measured"]
    np.testing.assert_allclose(time.lines[0].get_ydata(), [100, 60, 40])
    np.testing.assert_allclose(time.lines[2].get_ydata(), [100, 61])
    np.testing.assert_allclose(size.lines[0].get_ydata(), [0, 1, 1.5])
    assert [tick.get_text() for tick in time.get_xticklabels()] == ["1", "2", "4"]
    assert all("^" not in tick.get_text() for tick in time.get_yticklabels())
    for lacking in ({}, {1: 0.0}), (lines, {}):
        with pytest.raises(ValueError, match="give a model"):
            rank_scaling(*lacking)
