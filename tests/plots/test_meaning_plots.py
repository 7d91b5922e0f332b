"""Pictures of what vectors and heads have learned: what their artists hold."""

import numpy as np
import pytest

from numformer.plots.axes import dark, new_axes
from numformer.plots.meaning import (
    attention_on_words, first_two_directions, head_scores, labelled_maps, values_by_class)


def test_the_first_two_directions_keep_the_distances_of_a_plane(rng):
    plane = rng.standard_normal((9, 2)) @ rng.standard_normal((2, 6))
    points = first_two_directions(plane)

    def distances(x):
        return np.linalg.norm(x[:, None] - x, axis=-1)
    np.testing.assert_allclose(distances(points), distances(plane), atol=1e-12)
    assert points[:, 0].var() >= points[:, 1].var()
    assert not first_two_directions(np.ones((3, 5))).any(), "equal vectors have no direction"


def test_a_map_has_a_point_for_each_vector_and_a_series_for_each_label(rng):
    vectors, labels = rng.standard_normal((6, 4)), np.array(list("abcabc"))
    figure = labelled_maps(
        {("one", "x"): (vectors, labels), ("two", ""): (vectors[:2], labels[:2]),
         ("three", ""): (vectors, labels)}, 2, "a title", words={("two", ""): ["first", "second"]})
    one, two, three = figure.axes
    assert [len(ax.collections) for ax in figure.axes] == [3, 2, 3]
    assert sum(len(series.get_offsets()) for series in one.collections) == 6
    assert [text.get_text() for text in two.texts] == ["first", "second"]
    assert one.get_title() == "one: x" and three.get_title() == "three"


def test_legends_of_four_narrow_panels_leave_them_their_width(rng):
    vectors, labels = rng.standard_normal((8, 4)), np.array("fill manage move work".split() * 2)
    figure = labelled_maps({(word, name): (vectors, labels) for name in ("embedding", "block 2")
                            for word in ("bank", "bat", "ran", "key")}, 4, "a title")
    figure.draw_without_rendering()
    boxes = [ax.get_legend().get_window_extent() for ax in figure.axes]
    assert not any(box.overlaps(other) for k, box in enumerate(boxes) for other in boxes[:k])
    assert min(ax.get_window_extent().width for ax in figure.axes) > figure.bbox.width / 5


@pytest.mark.parametrize("ground", [None, dark])
def test_scores_of_heads_are_written_into_their_cells(ground):
    scores = np.array([[0.25, 0.5], [0.75, 0.0]])
    if ground:
        with ground():
            ax = head_scores(scores, ["h1", "h2"], ["previous", "next"], "t")
    else:
        ax = head_scores(scores, ["h1", "h2"], ["previous", "next"], "t")
    assert np.array_equal(ax.images[0].get_array(), scores)
    assert [text.get_text() for text in ax.texts] == ["0.25", "0.50", "0.75", "0.00"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["h1", "h2"]


def test_words_are_shaded_by_their_weights():
    words, weights = "tom saw a dog . it ran .".split(), np.array([0, 0, 0, 0.6, 0, 0, 0.3, 0])
    ax = attention_on_words(words, weights, 5, [3], "t", new_axes((4, 2)))
    shades = [text.get_bbox_patch().get_alpha() for text in ax.texts[::2]]
    assert shades[3] == 1.0 and shades[6] == 0.5 and shades[0] == 0.0
    assert [text.get_text() for text in ax.texts[1::2]] == words
    framed = [text.get_text() for text in ax.texts[1::2] if text.get_bbox_patch()]
    assert framed == ["it"] and len(ax.lines) == 1


def test_each_class_has_its_medians():
    values = {"m": [np.array([1.0, 2.0, 3.0]), np.array([0.0])], "n": [np.zeros(2), np.ones(1)]}
    ax = values_by_class(values, ["c", "d"], "number", "t")
    medians = [bar[0].get_ydata().tolist() for bar in ax.containers]
    assert medians == [[2.0, 0.0], [0.0, 1.0]]
