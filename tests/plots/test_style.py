"""One style: text of at least 12 points at 8 inches, slides, and colours of light and dark."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from marks import every
from plot_examples import METRICS, causal_weights
from numformer import plots
from numformer.analysis import distinctive_heads
from numformer.commands import figures
from numformer.functional import CAUSAL, tiled_attention_steps
from numformer.plots import style
from numformer.plots.axes import new_axes, panels, sequential, signed_colours
from numformer.plots.tokens import label_ticks

# those that need no run, no measurement and no diagram
FIGURES = ("alibi", "masks", "model_costs", "model_sizes", "permutation", "rotary", "rotary_proof",
           "similarity", "sinusoid_curves", "sinusoids", "swish", "tile_frames", "tile_order")


def drawn_examples(rng):
    """Pictures of the kinds that the figures of runs have."""
    weights = causal_weights(rng, T=33)
    q, k, v, do = rng.standard_normal((4, 33, 8))
    letters = list("the value of an expression is the")
    yield plots.attention_map(weights[0][0], letters)
    yield plots.attention_grid(weights)
    yield plots.attention_heads(weights, distinctive_heads(weights), letters)
    yield plots.head_statistics(weights)
    yield plots.alignment_map(weights[0][0], letters, letters)
    yield plots.query_detail(q[0], k, letters, v=v)
    yield plots.forward_and_backward(q, k, v, do, np.tri(33, dtype=bool), letters)
    yield plots.lens_map(rng.standard_normal((3, 33, 5)), list("abcde"), letters)
    yield plots.update_ratio_curve(METRICS)
    yield plots.contribution_bars({"a": 1.0, "b": -1.0}, "a")
    yield plots.position_biases(rng.standard_normal((16, 8, 8)))
    yield plots.audit_errors([{"name": "a", "kind": "layer", "max_error": 1e-15, "bound": 1e-12,
                               "ok": True}])


def smallest_text(figure):
    """Points of the smallest text, at a width of 8 inches."""
    figure.draw_without_rendering()
    scale = min(1, 8 / figure.get_size_inches()[0])
    return min(scale * text.get_fontsize() for text in figure.findobj(Text)
               if text.get_visible() and text.get_text().strip())


@pytest.mark.parametrize("name", every(5, FIGURES))
def test_no_figure_has_text_below_12_points_at_8_inches(name):
    assert smallest_text(figures.DRAWN[name](None).figure) >= 11.99


@pytest.mark.slow
def test_no_picture_of_a_run_has_text_below_12_points_at_8_inches(rng):
    for picture in drawn_examples(rng):
        assert smallest_text(picture.figure) >= 11.99


@pytest.mark.slow
def test_pictures_on_slides_are_16_to_9_with_text_of_18_points(rng):
    with plots.slides():
        for picture in drawn_examples(rng):
            assert picture.figure.get_size_inches().tolist() == [13.33, 7.5]
            picture.figure.draw_without_rendering()
            assert min(text.get_fontsize() for text in picture.figure.findobj(Text)
                       if text.get_text().strip()) >= 17.99
    assert new_axes((4, 3)).figure.get_size_inches().tolist() == [4, 3]


def test_ticks_keep_their_style_after_the_context_has_ended():
    with plots.dark(), plots.slides():
        axes = [new_axes(), *panels(None, 1, 2, (8, 4)).flat]
    for ax in axes:
        ax.plot([0, 1], [0, 1])
        ax.figure.draw_without_rendering()
        labels = [*ax.get_xticklabels(), *ax.get_yticklabels()]
        assert {label.get_fontsize() for label in labels} == {18}
        assert {label.get_color() for label in labels} == {"#e8e6e0"}


@pytest.mark.parametrize("style, sign", [(None, -1), (plots.dark, 1)])
def test_maps_begin_at_the_ground_and_their_lightness_is_monotone(style, sign):
    if style is None:
        ax = new_axes()
    else:
        with style():
            ax = new_axes()
    light = lambda colour: np.dot(to_rgb(colour), (0.299, 0.587, 0.114))
    weights = [light(sequential(ax)(x)) for x in np.linspace(0, 1, 9)]
    assert np.all(np.diff(weights) * sign > 0)
    half = [light(signed_colours(ax)(x)) for x in np.linspace(0.5, 1, 9)]
    other = [light(signed_colours(ax)(x)) for x in np.linspace(0.5, 0, 9)]
    assert np.all(np.diff(half) * sign > 0) and np.all(np.diff(other) * sign > 0)
    for colours in (sequential(ax)(0), signed_colours(ax)(0.5)):
        np.testing.assert_allclose(colours[:3], to_rgb(ax.get_facecolor()), atol=0.01)


@pytest.mark.parametrize("count, written", [(8, 8), (200, 34)])
def test_labels_that_would_overlap_are_left_out(count, written):
    ax = new_axes((8, 8))
    ax.imshow(np.eye(count), aspect="auto")
    label_ticks(ax.xaxis, ["a"] * count)
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert len(boxes) <= written and len(boxes) * (1 + count // 10) >= count // 2
    assert not any(one.overlaps(next_one) for one, next_one in zip(boxes, boxes[1:]))


def test_distinctive_heads_are_the_sharpest_and_those_furthest_from_it():
    own, previous = np.eye(4), np.eye(4)[[0, 0, 1, 2]]
    weights = [np.array([0.6 * own + 0.1, own]), np.array([0.9 * own + 0.025, previous])]
    assert distinctive_heads(weights, 3) == [(0, 1), (1, 1), (0, 0)]
    assert len(distinctive_heads(weights, 9)) == 4
    titles = [ax.get_title() for ax in plots.attention_heads(weights, [(0, 1), (1, 1)]).axes]
    assert titles == ["layer 1, head 2", "layer 2, head 2", ""]


@pytest.mark.slow
def test_the_animated_clocks_have_a_frame_per_position(tmp_path):
    from PIL import Image

    plots.rotary_animation(8, positions=3).save(tmp_path / "clocks.gif", writer="pillow", dpi=40)
    with Image.open(tmp_path / "clocks.gif") as animation:
        assert animation.n_frames == 3


def test_tiles_are_legible(rng):
    steps = list(tiled_attention_steps(*rng.standard_normal((3, 1, 1, 8, 2)), CAUSAL, tile=2))
    ax = plots.tile_order(steps)
    assert {text.get_fontsize() for text in ax.texts} == {12}


def listed(**changes):
    """A list of fonts as matplotlib writes it, with changes."""
    font = {"fname": "a.ttf", "name": "A", "style": "normal", "variant": "normal", "weight": 400,
            "stretch": "normal", "size": "scalable", "index": 0, "__class__": "FontEntry"}
    return {"_version": "3.11.0", "_FontManager__default_weight": "normal", "default_size": None,
            "defaultFamily": {"ttf": "A", "afm": "A"}, "afmlist": [], "ttflist": [font],
            "__class__": "FontManager", **changes}


@pytest.mark.parametrize("content, right", [
    (listed(), True), ([1, 2], True), ("{", True),     # matplotlib itself makes another one
    (listed(ttflist=None), False), (listed(ttflist=[{"__class__": "FontEntry"}]), False),
    (listed(ttflist=[3]), False), (listed(defaultFamily=[]), False),
    ({"__class__": "FontManager", "_version": "3.11.0"}, False)])
def test_lists_of_fonts_that_matplotlib_cannot_use_are_found(tmp_path, content, right):
    path = tmp_path / "fontlist-v3.11.0.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    assert style._is_font_list(path) == right


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("pipe", [True, False])
def test_pictures_are_drawn_where_the_list_of_fonts_is_none(tmp_path, pipe):
    from matplotlib.font_manager import FontManager

    path = tmp_path / f"fontlist-v{FontManager.__version__}.json"
    if pipe:
        os.mkfifo(path)
    else:
        path.write_text(json.dumps({"__class__": "FontManager",
                                    "_version": FontManager.__version__}))
    found = subprocess.run(
        [sys.executable, "-c", "from numformer.plots.axes import new_axes; new_axes()\n"
         "from matplotlib import font_manager"], text=True,
        capture_output=True, timeout=120, env={**os.environ, "MPLCONFIGDIR": str(tmp_path)})
    assert found.returncode == 0 and found.stderr.count("\n") == 1
    assert f"{path} is no list of fonts of matplotlib; remove it" in found.stderr
