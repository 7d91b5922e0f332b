"""The attention kernel on several threads: equal to the bit, and right when called from many."""

import threading

import numpy as np
import pytest

from marks import every
from numformer import backend
from numformer import functional as F
from numformer.backend import dispatch
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.specifications.attention.random_cases import run
from random_attention import random

pytest.importorskip("numba")
from numformer.kernels.attention import flash as kernel  # noqa: E402  (needs Numba)


@pytest.fixture(autouse=True)
def always_parallel(monkeypatch):
    monkeypatch.setattr(dispatch, "PARALLEL_FROM", 0)


@pytest.mark.parametrize("shape", [
    (1, 1, 200, 200, 1), (2, 4, 150, 131, 2), (1, 3, 300, 300, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", every(2, [True, False]))
def test_results_do_not_depend_on_the_number_of_threads(rng, shape, dtype, bias):
    """To the bit; with fewer key-value heads than threads, too, where tasks share a head."""
    B, H, T, S, G = shape
    arrays = random(rng, B, H, T, S, G, D=16, dtype=dtype)
    options = dict(slopes=F.alibi_slopes(H), dropout=0.1, seed=3)
    pattern = CAUSAL
    if bias:
        options["bias"] = rng.standard_normal((H, T + S - 1)).astype(dtype)
        pattern = AttentionPattern(causal=True, lengths=rng.integers(S // 2, S + 1, B))
    first = None
    for threads in (1, 2, 4) * 34:
        with backend.threads(threads):
            o, (version, saved) = backend.scaled_dot_product_attention(
                *arrays[:3], pattern, **options)
            gradients = backend.scaled_dot_product_attention_backward(arrays[3], (version, saved))
        assert version is kernel
        results = (o, *gradients, kernel.log_sum_exp(saved))
        first = first or results
        assert all(x.tobytes() == y.tobytes() for x, y in zip(first, results, strict=True))
    for x, expected in zip(first, run(F, *arrays, pattern, options)):
        np.testing.assert_allclose(x, expected, rtol=1e-3 if dtype == np.float32 else 1e-9,
                                   atol=1e-5)


def test_calls_from_eight_python_threads_are_all_right(rng):
    """A thousand calls, each of which may use the pool."""
    cases = [(random(rng, T=T, S=T, D=8, dtype=np.float32), pattern)
             for T in (33, 64, 100) for pattern in (CAUSAL, EVERYWHERE)]
    expected = [run(kernel, *arrays, pattern, {}) for arrays, pattern in cases]
    wrong, calls = [], iter(range(1000))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                call = next(calls, None)
            if call is None:
                return
            arrays, pattern = cases[call % len(cases)]
            results = run(backend, *arrays, pattern, {})
            if not all(map(np.array_equal, results, expected[call % len(cases)])):
                wrong.append(call)

    with backend.threads(2):
        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not wrong and next(calls, None) is None
