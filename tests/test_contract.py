"""The layer contract (one test for all layers and models) and the gradient of every pair of functions."""

import inspect

import numpy as np
import pytest

from cases import LAYERS, MODELS, PAIRS
from complex_step import assert_gradients, complex_step_gradient, parameter_gradients
from numformer import functional, layers, models
from numformer.parameter import Layer

CASES = LAYERS + MODELS


def by_name(case):
    return case.name


def differentiable(inputs):
    return [k for k, x in enumerate(inputs) if x.dtype.kind == "f"]


def state(layer):
    """Every attribute of every layer in the tree, by identity."""
    return {(name, attribute): id(value) for name, part in layer.named_layers() for attribute, value in vars(part).items()}


def as_tuple(gradients):
    return gradients if isinstance(gradients, tuple) else (gradients,)


@pytest.mark.parametrize("pair", PAIRS, ids=by_name)
def test_function_gradients_equal_the_complex_step(pair, rng):
    arrays = [rng.standard_normal(shape) for shape in pair.shapes]
    before = [array.copy() for array in arrays]

    def forward(*arrays):
        return pair.forward(*pair.before, *arrays, *pair.after, **pair.options)

    y, saved = forward(*arrays)
    dy = rng.standard_normal(np.shape(y))
    dy = dy if dy.shape else float(dy)
    gradients = as_tuple(pair.backward(dy, saved))
    assert len(gradients) == len(arrays)
    assert_gradients(dict(enumerate(gradients)), {
        k: complex_step_gradient(lambda *moved: (forward(*moved)[0] * dy).sum(), arrays, k) for k in range(len(arrays))})
    assert all((array == copy).all() for array, copy in zip(arrays, before)), "an argument was written into"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pair", PAIRS, ids=by_name)
def test_functions_keep_the_dtype(pair, dtype, rng):
    """Also where options are NumPy's float64 scalars, and tables come in float64."""
    options = {name: np.float64(value) if isinstance(value, float) else value for name, value in pair.options.items()}
    y, saved = pair.forward(*pair.before, *(rng.standard_normal(shape).astype(dtype) for shape in pair.shapes), *pair.after, **options)
    dy = np.ones_like(y) if np.shape(y) else np.float64(1)
    assert y.dtype == dtype and all(gradient.dtype == dtype for gradient in as_tuple(pair.backward(dy, saved)))


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_gradients_equal_the_complex_step(case, rng):
    layer, inputs = case.layer(), case.inputs()
    y, saved = layer.forward(*inputs, **case.options())
    dy = rng.standard_normal(y.shape)
    gradients = as_tuple(layer.backward(dy, saved))

    def scalar(*moved):
        return (layer(*moved, **case.options()) * dy).sum()

    found = {k: gradients[k - len(case.ids or ())] for k in differentiable(inputs)}
    truth = {k: complex_step_gradient(scalar, inputs, k) for k in found}
    found.update((name, parameter.grad) for name, parameter in layer.named_parameters())
    truth.update(parameter_gradients(layer, lambda: scalar(*inputs)))
    assert_gradients(found, truth, *((1e-11, 1e-13) if case in MODELS else (1e-12, 1e-14)))


@pytest.mark.parametrize("case", MODELS, ids=by_name)
def test_loss_gradients_equal_the_complex_step(case):
    model, (ids,) = case.layer(), case.inputs()
    batch = ids[:, :-1], ids[:, 1:]
    model.loss_backward(model.loss(batch, **case.options())[1], 1.5)
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    truth = parameter_gradients(model, lambda: 1.5 * model.loss(batch, **case.options())[0])
    assert_gradients(found, truth, 1e-11, 1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_dtype_in_is_dtype_out(case, dtype):
    layer, inputs = case.layer(dtype), case.inputs(dtype)
    y, saved = layer.forward(*inputs, **case.options())
    gradients = as_tuple(layer.backward(np.ones_like(y), saved))
    assert y.dtype == dtype
    assert all(gradient.dtype == dtype for gradient in gradients if gradient is not None)
    assert all(parameter.grad.dtype == dtype for parameter in layer.parameters())
    assert [g.shape for g in gradients if g is not None] == [x.shape for x in inputs if x.dtype.kind == "f"]


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_two_forwards_then_two_backwards(case):
    """Nothing of a call stays on the layer, arguments are not written into, and parameter gradients add up."""
    first, second = case.inputs(seed=1), case.inputs(seed=2)
    copies = [x.copy() for x in first]

    def run(layer, inputs):
        y, saved = layer.forward(*inputs, **case.options())
        return y, saved

    layer = case.layer()
    attributes = state(layer)
    (y1, saved1), (_, saved2) = run(layer, first), run(layer, second)
    dy = np.ones_like(y1)
    dx2, dx1 = layer.backward(dy, saved2), layer.backward(dy, saved1)
    assert (dy == 1).all() and all((x == copy).all() for x, copy in zip(first, copies))
    assert state(layer) == attributes

    alone1, alone2 = case.layer(), case.layer()
    y, saved = run(alone1, first)
    assert np.array_equal(y, y1) and np.array_equal(y, layer(*first, **case.options()))
    for a, b in zip(as_tuple(alone1.backward(dy, saved)), as_tuple(dx1)):
        assert a is b is None or np.array_equal(a, b)
    for a, b in zip(as_tuple(alone2.backward(dy, run(alone2, second)[1])), as_tuple(dx2)):
        assert a is b is None or np.array_equal(a, b)
    for both, one, other in zip(layer.parameters(), alone1.parameters(), alone2.parameters()):
        np.testing.assert_allclose(both.grad, other.grad + one.grad, rtol=1e-12, atol=1e-13)    # a tied one is summed in another order


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "identity"], ids=by_name)
def test_results_are_no_views_of_arguments(case):
    layer, inputs = case.layer(), case.inputs()
    y, saved = layer.forward(*inputs, **case.options())
    dy = np.ones_like(y)
    gradients = as_tuple(layer.backward(dy, saved))
    assert not any(np.shares_memory(y, x) for x in inputs)
    assert not any(np.shares_memory(y, parameter.data) for parameter in layer.parameters())
    assert not any(np.shares_memory(gradient, dy) for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_non_contiguous_input_gives_the_same(case):
    inputs = case.inputs()
    strided = [np.asfortranarray(np.repeat(x, 2, axis=-1)[..., ::2]) for x in inputs]
    np.testing.assert_allclose(case.layer()(*strided, **case.options()), case.layer()(*inputs, **case.options()), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_state_dict_round_trip(case):
    one, other = case.layer(seed=0), case.layer(seed=9)
    other.load_state_dict(one.state_dict())
    inputs = case.inputs()
    assert np.array_equal(one(*inputs, **case.options()), other(*inputs, **case.options()))


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_bad_input_is_named(case):
    for inputs, error, words in case.wrong:
        with pytest.raises(error) as caught:
            case.layer().forward(*inputs, **case.options())
        assert words in str(caught.value) and ": " in str(caught.value)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_repr_is_one_line(case):
    layer = case.layer()
    assert "\n" not in repr(layer) and repr(layer).startswith(type(layer).__name__)
    assert all(name in layer._repr_html_() for name, _ in layer.named_parameters())


def test_every_layer_and_model_is_registered():
    registered = {type(part) for case in CASES for _, part in case.layer().named_layers()}
    public = {thing for module in (layers, models) for thing in vars(module).values()
              if inspect.isclass(thing) and issubclass(thing, Layer)}
    assert public - {layers.TransformerBlock} == registered


def test_every_function_pair_is_registered():
    backwards = {getattr(functional, name) for name in functional.__all__ if name.endswith("_backward")}
    assert backwards - {pair.backward for pair in PAIRS} == {functional.dropout_backward}    # checked as the Dropout layer
