"""Pictures of embeddings, of learned positions, and of heads by pattern."""

import numpy as np
import pytest

from numformer import plots
from numformer.analysis import pattern_targets
from numformer.functional import CAUSAL, attention_weights


def causal_weights(rng):
    """Of two layers with three heads, for five tokens."""
    return [attention_weights(*rng.standard_normal((2, 1, 3, 5, 4)), CAUSAL)[0] for _ in range(2)]


def test_tokens_are_at_their_principal_components(rng):
    vectors = rng.standard_normal((12, 5)) * [9, 3, 1, 1, 1]
    classes = ["vowels"] * 4 + ["digits"] * 8
    ax = plots.embedding_map(vectors, list("abcdefghijkl"), classes)
    points = np.concatenate([np.asarray(each.get_offsets()) for each in ax.collections])
    centred = vectors - vectors.mean(axis=0)
    values = np.linalg.svd(centred, compute_uv=False)
    np.testing.assert_allclose(np.sqrt((points ** 2).sum(axis=0)), values[:2])
    share = values[0] ** 2 / (values ** 2).sum()
    assert ax.get_xlabel() == f"first direction, {share:.0%} of the variance"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["vowels", "digits"]
    assert len({tuple(each.get_facecolor()[0]) for each in ax.collections}) == 2


def test_labels_of_tokens_never_overlap(rng):
    n = 150
    ax = plots.embedding_map(rng.standard_normal((n, 2)), ["word"] * n)
    figure = ax.figure
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert 20 < len(boxes) < n
    assert not any(one.shrunk(0.9, 0.8).overlaps(two.shrunk(0.9, 0.8))
                   for k, one in enumerate(boxes) for two in boxes[:k])
    assert len(plots.embedding_map(np.eye(4), list("abcd")).texts) == 4


@pytest.mark.parametrize("vectors, labels, words", [
    (np.eye(3), list("ab"), "2 labels for V=3"), (np.eye(1), ["a"], "two or more"),
    (np.full((2, 2), np.nan), list("ab"), "finite"), (np.zeros(3), list("abc"), r"\(V, C\)")])
def test_vectors_without_a_map_are_refused(vectors, labels, words):
    with pytest.raises(ValueError, match=f"embedding_map: .*{words}"):
        plots.embedding_map(vectors, labels)


def test_learned_positions_show_vectors_and_cosines(rng):
    vectors = rng.standard_normal((6, 4))
    left, right, *_ = plots.learned_positions(vectors).axes
    np.testing.assert_array_equal(left.images[0].get_array(), vectors)
    cosines = right.images[0].get_array()
    expected = vectors[2] @ vectors[5] / np.linalg.norm(vectors[2]) / np.linalg.norm(vectors[5])
    assert cosines[2, 5] == pytest.approx(expected)
    np.testing.assert_allclose(np.diag(cosines), 1)
    assert right.images[0].get_clim() == (-1, 1)
    with pytest.raises(ValueError, match="a vector is zero"):
        plots.learned_positions(np.zeros((2, 3)))


def scores_of(weights):
    T = weights[0].shape[1]
    return {name: np.array([(layer * wanted).sum(axis=(1, 2)) / wanted.any(axis=1).sum()
                            for layer in weights])
            for name, wanted in pattern_targets(T).items()}


def test_maps_are_of_the_heads_with_the_highest_scores(rng):
    weights = causal_weights(rng)
    scores = scores_of(weights)
    figure = plots.heads_by_pattern(scores, weights, list("abcde"), pattern_targets(5),
                                    np.tri(5, dtype=bool))
    table, *maps = [ax for ax in figure.axes if ax.images]
    assert table.images[0].get_array().tolist() == [score.ravel().tolist()
                                                    for score in scores.values()]
    assert len(table.texts) == 4 * 6, "every score is written"
    for panel, (name, score) in zip(maps, scores.items()):
        layer, head = divmod(int(score.argmax()), 3)
        np.testing.assert_array_equal(panel.images[0].get_array(), weights[layer][head])
        assert panel.get_title() == (
            f"{name}: {score.max():.2f} (layer {layer + 1}, head {head + 1})")
        frames = panel.collections[-1].get_paths()
        assert len(frames) == pattern_targets(5)[name].sum()
    with plots.slides():
        slide = plots.heads_by_pattern(scores, weights, list("abcde"))
    assert slide.axes[0].images[0].get_array().shape == (6, 4), "heads from top to bottom"


def test_heads_without_scores_or_tokens_are_refused(rng):
    weights = causal_weights(rng)
    for scores, tokens, words in (({}, "abcde", "at least one pattern"),
                                  ({"a": np.ones((3, 2))}, "abcde", r"= \(2, 3\)"),
                                  (scores_of(weights), "abc", "3 tokens")):
        with pytest.raises(ValueError, match=f"heads_by_pattern: .*{words}"):
            plots.heads_by_pattern(scores, weights, list(tokens))
