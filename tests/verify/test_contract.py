"""The layer contract, for every registered layer and model; the gradients of all function pairs."""

import inspect

import numpy as np
import pytest

from marks import every
from numformer import layers, models
from numformer.analysis import architecture
from numformer.layers.positions.schemes import IN_ATTENTION
from numformer.parameter import Layer
from numformer.specifications import PAIRS
from numformer.verify import LAYER_BOUND, MODEL_BOUND, gradcheck, hessian_symmetry
from numformer.verify.jacobians import COMPLEX_STEP
from numformer.verify.registry import ESTIMATORS, LAYERS, LOSSES, MODELS
from numformer.verify.tensors import (
    generic_direction, gradients_at, named_tensors, output_at, resolved)

CASES = LAYERS + ESTIMATORS + MODELS


def by_name(case):
    return case.name


def state(layer):
    """Every attribute of every layer in the tree, by identity."""
    return {(name, attribute): id(value) for name, part in layer.named_layers()
            for attribute, value in vars(part).items()}


def as_tuple(gradients):
    return gradients if isinstance(gradients, tuple) else (gradients,)


# Every derivative of all takes four minutes; every run compares those along one direction
@pytest.mark.parametrize("case", [*PAIRS, *every(6, LAYERS), *(
    pytest.param(case, marks=pytest.mark.slow) for case in MODELS + LOSSES)], ids=by_name)
def test_every_derivative_equals_the_complex_step(case):
    """All derivatives; nothing is written into, no state is kept, gradients accumulate."""
    report = gradcheck(case.layer(), case.inputs(), case.options,
                       MODEL_BOUND if case in MODELS + LOSSES else LAYER_BOUND, case.condition)
    assert report.ok, str(report)
    assert len(report.rows) == len(case.shapes) + sum(1 for _ in case.layer().named_parameters())


@pytest.mark.parametrize(
    "case", [*LAYERS, *every(3, MODELS), *every(3, LOSSES)], ids=by_name)
def test_gradients_equal_the_complex_step_along_a_direction(case):
    """A random one in each tensor, for a random dy."""
    layer, inputs, rng = case.layer(), case.inputs(), np.random.default_rng(0)
    tensors = named_tensors(layer, inputs)
    y = output_at(layer, inputs, case.options, {})
    dy = np.float64(0.7) if y.ndim == 0 else rng.standard_normal(y.shape)
    gradients = gradients_at(layer, inputs, case.options, {}, dy)
    directions = generic_direction(tensors, rng)
    slopes = {name: gradients[name] * directions[name] for name in tensors}
    largest = max(np.abs(parts).sum() for parts in slopes.values())
    for name, parts in slopes.items():
        moved = {name: tensors[name] + 1j * COMPLEX_STEP * directions[name]}
        slope = (dy * output_at(layer, inputs, case.options, moved).imag).sum() / COMPLEX_STEP
        scale = max(np.abs(parts).sum(), 1e-3 * largest)      # some gradients are sums that are 0
        bound = LAYER_BOUND if case in LAYERS else MODEL_BOUND
        assert abs(parts.sum() - slope) <= bound * case.condition * scale, name


@pytest.mark.parametrize("case", every(2, PAIRS + CASES + LOSSES), ids=by_name)
def test_second_derivatives_are_symmetric(case):
    assert hessian_symmetry(case.layer(), case.inputs(), case.options) <= 1e-13 * case.condition


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pair", PAIRS, ids=by_name)
def test_functions_keep_the_dtype(pair, dtype):
    """Also where options are NumPy's float64 scalars, and tables come in float64."""
    options = {name: np.float64(value) if isinstance(value, float) else value
               for name, value in resolved(pair.options).items()}
    y, saved = pair.function(*pair.before, *pair.inputs(dtype), *pair.after, **options)
    ys = as_tuple(y)
    dys = tuple(np.ones_like(y) if np.shape(y) else np.float64(1) for y in ys)
    gradients = as_tuple(pair.gradient(dys if isinstance(y, tuple) else dys[0], saved))
    assert all(array.dtype == dtype for array in (*ys, *gradients))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_dtype_in_is_dtype_out(case, dtype):
    layer, inputs = case.layer(dtype), case.inputs(dtype)
    y, saved = layer.forward(*inputs, **case.options())
    gradients = as_tuple(layer.backward(np.ones_like(y), saved))
    assert y.dtype == dtype
    assert all(gradient.dtype == dtype for gradient in gradients if gradient is not None)
    assert all(parameter.grad.dtype == dtype for parameter in layer.parameters())
    differentiated = [x.shape for x in inputs if x.dtype.kind == "f"]
    assert [g.shape for g in gradients if g is not None] == differentiated


@pytest.mark.parametrize("case", every(2, CASES), ids=by_name)
def test_two_forwards_then_two_backwards_give_what_separate_layers_give(case):
    """The layer keeps nothing of a call, arguments are not changed, and gradients accumulate."""
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
        # a tied parameter is summed in another order
        np.testing.assert_allclose(both.grad, other.grad + one.grad, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", [case for case in CASES if not isinstance(
    case.layer(), (layers.Identity, layers.NoPositions))], ids=by_name)
def test_results_share_no_memory_with_arguments(case):
    layer, inputs = case.layer(), case.inputs()
    y, saved = layer.forward(*inputs, **case.options())
    dy = np.ones_like(y)
    gradients = as_tuple(layer.backward(dy, saved))
    assert not any(np.shares_memory(y, x) for x in inputs)
    assert not any(np.shares_memory(y, parameter.data) for parameter in layer.parameters())
    assert not any(np.shares_memory(gradient, dy) for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_non_contiguous_input_gives_the_same_output(case):
    inputs = case.inputs()
    strided = [np.asfortranarray(np.repeat(x, 2, axis=-1)[..., ::2]) for x in inputs]
    expected = case.layer()(*inputs, **case.options())
    np.testing.assert_allclose(case.layer()(*strided, **case.options()), expected,
                               rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_a_loaded_state_dict_gives_the_same_output(case):
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


@pytest.mark.parametrize("case", [case for case in LAYERS if type(case.layer()) in vars(
    layers).values()], ids=by_name)
def test_a_layer_describes_itself(case):
    """Its name and the equations of its gradient; its costs are whole numbers."""
    layer = case.layer()
    kind = type(layer).__name__
    assert type(layer).describe is not Layer.describe, (
        f"{kind}: the method describe() is missing; see numformer/ADDING_A_LAYER.md")
    about = layer.describe()
    assert about.name and about.gradient, f"{kind}.describe() gives no name, or no gradient"
    assert all("$" not in line or line.count("$") % 2 == 0 for line in about.gradient)
    assert all(type(number) is int for number in (
        about.weights, about.keys, about.cache, about.state))
    assert "\n" not in about.name + about.sizes


@pytest.mark.parametrize("case", MODELS, ids=by_name)
def test_a_model_can_be_drawn_and_counted(case):
    model = case.layer()
    for method in ("describe_model", "costs"):
        assert hasattr(model, method), (f"{type(model).__name__}: the method {method}() is "
                                        "missing; see numformer/ADDING_A_MODEL.md")
    assert architecture(model).parameters == model.costs()["parameters"]


@pytest.mark.parametrize("case", every(3, CASES), ids=by_name)
def test_repr_is_one_line(case):
    layer = case.layer()
    assert "\n" not in repr(layer) and repr(layer).startswith(type(layer).__name__)
    assert all(name in layer._repr_html_() for name, _ in layer.named_parameters())


def test_every_layer_and_model_is_registered():
    registered = {type(part) for case in CASES for _, part in case.layer().named_layers()}
    public = {thing for module in (layers, models) for thing in vars(module).values()
              if inspect.isclass(thing) and issubclass(thing, Layer)}
    assert public | set(IN_ATTENTION.values()) == registered


def test_every_layer_has_a_forward_and_a_backward():
    """Each public class has a case of its own: being a part of another one is not enough."""
    cases = {type(case.layer()) for case in CASES}
    for kind in (getattr(layers, name) for name in layers.__all__):
        if inspect.isclass(kind) and issubclass(kind, Layer):
            assert hasattr(kind, "forward") and hasattr(kind, "backward"), kind.__name__
            assert kind in cases, f"{kind.__name__} is no case of numformer/verify/registry"
