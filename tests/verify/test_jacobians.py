"""Jacobians by complex steps, differences and backward; the U of step sizes; the Hessian."""

import numpy as np
import pytest

from numformer import functional as F
from numformer import verify
from numformer.layers import FeedForward, LayerNorm
from numformer.parameter import Layer, Parameter
from numformer.specifications.pair import Pair
from numformer.verify import (
    central_difference_jacobian, complex_step_jacobian, hessian_symmetry, step_errors)

X = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])


class Cube(Layer):
    """y = a x^3, right in everything: the other layers here differ from it by one mistake."""

    def __init__(self):
        self.a = Parameter(np.array([1.0, 2.0, 3.0]))

    def forward(self, x):
        return self.a.data * x ** 3, (x,)

    def backward(self, dy, saved):
        (x,) = saved
        self.a.grad += (dy * x ** 3).sum(axis=0)
        return 3 * self.a.data * x ** 2 * dy


class LosesImaginary(Cube):
    def forward(self, x):
        return self.a.data.real * np.real(x) ** 3, (x,)


def test_three_jacobians_equal_the_known_derivative():
    expected = np.zeros((2, 3, 2, 3))
    for index in np.ndindex(2, 3):
        expected[index + index] = 3 * (index[1] + 1) * X[index] ** 2
    np.testing.assert_allclose(complex_step_jacobian(Cube(), [X])["x"], expected, rtol=1e-15)
    np.testing.assert_allclose(verify.backward_jacobian(Cube(), [X])["x"], expected, rtol=1e-15)
    np.testing.assert_allclose(central_difference_jacobian(Cube(), [X])["x"], expected, rtol=1e-9,
                               atol=1e-9)
    with pytest.raises(verify.ComplexUnsafe, match="float64 came out"):
        complex_step_jacobian(LosesImaginary(), [X])


def test_differences_have_a_best_step_and_the_complex_step_does_not():
    layer = FeedForward(3, 4, "gelu", np.random.default_rng(0), dtype=np.float64)
    errors = step_errors(layer, [X], steps=10.0 ** np.arange(-14, 0))
    best = int(errors["central_difference"].argmin())
    assert 1e-7 < errors["steps"][best] < 1e-3
    assert 1e-12 < errors["central_difference"][best] < 1e-8
    assert errors["central_difference"][0] > 1e-4 and errors["central_difference"][-1] > 1e-4
    assert errors["complex_step"][errors["steps"] < 1e-8].max() < 1e-14


def test_an_asymmetric_hessian_is_found():
    """Without the term of the mean, the backward of LayerNorm is not a gradient of anything."""
    def without_mean(dy, saved):
        x, weight, mean, rstd = saved
        x_hat = (x - mean) * rstd
        dx_hat = dy * weight
        dx = rstd * (dx_hat - x_hat * (dx_hat * x_hat).mean(-1, keepdims=True))
        return dx, (dy * x_hat).sum(0), dy.sum(0)

    arrays = [X, np.array([1.0, 2.0, 0.5]), np.zeros(3)]
    right = Pair("right", [], function=F.layer_norm, gradient=F.layer_norm_backward)
    assert hessian_symmetry(right, arrays) < 1e-15
    wrong = Pair("wrong", [], function=F.layer_norm, gradient=without_mean)
    assert hessian_symmetry(wrong, arrays) > 1e-3
    assert hessian_symmetry(LayerNorm(3, dtype=np.float64), [X]) < 1e-15


def test_hessian_symmetry_refuses_a_backward_that_drops_imaginary_parts():
    def into_floats(dy, x):
        dx = np.zeros(x.shape)
        dx[...] = 3 * x ** 2 * dy
        return dx

    with pytest.raises(verify.ComplexUnsafe, match="imaginary part"):
        hessian_symmetry(Pair("", [], function=lambda x: (x ** 3, x), gradient=into_floats), [X])
