"""The compiled attention against its twin in NumPy: every pattern, ragged tiles, special values, threads, memory."""

import re
import threading
import tracemalloc
from importlib import import_module

import numpy as np
import pytest
from scipy.special import logsumexp

from numformer.verify.attention_cases import KINDS, attention_case, in_float64, run
from numformer import backend
from numformer.backend import twins
from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.layers import MultiHeadAttention

pytest.importorskip("numba")
from numformer.kernels import attention as kernel  # noqa: E402  (needs Numba)
from numformer.kernels.compiled import Kernel  # noqa: E402


def random(rng, B=1, H=2, T=70, S=70, G=2, D=8, dtype=np.float64):
    q, do = rng.standard_normal((2, B, H, T, D)).astype(dtype)
    k, v = rng.standard_normal((2, B, G, S, D)).astype(dtype)
    return q, k, v, do


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_the_kernel_equals_the_truth(kind):
    """In float64 to 1e-13, and in float32 to what that can; 40 cases of each kind."""
    for seed in range(kind, 40 * len(KINDS), len(KINDS)):
        _, q, k, v, do, pattern, options = attention_case(seed)
        *arrays, more = in_float64(q, k, v, do, options)
        truth = run(F, *arrays, pattern, more)
        found, single = run(kernel, *arrays, pattern, more), run(kernel, q, k, v, do, pattern, options)
        for name, found, single, expected in zip(("o", "dq", "dk", "dv", "dbias"), found, single, truth):
            largest = max(1, np.abs(expected).max())
            assert found.dtype == np.float64 and np.abs(found - expected).max() <= 1e-13 * largest, (seed, name)
            assert single.dtype == np.float32 and np.abs(single - expected).max() <= 2e-5 * largest, (seed, name)
            assert (found[expected == 0] == 0).all() or name != "o", (seed, name)


def test_everything_at_once(rng):
    q, k, v, do = random(rng, B=2, H=4, T=90, S=131, G=2)
    documents, mask = np.sort(rng.integers(0, 3, (2, 131)), axis=1), rng.random((1, 4, 90, 131)) < 0.8
    pattern = AttentionPattern(True, (100, 3), [131, 120], documents, mask)
    options = dict(scale=0.4, slopes=F.alibi_slopes(4), bias=rng.standard_normal((4, 220)), softcap=3.0, dropout=0.2, seed=2**63 + 7)
    for found, truth in zip(run(kernel, q, k, v, do, pattern, options), run(F, q, k, v, do, pattern, options)):
        np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-13 * np.abs(truth).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strides_do_not_matter(rng, dtype):
    arrays = random(rng, B=2, H=2, T=65, S=65, D=16, dtype=dtype)
    plain = run(kernel, *arrays, CAUSAL, {})
    unaligned = np.zeros(arrays[0].nbytes + 1, np.uint8)[1:].view(dtype).reshape(arrays[0].shape)
    unaligned[...] = arrays[0]
    for change in (lambda x: x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3), np.asfortranarray,
                   lambda x: x[:, :, ::-1].copy()[:, :, ::-1], lambda x: np.repeat(x, 2, axis=-1)[..., ::2]):
        changed = [change(x) for x in arrays]
        for x in changed:
            x.flags.writeable = False
        before = [x.copy() for x in changed]
        assert all(np.array_equal(a, b) for a, b in zip(plain, run(kernel, *changed, CAUSAL, {})))
        assert all(np.array_equal(x, y) for x, y in zip(changed, before)), "an argument was written into"
    assert np.array_equal(run(kernel, unaligned, *arrays[1:], CAUSAL, {})[0], plain[0])
    broadcast = np.broadcast_to(arrays[1][:, :, :1], arrays[1].shape)
    assert np.array_equal(run(kernel, arrays[0], broadcast, *arrays[2:], CAUSAL, {})[1],
                          run(kernel, arrays[0], broadcast.copy(), *arrays[2:], CAUSAL, {})[1])


@pytest.mark.parametrize("change, error, words", [
    (lambda q, k, v: (q.astype(complex), k.astype(complex), v.astype(complex)), TypeError, "q is complex128"),
    (lambda q, k, v: (q, k, v.astype(complex)), TypeError, "v is complex128"),
    (lambda q, k, v: (q.astype(np.float16), k.astype(np.float16), v.astype(np.float16)), TypeError, "float16"),
    (lambda q, k, v: (q.astype(np.float32), k, v), TypeError, "k is float64"),
    (lambda q, k, v: tuple(np.repeat(x, 40, axis=-1) for x in (q, k, v)), ValueError, "up to 256"),
    (lambda q, k, v: (q[:, :1], k, v), ValueError, "G=2"), (lambda q, k, v: (q, k[..., :4], v), ValueError, "D=8"),
    (lambda q, k, v: (q, k, v[:, :, :4]), ValueError, "S=70"), (lambda q, k, v: (q, k, [1.0]), TypeError, "v must be an array")])
def test_what_the_kernel_does_not_take(rng, change, error, words):
    with pytest.raises(error) as caught:
        kernel.scaled_dot_product_attention(*change(*random(rng)[:3]))
    assert words in str(caught.value)


@pytest.mark.parametrize("options, words", [
    (dict(scale=0.0), "scale=0.0"), (dict(scale=np.nan), "scale=nan"), (dict(softcap=-1.0), "softcap=-1.0"),
    (dict(slopes=np.ones(3)), "H=2"), (dict(bias=np.ones((2, 5))), "R=139"), (dict(dropout=1.0, seed=1), "dropout=1.0"),
    (dict(dropout=0.5, seed=-1), "seed=-1"), (dict(pattern=AttentionPattern(lengths=[71])), "S=70")])
@pytest.mark.parametrize("functions", [F, kernel], ids=["truth", "kernel"])
def test_bad_options(rng, functions, options, words):
    with pytest.raises(ValueError) as caught:
        functions.scaled_dot_product_attention(*random(rng)[:3], **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("change, error, words", [
    (lambda do: do[:, :, :10], ValueError, "T=70"), (lambda do: do[..., :4], ValueError, "D=8"), (lambda do: do[:, :1], ValueError, "H=2"),
    (lambda do: do.astype(np.float32), TypeError, "do is float32"), (lambda do: do.astype(complex), TypeError, "do is complex128"),
    (lambda do: do.astype(">f8"), TypeError, "do is >f8"), (lambda do: do.tolist(), TypeError, "do must be an array")])
def test_gradients_that_do_not_fit(rng, change, error, words):
    q, k, v, do = random(rng)
    _, saved = kernel.scaled_dot_product_attention(q, k, v)
    with pytest.raises(error) as caught:
        kernel.scaled_dot_product_attention_backward(change(do), saved)
    assert words in str(caught.value)


@pytest.mark.parametrize("tasks", [0, -1, 2.0, None])
def test_bad_numbers_of_tasks(rng, tasks):
    q, k, v, do = random(rng)
    with pytest.raises(ValueError, match="tasks="):
        kernel.scaled_dot_product_attention(q, k, v, tasks=tasks)
    with pytest.raises(ValueError, match="tasks="):
        kernel.scaled_dot_product_attention_backward(do, kernel.scaled_dot_product_attention(q, k, v)[1], tasks=tasks)


def test_log_sum_exp(rng):
    q, k, v, _ = random(rng)
    for pattern in (EVERYWHERE, AttentionPattern(causal=True, lengths=[30])):
        scores = np.where(pattern.dense(70, 70), q @ k.mT / np.sqrt(8), -np.inf)
        _, saved = kernel.scaled_dot_product_attention(q, k, v, pattern)
        np.testing.assert_allclose(kernel.log_sum_exp(saved), logsumexp(scores, axis=-1), rtol=1e-13)


def test_a_long_row_keeps_its_digits(rng):
    """200,000 keys: sums of 96 keys at a time, so that the last are not lost against all before."""
    q, k, v, do = random(rng, H=1, G=1, T=4, S=200_000, D=16, dtype=np.float32)
    truth = run(F, *(x.astype(float) for x in (q, k, v, do)), EVERYWHERE, {})
    for found, expected in zip(run(kernel, q, k, v, do, EVERYWHERE, {}), truth):
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_complex_arrays_go_to_the_truth(rng):
    q, k, v, _ = random(rng)
    bias = rng.standard_normal((2, 139)).astype(complex)
    assert backend.scaled_dot_product_attention(q, k, v, bias=bias)[1][0] is None
    assert backend.scaled_dot_product_attention(q, k, v, bias=bias.real.copy())[1][0] is kernel
    with pytest.raises(TypeError, match="bias is complex128"):
        kernel.scaled_dot_product_attention(q, k, v, bias=bias)
    with pytest.raises(TypeError, match="slopes"):
        backend.scaled_dot_product_attention(q, k, v, slopes=np.ones(2, complex))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", [0, 70, 149])
def test_a_row_that_may_attend_to_nothing(rng, dtype, row):
    """In the first, the middle and the last tile: o and dq are 0, lse is -Inf, and nothing flows to keys and values."""
    q, k, v, do = random(rng, T=150, S=150, dtype=dtype)
    mask = np.ones((150, 150), bool)
    mask[row] = False
    do[:, :, row] = np.nan                                            # whatever comes back to it
    o, saved = kernel.scaled_dot_product_attention(q, k, v, AttentionPattern(mask=mask))
    dq, dk, dv = kernel.scaled_dot_product_attention_backward(do, saved)
    lse = kernel.log_sum_exp(saved)
    assert (o[:, :, row] == 0).all() and (dq[:, :, row] == 0).all() and (lse[:, :, row] == -np.inf).all()
    assert np.isfinite(np.delete(lse, row, 2)).all() and np.isfinite(dk).all() and np.isfinite(dv).all()
    others = np.delete(np.arange(150), row)
    rest = run(F, q[:, :, others], k, v, do[:, :, others], EVERYWHERE, {})
    np.testing.assert_allclose(dk, rest[2], rtol=1e-3, atol=1e-4 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("pattern", [
    CAUSAL, AttentionPattern(window=(20, 5)), AttentionPattern(lengths=[100]), AttentionPattern(documents=[[0] * 100 + [1] * 50]),
    AttentionPattern(mask=np.tri(150, dtype=bool)), EVERYWHERE], ids=["causal", "window", "lengths", "documents", "mask", "everywhere"])
@pytest.mark.parametrize("options", [
    {}, dict(softcap=2.0), dict(dropout=0.3, seed=5), dict(bias=np.linspace(-1, 1, 598).reshape(2, 299), slopes=F.alibi_slopes(2))],
    ids=["plain", "soft cap", "dropout", "bias"])
def test_nan_and_inf_stay_where_they_are_seen(rng, value, pattern, options):
    """The kernel is not finite exactly where the truth is not, and elsewhere both are as if the value were not there."""
    for which in range(4):
        arrays = random(rng, T=150, S=150)
        clean = [x.copy() for x in arrays]
        arrays[which][0, 1, 120, 3] = value
        truth, found = run(F, *arrays, pattern, options), run(kernel, *arrays, pattern, options)
        truth_before, before = run(F, *clean, pattern, options), run(kernel, *clean, pattern, options)
        for name, x, y, z, w in zip(("o", "dq", "dk", "dv", "dbias"), found, truth, before, truth_before):
            assert np.array_equal(np.isfinite(x), np.isfinite(y)), (which, name)
            finite = np.isfinite(y)
            np.testing.assert_allclose(x[finite], y[finite], rtol=1e-9, atol=1e-12)
            same = y == w                                             # what the truth leaves untouched to the bit
            np.testing.assert_allclose(x[same], z[same], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_of_minus_infinity(rng, dtype):
    """Attended keys of -Inf: weight 0 beside others; a query that sees nothing else gets NaN, as the truth has it."""
    q, k, v, do = random(rng, H=1, G=1, T=80, S=80, dtype=dtype)
    q[...] = np.abs(q)
    k[0, 0, 40:] = -np.inf
    for pattern in (EVERYWHERE, AttentionPattern(window=(0, 0))):
        with np.errstate(invalid="ignore"):
            truth, _ = F.scaled_dot_product_attention(q, k, v, pattern)
        found, saved = kernel.scaled_dot_product_attention(q, k, v, pattern)
        assert np.array_equal(np.isnan(found), np.isnan(truth))
        assert np.array_equal(np.isnan(kernel.log_sum_exp(saved)), np.isnan(truth[..., 0]))
        np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-6)
    assert np.isnan(found[0, 0, 40:]).all() and np.isfinite(found[0, 0, :40]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_of_ten_thousand(rng, dtype):
    """Rounding a logit of 1e4 changes its weight by a part in 1600 in float32: finite, and as good as NumPy at that precision.

    Most queries see one key alone here. NumPy's ds is then exactly 0, the kernel's the rounding of dp - delta.
    """
    q, k, v, do = random(rng, T=130, S=130, dtype=np.float32)
    q *= 100
    k *= 100
    assert 1e4 < np.abs(q @ k.mT).max() / np.sqrt(8) < 1e5
    truth = run(F, *(x.astype(np.longdouble) for x in (q, k, v, do)), EVERYWHERE, {})
    arrays = [x.astype(dtype) for x in (q, k, v, do)]
    for found, numpy, y in zip(run(kernel, *arrays, EVERYWHERE, {}), run(F, *arrays, EVERYWHERE, {}), truth):
        assert np.isfinite(found).all()
        assert np.abs(found - y).max() <= 2 * np.abs(numpy - y).max() + 10 * np.finfo(dtype).eps * np.abs(k).max()


@pytest.mark.parametrize("shape", [(1, 1, 200, 200, 1), (2, 4, 150, 131, 2), (1, 3, 300, 300, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [False, True])
def test_bits_do_not_depend_on_the_number_of_threads(rng, shape, dtype, bias):
    """One key-value head and fewer heads than threads among them, where tasks share a head."""
    B, H, T, S, G = shape
    arrays = random(rng, B, H, T, S, G, D=16, dtype=dtype)
    options = dict(slopes=F.alibi_slopes(H), dropout=0.1, seed=3, bias=rng.standard_normal((H, T + S - 1)).astype(dtype) if bias else None)
    pattern = AttentionPattern(causal=True, lengths=rng.integers(S // 2, S + 1, B)) if bias else CAUSAL
    twins.WORTH_A_THREAD, usual = 0, twins.WORTH_A_THREAD
    try:
        results = []
        for threads in (1, 2, 4) * 34:
            with backend.threads(threads):
                o, (compiled, saved) = backend.scaled_dot_product_attention(*arrays[:3], pattern, **options)
                results.append((o, saved[4], saved[5], *backend.scaled_dot_product_attention_backward(arrays[3], (compiled, saved))))
            assert all(x.tobytes() == y.tobytes() for x, y in zip(results[0], results.pop() if len(results) > 1 else results[0]))
        truth = run(F, *arrays, pattern, options)
        for found, expected in zip([results[0][0], *results[0][3:]], truth):
            np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-5)
    finally:
        twins.WORTH_A_THREAD = usual


def test_eight_python_threads_at_once(rng):
    """A thousand calls from eight threads, each of which may use the pool: all results are right."""
    cases = [(random(rng, T=T, S=T, D=8, dtype=np.float32), pattern) for T in (33, 64, 100) for pattern in (CAUSAL, EVERYWHERE)]
    truths = [run(kernel, *arrays, pattern, {}) for arrays, pattern in cases]
    wrong, calls = [], iter(range(1000))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                call = next(calls, None)
            if call is None:
                return
            arrays, pattern = cases[call % len(cases)]
            found = run(backend, *arrays, pattern, {})
            if not all(np.array_equal(x, y) for x, y in zip(found, truths[call % len(cases)])):
                wrong.append(call)

    twins.WORTH_A_THREAD, usual = 0, twins.WORTH_A_THREAD
    try:
        with backend.threads(2):
            workers = [threading.Thread(target=work) for _ in range(8)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
    finally:
        twins.WORTH_A_THREAD = usual
    assert not wrong and next(calls, None) is None


def test_no_unsafe_arithmetic_in_the_compiled_code():
    """`nnan` and `ninf` let LLVM assume that there is no NaN and no Inf; `fast` has both."""
    pages = [import_module(f"numformer.kernels.{page}") for page in {*backend.TWINS.values(), "attention", "token_step"}]
    functions = {id(found): found for page in pages for found in vars(page).values() if isinstance(found, Kernel)}
    assert len(functions) >= 20
    for function in functions.values():
        text = "\n".join(function.compile(np.float32, cached=False).inspect_llvm().values())
        arithmetic = [line for line in text.split("\n") if re.search(r"= (f(mul|add|sub|div|cmp|neg)|call .*@llvm\.f)", line)]
        assert arithmetic or function.function.__name__ == "add_gradient", "which is BLAS's alone"
        assert not [line for line in arithmetic if re.search(r"\b(nnan|ninf|fast|afn)\b", line)]
        if function in (kernel.FORWARD, kernel.BACKWARD):
            assert len(arithmetic) > 100 and any("contract" in line for line in arithmetic)


def test_memory_is_linear_in_the_length(rng):
    """At T = 65,536 the weights alone would take 16 GiB; beyond inputs and outputs the kernel takes a row or two and its tiles."""
    T = 65536
    q, k, v, do = random(rng, H=1, T=T, S=T, G=1, D=64, dtype=np.float32)
    pattern = AttentionPattern(causal=True, window=(128, 0))          # the memory is that of any pattern, the time is not
    run(kernel, q[:, :, :64], k[:, :, :64], v[:, :, :64], do[:, :, :64], pattern, {})
    tracemalloc.start()
    o, saved = kernel.scaled_dot_product_attention(q, k, v, pattern)
    forward = tracemalloc.get_traced_memory()[1] - o.nbytes
    tracemalloc.reset_peak()
    start = tracemalloc.get_traced_memory()[0]
    gradients = kernel.scaled_dot_product_attention_backward(do, saved)
    backward = tracemalloc.get_traced_memory()[1] - start - sum(x.nbytes for x in gradients)
    tracemalloc.stop()
    rows = T * 4 * 4                                                  # m, l, and the two borders of the interval
    room = 12 * (128 * 96 + 80) * 4                                   # eleven tiles, and one more for what aligns them
    assert forward <= 1.1 * (2 * rows + room), "the borders take their size again while they are made"
    assert backward <= 1.1 * room


def test_the_layer_uses_the_kernel_and_the_truth_on_request(rng):
    layer = MultiHeadAttention(32, 4, rng, dropout=0.2)
    x = rng.standard_normal((2, 70, 32)).astype(np.float32)
    y, saved = layer.forward(x, pattern=CAUSAL, rng=np.random.default_rng(1))
    backend.use("numpy")
    try:
        truth, saved_truth = layer.forward(x, pattern=CAUSAL, rng=np.random.default_rng(1))
        assert saved_truth[4][1][0] is None and saved[4][1][0] is kernel
        np.testing.assert_allclose(y, truth, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(layer.backward(truth, saved), layer.backward(truth, saved_truth), rtol=1e-3, atol=1e-5)
    finally:
        backend.use("numba")
    assert layer.forward(x.astype(np.complex64))[1][4][1][0] is None
    with pytest.raises(ValueError, match="twin='fortran'"):
        backend.use("fortran")
