"""Plots of attention show weights, labels, masked cells and statistics."""

import math

import numpy as np
import pytest

from plot_examples import causal_weights, texts
from numformer import plots
from numformer.analysis import attention_entropy, attention_rollout
from numformer.functional import CAUSAL, attention, softmax


def hatched(ax):
    """The cells (row, column) under the hatches of a map."""
    cells = set()
    for collection in ax.collections:
        assert collection.get_hatch()
        for path in collection.get_paths():
            (left, top), (right, bottom) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            cells |= {(round(row), round(column)) for row in np.arange(top + 0.5, bottom)
                      for column in np.arange(left + 0.5, right)}
    return cells


def test_attention_map_shows_weights_labels_and_masked_cells(rng):
    weights = np.tril(rng.random((3, 4)), 1)
    ax = plots.attention_map(weights, ["a", " ", "\n", "b"], CAUSAL.dense(3, 4), title="heads")
    assert np.array_equal(ax.images[0].get_array(), weights)
    assert ax.images[0].get_clim() == (0, weights.max())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "␣", "⏎", "b"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["␣", "⏎", "b"], (
        "queries are aligned with the last keys")
    assert hatched(ax) == {(0, 2), (0, 3), (1, 3)}
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("key", "query", "heads")


def test_hatches_cover_every_masked_cell_of_a_row():
    mask = np.array([[0, 1, 0, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], bool)
    ax = plots.attention_map(np.ones((3, 5)), mask=mask)
    assert hatched(ax) == {(i, j) for i, j in np.argwhere(~mask)}


def test_attention_grid_has_a_map_for_each_head(rng):
    weights = causal_weights(rng)
    figure = plots.attention_grid(weights, CAUSAL.dense(5, 5))
    maps = [ax for ax in figure.axes if ax.images and ax.get_label() != "<colorbar>"]
    assert len(maps) == 6 and all(ax.images[0].get_clim() == (0, 1) for ax in maps)
    for ax, head in zip(maps, (head for layer in weights for head in layer)):
        assert np.array_equal(ax.images[0].get_array(), head)
        assert hatched(ax) == {(i, j) for i in range(5) for j in range(i + 1, 5)}
    assert [ax.get_title() for ax in maps[:3]] == ["head 1", "head 2", "head 3"]
    assert [ax.get_ylabel() for ax in maps[::3]] == ["layer 1\nqueries", "layer 2\nqueries"]
    assert [ax.get_xlabel() for ax in maps] == [""] * 3 + ["keys"] * 3
    mixed = plots.attention_grid(weights, [CAUSAL.dense(5, 5), np.ones((5, 5), bool)])
    assert [len(hatched(ax)) for ax in mixed.axes[:6]] == [10, 10, 10, 0, 0, 0]


def test_head_statistics_are_entropy_and_mean_distance(rng):
    weights = causal_weights(rng)
    figure = plots.head_statistics(weights)
    entropy, distance = (ax.images[0].get_array() for ax in figure.axes[:2])
    for layer in range(2):
        for h in range(3):
            p = weights[layer][h]
            entropies = [-(row[row > 0] * np.log2(row[row > 0])).sum() for row in p]
            distances = [sum(p[i, j] * (i - j) for j in range(5)) for i in range(5)]
            assert math.isclose(entropy[layer, h], np.mean(entropies))
            assert math.isclose(distance[layer, h], np.mean(distances))
    numbers = [f"{value:.1f}" for value in np.ravel(entropy)]
    assert texts(figure.axes[0]) == numbers, "not by colour alone"


def test_rollout_is_the_product_of_the_layers_mixing_matrices(rng):
    weights = causal_weights(rng, L=3)
    mixed = [0.5 * np.eye(5) + 0.5 * layer.mean(axis=0) for layer in weights]
    np.testing.assert_allclose(attention_rollout(weights), mixed[2] @ mixed[1] @ mixed[0],
                               rtol=1e-14)
    np.testing.assert_allclose(attention_rollout(weights).sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(attention_rollout(weights[:1], residual=0.0),
                               weights[0].mean(axis=0), rtol=1e-15)


def test_query_detail_shows_products_scores_and_weights(rng):
    q, k = rng.standard_normal(4), rng.standard_normal((3, 4))
    bias, mask = np.array([0.5, -0.5, 0.0]), np.array([True, True, False])
    figure = plots.query_detail(q, k, ["a", "b", " "], bias=bias, mask=mask)
    vectors, parts, numbers = figure.axes
    assert np.array_equal(vectors.images[0].get_array()[0], q)
    assert np.array_equal(vectors.images[0].get_array()[2:], k)
    np.testing.assert_allclose(parts.images[0].get_array()[2:].sum(axis=1), k @ q)
    scores = k @ q / 2 + bias
    weights, _ = softmax(scores[:2])
    rows = [f"{x:.2f}" for j in range(2) for x in ((k @ q)[j], scores[j], weights[j])]
    assert texts(numbers) == ["q · k", "score", "weight", *rows,
                              f"{(k @ q)[2]:.2f}", "masked", "masked"]
    assert [label.get_text() for label in vectors.get_yticklabels()] == ["q", "a", "b", "␣"]


def test_query_detail_shows_how_values_are_mixed(rng):
    q, k, v = rng.standard_normal(4), rng.standard_normal((3, 4)), rng.standard_normal((3, 5))
    mask = np.array([True, True, False])
    *_, values, contributions = plots.query_detail(q, k, mask=mask, v=v).axes
    np.testing.assert_array_equal(values.images[0].get_array()[2:], v)
    o, _ = attention(*(x[None, None] for x in (q[None], k, v)), mask[None])
    shown = contributions.images[0].get_array()
    np.testing.assert_allclose(shown[0], o[0, 0, 0])
    np.testing.assert_allclose(shown[2:].sum(axis=0), o[0, 0, 0])
    assert not shown[4].any(), "masked"
    with pytest.raises(ValueError, match="S=3"):
        plots.query_detail(q, k, v=v[:2])


def test_nan_weights_do_not_change_the_colour_scale():
    weights = np.eye(3)
    weights[2, 0] = np.nan
    assert plots.attention_map(weights).images[0].get_clim() == (0, 1)


def test_queries_have_no_key_labels_when_they_outnumber_the_keys():
    ax = plots.attention_map(np.full((3, 2), 0.5), ["a", "b"])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b"]
    assert not {"a", "b"} & {label.get_text() for label in ax.get_yticklabels()}


def test_entropy_of_one_hot_weights_is_plus_zero():
    assert not np.signbit(attention_entropy(np.eye(2)))
    figure = plots.head_statistics([np.eye(2)[None]], distance=False)
    assert [ax.get_title() for ax in figure.axes if ax.get_title()] == ["entropy"]
