"""Linear, low-rank and sparse attention equal dense attention of the same weights."""

import numpy as np
import pytest

from numformer import functional as F

B, H, D, D_V = 2, 3, 4, 5


def arrays(rng, T, S, dtype=np.float64):
    return [rng.standard_normal(shape).astype(dtype)
            for shape in ((B, H, T, D), (B, H, S, D), (B, H, S, D_V))]


def dense_linear(q, k, v, mask=None):
    """The definition: weights phi(q) phi(k), divided by their sums, written out."""
    a, b = (np.where(x > 0, x + 1, np.exp(x)) for x in (q, k))
    weights = a @ b.mT
    weights = weights if mask is None else np.where(mask, weights, 0)
    return weights / weights.sum(axis=-1, keepdims=True) @ v


@pytest.mark.parametrize("T", [1, 2, 63, 64, 65, 131])
def test_linear_attention_is_the_dense_form(T, rng):
    q, k, v = arrays(rng, T, T)
    causal = np.tri(T, dtype=bool)
    np.testing.assert_allclose(F.linear_attention(q, k, v, causal=True)[0],
                               dense_linear(q, k, v, causal), rtol=1e-12, atol=1e-14)
    q, k, v = arrays(rng, T, 7)
    np.testing.assert_allclose(F.linear_attention(q, k, v)[0], dense_linear(q, k, v), rtol=1e-12)


def test_the_recurrent_form_is_the_parallel_one(rng):
    q, k, v = arrays(rng, 70, 70)
    expected, state, sizes = F.linear_attention(q, k, v, causal=True)[0], None, set()
    for t in range(70):
        before = None if state is None else state.copy()
        old = state
        o, state = F.linear_attention_step(*(x[:, :, t:t + 1] for x in (q, k, v)), state)
        assert old is None or np.array_equal(old, before), "the old state stays valid"
        np.testing.assert_allclose(o[:, :, 0], expected[:, :, t], rtol=1e-11)
        sizes.add(state.shape)
    assert sizes == {(B, H, D, D_V + 2)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale, offset", [
    (1, -48), (1, -400), (5, -100), (30, 0), (300, -1000), (1e12, 0), (1e-30, 0)])
@pytest.mark.parametrize("causal", [False, True])
def test_linear_attention_far_from_0(scale, offset, causal, dtype, rng):
    """Features that underflow, or fill the range, against long doubles, which hold e^-11000.

    dq and dk are differences: their errors are those of the parts. A feature e^x has an error of an
    ulp for each nat of x.
    """
    q, k, v = arrays(rng, 70, 70)
    do = rng.standard_normal(v.shape).astype(dtype)
    q, k = ((x * scale + offset).astype(dtype) for x in (q, k))
    if scale == 1e12:                                # e^-1e12 is 0 for everybody
        q, k = abs(q), abs(k)
    v = v.astype(dtype)
    o, saved = F.linear_attention(q, k, v, causal)
    found, state = [o, *F.linear_attention_backward(do, saved)], None
    steps = []
    for t in range(70 if causal else 0):
        step, state = F.linear_attention_step(*(x[:, :, t:t + 1] for x in (q, k, v)), state)
        steps.append(step)
    if causal:
        found.append(np.concatenate(steps, axis=2))

    q, k, v, do = (x.astype(np.longdouble) for x in (q, k, v, do))
    a, b = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    mask = np.tri(70, dtype=bool) if causal else np.ones((70, 70), bool)
    p = np.where(mask, a @ b.mT, 0)
    total = p.sum(axis=-1, keepdims=True)
    o = p / total @ v
    dp = np.where(mask, do @ v.mT - (do * o).sum(axis=-1, keepdims=True), 0) / total
    size = np.where(mask, abs(do) @ abs(v).mT + abs(do * o).sum(axis=-1, keepdims=True), 0) / total
    da, db = (np.where(x > 0, 1, f) for x, f in ((q, a), (k, b)))
    true = [o, dp @ b * da, dp.mT @ a * db, (p / total).mT @ do, o]
    sizes = [abs(v).max(), size @ b * da, size.mT @ a * db, (p / total).mT @ abs(do), abs(v).max()]
    tiny, ulps = float(np.finfo(dtype).tiny), 40 + 2 * max(0, float(-q.min()), float(-k.min()))
    for name, x, y, size in zip(("o", "dq", "dk", "dv", "step"), found, true, sizes):
        assert x.dtype == dtype, name
        assert (abs(x - y) <= ulps * np.finfo(dtype).eps * size + 1e4 * tiny).all(), name


def test_a_query_orthogonal_to_all_keys_gets_zeros():
    q, k = np.full((1, 1, 2, 1), -np.inf), np.full((1, 1, 2, 1), -1000.0)
    v = np.ones((1, 1, 2, 1))
    for q, k in ((q, k), (k, q), (q, q)):
        for causal in (False, True):
            o, saved = F.linear_attention(q, k, v, causal)
            assert not o.any()
            assert all(np.isfinite(d).all() and not d.any()
                       for d in F.linear_attention_backward(np.ones_like(o), saved))
        assert not F.linear_attention_step(*(x[:, :, :1] for x in (q, k, v)))[0].any()


@pytest.mark.parametrize("which", ["k", "v"])
def test_a_later_nan_does_not_leak_into_causal_linear_attention(which, rng):
    """Nor do keys so far from the others that the scale of the features changes."""
    q, k, v = arrays(rng, 80, 80)
    before = F.linear_attention(q, k, v, causal=True)[0]
    changed = {"k": k.copy(), "v": v.copy()}
    changed[which][:, :, 40] = np.nan
    o = F.linear_attention(q, **changed, causal=True)[0]
    assert np.array_equal(o[:, :, :40], before[:, :, :40]) and np.isnan(o[:, :, 40:]).all()
    far = k.copy()
    far[:, :, 40:] += 1e5
    o = F.linear_attention(q, far, v, causal=True)[0]
    np.testing.assert_allclose(o[:, :, :40], before[:, :, :40], rtol=1e-13, atol=1e-14)


def test_a_sum_of_weights_of_one_is_no_special_case():
    """One key with weight 1: the output is its value, and its value gets the whole gradient."""
    q = k = np.zeros((1, 1, 1, 1))
    v, do = np.full((1, 1, 1, 2), 3.0), np.array([2.0, -1.0]).reshape(1, 1, 1, 2)
    for causal in (False, True):
        o, saved = F.linear_attention(q, k, v, causal)
        np.testing.assert_array_equal(o, v)
        np.testing.assert_array_equal(F.linear_attention_backward(do, saved)[2], do)


def test_later_positions_change_nothing_in_causal_linear_attention(rng):
    q, k, v = arrays(rng, 80, 80)
    changed = [x.copy() for x in (q, k, v)]
    for x in changed:
        x[:, :, 40:] += 1
    one, two = (F.linear_attention(*x, causal=True)[0] for x in ((q, k, v), changed))
    assert np.array_equal(one[:, :, :40], two[:, :, :40])
    assert not np.allclose(one[:, :, 40:], two[:, :, 40:])


def test_low_rank_attention_is_attention_to_projected_keys_and_values(rng):
    q, k, v = arrays(rng, 6, 9)
    E, G = rng.standard_normal((2, 4, 9))
    mixed_k, mixed_v = (np.einsum("rs,bhsd->bhrd", e, x) for e, x in ((E, k), (G, v)))
    np.testing.assert_allclose(F.low_rank_attention(q, k, v, E, G)[0],
                               F.attention(q, mixed_k, mixed_v)[0], rtol=1e-12)
    one = np.eye(9)                                      # R = S, nothing is mixed
    np.testing.assert_allclose(F.low_rank_attention(q, k, v, one, one)[0],
                               F.attention(q, k, v)[0], rtol=1e-12)


@pytest.mark.parametrize("T, keys", [
    (1, F.strided_keys(1, 3)), (16, F.strided_keys(16, 4)), (17, F.strided_keys(17, 4)),
    (16, F.fixed_keys(16, 4)), (23, F.fixed_keys(23, 5, 2)), (9, F.strided_keys(9, 20))])
def test_sparse_attention_is_masked_dense_attention(T, keys, rng):
    q, k, v = arrays(rng, T, T)
    do = rng.standard_normal((B, H, T, D_V))
    o, saved = F.sparse_attention(q, k, v, keys)
    expected, saved_dense = F.attention(q, k, v, F.mask_of_keys(keys))
    np.testing.assert_allclose(o, expected, rtol=1e-11, atol=1e-13)
    for found, right in zip(F.sparse_attention_backward(do, saved),
                            F.attention_backward(do, saved_dense)):
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("T, stride", [(1, 1), (12, 3), (13, 4), (30, 6)])
def test_the_patterns_are_the_sets_of_the_paper(T, stride):
    i, j = np.arange(T)[:, None], np.arange(T)
    strided = (j <= i) & ((i - j < stride) | ((i - j) % stride == 0))
    assert np.array_equal(F.mask_of_keys(F.strided_keys(T, stride)), strided)
    for summary in {1, stride}:
        fixed = (j <= i) & ((j // stride == i // stride) | (j % stride >= stride - summary))
        assert np.array_equal(F.mask_of_keys(F.fixed_keys(T, stride, summary)), fixed)


def test_two_strided_layers_connect_all_positions():
    mask = F.mask_of_keys(F.strided_keys(25, 5)).astype(int)
    assert np.array_equal(mask @ mask > 0, np.tri(25, dtype=bool))
    assert mask.sum(axis=1).max() < 10


@pytest.mark.parametrize("function, arguments, words", [
    (F.linear_attention, dict(causal=1), "causal=1 must be True or False"),
    (F.linear_attention, dict(causal=True), "T=3 and S=5; use causal=False"),
    (F.linear_attention_step, {}, "S=5"),
    (F.low_rank_attention, dict(key_projection=np.ones((2, 4)), value_projection=np.ones((2, 5))),
     "S=5"),
    (F.low_rank_attention, dict(key_projection=np.ones((2, 5)), value_projection=np.ones((3, 5))),
     "R=2"),
    (F.sparse_attention, dict(keys=[[0], [1], [2]]), "array of integers"),
    (F.sparse_attention, dict(keys=np.zeros((2, 1), int)), "T=3"),
    (F.sparse_attention, dict(keys=np.full((3, 1), 5)), "S - 1 = 4"),
    (F.sparse_attention, dict(keys=np.full((3, 1), -2)), "-1 for none"),
    (F.sparse_attention, dict(keys=np.zeros((3, 2), int)), "twice"),
    (F.sparse_attention, dict(keys=np.array([[0, 1, 2], [0, -1, -1], [0, 1, 1]])), "twice"),
])
def test_wrong_arguments_are_named(function, arguments, words, rng):
    with pytest.raises((ValueError, TypeError)) as caught:
        function(*arrays(rng, 3, 5), **arguments)
    assert words in str(caught.value) and function.__name__ in str(caught.value)


@pytest.mark.parametrize("T, D_V", [(0, D_V), (3, 0)])
def test_empty_arrays_are_named(T, D_V, rng):
    q, k, v = arrays(rng, T, 5)
    for function, arguments in (
            (F.linear_attention, ()), (F.low_rank_attention, (np.ones((2, 5)), np.ones((2, 5)))),
            (F.sparse_attention, (np.zeros((T, 1), int),))):
        with pytest.raises(ValueError, match=f"{function.__name__}: q of shape .* empty"):
            function(q, k, v[..., :D_V], *arguments)
    q, k, v = arrays(rng, 3, 5)
    with pytest.raises(ValueError, match="R=0: no axis may be empty"):
        F.low_rank_attention(q, k, v, np.ones((0, 5)), np.ones((0, 5)))


def test_a_stride_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match="summary=3 is more than a block of stride=2"):
        F.fixed_keys(8, 2, 3)
    with pytest.raises(ValueError, match="stride"):
        F.strided_keys(8, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_stays(dtype, rng):
    q, k, v = arrays(rng, 8, 8, dtype)
    E = np.ones((2, 8), dtype)
    for function, options in (
            (F.linear_attention, dict(causal=True)), (F.sparse_attention, dict(
                keys=F.strided_keys(8, 3))),
            (F.low_rank_attention, dict(key_projection=E, value_projection=E))):
        o, saved = function(q, k, v, **options)
        gradient = getattr(F, f"{function.__name__}_backward")
        assert {x.dtype for x in (o, *gradient(o, saved))} == {np.dtype(dtype)}
