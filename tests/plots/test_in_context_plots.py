"""Pictures of learning from the prompt: the numbers that are drawn."""

import numpy as np
import pytest

from numformer.plots import accuracy_bars, accuracy_by_shots, dark, induction_panels

FIGURES = {"recall": 0.9, "without_induction_heads": 0.2, "without_other_heads": 0.8}


def history(rng):
    return [(step, 0.1 * step, rng.random((2, 3)), rng.random((2, 3))) for step in range(5)]


def test_a_curve_of_each_model_goes_through_its_accuracies():
    ax = accuracy_by_shots((0, 1, 16), {"1 layer": [0.1, 0.2, 0.3], "2 layers": [0.1, 0.5, 1.0]},
                           matching=[0.1, 0.6, 1.0])
    best, one, two = ax.lines
    assert list(best.get_ydata()) == [0.1, 0.6, 1.0]
    assert list(one.get_ydata()) == [0.1, 0.2, 0.3] and list(two.get_ydata()) == [0.1, 0.5, 1.0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "16"]
    assert one.get_linestyle() != two.get_linestyle()
    assert [text.get_text() for text in ax.get_legend().get_texts()][1:] == ["1 layer", "2 layers"]


def test_a_curve_needs_a_point_for_each_number_of_examples():
    with pytest.raises(ValueError, match="2 layers has 2 accuracies for 3"):
        accuracy_by_shots((0, 1, 2), {"2 layers": [0.1, 0.2]})


def test_bars_have_the_accuracies_as_lengths_and_in_numbers():
    ax = accuracy_bars({"as in training": 0.96, "no spaces": 0.5}, chance=0.25)
    assert [bar.get_width() for bar in ax.patches] == [0.96, 0.5]
    assert [text.get_text() for text in ax.texts] == ["0.96", "0.50"]
    assert list(ax.lines[0].get_xdata()) == [0.25, 0.25]
    assert ax.get_legend().get_texts()[0].get_text() == "guessing"
    named = accuracy_bars({"a": 0.5}, chance=0.25, chance_label="majority")
    assert named.get_legend().get_texts()[0].get_text() == "majority"
    top, bottom = ax.get_ylim()
    assert top > bottom                                               # the first is at the top
    with pytest.raises(ValueError, match="nothing to draw"):
        accuracy_bars({})


def test_panels_show_every_head_what_ablation_does_and_a_map(rng):
    entries, weights = history(rng), np.tri(4) / np.arange(1, 5)[:, None]
    figure = induction_panels(entries, FIGURES, weights, list("a b "), (1, 2))
    scores, previous, bars, shown, *_ = figure.axes
    assert len(scores.lines) == len(previous.lines) == 7              # 6 heads, and recall
    for axes, which in ((scores, 2), (previous, 3)):
        found = [line.get_ydata() for line in axes.lines[:6]]
        np.testing.assert_array_equal(found, np.array([e[which].ravel() for e in entries]).T)
        np.testing.assert_allclose(axes.lines[6].get_ydata(), [e[1] for e in entries])
    assert [bar.get_width() for bar in bars.patches] == [0.9, 0.8, 0.2]
    np.testing.assert_array_equal(shown.images[0].get_array(), weights)
    assert "Head 3 of layer 2" in shown.get_title()


def test_panels_may_replace_axes_and_be_dark(rng):
    from matplotlib.figure import Figure

    with dark():
        ax = Figure().add_subplot()
        figure = induction_panels(history(rng), FIGURES, np.eye(3), list("abc"), (0, 0), ax=ax)
    assert ax not in figure.axes and "Induction heads" in figure.axes[0].get_title()
