"""Names for what is differentiated: the float inputs of a layer and its parameters."""

import inspect

import numpy as np


def is_differentiable(x):
    """Whether `x` is an array of floats; integer arrays, such as ids, have no gradient."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def resolved(options):
    """Keyword arguments of one call: `options` is a dict, None, or a function that makes one."""
    return options() if callable(options) else options or {}


def input_names(layer, inputs):
    """The names of `forward`'s arguments; "input 0", "input 1", ... where they are unknown."""
    if hasattr(layer, "input_names"):
        return layer.input_names[:len(inputs)]
    try:
        parameters = inspect.signature(layer.forward).parameters.items()
    except (TypeError, ValueError):
        parameters = ()
    named = [name for name, parameter in parameters
             if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    return [named[k] if k < len(named) else f"input {k}" for k in range(len(inputs))]


def named_tensors(layer, inputs):
    """Everything that is differentiated, by name: the float inputs, then the parameters' data."""
    tensors = {name: x for name, x in zip(input_names(layer, inputs), inputs)
               if is_differentiable(x)}
    return {**tensors, **{name: parameter.data for name, parameter in layer.named_parameters()}}


def named_gradients(layer, inputs, dy, saved):
    """The gradients of `named_tensors` from one backward; those of parameters start at 0."""
    parameters = dict(layer.named_parameters())
    for parameter in parameters.values():
        parameter.grad = np.zeros_like(parameter.data)
    gradients = aligned(inputs, layer.backward(dy, saved))
    found = {name: dx for name, x, dx in zip(input_names(layer, inputs), inputs, gradients)
             if is_differentiable(x)}
    return {**found, **{name: parameter.grad for name, parameter in parameters.items()}}


def aligned(inputs, gradients):
    """What a backward returned, as one gradient per input; None for an omitted integer input."""
    gradients = list(gradients) if isinstance(gradients, tuple) else [gradients]
    if len(gradients) == len(inputs):
        return gradients
    differentiable = iter(gradients)
    return [next(differentiable, None) if is_differentiable(x) else None for x in inputs]
