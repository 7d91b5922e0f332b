"""Attention in tiles, in NumPy: equal to the reference, forward and backward, step by step."""

import tracemalloc

import numpy as np
import pytest

from numformer.functional import (
    CAUSAL, EVERYWHERE, AttentionPattern, scaled_dot_product_attention,
    scaled_dot_product_attention_backward, tiled_attention, tiled_attention_backward,
    tiled_attention_steps)

PATTERNS = {
    "everywhere": EVERYWHERE, "causal": CAUSAL, "window": AttentionPattern(window=(2, 1)),
    "lengths": AttentionPattern(lengths=[7, 0]),
    "documents": AttentionPattern(causal=True, documents=[[0] * 4 + [1] * 7, [0] * 10 + [3]]),
    "mask (T, S)": AttentionPattern(mask=np.random.default_rng(1).random((9, 11)) < 0.5),
    "mask (B, H, T, S)": AttentionPattern(
        lengths=[11, 6], mask=np.random.default_rng(0).random((2, 4, 9, 11)) < 0.3)}


def arrays(rng, T=9, S=11, dtype=np.float64):
    """q, k, v and the gradient of o, with two query heads for each key-value head."""
    shapes = (2, 4, T, 5), (2, 2, S, 5), (2, 2, S, 5), (2, 4, T, 5)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def close(found, wanted, tolerance=1e-12):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def both(function, backward, q, k, v, do, *options):
    o, saved = function(q, k, v, *options)
    return o, *backward(do, saved)


@pytest.mark.parametrize("tile", [1, 3, 4, 100])
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_tiles_equal_the_reference_forward_and_backward(rng, pattern, tile):
    reference = both(scaled_dot_product_attention, scaled_dot_product_attention_backward,
                     *arrays(rng), pattern, 0.7)
    rng = np.random.default_rng(1234)
    close(both(tiled_attention, tiled_attention_backward, *arrays(rng), pattern, 0.7, tile),
          reference)


@pytest.mark.parametrize("T, S", [(1, 1), (1, 8), (8, 1), (4, 4), (5, 12)])
def test_tiles_equal_the_reference_for_any_number_of_queries_and_keys(T, S, rng):
    given = arrays(rng, T, S)
    close(both(tiled_attention, tiled_attention_backward, *given, CAUSAL, None, 4),
          both(scaled_dot_product_attention, scaled_dot_product_attention_backward, *given, CAUSAL))


def test_tiles_keep_float32(rng):
    given = arrays(rng, dtype=np.float32)
    found = both(tiled_attention, tiled_attention_backward, *given, CAUSAL, None, 4)
    assert all(x.dtype == np.float32 for x in found)
    close(found, both(scaled_dot_product_attention, scaled_dot_product_attention_backward, *given,
                      CAUSAL), 1e-5)


def test_large_scores_do_not_overflow(rng):
    q, k, v, do = arrays(rng)
    close(both(tiled_attention, tiled_attention_backward, 100 * q, 100 * k, v, do, CAUSAL, None, 3),
          both(scaled_dot_product_attention, scaled_dot_product_attention_backward, 100 * q,
               100 * k, v, do, CAUSAL), 1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_huge_scores(dtype, rng):
    """m + log(l) would be rounded to m: all weights are 1 / 5, not 1."""
    q, k = np.full((2, 1, 1, 5, 1), 1e4 if dtype == np.float32 else 1e9, dtype)
    v, do = rng.standard_normal((2, 1, 1, 5, 3)).astype(dtype)
    o, saved = tiled_attention(q, k, v, tile=2)
    dq, dk, dv = tiled_attention_backward(do, saved)
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(o[0, 0], np.tile(v[0, 0].mean(axis=0), (5, 1)), atol=tolerance)
    np.testing.assert_allclose(dv[0, 0], np.tile(do[0, 0].mean(axis=0), (5, 1)), atol=tolerance)


def test_only_two_numbers_a_query_are_saved_of_the_weights(rng):
    q, k, v, _ = arrays(rng)
    o, (*_, m, l, _, _, _) = tiled_attention(q, k, v, CAUSAL, tile=4)
    assert m.shape == l.shape == (2, 4, 9, 1)
    log_sum_exp = m + np.log(l)
    scores = np.where(CAUSAL.dense(9, 11), q @ np.repeat(k, 2, axis=1).mT / 5 ** 0.5, -np.inf)
    np.testing.assert_allclose(log_sum_exp, np.log(np.exp(scores).sum(axis=-1, keepdims=True)),
                               rtol=1e-12)


@pytest.mark.parametrize("pattern", [EVERYWHERE, CAUSAL, AttentionPattern(lengths=[900])],
                         ids=["everywhere", "causal", "lengths"])
def test_memory_grows_with_the_length_and_not_with_its_square(pattern, rng):
    q = rng.standard_normal((1, 1, 1024, 2))
    tracemalloc.start()
    try:
        _, saved = tiled_attention(q, q, q, pattern, tile=32)
        tiled_attention_backward(q, saved)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1024 * 1024                            # bytes: less than a mask of T x S


def test_steps_hold_the_state_of_the_online_softmax(rng):
    q, k, v = rng.standard_normal((3, 1, 1, 6, 4))
    steps = list(tiled_attention_steps(q, k, v, CAUSAL, tile=2))
    skipped = [(step.rows.start, step.keys.start) for step in steps if step.skipped]
    assert skipped == [(0, 2), (0, 4), (2, 4)] and len(steps) == 9
    m = -np.inf
    for step in steps[6:]:                               # those of the last two queries
        stop = step.keys.stop
        scores = q[0, 0, step.rows] @ k[0, 0, :stop].T / 2
        scores[np.triu(np.ones((2, stop), bool), 5)] = -np.inf       # in the last tile alone
        new, weights = step.m[0, 0, :, 0], np.exp(scores - step.m[0, 0])
        np.testing.assert_allclose(new, scores.max(axis=1))
        np.testing.assert_allclose(step.alpha[0, 0, :, 0], np.where(new > m, np.exp(m - new), 1))
        np.testing.assert_allclose(step.l[0, 0, :, 0], weights.sum(axis=1))
        np.testing.assert_allclose(step.o[0, 0], weights @ v[0, 0, :stop] / step.l[0, 0])
        np.testing.assert_allclose(step.log_sum_exp, step.m + np.log(step.l))
        m = new


def test_a_query_without_any_key_has_log_sum_exp_minus_infinity(rng):
    q = rng.standard_normal((1, 1, 2, 3))
    step, = tiled_attention_steps(q, q, q, AttentionPattern(lengths=[0]))
    assert step.skipped and (step.log_sum_exp == -np.inf).all() and (step.o == 0).all()


def test_bad_arguments_are_refused(rng):
    q = rng.standard_normal((1, 1, 2, 2))
    with pytest.raises(ValueError, match="tiled_attention: tile=0"):
        tiled_attention(q, q, q, tile=0)
    with pytest.raises(ValueError, match="tiled_attention: v must .* S=2"):
        tiled_attention(q, q, q[:, :, :1])
    with pytest.raises(TypeError, match="tiled_attention: pattern"):
        tiled_attention(q, q, q, np.ones((2, 2), bool))


def test_a_tile_has_64_queries_and_keys_by_default(rng):
    q = rng.standard_normal((1, 1, 65, 2))
    assert [(step.rows.stop, step.keys.stop) for step in tiled_attention_steps(q, q, q)] == [
        (64, 64), (64, 65), (65, 64), (65, 65)]
    default, same, other = (tiled_attention(q, q, q, **options)[0]
                            for options in ({}, dict(tile=64), dict(tile=65)))
    assert np.array_equal(default, same) and not np.array_equal(default, other)
