"""Attention at its edges: patterns, empty rows, NaN and Inf, dropout's hash."""

import numpy as np
import pytest

from numformer.functional import (
    CAUSAL, EVERYWHERE, AttentionPattern, alibi, alibi_slopes, attention_dropout_mask, attention_weights, rotary, rotary_angles,
    scaled_dot_product_attention, scaled_dot_product_attention_backward, softmax)
from numformer.layers import ALiBi, MultiHeadAttention, RotaryPositions


def qkv(rng, T=4, S=5, H=2, G=2, D=3, B=2):
    return rng.standard_normal((B, H, T, D)), rng.standard_normal((B, G, S, D)), rng.standard_normal((B, G, S, D))


@pytest.mark.parametrize("T, S", [(1, 1), (3, 3), (2, 5), (5, 2)])
def test_patterns_by_their_definition(T, S):
    lengths, mask = [S, max(S - 2, 0)], np.random.default_rng(0).random((2, 1, T, S)) < 0.5
    documents = np.array([[4, 4, 1, 1, 1], [2, 2, 2, 2, 9]])[:, :S] if T <= S else None
    pattern = AttentionPattern(causal=True, window=(1, None), lengths=lengths, documents=documents, mask=mask)
    for b, i, j in np.ndindex(2, T, S):
        position = i + S - T
        expected = j <= position and j >= position - 1 and j < lengths[b] and mask[b, 0, i, j]
        expected = expected and (documents is None or documents[b, position] == documents[b, j])
        assert pattern.dense(T, S)[b, 0, i, j] == expected
    assert EVERYWHERE.dense(T, S).all()


def test_a_pattern_keeps_what_it_was_given():
    lengths = np.array([2, 3])
    pattern = AttentionPattern(lengths=lengths, window=(np.uint8(0), np.uint8(255)))
    lengths[0] = 0
    assert pattern.dense(300, 300).sum(axis=(1, 2, 3)).tolist() == [3, 6]


def test_window_on_the_right():
    assert AttentionPattern(window=(np.int64(0), None)).dense(1, 2).tolist() == [[False, True]]
    assert AttentionPattern(window=(0, 1)).dense(2, 3).astype(int).tolist() == [[0, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize("options, error, words", [
    (dict(window=(1,)), ValueError, "pair"), (dict(window=(-1, 0)), ValueError, "0 or more"), (dict(window=3), ValueError, "pair"),
    (dict(window=(1.0, 0)), ValueError, "whole numbers"), (dict(window=(True, 0)), ValueError, "whole numbers"),
    (dict(causal="no"), TypeError, "True or False"),
    (dict(lengths=[1.5]), ValueError, "whole numbers"), (dict(lengths=[-1]), ValueError, "0 or more"),
    (dict(lengths=[[1]]), ValueError, "one for each"),
    (dict(documents=[0, 1]), ValueError, "(B, S)"), (dict(documents=[[0.0]]), ValueError, "(B, S)"),
    (dict(documents=[[0, 1, 0]]), ValueError, "side by side"),
    (dict(mask=np.ones((2, 2))), TypeError, "bool"), (dict(mask=np.ones(2, bool)), ValueError, "(T, S)")])
def test_bad_patterns(options, error, words):
    with pytest.raises(error) as caught:
        AttentionPattern(**options)
    assert words in str(caught.value)


@pytest.mark.parametrize("pattern, words", [
    (AttentionPattern(lengths=[6, 1]), "S=5"), (AttentionPattern(mask=np.ones((4, 4), bool)), "(2, 2, 4, 5)"),
    (AttentionPattern(lengths=[1, 1, 1]), "B=2"), (AttentionPattern(documents=[[1, 1, 1, 1, 1]] * 3), "B=2"),
    (AttentionPattern(documents=[[1, 1, 1, 1]]), "S=5"),
    (AttentionPattern(mask=np.ones((3, 1, 4, 5), bool)), "(2, 2, 4, 5)"),
    (AttentionPattern(mask=np.ones((2, 3, 4, 5), bool)), "(2, 2, 4, 5)")])
def test_patterns_that_do_not_fit(rng, pattern, words):
    with pytest.raises(ValueError) as caught:
        scaled_dot_product_attention(*qkv(rng), pattern)
    assert words in str(caught.value)


@pytest.mark.parametrize("pattern, words", [
    (AttentionPattern(mask=np.ones((4, 4), bool)), "(4, 5)"), (AttentionPattern(documents=[[1, 1]]), "S=5"),
    (AttentionPattern(lengths=[1, 1], mask=np.ones((3, 1, 4, 5), bool)), "and 2 lengths or documents differ in B"),
    (AttentionPattern(lengths=[1, 1], documents=np.ones((3, 5), int)), "differ in B")])
def test_rules_that_contradict_each_other(pattern, words):
    with pytest.raises(ValueError) as caught:
        pattern.dense(4, 5)
    assert words in str(caught.value)


def test_documents_need_their_queries():
    with pytest.raises(ValueError, match="T=3"):
        AttentionPattern(documents=[[1, 1]]).dense(3, 2)


def test_shapes_that_do_not_fit(rng):
    q, k, v = qkv(rng, H=3)
    with pytest.raises(ValueError, match="G=2"):
        scaled_dot_product_attention(q, k, v)
    with pytest.raises(ValueError, match="D=3"):
        scaled_dot_product_attention(q, k[..., :2], v)
    with pytest.raises(ValueError, match="S=5"):
        scaled_dot_product_attention(q[:, :2], k, v[:, :, :4])


@pytest.mark.parametrize("call, words", [
    (lambda q, k, v: scaled_dot_product_attention(q, k, v, np.ones((4, 5), bool)), "AttentionPattern(mask=mask)"),
    (lambda q, k, v: scaled_dot_product_attention(q, k, v, None), "AttentionPattern"),
    (lambda q, k, v: scaled_dot_product_attention(q.astype(np.float32), k, v), "k is float64"),
    (lambda q, k, v: scaled_dot_product_attention(q, k, v.astype(np.float32)), "v is float32"),
    (lambda q, k, v: softmax(q, mask=np.where(q > 0, 0, -np.inf)), "mask must be an array of bool"),
    (lambda q, k, v: MultiHeadAttention(3, 1, np.random.default_rng(0), dtype=np.float64).forward(q[:, 0], rng=3), "rng must be")])
def test_wrong_kinds_of_argument(call, words, rng):
    with pytest.raises(TypeError) as caught:
        call(*qkv(rng))
    assert words in str(caught.value)


@pytest.mark.parametrize("positions", [None, ALiBi(2), RotaryPositions(4)])
def test_queries_stand_at_the_last_keys(positions, rng):
    """Causal cross-attention from the last three positions equals the last three rows of self-attention."""
    layer = MultiHeadAttention(8, 2, rng, positions=positions, dtype=np.float64)
    x = rng.standard_normal((2, 7, 8))
    np.testing.assert_allclose(layer(x[:, -3:], context=x, pattern=CAUSAL), layer(x, pattern=CAUSAL)[:, -3:], rtol=1e-12)
    np.testing.assert_allclose(layer.weights(x[:, -3:], x, CAUSAL), layer.weights(x, pattern=CAUSAL)[:, :, -3:], rtol=1e-12)


def test_attention_equals_its_definition(rng):
    q, k, v = qkv(rng, H=4)
    mask = rng.random((2, 4, 4, 5)) < 0.7
    mask[..., 0] = True
    o, _ = scaled_dot_product_attention(q, k, v, AttentionPattern(mask=mask), scale=0.3)
    for b, h, i in np.ndindex(2, 4, 4):
        allowed = np.flatnonzero(mask[b, h, i])
        weights = np.exp(0.3 * k[b, h // 2, allowed] @ q[b, h, i])
        np.testing.assert_allclose(o[b, h, i], weights @ v[b, h // 2, allowed] / weights.sum(), rtol=1e-13)


def test_a_row_that_may_attend_to_nothing_gives_zero(rng):
    q, k, v = qkv(rng)
    pattern = AttentionPattern(lengths=[3, 0])
    o, saved = scaled_dot_product_attention(q, k, v, pattern)
    assert (o[1] == 0).all() and (o[0] != 0).all()
    gradients = scaled_dot_product_attention_backward(np.ones_like(o), saved)
    assert all((gradient[1] == 0).all() for gradient in gradients)
    assert (gradients[1][0, :, 3:] == 0).all() and (gradients[2][0, :, 3:] == 0).all()
    assert (attention_weights(q, k, pattern)[1] == 0).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_masked_nan_and_inf_do_not_leak(rng, value):
    q, k, v = qkv(rng, T=5)
    bad_k, bad_v = k.copy(), v.copy()
    bad_k[0, 1, 3] = bad_v[0, 1, 3] = value                           # key 3 is hidden from queries 0 .. 2
    clean, saved_clean = scaled_dot_product_attention(q, k, v, CAUSAL)
    o, saved = scaled_dot_product_attention(q, bad_k, bad_v, CAUSAL)
    assert np.array_equal(o[:, :, :3], clean[:, :, :3]) and np.array_equal(o[1], clean[1])
    assert not np.isfinite(o[0, 1, 3:]).any(axis=-1).all()            # attended to: not swallowed
    assert np.isnan(o[0, 1, 3:]).any() or value == -np.inf

    do = np.ones_like(o)
    found, truth = scaled_dot_product_attention_backward(do, saved), scaled_dot_product_attention_backward(do, saved_clean)
    assert np.array_equal(found[0][:, :, :3], truth[0][:, :, :3])     # dq of the queries that do not see it
    for gradient, expected in zip(found, truth):                      # all of the other head and the other example
        assert np.array_equal(gradient[0, 0], expected[0, 0]) and np.array_equal(gradient[1], expected[1])


def test_nan_of_an_attended_key_reaches_no_masked_gradient(rng):
    q, k, v = qkv(rng, T=5)
    star = np.eye(5, dtype=bool)
    star[:, 0] = True                                                 # query i sees key 0 and key i alone
    pattern = AttentionPattern(mask=star)
    _, saved_clean = scaled_dot_product_attention(q, k, v, pattern)
    k[0, 0, 1] = np.nan                                               # only query 1 sees it
    o, saved = scaled_dot_product_attention(q, k, v, pattern)
    found = scaled_dot_product_attention_backward(np.ones_like(o), saved)
    truth = scaled_dot_product_attention_backward(np.ones_like(o), saved_clean)
    assert np.isnan(found[0][0, 0, 1]).all() and np.isnan(found[1][0, 0, :2]).all() and np.isnan(found[2][0, 0, :2]).all()
    for gradient, expected in zip(found, truth):
        assert np.array_equal(gradient[0, 0, 2:], expected[0, 0, 2:])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_reaches_only_what_its_query_saw(value, rng):
    """Both for a mask of all examples, (T, S), and for one of each, (B, 1, T, S)."""
    q, k, v, do = rng.standard_normal((4, 1, 2, 4, 3))
    do[0, 0, 1] = value                                               # query 1 sees keys 0 and 1
    for pattern in (CAUSAL, AttentionPattern(causal=True, lengths=[4])):
        dq, dk, dv = scaled_dot_product_attention_backward(do, scaled_dot_product_attention(q, k, v, pattern)[1])
        assert np.isfinite(dq[0, 0, [0, 2, 3]]).all() and not np.isfinite(dq[0, 0, 1]).any()
        assert np.isfinite(dk[0, 0, 2:]).all() and np.isfinite(dv[0, 0, 2:]).all() and not np.isfinite(dv[0, 0, :2]).any()
        assert all(np.isfinite(x[0, 1]).all() for x in (dq, dk, dv))


def test_large_scores_do_not_overflow(rng):
    q, k, v = qkv(rng)
    o, saved = scaled_dot_product_attention(q * 1e4, k * 1e4, v)
    assert np.isfinite(o).all()
    assert all(np.isfinite(gradient).all() for gradient in scaled_dot_product_attention_backward(o, saved))


def test_softmax_mask_is_exactly_zero_even_beside_nan():
    p, _ = softmax(np.array([[np.nan, 1.0, 2.0]]), mask=np.array([True, True, False]))
    assert np.isnan(p[0, :2]).all() and p[0, 2] == 0


def test_dropout_hash_is_uniform_and_independent():
    mask = attention_dropout_mask(2**63 + 12345, (4, 4, 64, 64), 0.3)
    n = mask.size
    assert abs(mask.mean() - 0.7) < 4 * np.sqrt(0.21 / n)
    centred = mask - 0.7
    for axis in range(4):                                             # no correlation between neighbours in any direction
        ahead, behind = np.delete(centred, 0, axis), np.delete(centred, -1, axis)
        assert abs((ahead * behind).mean()) < 4 * 0.21 / np.sqrt(ahead.size)
    other = attention_dropout_mask(2**63 + 12346, mask.shape, 0.3) - 0.7
    assert abs((centred * other).mean()) < 4 * 0.21 / np.sqrt(n)


def test_dropout_hash_does_not_depend_on_the_shape():
    small = attention_dropout_mask(99, (2, 3, 4, 5), 0.5)
    assert np.array_equal(attention_dropout_mask(99, (4, 5, 6, 7), 0.5)[:2, :3, :4, :5], small)
    assert attention_dropout_mask(99, (1, 1, 8, 8), 0.0).all()


def test_attention_dropout_keeps_the_mean(rng):
    q, k, v = qkv(rng)
    truth, _ = scaled_dot_product_attention(q, k, v)
    runs = np.array([scaled_dot_product_attention(q, k, v, dropout=0.25, seed=seed)[0] for seed in range(2000)])
    error = np.abs(runs.mean(axis=0) - truth) / (runs.std(axis=0) / np.sqrt(len(runs)))
    assert error.max() < 5


def test_rotary_scores_depend_on_distance_alone(rng):
    q, k = rng.standard_normal((2, 1, 8))
    for layout in ("half", "interleaved"):
        def score(m, n):
            turned = [rotary(x, *rotary_angles(t, t + 1, 8), layout)[0] for x, t in ((q, m), (k, n))]
            return float((turned[0] * turned[1]).sum())
        assert abs(score(7, 3) - score(104, 100)) < 1e-12 and abs(score(7, 3) - score(7, 4)) > 1e-3


def test_rotary_layouts_differ_by_a_permutation(rng):
    x = rng.standard_normal((5, 8))
    order = np.arange(8).reshape(2, 4).T.ravel()                      # 0 4 1 5 2 6 3 7
    half, _ = rotary(x, *rotary_angles(0, 5, 8), "half")
    interleaved, _ = rotary(x[:, order], *rotary_angles(0, 5, 8), "interleaved")
    assert np.array_equal(half[:, order], interleaved)


@pytest.mark.parametrize("n_heads, expected", [(8, 2.0 ** -np.arange(1, 9)), (1, [2.0 ** -8]), (3, [2.0 ** -4, 2.0 ** -8, 2.0 ** -2]),
    (6, [2.0 ** -2, 2.0 ** -4, 2.0 ** -6, 2.0 ** -8, 2.0 ** -1, 2.0 ** -3]),
    (12, [*2.0 ** -np.arange(1.0, 9), 2.0 ** -0.5, 2.0 ** -1.5, 2.0 ** -2.5, 2.0 ** -3.5])])
def test_alibi_slopes(n_heads, expected):
    assert np.array_equal(alibi_slopes(n_heads), expected)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_values_that_are_not_finite_reach_who_attends_to_them(value, rng):
    """With their sign, and in their own column and head alone."""
    q, k, v = qkv(rng, T=4, S=4)
    v[0, 1, 2, 1] = value                                             # key 2: queries 2 and 3 see it
    o, _ = scaled_dot_product_attention(q, k, v, CAUSAL)
    np.testing.assert_array_equal(o[0, 1, 2:, 1], [value, value])
    reached = np.zeros(o.shape, bool)
    reached[0, 1, 2:, 1] = True
    assert np.isfinite(o[~reached]).all()


def test_bounds_of_scale_and_dropout(rng):
    q, k, v = (x.astype(np.float32) for x in qkv(rng))
    for scale in (np.finfo(np.float32).tiny, np.finfo(np.float32).max):
        with np.errstate(all="ignore"):
            scaled_dot_product_attention(q, k, v, scale=float(scale))
    for scale in (float(np.finfo(np.float32).tiny) / 2, float(np.finfo(np.float32).max) * 2, 0.0):
        with pytest.raises(ValueError, match="scale="):
            scaled_dot_product_attention(q, k, v, scale=scale)
    for rate in (1.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="dropout="):
            scaled_dot_product_attention(q, k, v, dropout=rate, seed=1)
    plain = scaled_dot_product_attention(q, k, v)[0]
    assert np.array_equal(scaled_dot_product_attention(q, k, v, dropout=0.5)[0], plain)          # no seed: no dropout
    assert np.array_equal(scaled_dot_product_attention(q, k, v, dropout=0.0, seed=1)[0], plain)


@pytest.mark.parametrize("T, S", [(2, 5), (5, 2), (3, 3)])
def test_alibi_counts_from_the_last_key(T, S):
    y, _ = alibi(np.zeros((1, T, S)), np.array([0.5]))
    assert all(y[0, i, j] == -0.5 * abs(i + S - T - j) for i in range(T) for j in range(S))


def test_patterns_that_fit_for_all_or_not_at_all(rng):
    """One length, one row of documents, or one mask serves every example; two serve two alone."""
    q, k, v = qkv(rng, T=3, S=3, B=3)
    for one in (AttentionPattern(lengths=[2]), AttentionPattern(documents=[[1, 1, 2]]), AttentionPattern(mask=np.ones((1, 1, 3, 3), bool)),
                AttentionPattern(mask=np.ones((3, 2, 3, 3), bool)), AttentionPattern(lengths=[1, 2, 3])):
        assert scaled_dot_product_attention(q, k, v, one)[0].shape == q.shape
    for two in (AttentionPattern(lengths=[2, 2]), AttentionPattern(documents=2 * [[1, 1, 2]]),
                AttentionPattern(mask=np.ones((2, 1, 3, 3), bool)),
                AttentionPattern(mask=np.ones((1, 3, 3, 3), bool)), AttentionPattern(mask=np.ones((3, 2), bool))):
        with pytest.raises(ValueError, match="AttentionPattern"):
            scaled_dot_product_attention(q, k, v, two)
    with pytest.raises(ValueError, match="differ in B"):
        AttentionPattern(lengths=[1, 2], mask=np.ones((3, 1, 3, 3), bool)).dense(3, 3)
    for empty in ([], np.zeros((0, 3), int)):
        with pytest.raises(ValueError, match="AttentionPattern"):
            AttentionPattern(lengths=empty) if np.ndim(empty) == 1 else AttentionPattern(documents=empty)
    assert AttentionPattern(lengths=[0]).lengths.tolist() == [0] and AttentionPattern(documents=[[4]]).documents.tolist() == [[4]]


def test_intervals_are_kept_for_the_next_call():
    """So nobody may write to them."""
    for pattern in (AttentionPattern(causal=True), AttentionPattern(window=(1, 0))):
        for x in pattern.intervals(3, 4):
            with pytest.raises(ValueError, match="read-only"):
                x[0, 0] = 1


def test_a_mask_and_lengths_of_different_batches():
    pattern = AttentionPattern(lengths=[1, 2], mask=np.ones((3, 1, 2, 2), bool))
    with pytest.raises(ValueError, match="differ in B"):
        pattern.dense(2, 2)
    assert AttentionPattern(lengths=[2], mask=np.ones((3, 1, 2, 2), bool)).dense(2, 2).shape == (3, 1, 2, 2)
