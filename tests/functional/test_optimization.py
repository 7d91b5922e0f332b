"""What optimizers do to one parameter: a step of Adam, and Muon's orthogonalization."""

import numpy as np
import pytest

from numformer import Parameter
from numformer import functional as F
from numformer.training import global_norm


@pytest.mark.parametrize("options", [
    dict(), dict(weight_decay=0.3), dict(grad_scale=0.5),
    dict(beta1=0.6, beta2=0.7, epsilon=0.1, weight_decay=0.2, grad_scale=2.0)], ids=str)
def test_adam_by_its_equations(options, rng):
    """In place, with bias correction of both running means."""
    data, mean, square = rng.standard_normal((3, 4)), np.zeros((3, 4)), np.zeros((3, 4))
    beta1, beta2 = options.get("beta1", 0.9), options.get("beta2", 0.999)
    epsilon = options.get("epsilon", 1e-8)
    theta, m, v = data.copy(), 0, 0
    for t in (1, 2, 3):
        grad = rng.standard_normal((3, 4))
        given = grad.copy()
        assert F.adam_step(data, grad, mean, square, 0.1, t, **options) is None
        g = options.get("grad_scale", 1) * grad
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        theta = theta * (1 - 0.1 * options.get("weight_decay", 0))
        theta = theta - 0.1 * (m / (1 - beta1 ** t)) / (np.sqrt(v / (1 - beta2 ** t)) + epsilon)
        for found, expected in ((data, theta), (mean, m), (square, v), (grad, given)):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(4, 4), (3, 8), (8, 3), (1, 5)])
def test_orthogonalize_applies_its_polynomial_to_the_singular_values(shape, rng):
    a, b, c = 3.4445, -4.7750, 2.0315
    G = rng.standard_normal(shape)
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    x = s / np.sqrt((s * s).sum())
    for steps in range(1, 6):
        x = a * x + b * x ** 3 + c * x ** 5
        np.testing.assert_allclose(F.orthogonalize(G, steps), U * x @ Vt, rtol=1e-9, atol=1e-11)
    assert np.array_equal(F.orthogonalize(G), F.orthogonalize(G, 5))
    np.testing.assert_allclose(F.orthogonalize(1e-3 * G), F.orthogonalize(G), rtol=1e-12)
    assert F.orthogonalize(G.astype(np.float32)).dtype == np.float32
    assert (F.orthogonalize(np.zeros(shape)) == 0).all() and F.orthogonalize(G).flags.c_contiguous
    with pytest.raises(ValueError, match="orthogonalize"):
        F.orthogonalize(np.zeros(3))


def test_five_steps_of_the_polynomial_lead_near_1():
    """For all singular values from 0.01 to 1."""
    x = np.linspace(0.01, 1, 2000)
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x ** 3 + 2.0315 * x ** 5
    assert 0.68 < x.min() and x.max() < 1.14


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0.25, 0.75])
def test_orthogonal_matrices_of_any_size(size, dtype, rng):
    """The scale of the matrix cancels, where squares over- and underflow as well."""
    matrix = rng.standard_normal((5, 3)).astype(dtype)
    expected = F.orthogonalize(matrix)
    limits = np.finfo(dtype)
    for scale in (float(limits.tiny) ** size, float(limits.max) ** size):
        scaled = F.orthogonalize(np.ldexp(matrix, int(np.log2(scale))))
        np.testing.assert_allclose(scaled, expected, rtol=1e3 * limits.eps, atol=1e3 * limits.eps)


def test_norms_of_gradients_of_any_size():
    """In float64 squares of 1e200 overflow, and those of 1e-200 underflow."""
    parameters = [Parameter(np.zeros(2)), Parameter(np.zeros(1))]
    for size in (1e200, 1e-200, 1.0, 1e-310):
        for parameter, grad in zip(parameters, ([3 * size, 4 * size], [12 * size])):
            parameter.grad[:] = grad
        assert global_norm(parameters) == pytest.approx(13 * size, rel=1e-12)
    parameters[1].grad[:] = 0
    assert global_norm(parameters) == pytest.approx(5e-310, rel=1e-12)
    parameters[0].grad[:] = np.inf, 1
    assert global_norm(parameters) == np.inf
    parameters[0].grad[:] = np.nan, 1
    assert np.isnan(global_norm(parameters))
