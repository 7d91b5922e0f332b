"""Shaw's relative positions: by their definition, against plain attention, and what they refuse."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, AttentionPattern


@pytest.mark.parametrize("T, S", [(1, 1), (4, 4), (2, 6), (6, 2)])
def test_relative_attention_equals_its_definition(T, S, rng):
    q, (k, v) = rng.standard_normal((2, 4, T, 3)), rng.standard_normal((2, 2, 2, S, 3))
    keys, values = rng.standard_normal((5, 3)), rng.standard_normal((3, 3))
    o, _ = F.relative_attention(q, k, v, keys, values, CAUSAL, scale=0.6)
    p = F.relative_attention_weights(q, k, keys, CAUSAL, scale=0.6)
    for b, h, i in np.ndindex(2, 4, T):
        distance = [j - (i + S - T) for j in range(S)]
        seen = [j for j in range(S) if distance[j] <= 0]
        e = {j: np.exp(0.6 * q[b, h, i] @ (k[b, h // 2, j] + keys[max(distance[j], -2) + 2]))
             for j in seen}
        weights = {j: e[j] / sum(e.values()) for j in seen}
        wanted = sum((weights[j] * (v[b, h // 2, j] + values[max(distance[j], -1) + 1])
                      for j in seen), np.zeros(3))
        np.testing.assert_allclose(o[b, h, i], wanted, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(p[b, h, i], [weights.get(j, 0) for j in range(S)], rtol=1e-12)


def test_relative_attention_with_tables_of_0_is_attention(rng):
    q, k, v = rng.standard_normal((3, 2, 2, 4, 3))
    tables, options = 2 * [np.zeros((3, 3))], dict(dropout=0.4, seed=3)
    pattern = AttentionPattern(causal=True, lengths=[4, 0])
    one, saved_one = F.relative_attention(q, k, v, *tables, pattern, **options)
    other, saved_other = F.scaled_dot_product_attention(q, k, v, pattern, **options)
    np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)
    assert not one[1].any()
    do = rng.standard_normal(one.shape)
    *gradients, dkeys, dvalues = F.relative_attention_backward(do, saved_one)
    wanted = F.scaled_dot_product_attention_backward(do, saved_other)
    for gradient, expected in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-14)
    assert dkeys.any() and dvalues.any()
    without_seed, plain = (F.relative_attention(q, k, v, *tables, **more)[0]
                           for more in (dict(dropout=0.4), dict()))
    assert np.array_equal(without_seed, plain)


@pytest.mark.parametrize("call, words", [
    (lambda q: F.relative_scores(q, np.ones((4, 4)), 3), "has 4 rows, but must have 2 K + 1"),
    (lambda q: F.relative_scores(q, np.ones((3, 2)), 3), "D=4"),
    (lambda q: F.relative_scores(q, np.ones((3, 4)), 0), "S=0"),
    (lambda q: F.relative_values(q, np.ones((2, 4))), "give it 3"),
    (lambda q: F.relative_attention(q, q, q, np.ones((3, 4)), np.ones((2, 4))),
     "value_table of shape"),
    (lambda q: F.relative_attention(q, q, q, np.ones((3, 3)), np.ones((3, 4))), "key_table must"),
    (lambda q: F.relative_attention(q, q, q, *2 * [np.ones((3, 4))], CAUSAL, -1.0),
     "relative_attention: scale=-1.0"),
    (lambda q: F.relative_attention(q, q, q, *2 * [np.ones((3, 4))], dropout=1.0),
     "relative_attention: dropout=1.0"),
    (lambda q: F.relative_attention(q, q, q[:, :, :2], *2 * [np.ones((3, 4))]),
     "relative_attention: v must have shape")])
def test_tables_and_options_that_do_not_fit_are_refused(call, words):
    with pytest.raises(ValueError) as caught:
        call(np.ones((1, 2, 3, 4)))
    assert words in str(caught.value)
