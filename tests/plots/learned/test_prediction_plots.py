"""Pictures of predictions: bars of the next token, and a text shaded by its losses."""

import numpy as np
import pytest

from numformer import plots
from numformer.analysis import next_token_distribution
from numformer.plots.axes import new_axes

LOGITS = np.log([0.1, 0.4, 0.3, 0.15, 0.05])


def heights(panel):
    return {round(bar.get_x() + 0.4): bar.get_height() for bar in panel.patches}


def test_bars_are_the_probabilities_at_each_temperature():
    figure = plots.temperature_panels(LOGITS, list("abcde"), (0.5, 2.0), top_p=0.8)
    order = [1, 2, 3, 0, 4]                                           # most likely first
    for panel, temperature in zip(figure.axes, (0.5, 2.0)):
        p = next_token_distribution(LOGITS, temperature)
        assert [heights(panel)[k] for k in range(5)] == pytest.approx(p[order])
        assert [label.get_text() for label in panel.get_xticklabels()] == list("bcdae")
        assert f"temperature {temperature:g}" in panel.get_title()


def test_tokens_that_top_p_and_top_k_cut_are_grey():
    panel, = plots.temperature_panels(LOGITS, list("abcde"), [1.0], top_k=4, top_p=0.75).axes
    colours = {}
    for bar in panel.patches:
        colours.setdefault(bar.get_facecolor(), []).append(round(bar.get_x() + 0.4))
    assert sorted(colours.values()) == [[0, 1, 2], [3, 4]]
    assert "3 of 5 tokens kept" in panel.get_title()
    # of four tokens, three have 0.75 of the probability or more; top-k ends after the fourth
    assert [line.get_xdata()[0] for line in panel.lines] == [2.5, 3.5]
    assert [line.get_label() for line in panel.lines] == ["top-p 0.75", "top-k 4"]


def test_only_the_most_likely_tokens_are_shown_and_the_entropy_is_that_of_all():
    logits = np.zeros(64)
    panel, = plots.temperature_panels(logits, ["x"] * 64, [1.0], top_p=None, shown=5).axes
    assert len(panel.patches) == 5 and "entropy 6.0 bits, 64 of 64" in panel.get_title()
    on_axes = plots.temperature_panels(LOGITS, list("abcde"), [1.0], ax=new_axes())
    assert on_axes.axes[0].get_legend() is not None


@pytest.mark.parametrize("arguments, words", [
    ((LOGITS, list("abc")), "vocabulary has 3 labels"), ((LOGITS, list("abcde"), []), "is empty"),
    ((LOGITS, list("abcde"), [0.0]), "temperature=0.0"),
    ((np.zeros((2, 2)), list("ab")), r"\(V,\)")])
def test_wrong_numbers_of_labels_and_temperatures_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        plots.temperature_panels(*arguments)


def rows_of(ax):
    """The texts on the axes, a line for each row."""
    rows = {}
    for text in ax.texts:
        x, y = text.get_position()
        rows.setdefault(y, []).append((x, text.get_text()))
    return ["".join(letter for _, letter in sorted(row)) for _, row in sorted(rows.items())]


def test_every_token_but_the_first_has_the_colour_of_its_loss():
    losses = np.array([0.0, 1.0, 3.0])
    ax = plots.tokens_by_loss(["the", " ", "cat", "s"], losses)
    grounds, = ax.collections
    np.testing.assert_array_equal(grounds.get_array(), losses)
    assert grounds.get_clim() == (0, 3) and ax.get_title().endswith("1.33 nats on average")
    ends = [path.get_extents().intervalx.tolist() for path in grounds.get_paths()]
    assert ends == [[3, 4], [4, 7], [7, 8]] and rows_of(ax) == ["the␣cats"]
    assert plots.tokens_by_loss(["a", "b"], np.array([5.0]), top=2.0).collections[
        0].get_clim() == (0, 2)


def test_words_are_not_broken_and_line_feeds_end_lines():
    tokens = list("ab\n" + "abcdefghi " * 8 + "z" * 90)
    ax = plots.tokens_by_loss(tokens, np.ones(len(tokens) - 1))
    rows = rows_of(ax)
    assert rows[0] == "ab⏎" and rows[1].endswith("abcdefghi␣")
    assert "".join(rows) == "ab⏎" + "abcdefghi␣" * 8 + "z" * 90, "also a word of several lines"
    widest = max(len(row) for row in rows)
    assert widest <= 65 and len(ax.collections[0].get_paths()) == len(tokens) - 1
    with plots.slides():
        wide = plots.tokens_by_loss(tokens, np.ones(len(tokens) - 1))
    assert max(len(row) for row in rows_of(wide)) > widest


@pytest.mark.parametrize("tokens, losses", [(["a", "b"], np.ones(2)), (["a"], np.ones(0))])
def test_losses_that_are_not_one_per_token_are_refused(tokens, losses):
    with pytest.raises(ValueError, match="losses for . tokens; give one for each token but the"):
        plots.tokens_by_loss(tokens, losses)
