"""The rules of a layer's contract, each as a question to a running layer; what is broken is said in a sentence."""

import numpy as np

from numformer.verify.jacobians import aligned, input_names, is_differentiable, made


def broken_rules(layer, inputs, options=None):
    """What a layer does that the contract forbids, each in a sentence; an empty list for a good one.

    Whatever the layer does to them, the parameters' gradients are its own afterwards; the caller looks after the rest.
    """
    parameters, names = dict(layer.named_parameters()), input_names(layer, inputs)
    tensors = {**dict(zip(names, inputs)), **{f"the parameter {name}": parameter.data for name, parameter in parameters.items()}}
    before = {name: x.copy() for name, x in tensors.items()}

    def written(part):
        return [f"{part} writes into {'' if name.startswith('the ') else 'its argument '}{name}" for name, x in tensors.items()
                if not np.array_equal(x, before[name], equal_nan=x.dtype.kind == "f")]

    def gradients(dy, saved):
        for parameter in parameters.values():
            parameter.grad = np.zeros_like(parameter.data)
        returned = layer.backward(dy, saved)
        return returned, [parameter.grad for parameter in parameters.values()]

    result = layer.forward(*inputs, **made(options))
    if written("forward"):
        return written("forward")
    if not isinstance(result, tuple) or len(result) != 2:
        return [f"forward must return (y, saved), but returned {type(result).__name__}"]
    y, saved = result
    if not isinstance(y, (np.ndarray, np.floating)) or y.dtype != np.float64:
        return [f"y must be an array of float64, but is {getattr(y, 'dtype', type(y).__name__)}"]
    dy = np.random.default_rng(0).standard_normal(y.shape) if y.shape else np.float64(1.0)
    dy_before = np.copy(dy)
    returned, by_parameter = gradients(dy, saved)
    if not np.array_equal(dy, dy_before):
        return ["backward writes into dy"]
    if written("backward"):
        return written("backward")
    if isinstance(returned, tuple) and len(returned) not in (len(inputs), sum(map(is_differentiable, inputs))):
        return [f"backward returned {len(returned)} gradients for {len(inputs)} inputs"]
    wrong = list(_wrong_gradients(names, inputs, aligned(inputs, returned)))
    wrong += [f"the gradient of {name} must be an array of shape {x.shape} and dtype {x.dtype}, but is {_words(grad)}"
              for (name, x), grad in zip(((name, parameter.data) for name, parameter in parameters.items()), by_parameter)
              if not isinstance(grad, np.ndarray) or grad.shape != x.shape or grad.dtype != x.dtype]
    return wrong or list(_remembers(layer, inputs, options, dy, saved, y, gradients, parameters))


def _remembers(layer, inputs, options, dy, saved, y, gradients, parameters):
    """Whether gradients add up, and nothing else stays from call to call."""
    first, by_parameter = gradients(dy, saved)
    by_parameter = [grad.copy() for grad in by_parameter]
    layer.backward(dy, saved)
    for (name, parameter), once in zip(parameters.items(), by_parameter):
        if not np.allclose(parameter.grad, 2 * once, rtol=1e-9, atol=1e-300, equal_nan=True):
            yield f"the gradient of {name} does not add up: a second backward must double it (+=, not =)"
    layer.forward(*[_other(x) for x in inputs], **made(options))      # a run in between must change nothing
    again, by_parameter_again = gradients(dy, saved)
    y_again, _ = layer.forward(*inputs, **made(options))
    pairs = [*zip(aligned(inputs, first), aligned(inputs, again)), *zip(by_parameter, by_parameter_again), (y, y_again)]
    if not all(a is b is None or np.array_equal(a, b, equal_nan=True) for a, b in pairs):
        yield "it keeps state between calls: after another forward, the same arguments gave another result"


def _words(x):
    return f"one of shape {x.shape} and dtype {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__


def _wrong_gradients(names, inputs, gradients):
    for name, x, dx in zip(names, inputs, gradients):
        if not is_differentiable(x):
            continue
        if not isinstance(dx, np.ndarray) and not (isinstance(dx, np.floating) and x.ndim == 0):
            yield f"backward returned {type(dx).__name__} as the gradient of {name}"
        elif dx.shape != x.shape:
            yield f"the gradient of {name} has shape {dx.shape}, but {name} has {x.shape}"
        elif dx.dtype != x.dtype:
            yield f"the gradient of {name} is {dx.dtype}, but {name} is {x.dtype}"


def _other(x):
    """Numbers of another size in the same array; ids in another order."""
    return 0.5 - 1.5 * x if is_differentiable(x) else x[::-1].copy() if x.ndim else x
