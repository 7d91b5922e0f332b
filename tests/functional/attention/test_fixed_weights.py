"""Attention weights without queries and keys: limits, alignment, masks, ALiBi on zero scores."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, AttentionPattern


def test_even_weights_are_those_of_equal_scores(rng):
    mask = AttentionPattern(causal=True, lengths=[4, 0]).dense(5, 5)
    k, v = rng.standard_normal((2, 2, 1, 5, 3))
    expected = F.attention_weights(np.zeros((2, 1, 5, 3)), k, AttentionPattern(mask=mask))
    p = F.uniform_weights(mask)
    np.testing.assert_allclose(p, expected, rtol=1e-15)
    q = np.zeros((2, 1, 5, 3))
    np.testing.assert_allclose(p @ v, F.attention(q, k, v, mask)[0], atol=1e-15)
    assert p.dtype == np.float64 and F.uniform_weights(mask, np.float32).dtype == np.float32
    assert (p[1] == 0).all(), "nothing to attend to"


@pytest.mark.parametrize("T, S", [(4, 4), (2, 5), (1, 3)])
def test_weights_by_distance_are_alibi_on_zero_scores(T, S):
    slopes, mask = np.array([0.5, 0.0, -0.2]), CAUSAL.dense(T, S)
    p, _ = F.distance_weights(slopes, mask)
    expected, _ = F.softmax(F.alibi(np.zeros((3, T, S)), slopes)[0], mask=mask)
    np.testing.assert_allclose(p, expected, rtol=1e-15)
    np.testing.assert_allclose(p[1], F.uniform_weights(mask), rtol=1e-15)


def test_a_steep_slope_attends_to_the_query_itself():
    p, saved = F.distance_weights(np.array([50.0]), np.ones((4, 4), bool))
    np.testing.assert_allclose(p[0], np.eye(4), atol=1e-20)
    assert abs(F.distance_weights_backward(np.ones_like(p), saved)).max() < 1e-12, "sums stay 1"


def test_the_gradient_raises_the_slope_where_near_keys_are_wanted():
    mask = CAUSAL.dense(4, 4)
    p, saved = F.distance_weights(np.array([0.1]), mask)
    near = -np.eye(4)[None]                                 # the loss falls with weight on itself
    assert F.distance_weights_backward(near, saved)[0] < 0


@pytest.mark.parametrize("call, error, words", [
    (lambda: F.uniform_weights(np.ones((2, 2))), TypeError, "uniform_weights: mask must be"),
    (lambda: F.uniform_weights(np.ones(2, bool)), ValueError, "shape (2,)"),
    (lambda: F.uniform_weights(np.ones((0, 2), bool)), ValueError, "1 or more"),
    (lambda: F.distance_weights(np.ones((2, 1)), np.ones((2, 2), bool)), ValueError, "(H,)"),
    (lambda: F.distance_weights(np.ones(2), [[True]]), TypeError, "list"),
    (lambda: F.distance_weights(np.ones(2), np.ones((2, 3, 2, 2), bool)), ValueError, "H=2"),
    (lambda: F.distance_weights(np.ones(2), np.ones((3, 2, 2), bool)), ValueError, "H=2"),
])
def test_bad_arguments_of_fixed_weights_are_refused(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)
