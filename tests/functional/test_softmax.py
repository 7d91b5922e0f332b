"""Softmax and its logarithm: values, masks, large scores, and what they refuse."""

import math

import numpy as np
import pytest

from numformer import functional as F


def test_a_constant_changes_nothing_and_large_scores_do_not_overflow():
    x = np.array([[1e4, 1e4 + 1, -1e4]])
    p, _ = F.softmax(x)
    np.testing.assert_allclose(p, [[1 / (1 + math.e), math.e / (1 + math.e), 0]], rtol=1e-12)
    expected = np.array([[0, 1, -2e4]]) - math.log1p(math.e)
    np.testing.assert_allclose(F.log_softmax(x)[0], expected, rtol=1e-15)
    assert abs(F.cross_entropy(x, np.array([1]))[0] + expected[0, 1]) < 1e-15


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("mask", [
    np.array([True, False, True, True]), np.array([[True], [False], [True]])])
def test_a_mask_broadcasts(axis, mask, rng):
    x = rng.standard_normal((2, 3, 4))
    p, _ = F.softmax(x, axis, mask)
    whole = np.broadcast_to(mask, x.shape)
    weights = np.exp(x) * whole
    total = weights.sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(p, weights / np.where(total == 0, 1, total), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_mask_keeps_the_dtype_and_a_full_mask_changes_no_bit(dtype, rng):
    x, dp = rng.standard_normal((2, 3, 4)).astype(dtype)
    p, saved = F.softmax(x)
    masked, saved_masked = F.softmax(x, mask=np.ones(4, bool))
    assert masked.dtype == dtype and np.array_equal(masked, p)
    assert np.array_equal(F.softmax_backward(dp, saved_masked), F.softmax_backward(dp, saved))


def test_masked_scores_do_not_reach_the_weights_and_a_masked_row_is_zero(rng):
    x = rng.standard_normal((3, 4))
    mask = np.array([[True, True, False, False]] * 2 + [[False] * 4])
    spoiled = np.where(mask, x, [np.nan, np.inf, -np.inf, np.nan])
    p, saved = F.softmax(spoiled, mask=mask)
    assert np.array_equal(p, F.softmax(x, mask=mask)[0]) and (p[2] == 0).all()
    dp = np.where(mask, rng.standard_normal((3, 4)), np.nan)
    dx = F.softmax_backward(dp, saved)
    assert np.isfinite(dx).all() and (dx[~mask] == 0).all()


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="broadcast"):
        F.softmax(np.ones(3), mask=np.ones(2, bool))
