"""Attention patterns: every rule by its definition, and what patterns refuse."""

import numpy as np
import pytest

from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern, scaled_dot_product_attention


def qkv(rng, T=4, S=5, H=2, G=2, D=3, B=2):
    shapes = (B, H, T, D), (B, G, S, D), (B, G, S, D)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("T, S", [(1, 1), (3, 3), (2, 5), (5, 2)])
def test_a_pattern_allows_what_all_its_rules_allow(T, S):
    lengths, mask = [S, max(S - 2, 0)], np.random.default_rng(0).random((2, 1, T, S)) < 0.5
    documents = np.array([[4, 4, 1, 1, 1], [2, 2, 2, 2, 9]])[:, :S] if T <= S else None
    pattern = AttentionPattern(causal=True, window=(1, None), lengths=lengths, documents=documents,
                               mask=mask)
    for b, i, j in np.ndindex(2, T, S):
        position = i + S - T
        expected = position - 1 <= j <= position and j < lengths[b] and mask[b, 0, i, j]
        expected = expected and (documents is None or documents[b, position] == documents[b, j])
        assert pattern.dense(T, S)[b, 0, i, j] == expected
    assert EVERYWHERE.dense(T, S).all()


@pytest.mark.parametrize("seed", range(60))
def test_intervals_never_decrease(seed):
    """Whatever the rules: the compiled kernel bounds a block of queries by its first and last."""
    rng = np.random.default_rng(seed)
    T, S = (int(n) for n in rng.integers(1, 12, 2))
    rules = dict(causal=bool(rng.integers(2)))
    if rng.random() < 0.5:
        rules["window"] = tuple(rng.choice([None, 0, 1, 5, 20], 2))
    if rng.random() < 0.5:
        rules["lengths"] = rng.integers(0, S + 1, 2)
    if rng.random() < 0.5:
        T = min(T, S)
        rules["documents"] = 9 - np.sort(rng.integers(0, 4, (2, S)))
    for ends in AttentionPattern(**rules).intervals(T, S):
        assert (np.diff(ends) >= 0).all() and ends.min() >= 0 and ends.max() <= S


def test_a_pattern_does_not_change_with_the_array_it_was_made_from():
    lengths = np.array([2, 3])
    pattern = AttentionPattern(lengths=lengths, window=(np.uint8(0), np.uint8(255)))
    lengths[0] = 0
    assert pattern.dense(300, 300).sum(axis=(1, 2, 3)).tolist() == [3, 6]


def test_a_window_is_open_or_closed_on_the_right():
    open_window = AttentionPattern(window=(np.int64(0), None))
    assert open_window.dense(1, 2).tolist() == [[False, True]]
    closed = AttentionPattern(window=(0, 1))
    assert closed.dense(2, 3).astype(int).tolist() == [[0, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize("options, error, words", [
    (dict(window=(1,)), ValueError, "pair"), (dict(window=(-1, 0)), ValueError, "0 or more"),
    (dict(window=3), ValueError, "pair"), (dict(window=(1.0, 0)), ValueError, "whole numbers"),
    (dict(window=(True, 0)), ValueError, "whole numbers"),
    (dict(causal="no"), TypeError, "True or False"),
    (dict(lengths=[1.5]), ValueError, "whole numbers"),
    (dict(lengths=[-1]), ValueError, "0 or more"),
    (dict(lengths=[[1]]), ValueError, "one for each"),
    (dict(lengths=[]), ValueError, "one for each"),
    (dict(documents=[0, 1]), ValueError, "(B, S)"),
    (dict(documents=[[0.0]]), ValueError, "(B, S)"),
    (dict(documents=np.zeros((0, 3), int)), ValueError, "(B, S)"),
    (dict(documents=[[0, 1, 0]]), ValueError, "side by side"),
    (dict(mask=np.ones((2, 2))), TypeError, "bool"), (dict(mask=[[True]]), TypeError, "list"),
    (dict(mask=np.ones(2, bool)), ValueError, "(T, S)")])
def test_rules_of_a_wrong_form_are_refused(options, error, words):
    with pytest.raises(error, match="AttentionPattern") as caught:
        AttentionPattern(**options)
    assert words in str(caught.value)


@pytest.mark.parametrize("pattern, words", [
    (AttentionPattern(lengths=[6, 1]), "S=5"),
    (AttentionPattern(mask=np.ones((4, 4), bool)), "(2, 2, 4, 5)"),
    (AttentionPattern(lengths=[1, 1, 1]), "B=2"),
    (AttentionPattern(documents=[[1, 1, 1, 1, 1]] * 3), "B=2"),
    (AttentionPattern(documents=[[1, 1, 1, 1]]), "S=5"),
    (AttentionPattern(mask=np.ones((3, 1, 4, 5), bool)), "(2, 2, 4, 5)"),
    (AttentionPattern(mask=np.ones((2, 3, 4, 5), bool)), "(2, 2, 4, 5)")])
def test_attention_refuses_a_pattern_that_does_not_fit_its_arrays(rng, pattern, words):
    with pytest.raises(ValueError) as caught:
        scaled_dot_product_attention(*qkv(rng), pattern)
    assert words in str(caught.value)


@pytest.mark.parametrize("pattern, words", [
    (AttentionPattern(mask=np.ones((4, 4), bool)), "(4, 5)"),
    (AttentionPattern(documents=[[1, 1]]), "S=5"),
    (AttentionPattern(lengths=[1, 1], mask=np.ones((3, 1, 4, 5), bool)),
     "and 2 lengths or documents differ in B"),
    (AttentionPattern(lengths=[1, 1], documents=np.ones((3, 5), int)), "differ in B")])
def test_rules_that_contradict_each_other_are_refused(pattern, words):
    with pytest.raises(ValueError) as caught:
        pattern.dense(4, 5)
    assert words in str(caught.value)


def test_documents_need_as_many_keys_as_queries():
    with pytest.raises(ValueError, match="T=3"):
        AttentionPattern(documents=[[1, 1]]).dense(3, 2)


@pytest.mark.parametrize("pattern", [
    AttentionPattern(lengths=[2]), AttentionPattern(documents=[[1, 1, 2]]),
    AttentionPattern(mask=np.ones((1, 1, 3, 3), bool)),
    AttentionPattern(mask=np.ones((3, 2, 3, 3), bool)), AttentionPattern(lengths=[1, 2, 3])])
def test_a_rule_is_for_all_examples_or_for_each(rng, pattern):
    q, k, v = qkv(rng, T=3, S=3, B=3)
    assert scaled_dot_product_attention(q, k, v, pattern)[0].shape == q.shape


@pytest.mark.parametrize("pattern", [
    AttentionPattern(lengths=[2, 2]), AttentionPattern(documents=2 * [[1, 1, 2]]),
    AttentionPattern(mask=np.ones((2, 1, 3, 3), bool)),
    AttentionPattern(mask=np.ones((1, 3, 3, 3), bool)),
    AttentionPattern(mask=np.ones((3, 2), bool))])
def test_a_rule_for_two_of_three_examples_is_refused(rng, pattern):
    with pytest.raises(ValueError, match="AttentionPattern"):
        scaled_dot_product_attention(*qkv(rng, T=3, S=3, B=3), pattern)


def test_a_single_rule_broadcasts_to_a_mask_of_many_examples():
    masks = np.ones((3, 1, 2, 2), bool)
    with pytest.raises(ValueError, match="differ in B"):
        AttentionPattern(lengths=[1, 2], mask=masks).dense(2, 2)
    assert AttentionPattern(lengths=[2], mask=masks).dense(2, 2).shape == (3, 1, 2, 2)
    assert AttentionPattern(lengths=[1, 2], mask=masks[:1]).dense(2, 2).shape == (2, 1, 2, 2)
    assert AttentionPattern(lengths=[0]).lengths.tolist() == [0]
    assert AttentionPattern(documents=[[4]]).documents.tolist() == [[4]]


@pytest.mark.parametrize("pattern", [CAUSAL, AttentionPattern(window=(1, 0))])
def test_cached_intervals_cannot_be_written_to(pattern):
    for x in pattern.intervals(3, 4):
        with pytest.raises(ValueError, match="read-only"):
            x[0, 0] = 1
