"""Dropout of attention weights: its hash is uniform, and the mean of the output stays."""

import numpy as np
import pytest

from numformer.functional import (
    attention_dropout_mask, drop_weights, scaled_dot_product_attention)


def test_the_hash_is_uniform_and_independent():
    mask = attention_dropout_mask(2**63 + 12345, (4, 4, 64, 64), 0.3)
    n = mask.size
    assert abs(mask.mean() - 0.7) < 4 * np.sqrt(0.21 / n)
    centred = mask - 0.7
    for axis in range(4):                                # no correlation between neighbours
        ahead, behind = np.delete(centred, 0, axis), np.delete(centred, -1, axis)
        assert abs((ahead * behind).mean()) < 4 * 0.21 / np.sqrt(ahead.size)
    other = attention_dropout_mask(2**63 + 12346, mask.shape, 0.3) - 0.7
    assert abs((centred * other).mean()) < 4 * 0.21 / np.sqrt(n)


def test_the_hash_does_not_depend_on_the_shape():
    small = attention_dropout_mask(99, (2, 3, 4, 5), 0.5)
    assert np.array_equal(attention_dropout_mask(99, (4, 5, 6, 7), 0.5)[:2, :3, :4, :5], small)
    assert attention_dropout_mask(99, (1, 1, 8, 8), 0.0).all()


def test_weights_are_0_or_scaled_up(rng):
    p = rng.random((2, 3, 4, 5))
    weights, _ = drop_weights(p, 0.25, seed=8)
    kept = attention_dropout_mask(8, p.shape, 0.25)
    assert (weights[~kept] == 0).all() and 0 < kept.sum() < kept.size
    np.testing.assert_allclose(weights[kept], p[kept] / 0.75, rtol=1e-15)


@pytest.mark.parametrize("options", [dict(), dict(rate=0.5), dict(rate=0.0, seed=3)], ids=str)
def test_without_a_rate_and_a_seed_the_weights_are_as_they_were(options, rng):
    p = rng.random((1, 1, 2, 3))
    assert drop_weights(p, **options)[0] is p


@pytest.mark.parametrize("options, words", [(dict(rate=1.0), "dropout=1.0"),
                                            (dict(rate=0.5, seed=-1), "seed=-1")])
def test_rates_and_seeds_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError, match=f"drop_weights: {words}"):
        drop_weights(np.ones((1, 1, 1, 1)), **options)


def test_dropout_keeps_the_mean_of_the_output(rng):
    q, k, v = (rng.standard_normal((2, 2, n, 3)) for n in (4, 5, 5))
    wanted, _ = scaled_dot_product_attention(q, k, v)
    runs = np.array([scaled_dot_product_attention(q, k, v, dropout=0.25, seed=seed)[0]
                     for seed in range(2000)])
    error = np.abs(runs.mean(axis=0) - wanted) / (runs.std(axis=0) / np.sqrt(len(runs)))
    assert error.max() < 5
