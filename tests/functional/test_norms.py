"""LayerNorm and RMSNorm, with epsilon inside and outside the root.

BatchNorm is in tests/layers/test_vision_parts.py.
"""

import numpy as np
import pytest

from numformer import functional as F


def test_norms_by_their_definition(rng):
    x, weight, bias = rng.standard_normal((2, 7)), *rng.standard_normal((2, 7))
    mean, std = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    rms, inside = np.sqrt((x ** 2).mean(-1, keepdims=True)), np.sqrt(std ** 2 + 0.1)
    for found, expected in (
            (F.layer_norm(x, weight, bias, 0.1), (x - mean) / inside * weight + bias),
            (F.layer_norm_outside(x, weight, bias, 0.1), (x - mean) / (std + 0.1) * weight + bias),
            (F.rms_norm(x, weight, 0.1), x / np.sqrt(rms ** 2 + 0.1) * weight),
            (F.rms_norm_outside(x, weight, 0.1), x / (rms + 0.1) * weight)):
        np.testing.assert_allclose(found[0], expected, rtol=1e-13)


@pytest.mark.parametrize("where", ["", "_outside"])
def test_a_constant_vector_has_finite_output_and_gradient(where):
    layer_norm, layer_norm_backward, rms_norm, rms_norm_backward = (
        getattr(F, name) for name in (f"layer_norm{where}", f"layer_norm{where}_backward",
                                      f"rms_norm{where}", f"rms_norm{where}_backward"))
    y, saved = layer_norm(np.full((1, 4), 3.0), np.ones(4), np.zeros(4), 1e-5)
    assert (y == 0).all() and np.isfinite(layer_norm_backward(np.ones((1, 4)), saved)[0]).all()
    y, saved = rms_norm(np.zeros((1, 4)), np.ones(4), 1e-5)
    assert (y == 0).all() and np.isfinite(rms_norm_backward(np.ones((1, 4)), saved)[0]).all()


def test_the_gradient_of_layer_norm_is_orthogonal_to_ones_and_to_x_hat(rng):
    x = rng.standard_normal((3, 6))
    _, saved = F.layer_norm(x, np.ones(6), np.zeros(6), epsilon=0.0)
    dx = F.layer_norm_backward(rng.standard_normal((3, 6)), saved)[0]
    np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-13)
    np.testing.assert_allclose((dx * x).sum(-1), 0, atol=1e-13)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm", "layer_norm_outside",
                                  "rms_norm_outside"])
def test_every_vector_is_normalized_on_its_own_whatever_the_axes_before_it(norm, rng):
    (x, dy), arrays = rng.standard_normal((2, 2, 3, 4)), rng.standard_normal((2, 4))
    arrays = arrays if "layer" in norm else arrays[:1]
    results = []
    for shape in ((2, 3, 4), (6, 4)):
        y, saved = getattr(F, norm)(x.reshape(shape), *arrays)
        gradients = getattr(F, f"{norm}_backward")(dy.reshape(shape), saved)
        results.append([y.reshape(6, 4), gradients[0].reshape(6, 4), *gradients[1:]])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_epsilon_is_1e_5_by_default(rng):
    x, weight, bias = 1e-3 * rng.standard_normal((2, 5)), *rng.standard_normal((2, 5))
    for norm, arrays in ((F.layer_norm, (x, weight, bias)), (F.rms_norm, (x, weight)),
                         (F.layer_norm_outside, (x, weight, bias)),
                         (F.rms_norm_outside, (x, weight))):
        assert np.array_equal(norm(*arrays)[0], norm(*arrays, epsilon=1e-5)[0])


@pytest.mark.parametrize("epsilon", [0.1, 1e-9])
def test_outside_the_root_a_vector_without_variance_has_a_gradient(epsilon):
    """It is at a kink, where the term of the variance is taken as 0."""
    x, weight = np.full((1, 3), 2.0), np.array([1.0, 2.0, 3.0])
    _, saved = F.layer_norm_outside(x, weight, np.zeros(3), epsilon)
    dx, _, _ = F.layer_norm_outside_backward(np.ones((1, 3)), saved)
    np.testing.assert_allclose(dx, (weight - 2)[None] / epsilon, rtol=1e-12)
    _, saved = F.rms_norm_outside(0 * x, weight, epsilon)
    dx, _ = F.rms_norm_outside_backward(np.ones((1, 3)), saved)
    np.testing.assert_allclose(dx, weight[None] / epsilon, rtol=1e-12)


def test_kappa_is_1_plus_epsilon_where_the_deviation_is_1(rng):
    x, weight = np.array([[1.0, -1.0, 1.0, -1.0]]), rng.standard_normal(4)
    dy = rng.standard_normal((1, 4))
    g, r = dy * weight, 1 / 1.25
    expected = r * (g - g.mean() - 1.25 * (x * r) * (g * x * r).mean())
    _, saved = F.layer_norm_outside(x, weight, np.zeros(4), 0.25)
    np.testing.assert_allclose(F.layer_norm_outside_backward(dy, saved)[0], expected, rtol=1e-12)
    _, saved = F.rms_norm_outside(x, weight, 0.25)
    dx, _ = F.rms_norm_outside_backward(dy, saved)
    np.testing.assert_allclose(dx, expected + r * g.mean(), rtol=1e-12)


@pytest.mark.parametrize("call, words", [
    (lambda: F.layer_norm(np.ones((2, 4)), np.ones(1), np.ones(1)), "C=1"),
    (lambda: F.rms_norm(np.ones((2, 4)), np.ones(4), -1.0), "epsilon"),
    (lambda: F.layer_norm_outside(np.ones((2, 4)), np.ones(4), np.ones(3)), "C=4"),
    (lambda: F.rms_norm_outside(np.ones((2, 4)), np.ones(4), -1.0), "rms_norm_outside: epsilon"),
    (lambda: F.layer_norm(np.ones((2, 0)), np.ones(0), np.ones(0)), "no coordinates"),
    (lambda: F.rms_norm(np.ones((2, 0)), np.ones(0)), "rms_norm: x of shape .* no coordinates")])
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
