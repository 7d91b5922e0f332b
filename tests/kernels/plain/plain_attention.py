"""The attention kernel as plain Python equals the reference, and splits its work as promised."""

import math

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer import functional as F
from numformer.functional import AttentionPattern
from numformer.kernels.attention import flash
from numformer.specifications.attention.random_cases import run


def case(seed):
    """Like `attention_case`, but small."""
    rng = np.random.default_rng(seed)
    B, G, groups = (int(n) for n in rng.integers(1, 3, 3))
    T, S, D = int(rng.integers(1, 21)), int(rng.integers(1, 14)), int(rng.choice([1, 3, 9]))
    kind = seed % 9
    if kind == 2:
        T, S = min(T, S), max(T, S)
    H, pattern, options = G * groups, {}, {}
    if rng.random() < 0.5:
        pattern["causal"] = True
    if kind == 1:
        pattern["lengths"] = rng.integers(0, S + 1, B)
    if kind == 2:
        pattern["documents"] = np.sort(rng.integers(0, 3, (B, S)), axis=1)
    if kind == 3:
        pattern["mask"] = rng.random((B, int(rng.choice([1, H])), T, S)) < 0.6
    if kind == 4 or kind == 6 and rng.random() < 0.5:
        pattern["window"] = int(rng.integers(4)), int(rng.integers(4))
    if kind == 5:
        options["bias"] = rng.standard_normal((H, T + S - 1))
    if kind == 6:
        options.update(softcap=1.5, slopes=F.alibi_slopes(H))
    if kind == 7:
        options.update(dropout=0.4, seed=int(rng.integers(2**64, dtype=np.uint64)))
    if kind == 8:
        pattern["mask"] = rng.random((T, S)) < 0.6
    shapes = (B, H, T, D), (B, G, S, D), (B, G, S, D), (B, H, T, D)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    if seed % 2:                        # attended by some queries, hidden from others
        for x in arrays[1:3] if seed % 4 == 3 else arrays[::3]:
            x[..., -1 if seed % 4 == 3 else 0, 0] = (np.nan, np.inf, -np.inf)[seed % 3]
    return arrays, AttentionPattern(**pattern), options


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("seed", range(72))
def test_plain_kernel_equals_reference(seed, tasks):
    (q, k, v, do), pattern, options = case(seed)
    reference = run(F, q, k, v, do, pattern, options)
    double = run(flash, q, k, v, do, pattern, options, tasks=tasks)
    assert len(double) == len(reference)
    for name, x, y in zip(("o", "dq", "dk", "dv", "dbias"), double, reference):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12,
                                   err_msg=f"{name} of {seed}: {pattern} {options}")
    in_float32 = {key: x.astype(np.float32) if key == "bias" else x for key, x in options.items()}
    single = run(flash, *(x.astype(np.float32) for x in (q, k, v, do)), pattern, in_float32,
                 tasks=tasks)
    for x, y in zip(single, reference):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [
    dict(dropout=0.4, seed=5, softcap=0.5), dict(dropout=0.4), dict(dropout=2.0**-32, seed=3),
    dict(softcap=0.5)], ids=str)
@pytest.mark.parametrize("hidden", [False, True])
def test_options_equal_reference_also_where_nan_is_hidden(options, hidden, rng):
    """A cap with dropout; a rate without a seed; the smallest rate; a cap over hidden NaN."""
    T, S = 11, 8
    q, do = rng.standard_normal((2, 1, 2, T, 3))
    k, v = rng.standard_normal((2, 1, 1, S, 3))
    mask = np.ones((T, S), bool)
    if hidden:
        mask[:, 2] = False
        k[..., 2, :] = v[..., 2, :] = np.nan
    compiled, reference = (run(functions, q, k, v, do, AttentionPattern(mask=mask), options)
                           for functions in (flash, F))
    assert hidden or np.isfinite(reference[0]).all()
    for x, y in zip(compiled, reference):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_a_bias_of_one_number_has_a_gradient(rng):
    q, k, v, do = rng.standard_normal((4, 1, 1, 1, 2))
    found = run(flash, q, k, v, do, AttentionPattern(), dict(bias=np.array([[0.7]])))
    assert len(found) == 5 and found[4].tolist() == [[0]]


def test_rows_without_keys_give_zero_and_logits_of_minus_infinity_nan():
    q, k, v = np.ones((3, 1, 1, 5, 2))
    k = k.copy()
    k[0, 0, 1:, 0] = -np.inf
    o, saved = flash.scaled_dot_product_attention(q, k, v, AttentionPattern(lengths=[0]))
    assert (o == 0).all() and (flash.log_sum_exp(saved) == -np.inf).all()
    o, saved = flash.scaled_dot_product_attention(q, k, v, AttentionPattern(window=(1, 0)))
    assert (o[0, 0, :2] == 1).all() and np.isnan(o[0, 0, 2:]).all()


@pytest.mark.parametrize("tasks", [None, 1, 2, 3, 5])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("T, S", [(1, 1), (9, 6), (10, 7), (30, 13)])
def test_work_is_split_into_blocks_of_queries_and_key_value_heads(
        tasks, with_bias, T, S, rng, monkeypatch):
    """Blocks of 9 queries forward; backward key-value heads, or parts of them for more tasks."""
    B, H, G, D = 1, 4, 2, 3
    q, k, v = (rng.standard_normal(shape) for shape in ((B, H, T, D), (B, G, S, D), (B, G, S, D)))
    given, done = {}, []
    for name in ("FORWARD", "BACKWARD"):
        kernel = getattr(flash, name)

        def recorded(*numbers, name=name, function=kernel.function):
            given[name] = dict(zip(function.__code__.co_varnames, numbers))
            return function(*numbers)

        monkeypatch.setattr(flash, name, {q.dtype: recorded})

    def run_all(function, numbers):
        done.append([function(task) for task in numbers])

    more = dict(run=run_all) | (dict(tasks=tasks) if tasks else {})
    bias = rng.standard_normal((H, T + S - 1)) if with_bias else None
    o, saved = flash.scaled_dot_product_attention(q, k, v, bias=bias, **more)
    gradients = flash.scaled_dot_product_attention_backward(o, saved, **more)
    tasks = tasks or 1
    assert done == 2 * [tasks * [True]] and len(gradients) == 3 + with_bias
    assert len(given["FORWARD"]["queue"]) == B * H * math.ceil(T / 9) + 1
    parts = [(0, T, 0, S, 1, 1)]
    if tasks > B * G and not with_bias:
        parts = [(t0, t1, 0, S, 1, 0) for t0, t1 in flash.ranges(T, 9, tasks)]
        parts += [(0, T, s0, s1, 0, 1) for s0, s1 in flash.ranges(S, 6, tasks)]
    assert given["BACKWARD"]["parts"].tolist() == [list(part) for part in parts]
    assert len(given["BACKWARD"]["queue"]) == len(parts) * B * G + 1
