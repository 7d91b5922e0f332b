"""NaN and Inf: kept from the queries that may not see them, and shown to those that may."""

import numpy as np
import pytest

from numformer.functional import (
    CAUSAL, AttentionPattern, scaled_dot_product_attention,
    scaled_dot_product_attention_backward as backward, softmax)


def qkv(rng, T=5, S=5, H=2, D=3, B=2):
    return [rng.standard_normal((B, H, n, D)) for n in (T, S, S)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_masked_nan_and_inf_do_not_reach_the_output_or_a_gradient(rng, value):
    q, k, v = qkv(rng)
    bad_k, bad_v = k.copy(), v.copy()
    bad_k[0, 1, 3] = bad_v[0, 1, 3] = value              # key 3 is masked for queries 0 .. 2
    clean, saved_clean = scaled_dot_product_attention(q, k, v, CAUSAL)
    o, saved = scaled_dot_product_attention(q, bad_k, bad_v, CAUSAL)
    assert np.array_equal(o[:, :, :3], clean[:, :, :3]) and np.array_equal(o[1], clean[1])
    assert not np.isfinite(o[0, 1, 3:]).any(axis=-1).all()           # attended: not swallowed
    assert np.isnan(o[0, 1, 3:]).any() or value == -np.inf

    do = np.ones_like(o)
    found, wanted = backward(do, saved), backward(do, saved_clean)
    assert np.array_equal(found[0][:, :, :3], wanted[0][:, :, :3])   # dq of queries 0 .. 2
    for gradient, expected in zip(found, wanted):        # the other head and the other example
        assert np.array_equal(gradient[0, 0], expected[0, 0])
        assert np.array_equal(gradient[1], expected[1])


def test_nan_in_an_attended_key_reaches_no_masked_gradient(rng):
    q, k, v = qkv(rng)
    star = np.eye(5, dtype=bool)
    star[:, 0] = True                                    # query i sees key 0 and key i only
    pattern = AttentionPattern(mask=star)
    _, saved_clean = scaled_dot_product_attention(q, k, v, pattern)
    k[0, 0, 1] = np.nan                                  # only query 1 sees it
    o, saved = scaled_dot_product_attention(q, k, v, pattern)
    found, wanted = backward(np.ones_like(o), saved), backward(np.ones_like(o), saved_clean)
    assert np.isnan(found[0][0, 0, 1]).all()
    assert np.isnan(found[1][0, 0, :2]).all() and np.isnan(found[2][0, 0, :2]).all()
    for gradient, expected in zip(found, wanted):
        assert np.array_equal(gradient[0, 0, 2:], expected[0, 0, 2:])


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_masked_key_that_is_not_finite_leaves_gradients_finite(value, softcap, rng):
    q, k, v = qkv(rng)
    k[:, :, -1] = v[:, :, -1] = value
    o, saved = scaled_dot_product_attention(q, k, v, AttentionPattern(lengths=[4]), softcap=softcap)
    assert np.isfinite(o).all()
    assert all(np.isfinite(gradient).all() for gradient in backward(np.ones_like(o), saved))


@pytest.mark.parametrize("pattern", [CAUSAL, AttentionPattern(causal=True, lengths=[4])],
                         ids=["mask (T, S)", "mask (B, 1, T, S)"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_reaches_only_what_its_query_saw(value, pattern, rng):
    q, k, v, do = rng.standard_normal((4, 1, 2, 4, 3))
    do[0, 0, 1] = value                                  # query 1 sees keys 0 and 1
    dq, dk, dv = backward(do, scaled_dot_product_attention(q, k, v, pattern)[1])
    assert np.isfinite(dq[0, 0, [0, 2, 3]]).all() and not np.isfinite(dq[0, 0, 1]).any()
    assert np.isfinite(dk[0, 0, 2:]).all()
    assert np.isfinite(dv[0, 0, 2:]).all() and not np.isfinite(dv[0, 0, :2]).any()
    assert all(np.isfinite(x[0, 1]).all() for x in (dq, dk, dv))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_value_that_is_not_finite_reaches_those_who_attend_to_it(value, rng):
    """With its sign, and in its own column and head only."""
    q, k, v = qkv(rng, T=4, S=4)
    v[0, 1, 2, 1] = value                                # key 2: queries 2 and 3 see it
    o, _ = scaled_dot_product_attention(q, k, v, CAUSAL)
    np.testing.assert_array_equal(o[0, 1, 2:, 1], [value, value])
    reached = np.zeros(o.shape, bool)
    reached[0, 1, 2:, 1] = True
    assert np.isfinite(o[~reached]).all()


def test_a_masked_weight_is_exactly_0_next_to_nan():
    p, _ = softmax(np.array([[np.nan, 1.0, 2.0]]), mask=np.array([True, True, False]))
    assert np.isnan(p[0, :2]).all() and p[0, 2] == 0
