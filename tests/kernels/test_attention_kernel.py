"""The attention kernel equals the NumPy reference: patterns, ragged tiles, strides, long rows."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import logsumexp

from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.specifications.attention.random_cases import KINDS, attention_case, in_float64, run
from random_attention import random

pytest.importorskip("numba")
from numformer.kernels.attention import flash as kernel  # noqa: E402  (needs Numba)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_kernel_equals_reference(kind):
    """In float64 to 1e-13, in float32 to 2e-5; 40 cases of each kind."""
    for seed in range(kind, 40 * len(KINDS), len(KINDS)):
        _, q, k, v, do, pattern, options = attention_case(seed)
        *arrays, options64 = in_float64(q, k, v, do, options)
        reference = run(F, *arrays, pattern, options64)
        double = run(kernel, *arrays, pattern, options64)
        single = run(kernel, q, k, v, do, pattern, options)
        names = ("o", "dq", "dk", "dv", "dbias")
        for name, x64, x32, expected in zip(names, double, single, reference):
            largest, case = max(1, np.abs(expected).max()), (seed, name)
            assert x64.dtype == np.float64 and x32.dtype == np.float32, case
            assert np.abs(x64 - expected).max() <= 1e-13 * largest, case
            assert np.abs(x32 - expected).max() <= 2e-5 * largest, case
            assert (x64[expected == 0] == 0).all() or name != "o", case


def test_all_options_together_equal_reference(rng):
    q, k, v, do = random(rng, B=2, H=4, T=90, S=131, G=2)
    documents = np.sort(rng.integers(0, 3, (2, 131)), axis=1)
    mask = rng.random((1, 4, 90, 131)) < 0.8
    pattern = AttentionPattern(True, (100, 3), [131, 120], documents, mask)
    options = dict(scale=0.4, slopes=F.alibi_slopes(4), bias=rng.standard_normal((4, 220)),
                   softcap=3.0, dropout=0.2, seed=2**63 + 7)
    compiled, reference = (run(functions, q, k, v, do, pattern, options)
                           for functions in (kernel, F))
    for x, expected in zip(compiled, reference):
        np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


def unaligned_copy(x):
    y = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strides_change_no_bit_and_arguments_are_not_written(rng, dtype):
    arrays = random(rng, B=2, H=2, T=65, S=65, D=16, dtype=dtype)
    contiguous = run(kernel, *arrays, CAUSAL, {})
    for change in (lambda x: x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3),
                   np.asfortranarray, lambda x: x[:, :, ::-1].copy()[:, :, ::-1],
                   lambda x: np.repeat(x, 2, axis=-1)[..., ::2]):
        changed = [change(x) for x in arrays]
        for x in changed:
            x.flags.writeable = False
        before = [x.copy() for x in changed]
        result = run(kernel, *changed, CAUSAL, {})
        assert all(np.array_equal(a, b) for a, b in zip(contiguous, result))
        assert all(np.array_equal(x, y) for x, y in zip(changed, before))
    unaligned = unaligned_copy(arrays[0])
    assert np.array_equal(run(kernel, unaligned, *arrays[1:], CAUSAL, {})[0], contiguous[0])
    broadcast = np.broadcast_to(arrays[1][:, :, :1], arrays[1].shape)
    assert np.array_equal(run(kernel, arrays[0], broadcast, *arrays[2:], CAUSAL, {})[1],
                          run(kernel, arrays[0], broadcast.copy(), *arrays[2:], CAUSAL, {})[1])


def test_log_sum_exp_is_that_of_the_scores(rng):
    q, k, v, _ = random(rng)
    for pattern in (EVERYWHERE, AttentionPattern(causal=True, lengths=[30])):
        scores = np.where(pattern.dense(70, 70), q @ k.mT / np.sqrt(8), -np.inf)
        _, saved = kernel.scaled_dot_product_attention(q, k, v, pattern)
        np.testing.assert_allclose(kernel.log_sum_exp(saved), logsumexp(scores, axis=-1),
                                   rtol=1e-13)


def test_a_long_row_keeps_its_digits(rng):
    """200,000 keys: sums of 96 keys at a time, so that the last are not lost against the rest."""
    arrays = random(rng, H=1, G=1, T=4, S=200_000, D=16, dtype=np.float32)
    reference = run(F, *(x.astype(float) for x in arrays), EVERYWHERE, {})
    for x, expected in zip(run(kernel, *arrays, EVERYWHERE, {}), reference):
        assert np.abs(x - expected).max() <= 1e-5 * np.abs(expected).max()


def test_memory_is_linear_in_the_length(rng):
    """At T = 65,536 the weights alone would take 16 GiB.

    The kernel takes inputs and outputs, a row or two, and its tiles.
    """
    T = 65536
    q, k, v, do = random(rng, H=1, T=T, S=T, G=1, D=64, dtype=np.float32)
    pattern = AttentionPattern(causal=True, window=(128, 0))    # a short window saves time only
    run(kernel, q[:, :, :64], k[:, :, :64], v[:, :, :64], do[:, :, :64], pattern, {})
    tracemalloc.start()
    o, saved = kernel.scaled_dot_product_attention(q, k, v, pattern)
    forward = tracemalloc.get_traced_memory()[1] - o.nbytes
    tracemalloc.reset_peak()
    start = tracemalloc.get_traced_memory()[0]
    gradients = kernel.scaled_dot_product_attention_backward(do, saved)
    backward = tracemalloc.get_traced_memory()[1] - start - sum(x.nbytes for x in gradients)
    tracemalloc.stop()
    rows = T * 4 * 4                                            # m, l, both ends of the intervals
    tiles = 12 * (128 * 96 + 80) * 4                            # eleven, and one for alignment
    assert forward <= 1.1 * (2 * rows + tiles), "intervals take their size twice while made"
    assert backward <= 1.1 * tiles
