"""Pictures of the loss around a model, and of the memory hierarchy."""

import numpy as np
import pytest

from numformer import plots
from numformer.analysis import attention_traffic
from numformer.plots.scaling.memory import binary_size

X = np.linspace(-1, 1, 9)
BOWL = 1 + X ** 2 + 2 * X[:, None] ** 2


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_contours_are_between_the_least_and_the_largest_loss():
    figure = plots.loss_contours([plots.Plane(BOWL, X, X, "a bowl")], unit="nats per token")
    ax = figure.axes[0]
    levels = ax.collections[0].levels
    assert levels[0] == pytest.approx(1) and levels[-1] == pytest.approx(4)
    assert np.all(np.diff(levels, 2) > 0), "closer at the trained model"
    (star,) = [line for line in ax.lines if line.get_marker() == "*"]
    assert star.get_xydata().tolist() == [[0, 0]]
    # the contour of a loss of 2 crosses the axes where the loss is 2
    at = levels[6]
    lines = ax.collections[1]
    k = int(np.flatnonzero(np.isclose(lines.levels, at))[0])
    ends = lines.get_paths()[k].vertices
    assert ends[:, 0].max() == pytest.approx((at - 1) ** 0.5, abs=0.05)
    assert ends[:, 1].max() == pytest.approx(((at - 1) / 2) ** 0.5, abs=0.05)


def test_the_path_of_a_training_is_drawn_with_its_steps():
    path = np.array([[-0.9, 0.9], [-0.88, 0.9], [-0.5, 0.2], [0, 0]])
    plane = plots.Plane(BOWL, X, X, "path", ("one, 90%", "two, 5%"), path, (0, 1, 20, 100))
    ax = plots.loss_contours([plots.Plane(BOWL, X, X), plane]).axes[1]
    assert any(np.array_equal(line.get_xydata(), path) for line in ax.lines)
    assert texts(ax) == ["step 0", "20"], "steps that are close to others are left out"
    assert (ax.get_xlabel(), ax.get_ylabel()) == plane.labels


def test_losses_that_are_infinite_or_large_share_the_darkest_colour():
    surface = BOWL.copy()
    surface[0, 0], surface[0, 1] = np.inf, 1e9
    ax = plots.loss_contours([plots.Plane(surface, X, X)]).axes[0]
    assert ax.collections[0].levels[-1] == pytest.approx(4), "four times the least loss"
    assert ax.collections[0].extend == "max"


@pytest.mark.parametrize("planes, words", [
    ([], "planes is empty"), ([plots.Plane(BOWL, X, X[:3])], r"= \(3, 9\)"),
    ([plots.Plane(np.full((2, 2), np.inf), X[:2], X[:2])], "no loss of the surface is finite"),
    ([plots.Plane(BOWL, X, X, path=np.zeros((2, 2)), steps=(1,))], r"= \(1, 2\)")])
def test_planes_without_losses_are_refused(planes, words):
    with pytest.raises(ValueError, match=f"loss_contours: .*{words}"):
        plots.loss_contours(planes)


def test_arrows_are_as_wide_as_the_bytes():
    traffics = attention_traffic(1024, 1024, 64, tile=(64, 64))
    ax = plots.memory_hierarchy(traffics, {"registers": 2048, "L2 cache": 2 ** 20})
    moved = [sum(each.moved.values()) for each in traffics]
    assert [f"{binary_size(n)} moved" for n in moved] == [
        text for text in texts(ax) if "moved" in text]
    arrows = [patch.get_xy() for patch in ax.patches if hasattr(patch, "get_closed")]
    wide, narrow = (arrow[4, 0] - arrow[0, 0] for arrow in arrows)
    assert wide / narrow == pytest.approx(moved[0] / moved[1], rel=1e-6)
    assert "tile of 64 x 64: q, k, v, s, acc\n80 KiB" in texts(ax)
    assert "registers\n2 KiB" in texts(ax) and "memory" in texts(ax)
    with pytest.raises(ValueError, match="1 ways and 1 levels"):
        plots.memory_hierarchy(traffics[:1], {"L2 cache": 1})
