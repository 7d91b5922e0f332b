"""Rows that may attend to nothing, NaN, infinities and large logits in the attention kernel."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.specifications.attention.random_cases import run
from random_attention import random

pytest.importorskip("numba")
from numformer.kernels.attention import flash as kernel  # noqa: E402  (needs Numba)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", [0, 70, 149])
def test_a_row_that_may_attend_to_nothing_has_output_and_gradient_zero(rng, dtype, row):
    """In the first, middle and last tile: o and dq are 0, lse is -Inf, k and v get no gradient."""
    q, k, v, do = random(rng, T=150, S=150, dtype=dtype)
    mask = np.ones((150, 150), bool)
    mask[row] = False
    do[:, :, row] = np.nan                                      # must not matter
    o, saved = kernel.scaled_dot_product_attention(q, k, v, AttentionPattern(mask=mask))
    dq, dk, dv = kernel.scaled_dot_product_attention_backward(do, saved)
    lse = kernel.log_sum_exp(saved)
    assert (o[:, :, row] == 0).all() and (dq[:, :, row] == 0).all()
    assert (lse[:, :, row] == -np.inf).all() and np.isfinite(np.delete(lse, row, 2)).all()
    assert np.isfinite(dk).all() and np.isfinite(dv).all()
    others = np.delete(np.arange(150), row)
    expected = run(F, q[:, :, others], k, v, do[:, :, others], EVERYWHERE, {})[2]
    np.testing.assert_allclose(dk, expected, rtol=1e-3, atol=1e-4 if dtype == np.float32 else 1e-13)


PATTERNS = {
    "causal": CAUSAL, "window": AttentionPattern(window=(20, 5)),
    "lengths": AttentionPattern(lengths=[100]),
    "documents": AttentionPattern(documents=[[0] * 100 + [1] * 50]),
    "mask": AttentionPattern(mask=np.tri(150, dtype=bool)), "everywhere": EVERYWHERE}
OPTIONS = {
    "plain": {}, "soft cap": dict(softcap=2.0), "dropout": dict(dropout=0.3, seed=5),
    "bias": dict(bias=np.linspace(-1, 1, 598).reshape(2, 299), slopes=F.alibi_slopes(2))}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("options", OPTIONS)
def test_nan_and_inf_reach_the_same_results_as_in_the_reference(rng, value, pattern, options):
    """Elsewhere the results are as if the value were not there."""
    pattern, options = PATTERNS[pattern], OPTIONS[options]
    for which in range(4):
        arrays = random(rng, T=150, S=150)
        clean = [x.copy() for x in arrays]
        arrays[which][0, 1, 120, 3] = value
        reference, compiled = (run(functions, *arrays, pattern, options)
                               for functions in (F, kernel))
        reference_before, compiled_before = (run(functions, *clean, pattern, options)
                                             for functions in (F, kernel))
        for name, x, y, x_before, y_before in zip(("o", "dq", "dk", "dv", "dbias"), compiled,
                                                  reference, compiled_before, reference_before):
            assert np.array_equal(np.isfinite(x), np.isfinite(y)), (which, name)
            finite = np.isfinite(y)
            np.testing.assert_allclose(x[finite], y[finite], rtol=1e-9, atol=1e-12)
            same = y == y_before                                # untouched in the reference
            np.testing.assert_allclose(x[same], x_before[same], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_of_minus_infinity_have_weight_zero(rng, dtype):
    """A query with no other logits gets NaN, as in the reference."""
    q, k, v, do = random(rng, H=1, G=1, T=80, S=80, dtype=dtype)
    q[...] = np.abs(q)
    k[0, 0, 40:] = -np.inf
    for pattern in (EVERYWHERE, AttentionPattern(window=(0, 0))):
        with np.errstate(invalid="ignore"):
            reference, _ = F.scaled_dot_product_attention(q, k, v, pattern)
        o, saved = kernel.scaled_dot_product_attention(q, k, v, pattern)
        assert np.array_equal(np.isnan(o), np.isnan(reference))
        assert np.array_equal(np.isnan(kernel.log_sum_exp(saved)), np.isnan(reference[..., 0]))
        np.testing.assert_allclose(o, reference, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert np.isnan(o[0, 0, 40:]).all() and np.isfinite(o[0, 0, :40]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_of_ten_thousand_are_as_accurate_as_in_numpy(rng, dtype):
    """Rounding a float32 logit of 1e4 changes its weight by one part in 1600.

    Most queries see one key alone here. NumPy's ds is then exactly 0, the kernel's is the rounding
    error of dp - delta.
    """
    q, k, v, do = random(rng, T=130, S=130, dtype=np.float32)
    q *= 100
    k *= 100
    assert 1e4 < np.abs(q @ k.mT).max() / np.sqrt(8) < 1e5
    reference = run(F, *(x.astype(np.longdouble) for x in (q, k, v, do)), EVERYWHERE, {})
    arrays = [x.astype(dtype) for x in (q, k, v, do)]
    compiled, numpy = (run(functions, *arrays, EVERYWHERE, {}) for functions in (kernel, F))
    for x, y, expected in zip(compiled, numpy, reference):
        assert np.isfinite(x).all()
        allowed = 2 * np.abs(y - expected).max() + 10 * np.finfo(dtype).eps * np.abs(k).max()
        assert np.abs(x - expected).max() <= allowed
