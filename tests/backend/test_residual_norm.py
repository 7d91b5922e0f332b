"""A residual sum and its norm in one function: equal to the two, what is added to, what is shared.

With C = 150 and N = 37, sums have a remainder in every vector register.
"""

import numpy as np
import pytest

from numformer import backend
from numformer import functional as F

KINDS = [("residual_layer_norm", "layer_norm", 2), ("residual_rms_norm", "rms_norm", 1)]


def arrays(rng, dtype, n_parameters):
    x, branch, dtotal, dnormed = rng.standard_normal((4, 37, 150)).astype(dtype)
    return x, branch, dtotal, dnormed, list(rng.standard_normal((n_parameters, 150)).astype(dtype))


@pytest.mark.parametrize("functions", [F, backend], ids=["reference", "compiled"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("name, norm, n_parameters", KINDS)
def test_sum_and_norm_are_those_of_the_two_functions(functions, rate, name, norm, n_parameters,
                                                     rng):
    for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-13)):
        x, branch, dtotal, dnormed, parameters = arrays(rng, dtype, n_parameters)
        (total, normed), saved = getattr(functions, name)(
            x, branch, *parameters, 0.1, rate, np.random.default_rng(3))
        expected, saved_sum = functions.residual_dropout(x, branch, rate, np.random.default_rng(3))
        expected_norm, saved_norm = getattr(functions, norm)(expected, *parameters, 0.1)
        np.testing.assert_allclose(total, expected, rtol=tolerance)
        np.testing.assert_allclose(normed, expected_norm, rtol=tolerance, atol=tolerance)
        assert np.array_equal(total == x, expected == x), "the same numbers are dropped"
        through, *of_parameters = getattr(functions, f"{norm}_backward")(dnormed, saved_norm)
        for given, dsum in ((dtotal, dtotal + through), (None, through)):
            found = getattr(functions, f"{name}_backward")((given, dnormed), saved)
            wanted = *functions.residual_dropout_backward(dsum, saved_sum), *of_parameters
            for ours, theirs in zip(found, wanted, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=20 * tolerance)
            assert (found[0] is found[1]) == (rate == 0)


@pytest.mark.parametrize("version", ["numpy", "numba"])
@pytest.mark.parametrize("name, norm, n_parameters", KINDS)
def test_gradients_are_added_in_place_to_those_that_are_given(version, name, norm, n_parameters,
                                                              rng):
    x, branch, dtotal, dnormed, parameters = arrays(rng, np.float64, n_parameters)
    backend.use(version)
    try:
        _, saved = getattr(backend, name)(x, branch, *parameters, 0.1, 0.3, rng)
        dx, dbranch, *gradients = getattr(backend, f"{name}_backward")((dtotal, dnormed), saved)
        totals = [np.ones(150) for _ in parameters]
        found = getattr(backend, f"{name}_backward_accumulate")((dtotal, dnormed), saved, *totals)
        assert np.array_equal(found[0], dx) and np.array_equal(found[1], dbranch)
        for total, gradient in zip(totals, gradients, strict=True):
            np.testing.assert_allclose(total, 1 + gradient, rtol=1e-12, atol=1e-13)
        if n_parameters == 2:                                         # a LayerNorm without bias
            alone = np.ones(150)
            backend.residual_layer_norm_backward_accumulate((None, dnormed), saved, alone, None)
            np.testing.assert_allclose(alone, totals[0], rtol=1e-12)
        with pytest.raises((TypeError, ValueError)):
            getattr(backend, f"{name}_backward_accumulate")(
                (dtotal, dnormed), saved, *totals, totals[0])
    finally:
        backend.use("numba")


def test_gradients_of_another_precision_are_refused(rng):
    x, branch, dtotal, dnormed, parameters = arrays(rng, np.float64, 1)
    _, saved = backend.residual_rms_norm(x, branch, *parameters)
    for dys in ((dtotal.astype(np.float32), dnormed), (None, dnormed.astype(np.float32))):
        with pytest.raises(TypeError, match="residual_rms_norm_backward: dy is float32"):
            backend.residual_rms_norm_backward(dys, saved)
