"""The rules of a layer's contract, checked on a running layer; each broken rule is one sentence."""

import numpy as np

from numformer.verify.tensors import aligned, input_names, is_differentiable, resolved


def contract_violations(layer, inputs, options=None):
    """The rules of the contract that a layer breaks, each as a sentence; an empty list if none.

    The gradients of the parameters are overwritten; the caller restores them, and the inputs.
    """
    parameters, names = dict(layer.named_parameters()), input_names(layer, inputs)
    data = {name: parameter.data for name, parameter in parameters.items()}
    tensors = {**{f"its argument {name}": x for name, x in zip(names, inputs)},
               **{f"the parameter {name}": x for name, x in data.items()}}
    before = {name: x.copy() for name, x in tensors.items()}

    def written(method):
        return [f"{method} writes into {name}" for name, x in tensors.items()
                if not np.array_equal(x, before[name], equal_nan=x.dtype.kind == "f")]

    def gradients(dy, saved):
        for parameter in parameters.values():
            parameter.grad = np.zeros_like(parameter.data)
        returned = layer.backward(dy, saved)
        return returned, [parameter.grad for parameter in parameters.values()]

    result = layer.forward(*inputs, **resolved(options))
    if written("forward"):
        return written("forward")
    if not isinstance(result, tuple) or len(result) != 2:
        return [f"forward must return (y, saved), but returned {type(result).__name__}"]
    y, saved = result
    if not isinstance(y, (np.ndarray, np.floating)) or y.dtype != np.float64:
        came = getattr(y, "dtype", type(y).__name__)
        return [f"y must be an array of float64, but is {came}"]
    dy = np.random.default_rng(0).standard_normal(y.shape) if y.shape else np.float64(1.0)
    dy_before = np.copy(dy)
    returned, by_parameter = gradients(dy, saved)
    if not np.array_equal(dy, dy_before):
        return ["backward writes into dy"]
    if written("backward"):
        return written("backward")
    differentiable = sum(map(is_differentiable, inputs))
    if isinstance(returned, tuple) and len(returned) not in (len(inputs), differentiable):
        return [f"backward returned {len(returned)} gradients for {len(inputs)} inputs"]
    wrong = [*_wrong_input_gradients(names, inputs, aligned(inputs, returned)),
             *_wrong_parameter_gradients(data, by_parameter)]
    return wrong or list(_kept_state(layer, inputs, options, dy, saved, y, gradients, parameters))


def _wrong_input_gradients(names, inputs, gradients):
    """Sentences about the type, shape and dtype of the gradients that backward returned."""
    for name, x, dx in zip(names, inputs, gradients):
        if not is_differentiable(x):
            continue
        if not isinstance(dx, np.ndarray) and not (isinstance(dx, np.floating) and x.ndim == 0):
            yield f"backward returned {type(dx).__name__} as the gradient of {name}"
        elif dx.shape != x.shape:
            yield f"the gradient of {name} has shape {dx.shape}, but {name} has {x.shape}"
        elif dx.dtype != x.dtype:
            yield f"the gradient of {name} is {dx.dtype}, but {name} is {x.dtype}"


def _wrong_parameter_gradients(data, gradients):
    """Sentences about the type, shape and dtype of the parameters' gradients."""
    for (name, x), grad in zip(data.items(), gradients):
        if not isinstance(grad, np.ndarray):
            came = type(grad).__name__
        elif grad.shape != x.shape or grad.dtype != x.dtype:
            came = f"one of shape {grad.shape} and dtype {grad.dtype}"
        else:
            continue
        yield (f"the gradient of {name} must be an array of shape {x.shape} and dtype {x.dtype}, "
               f"but is {came}")


def _kept_state(layer, inputs, options, dy, saved, y, gradients, parameters):
    """Sentences where gradients do not accumulate, or a call changes the result of another."""
    first, by_parameter = gradients(dy, saved)
    by_parameter = [grad.copy() for grad in by_parameter]
    layer.backward(dy, saved)
    for (name, parameter), once in zip(parameters.items(), by_parameter):
        if not np.allclose(parameter.grad, 2 * once, rtol=1e-9, atol=1e-300, equal_nan=True):
            yield (f"the gradient of {name} does not accumulate: a second backward must double it "
                   "(+=, not =)")
    layer.forward(*[_changed(x) for x in inputs], **resolved(options))
    again, by_parameter_again = gradients(dy, saved)
    y_again, _ = layer.forward(*inputs, **resolved(options))
    pairs = [*zip(aligned(inputs, first), aligned(inputs, again)),
             *zip(by_parameter, by_parameter_again), (y, y_again)]
    if not all(a is b is None or np.array_equal(a, b, equal_nan=True) for a, b in pairs):
        yield ("it keeps state between calls: after another forward, the same arguments gave a "
               "different result")


def _changed(x):
    """Another input of the same shape: other numbers, or ids in another order."""
    return 0.5 - 1.5 * x if is_differentiable(x) else x[::-1].copy() if x.ndim else x
