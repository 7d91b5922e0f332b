"""Plain classes and pairs of functions, seen as layers: what `gradcheck` takes besides a `Layer`.

Their outputs may be several: a tuple of arrays is joined to one vector, and dy is cut accordingly.
"""

import inspect

import numpy as np


def as_layer(thing):
    """A layer for a `Layer`, a plain object with forward and backward, or a pair of functions.

    Raises
    ------
    TypeError
        If it is anything else, such as a class instead of an object.
    """
    if isinstance(thing, (tuple, list)) and len(thing) == 2 and all(map(callable, thing)):
        return FunctionPair(*thing)
    if isinstance(thing, type):
        raise TypeError(f"gradcheck: {thing.__name__} is a class; pass an object of it, "
                        f"{thing.__name__}(...).")
    if not all(callable(getattr(thing, name, None)) for name in ("forward", "backward")):
        raise TypeError("gradcheck: pass an object with forward and backward, or a pair of "
                        f"functions (f, f_backward), instead of {type(thing).__name__}.")
    return thing if hasattr(thing, "named_parameters") else PlainObject(thing)


class PlainObject:
    """An object with `forward` and `backward`, whose parameters are found in its attributes.

    A parameter is anything with `data` and `grad`, also inside lists, dicts and parts that have a
    `forward`; or an array `w` next to an array `dw` of its shape, which takes the gradient.
    """

    def __init__(self, subject):
        self.subject, self.name = subject, type(subject).__name__
        self.input_names = positional_names(subject.forward)
        self._parameters = dict(_found_parameters(subject, "", set()))

    def forward(self, *inputs, **options):
        return joined(self.subject.forward(*inputs, **options))

    def backward(self, dy, saved):
        return self.subject.backward(*cut(dy, saved))

    def named_parameters(self):
        return self._parameters.items()


class FunctionPair:
    """`f` and `f_backward`: y, saved = f(*inputs), and f_backward(dy, saved).

    If f returns y alone, saved is what came in: f_backward(dy, *inputs), with those of the options
    that it has a name for.
    """

    def __init__(self, function, gradient):
        self.subject, self.gradient = (function, gradient), gradient
        self.name = getattr(function, "__name__", type(function).__name__)
        self.input_names = positional_names(function)
        self.takes = set(positional_names(gradient, keywords=True))

    def forward(self, *inputs, **options):
        result = self.subject[0](*inputs, **options)
        if isinstance(result, tuple) and len(result) == 2:
            return joined(result)
        known = {name: value for name, value in options.items() if name in self.takes}
        return joined((result, _Arguments(inputs, known)))

    def backward(self, dy, saved):
        dy, saved = cut(dy, saved)
        if isinstance(saved, _Arguments):
            return self.gradient(dy, *saved.inputs, **saved.options)
        return self.gradient(dy, saved)

    def named_parameters(self):
        return ()


class _Arguments:
    """What a function that saves nothing was called with."""

    def __init__(self, inputs, options):
        self.inputs, self.options = inputs, options


class _Parts:
    """The shapes of several outputs, and what the layer itself saved."""

    def __init__(self, shapes, saved):
        self.shapes, self.saved = shapes, saved


def joined(result):
    """(y, saved) with several outputs joined to one vector; any other result as it is."""
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], (tuple, list))
            and result[0] and all(isinstance(y, (np.ndarray, np.generic)) for y in result[0])):
        return result
    outputs, saved = result
    y = np.concatenate([np.ravel(y) for y in outputs])
    return y, _Parts([np.shape(y) for y in outputs], saved)


def cut(dy, saved):
    """The (dy, saved) that the layer itself knows."""
    if not isinstance(saved, _Parts):
        return dy, saved
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in saved.shapes])
    parts = np.split(dy, ends[:-1])
    return tuple(part.reshape(shape) for part, shape in zip(parts, saved.shapes)), saved.saved


def positional_names(function, keywords=False):
    """Names of the positional arguments of a function; none where they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = [inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD]
    kinds += [inspect.Parameter.KEYWORD_ONLY] * keywords
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


class ArrayWithGradient:
    """The attributes `w` and `dw` of an object, as a parameter."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name

    data = property(lambda self: getattr(self.owner, self.name),
                    lambda self, value: setattr(self.owner, self.name, value))
    grad = property(lambda self: getattr(self.owner, f"d{self.name}"),
                    lambda self, value: setattr(self.owner, f"d{self.name}", value))


def _found_parameters(part, name, seen):
    """(dotted name, parameter) of everything in the tree that has `data` and `grad`, once."""
    if id(part) in seen or isinstance(part, (str, bytes, np.ndarray, type)):
        return
    seen.add(id(part))
    if hasattr(part, "data") and hasattr(part, "grad"):
        yield name, part
        return
    if isinstance(part, dict):
        children = part.items()
    elif isinstance(part, (list, tuple)):
        children = enumerate(part)
    elif hasattr(part, "forward") and hasattr(part, "__dict__"):
        children = vars(part).items()
        for key, x in children:
            gradient = vars(part).get(f"d{key}")
            if isinstance(x, np.ndarray) and np.shape(gradient) == x.shape \
                    and isinstance(gradient, np.ndarray):
                yield f"{name}.{key}" if name else key, ArrayWithGradient(part, key)
    else:
        return
    for key, child in children:
        yield from _found_parameters(child, f"{name}.{key}" if name else str(key), seen)
