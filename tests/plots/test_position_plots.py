"""Plots of positions show their vectors, biases and rotations."""

import math

import numpy as np
from matplotlib.colors import to_rgb

from plot_examples import texts
from numformer import plots
from numformer.functional import alibi, alibi_slopes, sinusoidal_positions
from numformer.plots.axes import signed_colours


def test_position_vectors_have_a_scale_centred_at_zero():
    table = sinusoidal_positions(np.arange(6), 4)
    ax = plots.position_vectors(table)
    assert np.array_equal(ax.images[0].get_array(), table) and ax.images[0].get_clim() == (-1, 1)
    grey = [np.dot(to_rgb(signed_colours(ax)(x)), (0.299, 0.587, 0.114))
            for x in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert grey[0] < grey[1] < grey[2] > grey[3] > grey[4]
    assert grey[4] > grey[0] + 0.05, "the two ends differ in print, too"


def test_similarity_of_sinusoids_depends_on_distance_alone(rng):
    table = sinusoidal_positions(np.arange(8), 6)
    ax = plots.similarity_by_distance({"sinusoids": table, "random": rng.standard_normal((8, 6))})
    squared_norm = 3                                                  # sin² + cos² of three pairs
    expected = [(table @ table.T).diagonal(k).mean() / squared_norm for k in range(8)]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected, rtol=1e-12)
    bands = [np.ptp(collection.get_paths()[0].vertices[:, 1].reshape(-1), axis=0)
             for collection in ax.collections]
    assert len(bands) == 2 and [line.get_label() for line in ax.lines] == ["sinusoids", "random"]
    assert len({(line.get_linestyle(), line.get_marker()) for line in ax.lines}) == 2


def test_position_biases_of_all_heads_share_a_scale():
    bias = alibi(np.zeros((4, 5, 5)), alibi_slopes(4))[0]
    figure = plots.position_biases(bias)
    maps = [ax for ax in figure.axes if ax.get_title().startswith("head")]
    assert len(maps) == 4 and all(ax.images[0].get_clim() == (-1, 1) for ax in maps)
    assert all(np.array_equal(ax.images[0].get_array(), head) for ax, head in zip(maps, bias))
    assert maps[0].get_title() == "head 1"
    assert len([ax for ax in plots.position_biases(bias[:3]).axes if ax.get_title()]) == 3
    assert len([ax for ax in plots.position_biases(np.ones((5, 2, 2))).axes if ax.get_title()]) == 5


def test_rotary_clocks_rotate_by_their_frequencies():
    figure = plots.rotary_clocks(64, positions=3)
    fast = figure.axes[0]
    hands = [line.get_xydata()[1] for line in fast.lines[1:]]
    np.testing.assert_allclose(hands, [(math.cos(t), math.sin(t)) for t in range(3)], atol=1e-12)
    assert texts(fast) == ["0", "1", "2"] and len(figure.axes) == 4
    steps = {0: "1", 4: "0.316", 8: "0.1", 31: "0.000133"}
    assert [ax.get_title() for ax in figure.axes] == [
        f"pair {pair}:\n{step} rad per step" for pair, step in steps.items()]
    assert len(plots.rotary_clocks(2).axes) == 1


def test_scores_of_rotary_positions_are_constant_along_diagonals(rng):
    figure = plots.rotary_proof(*rng.standard_normal((2, 6)), positions=9)
    scores = figure.axes[0].images[0].get_array()
    assert scores.shape == (9, 9)
    for d in range(-8, 9):
        assert np.ptp(scores.diagonal(d)) < 1e-13
    assert np.ptp(scores[0]) > 0.1
    points = figure.axes[1].lines[0].get_xydata()
    assert len(points) == 81 and points[1].tolist() == [-1, scores[0, 1]]
    assert "81 scores" in figure.axes[1].get_title()
