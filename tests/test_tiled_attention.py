"""The tiled attention in NumPy: the same numbers as the truth, and steps that say what happened."""

import numpy as np
import pytest

from numformer.functional import (
    CAUSAL, EVERYWHERE, AttentionPattern, scaled_dot_product_attention, tiled_attention, tiled_attention_steps)


@pytest.mark.parametrize("tile", [1, 3, 4, 100])
@pytest.mark.parametrize("pattern", [
    EVERYWHERE, CAUSAL, AttentionPattern(window=(2, 1)), AttentionPattern(lengths=[7, 0]),
    AttentionPattern(mask=np.random.default_rng(0).random((2, 4, 9, 11)) < 0.3)], ids=["all", "causal", "window", "lengths", "mask"])
def test_tiles_equal_the_truth(rng, pattern, tile):
    q, k, v = rng.standard_normal((2, 4, 9, 5)), rng.standard_normal((2, 2, 11, 5)), rng.standard_normal((2, 2, 11, 5))
    truth, _ = scaled_dot_product_attention(q, k, v, pattern, 0.7)
    np.testing.assert_allclose(tiled_attention(q, k, v, pattern, 0.7, tile), truth, rtol=1e-12, atol=1e-14)


def test_steps_say_what_happened(rng):
    q, k, v = rng.standard_normal((3, 1, 1, 6, 4))
    steps = list(tiled_attention_steps(q, k, v, CAUSAL, tile=2))
    assert [(step.rows.start, step.keys.start) for step in steps if step.skipped] == [(0, 2), (0, 4), (2, 4)]
    assert len(steps) == 9
    m = -np.inf
    for step in steps[6:]:                                            # the walk of the last two queries
        scores = q[0, 0, step.rows] @ k[0, 0, :step.keys.stop].T / 2
        scores[np.triu(np.ones((2, step.keys.stop), bool), 5)] = -np.inf      # only the last tile hides anything from them
        np.testing.assert_allclose(step.m[0, 0, :, 0], scores.max(axis=1))
        np.testing.assert_allclose(step.alpha[0, 0, :, 0], np.where(step.m[0, 0, :, 0] > m, np.exp(m - step.m[0, 0, :, 0]), 1))
        np.testing.assert_allclose(step.l[0, 0, :, 0], np.exp(scores - step.m[0, 0]).sum(axis=1))
        np.testing.assert_allclose(step.o[0, 0], np.exp(scores - step.m[0, 0]) @ v[0, 0, :step.keys.stop] / step.l[0, 0])
        m = step.m[0, 0, :, 0]


def test_bad_tiles(rng):
    q = rng.standard_normal((1, 1, 2, 2))
    with pytest.raises(ValueError, match="tile=0"):
        tiled_attention(q, q, q, tile=0)
    with pytest.raises(ValueError, match="S=2"):
        tiled_attention(q, q, q[:, :, :1])


def test_a_tile_is_64_wide_unless_said(rng):
    q = rng.standard_normal((1, 1, 65, 2))
    assert [(step.rows.stop, step.keys.stop) for step in tiled_attention_steps(q, q, q)] == [(64, 64), (64, 65), (65, 64), (65, 65)]
    assert np.array_equal(tiled_attention(q, q, q), tiled_attention(q, q, q, tile=64))
    assert not np.array_equal(tiled_attention(q, q, q), tiled_attention(q, q, q, tile=65))
