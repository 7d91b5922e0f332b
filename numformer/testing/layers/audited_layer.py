"""A layer that keeps what its backward needs on itself, seen as one that returns it.

`gradcheck` calls forward and backward of the contract: what a forward leaves on the layer is its
`saved`, a copy of the layer.
"""

import copy

import numpy as np

from numformer.testing.layers.numpy_layer import slots_of
from numformer.testing.layers.running import is_float
from numformer.verify.adapters import positional_names


class KeptLayer:
    """An object with `forward(x)` and `backward(dy)`, of which copies run.

    Parameters
    ----------
    layer : object
        Its parameters are the arrays whose gradients are found after a backward, as `NumpyLayer`
        finds them.
    inputs : list of ndarray
        For a first run.
    options : dict
        Keyword arguments of its forward.
    """

    def __init__(self, layer, inputs, options=None):
        self.layer, self.name = copy.deepcopy(layer), type(layer).__name__
        self.input_names = positional_names(layer.forward)
        first = copy.deepcopy(layer)
        y = first.forward(*inputs, **(options or {}))
        y = y[0] if isinstance(y, tuple) else y
        first.backward(np.ones_like(y))
        with_gradient = {name for name, slot in slots_of(first) if slot.gradient() is not None}
        self.slots = {name: slot for name, slot in slots_of(self.layer) if name in with_gradient}
        self._parameters = {name: _Kept(slot) for name, slot in self.slots.items()}

    def forward(self, *inputs, **options):
        used = copy.deepcopy(self.layer)
        y = used.forward(*inputs, **options)
        return (y[0] if isinstance(y, tuple) else y), used

    def backward(self, dy, used):
        used = copy.deepcopy(used)
        found = dict(slots_of(used))
        for slot in found.values():
            slot.clear()
        dx = used.backward(dy)
        for name, parameter in self._parameters.items():
            gradient = found[name].gradient()
            if gradient is not None:
                parameter.grad += gradient
        return dx

    def named_parameters(self):
        return self._parameters.items()


class _Kept:
    """A parameter: an array of a layer, and a gradient that is added up here."""

    def __init__(self, slot):
        self.slot = slot
        self.grad = np.zeros(slot.data.shape)

    data = property(lambda self: self.slot.data, lambda self, value: self.slot.set(value))


def keeps(layer, inputs, options=None):
    """Whether a layer keeps what its backward needs on itself: that takes dy alone."""
    names = positional_names(layer.backward)
    if len(names) > 1:
        return False
    returned = copy.deepcopy(layer).forward(*inputs, **(options or {}))
    return len(names) == 1 or not (isinstance(returned, tuple) and len(returned) == 2)


def without_gradient(layer, named, run):
    """Arrays of a layer that are no parameters, but on which y depends.

    Parameters
    ----------
    layer : object
    named : set of str
        Its parameters.
    run : callable
        Takes a layer and returns y.
    """
    found, y = [], run(copy.deepcopy(layer))
    for name, slot in slots_of(layer):
        if name in named or not is_float(slot.data) or not slot.data.size:
            continue
        other = copy.deepcopy(layer)
        dict(slots_of(other))[name].data[...] += 0.1
        if np.shape(run(other)) == np.shape(y) and not np.array_equal(run(other), y, True):
            found.append(name)
    return found
