"""Plots of what the parts of a block do show the numbers of their arguments."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from plot_examples import texts
from numformer import plots
from numformer.plots.axes import colours, new_axes


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


def test_attention_maps_show_each_kind_of_weights():
    axes = plots.attention_maps({"even": np.tri(3) / 3, "learned": np.eye(3)}, list("abc"))
    assert [ax.get_title().splitlines()[-1] for ax in axes] == ["even", "learned"]
    np.testing.assert_array_equal(axes[1].images[0].get_array(), np.eye(3))
    with pytest.raises(ValueError, match="attention_maps: weights are empty"):
        plots.attention_maps({})


def test_the_cube_shades_the_numbers_of_one_mean():
    shared = np.zeros((2, 3, 4), bool)
    shared[0, 2] = True                                               # a vector: 4 + 1 + 4 faces
    ax = plots.norm_cube(shared, new_axes((3, 3)))
    faces = ax.collections[0].get_facecolor()
    assert len(faces) == 3 * 4 + 2 * 3 + 2 * 4
    assert (faces[:, :3] == to_rgb(colours(ax)[1])).all(axis=1).sum() == 9
    assert {"positions t", "coordinates c", "texts b"} == set(texts(ax))
    with pytest.raises(ValueError, match="shape .B, T, C."):
        plots.norm_cube(np.zeros((2, 2)), ax)


def test_norm_comparison_shows_jacobians_and_refuses_others():
    matrices = {"LayerNorm": np.eye(6), "BatchNorm": np.full((6, 6), 0.5)}
    figure = plots.norm_comparison(matrices, (2, 3, 4))
    shown = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    np.testing.assert_array_equal(shown, list(matrices.values()))
    with pytest.raises(ValueError, match="of RMSNorm"):
        plots.norm_comparison({"RMSNorm": np.eye(6)}, (2, 3, 4))
    with pytest.raises(ValueError, match=r"= \(6, 6\), but has \(5, 5\)"):
        plots.norm_comparison({"LayerNorm": np.eye(5)}, (2, 3, 4))


def test_results_by_batch_size_are_a_panel_for_each_measure():
    one, two = plots.results_by_batch_size({"loss": {"a": {8: 1.0, 2: 2.0}},
                                            "accuracy": {"a": {2: 0.5}, "b": {2: 0.6}}})
    assert one.lines[0].get_xydata().tolist() == [[2, 2], [8, 1]]
    assert [line.get_label() for line in two.lines] == ["a", "b"]
    assert two.get_ylabel() == "accuracy"
    with pytest.raises(ValueError, match="results hold no curves"):
        plots.results_by_batch_size({"loss": {}})
