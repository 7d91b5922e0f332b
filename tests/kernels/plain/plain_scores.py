"""Scores, online softmax and dropout of one tile, against their equations."""

import numpy as np
import pytest
from random_tiles import options_of

from numformer.functional.dropout_hash import mix
from numformer.kernels import dropout
from numformer.kernels.attention import dropout as attention_dropout
from numformer.kernels.attention import scores, softmax


@pytest.mark.parametrize("T, S", [(1, 1), (5, 7), (7, 4)])
@pytest.mark.parametrize("given", [
    dict(), dict(softcap=0.5), dict(softcap=2.0), dict(slopes=np.array([0.3])),
    dict(slopes=np.array([0.3, 0.7])), dict(bias=True),
    dict(softcap=0.7, slopes=np.array([0.3, 0.7]), bias=True)])
def test_scores_follow_their_equation(T, S, given, rng):
    i0, j0 = min(1, T - 1), min(2, S - 1)
    for h in range(len(given.get("slopes", (0, 0)))):
        bias = rng.standard_normal((h + 1, T + S - 1)) if "bias" in given else np.zeros((0, 0))
        options = options_of(T, S, **(given | dict(scale=0.6, bias=bias)))
        q, k = rng.standard_normal((T - i0, 3)), rng.standard_normal((S - j0, 3))
        s, cap_slope = np.full((2, len(k), len(q)), 7.0)
        scores.tile_scores(options, h, i0, j0, k, q.T, s, cap_slope)
        wanted = 0.6 * k @ q.T
        if options.softcap:
            capped = np.tanh(wanted / options.softcap)
            wanted, slope = options.softcap * capped, 1 - capped ** 2
            np.testing.assert_allclose(cap_slope, slope, rtol=1e-12)
        for j in range(len(k)):
            for i in range(len(q)):
                distance = (j0 + j) - (i0 + i + S - T)
                if options.slopes.size:
                    wanted[j, i] -= options.slopes[h] * abs(distance)
                if options.bias.size:
                    wanted[j, i] += bias[h, distance + S - 1]
        np.testing.assert_allclose(s, wanted, rtol=1e-12)


@pytest.mark.parametrize("J", range(1, 14))
def test_online_softmax_of_a_tile_follows_its_equation(J, rng):
    """Wherever the largest score is. Without a new maximum, nothing is rescaled."""
    I = 4
    for largest in range(J):
        for before in (-np.inf, -5.0, 1.0, 50.0):
            s = rng.standard_normal((J, I))
            s[largest] = 40 + rng.random(I)
            s[:, 3] = -np.inf
            given, l_i = s.copy(), rng.random(I) * (before > -np.inf)
            m_i, l_before = np.full(I, before), l_i.copy()
            alpha, tile_max, tile_sum = np.full(I, 7.0), np.full(I, 8.0), np.full(I, 9.0)
            rose = softmax.online_softmax(s, m_i, l_i, alpha, tile_max, tile_sum)
            m = np.maximum(before, given.max(axis=0))
            base = np.where(m == -np.inf, 0, m)
            assert rose == (before < 50) and m_i.tolist() == m.tolist()
            np.testing.assert_allclose(s, np.exp(given - base), rtol=1e-14)
            rescale = np.exp(before - base)
            l_wanted = l_before * rescale + np.exp(given - base).sum(axis=0)
            np.testing.assert_allclose(l_i, l_wanted, rtol=1e-14)
            if rose:
                np.testing.assert_allclose(alpha, rescale, rtol=1e-14)
            else:
                assert (alpha == 7).all()


def test_a_weight_alone_in_its_row_has_no_gradient():
    p, dp = np.array([[1.0, 0.5, 2.0]]), np.array([[3.0, 3.0, 3.0]])
    softmax.softmax_gradient(p, np.array([1.0, 1.0, 1.0]), dp)
    assert dp.tolist() == [[0, 1, 4]]


def hash_of(seed, b, h, i, j):
    """The hash of a weight, as in `attention_dropout_mask`."""
    b, h, i, j = (np.array([n], np.uint32) for n in (b, h, i, j))
    row = mix(np.uint32(seed >> 32) ^ mix(np.uint32(seed & 0xFFFFFFFF) ^ mix(b)))
    return int(mix(mix(mix(row ^ h) ^ i) + j * np.uint32(0x9E3779B9)).item())


@pytest.mark.parametrize("seed", [
    0, 1, 0xFFFFFFFF, 0xFFFFFFFF00000000, 2**64 - 1, 0x123456789ABCDEF0, 0xF0F0F0F00F0F0F0F,
    (5 << 32) + 9])
def test_a_hash_equal_to_the_threshold_is_kept(seed):
    """In attention, and in the dropout of vectors, whose rows are those of the first head."""
    high, low = seed >> 32, seed & 0xFFFFFFFF
    for b, h, i0, j0 in ((0, 0, 0, 0), (1, 3, 5, 2), (2, 1, 65535, 70000)):
        hashes, x, y = np.zeros(2, np.uint32), np.array([[1.0, 2.0], [3.0, 4.0]]), np.zeros((2, 2))
        for more in (0, 1):
            options = options_of(1, 1, threshold=hash_of(seed, b, h, i0 + 1, j0 + 1) + more,
                                 keep_scale=1.5, seed_high=high, seed_low=low)
            attention_dropout.row_hashes(options, b, h, i0, hashes)
            attention_dropout.drop(x, options, hashes, j0, y)
            for j in range(2):
                for i in range(2):
                    kept = hash_of(seed, b, h, i0 + i, j0 + j) >= options.threshold
                    assert y[j, i] == (1.5 * x[j, i] if kept else 0)
        assert x.tolist() == [[1, 2], [3, 4]] and y[1, 1] == 0
    for n, c in ((0, 0), (3, 4), (1000, 65537)):
        hashed, threshold = dropout.row_hash(n, low, high), hash_of(seed, 0, 0, n, c)
        assert dropout.is_kept(hashed, c, threshold)
        assert not dropout.is_kept(hashed, c, threshold + 1)
