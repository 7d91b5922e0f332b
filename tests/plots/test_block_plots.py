"""Plots of what the parts of a block do show the numbers of their arguments."""

import pytest

from numformer import plots


def test_clipping_curves_show_losses_and_gradient_norms():
    runs = {"clipped": [dict(loss=3.0, gradient_norm=9.0), dict(loss=2.0, gradient_norm=1.0)],
            "unclipped": [dict(loss=3.0, gradient_norm=9.0)]}
    losses, norms = plots.clipping_curves(runs)
    assert [line.get_xydata().tolist() for line in norms.lines] == [[[1, 9], [2, 1]], [[1, 9]]]
    assert losses.lines[0].get_ydata().tolist() == [3, 2]
    assert [text.get_text() for text in losses.get_legend().get_texts()] == list(runs)
    assert norms.get_yscale() == norms.get_xscale() == "log"
    with pytest.raises(ValueError, match="clipping_curves: a run has no steps"):
        plots.clipping_curves({"clipped": []})


def test_gradient_ratios_and_losses_show_their_numbers():
    ax = plots.gradient_ratio_by_depth({"skips": {8: 0.9, 4: 1.0}, "none": {4: 0.5, 8: 0.1}})
    assert [line.get_xydata().tolist() for line in ax.lines] == [
        [[4, 1.0], [8, 0.9]], [[4, 0.5], [8, 0.1]]]
    assert ax.get_yscale() == "log" and ax.get_xticks().tolist() == [4, 8]
    ax = plots.losses_by_step({"skips": [3.0, 2.0, 1.0], "none": [3.0]})
    assert ax.lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [3, 1]]
    assert [line.get_label() for line in ax.lines] == ["skips: 1.000", "none: 3.000"]
    with pytest.raises(ValueError, match="gradient_ratio_by_depth: ratios hold no numbers"):
        plots.gradient_ratio_by_depth({"skips": {}})
    with pytest.raises(ValueError, match="losses_by_step: a run has no steps"):
        plots.losses_by_step({"skips": []})
