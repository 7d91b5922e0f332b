"""NaN, infinities, inactive ReLUs and far tails in compiled functions, and what they refuse."""

import numpy as np
import pytest

from compiled_pairs import cast, run
from numformer import backend
from numformer import functional as F

pytest.importorskip("numba")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")           # NumPy warns, a kernel does not
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["relu", "relu_squared", "gelu", "gelu_tanh", "silu", "swish",
                                  "quick_gelu", "layer_norm", "layer_norm_outside", "rms_norm",
                                  "rms_norm_outside"])
def test_nan_and_inf_come_out_where_they_do_in_numpy(name, dtype):
    """And nowhere else; far from zero, values are those of float64."""
    rows = np.array([[0.5, np.nan, 1.0], [np.inf, 1.0, 2.0], [1.0, -np.inf, -1.0],
                     [1e3, -1e3, 30.0], [-30.0, 9.0, -9.0], [0.0, -0.0, 1e-30]], dtype)
    given = (rows, np.ones(3, dtype), np.zeros(3, dtype))
    given = given if "layer_norm" in name else given[:2] if "rms_norm" in name else given[:1]
    y, true = (run(functions, name, given, {})[0] for functions in (backend, F))
    assert np.array_equal(np.isfinite(y), np.isfinite(true)), (y, true)
    assert np.array_equal(np.isnan(y), np.isnan(true)), (y, true)
    finite = np.isfinite(true)
    double = run(F, name, cast(given, np.float64), {})[0]
    np.testing.assert_allclose(y[finite], double[finite],
                               rtol=2e-5 if dtype == np.float32 else 1e-12,
                               atol=1e-6 if dtype == np.float32 else 1e-15)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["residual_layer_norm", "residual_rms_norm"])
def test_nan_and_inf_in_a_residual_sum_are_those_of_its_parts(name, dtype):
    x = np.array([[0.5, np.nan, 1.0], [np.inf, 1.0, 2.0], [1.0, 2.0, -1.0]], dtype)
    branch = np.array([[1.0, 1.0, 1.0], [-np.inf, 1.0, 2.0], [1.0, -np.inf, -1.0]], dtype)
    given = (x, branch, np.ones(3, dtype), np.zeros(3, dtype))[:4 if "layer" in name else 3]
    for found, true in zip(*(run(functions, name, given, {}) for functions in (backend, F))):
        assert np.array_equal(np.isnan(found), np.isnan(true)), (found, true)
        assert np.array_equal(np.isinf(found), np.isinf(true)), (found, true)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inactive_relus_have_gradient_zero_even_if_dy_is_nan_or_inf(dtype):
    dy = np.array([np.inf, np.nan, 1.0], dtype)
    x = np.array([-1.0, 0.0, 2.0], dtype)
    for name, expected in (("relu", [0, 0, 1]), ("relu_squared", [0, 0, 4])):
        assert run(backend, name, [x], {}, dy)[1].tolist() == expected
    for activation, expected in (("relu", [0, 0, 3]), ("relu_squared", [0, 0, 12])):
        given = [x, np.full(3, 3, dtype), activation]
        assert run(backend, "gated_linear_unit", given, {}, dy)[1].tolist() == expected


def test_gelu_is_good_to_four_ulp():
    """In float32, on all scales: in the tail, where it is linear, and between."""
    small = np.geomspace(1e-30, 12, 2000)
    x = np.concatenate([np.linspace(-12.9, 12.9, 20001), small, -small]).astype(np.float32)
    y, dx = run(backend, "gelu", [x], {}, np.ones_like(x))
    true, slope = run(F, "gelu", [x.astype(float)], {}, np.ones(x.shape))
    assert (np.abs(y - true) <= 8 * np.spacing(np.abs(true).astype(np.float32))).all()
    assert np.abs(dx - slope).max() < 5e-7
    y, dx = run(backend, "gelu_tanh", [x], {}, np.ones_like(x))
    true, slope = run(F, "gelu_tanh", [x.astype(float)], {}, np.ones(x.shape))
    assert np.abs(y - true).max() < 1e-6 and np.abs(dx - slope).max() < 1e-6


X = np.random.default_rng(1234).standard_normal((2, 3))
BAD_CALLS = [
    ("layer_norm", (X, np.ones(4), np.ones(4))),
    ("layer_norm", (X, np.ones(3, np.float32), np.ones(3, np.float32))),
    ("rms_norm", (X, np.ones(3), -1.0)), ("gelu", ([1.0],)),
    ("cross_entropy", (X, np.array([0, 3]))), ("cross_entropy", (X, np.array([-100, -100]))),
    ("gated_linear_unit", (X, X[:1])), ("gated_linear_unit", (X, X, "elu")),
    ("dropout", (X, 1.0)), ("residual_dropout", (X, X[0], 0.1)),
    ("residual_layer_norm", (X, X[0], np.ones(3), np.ones(3))),
    ("residual_layer_norm", (X, X, np.ones(3), np.ones(4))),
    ("residual_rms_norm", (X, X, np.ones(4))), ("residual_rms_norm", (X, X, np.ones(3), 0.1, 1.0)),
    ("rotary", (X, np.ones((2, 1)), np.ones((2, 1)))),
    ("rotary", (X[:, :2], np.ones((2, 1)), np.ones((2, 2)))), ("embedding", (np.array([5]), X))]


@pytest.mark.parametrize("name, given", BAD_CALLS, ids=[name for name, _ in BAD_CALLS])
def test_compiled_functions_refuse_the_same_arguments_in_the_same_words(name, given):
    with pytest.raises((ValueError, TypeError)) as reference:
        getattr(F, name)(*given)
    with pytest.raises(reference.type) as compiled:
        getattr(backend, name)(*given)
    assert str(compiled.value) == str(reference.value)


def test_a_gradient_of_another_precision_is_refused():
    _, saved = backend.gelu(X)
    with pytest.raises(TypeError, match="gelu_backward: dy is float32"):
        backend.gelu_backward(X.astype(np.float32), saved)
