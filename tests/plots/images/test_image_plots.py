"""Accuracy by the number of images, and the windows of Swin: the numbers in their artists."""

import numpy as np
import pytest

from numformer.functional import cyclic_roll, shifted_window_mask, window_partition
from numformer.plots import accuracy_by_images, attention_received, dark, shifted_windows


def test_accuracy_by_images_draws_percentages():
    ax = accuracy_by_images((100, 400), {"a": [0.5, 0.75], "b": [0.25, 1.0]})
    first, second = ax.get_lines()
    assert first.get_xdata().tolist() == [100, 400] and first.get_ydata().tolist() == [50, 75]
    assert second.get_ydata().tolist() == [25, 100] and ax.get_xscale() == "log"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["100", "400"]


@pytest.mark.parametrize("accuracies, words", [
    ({}, "there is no model"), ({"a": [0.5]}, "a has 1 accuracies for 2 numbers of images")])
def test_accuracies_that_do_not_fit_are_refused(accuracies, words):
    with pytest.raises(ValueError, match=words):
        accuracy_by_images((100, 400), accuracies)


@pytest.mark.parametrize("on_dark", [False, True])
def test_shifted_windows_draw_parts_borders_and_masks(on_dark):
    if on_dark:
        with dark():
            ax = shifted_windows(8, 4, 2)
    else:
        ax = shifted_windows(8, 4, 2)
    first, second, third, fourth = ax.figure.axes
    part, rolled = (np.asarray(axes.get_images()[0].get_array()) for axes in (first, third))
    np.testing.assert_array_equal(rolled, np.roll(part, (-2, -2), axis=(0, 1)))
    assert np.bincount(part.astype(int).ravel()).tolist() == [36, 12, 12, 4]
    borders = [sorted({line.get_xdata()[0] for line in axes.get_lines()
                       if line.get_linewidth() > 2 and len(set(line.get_xdata())) == 1})
               for axes in (first, second, third)]
    assert borders == [[0, 4, 8], [0, 2, 6, 8], [0, 4, 8]]
    grid = np.ma.filled(fourth.get_images()[0].get_array().astype(float), np.nan)
    mask = shifted_window_mask(8, 8, 4, 2)
    np.testing.assert_array_equal(grid[:16, -16:], mask[1])           # to the right of the first
    np.testing.assert_array_equal(grid[-16:, -16:], mask[3])


@pytest.mark.parametrize("sizes, words", [
    ((8, 3, 1), "height=8 is not divisible by window=3"), ((8, 4, 4), "must be below window=4"),
    ((8, 4, 0), "offset=0 must be a whole number, 1 or more")])
def test_windows_that_do_not_fit_are_refused(sizes, words):
    with pytest.raises(ValueError, match=words):
        shifted_windows(*sizes)


def test_attention_received_is_at_the_place_of_its_patch(rng):
    """Weights that are 1 for one key: the map is 1 where that key came from."""
    where = rng.random((2, 4, 6, 1))
    windows, _ = window_partition(cyclic_roll(where, 1)[0], 2)        # (12, 4, 1)
    weights = np.broadcast_to(windows[:, None, None, :, 0], (12, 3, 4, 4))
    np.testing.assert_allclose(attention_received(weights, 4, 6, 1), where.reshape(2, 24),
                               atol=1e-15)
