"""Names for what is differentiated: the float inputs of a layer and its parameters."""

import copy
import inspect
from contextlib import contextmanager

import numpy as np


def is_differentiable(x):
    """Whether `x` is an array of floats; integer arrays, such as ids, have no gradient."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def resolved(options):
    """Keyword arguments of one call: `options` is a dict, None, or a function that makes one.

    A random generator in a dict is copied, so that every call takes the same random numbers.
    """
    if callable(options):
        return options()
    return {name: copy.deepcopy(value) if isinstance(value, np.random.Generator) else value
            for name, value in (options or {}).items()}


def input_names(layer, inputs):
    """The names of `forward`'s arguments; "input 0", "input 1", ... where they are unknown.

    An argument that has the name of a parameter is called "argument NAME".
    """
    if hasattr(layer, "input_names"):
        named = layer.input_names
    else:
        try:
            parameters = inspect.signature(layer.forward).parameters.items()
        except (TypeError, ValueError):
            parameters = ()
        named = [name for name, parameter in parameters
                 if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    names = [named[k] if k < len(named) else f"input {k}" for k in range(len(inputs))]
    taken = [name for name, _ in layer.named_parameters()]
    return [f"argument {name}" if name in taken else name for name in names]


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
    gradients = list(gradients) if isinstance(gradients, (tuple, list)) else [gradients]
    gradients = [np.float64(dx) if type(dx) is float else dx for dx in gradients]
    if len(gradients) == len(inputs):
        return gradients
    differentiable = iter(gradients)
    return [next(differentiable, None) if is_differentiable(x) else None for x in inputs]


@contextmanager
def replaced(layer, inputs, tensors):
    """Yield the inputs with those of `tensors` in their place; its parameters are set meanwhile.

    `tensors` is a dict with names of `named_tensors`; what it leaves out stays as it is.
    """
    parameters = dict(layer.named_parameters())
    data = {name: parameter.data for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.data = tensors.get(name, parameter.data)
        yield [tensors.get(name, x) for name, x in zip(input_names(layer, inputs), inputs)]
    finally:
        for name, parameter in parameters.items():
            parameter.data = data[name]


def output_at(layer, inputs, options, tensors):
    """y of a forward with some tensors replaced."""
    with replaced(layer, inputs, tensors) as moved:
        return np.asarray(layer.forward(*moved, **resolved(options))[0])


def gradients_at(layer, inputs, options, tensors, dy):
    """The named gradients of a forward and a backward with some tensors replaced."""
    with replaced(layer, inputs, tensors) as moved:
        _, saved = layer.forward(*moved, **resolved(options))
        return named_gradients(layer, moved, dy, saved)


def one_hot(shape, index):
    """dy of one output: 1 there, 0 elsewhere; a scalar for an output without axes."""
    if not shape:
        return np.float64(1)
    dy = np.zeros(shape)
    dy[index] = 1
    return dy


def sizes(x):
    """The size of every number of an array; for 0 and infinite ones, the median of the others."""
    size = np.abs(x)
    usual = np.isfinite(size) & (size > 0)
    return np.where(usual, size, np.median(size[usual]) if usual.any() else 1.0)


def generic_direction(tensors, rng, move_zeros=True):
    """A random direction in each tensor, relative to the size of every number.

    A move along it keeps all signs, so that it crosses no kink at 0. Infinite numbers, as in masks,
    stay where they are, and so does 0 if it shall.
    """
    return {name: rng.choice([-1, 1], x.shape) * rng.uniform(0.5, 1, x.shape) * sizes(x)
            * (np.isfinite(x) & (move_zeros | (x != 0))) for name, x in tensors.items()}


def moved_along(tensors, direction, step):
    """The tensors at x + step * direction."""
    return {name: x + step * direction[name] for name, x in tensors.items()}
