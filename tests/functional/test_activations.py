"""Activations: limits, relations between them, and values where a naive formula fails."""

from inspect import unwrap

import numpy as np
import pytest

from numformer import functional as F


def test_the_derivative_of_relu_at_0_is_0():
    y, saved = F.relu(np.array([-1.0, 0.0, 1.0]))
    assert y.tolist() == [0, 0, 1]
    assert F.relu_backward(np.full(3, 2.0), saved).tolist() == [0, 0, 2]


def test_gelu_and_swish_have_the_right_limits():
    x = np.linspace(-6, 6, 241)
    exact, approximate = F.gelu(x)[0], F.gelu_tanh(x)[0]
    assert 1e-4 < np.abs(exact - approximate).max() < 5e-4
    far = F.gelu(np.array([-10.0]))[0][0]                            # -10 Phi(-10): no cancellation
    assert abs(far / (-10 * 7.619853024160593e-24) - 1) < 1e-12
    np.testing.assert_allclose(F.swish(x, beta=1e4)[0], F.relu(x)[0], atol=1e-4)
    np.testing.assert_allclose(F.swish(x, beta=0.0)[0], x / 2)
    assert np.array_equal(F.silu(x)[0], F.swish(x, beta=1.0)[0])
    assert 0.01 < np.abs(exact - F.quick_gelu(x)[0]).max() < 0.021


def test_gelu_tanh_does_not_overflow_in_float32():
    with np.errstate(over="ignore"):
        y, saved = F.gelu_tanh(np.array([-1e20, 1e20], np.float32))
        assert y.tolist() == [0, np.float32(1e20)]
        assert F.gelu_tanh_backward(np.ones(2, np.float32), saved).tolist() == [0, 1]


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu", "quick_gelu", "sigmoid"])
def test_large_numbers_reach_the_limits_and_nan_passes(name):
    with np.errstate(invalid="ignore"):
        y, saved = getattr(F, name)(np.array([-1e4, 1e4, np.nan]))
        gradient = getattr(F, name + "_backward")(np.ones(3), saved)
    assert abs(y[0]) < 1e-300 and y[1] == (1 if name == "sigmoid" else 1e4) and np.isnan(y[2])
    assert abs(gradient[0]) < 1e-300 and gradient[1] == (0 if name == "sigmoid" else 1)


def test_sigmoid_takes_the_exponential_that_is_at_most_1():
    """To the bit: e^-x of positive numbers, e^x of negative ones."""
    x = np.linspace(0, 3, 301)
    assert np.array_equal(F.sigmoid(x)[0], 1 / (1 + np.exp(-x)))
    assert np.array_equal(F.sigmoid(-x)[0], np.exp(-x) / (1 + np.exp(-x)))


def test_the_table_names_pairs_of_this_package_and_gates_from_the_table():
    for name, pair in F.ACTIVATIONS.items():
        for function, known in zip(pair, (name, f"{name}_backward"), strict=True):
            assert unwrap(function) is unwrap(getattr(F, known))
    assert set(F.GATED.values()) <= set(F.ACTIVATIONS) and not set(F.GATED) & set(F.ACTIVATIONS)


@pytest.mark.parametrize("call", [lambda: F.gelu([1.0]), lambda: F.relu(np.array([1]))])
def test_what_is_no_array_of_floats_is_refused(call):
    with pytest.raises(TypeError, match="array of floats"):
        call()
