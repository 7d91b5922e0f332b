"""The data behind the pictures: labels, limits, masked cells, numbers."""

import math

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from numformer import plots
from numformer.functional import CAUSAL, alibi, alibi_slopes, attention_weights, sinusoidal_positions, softmax
from numformer.plots.axes import ON_DARK, ON_LIGHT, is_dark, signed_colours, styles
from numformer.plots.tokens import visible


def causal_weights(rng, L=2, H=3, T=5):
    return [attention_weights(*rng.standard_normal((2, 1, H, T, 4)), CAUSAL)[0] for _ in range(L)]


def hatched(ax):
    """The cells (row, column) under the hatches of a map."""
    cells = set()
    for collection in ax.collections:
        assert collection.get_hatch()
        for path in collection.get_paths():
            (left, top), (right, bottom) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            cells |= {(round(row), round(column)) for row in np.arange(top + 0.5, bottom) for column in np.arange(left + 0.5, right)}
    return cells


def said(ax):
    return [text.get_text() for text in ax.texts]


def test_attention_map_shows_weights_labels_and_masked_cells(rng):
    weights = np.tril(rng.random((3, 4)), 1)
    ax = plots.attention_map(weights, ["a", " ", "\n", "b"], CAUSAL.dense(3, 4), title="heads")
    assert np.array_equal(ax.images[0].get_array(), weights) and ax.images[0].get_clim() == (0, weights.max())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "␣", "⏎", "b"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["␣", "⏎", "b"], "queries stand at the last keys"
    assert hatched(ax) == {(0, 2), (0, 3), (1, 3)}
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("key", "query", "heads")


def test_hatches_cover_all_runs_of_a_row():
    mask = np.array([[0, 1, 0, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], bool)
    assert hatched(plots.attention_map(np.ones((3, 5)), mask=mask)) == {(i, j) for i, j in np.argwhere(~mask)}


def test_attention_grid_has_a_map_for_every_head(rng):
    weights = causal_weights(rng)
    figure = plots.attention_grid(weights, CAUSAL.dense(5, 5))
    maps = [ax for ax in figure.axes if ax.images and ax.get_label() != "<colorbar>"]
    assert len(maps) == 6 and all(ax.images[0].get_clim() == (0, 1) for ax in maps)
    for ax, head in zip(maps, (head for layer in weights for head in layer)):
        assert np.array_equal(ax.images[0].get_array(), head) and hatched(ax) == {(i, j) for i in range(5) for j in range(i + 1, 5)}
    assert [ax.get_title() for ax in maps[:3]] == ["head 1", "head 2", "head 3"]
    assert [ax.get_ylabel() for ax in maps[::3]] == ["layer 1", "layer 2"]
    mixed = plots.attention_grid(weights, [CAUSAL.dense(5, 5), np.ones((5, 5), bool)])
    assert [len(hatched(ax)) for ax in mixed.axes[:6]] == [10, 10, 10, 0, 0, 0]


def test_statistics_of_heads(rng):
    weights = causal_weights(rng)
    figure = plots.head_statistics(weights)
    entropy, distance = (ax.images[0].get_array() for ax in figure.axes[:2])
    for layer in range(2):
        for h in range(3):
            p = weights[layer][h]
            assert math.isclose(entropy[layer, h], np.mean([-(row[row > 0] * np.log2(row[row > 0])).sum() for row in p]))
            assert math.isclose(distance[layer, h], np.mean([sum(p[i, j] * (i - j) for j in range(5)) for i in range(5)]))
    assert said(figure.axes[0]) == [f"{value:.1f}" for value in np.ravel(entropy)], "not by colour alone"


def test_rollout_is_the_product_of_what_each_layer_mixes(rng):
    weights = causal_weights(rng, L=3)
    mixed = [0.5 * np.eye(5) + 0.5 * layer.mean(axis=0) for layer in weights]
    np.testing.assert_allclose(plots.attention_rollout(weights), mixed[2] @ mixed[1] @ mixed[0], rtol=1e-14)
    np.testing.assert_allclose(plots.attention_rollout(weights).sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(plots.attention_rollout(weights[:1], residual=0.0), weights[0].mean(axis=0), rtol=1e-15)


def test_query_in_numbers(rng):
    q, k, bias, mask = rng.standard_normal(4), rng.standard_normal((3, 4)), np.array([0.5, -0.5, 0.0]), np.array([True, True, False])
    figure = plots.query_detail(q, k, ["a", "b", " "], bias=bias, mask=mask)
    vectors, parts, numbers = figure.axes
    assert np.array_equal(vectors.images[0].get_array()[0], q) and np.array_equal(vectors.images[0].get_array()[2:], k)
    np.testing.assert_allclose(parts.images[0].get_array()[2:].sum(axis=1), k @ q)
    scores = k @ q / 2 + bias
    weights, _ = softmax(scores[:2])
    assert said(numbers) == ["q · k", "score", "weight",
                             *(f"{x:.3f}" for j in range(2) for x in ((k @ q)[j], scores[j], weights[j])),
                             f"{(k @ q)[2]:.3f}", "masked", "masked"]
    assert [label.get_text() for label in vectors.get_yticklabels()] == ["q", "a", "b", "␣"]


def test_positions_are_drawn_around_zero():
    table = sinusoidal_positions(np.arange(6), 4)
    ax = plots.position_vectors(table)
    assert np.array_equal(ax.images[0].get_array(), table) and ax.images[0].get_clim() == (-1, 1)
    grey = [np.dot(to_rgb(signed_colours()(x)), (0.299, 0.587, 0.114)) for x in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert grey[0] < grey[1] < grey[2] > grey[3] > grey[4] and grey[4] > grey[0] + 0.15, "the two ends differ in print, too"


def test_sinusoids_feel_distance_alone(rng):
    table = sinusoidal_positions(np.arange(8), 6)
    ax = plots.similarity_by_distance({"sinusoids": table, "random": rng.standard_normal((8, 6))})
    expected = [(table @ table.T).diagonal(k).mean() / 3 for k in range(8)]        # sin² + cos² of three pairs
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected, rtol=1e-12)
    bands = [np.ptp(collection.get_paths()[0].vertices[:, 1].reshape(-1), axis=0) for collection in ax.collections]
    assert len(bands) == 2 and [line.get_label() for line in ax.lines] == ["sinusoids", "random"]
    assert len({(line.get_linestyle(), line.get_marker()) for line in ax.lines}) == 2


def test_biases_share_a_scale():
    bias = alibi(np.zeros((4, 5, 5)), alibi_slopes(4))[0]
    figure = plots.position_biases(bias)
    maps = [ax for ax in figure.axes if ax.get_title().startswith("head")]
    assert len(maps) == 4 and all(ax.images[0].get_clim() == (-1, 1) for ax in maps)
    assert all(np.array_equal(ax.images[0].get_array(), head) for ax, head in zip(maps, bias))
    assert maps[0].get_title() == "head 1: -1 .. -0" or "head 1: -1 .. 0" in maps[0].get_title()
    assert len([ax for ax in plots.position_biases(bias[:3]).axes if ax.get_title()]) == 3
    assert len([ax for ax in plots.position_biases(np.ones((5, 2, 2))).axes if ax.get_title()]) == 5


def test_clocks_turn_by_their_frequencies():
    figure = plots.rotary_clocks(64, positions=3)
    fast = figure.axes[0]
    hands = [line.get_xydata()[1] for line in fast.lines[1:]]
    np.testing.assert_allclose(hands, [(math.cos(t), math.sin(t)) for t in range(3)], atol=1e-12)
    assert said(fast) == ["0", "1", "2"] and len(figure.axes) == 4
    assert [ax.get_title() for ax in figure.axes] == [
        f"pair {pair}: {turn} rad a step" for pair, turn in ((0, "1"), (4, "0.316"), (8, "0.1"), (31, "0.000133"))]
    assert len(plots.rotary_clocks(2).axes) == 1


def test_scores_of_rotary_positions_are_constant_along_diagonals(rng):
    figure = plots.rotary_proof(*rng.standard_normal((2, 6)), positions=9)
    scores = figure.axes[0].images[0].get_array()
    assert scores.shape == (9, 9)
    for d in range(-8, 9):
        assert np.ptp(scores.diagonal(d)) < 1e-13
    assert np.ptp(scores[0]) > 0.1
    points = figure.axes[1].lines[0].get_xydata()
    assert len(points) == 81 and points[1].tolist() == [-1, scores[0, 1]] and "81 scores" in figure.axes[1].get_title()


def test_loss_curve_shows_training_and_validation():
    metrics = [{"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0}, {"step": 2, "val_loss": 2.5}, {"step": 3, "loss": 1.0}]
    ax = plots.loss_curve(metrics)
    each, mean, validation = ax.lines
    assert each.get_xydata().tolist() == [[1, 3], [2, 2], [3, 1]] and validation.get_xydata().tolist() == [[2, 2.5]]
    assert abs(mean.get_ydata()[0] - 3) < 1e-12 and 1 < mean.get_ydata()[2] < 2.1
    assert "2.500" in validation.get_label()
    ax.figure.draw_without_rendering()
    left, right = ax.get_ylim(), ax.child_axes[0].get_ylim()
    np.testing.assert_allclose(np.array(right) * math.log(2), left)
    assert (ax.get_ylabel(), ax.child_axes[0].get_ylabel()) == ("loss, nats a token", "bits a token")
    assert plots.loss_curve(metrics, unit="nats an image").child_axes[0].get_ylabel() == "bits an image"
    triplets = plots.loss_curve(metrics, unit="a triplet")
    assert triplets.get_ylabel() == "loss a triplet" and not triplets.child_axes


METRICS = [{"step": 1, "learning_rate": 0.1, "gradient_norm": 2.0},
           {"step": 2, "learning_rate": 0.2, "gradient_norm": 1.0, "update_ratio": {"blocks.0.w": 0.1, "blocks.1.w": 0.3, "head.w": 0.5}},
           {"step": 2, "val_loss": 1.0}]


def test_curves_of_a_run():
    assert plots.learning_rate_curve(METRICS).lines[0].get_xydata().tolist() == [[1, 0.1], [2, 0.2]]
    norm = plots.gradient_norm_curve(METRICS)
    assert norm.lines[0].get_xydata().tolist() == [[1, 2], [2, 1]] and norm.get_yscale() == "log"
    ratios = plots.update_ratio_curve(METRICS)
    found = {line.get_label(): line.get_xydata().tolist() for line in ratios.lines[:2]}
    assert found == {"blocks.w": [[2, 0.2]], "head.w": [[2, 0.5]]}, "a kind's is the median of its layers"


def test_curves_of_models():
    ax = plots.gradient_flow({"pre": [1.0, 1.1], "post": [0.1, 10.0]})
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[1, 1], [2, 1.1]], [[1, 0.1], [2, 10]]]
    errors = {"steps": [1e-8, 1e-3], "central_difference": [1e-6, 1e-7], "complex_step": [0.0, 1e-16]}
    ax = plots.step_error_curve(errors)
    assert [line.get_label() for line in ax.lines] == ["central difference", "complex step"]
    assert ax.lines[1].get_ydata().tolist() == [1e-17, 1e-16] and ax.get_xscale() == ax.get_yscale() == "log"


def test_costs_by_length():
    figure = plots.attention_costs([64, 128], {"all": [1.0, 4.0], "tiles": [1.0, None]},
                                   {"all": [2 ** 20, 2 ** 22], "tiles": [0, 2 ** 20]})
    times, memory = figure.axes
    assert times.lines[0].get_xydata().tolist() == [[64, 1], [128, 4]] and times.lines[1].get_xydata().tolist() == [[64, 1]]
    assert memory.lines[0].get_ydata().tolist() == [1, 4] and [line.get_label() for line in times.lines] == ["all: T^2.0", "tiles"]


def test_account_bars_stand_in_pairs():
    rows = [{"quantity": "parameters", "part": "head", "formula": "V C", "predicted": 12, "measured": 12},
            {"quantity": "flops", "part": "head", "formula": "2 V C", "predicted": 24, "measured": 25}]
    figure = plots.account_bars(rows)
    for ax, row in zip(figure.axes, rows):
        assert [bar.get_width() for bar in ax.patches] == [row["predicted"], row["measured"]]
        assert [bar.get_hatch() for bar in ax.patches] == [None, "//"] and row["formula"] in ax.get_yticklabels()[0].get_text()
        assert said(ax) == [str(row["predicted"]), str(row["measured"])]


def test_pictures_draw_on_given_axes(rng):
    ax = Figure().add_subplot()
    assert plots.attention_map(np.eye(2), ax=ax) is ax and plots.loss_curve([{"step": 1, "val_loss": 1.0}], ax=ax) is ax
    figure = Figure()
    place, other = figure.subplots(1, 2)
    assert plots.attention_grid(causal_weights(rng), ax=place) is figure
    assert place not in figure.axes and other in figure.axes and len(figure.axes) == 1 + 6 + 1
    with pytest.raises(ValueError, match="add_subplot"):
        plots.head_statistics(causal_weights(rng), ax=Figure().add_axes((0, 0, 1, 1)))


def test_dark_pictures_have_light_lines():
    light = plots.learning_rate_curve(METRICS)
    with plots.dark():
        dark = plots.learning_rate_curve(METRICS)
    again = plots.learning_rate_curve(METRICS)
    assert [is_dark(ax) for ax in (light, dark, again)] == [False, True, False]
    assert (light.lines[0].get_color(), dark.lines[0].get_color()) == (ON_LIGHT[0], ON_DARK[0])
    assert is_dark(Figure().add_subplot()) is False and len({style["color"] for style in styles(light, 8)}) == 8
    for palette, ground in ((ON_LIGHT, 1.0), (ON_DARK, 0.1)):
        for colour in palette[:3]:                                    # the first three are strong on their ground
            assert abs(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) - ground) > 0.3


@pytest.mark.parametrize("draw, words", [
    (lambda: plots.attention_map(np.eye(2), tokens=["a"]), "1 labels came for S=2"),
    (lambda: plots.attention_map(np.eye(2), mask=np.ones((3, 3), bool)), "mask"),
    (lambda: plots.attention_map(np.ones(3)), "(T, S)"), (lambda: plots.loss_curve([]), "no loss"),
    (lambda: plots.attention_grid([]), "no layers"), (lambda: plots.attention_grid([np.ones((1, 2, 2)), np.ones((2, 2, 2))]), "H"),
    (lambda: plots.attention_grid([np.ones((1, 2, 2))], [np.ones((2, 2))] * 2), "2 masks came for 1 layers"),
    (lambda: plots.attention_grid([np.ones((1, 2, 2))], np.ones((3, 3))), "mask has shape (3, 3)"),
    (lambda: plots.head_statistics([]), "no layers"), (lambda: plots.attention_rollout([np.ones((1, 2, 3))]), "same places"),
    (lambda: plots.attention_rollout([np.ones((1, 2, 2))], residual=1.5), "residual=1.5"),
    (lambda: plots.query_detail(np.ones(2), np.ones((3, 4))), "D"),
    (lambda: plots.query_detail(np.ones(2), np.ones((3, 2)), ["a"]), "1 tokens"),
    (lambda: plots.query_detail(np.ones(2), np.ones((3, 2)), mask=np.zeros(3, bool)), "no key"),
    (lambda: plots.query_detail(np.ones(2), np.ones((3, 2)), scale=-1.0), "scale=-1.0"),
    (lambda: plots.position_vectors(np.ones(3)), "(T, C)"), (lambda: plots.similarity_by_distance({}), "no tables"),
    (lambda: plots.similarity_by_distance({"none": np.zeros((2, 2))}), "all zero"),
    (lambda: plots.position_biases(np.ones((2, 2))), "(H, T, S)"),
    (lambda: plots.rotary_clocks(3), "3"), (lambda: plots.rotary_clocks(4, positions=0), "positions=0"),
    (lambda: plots.rotary_proof(np.ones(3), np.ones(3)), "width of q"), (lambda: plots.rotary_proof(np.ones(2), np.ones(4)), "D"),
    (lambda: plots.learning_rate_curve([{"step": 1, "loss": 1.0}]), "no learning_rate"),
    (lambda: plots.update_ratio_curve([{"step": 1, "loss": 1.0}]), "no update_ratio"), (lambda: plots.gradient_flow({}), "no gradients"),
    (lambda: plots.gradient_norm_curve([]), "no gradient_norm"), (lambda: plots.step_error_curve({"steps": []}), "no steps"),
    (lambda: plots.attention_costs([1, 2], {"a": [1]}, {}), "1 numbers came for 2 lengths"), (lambda: plots.account_bars([]), "no rows"),
    (lambda: plots.residual_norms({}), "no stream"), (lambda: plots.activation_histograms({}), "no activations"),
    (lambda: plots.contribution_bars({}, "a"), "no parts"), (lambda: plots.dead_unit_bars({}), "no feed-forwards"),
    (lambda: plots.lens_map(np.ones((2, 3, 4)), ["a"], ["a", "b", "c"]), "vocabulary has 1 labels"),
    (lambda: plots.lens_map(np.ones((2, 3, 1)), ["a"], ["a", "b"]), "tokens has 2 labels"),
    (lambda: plots.tile_order([]), "no steps"), (lambda: plots.tile_frame([], 0), "no steps"),
    (lambda: plots.tile_animation([]), "no steps")])
def test_bad_pictures(draw, words):
    with pytest.raises(ValueError) as caught:
        draw()
    assert words in str(caught.value)


def test_no_two_curves_look_alike():
    ax = plots.axes.new_axes((3, 3))
    found = styles(ax, 64)
    looks = {(each["color"], each["linestyle"], each["marker"]) for each in found}
    assert len(looks) == 64 and len({(each["linestyle"], each["marker"]) for each in found[:8]}) == 8


def test_a_weight_that_is_no_number_leaves_the_scale_alone():
    weights = np.eye(3)
    weights[2, 0] = np.nan
    assert plots.attention_map(weights).images[0].get_clim() == (0, 1)


def test_more_queries_than_keys_have_no_labels_of_keys():
    ax = plots.attention_map(np.full((3, 2), 0.5), ["a", "b"])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b"]
    assert not {"a", "b"} & {label.get_text() for label in ax.get_yticklabels()}


@pytest.mark.parametrize("token, label", [
    ("$a$", r"\$a\$"), ("", "∅"), ("\u202e", "U+202E"), ("\u200b", "U+200B"), ("\u00a0", "U+00A0"), ("\r", "U+000D"), ("é", "é")])
def test_what_cannot_be_seen_is_spelled(token, label):
    assert visible(token) == label
    plots.attention_map(np.eye(2), [token, "$x_$"]).figure.draw_without_rendering()


def test_an_entropy_of_nothing_is_plus_zero():
    assert not np.signbit(plots.attention_entropy(np.eye(2)))
    figure = plots.head_statistics([np.eye(2)[None]], distance=False)
    assert [ax.get_title() for ax in figure.axes if ax.get_title()] == ["entropy"]


def test_damaged_metrics():
    with pytest.raises(ValueError, match="damaged"):
        plots.loss_curve([{"step": 1, "loss": None}])


def test_two_pictures_of_panels_in_one_figure_keep_their_titles():
    figure = Figure(figsize=(8, 4))
    for ax, title in zip(figure.subplots(1, 2), ("left", "right")):
        plots.head_statistics([np.eye(2)[None]], ax=ax, title=title)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["left\nentropy", "mean distance", "right\nentropy", "mean distance"] and figure._suptitle is None


@pytest.mark.parametrize("draw, words", [
    (lambda: plots.position_biases(np.ones((0, 2, 2))), "H=0"), (lambda: plots.query_detail(np.ones(0), np.ones((2, 0))), "D=0"),
    (lambda: plots.patch_attention(np.ones((0, 4, 4, 1)), np.ones((0, 4))), "B=0"),
    (lambda: plots.gradients_by_distance({"a": [0.0, 0.0]}), "distance 0")])
def test_pictures_of_nothing(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()


def test_what_is_not_known_is_left_out_of_the_legend():
    assert plots.activation_histograms({"a": np.ones(3)}, dead={}).lines[0].get_label() == "a"
    assert plots.growth_of_time({"B": {1: 1.0, 2: 2.0}}, {}).lines[0].get_label().startswith("batch")


def test_long_tokens_are_turned():
    for tokens, turn in ((["a", "1,2"], 0), (["a", "dictionary"], 60)):
        ax = plots.attention_map(np.eye(2), tokens)
        assert {label.get_rotation() for label in ax.get_xticklabels()} == {turn}
        assert {label.get_rotation() for label in ax.get_yticklabels()} == {0}
