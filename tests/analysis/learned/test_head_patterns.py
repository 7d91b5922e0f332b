"""Scores of patterns are the weights that heads give to their targets."""

import numpy as np
import pytest

from numformer.analysis import attention_patterns, pattern_targets
from numformer.functional import softmax


def test_scores_are_means_over_queries_with_targets(rng):
    texts = []
    for T, separators in ((5, [4]), (7, [3, 6]), (4, [])):
        texts.append(([softmax(rng.standard_normal((3, T, T)))[0] for _ in range(2)], separators))
    found = attention_patterns(texts)
    assert list(found) == ["previous", "own", "next", "first", "separator", "broad"]
    sums = {name: [] for name in found}
    for weights, separators in texts:
        T = len(weights[0][0])
        for i in range(T):
            p = np.array([layer[:, i] for layer in weights])          # (layers, H, T)
            sums["own"].append(p[..., i])
            sums["broad"].append(-(p * np.log(p)).sum(axis=-1) / np.log(T))
            for name, key in (("previous", i - 1), ("next", i + 1)):
                if 0 <= key < T:
                    sums[name].append(p[..., key])
            if i:
                sums["first"].append(p[..., 0])
            if separators and i not in separators:
                sums["separator"].append(p[..., separators].sum(axis=-1))
    for name, score in found.items():
        np.testing.assert_allclose(score, np.mean(sums[name], axis=0), rtol=1e-10, err_msg=name)


def test_equal_weights_are_broad_and_have_no_pattern():
    T = 8
    found = attention_patterns([([np.full((1, T, T), 1 / T)], [T - 1])])
    assert found.pop("broad") == pytest.approx(1)
    for name, score in found.items():
        assert score == pytest.approx(1 / T), name


def test_targets_without_separators_have_no_such_pattern():
    assert "separator" not in pattern_targets(4)
    assert "separator" not in attention_patterns([([np.full((1, 2, 2), 0.5)], [])])


@pytest.mark.parametrize("texts, words", [
    ([], "texts is empty"), ([([], [])], "no layers"),
    ([([np.ones((1, 2, 3))], [])], "not self-attention"),
    ([([np.ones((1, 1, 1))], [])], "two tokens or more")])
def test_weights_of_no_text_are_refused(texts, words):
    with pytest.raises(ValueError, match=words):
        attention_patterns(texts)
