"""The data behind the pictures: labels, limits, masked cells."""

import math

import numpy as np
import pytest

from numformer.functional import CAUSAL
from numformer.plots import attention_map, loss_curve


def test_attention_map_shows_weights_labels_and_masked_cells(rng):
    weights = np.tril(rng.random((3, 4)), 1)
    ax = attention_map(weights, ["a", " ", "\n", "b"], CAUSAL.dense(3, 4), title="heads")
    assert np.array_equal(ax.images[0].get_array(), weights) and ax.images[0].get_clim() == (0, weights.max())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "␣", "⏎", "b"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["␣", "⏎", "b"], "queries stand at the last keys"
    hatched = {(round(patch.get_y() + 0.5), round(patch.get_x() + 0.5)) for patch in ax.patches if patch.get_hatch()}
    assert hatched == {(0, 2), (0, 3), (1, 3)}
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("key", "query", "heads")


def test_loss_curve_shows_training_and_validation():
    metrics = [{"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0}, {"step": 2, "val_loss": 2.5}, {"step": 3, "loss": 1.0}]
    ax = loss_curve(metrics)
    each, mean, validation = ax.lines
    assert each.get_xydata().tolist() == [[1, 3], [2, 2], [3, 1]] and validation.get_xydata().tolist() == [[2, 2.5]]
    assert abs(mean.get_ydata()[0] - 3) < 1e-12 and 1 < mean.get_ydata()[2] < 2.1
    assert "2.500" in validation.get_label()
    ax.figure.draw_without_rendering()
    left, right = ax.get_ylim(), ax.child_axes[0].get_ylim()
    np.testing.assert_allclose(np.array(right) * math.log(2), left)


def test_pictures_draw_on_given_axes():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert attention_map(np.eye(2), ax=ax) is ax and loss_curve([{"step": 1, "val_loss": 1.0}], ax=ax) is ax


@pytest.mark.parametrize("draw, words", [
    (lambda: attention_map(np.eye(2), tokens=["a"]), "1 labels came for S=2"),
    (lambda: attention_map(np.eye(2), mask=np.ones((3, 3), bool)), "mask"),
    (lambda: attention_map(np.ones(3)), "(T, S)"), (lambda: loss_curve([]), "no loss")])
def test_bad_pictures(draw, words):
    with pytest.raises(ValueError) as caught:
        draw()
    assert words in str(caught.value)
