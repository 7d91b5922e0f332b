"""What all plots share: axes, dark mode, labels, and errors that name the bad argument."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from plot_examples import METRICS, causal_weights
from numformer import plots
from numformer.analysis import attention_rollout, distinctive_heads
from numformer.plots.axes import ON_DARK, ON_LIGHT, is_dark, styles
from numformer.plots.tokens import visible


def test_plots_are_drawn_on_given_axes(rng):
    ax = Figure().add_subplot()
    assert plots.attention_map(np.eye(2), ax=ax) is ax
    assert plots.loss_curve([{"step": 1, "val_loss": 1.0}], ax=ax) is ax
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plots.attention_grid(causal_weights(rng), ax=left) is figure
    assert left not in figure.axes and right in figure.axes and len(figure.axes) == 1 + 6 + 1
    with pytest.raises(ValueError, match="add_subplot"):
        plots.head_statistics(causal_weights(rng), ax=Figure().add_axes((0, 0, 1, 1)))


def test_dark_plots_have_light_lines():
    light = plots.learning_rate_curve(METRICS)
    with plots.dark():
        dark = plots.learning_rate_curve(METRICS)
    again = plots.learning_rate_curve(METRICS)
    assert [is_dark(ax) for ax in (light, dark, again)] == [False, True, False]
    assert (light.lines[0].get_color(), dark.lines[0].get_color()) == (ON_LIGHT[0], ON_DARK[0])
    assert is_dark(Figure().add_subplot()) is False
    assert len({style["color"] for style in styles(light, 8)}) == 8
    for palette, ground in ((ON_LIGHT, 1.0), (ON_DARK, 0.1)):
        for colour in palette[:3]:                    # the first three contrast with the background
            assert abs(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) - ground) > 0.3


@pytest.mark.parametrize("draw, words", [
    (lambda: plots.attention_map(np.eye(2), tokens=["a"]), "1 labels for S=2"),
    (lambda: plots.attention_map(np.eye(2), mask=np.ones((3, 3), bool)), "mask"),
    (lambda: plots.attention_map(np.ones(3)), "(T, S)"), (lambda: plots.loss_curve([]), "no loss"),
    (lambda: plots.attention_grid([]), "no layers"),
    (lambda: plots.attention_grid([np.ones((1, 2, 2)), np.ones((2, 2, 2))]), "H"),
    (lambda: plots.attention_grid([np.ones((1, 2, 2))], [np.ones((2, 2))] * 2),
     "2 masks for 1 layers"),
    (lambda: plots.attention_grid([np.ones((1, 2, 2))], np.ones((3, 3))), "mask has shape (3, 3)"),
    (lambda: plots.head_statistics([]), "no layers"),
    (lambda: attention_rollout([np.ones((1, 2, 3))]), "not self-attention"),
    (lambda: attention_rollout([np.ones((1, 2, 2))], residual=1.5), "residual=1.5"),
    (lambda: plots.query_detail(np.ones(2), np.ones((3, 4))), "D"),
    (lambda: plots.query_detail(np.ones(2), np.ones((3, 2)), ["a"]), "1 tokens"),
    (lambda: plots.query_detail(np.ones(2), np.ones((3, 2)), mask=np.zeros(3, bool)), "no key"),
    (lambda: plots.query_detail(np.ones(2), np.ones((3, 2)), scale=-1.0), "scale=-1.0"),
    (lambda: plots.position_vectors(np.ones(3)), "(T, C)"),
    (lambda: plots.similarity_by_distance({}), "tables is empty"),
    (lambda: plots.similarity_by_distance({"none": np.zeros((2, 2))}), "all zero"),
    (lambda: plots.position_biases(np.ones((2, 2))), "(H, T, S)"),
    (lambda: plots.rotary_clocks(3), "3"), (lambda: plots.rotary_animation(3), "3"),
    (lambda: plots.attention_heads([np.ones((1, 2, 2))], []), "heads=[]"),
    (lambda: plots.attention_heads([np.ones((1, 2, 2))], [(0, 1)]), "1 layers with 1 heads"),
    (lambda: distinctive_heads([]), "no layers"),
    (lambda: distinctive_heads([np.ones((1, 2, 2)), np.ones((1, 3, 3))]), "different shapes"),
    (lambda: distinctive_heads([np.ones((1, 2, 2))], 0), "count=0"),
    (lambda: plots.rotary_clocks(4, positions=0), "positions=0"),
    (lambda: plots.rotary_proof(np.ones(3), np.ones(3)), "width of q"),
    (lambda: plots.rotary_proof(np.ones(2), np.ones(4)), "D"),
    (lambda: plots.learning_rate_curve([{"step": 1, "loss": 1.0}]), "no learning_rate"),
    (lambda: plots.update_ratio_curve([{"step": 1, "loss": 1.0}]), "no update_ratio"),
    (lambda: plots.gradient_flow({}), "flows is empty"),
    (lambda: plots.gradient_norm_curve([]), "no gradient_norm"),
    (lambda: plots.fact_curve([{"step": 1, "facts": {"length": 2.0}}], "reward"), "no reward"),
    (lambda: plots.step_error_curve({"steps": []}), "no steps"),
    (lambda: plots.attention_costs([1, 2], {"a": [1]}, {}), "1 numbers for 2 lengths"),
    (lambda: plots.cost_treemap([]), "rows is empty"),
    (lambda: plots.residual_norms({}), "stacks is empty"),
    (lambda: plots.activation_histograms({}), "activations is empty"),
    (lambda: plots.contribution_bars({}, "a"), "parts is empty"),
    (lambda: plots.dead_unit_bars({"a": 0.0}), "none of the 1 feed-forwards"),
    (lambda: plots.lens_map(np.ones((2, 3, 4)), ["a"], ["a", "b", "c"]), "vocabulary has 1 labels"),
    (lambda: plots.lens_map(np.ones((2, 3, 1)), ["a"], ["a", "b"]), "tokens has 2 labels"),
    (lambda: plots.tile_order([]), "steps is empty"),
    (lambda: plots.tile_frame([], 0), "steps is empty"),
    (lambda: plots.tile_animation([]), "steps is empty")])
def test_bad_arguments_raise_an_error_that_names_them(draw, words):
    with pytest.raises(ValueError) as caught:
        draw()
    assert words in str(caught.value)


def test_64_curves_have_64_different_styles():
    ax = plots.axes.new_axes((3, 3))
    found = styles(ax, 64)
    looks = {(each["color"], each["linestyle"], each["marker"]) for each in found}
    assert len(looks) == 64
    assert len({(each["linestyle"], each["marker"]) for each in found[:8]}) == 8


@pytest.mark.parametrize("token, label", [
    ("$a$", r"\$a\$"), ("", "∅"), ("\u202e", "U+202E"), ("\u200b", "U+200B"), ("\u00a0", "U+00A0"),
    ("\r", "U+000D"), ("é", "é")])
def test_invisible_characters_are_shown_as_code_points(token, label):
    assert visible(token) == label
    plots.attention_map(np.eye(2), [token, "$x_$"]).figure.draw_without_rendering()


def test_two_plots_with_panels_in_one_figure_keep_their_titles():
    figure = Figure(figsize=(8, 4))
    for ax, title in zip(figure.subplots(1, 2), ("left", "right")):
        plots.head_statistics([np.eye(2)[None]], ax=ax, title=title)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["left\nentropy", "mean distance", "right\nentropy", "mean distance"]
    assert figure._suptitle is None


@pytest.mark.parametrize("draw, words", [
    (lambda: plots.position_biases(np.ones((0, 2, 2))), "H=0"),
    (lambda: plots.query_detail(np.ones(0), np.ones((2, 0))), "D=0"),
    (lambda: plots.patch_attention(np.ones((0, 4, 4, 1)), np.ones((0, 4))), "B=0"),
    (lambda: plots.gradient_reach_curves({"a": [0.0, 0.0]}), "distance 0")])
def test_empty_arrays_raise_an_error(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()


def test_labels_of_long_tokens_are_rotated():
    for tokens, rotation in ((["a", "1,2"], 0), (["a", "dictionary"], 60)):
        ax = plots.attention_map(np.eye(2), tokens)
        assert {label.get_rotation() for label in ax.get_xticklabels()} == {rotation}
        assert {label.get_rotation() for label in ax.get_yticklabels()} == {0}
