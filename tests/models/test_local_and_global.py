"""Stacks in which most layers look near by, and every few of them everywhere."""

import numpy as np
import pytest

from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern, layer_patterns
from numformer.layers import MultiHeadAttention


@pytest.mark.parametrize("T, S", [(5, 5), (2, 7), (1, 6)])
@pytest.mark.parametrize("rules", [
    dict(), dict(causal=True), dict(lengths=[3, 5]), dict(window=(1, None)), dict(window=(3, 0)),
    dict(documents=True),
    dict(mask=True)], ids=str)
def test_local_patterns_keep_all_other_rules(rules, T, S, rng):
    if "documents" in rules:
        rules = dict(documents=np.sort(rng.integers(0, 3, (2, S)), axis=1), causal=True)
    if "mask" in rules:
        rules = dict(mask=rng.random((2, 1, T, S)) < 0.5)
    pattern = AttentionPattern(**rules)
    before = pattern.dense(T, S).copy()
    for left, right in ((2, 1), (0, 0), (None, 1), (2, None)):
        distance = np.arange(S) - np.arange(S - T, S)[:, None]
        least, most = -(S if left is None else left), S if right is None else right
        near = (distance >= least) & (distance <= most)
        assert np.array_equal(pattern.local((left, right)).dense(T, S), before & near)
    assert np.array_equal(pattern.dense(T, S), before)


def test_one_layer_in_so_many_is_global():
    def is_global(*arguments, **options):
        return "".join("gl"[p.window is not None]
                       for p in layer_patterns(CAUSAL, *arguments, **options))

    assert (is_global(7, (4, 4), 3) == "gllgllg"
            and is_global(4, (4, 0), 2, global_first=False) == "lglg")
    assert (is_global(7, (4, 0), 6, global_first=False) == "lllllgl"
            and is_global(3, (1, 1), 1) == "ggg")
    patterns = layer_patterns(AttentionPattern(causal=True, window=(9, None)), 4, (4, None), 2)
    assert (patterns[0] is patterns[2] and patterns[1] is patterns[3]
            and [p.window for p in patterns[:2]] == [(9, None), (4, None)])
    assert all(p.causal for p in patterns)


@pytest.mark.parametrize("change, error, words", [
    (dict(window=3), ValueError, "window=3"), (dict(window=None), ValueError, "needs a window"),
    (dict(window=(-1, 0)), ValueError, "window"), (dict(n_layers=0), ValueError, "n_layers=0"),
    (dict(global_every=0), ValueError, "global_every=0"),
    (dict(global_first=1), TypeError, "global_first=1"),
    (dict(pattern=np.ones((2, 2), bool)), TypeError, "AttentionPattern")])
def test_layer_patterns_that_do_not_fit_are_refused(change, error, words):
    with pytest.raises(error) as caught:
        layer_patterns(**{**dict(pattern=CAUSAL, n_layers=2, window=(1, 1), global_every=2),
                          **change})
    assert words in str(caught.value)


def test_each_local_layer_extends_the_receptive_field_by_a_window(rng):
    """Through two local layers of window 1 it comes two tokens far; a global layer behind them
    carries it everywhere.
    """
    layers = [MultiHeadAttention(8, 2, rng, dtype=np.float64) for _ in range(3)]
    x = rng.standard_normal((1, 9, 8))
    other = x.copy()
    other[0, 4] += 1

    def run(x, patterns):
        for layer, pattern in zip(layers, patterns):
            x = layer(x, pattern=pattern)
        return x

    def touched(patterns):
        return np.flatnonzero((run(x, patterns) != run(other, patterns)).any(axis=(0, 2))).tolist()

    patterns = layer_patterns(EVERYWHERE, 3, (1, 1), 3, global_first=False)
    assert touched(patterns[:2]) == [2, 3, 4, 5, 6] and touched(patterns) == list(range(9))
    assert touched(layer_patterns(CAUSAL, 2, (1, 1), 9, global_first=False)) == [4, 5, 6]
