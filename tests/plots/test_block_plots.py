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
