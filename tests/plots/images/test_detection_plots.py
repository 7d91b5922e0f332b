"""Pictures of boxes, of what queries attend to, of samples, and of images and captions."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from numformer.plots import boxes_in_images, image_grid, image_text_similarity, query_attention
from numformer.plots.detection import FOUND, THERE

BOXES = np.array([[0.0, 0.0, 4.0, 6.0], [5.0, 3.0, 9.0, 10.0]])


def rectangles(ax):
    """(colour of the edge, line, corners) of every rectangle."""
    return [(patch.get_edgecolor(), patch.get_linestyle(),
             (patch.get_x(), patch.get_y(), patch.get_x() + patch.get_width(),
              patch.get_y() + patch.get_height()))
            for patch in ax.patches if isinstance(patch, Rectangle)]


def test_boxes_are_drawn_where_they_are(rng):
    images = rng.random((3, 10, 10, 1))
    found = [(np.array([7]), np.array([0.91]), BOXES[1:] + 0.5)] + 2 * [
        (np.zeros(0, int), np.zeros(0), np.zeros((0, 4)))]
    objects = [(np.array([3, 8]), BOXES)] + 2 * [(np.zeros(0, int), np.zeros((0, 4)))]
    figure = boxes_in_images(images, found, objects)
    first, *others = figure.axes
    assert len(figure.axes) == 4 and not figure.axes[3].images
    from matplotlib.colors import to_rgba
    assert rectangles(first) == [(to_rgba(THERE), "-", tuple(BOXES[0])),
                                 (to_rgba(THERE), "-", tuple(BOXES[1])),
                                 (to_rgba(FOUND), "--", tuple(BOXES[1] + 0.5))]
    assert [text.get_text() for text in first.texts] == ["3", "8", "7: 0.91"]
    assert np.array_equal(first.images[0].get_array(), images[0, ..., 0])
    assert not any(rectangles(ax) for ax in others)


def test_labels_at_the_edges_of_an_image_stay_on_the_axes():
    """One box as large as the image: its labels are above and below."""
    whole = np.array([[0.0, 0.0, 24.0, 24.0]])
    figure = boxes_in_images(np.ones((1, 24, 24, 1)), [(np.array([1]), np.array([1.0]), whole)],
                             [(np.array([1]), whole)])
    figure.draw_without_rendering()
    ax = figure.axes[0]
    for text in ax.texts:
        box, frame = text.get_window_extent(), ax.get_window_extent()
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1
        assert frame.y0 <= box.y0 and box.y1 <= frame.y1


def test_labels_of_an_object_that_is_found_twice_are_apart():
    box = np.array([[3.0, 3.0, 9.0, 11.0]])
    found = np.array([7, 7, 2]), np.array([0.9, 0.8, 0.7]), np.repeat(box, 3, axis=0)
    figure = boxes_in_images(np.ones((1, 24, 24, 1)), [found], [(np.array([7]), box)])
    figure.draw_without_rendering()
    extents = [text.get_window_extent() for text in figure.axes[0].texts[1:]]
    assert len(extents) == 3
    assert all(one.y0 >= other.y1 for one, other in zip(extents, extents[1:]))


def test_query_attention_shows_weights_and_sure_boxes(rng):
    weights, image = rng.random((3, 16)), rng.random((8, 8, 1))
    boxes = np.array([[0.0, 0, 4, 4], [1, 1, 2, 2], [4, 4, 8, 8]])
    figure = query_attention(image, weights, np.array([5, 6, 7]), np.array([0.9, 0.2, 0.5]), boxes)
    panels = [ax for ax in figure.axes if ax.images]
    assert len(panels) == 3
    for q, ax in enumerate(panels):
        assert np.array_equal(ax.images[0].get_array(), weights[q].reshape(4, 4))
        assert ax.images[0].get_extent() == ax.images[1].get_extent() == [0, 8, 8, 0]
    assert [ax.get_title() for ax in panels] == [
        "query 1:\n5 (0.90)", "query 2:\nno object", "query 3:\n7 (0.50)"]
    assert [len(rectangles(ax)) for ax in panels] == [1, 0, 1]
    assert rectangles(panels[2])[0][2] == tuple(boxes[2])


def test_image_grid_keeps_images_apart(rng):
    images = rng.random((2, 3, 4, 4))
    ax = image_grid(images, ["a", "b"], title="t")
    grid = np.ma.filled(ax.images[0].get_array(), np.nan)
    assert grid.shape == (9, 14) and ax.get_title() == "t"
    for row in range(2):
        for column in range(3):
            assert np.array_equal(grid[5 * row:5 * row + 4, 5 * column:5 * column + 4],
                                  images[row, column])
    assert np.isnan(grid[4]).all() and np.isnan(grid[:, [4, 9]]).all()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert image_grid(images, ax=ax) is ax


def test_similarity_is_written_in_every_cell(rng):
    cosines, images = 2 * rng.random((2, 3)) - 1, rng.random((2, 4, 4, 1))
    ax = image_text_similarity(cosines, images, ["x", "y", "z"])
    assert np.array_equal(ax.images[0].get_array(), cosines) and ax.images[0].get_clim() == (-1, 1)
    assert [text.get_text() for text in ax.texts] == [f"{c:.1f}" for c in cosines.ravel()]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["x", "y", "z"]
    insets = [inset for inset in ax.child_axes if inset.images]
    for inset, image in zip(insets, images, strict=True):
        assert np.array_equal(inset.images[0].get_array(), image[..., 0])


@pytest.mark.parametrize("draw, words", [
    (lambda: boxes_in_images(np.ones((2, 4, 4, 1)), [], []), "0 finds and 0 objects"),
    (lambda: boxes_in_images(np.ones((2, 4, 4, 3)), [], []), "channels=1"),
    (lambda: query_attention(np.ones((4, 4, 1)), np.ones((2, 5)), [1, 2], [0.1, 0.2],
                             np.ones((2, 4))), "S a square"),
    (lambda: query_attention(np.ones((4, 4, 1)), np.ones((2, 4)), [1], [0.1], np.ones((2, 4))),
     "a label and a score"),
    (lambda: image_grid(np.ones((2, 3, 4, 4)), ["a"]), "1 labels came for 2 rows"),
    (lambda: image_grid(np.ones((2, 4, 4))), "rows, columns"),
    (lambda: image_text_similarity(np.ones((2, 2)), np.ones((3, 4, 4, 1)), ["a", "b"]), "N=2"),
    (lambda: image_text_similarity(np.ones((2, 2)), np.ones((2, 4, 4, 1)), ["a"]), "1 captions")])
def test_wrong_pictures_of_objects_are_refused(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()
