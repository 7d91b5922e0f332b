"""The kernels as plain Python: their own loops, without Numba, on small arrays. For the mutation run (tests/mutate.py).

What is no Python, addresses and atomic steps, has a stand-in here of the same meaning; tiles are small, so that ragged ones are
met at once. Once they are in place, `test_twins.py` runs on plain Python too.
Run it by itself: NUMBA_DISABLE_JIT=1 python -m pytest tests/plain_parts.py tests/plain_kernels.py tests/test_twins.py
"""

import ctypes
import os

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import AttentionPattern
from numformer.verify.attention_cases import run

if os.environ.get("NUMBA_DISABLE_JIT") != "1":                        # Numba reads it when it is imported
    pytest.skip("needs NUMBA_DISABLE_JIT=1", allow_module_level=True)
from numformer.kernels import (  # noqa: E402
    activations, adam, arithmetic, attention, cross_entropy, dropout, embedding, linear, memory, normalization, positions, sharing,
    tiles, token_step)


def product(factor, a, b, c, add):
    c[...] = factor * (a @ b) + (c if add else 0)


def turn_block(x, i, d, xt):
    xt[d:d + 8, i:i + 8] = x[i:i + 8, d:d + 8].T


def carve(room, n, rows, columns):
    return room[n].reshape(-1)[:rows * columns].reshape(rows, columns) if rows * columns <= room[n].size else room.reshape(rows, columns)


def exchange(ledger, n, value):
    before, ledger[n] = ledger[n], value
    return before


def add(ledger, n, value):
    ledger[n] += value
    return ledger[n] - value


def matrix_at(place, rows, columns, stride, like):
    if rows * columns == 0:
        return np.zeros((rows, columns), like.dtype)
    memory = (ctypes.c_char * (((rows - 1) * stride + columns) * like.itemsize)).from_address(int(place))
    return np.ndarray((rows, columns), like.dtype, memory, strides=(stride * like.itemsize, like.itemsize))


STAND_INS = {
    "borrow": lambda x: x, "row": lambda x, i: x[i], "carve": carve, "turn_block": turn_block, "_exchange": exchange, "_add": add,
    "product": product, "matrix_at": matrix_at,
    "gemm": lambda a, b, c, add: product(1, a, b, c, add), "exp": lambda x: arithmetic._exp32(x) if x.dtype == np.float32 else np.exp(x),
    "tanh": lambda x: arithmetic._tanh32(x) if x.dtype == np.float32 else np.tanh(x),
    "normal_below": lambda x: activations._normal_below32(x) if x.dtype == np.float32 else activations._normal_below64(x),
    "tile_size": lambda T, S, D: (9, 6), "LOOKS": 3, "LOOKS_MORE": 2}
MODULES = (activations, adam, arithmetic, attention, cross_entropy, dropout, embedding, linear, memory, normalization, positions, sharing,
           tiles, token_step)
for module in MODULES:
    for name, stand_in in STAND_INS.items():
        if hasattr(module, name) and not (module is arithmetic and name in ("product", "gemm")):     # plain_parts.py has a BLAS for them
            setattr(module, name, stand_in)


def case(seed):
    """Like `attention_case`, but small."""
    rng = np.random.default_rng(seed)
    B, G, groups = (int(n) for n in rng.integers(1, 3, 3))
    T, S, D = int(rng.integers(1, 21)), int(rng.integers(1, 14)), int(rng.choice([1, 3, 9]))
    kind = seed % 9
    if kind == 2:
        T, S = min(T, S), max(T, S)
    H, rules, options = G * groups, {}, {}
    if rng.random() < 0.5:
        rules["causal"] = True
    if kind == 1:
        rules["lengths"] = rng.integers(0, S + 1, B)
    if kind == 2:
        rules["documents"] = np.sort(rng.integers(0, 3, (B, S)), axis=1)
    if kind == 3:
        rules["mask"] = rng.random((B, int(rng.choice([1, H])), T, S)) < 0.6
    if kind == 4 or kind == 6 and rng.random() < 0.5:
        rules["window"] = int(rng.integers(4)), int(rng.integers(4))
    if kind == 5:
        options["bias"] = rng.standard_normal((H, T + S - 1))
    if kind == 6:
        options.update(softcap=1.5, slopes=F.alibi_slopes(H))
    if kind == 7:
        options.update(dropout=0.4, seed=int(rng.integers(2**64, dtype=np.uint64)))
    if kind == 8:
        rules["mask"] = rng.random((T, S)) < 0.6
    arrays = [rng.standard_normal(shape) for shape in ((B, H, T, D), (B, G, S, D), (B, G, S, D), (B, H, T, D))]
    if seed % 2:                                                      # attended by some, hidden from others
        for x in arrays[1:3] if seed % 4 == 3 else arrays[::3]:
            x[..., -1 if seed % 4 == 3 else 0, 0] = (np.nan, np.inf, -np.inf)[seed % 3]
    return arrays, AttentionPattern(**rules), options


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("seed", range(72))
def test_plain_kernels_equal_the_truth(seed, tasks):
    (q, k, v, do), pattern, options = case(seed)
    truth = run(F, q, k, v, do, pattern, options)
    found = run(attention, q, k, v, do, pattern, options, tasks=tasks)
    assert len(found) == len(truth)
    for name, x, y in zip(("o", "dq", "dk", "dv", "dbias"), found, truth):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12, err_msg=f"{name} of {seed}: {pattern} {options}")
    single = run(attention, *(x.astype(np.float32) for x in (q, k, v, do)), pattern,
                 {key: x.astype(np.float32) if key == "bias" else x for key, x in options.items()}, tasks=tasks)
    for x, y in zip(single, truth):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [
    dict(dropout=0.4, seed=5, softcap=0.5), dict(dropout=0.4), dict(dropout=2.0**-32, seed=3), dict(softcap=0.5)], ids=str)
@pytest.mark.parametrize("hidden", [False, True])
def test_options_together(options, hidden, rng):
    """A cap and dropout; a rate without a seed; a rate of one hash in all; NaN that nobody may see, under a cap."""
    T, S = 11, 8
    q, do = rng.standard_normal((2, 1, 2, T, 3))
    k, v = rng.standard_normal((2, 1, 1, S, 3))
    mask = np.ones((T, S), bool)
    if hidden:
        mask[:, 2] = False
        k[..., 2, :] = v[..., 2, :] = np.nan
    truth = run(F, q, k, v, do, AttentionPattern(mask=mask), options)
    assert hidden or np.isfinite(truth[0]).all()
    for x, y in zip(run(attention, q, k, v, do, AttentionPattern(mask=mask), options), truth):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_a_bias_of_one_number_has_a_gradient_too(rng):
    q, k, v, do = rng.standard_normal((4, 1, 1, 1, 2))
    found = run(attention, q, k, v, do, AttentionPattern(), dict(bias=np.array([[0.7]])))
    assert len(found) == 5 and found[4].tolist() == [[0]]


def test_rows_that_see_nothing_and_logits_of_minus_infinity():
    q, k, v = np.ones((3, 1, 1, 5, 2))
    k = k.copy()
    k[0, 0, 1:, 0] = -np.inf
    o, saved = attention.scaled_dot_product_attention(q, k, v, AttentionPattern(lengths=[0]))
    assert (o == 0).all() and (attention.log_sum_exp(saved) == -np.inf).all()
    o, saved = attention.scaled_dot_product_attention(q, k, v, AttentionPattern(window=(1, 0)))
    assert (o[0, 0, :2] == 1).all() and np.isnan(o[0, 0, 2:]).all()


def test_sharing():
    ledger = sharing.new_ledger(3)
    assert [sharing.turn_of(turn, 3, 1, 2) for turn in range(3)] == [1, 2, 0]
    assert sharing.take(ledger, 1) and not sharing.take(ledger, 1) and sharing.take(ledger, 0)
    sharing.finish(ledger)
    assert not sharing.all_finished(ledger, 0) and not sharing.all_finished(ledger, 1) and ledger.tolist() == [1, 1, 0, 1]
    sharing.finish(ledger)
    sharing.finish(ledger)
    assert sharing.all_finished(ledger, 0) and sharing.all_finished(ledger, 1)


def test_functions_that_vectorize():
    """To 2 ulp of float32, where they are used: exp below 0, tanh everywhere."""
    with np.errstate(over="ignore", invalid="ignore"):
        for x in np.concatenate([np.linspace(-86, 0, 4000), [-0.0, -1e-10, -1e-30]]).astype(np.float32):
            true = np.exp(np.float64(x))
            assert abs(arithmetic._exp32(x) - true) <= 2 * np.spacing(np.float32(true)), x
        assert [arithmetic._exp32(np.float32(x)) for x in (-86.1, -200, -np.inf)] == [0, 0, 0]
        assert np.isnan(arithmetic._exp32(np.float32(np.nan)))
        for x in np.concatenate([np.linspace(-12, 12, 4001), [0.0, -0.0, 1e-10, 0.624999, 0.625, 0.62501, 50, -50]]).astype(np.float32):
            true = np.tanh(np.float64(x))
            assert abs(arithmetic._tanh32(x) - true) <= 2 * np.spacing(np.float32(abs(true))), x
            assert np.sign(arithmetic._tanh32(x)) == np.sign(x)


@pytest.mark.parametrize("I, D", [(1, 1), (7, 9), (8, 8), (9, 17), (16, 8), (3, 16), (24, 10)])
def test_moving_numbers(I, D):
    x = np.arange(I * D).reshape(I, D) + 0.5
    xt, y = np.zeros((D, I)), np.ones((I, D))
    memory.transpose(x, xt)
    memory.copy(x, y)
    assert (xt == x.T).all() and (y == x).all()
    memory.clear(y)
    assert (y == 0).all()


def test_all_finite():
    x = np.ones((3, 4))
    assert arithmetic.all_finite(x)
    for value in (np.nan, np.inf, -np.inf):
        for place in ((0, 0), (1, 2), (2, 3)):
            y = x.copy()
            y[place] = value
            assert not arithmetic.all_finite(y)
