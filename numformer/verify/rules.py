"""The rules of a layer's contract, each as a question to a running layer; what is broken is said in a sentence."""

import copy

import numpy as np

from numformer.verify.jacobians import aligned, input_names, is_differentiable, made


def broken_rules(layer, inputs, options=None):
    """What a layer does that the contract forbids, each in a sentence; an empty list for a good one."""
    parameters = dict(layer.named_parameters())
    kept = {name: parameter.grad for name, parameter in parameters.items()}
    try:
        return list(_broken_rules(layer, inputs, options, parameters))
    finally:
        for name, parameter in parameters.items():
            parameter.grad = kept[name]


def _broken_rules(layer, inputs, options, parameters):
    names = input_names(layer, inputs)

    def forward(arrays):
        before = [x.copy() for x in arrays]
        result = layer.forward(*arrays, **made(options))
        for name, x, x_before in zip(names, arrays, before):
            if not np.array_equal(x, x_before, equal_nan=x.dtype.kind == "f"):
                written.append(f"forward writes into its argument {name}")
        return result

    def gradients(dy, saved):
        for parameter in parameters.values():
            parameter.grad = np.zeros_like(parameter.data)
        before = np.copy(dy)
        returned = layer.backward(dy, saved)
        if not np.array_equal(dy, before):
            written.append("backward writes into dy")
        return returned, [parameter.grad.copy() for parameter in parameters.values()]

    written = []
    result = forward(inputs)
    if not isinstance(result, tuple) or len(result) != 2:
        yield f"forward must return (y, saved), but returned {type(result).__name__}"
        return
    y, saved = result
    dy = np.random.default_rng(0).standard_normal(np.shape(y))
    dy = dy if dy.shape else np.float64(1.0)
    returned, by_parameter = gradients(dy, saved)
    if written:
        yield from dict.fromkeys(written)
        return

    if isinstance(returned, tuple) and len(returned) not in (len(inputs), sum(map(is_differentiable, inputs))):
        yield f"backward returned {len(returned)} gradients for {len(inputs)} inputs"
        return
    wrong = list(_wrong_gradients(names, inputs, aligned(inputs, returned)))
    wrong += [f"the gradient of {name} has shape {parameter.grad.shape} and dtype {parameter.grad.dtype}, but must have "
              f"{parameter.data.shape} and {parameter.data.dtype}" for name, parameter in parameters.items()
              if parameter.grad.shape != parameter.data.shape or parameter.grad.dtype != parameter.data.dtype]
    if wrong:
        yield from wrong
        return

    layer.backward(dy, saved)
    for (name, parameter), once in zip(parameters.items(), by_parameter):
        if not np.allclose(parameter.grad, 2 * once, rtol=1e-9, atol=1e-300):
            yield f"the gradient of {name} does not add up: a second backward must double it (+=, not =)"
    forward([_other(x) for x in inputs])                              # a run in between must change nothing
    again, by_parameter_again = gradients(dy, saved)
    y_again, _ = forward(inputs)
    same = all(a is b is None or np.array_equal(a, b, equal_nan=True) for a, b in zip(aligned(inputs, again), aligned(inputs, returned)))
    same &= all(np.array_equal(a, b, equal_nan=True) for a, b in zip(by_parameter, by_parameter_again))
    if not same or not np.array_equal(y, y_again, equal_nan=True):
        yield "it keeps state between calls: after another forward, the same arguments gave another result"


def _wrong_gradients(names, inputs, gradients):
    for name, x, dx in zip(names, inputs, gradients):
        if not is_differentiable(x):
            continue
        if not isinstance(dx, np.ndarray):
            yield f"backward returned {type(dx).__name__} as the gradient of {name}"
        elif dx.shape != x.shape:
            yield f"the gradient of {name} has shape {dx.shape}, but {name} has {x.shape}"
        elif dx.dtype != x.dtype:
            yield f"the gradient of {name} is {dx.dtype}, but {name} is {x.dtype}"


def _other(x):
    """Numbers of another size in the same array; ids in another order."""
    return copy.deepcopy(x)[::-1] if x.dtype.kind in "iu" else 0.5 - 1.5 * x
