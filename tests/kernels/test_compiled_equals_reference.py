"""Compiled functions equal the NumPy reference: values, gradients, strides. Attention is apart."""

import numpy as np
import pytest

from compiled_pairs import PAIR_NAMES, arguments, cast, run
from numformer import backend
from numformer import functional as F

numba = pytest.importorskip("numba")
SHAPES = [(1,), (7,), (1, 1), (3, 2), (5, 17)]
if not numba.config.DISABLE_JIT:
    SHAPES += [(5, 64), (2, 3, 65), (2, 2, 4, 127), (96, 128)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", PAIR_NAMES)
def test_compiled_equals_reference(name, shape, rng):
    """In float64 up to rounding; in float32 with errors like those of NumPy in float32."""
    if name == "cross_entropy" and len(shape) == 1:
        shape = (1, *shape)
    for _ in range(3):
        given, options = arguments(name, shape, rng)
        single = cast(given, np.float32)
        reference = run(F, name, cast(single, np.float64), options)
        double = run(backend, name, cast(single, np.float64), options)
        compiled, in_numpy = run(backend, name, single, options), run(F, name, single, options)
        for x64, x32, numpy32, true in zip(double, compiled, in_numpy, reference, strict=True):
            if true is None:
                assert x64 is None and x32 is None
                continue
            size = max(1, np.abs(true).max())
            assert x64.dtype == np.float64 and x32.dtype == np.float32
            assert np.shape(x32) == np.shape(true)
            assert np.abs(x64 - true).max() <= 1e-13 * size, (given, options)
            allowed = 2 * np.abs(numpy32 - true).max() + 16 * np.spacing(np.float32(size))
            assert np.abs(x32 - true).max() <= allowed, (given, options)


# BLAS gets transposed weights as they are, and it may add in another order
PRODUCTS = "linear", "feed_forward", "gated_feed_forward", "head_projections"


@pytest.mark.parametrize("name", [name for name in PAIR_NAMES if name not in PRODUCTS])
def test_strides_change_no_bit_and_arguments_are_not_written(name, rng):
    """Arrays with gaps, reversed or transposed."""
    given, options = arguments(name, (4, 6, 8), rng)
    contiguous = run(backend, name, given, options)
    for change in (lambda x: np.repeat(x, 2, axis=-1)[..., ::2], lambda x: x[::-1].copy()[::-1],
                   np.asfortranarray):
        others = [change(x) if isinstance(x, np.ndarray) and x.ndim > 1 else x for x in given]
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in others]
        for x, y in zip(run(backend, name, others, options), contiguous, strict=True):
            assert x is y is None or np.array_equal(x, y)
        assert all(np.array_equal(x, y) for x, y in zip(others, copies)
                   if isinstance(x, np.ndarray))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_masks_are_equal_to_the_bit(dtype, rng):
    for shape in [(), (5,), (3, 70), (2, 3, 33)]:
        x = np.asarray(1 + rng.random(shape), dtype)
        for rate in (0.1, 0.5, 0.999):
            (y, dx), (true, dtrue) = (run(functions, "dropout", [x, rate, "rng"], {})
                                      for functions in (backend, F))
            assert np.array_equal(y == 0, true == 0) and np.array_equal(dx == 0, dtrue == 0)
            compiled, reference = (run(functions, "residual_dropout", [x, x, rate, "rng"], {})
                                   for functions in (backend, F))
            for a, b in zip(compiled, reference):
                np.testing.assert_allclose(a, b, rtol=1e-6)


def test_adam_steps_are_equal_to_the_bit(rng):
    for dtype in (np.float32, np.float64):
        for shape in ((1,), (37,), (5, 9), (64, 128)):
            arrays = rng.standard_normal((3, *shape)).astype(dtype)
            arrays = [*arrays, (arrays[2] ** 2).copy()]
            compiled, reference = ([x.copy() for x in arrays] for _ in range(2))
            for steps in (1, 2, 1000):
                more = dict(learning_rate=0.01, steps=steps, beta1=0.8, beta2=0.99, epsilon=1e-7,
                            weight_decay=0.1, grad_scale=0.3)
                backend.adam_step(*compiled, **more)
                F.adam_step(*reference, **more)
            assert all(np.array_equal(x, y) for x, y in zip(compiled, reference))
            assert not np.array_equal(compiled[0], arrays[0])
    transposed = [np.asfortranarray(x) for x in (rng.standard_normal((4, 3, 5)) ** 2)]
    reference = [x.copy() for x in transposed]
    backend.adam_step(*transposed, 0.1, 3)
    F.adam_step(*reference, 0.1, 3)
    assert all(np.array_equal(x, y) for x, y in zip(transposed, reference))


def test_sums_of_squares_are_taken_in_float64(rng):
    for dtype in (np.float32, np.float64):
        for shape in ((1,), (1000,), (64, 65)):
            x = (1e3 * rng.standard_normal(shape)).astype(dtype)
            assert abs(backend.sums_of_squares([x])[0] / F.sums_of_squares([x])[0] - 1) < 1e-14
    assert backend.sums_of_squares([np.full(100, 1e30, np.float32)])[0] == pytest.approx(1e62)
    assert np.isnan(backend.sums_of_squares([np.array([np.nan, 1.0])])[0])
    assert backend.sums_of_squares([np.array([-np.inf])])[0] == np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_gradients_are_accumulated_in_place(dtype, rng):
    """By rows, and by columns as in an LM head; also where memory has gaps."""
    x, dy, bias = (rng.standard_normal(shape).astype(dtype)
                   for shape in ((3, 5, 4), (3, 5, 6), (6,)))
    weight = rng.standard_normal((4, 6)).astype(dtype)
    before = rng.standard_normal((4, 6)).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for layout in (np.ascontiguousarray, np.asfortranarray,
                   lambda x: np.repeat(x, 2, axis=1)[:, ::2]):
        for functions in (F, backend):
            total = layout(before.copy())
            bias_total = bias.copy()
            _, saved = functions.linear(x, weight, bias)
            expected_dx, dweight, dbias = functions.linear_backward(dy, saved)
            dx = functions.linear_backward_accumulate(dy, saved, total, bias_total)
            assert np.array_equal(dx, expected_dx) and np.array_equal(bias_total, bias + dbias)
            expected = np.tensordot(x, dy, ([0, 1], [0, 1]))
            np.testing.assert_allclose(dweight, expected, rtol=tolerance)
            np.testing.assert_allclose(total, before + dweight, rtol=tolerance)
