"""Plots of tiled attention show the order of the tiles and the running state."""

import numpy as np
import pytest

from numformer import plots
from numformer.functional import CAUSAL, tiled_attention_steps


def test_tile_plots_show_order_and_running_state(rng):
    q, k, v = rng.standard_normal((3, 1, 1, 6, 2))
    steps = list(tiled_attention_steps(q, k, v, CAUSAL, tile=2))
    ax = plots.tile_order(steps)
    order = np.ma.filled(ax.images[0].get_array(), np.nan)
    assert order[0, 0] == 1 and order[5, 5] == 6 and np.isnan(order[0, 2]) and np.isnan(order[3, 5])
    rescaled = [sum(0 < alpha < 1 for alpha in step.alpha[0, 0, :, 0]) for step in steps
                if not step.skipped]
    assert [text.get_text().split("rescaled: ")[-1].strip() for text in ax.texts] == [
        str(count) if count else str(number) for number, count in enumerate(rescaled, 1)]
    figure = plots.tile_frame(steps, 4)                              # queries 2 and 3, keys 2 and 3
    left, right = figure.axes
    state = left.images[0].get_array()
    assert state[2, 2] == 2 and state[2, 0] == 1 and state[0, 2] == 0 and state[4, 0] == 0
    words = [text.get_text() for text in right.texts]
    step = steps[4]
    assert words[:6] == ["query", "m", "α", "l", "acc 0", "acc 1"] and words[6] == "2"
    running = step.m[0, 0, 0, 0], step.alpha[0, 0, 0, 0], step.l[0, 0, 0, 0], *step.acc[0, 0, 0]
    assert words[7:12] == [f"{value:.3g}" for value in running]
    assert len(plots.tile_frames(steps, (0, 3)).subfigs) == 2
    with pytest.raises(ValueError, match="number=9"):
        plots.tile_frame(steps, 9)
    with pytest.raises(ValueError, match="chosen is empty"):
        plots.tile_frames(steps, ())


@pytest.mark.slow
def test_the_animation_has_a_frame_per_step(rng, tmp_path):
    from PIL import Image

    steps = list(tiled_attention_steps(*rng.standard_normal((3, 1, 1, 4, 2)), CAUSAL, tile=2))
    plots.tile_animation(steps).save(tmp_path / "tiles.gif", writer="pillow", dpi=40)
    with Image.open(tmp_path / "tiles.gif") as animation:
        assert animation.n_frames == len(steps) == 4 and animation.is_animated
