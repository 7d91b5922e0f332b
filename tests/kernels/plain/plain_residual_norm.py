"""A residual sum and its norm as plain Python: with and without dropout, bias and dtotal."""

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer import functional as F
from numformer.kernels import residual_norm


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("name, n_parameters", [("residual_layer_norm", 2),
                                                ("residual_rms_norm", 1)])
def test_gradients_of_sum_and_norm_add_up_to_those_that_are_given(name, n_parameters, rate, rng):
    x, branch, dtotal, dnormed = rng.standard_normal((4, 2, 3, 5))
    parameters = rng.standard_normal((n_parameters, 5))
    both, saved = getattr(residual_norm, name)(x, branch, *parameters, 0.1, rate,
                                               np.random.default_rng(1))
    expected, saved_reference = getattr(F, name)(x, branch, *parameters, 0.1, rate,
                                                 np.random.default_rng(1))
    np.testing.assert_allclose(both, expected, rtol=1e-12, atol=1e-14)
    for dys in ((dtotal, dnormed), (None, dnormed)):
        dx, dbranch, *gradients = getattr(F, f"{name}_backward")(dys, saved_reference)
        found = [np.ones_like(g) for g in gradients]
        inputs = getattr(residual_norm, f"{name}_backward_accumulate")(dys, saved, *found)
        np.testing.assert_allclose(inputs, (dx, dbranch), rtol=1e-12, atol=1e-14)
        for ours, gradient in zip(found, gradients, strict=True):
            np.testing.assert_allclose(ours, 1 + gradient, rtol=1e-12, atol=1e-14)


def test_a_generator_is_asked_only_where_something_is_dropped(rng):
    x, weight = rng.standard_normal((3, 4)), np.ones(4)
    for rate, generator in ((0.4, None), (0, rng), (0.0, rng)):
        before = rng.bit_generator.state
        (total, _), saved = residual_norm.residual_rms_norm(x, x, weight, 0.1, rate, generator)
        dx, dbranch = residual_norm.residual_rms_norm_backward((x, x), saved)[:2]
        assert np.array_equal(total, 2 * x) and dx is dbranch
        assert rng.bit_generator.state == before


@pytest.mark.parametrize("name, n_parameters", [("residual_layer_norm", 2),
                                                ("residual_rms_norm", 1)])
def test_epsilon_is_that_of_the_reference_unless_it_is_given(name, n_parameters, rng):
    x, parameters = 1e-3 * rng.standard_normal((2, 3, 5)), rng.standard_normal((n_parameters, 5))
    found, wanted = (getattr(functions, name)(*x, *parameters)[0]
                     for functions in (residual_norm, F))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
