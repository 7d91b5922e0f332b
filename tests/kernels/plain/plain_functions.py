"""Parts of the kernels of single functions, where plain Python shows what arrays hide."""

import math

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer import functional as F
from numformer.kernels import (
    activations, cross_entropy, dropout, embedding, few_vectors, linear, norms, rotary)
from numformer.kernels.runtime.shapes import has_rows


def test_cross_entropy_finds_the_largest_logit_wherever_it_is():
    for V in range(1, 5):
        for largest in range(V):
            z = np.zeros(V)
            z[largest] = 1e4
            assert cross_entropy.largest_of(z) == 1e4
            loss, saved = cross_entropy.cross_entropy(z[None], np.array([largest]))
            assert loss == 0 and (cross_entropy.cross_entropy_backward(1.0, saved) == 0).all()


def test_a_class_of_probability_zero_costs_nothing_without_smoothing():
    loss, saved = cross_entropy.cross_entropy(np.array([[0.0, -np.inf, 0.0]]), np.array([2]))
    assert abs(loss - math.log(2)) < 1e-15
    assert cross_entropy.cross_entropy_backward(1.0, saved).tolist() == [[0.5, 0, -0.5]]


def test_the_variance_of_numbers_far_from_zero_is_accurate(rng):
    """It is taken of centred numbers: the difference of two squares would have lost it."""
    x = 1e8 + rng.random(8)
    mean = norms.mean_of(x)
    assert mean == x.mean() and norms.mean_square(x, mean) == pytest.approx(x.var(), rel=1e-12)


def test_a_vector_is_centred_also_without_a_bias(rng):
    """As in the decoding of a model whose LayerNorms have none."""
    (x, weight), y = rng.standard_normal((2, 5)), np.empty(5)
    expected, _ = F.layer_norm(x, weight, np.zeros(5), 0.1)
    for bias in (np.zeros(5), np.zeros(0)):
        mean, *_ = norms.normalize_vector(x, weight, bias, 0.1, True, True, y)
        assert mean == pytest.approx(x.mean(), rel=1e-12)
        np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_without_dropout_no_random_numbers_are_drawn(rng):
    x, branch = rng.standard_normal((2, 3, 4))
    for functions in (F, dropout):
        for rate, generator in ((0.4, None), (0, rng), (0.0, rng)):
            before = rng.bit_generator.state
            y, saved = functions.dropout(x, rate, generator)
            assert np.array_equal(y, x) and y is not x
            assert np.array_equal(functions.dropout_backward(x, saved), x)
            y, saved = functions.residual_dropout(x, branch, rate, generator)
            dx, dbranch = functions.residual_dropout_backward(y, saved)
            assert np.array_equal(y, x + branch)
            assert np.array_equal(dx, y) and np.array_equal(dbranch, y)
            assert rng.bit_generator.state == before


def test_gradients_of_lookups_of_any_shape_are_summed_by_id(rng):
    for shape in ((3,), (2, 3), (2, 3, 5)):
        ids, weight = rng.integers(0, 4, shape), rng.standard_normal((4, 7))
        dy, wanted = rng.standard_normal((*shape, 7)), np.zeros((4, 7))
        np.add.at(wanted, ids, dy)
        y, saved = embedding.embedding(ids, weight)
        np.testing.assert_allclose(embedding.embedding_backward(dy, saved), wanted, rtol=1e-12)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotations_take_any_number_of_axes(layout, rng, monkeypatch):
    """Heads as a projection leaves them are not copied."""
    cosine, sine = F.rotary_angles(2, 7, 6)
    for shape in ((5, 6), (3, 5, 6), (2, 3, 5, 6), (2, 1, 3, 5, 6)):
        x = rng.standard_normal(shape)
        y, wanted = (functions.rotary(x, cosine, sine, layout)[0] for functions in (rotary, F))
        np.testing.assert_allclose(y, wanted, rtol=1e-12)
    heads, given = rng.standard_normal((2, 5, 3, 6)).transpose(0, 2, 1, 3), []
    monkeypatch.setattr(rotary, "ROTATE", {heads.dtype: lambda x, *rest: given.append(x)})
    rotary.rotary(heads, cosine, sine, layout)
    assert np.shares_memory(given[0], heads) and given[0].shape == heads.shape


def test_half_of_the_normal_distribution_is_below_zero():
    cdf, density = activations.normal_cdf_and_density(np.float32(0))
    assert cdf == 0.5 and abs(density * math.sqrt(2 * math.pi) - 1) < 1e-7


def with_gaps(x):
    return np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2]


@pytest.fixture
def contiguous_only(monkeypatch):
    """The kernels of one vector are compiled for contiguous rows; plain Python takes any."""
    for name in ("ADD_ROWS", "ADD_DOTS"):
        def checked(x, matrix, y, function=getattr(few_vectors, name).function):
            assert has_rows(matrix) or matrix.shape[1] == 1           # of one number, any strides
            assert x.flags.c_contiguous and y.flags.c_contiguous
            function(x, matrix, y)

        monkeypatch.setattr(few_vectors, name, {np.dtype(float): checked})


@pytest.mark.usefixtures("contiguous_only")
@pytest.mark.parametrize("C, width", [(1, 1), (1, 3), (4, 1), (4, 3)])
def test_a_single_vector_is_multiplied_without_blas(C, width, rng, monkeypatch):
    products, multiply = [], few_vectors.multiply
    for page in (linear, few_vectors):
        monkeypatch.setattr(page, "MULTIPLY", {
            np.dtype(float): lambda *given: products.append(given) or multiply(*given)})
    weight, bias = rng.standard_normal((C, width)), rng.standard_normal(width)
    one = rng.standard_normal((1, 1, C))
    many, strided = rng.standard_normal((2, C)), rng.standard_normal((1, 2 * C))[:, ::2]
    for x, matrix in ((one, weight), (one[0, 0], weight), (one, np.asfortranarray(weight)),
                      (many, weight), (strided, weight), (one, with_gaps(weight))):
        for b in (None, bias):
            products.clear()
            y, saved = linear.linear(x, matrix, b)
            np.testing.assert_allclose(y, x @ matrix + (0 if b is None else b), rtol=1e-12)
            assert bool(products) == (x is many)
            assert y.shape == (*x.shape[:-1], width) and saved[2] == (b is not None)


def test_linear_refuses_arrays_that_do_not_fit(rng):
    weight, bias, x = rng.standard_normal((4, 3)), rng.standard_normal(3), np.ones((1, 1, 4))
    for given in ((x.astype(np.float32), weight), (x, weight, np.ones(4)),
                  (x, weight, bias.astype(np.float32)), (np.array(1.0), weight), ([1.0], weight),
                  (x, [1.0]), (x, weight, [1.0]), (x, weight[0]), (x, weight[None])):
        with pytest.raises((TypeError, ValueError), match="linear: "):
            linear.linear(*given)


@pytest.mark.usefixtures("contiguous_only")
@pytest.mark.parametrize("C, width", [(1, 1), (4, 3)])
def test_weight_gradients_are_added_by_the_kernel_where_memory_allows(C, width, rng, monkeypatch):
    calls, kernel = [], few_vectors.multiply

    def multiply(a, b, c, add):
        assert a.shape == (len(c), len(b)) and b.shape[1] == c.shape[1] and has_rows(c)
        assert all(has_rows(x) or has_rows(x.T) for x in (a, b))
        calls.append(c)
        kernel(a, b, c, add)

    monkeypatch.setattr(linear, "MULTIPLY", {np.dtype(float): multiply})
    x, weight = rng.standard_normal((2, 3, C)), rng.standard_normal((C, width))
    dy, before = rng.standard_normal((2, 3, width)), rng.standard_normal((C, width))
    whole = np.tensordot(x, dy, ([0, 1], [0, 1]))
    layouts = {"C": np.ascontiguousarray, "F": np.asfortranarray, "gaps": with_gaps,
               "single": lambda x: x.astype(np.float32)}
    for name, layout in layouts.items():
        for bias in (None, rng.standard_normal(width)):
            calls.clear()
            total = layout(before.copy())
            bias_total = None if bias is None else bias.copy()
            _, saved = linear.linear(x, weight, bias)
            dx = linear.linear_backward_accumulate(dy, saved, total, bias_total)
            tolerance = 1e-5 if name == "single" else 1e-12
            np.testing.assert_allclose(total, whole + before, rtol=tolerance)
            np.testing.assert_allclose(dx, dy @ weight.T, rtol=1e-12)
            assert dx.shape == x.shape
            assert bias is None or np.allclose(bias_total, bias + dy.sum(axis=(0, 1)), rtol=1e-12)
            added = any(np.shares_memory(c, total) for c in calls)
            assert added == (name in "CF")
            assert len(calls) == 3
            alone, dweight, dbias = linear.linear_backward(dy, saved)
            assert np.array_equal(alone, dx) and (dbias is None) == (bias is None)
            np.testing.assert_allclose(dweight, whole, rtol=1e-12)
            assert dbias is None or np.allclose(dbias, dy.sum(axis=(0, 1)), rtol=1e-12)
